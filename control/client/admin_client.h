// Tables and status for operators: what skuactl, tests and drivers ask the control plane for.
// Blocking.
#ifndef SKUA_CONTROL_CLIENT_ADMIN_CLIENT_H_
#define SKUA_CONTROL_CLIENT_ADMIN_CLIENT_H_

#include <cstdint>
#include <memory>
#include <string>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "control/core/cluster_core.h"
#include "control/core/program_security.h"
#include "control/core/shard_map.h"
#include "control/security/credentials.h"
#include "rpc/base/clock.h"

namespace skua::control {

struct TableSummary {
  Table table;
  /// Shards whose primary is alive.
  uint32_t available_shard_count = 0;
  /// Shards with all their members, on live nodes that are to keep them.
  uint32_t settled_shard_count = 0;
};

struct CreateTableOptions {
  std::string name;
  /// 0: a few per live worker.
  uint32_t shard_count = 0;
  /// An existing table with this shard count (or any, if 0) is an answer, not an error.
  bool if_not_exists = false;
  /// Wait until the owners serve the table, but no longer than this. 0: do not wait.
  uint32_t wait_ready_ms = 0;
  /// 0: one.
  uint32_t replicas = 0;
  /// 0: more than half of the replicas.
  uint32_t min_insync = 0;
  bool read_anywhere = false;
  /// FAILED_PRECONDITION if the control plane is of a build that does not know hash tags: the table is made without.
  bool hash_tags = false;
};

struct CreatedTable {
  TableSummary table;
  /// False: it existed.
  bool created = false;
  uint64_t map_revision = 0;
  /// Every owner serves the table.
  bool ready = false;
  /// Otherwise: uuids of the nodes that do not yet.
  std::vector<std::string> waiting_for;
};

struct ClusterStatus {
  struct Node {
    NodeInfo info;
    Liveness liveness = Liveness::kUnknown;
    /// Since the last sign of life.
    DurationNs silent_ns = 0;
    uint64_t applied_revision = 0;
    uint32_t owned_shard_count = 0;
    /// Of tables with one replica: a drain leaves them on the node.
    uint32_t staying_shard_count = 0;
    /// As member or learner.
    uint32_t replica_count = 0;
    /// Of a draining node: what is left. Empty when the node is.
    std::string drain_progress;
    /// What keeps it from doing all its work, for people; empty: nothing.
    std::string trouble;
    /// Copies of shards that it is making; not all, if they are many.
    std::vector<CopyReport> copies;
    /// Shards that it has a part in and cannot open, all of them; `why` is empty for some if they are many.
    std::vector<ShardRef> unserved;
    /// Whom it lets in, as its last heartbeat said.
    ProgramSecurity security{};
  };

  std::string cluster_id;
  std::string cluster_name;
  uint64_t map_revision = 0;
  std::vector<Node> nodes;
  std::vector<TableSummary> tables;
  VersionRange versions;
  DurationNs uptime_ns = 0;
  uint32_t watcher_count = 0;
  /// Of these, those that showed no certificate.
  uint32_t anonymous_watcher_count = 0;
  /// What is wrong with the cluster, such as a shard that nobody serves: what, why, what to do.
  std::vector<std::string> troubles;
  /// What nothing depends on, but somebody may want to do, such as removing a node that is gone and holds nothing.
  std::vector<std::string> hints;
  /// Whom the control process that answered lets in.
  ProgramSecurity security{};
};

struct JoinTokenSummary {
  std::string token_id;
  /// Whose certificate it gives: "node/<uuid>".
  std::string principal;
  int64_t expires_s = 0;  ///< seconds since 1970
  bool used = false;
  /// The word itself, of one that was made now; else empty.
  std::string token{};
};

/// A certificate, and whom the control plane believes, as PEM texts.
struct IssuedText {
  std::string certificate;
  std::string authorities;
};

/// Every call is carried out once, by the control process that leads, which is looked for, and takes at
/// most the timeout (create_table: plus its wait). Errors are the control plane's own messages, or
/// UNAVAILABLE / DEADLINE_EXCEEDED naming its address. Thread: any.
class AdminClient {
 public:
  /// "host:port", or those of several control processes with commas between them. `credentials`: null, or what to show
  /// them; they must be of the same cluster then.
  explicit AdminClient(const std::string& control_address, DurationNs timeout_ns = 5 * kSecond,
                       CredentialsPtr credentials = nullptr);
  ~AdminClient();
  AdminClient(const AdminClient&) = delete;
  AdminClient& operator=(const AdminClient&) = delete;

  absl::StatusOr<CreatedTable> create_table(const CreateTableOptions& options);
  absl::StatusOr<std::vector<TableSummary>> list_tables();
  /// The revision of the first map without the table.
  absl::StatusOr<uint64_t> drop_table(const std::string& name);
  absl::StatusOr<ClusterStatus> status();
  absl::StatusOr<ShardMap> shard_map();
  /// Takes a node that has stopped out of the cluster. FAILED_PRECONDITION while it is alive, or
  /// while it owns shards unless `force`.
  absl::Status remove_node(const std::string& uuid, bool force);

  /// Makes a node empty, as far as others have room; status() tells how far it is.
  absl::Status drain_node(const std::string& uuid);
  absl::Status undrain_node(const std::string& uuid);
  /// Begins to move the replica on `from` to `to`.
  absl::Status move_shard(const std::string& table, uint32_t shard, const std::string& from, const std::string& to);
  absl::Status transfer_primary(const std::string& table, uint32_t shard, const std::string& to);
  /// Goes on with what `node` has of a shard that no member can serve; its newest writes may be lost.
  absl::Status recover_shard(const std::string& table, uint32_t shard, const std::string& node);
  /// Lets an identity ("client/app-7") in no longer, and lets it in again. Who is revoked: shard_map().
  absl::Status revoke_identity(const std::string& principal);
  absl::Status unrevoke_identity(const std::string& principal);
  /// Gives a client ("client/app-7") rights to a table, or takes them (control/core/grants.h). Who has which:
  /// shard_map(). `open_to_all`: it may be the table's last grant, without which all clients may use the table.
  absl::Status add_grant(const std::string& principal, const std::string& table, Rights rights);
  absl::Status remove_grant(const std::string& principal, const std::string& table, Rights rights,
                            bool open_to_all = false);
  /// Limits how much of each node a client may use (control/core/quotas.h), in place of the quota that it had. Who has
  /// which: shard_map().
  absl::Status set_quota(const std::string& principal, const Quota& quota);
  absl::Status remove_quota(const std::string& principal);

  /// A token that gives one certificate (control/core/join_tokens.h). `name` may be empty for a node: a new one.
  absl::StatusOr<JoinTokenSummary> create_join_token(const std::string& role, const std::string& name, uint32_t ttl_s);
  /// Those that have not expired.
  absl::StatusOr<std::vector<JoinTokenSummary>> join_tokens();
  absl::Status drop_join_token(const std::string& token_id);
  /// Another certificate for the identity of the credentials, for the key of the request (certificates.h).
  /// Over TLS only, on a connection of its own. FAILED_PRECONDITION, too: this client has no certificate.
  absl::StatusOr<IssuedText> renew_certificate(const std::string& request);

 private:
  class Impl;
  const std::unique_ptr<Impl> impl_;
};

}  // namespace skua::control

#endif  // SKUA_CONTROL_CLIENT_ADMIN_CLIENT_H_
