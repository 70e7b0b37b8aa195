// ShardLifecycle: decides what becomes of a node's shards, and does it, step by step, until the node holds what the
// shard map says.
//
//     ShardNews { map, views adopted, copies, ... } --> step():
//
//       wanted, not held    worker.expect  ...opening...  open or create the database   worker.serve
//       held, other epoch   worker.expect (the new epoch)
//       held, not wanted    worker.remove ... last request done ... ShardNews::released: close the database
//       on disk, dropped    delete the database                           (rules: shard_plan.h)
//       all wanted served   map_applied(revision)
//       copied from a peer  worker.remove ... close, delete the database, take the copy, open it
//
// A replica (of a table with replicas) is opened with the last view that is durable here, and is then told the view of
// the map. Views that replicas adopt are persisted (view_file.h), many at a time.
//
// To move between workers of the node, a shard is removed from the first worker, closed, and opened for the second one.
// A shard that cannot be opened is tried again by later steps. Clients and the control plane are told why.
//
// The lifecycle has no thread and no clock. shard_manager.h drives it on a thread that may wait for disks; the
// cluster's simulation drives it by events.
#ifndef SKUA_KVSTORE_NODE_SHARD_LIFECYCLE_H_
#define SKUA_KVSTORE_NODE_SHARD_LIFECYCLE_H_

#include <cstdint>
#include <map>
#include <memory>
#include <optional>
#include <set>
#include <string>
#include <vector>

#include "absl/status/status.h"
#include "control/core/shard_map.h"
#include "kvstore/memory/memory_shards.h"
#include "kvstore/node/node_state.h"
#include "kvstore/node/shard_plan.h"
#include "kvstore/node/unsynced_shards.h"
#include "kvstore/node/view_file.h"
#include "kvstore/storage/durable_files.h"
#include "kvstore/storage/rocksdb_engine.h"
#include "kvstore/types/node_log.h"
#include "kvstore/worker/worker_commands.h"

namespace skua::kv {

/// A shard that this node must serve or hold a replica of, but cannot open.
struct UnservedShard {
  absl::Status why;
  bool tried_again = false;  ///< by later steps; false: not before the node is restarted
};

/// What replicas have to say of writes that they acknowledge without a sync (unsynced_shards.h).
struct UnsyncedNews {
  std::set<ShardId> allowed;   ///< they are about to acknowledge such writes
  std::set<ShardId> doubted;   ///< their log failed after that, so they are in doubt
  std::set<ShardId> restored;  ///< the doubt about them is over

  [[nodiscard]] bool empty() const { return allowed.empty() && doubted.empty() && restored.empty(); }
};

/// What has happened since the last step.
struct ShardNews {
  std::shared_ptr<const control::ShardMap> map;  ///< newer than the last one; null: there is no newer one
  ShardViews adopted;                            ///< views that replicas have adopted
  UnsyncedNews unsynced;
  std::map<ShardId, std::string>
      copies;                     ///< verified copies, and their paths: each replaces its shard's data and is removed
  std::vector<ShardId> released;  ///< nobody uses these databases any more

  [[nodiscard]] bool empty() const {
    return map == nullptr && adopted.empty() && unsynced.empty() && copies.empty() && released.empty();
  }
};

/// What the lifecycle needs from the rest of the node. Called inside step(), but for released_by_worker().
class ShardLifecycleHost {
 public:
  /// The database is open, and stays open until ShardNews::released names it.
  virtual void database_opened(ShardId id, ShardDb& db, uint32_t worker) = 0;
  /// The worker does not use the database any more. ShardNews::released follows when nobody else does either. Thread:
  /// the worker's; must not block.
  virtual void released_by_worker(ShardId id) = 0;
  /// Views that have arrived since the step began. Opening many shards takes long, and replicas wait for these.
  virtual ShardViews take_adopted() = 0;
  /// Makes the copy at `path` the database of the shard, which has no database at that moment.
  [[nodiscard]] virtual absl::Status ingest_copy(ShardId id, const std::string& path) = 0;
  /// Removes the copy at `path`.
  [[nodiscard]] virtual absl::Status discard_copy(const std::string& path) = 0;
  /// Every shard that the map wants here is served.
  virtual void map_applied(uint64_t revision) = 0;
  /// Shards of the newest map acted upon that cannot be opened.
  virtual void unserved_changed(const std::map<ShardId, UnservedShard>& unserved) = 0;

