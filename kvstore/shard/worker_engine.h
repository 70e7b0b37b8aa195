// The storage engine of one worker: what happens between a request and its answer. All of it runs on the worker's thread,
// without locks; three others wait for disks in its stead.
//
//    worker thread                                          log thread          applier thread         readers
//    write: evaluate against the shard's pending effects,
//           else memory, else (parked meanwhile) the disk  ------------------------------------------> ShardDb::get
//           index = last + 1, into the log            -----> group write, sync
//    group done: into memory (dirty), answered         <----+
//           handed on                                  -------------------> ShardDb::apply
//    applied: marked clean                             <------------------- report
//    read:  memory, else the disk; what came is kept    -----------------------------------------------> ShardDb::get
//    scan:  waits until the commit index of its arrival is applied, then goes to the readers
//
// What it promises:
//   - A write is answered when its record, and each earlier one of its shard, is as durable as was asked for, and memory has
//     it. Readers see nothing earlier. Writes of a key take effect in the order of their arrival; so do all writes of a
//     shard whose keys need no read.
//   - A batch is one record, and seen as a whole or not at all. If a key of it must be read first, later writes of the shard
//     wait behind it. If more than batch_read_bytes_max of old values must be read for it, it is RESOURCE_EXHAUSTED.
//   - A write with a RequestId that was answered is answered again, not executed again (completions.h). One that is under
//     way answers its repetitions too.
//   - Keys expire by the time that set_time() tells; it is in the records, so that replay decides nothing.
//   - Effects that are in the log but not committed are seen by later evaluations only ("pending"). An answer that rests
//     on one, such as ALREADY_EXISTS, waits for it. So all writes of a shard, with effect or without, are answered in the
//     order of their evaluation: one queue per shard.
//   - A shard's indices rise by one; where they begin is the database's matter (shard_life.h). If the log has no room for a
//     record (nothing was written), it and all behind it of that shard are answered RESOURCE_EXHAUSTED, and the shard counts
//     on from the last that was written. If the log fails, writes under way are STORAGE_FAILED and all shards of the worker
//     refuse writes from then on.
//   - A write whose record the log, or a message between nodes, can never take is INVALID_ARGUMENT, before anything else happens.
//   - What was answered as "memory" is in the log's queue, with bytes of its own. If the log then has no room for it, it is
//     given to the log again, and the shard takes no writes until the log has it: no index is given out twice.
//   - When all memory is dirty or pinned, committed writes wait in their order until the applier has made room.
//     unfinished_bytes_max and unfinished_max bound all writes that wait for anything; one more is RESOURCE_EXHAUSTED.
//   - Misses of one key that nothing wrote to in between share one read.
//
// A shard's first write starts it in the log at the index that its database has; close_shard ends it there when the
// database has everything. So a log only ever holds what the databases may lack, and recovery.h can bring any log into the
// databases without asking who will serve them.
#ifndef SKUA_KVSTORE_SHARD_WORKER_ENGINE_H_
#define SKUA_KVSTORE_SHARD_WORKER_ENGINE_H_

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <functional>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "absl/container/flat_hash_map.h"
#include "absl/functional/any_invocable.h"
#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "kvstore/codec/effect.h"
#include "kvstore/completions/completions.h"
#include "kvstore/log/log_writer.h"
#include "kvstore/memory/memory_tier.h"
#include "kvstore/shard/engine_limits.h"
#include "kvstore/shard/evaluate.h"
#include "kvstore/storage/applier.h"
#include "kvstore/storage/reader_pool.h"
#include "kvstore/storage/shard_db.h"
#include "kvstore/types/pinned_value.h"

namespace skua::kv {

struct EngineShard;
struct BatchWork;
struct RelaxedRecord;
struct ReplicaRecord;
struct EngineReplica;
class EngineFetch;

/// Something that the log is told, on its way there and back.
struct LogOp {
  enum class Kind : uint8_t { kWrite, kRelaxed, kReplica, kShardStart, kShardEnd };
  explicit LogOp(Kind what) : kind(what) {}

