// One per worker: makes mutations durable, many per sync, so that the polling thread never waits for a disk.
//
//    worker --submit--> bounded ring --take all--> by shard --apply--> results --on_group_done--> worker's mailbox
//                         ^                           |
//                         +---- the next gather here while the disk syncs these
//
// Group commit without timers: a group is what gathered while the last one was synced; a lone mutation on an idle
// thread is written at once. The mutations of a shard keep their order of submission. Shards of a group are independent
// databases, each with its own log and sync, so several threads ("lanes") apply them side by side; the group is done
// when its last shard is.
#ifndef SKUA_KVSTORE_ENGINE_LOG_THREAD_H_
#define SKUA_KVSTORE_ENGINE_LOG_THREAD_H_

#include <atomic>
#include <cstddef>
#include <cstdint>
#include <functional>
#include <memory>
#include <span>

#include "absl/status/status.h"
#include "kvstore/engine/limits.h"
#include "kvstore/engine/shard_store.h"

namespace skua::kv {

/// A submitted mutation, and what became of it.
struct LogEntry {
  ShardStore* store = nullptr;
  Mutation mutation{};
  void* context = nullptr;  ///< the submitter's
  MutationResult result{};
};

class LogThread {
 public:
  /// All results of a group, called once per group on the log thread. The span is valid during the call; copy the
  /// results to where `context` points and wake the worker once. Must not block and must not call back into the
  /// LogThread.
  using GroupDone = std::function<void(std::span<const LogEntry> group)>;

  struct Options {
    size_t queue_ops_max = kLogQueueOpsMax;  ///< rounded up to a power of two
    size_t group_ops_max = kLogGroupOpsMax;
    size_t group_bytes_max = kLogGroupBytesMax;
    int lanes = 4;  ///< shards of one group applied side by side, this thread included
  };

  struct Counters {
    uint64_t groups = 0;
    uint64_t mutations = 0;
    uint64_t bytes = 0;    ///< of keys and values
    uint64_t refused = 0;  ///< RESOURCE_EXHAUSTED
  };

  /// Starts the thread.
  LogThread(const Options& options, GroupDone on_group_done);
  /// stop()s.
  ~LogThread();
  LogThread(const LogThread&) = delete;
  LogThread& operator=(const LogThread&) = delete;

  /// Queues a mutation. `store` and the mutation's bytes must stay valid until its group is done. Never waits, takes no
  /// lock. Errors: RESOURCE_EXHAUSTED when the queue is full, UNAVAILABLE after stop(); then on_group_done will not
  /// tell of it. Thread: any, but not while stop() runs.
  [[nodiscard]] absl::Status submit(ShardStore& store, const Mutation& mutation, void* context);

  /// Applies what is queued, reports it, and ends the thread. A second call does nothing.
  void stop();

  /// Thread: any.
  [[nodiscard]] Counters counters() const;

 private:
  class Impl;
  const std::unique_ptr<Impl> impl_;
};

}  // namespace skua::kv

#endif  // SKUA_KVSTORE_ENGINE_LOG_THREAD_H_
