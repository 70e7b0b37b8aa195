// Looks at the node's file system and at its workers' logs, five times a second, and tells workers and people.
//
//    free space below the reserve  ---> workers refuse what makes data grow; deletes, and what is under way, go on
//    free again (an eighth more)   ---> workers take writes again
//    a log failed                  ---> an error in the node's log, once per worker
//    a shard does not leave        ---> why
//    a database takes nothing      ---> which shards, why, and whether it is tried again; an error in the node's log when that changes
//    a shard cannot be opened      ---> which, why, and the way out (the shard manager logs it)
//    any of them                   ---> the node's trouble, which the control plane shows (skuactl status)
//
// The reserve is what logs, flushes and compactions need to go on while nothing grows. A database that meets the end of the disk
// all the same keeps what it was given, and goes on when there is room.
#ifndef SKUA_KVSTORE_NODE_STORAGE_WATCH_H_
#define SKUA_KVSTORE_NODE_STORAGE_WATCH_H_

#include <condition_variable>
#include <cstdint>
#include <functional>
#include <map>
#include <mutex>
#include <optional>
#include <set>
#include <string>
#include <thread>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "kvstore/node/shard_manager.h"
#include "kvstore/types/node_log.h"
#include "kvstore/worker/worker.h"

namespace skua::kv {

/// Decides whether data may grow. Pure.
class GrowthGate {
 public:
  GrowthGate(std::string directory, uint64_t reserve_bytes)
      : directory_(std::move(directory)), reserve_bytes_(reserve_bytes) {}

  /// What to tell the workers, if it changed: OK, or RESOURCE_EXHAUSTED saying what is full and the way out.
  [[nodiscard]] std::optional<absl::Status> look(uint64_t free_bytes);

 private:
  const std::string directory_;
  const uint64_t reserve_bytes_;
  bool closed_ = false;
};

/// Which shards have been leaving for too long, and what they wait for; empty: none.
[[nodiscard]] std::string slow_to_leave(const std::vector<LeavingShard>& leaving, uint64_t now_ms);

/// Which shards' databases take nothing, why, and the way out; empty: none.
[[nodiscard]] std::string troubled_databases(const std::vector<TroubledShard>& troubled);

/// Which shards cannot be opened, why, and the way out; empty: none.
[[nodiscard]] std::string unserved_shards(const std::map<ShardId, UnservedShard>& unserved);

/// Bytes that the file system of `path` has free for this process.
[[nodiscard]] absl::StatusOr<uint64_t> free_bytes_of(const std::string& path);
/// Bytes of that file system, used or not.
[[nodiscard]] absl::StatusOr<uint64_t> disk_bytes_of(const std::string& path);

class StorageWatch {
 public:
  struct Options {
    std::string data_dir;
    uint64_t reserve_bytes = 0;
    NodeLog log{};
    /// Shards that the node cannot open, at each look. On the watch's thread.
    std::function<std::map<ShardId, UnservedShard>()> unserved{};
    /// Copies to other nodes that do not get on, at each look; empty: none. On the watch's thread.
    std::function<std::string()> slow_copies{};
    /// What keeps the node from doing all its work, at each look; empty: nothing. On the watch's thread.
    std::function<void(const std::string& trouble, const std::map<ShardId, UnservedShard>& unserved)> on_look{};
  };

  /// Looks once (without telling of trouble), then starts the thread. The workers outlive it.
  StorageWatch(Options options, std::vector<Worker*> workers);
  ~StorageWatch();
  StorageWatch(const StorageWatch&) = delete;
  StorageWatch& operator=(const StorageWatch&) = delete;

 private:
  void run();
  void look();
  void note_silence(size_t worker, const absl::Status& status);
  void look_at_databases(size_t worker, const std::vector<TroubledShard>& troubled);
  [[nodiscard]] std::string trouble() const;

  const Options options_;
  const std::vector<Worker*> workers_;
  GrowthGate gate_;
  absl::Status growth_;
  std::vector<std::string> silent_;             // by worker; told if not empty
  std::vector<std::string> log_failures_;       // the same
  std::vector<std::string> slow_leavers_;       // the same
  std::vector<std::string> database_troubles_;  // the same
  std::string slow_copies_;
  std::map<ShardId, UnservedShard> unserved_;
  std::vector<std::set<ShardId>> held_up_;  // what the log was told, by worker
  std::vector<std::set<ShardId>> failed_;
  std::mutex mutex_;
  std::condition_variable stop_;
  bool stopping_ = false;
  std::thread thread_;
};

}  // namespace skua::kv

#endif  // SKUA_KVSTORE_NODE_STORAGE_WATCH_H_
