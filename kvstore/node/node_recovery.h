// NodeRecovery: what a node does with its data directory before its workers start.
//
//    prepare()   counts this start in the state file, and removes leftovers
//    recover()   finishes copies, brings what the logs hold into the databases, reads views and what may be lost of
//                writes that were not synced. If a replica's data is damaged, the node gets a new storage incarnation,
//                so that others do not take it for the member that had the data
//
// If the disk is too full for that, the spare files of the logs are given up. recover() may be called again.
//
// Thread: one at a time. First start()'s of the node, then the one that the node registers on.
#ifndef SKUA_KVSTORE_NODE_NODE_RECOVERY_H_
#define SKUA_KVSTORE_NODE_NODE_RECOVERY_H_

#include <cstddef>
#include <cstdint>
#include <map>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "kvstore/node/node_copies.h"
#include "kvstore/node/node_options.h"
#include "kvstore/node/node_state.h"
#include "kvstore/node/unsynced_shards.h"
#include "kvstore/node/view_file.h"
#include "kvstore/peers/peer_identity.h"
#include "kvstore/storage/recovery.h"
#include "kvstore/worker/worker.h"
#include "rpc/base/clock.h"

namespace skua::kv {

/// What workers start with.
struct Recovered {
  std::vector<OpenLog> logs;                ///< by worker
  std::map<ShardId, absl::Status> refused;  ///< shards whose data cannot be served, and why
  ShardViews views;
};

class NodeRecovery {
 public:
  /// All outlive it.
  NodeRecovery(const NodeOptions& options, const DirectoryFiles& files, const Clock& clock)
      : options_(options), files_(files), clock_(clock) {}

  /// Must come before any other node hears of the new incarnation.
  [[nodiscard]] absl::Status prepare();
  /// RESOURCE_EXHAUSTED: the disk has too little room even without the logs' spare files.
  [[nodiscard]] absl::StatusOr<Recovered> recover(const std::string& cluster_id, RocksdbEngine& engine,
                                                  NodeCopies& copies);

  /// Valid after prepare(). recover() may raise the storage incarnation.
  [[nodiscard]] const NodeState& state() const { return state_; }
  /// Only after recover() has succeeded.
  [[nodiscard]] UnsyncedShards& unsynced() { return *unsynced_; }
  [[nodiscard]] bool has_recovered() const { return unsynced_.has_value(); }

 private:
  absl::Status count_start();
  [[nodiscard]] size_t give_up_all_spares();
  absl::StatusOr<Recovered> try_to_recover(const std::string& cluster_id, RocksdbEngine& engine, NodeCopies& copies);
  absl::Status recover_logs(const std::string& cluster_id, RocksdbEngine& engine, Recovered& out);
  /// A log that was read and is not recovered yet.
  struct ScannedLog {
    std::unique_ptr<Device> device;
    RecoveryOptions options;
    std::unique_ptr<LogRecovery> recovery;
    TimeNs took = 0;
  };
  absl::StatusOr<ScannedLog> scan_one(uint32_t number, const std::string& cluster_id, const ShardViews& views);
  void tell_findings(uint32_t number, const LogRecovery& recovery) const;
  absl::StatusOr<OpenLog> recover_one(uint32_t number, ScannedLog scanned, RocksdbEngine& engine, Recovered& out);
  absl::Status read_unsynced(const ShardViews& views);
  absl::Status disown_damaged(const Recovered& recovered);
  [[nodiscard]] ReplicaId self() const { return {node_id_of(options_.node_uuid), state_.storage_incarnation}; }
  void log(LogSeverity severity, const std::string& line) const { options_.log(severity, line); }

  const NodeOptions& options_;
  const DirectoryFiles& files_;
  const Clock& clock_;
  NodeState state_;
  std::optional<UnsyncedShards> unsynced_;
  bool spares_given_up_ = false;  // from then on logs are opened without new spares, and keep few
};

}  // namespace skua::kv

#endif  // SKUA_KVSTORE_NODE_NODE_RECOVERY_H_
