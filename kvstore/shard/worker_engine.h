// The storage engine of one worker: everything that happens between a request and its answer. The engine runs on the
// worker's thread, without locks. Other threads wait for disks in its place: the log's thread, the applier's thread and
// the readers.
//
//    worker thread                                          log thread          applier thread         readers
//    write: evaluate against the shard's pending effects,
//           else memory, else (parked meanwhile) the disk  ------------------------------------------> ShardDb::get
//           index = last + 1, into the log            -----> group write, sync
//    group done: into memory (dirty), answered         <----+
//           handed on                                  -------------------> ShardDb::apply
//    applied: marked clean                             <------------------- report
//    read:  memory, else the disk; the value is kept    -----------------------------------------------> ShardDb::get
//    scan:  waits until the commit index of its arrival is applied, then goes to the readers
//
// What the engine promises:
//   - A write is answered when its record and all earlier records of its shard are as durable as their writes asked
//     for, and memory has the write. Readers do not see the write before that. Writes of one key take effect in the
//     order of their arrival. So do all writes of a shard whose keys need no read.
//   - A batch is one record. Readers see all of the batch or nothing. If a key of the batch must be read first, later
//     writes of the shard wait behind the batch. If more than batch_read_bytes_max of old values must be read for it,
//     it is answered RESOURCE_EXHAUSTED.
//   - A write whose RequestId was answered already gets the same answer, and is not executed again (completions.h). If
//     the first attempt is still under way, its repetitions wait and get its answer.
//   - Keys expire by the time that set_time() tells. Records hold the expiry times, so replay decides nothing.
//   - Effects that are in the log but not committed are "pending": only the evaluation of later writes sees them. An
//     answer that rests on a pending effect, such as ALREADY_EXISTS, waits until the effect is committed. For this each
//     shard has one queue: all its writes, with effect or without, are answered in the order of their evaluation.
//   - A shard's indices rise by one. Its database says where they begin (shard_life.h). If the log has no room for a
//     record, it has written nothing of that record. The record and all later ones of the shard are answered
//     RESOURCE_EXHAUSTED, and the shard counts on from the last index that was written. If the log fails, the writes
//     whose records it had not confirmed are answered STORAGE_FAILED, and all shards of the worker refuse writes from
//     then on. In a replicated shard such writes are answered ABORTED in both cases, because they may yet be committed,
//     and the replica stops leading.
//   - A write whose record is too large for the log, or for a message between nodes, is answered INVALID_ARGUMENT and
//     has no effect.
//   - A write that was answered with durability "memory" has a record in the log's queue that owns its bytes. If the
//     log has no room for this record, the engine gives it to the log again. The shard takes no writes until the log
//     has the record, so that no index is given out twice.
//   - When all memory is dirty or pinned, committed writes wait in their order until the applier has made room.
//     unfinished_bytes_max and unfinished_max bound all writes that wait for anything. One more write is
//     RESOURCE_EXHAUSTED.
//   - Misses of one key share one read of the database if nothing wrote to the key in between.
//
// A shard's first write starts the shard in the log, at the index that its database has. close_shard() ends the shard
// there when the database has everything. So a log only holds records that the databases may lack, and recovery.h can
// bring any log into the databases without knowing which worker will serve them.
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

/// An operation that is given to the log and comes back with its outcome.
struct LogOp {
  enum class Kind : uint8_t { kWrite, kRelaxed, kReplica, kShardStart, kShardEnd };
  explicit LogOp(Kind what) : kind(what) {}

  const Kind kind;
  EngineShard* shard = nullptr;
  LogOp* next = nullptr;                            // the next op of a group that comes back from the log
  absl::Status outcome{};                           // the log's status for this op
  Durability log_durability = Durability::kMemory;  // what the log achieved
};

/// A write. The submitter owns it, and keeps it and the bytes of the mutation until write_done. Then the op may be
/// reused.
struct WriteOp final : LogOp {
  WriteOp();
  ~WriteOp();

