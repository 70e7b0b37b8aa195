// Checks the node's file system and its workers' logs and databases five times a second. Tells the workers, the node's
// log and the control plane.
//
//    free space below the reserve  ---> workers refuse writes that make data grow; deletes and running work continue
//    reserve + 1/8 free again      ---> workers take all writes again
//    a log failed                  ---> an error in the node's log, once per worker
//    a shard takes long to leave   ---> its id and what it waits for
//    a database takes no writes    ---> which shards, why, whether it retries; on a change an error in the node's log
//    a shard cannot be opened      ---> which shard, why, and the way out (the shard manager logs it)
//    any of them                   ---> the node's trouble text, which the control plane shows (skuactl status)
//
// Logs, flushes and compactions need the reserve to continue while nothing grows. If a database meets the end of the
// disk all the same, it keeps the writes that it accepted, and continues when there is room.
#ifndef SKUA_KVSTORE_NODE_STORAGE_WATCH_H_
#define SKUA_KVSTORE_NODE_STORAGE_WATCH_H_

#include <cstdint>
#include <filesystem>
#include <functional>
#include <map>
#include <optional>
#include <set>
#include <string>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "kvstore/node/shard_manager.h"
#include "kvstore/types/node_log.h"
#include "kvstore/types/task_thread.h"
#include "kvstore/worker/worker.h"

namespace skua::kv {

/// Decides whether data may grow. Pure.
class GrowthGate {
 public:
  GrowthGate(std::string directory, uint64_t reserve_bytes)
      : directory_(std::move(directory)), reserve_bytes_(reserve_bytes) {}

  /// Status for the workers if it has changed since the last call, else nullopt. OK: data may grow. RESOURCE_EXHAUSTED:
  /// data may not grow; the message says which disk is full and the way out. `free_bytes`: free space of the file
  /// system.
  [[nodiscard]] std::optional<absl::Status> look(uint64_t free_bytes);

 private:
  const std::string directory_;
  const uint64_t reserve_bytes_;
  bool closed_ = false;
};

/// Text for people: shards that have been leaving their worker for too long, and what each waits for. Empty: none.
[[nodiscard]] std::string slow_to_leave(const std::vector<LeavingShard>& leaving, uint64_t now_ms);

/// Text for people: workers of other nodes that refuse replication (WorkerStats::refusals), and the way out. Empty:
/// none.
[[nodiscard]] std::string refused_by_peers(const std::vector<std::string>& refusals);

/// Text for people: shards whose databases take no writes, why, and the way out. Empty: none.
[[nodiscard]] std::string troubled_databases(const std::vector<TroubledShard>& troubled);

/// Text for people: shards that cannot be opened, why, and the way out. Empty: none.
[[nodiscard]] std::string unserved_shards(const std::map<ShardId, UnservedShard>& unserved);

/// The file system of `path`, in bytes: its size, used and free space together, and what is free for this process.
[[nodiscard]] absl::StatusOr<std::filesystem::space_info> disk_space_of(const std::string& path);

class StorageWatch {
 public:
  struct Options {
    std::string data_dir;
    uint64_t reserve_bytes = 0;
    NodeLog log{};
    /// Returns the shards that the node cannot open. Called at each check, on the watch's thread; also by the
    /// constructor.
    std::function<std::map<ShardId, UnservedShard>()> unserved{};
    /// Texts about other troubles, such as copies to other nodes that make no progress; empty: none. Called like
    /// `unserved`.
    std::vector<std::function<std::string()>> others{};
    /// Called after each check of the watch's thread. `trouble`: text about everything that keeps the node from its
    /// work; empty: nothing.
    std::function<void(const std::string& trouble, const std::map<ShardId, UnservedShard>& unserved)> on_look{};
  };

  /// Checks once (without on_look), then starts the thread. The workers outlive the watch.
  StorageWatch(Options options, std::vector<Worker*> workers);
  StorageWatch(const StorageWatch&) = delete;
  StorageWatch& operator=(const StorageWatch&) = delete;

 private:
  /// What is known of one worker. Texts for people; empty: no trouble.
  struct Seen {
    std::string silent;
    std::string log_failure;
    std::string databases;
    std::string slow_leavers;
    std::string refusals;       ///< of workers of other nodes
    std::set<ShardId> held_up;  ///< shards that the node's log was told of
    std::set<ShardId> failed;
  };

  void look();
  /// Replaces `text`. Logs the new text if there was none before.
  void note(std::string& text, std::string now) const;
  void look_at(Worker& worker, Seen& seen, uint64_t now_ms) const;
  void look_at_databases(uint32_t worker, Seen& seen, const std::vector<TroubledShard>& troubled) const;
  [[nodiscard]] std::string trouble() const;

  const Options options_;
  const std::vector<Worker*> workers_;
  GrowthGate gate_;
  absl::Status growth_;
  std::vector<Seen> seen_;           // by worker
  std::vector<std::string> others_;  // of Options::others
  std::map<ShardId, UnservedShard> unserved_;
  std::optional<TaskThread> thread_;
};

}  // namespace skua::kv

#endif  // SKUA_KVSTORE_NODE_STORAGE_WATCH_H_
