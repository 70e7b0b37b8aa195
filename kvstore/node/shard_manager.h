// ShardManager: opens, closes and deletes shards until the node holds what the shard map says.
//
//     ShardMapCache --set_map--> [ newest map ] --> manager's thread: reconcile
//                                                       |
//       wanted, not held    host.expect  ...opening...  open or create the database   host.serve
//       held, other epoch   host.expect (the new epoch)
//       held, not wanted    host.remove ... last request done (on_idle) ... close the database
//       on disk, dropped    delete the database                           (rules: shard_plan.h)
//       all wanted served   on_applied(revision)
//       copied from a peer  host.remove ... close, delete the database, install the copy, open it   (replace())
//
// A replica (of a table with replicas) is opened with the last view that is durable here, and is then told the view of
// the map. Views that replicas adopt are persisted (view_file.h) on this thread, many at a time.
//
// Databases are opened, closed and deleted on this one thread. It may wait for disks; workers may not. To move between
// workers of the node, a shard is removed from the first worker, closed, and opened for the second one. A shard that
// cannot be opened is tried again every kReopenPauseNs. Clients and the control plane are told why.
#ifndef SKUA_KVSTORE_NODE_SHARD_MANAGER_H_
#define SKUA_KVSTORE_NODE_SHARD_MANAGER_H_

#include <condition_variable>
#include <cstdint>
#include <functional>
#include <map>
#include <memory>
#include <mutex>
#include <optional>
#include <set>
#include <string>
#include <thread>
#include <vector>

#include "absl/functional/function_ref.h"
#include "absl/status/status.h"
#include "control/core/shard_map.h"
#include "kvstore/node/node_limits.h"
#include "kvstore/node/node_state.h"
#include "kvstore/node/shard_plan.h"
#include "kvstore/node/unsynced_shards.h"
#include "kvstore/node/view_file.h"
#include "kvstore/storage/rocksdb_engine.h"
#include "kvstore/storage/shard_files.h"
#include "kvstore/types/node_log.h"
#include "kvstore/worker/shard_host.h"
#include "rpc/base/clock.h"

namespace skua::kv {

/// A shard that this node must serve or hold a replica of, but cannot open.
struct UnservedShard {
  absl::Status why;
  bool tried_again = false;  ///< every kReopenPauseNs; false: not before the node is restarted
};

class ShardManager {
 public:
  struct Options {
    /// Holds the file `state` and the databases in `shards/`. `shards/` must exist.
    std::string data_dir;
    std::string node_uuid;
    std::string cluster_id;
    /// Content of the state file.
    NodeState state;
    /// Shards that must not be opened until the node is restarted, and why (recovery.h). Exception: if such a replica
    /// becomes a learner, its data are deleted and it starts empty.
    std::map<ShardId, absl::Status> refused{};
    /// Every shard that this map wants here is served. Called on the manager's thread.
    std::function<void(uint64_t revision)> on_applied;
    /// Content of the view file.
    ShardViews views{};
    /// Outlives the manager. While the manager's thread runs, only that thread uses it.
    UnsyncedShards* unsynced = nullptr;
    NodeLog log;
    DurationNs reopen_pause_ns = kReopenPauseNs;
    /// Makes the copy at `path` the database of the shard, which has no database at that moment. Called on the
    /// manager's thread.
    std::function<absl::Status(ShardId, const std::string& path)> ingest{};
  };

  /// The hosts (by worker index) outlive the manager's thread. The engine outlives the manager.
  ShardManager(Options options, RocksdbEngine& engine, std::vector<ShardHost*> hosts);
  /// Calls stop(), then closes the databases. Before that the hosts' threads must have ended, or hold no shards.
  ~ShardManager();
  ShardManager(const ShardManager&) = delete;
  ShardManager& operator=(const ShardManager&) = delete;

