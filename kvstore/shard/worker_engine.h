// The storage engine of one worker: its shards (shard.h), and what they share: memory tier, log, applier, readers.
//
//    requests ---> Shard, Shard, ...        on the worker's thread
//                    |  WorkerResources: memory, time, bounds
//    log's thread     group_done ---post---> take_back() of each op's shard
//    applier's thread round_done ---post---> take_report() of each report's shard
//
// A shard's first write starts the shard in the log, at the index that its database has. close_shard() ends the shard
// there when the database has everything. So a log only holds records that the databases may lack, and recovery.h can
// bring any log into the databases without knowing which worker will serve them.
#ifndef SKUA_KVSTORE_SHARD_WORKER_ENGINE_H_
#define SKUA_KVSTORE_SHARD_WORKER_ENGINE_H_

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <span>
#include <vector>

#include "absl/functional/any_invocable.h"
#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "kvstore/log/log_writer.h"
#include "kvstore/memory/memory_tier.h"
#include "kvstore/shard/engine_limits.h"
#include "kvstore/shard/shard.h"
#include "kvstore/shard/worker_resources.h"
#include "kvstore/storage/applier.h"
#include "kvstore/storage/reader_pool.h"
#include "kvstore/storage/shard_db.h"

namespace skua::kv {

/// Thread: the worker's, except for methods that say otherwise.
class WorkerEngine {
 public:
  using Options = EngineOptions;
  using Events = EngineEvents;

  struct Counters : WorkerCounters {
    MemoryTier::Counters memory;
    LogCounters log;
    Applier::Counters applier;
    uint64_t applier_queue = 0;
    absl::Status log_health;
  };

  /// Starts the threads. `device` is the device of `log`; the engine keeps it until its end. `readers` outlives the
  /// engine. Errors: those of MemoryTier::create().
  [[nodiscard]] static absl::StatusOr<std::unique_ptr<WorkerEngine>> create(const Options& options, Events events,
                                                                            std::unique_ptr<Device> device,
                                                                            std::unique_ptr<Log> log,
                                                                            ReaderPool& readers);
  /// stop() must have run. No op may be unfinished, and every PinnedValue must be released (checked).
  ~WorkerEngine();
  WorkerEngine(const WorkerEngine&) = delete;
  WorkerEngine& operator=(const WorkerEngine&) = delete;

  /// Call once, on the worker's thread, before the first hit. Makes releases of values cheaper.
  void bind_to_this_thread() { worker_.memory->bind_to_this_thread(); }
  /// True: so much memory is pinned that a value which is kept for a caller outside must be copied now (MemoryTier).
  [[nodiscard]] bool is_pinned_much() const { return worker_.memory->is_pinned_much(); }

  // --- Shards

  /// Opens the shard of `db`. begin_life() (shard_life.h) must have run for `db`. `db` stays open until `closed` of
  /// close_shard() has run. `epoch` goes into the log's records. The engine owns the shard.
  [[nodiscard]] Shard& open_shard(ShardDb& db, uint64_t epoch);
  /// Closes a shard. No op of the shard may be unfinished, and none may follow. `closed` runs later, when the database
  /// has everything and the engine has forgotten the shard. `closed` does not run if the engine stops before, if the
  /// database failed, or if the log failed while it held a write of the shard. In these cases the shard may be opened
  /// again only after a restart: recovery brings the database what it lacks, and may find that write in the log.
  void close_shard(Shard& shard, absl::AnyInvocable<void()> closed) { shard.close(std::move(closed)); }
  /// The shards for which close_shard() was called and `closed` has not run.
  [[nodiscard]] std::vector<ClosingShard> closing_shards() const;
  /// The open shards whose database does not take their writes.
  [[nodiscard]] std::vector<TroubledShard> troubled_shards() const;

  // --- Reads of any shards

