// A shard of a worker: everything that happens between a request and its answer. The shard runs on the worker's thread,
// without locks. Other threads wait for disks in its place: the log's thread, the applier's thread and the readers.
//
//    worker thread                                          log thread          applier thread         readers
//    write: evaluated against pending effects, else memory,
//           else (parked meanwhile) the disk  ---------------------------------------------------------> ShardDb::get
//           index = last + 1, into the log            -----> group write, sync
//    group done: into memory (dirty), answered         <----+
//           handed on                                  -------------------> ShardDb::apply
//    applied: marked clean                             <------------------- report
//    read:  memory, else the disk; the value is kept    -----------------------------------------------> ShardDb::get
//    scan:  waits until the commit index of its arrival is applied, then goes to the readers
//
// Its parts, in the order in which a write meets them:
//
//    Attempts      is the write a repetition of an earlier one?
//    WriteIntake   until the state of the write's keys is at hand; evaluation
//    ShardLog      the record, to the log and back; of a replicated shard: EntryLog (entries, kept for peers)
//    WriteQueue    until the record is committed; answers in the order of evaluation
//    ShardApply    into memory, and to the applier
//
// Beside them: ShardReads (what memory cannot answer), and ShardClosing (the shard's end).
//
// What a shard promises:
//   - A write is answered when its record and all earlier records of its shard are as durable as their writes asked
//     for, and memory has the write. Readers do not see the write before that. Writes of one key take effect in the
//     order of their arrival. So do all writes of a shard whose keys need no read.
//   - A batch is one record. Readers see all of the batch or nothing.
//   - A write whose RequestId was answered already gets the same answer, and is not executed again.
//   - Keys expire by the time that WorkerEngine::set_time() tells. Records hold the expiry times, so replay decides
//     nothing.
//   - A shard's indices rise by one. Its database says where they begin (shard_life.h). If the log has no room for a
//     record, it has written nothing of that record. The record and all later ones of the shard are answered
//     RESOURCE_EXHAUSTED, and the shard counts on from the last index that was written. If the log fails, the writes
//     whose records it had not confirmed are answered STORAGE_FAILED, and all shards of the worker refuse writes from
//     then on. In a replicated shard such writes are answered ABORTED in both cases, because they may yet be committed,
//     and the replica stops leading.
//   - A write whose record is too large for the log, or for a message between nodes, is answered INVALID_ARGUMENT and
//     has no effect.
//   - A write that was answered with durability "memory" has a record in the log's queue that owns its bytes. If the
//     log has no room for this record, the shard gives it to the log again, and takes no writes until the log has the
//     record, so that no index is given out twice.
//   - When all memory is dirty or pinned, committed writes wait in their order until the applier has made room.
//     unfinished_bytes_max and unfinished_max bound all writes of the worker that wait for anything. One more write is
//     RESOURCE_EXHAUSTED.
//
// A shard without replicas is a group of one: its log alone decides what is committed. A replicated shard commits what
// commit_entries() says.
#ifndef SKUA_KVSTORE_SHARD_SHARD_H_
#define SKUA_KVSTORE_SHARD_SHARD_H_

#include <cstddef>
#include <cstdint>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <string_view>

#include "absl/functional/any_invocable.h"
#include "absl/status/status.h"
#include "kvstore/memory/memory_tier.h"
#include "kvstore/shard/attempts.h"
#include "kvstore/shard/entry_log.h"
#include "kvstore/shard/fetch.h"
#include "kvstore/shard/shard_apply.h"
#include "kvstore/shard/shard_closing.h"
#include "kvstore/shard/shard_context.h"
#include "kvstore/shard/shard_log.h"
#include "kvstore/shard/shard_reads.h"
#include "kvstore/shard/write_intake.h"
#include "kvstore/shard/write_op.h"
#include "kvstore/shard/write_queue.h"
#include "kvstore/storage/applier.h"
#include "kvstore/storage/replica_rows.h"
#include "kvstore/storage/shard_db.h"
#include "kvstore/storage/shard_life.h"

namespace skua::kv {

/// A shard that is served, but whose database does not take its writes.
struct TroubledShard {
  ShardId id;
  absl::Status held_up{};  ///< not OK: why the database has no room; the engine tries again
  absl::Status failure{};  ///< not OK: the shard refuses writes until the node is restarted
};

/// Made by WorkerEngine::open_shard(). Thread: the worker's.
class Shard {
 public:
  /// `db` and `worker` outlive the shard. `epoch` goes into the log's records.
  Shard(WorkerResources& worker, ShardDb& db, uint64_t epoch);
  Shard(const Shard&) = delete;
  Shard& operator=(const Shard&) = delete;