  Mutation mutation{};
  std::span<const Mutation> batch{};  ///< not empty: an atomic batch, executed instead of `mutation`
  RequestId id{};                     ///< client 0: repetitions are not recognized, and are executed
  Durability durability = Durability::kDefault;
  void* context = nullptr;

  /// Of a batch: OK if the batch was applied or `not_applied` is set; otherwise why the whole batch failed.
  MutationResult result{};
  /// A batch's results, one for each operation. If an operation cannot be applied, the batch is `not_applied`: that
  /// operation has its own result, and the others have OK without a version. Deleting an absent key gives NOT_FOUND and
  /// does not stop the batch.
  std::vector<MutationResult> results{};
  bool not_applied = false;
  bool from_record = false;  ///< `result` is the answer of an earlier attempt
  Durability achieved = Durability::kDefault;
  std::string why;  ///< for people, if the status needs it; empty otherwise

  // The following members are the engine's.
  enum class State : uint8_t { kAnswered, kInLog, kWritten, kFailed };  // replicated shards: kInLog until committed
  State state = State::kAnswered;
  bool is_attempt = false;  // the completion table counts this op as an attempt under way
  uint64_t index = 0;
  uint64_t evaluated_ms = 0;  // unix time in ms, by which keys expired for this write
  uint64_t record_ms = 0;     // the record's time (shard_clock.h)
  Effect effect{};
  EffectHead head{};
  std::string scratch{};
  std::unique_ptr<BatchWork> work{};
  RelaxedRecord* relaxed = nullptr;
  WriteOp* repetition = nullptr;  // the next repetition that waits for the same answer
  WriteOp* behind = nullptr;      // the next op: in the shard's queue, behind a batch, or waiting for the same read
};

/// A read that memory could not answer. The submitter owns it, and keeps it and the key's bytes until fetch_done.
struct FetchOp {
  std::string_view key{};
  void* context = nullptr;
  absl::Status status{};    ///< OK, NOT_FOUND, or the database's error
  PinnedValue value{};      ///< may be held after the shard is closed; must be released before the engine ends
  uint64_t expires_at = 0;  ///< unix time in ms; 0: never

  FetchOp* behind = nullptr;  // the engine's
};

/// A shard that is being closed, or that cannot be closed.
struct ClosingShard {
  ShardId id;
  uint64_t since_ms = 0;   ///< unix time
  absl::Status held_up{};  ///< not OK: why closing takes long; the engine tries again
  absl::Status failure{};  ///< not OK: the shard cannot be closed before the node is restarted
};

/// A shard that is served, but whose database does not take its writes.
struct TroubledShard {
  ShardId id;
  absl::Status held_up{};  ///< not OK: why the database has no room; the engine tries again
  absl::Status failure{};  ///< not OK: the shard refuses writes until the node is restarted
};

/// An entry of a replicated shard, in the form in which peers get it.
struct ReplicaEntry {
  uint64_t index = 0;
  uint64_t epoch = 0;  ///< the epoch of the primary that made the entry
  int64_t time_ms = 0;
  Durability durability = Durability::kSync;
  ByteSpan payload{};  ///< the effects (effect.h), without the entry's head
};

/// The last index of a replicated shard that the log has written, and the last one that it has synced.
struct ReplicaLevels {
  uint64_t written = 0;
  uint64_t synced = 0;
};

/// The state that a replicated shard finds when it is opened (replica_rows.h).
struct ReplicaStart {
  uint64_t applied_index = 0;
  std::string runs;  ///< epoch runs of the last barrier that was applied; empty: none was applied
  /// Entries behind applied_index that are in this replica's log. Views, until the shard changes next.
  std::vector<ReplicaEntry> tail{};
};

/// A wait for the database to show everything that is committed now. The submitter owns it, and keeps it until
/// Events::applied.
struct AppliedWait {
  void* context = nullptr;
  absl::Status status{};  ///< not OK: why the database will not show it

  uint64_t index = 0;  // the engine's
};

