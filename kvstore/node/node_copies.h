// NodeCopies: copies of shards on a node's disk. Snapshots of its own shards, which other nodes fetch
// (snapshot_source.h), and shards that it fetches from others (snapshot_copy.h).
//
//    DATA/snapshots/   made for others; nothing of them outlives the process
//    DATA/copies/      fetched; finish() makes those the shard's database that the last process was installing when it
//                      ended
//
// Thread: start() and stop_threads() are called by the node, one after the other. take() and build() by any thread in
// between, report() by one at a time.
#ifndef SKUA_KVSTORE_NODE_NODE_COPIES_H_
#define SKUA_KVSTORE_NODE_NODE_COPIES_H_

#include <cstdint>
#include <map>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "control/core/node_status.h"
#include "kvstore/node/node_options.h"
#include "kvstore/node/node_state.h"
#include "kvstore/snapshot/shard_copy.h"
#include "kvstore/snapshot/shard_snapshot.h"
#include "kvstore/snapshot/snapshot_copy.h"
#include "kvstore/snapshot/snapshot_source.h"
#include "kvstore/types/task_thread.h"
#include "kvstore/worker/worker_replication.h"
#include "rpc/base/clock.h"

namespace skua::kv {

/// Copies of shards that a node fetches at the same time.
inline constexpr int kCopiesMax = 2;

class NodeCopies {
 public:
  /// `export_fn` runs on a reader's thread. All arguments outlive it.
  NodeCopies(const NodeOptions& options, RocksdbEngine& engine, const Clock& clock, SnapshotSource::ExportFn export_fn)
      : options_(options), engine_(engine), clock_(clock), export_(std::move(export_fn)) {}

  /// Finishes what an earlier process left, and starts the threads. Shards that cannot be finished are `refused`. May
  /// be called again, after an attempt to recover that failed.
  [[nodiscard]] absl::Status start(const std::string& cluster_id, const NodeState& state,
                                   std::map<ShardId, absl::Status>& refused);
  /// The threads' last tasks are done afterwards, and there are no snapshots any more.
  void stop_threads();

  /// For a worker. Valid until the next start() or stop_threads().
  [[nodiscard]] CopyResources resources();
  [[nodiscard]] const ClusterId& cluster() const { return cluster_; }
  /// Makes the copy at `path` the shard's database.
  [[nodiscard]] absl::Status take(ShardId id, const std::string& path);
  /// Builds a shard's database in `directory` from the snapshot at `path`.
  [[nodiscard]] absl::StatusOr<std::unique_ptr<ShardCopy>> build(ShardId id, const std::string& path,
                                                                 const std::string& directory);
  /// A worker's copies have moved on. Returns what the control plane is told of the copies of all workers.
  [[nodiscard]] std::vector<control::CopyReport> report(uint32_t worker, const std::vector<CopyProgress>& copies);
  /// Trouble for people, or empty (SnapshotSource::slow_exports()).
  [[nodiscard]] std::string slow_exports() { return snapshots_->slow_exports(clock_.now_ns()); }

 private:
  [[nodiscard]] absl::Status finish(std::map<ShardId, absl::Status>& refused);
  [[nodiscard]] std::string directory() const { return options_.data_dir + "/copies"; }
  void log(LogSeverity severity, const std::string& line) const { options_.log(severity, line); }

  const NodeOptions& options_;
  RocksdbEngine& engine_;
  const Clock& clock_;
  const SnapshotSource::ExportFn export_;
  ClusterId cluster_{};
  std::unique_ptr<SnapshotSource> snapshots_;
  CopySlots slots_{kCopiesMax};
  std::unique_ptr<TaskThread> disk_;
  std::unique_ptr<TaskThread> builder_;
  std::map<uint32_t, std::vector<control::CopyReport>> reports_;  // by worker
};

}  // namespace skua::kv

#endif  // SKUA_KVSTORE_NODE_NODE_COPIES_H_
