// Admin: creates, lists and drops tables. Blocking calls to the control plane.
#ifndef SKUA_KVSTORE_CLIENT_ADMIN_H_
#define SKUA_KVSTORE_CLIENT_ADMIN_H_

#include <chrono>
#include <cstdint>
#include <memory>
#include <string>
#include <string_view>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "control/security/credential_files.h"

namespace skua::kv {

struct TableInfo {
  uint64_t id = 0;
  std::string name;
  uint32_t shard_count = 0;
  /// Shards whose primary is alive and serves its data.
  uint32_t available_shard_count = 0;
  /// Number of members that each shard should have.
  uint32_t replicas = 1;
  /// A shard acknowledges writes only while it has at least this many members.
  uint32_t min_insync = 1;
  /// Backups answer reads, too, not only the primary.
  bool read_anywhere = false;
  /// The part of a key in braces decides which shard has the key.
  bool hash_tags = false;
  /// Shards that have all their members, on live nodes that are not being emptied.
  uint32_t settled_shard_count = 0;
};

struct NewTable {
  std::string name;
  /// Cannot be changed later. 0: a few for each worker of the cluster.
  uint32_t shard_count = 0;
  /// If a table of this name exists, return it instead of ALREADY_EXISTS, provided that it agrees with shard_count,
  /// replicas and min_insync, where these are not 0, and has read_anywhere and hash tags if these are wanted.
  bool if_not_exists = false;
  /// Each shard is on this many nodes, 1 to 5. 0: one, or the number that an existing table has.
  uint32_t replicas = 0;
  /// 1 to `replicas`. 0: more than half of them, or the number that an existing table has.
  uint32_t min_insync = 0;
  /// Backups answer reads, too. These reads are linearizable like those of the primary.
  bool read_anywhere = false;
  /// The part of a key in braces, {like-this}, decides which shard has the key: keys with one tag can be written
  /// together. Cannot be changed later.
  bool hash_tags = false;
  /// Return when all owners of the table's shards serve them, but after this time at the latest. 0: do not wait. At
  /// most one hour.
  std::chrono::milliseconds wait_ready{5000};
};

struct CreatedTable {
  TableInfo table;
  /// False: the table existed already.
  bool created = false;
  /// All owners serve their shards. False: wait_ready was too short.
  bool ready = false;
  /// If not ready: the uuids of the nodes that do not serve their shards yet.
  std::vector<std::string> waiting_for;
};

/// A call ends within the timeout (create_table: within the timeout plus `wait_ready`). If there are several control
/// processes, the call looks for the one that leads. A request that may have been executed is not repeated. Errors: the
/// control plane's own, which say what to do; UNAVAILABLE or DEADLINE_EXCEEDED if it does not answer, naming its
/// address. Thread: any.
class Admin {
 public:
  /// `control_address`, `credentials`: as in ClientOptions. If the credentials cannot be used, all calls fail and say
  /// why.
  explicit Admin(const std::string& control_address,
                 std::chrono::milliseconds timeout = std::chrono::milliseconds(5000),
                 const control::CredentialFiles& credentials = {});
  ~Admin();
  Admin(const Admin&) = delete;
  Admin& operator=(const Admin&) = delete;

  /// Errors: ALREADY_EXISTS; INVALID_ARGUMENT (name, shard count, replicas); FAILED_PRECONDITION (too few live nodes).
  absl::StatusOr<CreatedTable> create_table(const NewTable& table);
  absl::StatusOr<std::vector<TableInfo>> list_tables();
  /// What is wrong with the cluster as a whole, as `skuactl status` prints it. Each string is a sentence or more.
  absl::StatusOr<std::vector<std::string>> troubles();
  /// Removes the table from the shard map before it returns. Nodes delete the data soon after. NOT_FOUND: no such
  /// table.
  absl::Status drop_table(std::string_view name);

 private:
  struct Impl;
  const std::unique_ptr<Impl> impl_;
};

}  // namespace skua::kv

#endif  // SKUA_KVSTORE_CLIENT_ADMIN_H_