/// Thread: the worker's, except for methods that say otherwise.
class WorkerEngine {
 public:
  struct Options {
    MemoryTier::Options memory{.budget_bytes = size_t{256} << 20};
    LogWriter::Options log;
    /// kLater: the code that drives the engine calls wake_log() after each burst.
    LogWriter::Wake log_wake = LogWriter::Wake::kNow;
    Applier::Options applier;
    Durability durability = Durability::kSync;  ///< of writes that ask for kDefault
    size_t unfinished_max = size_t{1} << 15;
    size_t unfinished_bytes_max = size_t{64} << 20;
    size_t batch_read_bytes_max = size_t{64} << 20;  ///< of old values that are read for one batch
    CompletionLimits completions;                    ///< bounds of what a shard keeps about its clients
  };

  struct Events {
    /// Runs a task on the worker's thread. Thread: any. It may block until the worker's mailbox has room.
    std::function<void(absl::AnyInvocable<void()>)> post;
    /// The op is done. On the worker's thread, perhaps before write(), fetch() or is_applied() returns. The callee may
    /// reuse the op and submit others.
    std::function<void(WriteOp&)> write_done;
    std::function<void(FetchOp&)> fetch_done;
    std::function<void(AppliedWait&)> applied;
    /// The number of writes in a group that the log has finished. May be null.
    std::function<void(size_t)> group_done;
    /// Replicated shards: the entry of a write is in the log's queue, and replica_entry() returns it.
    std::function<void(EngineShard&, const ReplicaEntry&)> proposed;
    /// Replicated shards: replica_levels() has changed. `refused`: the log had no room for entries, so the shard does
    /// not lead any more. The refused entries are dropped if they are not committed.
    std::function<void(EngineShard&, bool refused)> log_moved;
  };

  struct Counters {
    MemoryTier::Counters memory;
    LogCounters log;
    Applier::Counters applier;
    uint64_t writes_refused = 0;   ///< RESOURCE_EXHAUSTED
    uint64_t writes_repeated = 0;  ///< answered with the answer of an earlier attempt
    uint64_t fetches = 0;          ///< reads of databases for GETs and writes
    uint64_t fetches_shared = 0;   ///< misses that the read for an earlier miss answered
    uint64_t unfinished = 0;
    uint64_t unfinished_bytes = 0;
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
  void bind_to_this_thread() { memory_->bind_to_this_thread(); }

  /// True: so much memory is pinned that a value which is kept for a caller outside must be copied now (MemoryTier).
  [[nodiscard]] bool is_pinned_much() const { return memory_->is_pinned_much(); }

  // --- Shards

  /// Opens the shard of `db`. begin_life() (shard_life.h) must have run for `db`. `db` stays open until `closed` of
  /// close_shard() has run. `epoch` goes into the log's records.
  [[nodiscard]] EngineShard& open_shard(ShardDb& db, uint64_t epoch);
  /// Closes a shard. No op of the shard may be unfinished, and none may follow. `closed` runs later, when the database
  /// has everything and the engine has forgotten the shard. `closed` does not run if the engine stops before, if the
  /// database failed, or if the log failed while it held a write of the shard. In these cases the shard may be opened
  /// again only after a restart: recovery brings the database what it lacks, and may find that write in the log.
  void close_shard(EngineShard& shard, absl::AnyInvocable<void()> closed);
  /// The shards for which close_shard() was called and `closed` has not run.
  [[nodiscard]] std::vector<ClosingShard> closing_shards() const;
  /// The open shards whose database does not take their writes.
  [[nodiscard]] std::vector<TroubledShard> troubled_shards() const;
  /// OK, or why the shard refuses writes.
  [[nodiscard]] static const absl::Status& health(const EngineShard& shard);
  [[nodiscard]] static ShardDb& db(const EngineShard& shard);
  /// OK, or why the worker's log takes no more records.
  [[nodiscard]] const absl::Status& log_health() const { return log_failure_; }
  /// Readers see every write of the shard up to this index.
  [[nodiscard]] static uint64_t committed_index(const EngineShard& shard);
  /// True: readers see the state that this index names, or a later one. False: the index is not committed here, or an
  /// earlier life of the shard lost it.
  [[nodiscard]] static bool has_state(const EngineShard& shard, uint64_t index);