  const Kind kind;
  EngineShard* shard = nullptr;
  LogOp* next = nullptr;   // in a group on its way back
  absl::Status outcome{};  // the log's
  Durability log_durability = Durability::kMemory;  // what the log achieved
};

/// A write: the submitter's, who keeps it and the mutation's bytes until write_done, and reuses it.
struct WriteOp final : LogOp {
  WriteOp();
  ~WriteOp();

  Mutation mutation{};
  std::span<const Mutation> batch{};  ///< not empty: an atomic batch, in place of `mutation`
  RequestId id{};                     ///< client 0: executed each time that it comes
  Durability durability = Durability::kDefault;
  void* context = nullptr;

  MutationResult result{};  ///< of a batch: OK, or why it was not applied
  /// A batch's, one for each operation. If one cannot be applied, `not_applied`: that one's result, and OK without a version
  /// for the others. The deletion of an absent key is NOT_FOUND and no hindrance.
  std::vector<MutationResult> results{};
  bool not_applied = false;
  bool from_record = false;  ///< the answer to an earlier attempt
  Durability achieved = Durability::kDefault;
  std::string why;  ///< for people, if the status needs it; empty otherwise

  // The engine's.
  enum class State : uint8_t { kAnswered, kInLog, kWritten, kFailed };  // kInLog, replicated: until it is committed
  State state = State::kAnswered;
  bool is_attempt = false;  // the table of completions counts it
  uint64_t index = 0;
  uint64_t evaluated_ms = 0;  // unix time: what expires, expires by it
  uint64_t record_ms = 0;     // the record's time (shard_clock.h)
  Effect effect{};
  EffectHead head{};
  std::string scratch{};
  std::unique_ptr<BatchWork> work{};
  RelaxedRecord* relaxed = nullptr;
  WriteOp* twin = nullptr;    // a repetition that waits for this one
  WriteOp* behind = nullptr;  // in the shard's queue, or parked
};

/// A read that memory could not answer: the submitter's until fetch_done.
struct FetchOp {
  std::string_view key{};
  void* context = nullptr;
  absl::Status status{};    ///< OK, NOT_FOUND, or what the storage says
  PinnedValue value{};      ///< outlives the shard, not the engine
  uint64_t expires_at = 0;  ///< unix time in ms; 0: never

  FetchOp* behind = nullptr;  // the engine's
};

/// A shard that is being closed, or cannot be.
struct ClosingShard {
  ShardId id;
  uint64_t since_ms = 0;   ///< unix time
  absl::Status held_up{};  ///< not OK: why it takes long; it is tried again
  absl::Status failure{};  ///< not OK: it is not closed before the node is started again
};

/// A shard that is served, and whose database does not take what it is given.
struct TroubledShard {
  ShardId id;
  absl::Status held_up{};  ///< not OK: it is tried again
  absl::Status failure{};  ///< not OK: the shard refuses writes until the node is started again
};

/// An entry of a replicated shard, as peers get it.
struct ReplicaEntry {
  uint64_t index = 0;
  uint64_t epoch = 0;  ///< that made it
  int64_t time_ms = 0;
  Durability durability = Durability::kSync;
  ByteSpan payload{};  ///< effect.h, without the entry's head
};

/// How far the log is with a replicated shard.
struct ReplicaLevels {
  uint64_t written = 0;
  uint64_t synced = 0;
};

/// What a replicated shard finds when it is opened; see replica_rows.h.
struct ReplicaStart {
  uint64_t applied_index = 0;
  std::string runs;  ///< of the last barrier that was applied; empty: there was none
  std::vector<ReplicaEntry>
      tail{};  ///< entries behind applied_index that are in this replica's log; views, until the next change
};

/// Somebody who wants the database to show what is committed now; the submitter's until applied.
struct AppliedWait {
  void* context = nullptr;
  absl::Status status{};  ///< why that will not be

