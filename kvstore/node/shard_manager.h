// ShardManager: makes the node hold what the shard map says.
//
//     ShardMapCache --set_map--> [ newest map ] --> manager's thread: reconcile
//                                                       |
//       wanted, not held    host.expect  ...opening...  open or create the database   host.serve
//       held, other epoch   host.expect (the new epoch)
//       held, not wanted    host.remove ... last request done (on_idle) ... close the database
//       on disk, dropped    delete the database                           (rules: shard_plan.h)
//       all wanted served   on_applied(revision)
//       copied from a peer  host.remove ... close, delete the database, ingest the copy, open it   (replace())
//
// A replica (of a table with replicas) is opened with the last view that was made durable here, and then told the map's. Views
// that replicas adopt are written down (view_file.h) on this thread, many at a time.
//
// Databases are opened, closed and deleted on this one thread: it may wait for disks, workers may not.
// A shard moves between workers of the node by being removed from one, closed, and opened for the
// other. One that cannot be opened is tried again every kReopenPauseNs; clients and the control plane are told why.
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

/// A shard that this node is to serve, or to hold a replica of, and that it cannot open.
struct UnservedShard {
  absl::Status why;
  bool tried_again = false;  ///< every kReopenPauseNs; else not in this life of the node
};

class ShardManager {
 public:
  struct Options {
    /// Holds `state`, and the databases in `shards/`, which must exist.
    std::string data_dir;
    std::string node_uuid;
    std::string cluster_id;
    /// What the data directory's state file says now.
    NodeState state;
    /// Shards that must not be opened in this life of the node, and why (recovery.h); a replica of them that learns begins anew.
    std::map<ShardId, absl::Status> refused{};
    /// Every shard that this map wants here is being served. On the manager's thread.
    std::function<void(uint64_t revision)> on_applied;
    /// What the data directory's view file says now.
    ShardViews views{};
    /// Outlives the manager, and is its thread's meanwhile.
    UnsyncedShards* unsynced = nullptr;
    NodeLog log;
    DurationNs reopen_pause_ns = kReopenPauseNs;
    /// Makes the snapshot at `path`, which stays, the shard's database; there is none.
    std::function<absl::Status(ShardId, const std::string& path)> ingest{};
  };

  /// The engine and the hosts (by worker index) outlive the manager's thread, the engine the manager.
  ShardManager(Options options, RocksdbEngine& engine, std::vector<ShardHost*> hosts);
  /// stop(); closes the databases. The hosts' threads must be gone, or hold no shards.
  ~ShardManager();
  ShardManager(const ShardManager&) = delete;
  ShardManager& operator=(const ShardManager&) = delete;

  /// Starts the thread. Once.
  void start();
  /// The newest map; one that is not newer than the last is ignored. Thread: any.
  void set_map(std::shared_ptr<const control::ShardMap> map);
  /// A replica has adopted this view: makes it durable and tells the replica. Thread: any.
  void persist_view(ShardId id, const View& view);
  /// A replica is about to acknowledge what is not synced: writes that down, and tells the replica. Thread: any.
  void allow_unsynced(ShardId id);
  /// A replica's log has failed after allow_unsynced(). Thread: any.
  void put_in_doubt(ShardId id);
  /// A replica that was in doubt lacks nothing any more. Thread: any.
  void restored(ShardId id);
  /// The snapshot at `path`, which is sound, takes the place of the shard's data, and is removed. Thread: any.
  void replace(ShardId id, const std::string& path);
  /// `use` gets the shard's database, which stays open meanwhile, and the worker it is on. NOT_FOUND: it is not open. Thread: any
  /// that may wait, but the manager's.
  absl::Status with_db(ShardId id, absl::FunctionRef<absl::Status(ShardDb&, uint32_t worker)> use);
  /// Of the newest map that was acted upon. Thread: any.
  [[nodiscard]] std::map<ShardId, UnservedShard> unserved();
  /// Ends the thread; shards stay served. Idempotent.
  void stop();

  /// Where the databases are.
  [[nodiscard]] static std::string shards_dir(const std::string& data_dir) { return files::shards_dir(data_dir); }

 private:
  enum class Phase : uint8_t { kOpening, kServing, kFailed, kLeaving };
  struct Local {
    uint64_t epoch = 0;
    uint32_t worker = 0;
    Phase phase = Phase::kOpening;
    std::unique_ptr<ShardDb> db;
    std::optional<View> view;  // of the map, as the worker was told
  };

  /// An open database, and how many others use it.
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
  /// True once everything is as the map says.
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

  std::mutex mutex_;  // guards what other threads hand in
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

  // The manager thread's.
  NodeState state_;
  std::shared_ptr<const control::ShardMap> map_;
  std::map<ShardId, Local> local_;
  std::map<ShardId, std::string> replacements_;  // the snapshots' paths
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