  /// Starts the thread. May be called once.
  void start();
  /// Hands in the newest map. A map that is not newer than the last one is ignored. Thread: any.
  void set_map(std::shared_ptr<const control::ShardMap> map);
  /// A replica has adopted this view. The manager makes the view durable and tells the replica so. Thread: any.
  void persist_view(ShardId id, const View& view);
  /// A replica is about to acknowledge unsynced writes. The manager records that (UnsyncedShards) and tells the
  /// replica. Thread: any.
  void allow_unsynced(ShardId id);
  /// The log of a replica failed after allow_unsynced(), so the replica is in doubt. Thread: any.
  void put_in_doubt(ShardId id);
  /// The doubt about a replica is over: the replica lacks nothing. Thread: any.
  void restored(ShardId id);
  /// The verified copy at `path` replaces the data of the shard; then the directory at `path` is removed. Thread: any.
  void replace(ShardId id, const std::string& path);
  /// Calls `use` with the database of the shard and the index of its worker. The database stays open during the call.
  /// Returns the status of `use`; NOT_FOUND: the shard is not open. Thread: any that may wait, except the manager's.
  absl::Status with_db(ShardId id, absl::FunctionRef<absl::Status(ShardDb&, uint32_t worker)> use);
  /// Shards of the newest map acted upon that cannot be opened. Thread: any.
  [[nodiscard]] std::map<ShardId, UnservedShard> unserved();
  /// Ends the thread. Shards stay served. Idempotent.
  void stop();

  /// Directory of the databases.
  [[nodiscard]] static std::string shards_dir(const std::string& data_dir) { return files::shards_dir(data_dir); }

 private:
  enum class Phase : uint8_t { kOpening, kServing, kFailed, kLeaving };
  struct Local {
    uint64_t epoch = 0;
    uint32_t worker = 0;
    Phase phase = Phase::kOpening;
    std::unique_ptr<ShardDb> db;
    std::optional<View> view;  // the view of the map that the worker was told last
  };

  /// An open database, and how many callers of with_db() use it.
  struct Lent {
    ShardDb* db = nullptr;
    uint32_t worker = 0;
    int users = 0;
  };

  void run();
  [[nodiscard]] bool has_closable() const;
  [[nodiscard]] std::vector<ShardId> take_closable();
  void leave(ShardId id, Local& local);
  void begin_replacing(ShardId id, const std::string& path);
  [[nodiscard]] absl::Status finish_replacing(ShardId id);
  void drop_replacements(const std::vector<WantedShard>& wanted);
  /// True once the node holds what the map says.
  bool reconcile();
  [[nodiscard]] absl::Status remember_revision();
  void take_leave(const std::vector<WantedShard>& wanted);
  void take_in(const std::vector<WantedShard>& wanted);
  bool open_all(const std::vector<WantedShard>& wanted);
  bool open(const WantedShard& shard, Local& local);
  void cannot_open(const WantedShard& shard, Local& local, const absl::Status& why);
  void note_unserved(const std::vector<WantedShard>& wanted, const absl::Status& why);
  bool delete_dropped();
  void tell_views(const std::vector<WantedShard>& wanted);
  void tell_peers();
  [[nodiscard]] bool is_given_up(const WantedShard& shard) const;
  [[nodiscard]] absl::Status take_fork(const WantedShard& shard);
  [[nodiscard]] absl::Status drop_damaged(const WantedShard& shard);
  bool write_down(ShardViews adopted);
  bool write_down_adopted();
  bool write_down_unsynced();
  [[nodiscard]] absl::Status destroy(ShardId id);
  void closed(ShardId id);
  void log(LogSeverity severity, const std::string& line) const;

  const Options options_;
  RocksdbEngine& engine_;
  const std::vector<ShardHost*> hosts_;
  const std::string dir_;

  std::mutex mutex_;  // guards the members up to stopping_: other threads hand in news there
  std::condition_variable changed_;
  std::shared_ptr<const control::ShardMap> newest_;
  std::vector<ShardId> idle_;
  ShardViews adopted_;
  struct UnsyncedNews {
    std::set<ShardId> allowed;
    std::set<ShardId> doubted;
    std::set<ShardId> restored;
    [[nodiscard]] bool empty() const { return allowed.empty() && doubted.empty() && restored.empty(); }
  };
  UnsyncedNews unsynced_news_;
  std::map<ShardId, std::string> copies_;
  std::map<ShardId, Lent> lent_;
  std::map<ShardId, UnservedShard> unserved_;
  bool stopping_ = false;

  // Used by the manager's thread only.
  NodeState state_;
  std::shared_ptr<const control::ShardMap> map_;
  std::map<ShardId, Local> local_;
  std::map<ShardId, std::string> replacements_;  // paths of the copies
  std::map<ShardId, absl::Status> refused_;
  uint64_t applied_revision_ = 0;
  ShardViews views_;
  ShardViews unwritten_;
  UnsyncedNews unsynced_unwritten_;
  std::shared_ptr<const control::ShardMap> peers_of_;

  std::thread thread_;
};

}  // namespace skua::kv

#endif  // SKUA_KVSTORE_NODE_SHARD_MANAGER_H_