  uint64_t index = 0;  // the engine's
};

/// Thread: the worker's for all but what is marked.
class WorkerEngine {
 public:
  struct Options {
    MemoryTier::Options memory{.budget_bytes = size_t{256} << 20};
    LogWriter::Options log;
    /// kLater: whoever drives the engine calls wake_log() after each burst.
    LogWriter::Wake log_wake = LogWriter::Wake::kNow;
    Applier::Options applier;
    Durability durability = Durability::kSync;  ///< of writes that do not say
    size_t unfinished_max = size_t{1} << 15;
    size_t unfinished_bytes_max = size_t{64} << 20;
    size_t batch_read_bytes_max = size_t{64} << 20;  ///< old values that are read for a batch
    CompletionLimits completions;                    ///< what a shard keeps of its clients
  };

  struct Events {
    /// Runs a task on the worker's thread. Thread: any; may wait for room.
    std::function<void(absl::AnyInvocable<void()>)> post;
    /// On the worker's thread, perhaps before write() or fetch() returns. May reuse the op and submit others.
    std::function<void(WriteOp&)> write_done;
    std::function<void(FetchOp&)> fetch_done;
    std::function<void(AppliedWait&)> applied;
    /// Writes that one group of the log held.
    std::function<void(size_t)> group_done;
    /// Replicated shards: this write's entry is in the log's queue, and replica_entry() has it.
    std::function<void(EngineShard&, const ReplicaEntry&)> proposed;
    /// Replicated shards: replica_levels() has changed. `refused`: the log had no room for entries; they are dropped here.
    std::function<void(EngineShard&, bool refused)> log_moved;
  };

  struct Counters {
    MemoryTier::Counters memory;
    LogCounters log;
    Applier::Counters applier;
    uint64_t writes_refused = 0;   ///< RESOURCE_EXHAUSTED
    uint64_t writes_repeated = 0;  ///< answered by an earlier attempt
    uint64_t fetches = 0;          ///< reads of databases for GETs and writes
    uint64_t fetches_shared = 0;   ///< misses that an earlier one's read answered
    uint64_t unfinished = 0;
    uint64_t unfinished_bytes = 0;
    uint64_t applier_queue = 0;
    absl::Status log_health;
  };

  /// Starts the threads. `device` is the log's; it is kept until the end. Errors: MemoryTier::create's.
  [[nodiscard]] static absl::StatusOr<std::unique_ptr<WorkerEngine>> create(const Options& options, Events events,
                                                                            std::unique_ptr<Device> device,
                                                                            std::unique_ptr<Log> log,
                                                                            ReaderPool& readers);
  /// stop() must have run; nothing may be unfinished, and every PinnedValue released (checked).
  ~WorkerEngine();
  WorkerEngine(const WorkerEngine&) = delete;
  WorkerEngine& operator=(const WorkerEngine&) = delete;

  /// Once, on the worker's thread, before the first hit: makes releases cheaper.
  void bind_to_this_thread() { memory_->bind_to_this_thread(); }

  /// Values that are kept for somebody outside are copied now (MemoryTier).
  [[nodiscard]] bool is_pinned_much() const { return memory_->is_pinned_much(); }

  // --- Shards

  /// `db`, after begin_life() (shard_life.h), stays open until close_shard's `closed`. `epoch` goes into the log.
  [[nodiscard]] EngineShard& open_shard(ShardDb& db, uint64_t epoch);
  /// No op of the shard may be unfinished, and none may follow. `closed` runs later, when the database has everything
  /// and the shard is forgotten here; not if the engine stops before, nor if the database failed or the log did while it
  /// held a write of the shard: then only a restart, whose recovery brings the database what it lacks and may find that
  /// write, may open it again.
  void close_shard(EngineShard& shard, absl::AnyInvocable<void()> closed);
  /// Those that close_shard() was called for and whose `closed` has not run.
  [[nodiscard]] std::vector<ClosingShard> closing_shards() const;
  /// Those that are open, and not well.
  [[nodiscard]] std::vector<TroubledShard> troubled_shards() const;
  /// OK, or why the shard refuses writes.
  [[nodiscard]] static const absl::Status& health(const EngineShard& shard);
  [[nodiscard]] static ShardDb& db(const EngineShard& shard);
  /// OK, or why the worker's log takes nothing any more.
  [[nodiscard]] const absl::Status& log_health() const { return log_failure_; }
  /// What readers see: every write up to this index.
  [[nodiscard]] static uint64_t committed_index(const EngineShard& shard);
  /// True: readers see what whoever was told this index saw. False: it is not committed, or was lost with an earlier life.
  [[nodiscard]] static bool has_state(const EngineShard& shard, uint64_t index);