  // --- Reads

  /// Looks the key up in memory only.
  [[nodiscard]] MemoryTier::Lookup get(const EngineShard& shard, std::string_view key);
  /// The key will be in a get_batch() soon: begins to fetch the memory that its lookup touches first into the cache.
  void expect(const ItemKey& key) const { memory_->prefetch_bucket(key); }
  /// Like get() for many keys of any shards; their cache misses overlap. `out` is as long as `keys`.
  /// MemoryTier::get_batch() says how to use its values.
  void get_batch(std::span<const ItemKey> keys, std::span<MemoryTier::Lookup> out);
  [[nodiscard]] static ItemKey item_key(const EngineShard& shard, std::string_view key);
  /// Reads a key from the database after a miss in memory, whose ticket is `ticket`. Ends in fetch_done.
  void fetch(EngineShard& shard, FetchOp& op, MemoryTier::Ticket ticket);
  /// Keeps in memory a value that the caller read from the database after the miss that gave `ticket`.
  void fill(const EngineShard& shard, std::string_view key, const PinnedValue& value, MemoryTier::Ticket ticket);
  /// True: the database shows everything that is committed now. False: Events::applied tells when it does, or why it
  /// will not.
  [[nodiscard]] bool is_applied(EngineShard& shard, AppliedWait& wait);

  // --- Writes

  /// True: a write with this id is under way, or was answered and its answer is kept. A repetition of it adds no data.
  [[nodiscard]] bool is_repetition(const EngineShard& shard, const RequestId& id) const;
  /// Executes a write. Ends in write_done, with the answer in op.result.
  void write(EngineShard& shard, WriteOp& op);

  // --- Replicated shards (worker_engine_replica.cc). One primary makes the log's entries. Who is primary, and which
  // entries are committed, is decided outside of the engine (kvstore/replication).

  /// Makes the shard a replicated one, with the entries that its database has in rows. Call right after open_shard().
  void replicate(EngineShard& shard);
  /// The state that the shard was opened with. Call right after replicate().
  [[nodiscard]] ReplicaStart replica_start(const EngineShard& shard) const;
  /// From now on the log's records have this epoch. An epoch lower than the current one changes nothing.
  void set_replica_epoch(EngineShard& shard, uint64_t epoch);
  /// From now on the shard takes writes and makes them entries of `entry_epoch`. All entries must be committed and in
  /// memory (checked).
  void lead(EngineShard& shard, uint64_t entry_epoch);
  /// While the shard leads and is `on_hold`, it refuses writes that are not entries yet, also those that wait for the
  /// database.
  void hold_writes(EngineShard& shard, bool on_hold);
  /// From now on the shard refuses writes. Writes under way that are not committed are answered ABORTED; their entries
  /// may still be committed later.
  void follow(EngineShard& shard);
  /// Appends an entry behind the last one: an entry from the primary, or this replica's own barrier. The bytes are
  /// copied. RESOURCE_EXHAUSTED: there is no room now. INVALID_ARGUMENT: it is not a valid next entry. Other errors:
  /// the shard or the log has failed.
  [[nodiscard]] absl::Status append_entry(EngineShard& shard, const ReplicaEntry& entry);
  /// False: too many bytes of entries wait to be committed, in the whole worker and in this shard. The primary must
  /// wait, or is faulty. `inherited`: the entry was made before its primary began to lead, or is the primary's barrier;
  /// more of these are taken.
  [[nodiscard]] bool has_room_for_entries(const EngineShard& shard, bool inherited) const;
  /// Drops the entries behind `index`. They must not be committed, and the shard must not lead (checked).
  void truncate_entries(EngineShard& shard, uint64_t index);
  /// Entries up to `index` are committed: the engine applies them and answers their writes.
  void commit_entries(EngineShard& shard, uint64_t index);
  /// nullopt: the entry is not kept. The payload is valid until the next call that changes the shard; if the entry is
  /// pinned, until unpin_entry().
  [[nodiscard]] std::optional<ReplicaEntry> replica_entry(const EngineShard& shard, uint64_t index) const;
  /// Keeps the bytes of an entry until unpin_entry(). Null: the entry is not kept.
  [[nodiscard]] ReplicaRecord* pin_entry(EngineShard& shard, uint64_t index);
  void unpin_entry(ReplicaRecord& entry);
  /// unpin_entry() as the release function of a message's body. `entry` is a ReplicaRecord*.
  static void release_entry_pin(void* entry);
  [[nodiscard]] static ReplicaEntry entry_of_record(const ReplicaRecord& entry);
  /// Forgets the oldest entries, as far as the database has them. Entries below `needed_from` go while more than a
  /// quarter of `bytes_max` is kept, later entries while more than `bytes_max` is kept. Returns the first index that is
  /// kept.
  uint64_t trim_entries(EngineShard& shard, uint64_t needed_from, size_t bytes_max);
  /// `on`: from now on is_settled() knows of single keys. Off: it does not. For replicas that do not lead.
  void watch_uncommitted(EngineShard& shard, bool on);
  /// True: no entry of this replica that is not in memory yet touches the key. Without watch_uncommitted(): as
  /// is_settled() without a key.
  [[nodiscard]] static bool is_settled(const EngineShard& shard, std::string_view key);
  /// True: all entries of this replica are in memory.
  [[nodiscard]] static bool is_settled(const EngineShard& shard);
  /// Asks the log to sync the entries that are only written. log_moved tells when that is done.
  void sync_log();
  [[nodiscard]] ReplicaLevels replica_levels(const EngineShard& shard) const;
  [[nodiscard]] uint64_t last_entry(const EngineShard& shard) const;