  /// The key will be in a get_batch() soon: begins to fetch the memory that its lookup touches first into the cache.
  void expect(const ItemKey& key) const { worker_.memory->prefetch_bucket(key); }
  /// Like Shard::get() for many keys of any shards; their cache misses overlap. `out` is as long as `keys`.
  /// MemoryTier::get_batch() says how to use its values.
  void get_batch(std::span<const ItemKey> keys, std::span<MemoryTier::Lookup> out) {
    worker_.memory->get_batch(keys, worker_.now_ms, out);
  }

  // --- The rest

  /// Tells the engine the time. Keys expire by `unix_ms`, unix time in milliseconds. Until the first call no key
  /// expires. If the wall clock goes back a little because it is slewed, the engine keeps its later time, so that no
  /// expired key comes back. If the clock was wrong and is set back by kClockSetBackMsMin or more, the engine follows
  /// it. `steady_ms`: milliseconds of a clock that is never set, for everything else.
  void set_time(uint64_t unix_ms, uint64_t steady_ms) {
    uint64_t& now_ms = worker_.now_ms;
    if (unix_ms > now_ms || unix_ms + kClockSetBackMsMin <= now_ms) now_ms = unix_ms;
    worker_.steady_ms = std::max(worker_.steady_ms, steady_ms);
  }
  [[nodiscard]] uint64_t now_ms() const { return worker_.now_ms; }
  /// The disk is short of room for what grows, or has room again. While it is short, what deletes leave is given back
  /// to the disk every kMakeRoomMs.
  void set_short_of_room(bool is_short);
  /// Call now and then. Tries again writes that wait for memory, because a release of a pinned value does not wake
  /// them, and databases whose disk was full.
  void tick();
  /// With Options::log_wake kLater: the log's thread was given records since the last wake_log().
  [[nodiscard]] bool log_waits() const { return worker_.log_waits; }
  void wake_log();
  /// From now on committed writes do not wait for room in memory. The log has them, so recovery brings them to the
  /// database.
  void drain() { worker_.draining = true; }
  /// Applies everything, flushes it, closes the log and ends the threads. Call it when nothing is unfinished. Thread:
  /// any but the worker's, which must go on running posted tasks; or any if the worker's thread has ended. False: the
  /// log had failed.
  bool stop();
  /// OK, or why the worker's log takes no more records.
  [[nodiscard]] const absl::Status& log_health() const { return worker_.log_failure; }
  /// The health that the log's own thread knows. It may be newer than log_health(). Thread: any.
  [[nodiscard]] absl::Status log_writer_health() const { return worker_.log->health(); }
  [[nodiscard]] Counters counters() const;

  /// For an engine without threads (own_thread is false in Options::log and Options::applier): one round of a thread's
  /// work. False: there was nothing to do.
  bool step_log() { return worker_.log->step(); }
  bool step_applier() { return worker_.applier->step(); }
  [[nodiscard]] bool is_applier_due() const { return worker_.applier->is_due(); }
  /// Has everything applied that is committed, as a scan of each shard does.
  void hurry_applier() { worker_.applier->hurry_all(); }

 private:
  WorkerEngine(const Options& options, Events events, std::unique_ptr<Device> device, std::unique_ptr<Log> log,
               std::unique_ptr<MemoryTier> memory, ReaderPool& readers);
  void group_done(std::span<const LogSubmission> group, const absl::Status& health);
  void finish_group(LogOp* first, size_t writes, bool synced, const absl::Status& health);
  void round_done(std::vector<Applier::Report>& reports);
  void retry_stalled();
  void forget(Shard& shard);

  const std::unique_ptr<Device> device_;
  WorkerResources worker_;
  std::vector<std::unique_ptr<Shard>> shards_;
  std::vector<ClosingShard> unclosed_;  // shards that the engine has let go of, but whose databases lack something
  uint64_t applied_again_ms_ = 0;
  bool is_short_of_room_ = false;
  uint64_t room_made_ms_ = 0;
};

}  // namespace skua::kv

#endif  // SKUA_KVSTORE_SHARD_WORKER_ENGINE_H_