  // --- Reads

  /// What memory knows of a key.
  [[nodiscard]] MemoryTier::Lookup get(const EngineShard& shard, std::string_view key);
  /// The key will be in a get_batch soon: what it looks at first is fetched into the cache meanwhile.
  void expect(const ItemKey& key) const { memory_->prefetch_bucket(key); }
  /// Like get for many keys, of any shards, with their cache misses overlapping. `out` is as long as `keys`. What to do
  /// with its values: see MemoryTier::get_batch.
  void get_batch(std::span<const ItemKey> keys, std::span<MemoryTier::Lookup> out);
  [[nodiscard]] static ItemKey item_key(const EngineShard& shard, std::string_view key);
  /// Reads what was a miss in memory; ends in fetch_done.
  void fetch(EngineShard& shard, FetchOp& op, MemoryTier::Ticket ticket);
  /// Keeps what the caller read from the database after a miss.
  void fill(const EngineShard& shard, std::string_view key, const PinnedValue& value, MemoryTier::Ticket ticket);
  /// True: the database shows all that is committed now. False: `wait` comes back by Events::applied.
  [[nodiscard]] bool is_applied(EngineShard& shard, AppliedWait& wait);

  // --- Writes

  /// True: a write of this id is under way, or was answered and is answered again: it makes nothing grow.
  [[nodiscard]] bool is_repetition(const EngineShard& shard, const RequestId& id) const;
  /// Ends in write_done, with op.result.
  void write(EngineShard& shard, WriteOp& op);

  // --- Replicated shards (worker_engine_replica.cc): the log's entries are made by one primary, and who that is and what is
  // committed others decide.

  /// After open_shard(), before anything else of the shard. `epoch`: in which the log takes what follows.
  void replicate(EngineShard& shard);
  /// What the shard began with.
  [[nodiscard]] ReplicaStart replica_start(const EngineShard& shard) const;
  /// The log takes what follows in this epoch. It rises.
  void set_replica_epoch(EngineShard& shard, uint64_t epoch);
  /// From now on writes are taken, and become entries of this epoch. All entries must be committed and in memory.
  void lead(EngineShard& shard, uint64_t entry_epoch);
  /// While it leads and is `on_hold`, writes that are no entries yet are refused, also those that wait for the
  /// database.
  void hold_writes(EngineShard& shard, bool on_hold);
  /// From now on writes are refused; those under way that are not committed are answered ABORTED: they may yet be.
  void follow(EngineShard& shard);
  /// An entry from the primary, or a barrier of one's own, behind the last one; the bytes are copied. RESOURCE_EXHAUSTED: not
  /// now; INVALID_ARGUMENT: it is none.
  [[nodiscard]] absl::Status append_entry(EngineShard& shard, const ReplicaEntry& entry);
  /// False: as much as one shard may have waits to be committed, and the primary must wait, or lies. `inherited`: for an
  /// entry that its primary found when it began.
  [[nodiscard]] bool has_room_for_entries(const EngineShard& shard, bool inherited) const;
  /// Forgets the entries behind `index`, which are not committed.
  void truncate_entries(EngineShard& shard, uint64_t index);
  /// Entries up to `index` are committed: they are applied, and answered.
  void commit_entries(EngineShard& shard, uint64_t index);
  /// nullopt: not kept. The payload stays until the next call that changes the shard, if pinned until unpin_entry().
  [[nodiscard]] std::optional<ReplicaEntry> replica_entry(const EngineShard& shard, uint64_t index) const;
  /// Null: not kept.
  [[nodiscard]] ReplicaRecord* pin_entry(EngineShard& shard, uint64_t index);
  void unpin_entry(ReplicaRecord& entry);
  /// unpin_entry() for a message's body; `entry` is a ReplicaRecord.
  static void release_entry_pin(void* entry);
  [[nodiscard]] static ReplicaEntry entry_of_record(const ReplicaRecord& entry);
  /// Forgets entries that the database has, below `needed_from`, and above, too, once more than `bytes_max` are kept. The first index kept.
  uint64_t trim_entries(EngineShard& shard, uint64_t needed_from, size_t bytes_max);
  /// From now on, or no more, is_settled() is known of single keys. For replicas that do not lead.
  void watch_uncommitted(EngineShard& shard, bool on);
  /// No entry that is here, but not in memory yet, touches the key.
  [[nodiscard]] static bool is_settled(const EngineShard& shard, std::string_view key);
  /// All entries that are here are in memory.
  [[nodiscard]] static bool is_settled(const EngineShard& shard);
  /// Entries that are written and not synced get synced; log_moved tells.
  void sync_log();
  [[nodiscard]] ReplicaLevels replica_levels(const EngineShard& shard) const;
  [[nodiscard]] uint64_t last_entry(const EngineShard& shard) const;