  [[nodiscard]] ShardDb& db() const { return context_.db; }
  [[nodiscard]] WorkerResources& worker() const { return context_.worker; }
  /// OK, or why the shard refuses writes.
  [[nodiscard]] const absl::Status& health() const { return context_.failure; }
  /// last, written and synced are what the log has; readers see every write up to `committed`.
  [[nodiscard]] const ShardIndices& indices() const { return context_.at; }
  /// True: readers see the state that this index names, or a later one. False: the index is not committed here, or an
  /// earlier life of the shard lost it.
  [[nodiscard]] bool has_state(uint64_t index) const { return index <= context_.at.committed && !life_.is_lost(index); }
  /// The time stamp of the shard's next record, in ms (shard_clock.h).
  [[nodiscard]] uint64_t next_record_ms() const { return context_.next_record_ms(); }

  // --- Reads

  [[nodiscard]] ItemKey item_key(std::string_view key) const { return context_.item_key(context_.hashed(key)); }
  /// Looks the key up in memory only.
  [[nodiscard]] MemoryTier::Lookup get(std::string_view key) const { return context_.get(context_.hashed(key)); }
  [[nodiscard]] ShardReads& reads() { return reads_; }

  // --- Writes

  /// True: a write with this id is under way, or was answered and its answer is kept. A repetition of it adds no data.
  [[nodiscard]] bool is_repetition(const RequestId& id) const {
    return attempts_.is_repetition(id, context_.time_ms());
  }
  /// Executes a write. Ends in EngineEvents::write_done, with the answer in op.result.
  void write(WriteOp& op);

  // --- Replication. One primary makes the log's entries. Who is primary, and which entries are committed, is decided
  // outside of the shard (kvstore/replication).

  /// Makes the shard a replicated one, with the entries that its database has in rows. Call right after open_shard().
  void replicate();
  /// Only of a replicated shard.
  [[nodiscard]] EntryLog& entries() { return *entries_; }
  /// From now on the shard takes writes and makes them entries of `entry_epoch`. All entries must be committed and in
  /// memory (checked).
  void lead(uint64_t entry_epoch);
  /// From now on the shard refuses writes. Writes under way that are not committed are answered ABORTED; their entries
  /// may still be committed later. Writes that are no entries yet, because they wait for the database, are refused when
  /// their reads are done, whoever leads then.
  void follow();
  /// Entries up to `index` are committed: the shard applies them and answers their writes.
  void commit_entries(uint64_t index);

  // --- For the shard's parts

  /// True: the shard takes no writes. The write is answered with the reason.
  [[nodiscard]] bool refuse(WriteOp& op);
  /// The write is refused because its record would have this many bytes. It must still be finished.
  void refuse_record(WriteOp& op, size_t bytes) const;
  [[nodiscard]] size_t payload_bytes_max() const;
  /// The write is evaluated. `has_effect`: it gets a record; else op.result is its answer.
  void take(WriteOp& op, bool has_effect);
  /// The write has its answer: tells, also those who wait for the same answer.
  void finish(WriteOp& op);
  /// A read of the database is done.
  void fetched(KeyFetch& fetch);

  // --- For WorkerEngine

  /// The log has given back an op of the shard. end_group() follows.
  void take_back(LogOp& op);
  /// All outcomes of the log's group were taken.
  void end_group();
  /// Of a replicated shard: everything that the log has written is synced.
  void synced();
  /// Does again what waited for room in memory or in the applier.
  void retry();
  void take_report(const Applier::Report& report);
  /// See WorkerEngine::close_shard().
  void close(absl::AnyInvocable<void()> closed);
  [[nodiscard]] ShardClosing& closing() { return closing_; }
  /// What the node's status shows; nullopt: nothing.
  [[nodiscard]] std::optional<TroubledShard> trouble() const;

 private:
  [[nodiscard]] absl::Status load(std::span<const InternalRow> rows);
  void take_effect(WriteOp& op);
  [[nodiscard]] std::string why_no_marks(const WriteOp& op) const;
  /// What the log takes of a write, without an entry's head.
  [[nodiscard]] size_t log_payload_bytes_max() const;
  [[nodiscard]] Durability durability_of(const WriteOp& op, uint64_t index) const;
  void tell(WriteOp& op);

  void touch();
  void advance();
  [[nodiscard]] bool may_leave_queue(const WriteOp& op) const;
  void fail(WriteOp& op);
  void settle();
  void stall();

  ShardContext context_;
  ShardIndices& at_ = context_.at;
  ShardLife life_;
  Attempts attempts_;
  ShardLog log_;
  WriteQueue queue_;
  WriteIntake intake_;
  ShardReads reads_;
  ShardApply apply_;
  ShardClosing closing_;

  ReplicaRows rows_;                   // of the database; replicate() takes them over
  std::unique_ptr<EntryLog> entries_;  // null: not replicated
  bool touched_ = false;               // in WorkerResources::touched
  bool stalled_ = false;               // in WorkerResources::stalled
  bool failing_ = false;               // a write at the front failed, so the writes behind it fail too
};

}  // namespace skua::kv

#endif  // SKUA_KVSTORE_SHARD_SHARD_H_
