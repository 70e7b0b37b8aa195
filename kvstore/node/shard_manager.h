// ShardManager: the thread on which a node's shards are opened, closed and deleted (shard_lifecycle.h).
//
//     ShardMapCache --set_map-----------+
//     replicas --tell-------------------+--> ShardNews --> the manager's thread: ShardLifecycle::step()
//     workers --a shard is released-----+                        |
//     other threads <--with_db()-- open databases <--opened------+
//
// The thread may wait for disks; workers may not. After a step that could not do everything, the next step comes after
// a pause (Options::reopen_pause_ns) or with the next news.
#ifndef SKUA_KVSTORE_NODE_SHARD_MANAGER_H_
#define SKUA_KVSTORE_NODE_SHARD_MANAGER_H_

#include <condition_variable>
#include <cstdint>
#include <functional>
#include <map>
#include <memory>
#include <mutex>
#include <string>
#include <thread>
#include <vector>

#include "absl/functional/function_ref.h"
#include "absl/status/status.h"
#include "control/core/shard_map.h"
#include "kvstore/node/shard_lifecycle.h"
#include "rpc/base/clock.h"

namespace skua::kv {

/// Pause between attempts to open a shard's database, and between attempts to recover on a full disk.
inline constexpr DurationNs kReopenPauseNs = 5 * kSecond;

class ShardManager final : private ShardLifecycleHost {
 public:
  struct Options {
    ShardLifecycle::Options lifecycle;
    /// Every shard that this map wants here is served. Called on the manager's thread.
    std::function<void(uint64_t revision)> on_applied;
    /// ShardLifecycleHost::ingest_copy(). Called on the manager's thread.
    std::function<absl::Status(ShardId, const std::string& path)> ingest{};
    DurationNs reopen_pause_ns = kReopenPauseNs;
  };

  /// The workers (by index) outlive the manager's thread. The engine outlives the manager.
  ShardManager(Options options, RocksdbEngine& engine, std::vector<WorkerCommands*> workers);
  /// Ends the thread and closes the databases. The workers must have stopped.
  ~ShardManager() { stop(); }
  ShardManager(const ShardManager&) = delete;
  ShardManager& operator=(const ShardManager&) = delete;

  /// Starts the thread. May be called once.
  void start();
  /// Hands in the newest map. A map that is not newer than the last one is ignored. Thread: any.
  void set_map(std::shared_ptr<const control::ShardMap> map);
  /// Adds to the news for the next step (see ShardNews): `what` is called once, with the mutex held. Views, and what is
  /// allowed of unsynced writes, are made durable, and the replicas are told so. Thread: any.
  void tell(absl::FunctionRef<void(ShardNews&)> what);
  /// Calls `use` with the database of the shard and the index of its worker. The database stays open during the call.
  /// Returns the status of `use`; NOT_FOUND: the shard is not open. Thread: any that may wait, except the manager's.
  absl::Status with_db(ShardId id, absl::FunctionRef<absl::Status(ShardDb&, uint32_t worker)> use);
  /// Shards of the newest map acted upon that cannot be opened. Thread: any.
  [[nodiscard]] std::map<ShardId, UnservedShard> unserved();
  /// Ends the thread. Shards stay served. Idempotent.
  void stop();

 private:
  /// An open database, and how many callers of with_db() use it.
  struct OpenDatabase {
    ShardDb* db = nullptr;
    uint32_t worker = 0;
    int users = 0;
    bool released = false;  // by its worker
  };

  // ShardLifecycleHost
  void database_opened(ShardId id, ShardDb& db, uint32_t worker) override;
  void released_by_worker(ShardId id) override;
  ShardViews take_adopted() override;
  absl::Status ingest_copy(ShardId id, const std::string& path) override { return options_.ingest(id, path); }
  absl::Status discard_copy(const std::string& path) override;
  void map_applied(uint64_t revision) override { options_.on_applied(revision); }
  void unserved_changed(const std::map<ShardId, UnservedShard>& unserved) override;

  void run();
  void note_released(ShardId id);

  const Options options_;
  ShardLifecycle lifecycle_;  // used by the manager's thread only

  std::mutex mutex_;  // guards the members up to stopping_
  std::condition_variable changed_;
  ShardNews news_;
  uint64_t map_revision_ = 0;  // of the newest map that was handed in
  std::map<ShardId, OpenDatabase> open_;
  std::map<ShardId, UnservedShard> unserved_;
  bool stopping_ = false;

  std::thread thread_;
};

}  // namespace skua::kv

#endif  // SKUA_KVSTORE_NODE_SHARD_MANAGER_H_