  // --- The rest

  /// Unix time in milliseconds, for what expires. A clock that is slewed makes nothing come back; one that was wrong
  /// and is set back does. Until the first call nothing expires. `steady_ms`: of a clock that nobody sets, for all else.
  void set_time(uint64_t unix_ms, uint64_t steady_ms) {
    if (unix_ms > now_ms_ || unix_ms + kClockSetBackMsMin <= now_ms_) now_ms_ = unix_ms;
    steady_ms_ = std::max(steady_ms_, steady_ms);
  }
  [[nodiscard]] uint64_t now_ms() const { return now_ms_; }
  /// What the shard's next record is stamped with.
  [[nodiscard]] uint64_t next_record_ms(const EngineShard& shard) const;
  /// Now and then: looks after writes that wait for memory which only a release frees.
  void tick();
  /// With Options::log_wake kLater: the log's thread has been given records since the last wake_log().
  [[nodiscard]] bool log_waits() const { return log_waits_; }
  void wake_log();
  /// From now on committed writes do not wait for memory: they are in the log.
  void drain() { draining_ = true; }
  /// Applies, flushes, closes the log, and ends the threads. When nothing is unfinished. Thread: any but the worker's,
  /// which must go on running what is posted, or any if it has ended.
  void stop();
  /// What the log's own thread says, which may be ahead of log_health(). Thread: any.
  [[nodiscard]] absl::Status log_writer_health() const { return log_->health(); }
  [[nodiscard]] Counters counters() const;

  /// Without own_thread of Options::log and Options::applier: one round of theirs. False: there was nothing to do.
  bool step_log() { return log_->step(); }
  bool step_applier() { return applier_->step(); }

 private:
  friend class EngineFetch;

  WorkerEngine(const Options& options, Events events, std::unique_ptr<Device> device,
               std::unique_ptr<MemoryTier> memory, ReaderPool& readers);
  void start(std::unique_ptr<Log> log);
  [[nodiscard]] absl::Status submit_to_log(LogSubmission&& submission);

  // worker_engine.cc: reads, shards
  [[nodiscard]] static absl::Status load_life(std::span<const InternalRow> rows, EngineShard& shard);
  EngineFetch& acquire_fetch(EngineShard& shard, std::string_view key, MemoryTier::Ticket ticket);
  void release_fetch(EngineFetch& fetch);
  void fetch_done(EngineFetch& fetch);
  void answer_reads(EngineFetch& fetch, bool filled);
  void round_done(std::vector<Applier::Report>& reports);
  void applied(EngineShard& shard, const Applier::Report& report);
  void go_on_closing(EngineShard& shard);
  void finish_close(EngineShard& shard, const absl::Status& flushed);
  void forget(EngineShard& shard);

