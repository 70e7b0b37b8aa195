// Tables, for programs that make their own. Blocking, by way of the control plane.
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

namespace skua::kv {

struct TableInfo {
  uint64_t id = 0;
  std::string name;
  uint32_t shard_count = 0;
  /// Shards whose primary is alive and serves its data.
  uint32_t available_shard_count = 0;
  /// Members that each shard should have.
  uint32_t replicas = 1;
  /// Writes are acknowledged only while a shard has at least so many members.
  uint32_t min_insync = 1;
  bool read_anywhere = false;
  /// Shards with all their members, on live nodes that are to keep them.
  uint32_t settled_shard_count = 0;
};

struct NewTable {
  std::string name;
  /// Fixed for the table's life; 0: a few for each worker of the cluster.
  uint32_t shard_count = 0;
  /// A table that exists with this shard count (or any, if 0) is an answer, not an error.
  bool if_not_exists = false;
  /// On as many nodes, 1 to 5; 0: one, or whatever an existing table has.
  uint32_t replicas = 0;
  /// 1 to `replicas`; 0: more than half of them, or whatever an existing table has.
  uint32_t min_insync = 0;
  /// Backups may answer linearizable reads.
  bool read_anywhere = false;
  /// Return only when the owners serve the table, but no later than this.
  std::chrono::milliseconds wait_ready{5000};
};

struct CreatedTable {
  TableInfo table;
  /// False: it existed.
  bool created = false;
  /// False: wait_ready was too short; these nodes (uuids) do not serve their shards yet.
  bool ready = false;
  std::vector<std::string> waiting_for;
};

/// Every call is tried once, within the timeout (create_table: plus its wait). Errors: the control
/// plane's own, which say what to do, or UNAVAILABLE / DEADLINE_EXCEEDED naming its address. Thread:
/// any.
class Admin {
 public:
  explicit Admin(const std::string& control_address,
                 std::chrono::milliseconds timeout = std::chrono::milliseconds(5000));
  ~Admin();
  Admin(const Admin&) = delete;
  Admin& operator=(const Admin&) = delete;

  /// ALREADY_EXISTS; INVALID_ARGUMENT (name, shard count, replicas); FAILED_PRECONDITION (too few live nodes).
  absl::StatusOr<CreatedTable> create_table(const NewTable& table);
  absl::StatusOr<std::vector<TableInfo>> list_tables();
  /// What is wrong with the cluster as a whole, a sentence or more each, as `skuactl status` prints it.
  absl::StatusOr<std::vector<std::string>> troubles();
  /// Out of the shard map when this returns; nodes delete its data soon after. NOT_FOUND.
  absl::Status drop_table(std::string_view name);

 private:
  struct Impl;
  const std::unique_ptr<Impl> impl_;
};

}  // namespace skua::kv

#endif  // SKUA_KVSTORE_CLIENT_ADMIN_H_