 protected:
  ~ShardLifecycleHost() = default;
};

/// Thread: one at a time. step() waits for disks.
class ShardLifecycle {
 public:
  struct Options {
    std::string node_uuid;
    std::string cluster_id;
    std::string shards_dir;               ///< of the databases; exists
    const DurableFiles* files = nullptr;  ///< of the data directory; outlives the lifecycle
    /// Content of the state file.
    NodeState state;
    /// Shards that must not be opened until the node is restarted, and why (recovery.h). Exception: if such a replica
    /// becomes a learner, its data are deleted and it starts empty.
    std::map<ShardId, absl::Status> refused{};
    /// Content of the view file.
    ShardViews views{};
    /// Outlives the lifecycle, which alone uses it meanwhile.
    UnsyncedShards* unsynced = nullptr;
    /// Of each worker. One more cannot be opened.
    size_t shards_per_worker_max = MemoryShards::kShardsMax;
    NodeLog log = [](LogSeverity, const std::string&) {};
  };

  /// The workers (by index), the engine and `node` outlive the lifecycle.
  ShardLifecycle(Options options, RocksdbEngine& engine, std::vector<WorkerCommands*> workers,
                 ShardLifecycleHost& node);
  ShardLifecycle(const ShardLifecycle&) = delete;
  ShardLifecycle& operator=(const ShardLifecycle&) = delete;

  /// Takes the news, and does what follows from them and what failed before. True: the node holds what the map says.
  /// False: call it again after a pause, also without news.
  bool step(ShardNews news);

 private:
  enum class Phase : uint8_t { kOpening, kServing, kFailed, kLeaving };
  struct Local {
    uint64_t epoch = 0;
    uint32_t worker = 0;
    Phase phase = Phase::kOpening;
    std::unique_ptr<ShardDb> db;
    std::optional<View> view;  // the view of the map that the worker was told last
  };

  [[nodiscard]] bool reconcile();
  [[nodiscard]] absl::Status remember_revision();
  void take_leave(const std::vector<WantedShard>& wanted);
  void take_in(const std::vector<WantedShard>& wanted);
  void tell_peers();
  [[nodiscard]] bool tell_views(const std::vector<WantedShard>& wanted);
  [[nodiscard]] bool open_all(const std::vector<WantedShard>& wanted);
  [[nodiscard]] bool open(const WantedShard& shard, Local& local);
  [[nodiscard]] absl::Status has_place(uint32_t worker) const;
  [[nodiscard]] absl::StatusOr<std::unique_ptr<ShardDb>> open_database(const WantedShard& shard);
  void cannot_open(const WantedShard& shard, Local& local, const absl::Status& why);
  void note_made(const std::vector<WantedShard>& wanted);
  void note_unserved(const std::vector<WantedShard>& wanted, const absl::Status& why);
  void note_served(ShardId id);
  void note_waiting(ShardId id, const absl::Status& why);
  void leave(ShardId id, Local& local);
  [[nodiscard]] bool forget_dropped(const DropEvidence& evidence);
  [[nodiscard]] bool delete_dropped();
  [[nodiscard]] absl::Status destroy(ShardId id);

  void begin_replacing(ShardId id, const std::string& path);
  [[nodiscard]] absl::Status finish_replacing(ShardId id);
  void drop_replacements(const std::vector<WantedShard>& wanted);

  [[nodiscard]] bool is_given_up(const WantedShard& shard) const;
  [[nodiscard]] absl::Status take_fork(const WantedShard& shard);
  [[nodiscard]] absl::Status drop_damaged(const WantedShard& shard);
  [[nodiscard]] bool write_down(ShardViews adopted);
  [[nodiscard]] bool write_down_unsynced(UnsyncedNews arrived);
  void log(LogSeverity severity, const std::string& line) const { options_.log(severity, line); }

  const Options options_;
  RocksdbEngine& engine_;
  const std::vector<WorkerCommands*> workers_;
  ShardLifecycleHost& node_;

  NodeState state_;
  bool settled_ = true;
  std::shared_ptr<const control::ShardMap> map_;
  std::shared_ptr<const control::ShardMap> peers_of_;  // the map whose nodes the workers were told
  uint64_t applied_revision_ = 0;
  std::map<ShardId, Local> local_;
  std::map<ShardId, std::string> replacements_;  // paths of the copies
  std::map<ShardId, absl::Status> refused_;
  std::map<ShardId, UnservedShard> unserved_;
  ShardViews views_;
  ShardViews unwritten_;
  UnsyncedNews unsynced_unwritten_;
};

}  // namespace skua::kv

#endif  // SKUA_KVSTORE_NODE_SHARD_LIFECYCLE_H_