  // worker_engine_attempts.cc: exactly once
  [[nodiscard]] bool begin_attempt(EngineShard& shard, WriteOp& op);
  /// By which its clients are forgotten.
  [[nodiscard]] uint64_t time_of(const EngineShard& shard) const;
  void answer_from_record(EngineShard& shard, WriteOp& op, const CompletionTable::Result& kept);
  static void answer_refused(WriteOp& op, const CompletionTable::Result& kept);
  void keep_refusal(EngineShard& shard, const WriteOp& op);
  [[nodiscard]] WriteOp* end_attempt(EngineShard& shard, WriteOp& op);
  [[nodiscard]] static Completion completion_of(const WriteOp& op);

  // worker_engine_batch.cc
  void begin_batch(EngineShard& shard, WriteOp& op);
  [[nodiscard]] bool gather(EngineShard& shard, WriteOp& op);
  void gather_key(EngineShard& shard, BatchWork& work, size_t which);
  void batch_fetched(EngineShard& shard, EngineFetch& fetch);
  void try_batch(EngineShard& shard);
  void resume_batch(EngineShard& shard);
  void evaluate_batch(EngineShard& shard, WriteOp& op);
  [[nodiscard]] bool evaluate_operations(EngineShard& shard, WriteOp& op);
  static void enter_effect(BatchWork& work, size_t operation, const Effect& effect);
  [[nodiscard]] CurrentState batch_current(EngineShard& shard, WriteOp& op, std::string_view key, PinnedValue& pin);
  static void encode_batch(WriteOp& op);
  [[nodiscard]] bool fits_memory(const WriteOp& op) const;
  [[nodiscard]] MemoryTier::Put put_batch(EngineShard& shard, WriteOp& op);

  // worker_engine_log.cc: to the log and back
  [[nodiscard]] absl::Status submit(EngineShard& shard, WriteOp& op);
  [[nodiscard]] absl::Status submit_relaxed(EngineShard& shard, RelaxedRecord& record);
  [[nodiscard]] Durability wanted_durability(Durability asked) const {
    return asked == Durability::kDefault ? options_.durability : asked;
  }
  [[nodiscard]] absl::Status start_in_log(EngineShard& shard, uint64_t index);
  RelaxedRecord& acquire_relaxed();
  void release_relaxed(RelaxedRecord& record);
  void relaxed_done(EngineShard& shard, RelaxedRecord& record);
  [[nodiscard]] bool resubmit(EngineShard& shard);
  void settle(EngineShard& shard);
  void group_done(std::span<const LogSubmission> group);
  void finish_group(LogOp* first, size_t writes, bool synced);
  void take_outcome(LogOp& op);
  void touch(EngineShard& shard);

  // worker_engine_replica.cc
  [[nodiscard]] absl::Status submit_entry(EngineShard& shard, WriteOp& op);
  [[nodiscard]] absl::Status give_to_log(EngineShard& shard, ReplicaRecord& record);
  void entry_done(EngineShard& shard, ReplicaRecord& record);
  void tell_log_moved(EngineShard& shard);
  void log_synced();
  void apply_entries(EngineShard& shard);
  [[nodiscard]] bool apply_entry(EngineShard& shard, ReplicaRecord& record);
  void forget_entries(EngineShard& shard);
  ReplicaRecord& acquire_entry();
  void release_entry(ReplicaRecord& record);
  [[nodiscard]] static bool is_committed(const EngineShard& shard, const WriteOp& op);
  void add_uncommitted(EngineReplica& replica, ReplicaRecord& record);
  void remove_uncommitted(EngineReplica& replica, ReplicaRecord& record);

