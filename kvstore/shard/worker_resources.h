// What the shards of one worker share: memory, log, applier, readers, the time, and the bounds of all of them together.
#ifndef SKUA_KVSTORE_SHARD_WORKER_RESOURCES_H_
#define SKUA_KVSTORE_SHARD_WORKER_RESOURCES_H_

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <functional>
#include <memory>
#include <vector>

#include "absl/functional/any_invocable.h"
#include "absl/status/status.h"
#include "kvstore/codec/entry_check.h"
#include "kvstore/codec/key_hash.h"
#include "kvstore/completions/completions.h"
#include "kvstore/log/log_writer.h"
#include "kvstore/memory/memory_tier.h"
#include "kvstore/shard/engine_limits.h"
#include "kvstore/shard/entry.h"
#include "kvstore/shard/fetch.h"
#include "kvstore/shard/write_op.h"
#include "kvstore/storage/applier.h"
#include "kvstore/storage/reader_pool.h"
#include "kvstore/types/durability.h"

namespace skua::kv {

class ShardClosing;

struct EngineOptions {
  MemoryTier::Options memory{.budget_bytes = size_t{256} << 20};
  LogWriter::Options log;
  /// kLater: the code that drives the engine calls wake_log() after each burst.
  LogWriter::Wake log_wake = LogWriter::Wake::kNow;
  Applier::Options applier;
  /// Of the hashes by which keys are found in memory. Clients must not know the seed: a node draws it. This one is for
  /// simulations, which must repeat.
  uint64_t hash_seed = 1;
  Durability durability = Durability::kSync;  ///< of writes that ask for kDefault
  size_t unfinished_max = size_t{1} << 15;
  size_t unfinished_bytes_max = size_t{64} << 20;
  size_t batch_read_bytes_max = size_t{64} << 20;  ///< of old values that are read for one batch
  /// Of the payload of an entry that goes to other nodes, whose message memory must take the entry.
  size_t replicated_payload_bytes_max = kReplicatedPayloadBytesMax;
  CompletionLimits completions;  ///< bounds of what a shard keeps about its clients
};

struct EngineEvents {
  /// Runs a task on the worker's thread. Thread: any. It may block until the worker's mailbox has room.
  std::function<void(absl::AnyInvocable<void()>)> post;
  /// The op is done. On the worker's thread, perhaps before write(), fetch() or is_applied() returns. The callee may
  /// reuse the op and submit others.
  std::function<void(WriteOp&)> write_done;
  std::function<void(FetchOp&)> fetch_done;
  std::function<void(AppliedWait&)> applied;
  /// The number of writes in a group that the log has finished. May be null.
  std::function<void(size_t)> group_done;
};

/// Of all shards of a worker.
struct WorkerCounters {
  uint64_t writes_refused = 0;    ///< RESOURCE_EXHAUSTED
  uint64_t writes_repeated = 0;   ///< answered with the answer of an earlier attempt
  uint64_t fetches = 0;           ///< reads of databases for GETs and writes
  uint64_t fetches_shared = 0;    ///< misses that the read for an earlier miss answered
  uint64_t unfinished = 0;        ///< writes that are not answered, now
  uint64_t unfinished_bytes = 0;  ///< of these: of the request or the record, whichever is larger
};

/// Thread: the worker's.
struct WorkerResources {
  WorkerResources(const EngineOptions& from, EngineEvents to, std::unique_ptr<MemoryTier> tier, ReaderPool& pool)
      : options(from), events(std::move(to)), memory(std::move(tier)), readers(pool) {}

  const EngineOptions options;
  const EngineEvents events;
  const KeyHasher hasher{options.hash_seed};
  const std::unique_ptr<MemoryTier> memory;
  ReaderPool& readers;
  EntryPool entries;
  FetchPool fetches;
  std::unique_ptr<LogWriter> log;
  std::unique_ptr<Applier> applier;  // uses the log

  uint64_t now_ms = 0;     // unix time
  uint64_t steady_ms = 0;  // of a clock that is never set
  bool draining = false;
  bool log_waits = false;    // the log's thread was given records since it was woken last
  absl::Status log_failure;  // not OK: the log takes no more records

  // Shards for which something is to be done.
  std::vector<Shard*> touched;         // the log has reported something of them
  std::vector<Shard*> stalled;         // committed writes wait for room in memory or applier
  std::vector<Shard*> unsynced;        // replicated; entries are written and not synced
  std::vector<ShardClosing*> closing;  // rows of uncommitted entries wait for room in the applier

  size_t uncommitted_bytes = 0;  // of entries from other nodes
  WorkerCounters counters;
  // Scratch of shard_apply.cc.
  std::vector<HashedEffect> effects;
  std::vector<MemoryTier::BatchWrite> batch_writes;
  std::vector<AppliedEffect> rows;

  [[nodiscard]] absl::Status submit(LogSubmission&& submission) {
    log_waits = options.log_wake == LogWriter::Wake::kLater;
    return log->submit(std::move(submission), options.log_wake);
  }
  /// Gives the read to a reader. Errors: no reader takes it; then it is released.
  [[nodiscard]] absl::Status submit(KeyFetch& fetch) {
    ++counters.fetches;
    absl::Status submitted = readers.submit(fetch);
    if (!submitted.ok()) fetches.release(fetch);
    return submitted;
  }
  /// The last write that came is one too many, or would be if it took `more_bytes`. A write alone may have any size.
  [[nodiscard]] bool has_too_many_unfinished(size_t more_bytes = 0) const {
    return counters.unfinished > options.unfinished_max ||
           (counters.unfinished_bytes + more_bytes > options.unfinished_bytes_max && counters.unfinished > 1);
  }
  [[nodiscard]] Durability wanted(Durability asked) const {
    return asked == Durability::kDefault ? options.durability : asked;
  }
  /// True: `duration_ms` has passed since `since_ms` by steady_ms, or `since_ms` is 0 (never).
  [[nodiscard]] bool has_passed(uint64_t since_ms, uint64_t duration_ms) const {
    return since_ms == 0 || steady_ms - since_ms >= duration_ms;
  }
};

}  // namespace skua::kv

#endif  // SKUA_KVSTORE_SHARD_WORKER_RESOURCES_H_