  // --- The rest

  /// Tells the engine the time. Keys expire by `unix_ms`, unix time in milliseconds. Until the first call no key
  /// expires. If the wall clock goes back a little because it is slewed, the engine keeps its later time, so that no
  /// expired key comes back. If the clock was wrong and is set back by kClockSetBackMsMin or more, the engine follows
  /// it. `steady_ms`: milliseconds of a clock that is never set, for everything else.
  void set_time(uint64_t unix_ms, uint64_t steady_ms) {
    if (unix_ms > now_ms_ || unix_ms + kClockSetBackMsMin <= now_ms_) now_ms_ = unix_ms;
    steady_ms_ = std::max(steady_ms_, steady_ms);
  }
  [[nodiscard]] uint64_t now_ms() const { return now_ms_; }
  /// The time stamp of the shard's next record, in ms (shard_clock.h).
  [[nodiscard]] uint64_t next_record_ms(const EngineShard& shard) const;
  /// Call now and then. Tries again writes that wait for memory, because a release of a pinned value does not wake
  /// them, and databases whose disk was full.
  void tick();
  /// With Options::log_wake kLater: the log's thread was given records since the last wake_log().
  [[nodiscard]] bool log_waits() const { return log_waits_; }
  void wake_log();
  /// From now on committed writes do not wait for room in memory. The log has them, so recovery brings them to the
  /// database.
  void drain() { draining_ = true; }
  /// Applies everything, flushes it, closes the log and ends the threads. Call it when nothing is unfinished. Thread:
  /// any but the worker's, which must go on running posted tasks; or any if the worker's thread has ended.
  void stop();
  /// The health that the log's own thread knows. It may be newer than log_health(). Thread: any.
  [[nodiscard]] absl::Status log_writer_health() const { return log_->health(); }
  [[nodiscard]] Counters counters() const;

  /// For an engine without threads (own_thread is false in Options::log and Options::applier): one round of a thread's
  /// work. False: there was nothing to do.
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
  /// The time by which the shard forgets its clients, in ms.
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
  /// True: `duration_ms` has passed since `since_ms` by steady_ms_, or `since_ms` is 0 (never).
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
  std::vector<EngineShard*> unsynced_;  // replicated shards with entries that the log has written and not synced
  std::vector<EngineShard*> closing_;   // shards whose tail rows wait for room in the applier
  std::vector<ClosingShard> unclosed_;  // shards that the engine has let go of, but whose databases lack something
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