  // worker_engine_tail.cc: entries that are not committed, into rows
  void keep_tail(EngineShard& shard, uint64_t last_index);
  [[nodiscard]] bool hand_on_tail(EngineShard& shard);
  [[nodiscard]] static std::vector<uint64_t> take_old_rows(EngineShard& shard, size_t count_max);
  void keep_pinning(EngineShard& shard, uint64_t index);
  void tail_kept(EngineShard& shard);

  // worker_engine_writes.cc
  [[nodiscard]] bool refuse(const EngineShard& shard, WriteOp& op);
  void dispatch(EngineShard& shard, WriteOp& op);
  void evaluate_write(EngineShard& shard, WriteOp& op, const CurrentState* known);
  void take_effect(EngineShard& shard, WriteOp& op);
  void refuse_record(const EngineShard& shard, WriteOp& op, size_t bytes);
  [[nodiscard]] size_t payload_bytes_max(const EngineShard& shard) const;
  [[nodiscard]] static const CurrentState* pending_state(EngineShard& shard, std::string_view key, CurrentState& out);
  static void enter_pending(EngineShard& shard, WriteOp& op);
  static void leave_pending(EngineShard& shard, WriteOp& op);
  void park(EngineShard& shard, WriteOp& op, MemoryTier::Ticket ticket);
  void unpark(EngineShard& shard, EngineFetch& fetch);
  void enqueue(EngineShard& shard, WriteOp& op);
  void answer(WriteOp& op, KvStatus status, std::string_view why);
  void finish(WriteOp& op);
  void tell(WriteOp& op);
  void advance(EngineShard& shard);
  void fail(EngineShard& shard, WriteOp& op);
  [[nodiscard]] bool store_in_memory(EngineShard& shard, WriteOp& op);
  [[nodiscard]] MemoryTier::Put put_one(EngineShard& shard, const WriteOp& op);
  void hand_on(EngineShard& shard, const WriteOp& op);
  void stall(EngineShard& shard);
  void retry_stalled();
  /// So much time since then, by steady_ms_ (0: never).
  [[nodiscard]] bool has_passed(uint64_t since_ms, uint64_t duration_ms) const {
    return since_ms == 0 || steady_ms_ - since_ms >= duration_ms;
  }

  const Options options_;
  bool log_waits_ = false;
  const Events events_;
  const std::unique_ptr<Device> device_;
  const std::unique_ptr<MemoryTier> memory_;
  ReaderPool& readers_;

  std::vector<std::unique_ptr<EngineShard>> shards_;
  std::vector<EngineShard*> touched_;
  std::vector<EngineShard*> stalled_;
  std::vector<EngineShard*> unsynced_;  // replicated, with entries that the log has written and not synced
  std::vector<EngineShard*> closing_;   // their tails wait for room
  std::vector<ClosingShard> unclosed_;  // gone from here, and their databases lack something
  std::vector<std::unique_ptr<EngineFetch>> fetches_;
  EngineFetch* free_fetch_ = nullptr;
  std::vector<std::unique_ptr<RelaxedRecord>> relaxed_;
  RelaxedRecord* free_relaxed_ = nullptr;
  std::vector<std::unique_ptr<ReplicaRecord>> entries_;
  ReplicaRecord* free_entry_ = nullptr;
  size_t uncommitted_bytes_ = 0;  // of all shards
  uint64_t now_ms_ = 0;
  uint64_t steady_ms_ = 0;
  uint64_t applied_again_ms_ = 0;
  bool draining_ = false;
  absl::Status log_failure_;
  size_t unfinished_ = 0;
  size_t unfinished_bytes_ = 0;
  uint64_t writes_refused_ = 0;
  uint64_t writes_repeated_ = 0;
  uint64_t fetch_count_ = 0;
  uint64_t fetches_shared_ = 0;

  std::unique_ptr<LogWriter> log_;
  std::unique_ptr<Applier> applier_;
};

}  // namespace skua::kv

#endif  // SKUA_KVSTORE_SHARD_WORKER_ENGINE_H_
