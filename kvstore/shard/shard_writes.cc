// Writes of a shard: from their arrival to their record, and from the log's outcome to their answer.
#include <algorithm>
#include <string>
#include <utility>

#include "absl/strings/str_cat.h"
#include "kvstore/codec/entry_check.h"
#include "kvstore/replication/epoch_history.h"
#include "kvstore/shard/room_needed.h"
#include "kvstore/shard/shard.h"
#include "kvstore/types/mutants.h"
#include "rpc/base/check.h"
#include "rpc/base/status.h"

namespace skua::kv {

namespace {

constexpr std::string_view kTooManyUnfinished =
    "the worker has as many writes waiting for its disk as it may; try later";

}  // namespace

// --- Until the record

void Shard::write(WriteOp& op) {
  op.reset(*this);
  op.leadership = entries_ == nullptr ? 0 : entries_->leadership();
  WorkerCounters& all = worker().counters;
  ++all.unfinished;
  all.unfinished_bytes += op.counted_bytes;
  if (worker().has_too_many_unfinished()) {
    op.answer(KvStatus::kResourceExhausted, kTooManyUnfinished);
    return finish(op);
  }
  if (op.id.client_id != 0) {
    const auto achieved = [&](uint64_t index) { return durability_of(op, index); };
    const Attempts::Begin begun = attempts_.begin(op, context_.time_ms(), achieved);
    if (begun == Attempts::Begin::kWaits) return;
    if (begun == Attempts::Begin::kAnswered) return finish(op);
  }
  intake_.take(op);
}

/// What is known by now of the durability of a committed record. Of the other members is only known that they have an
/// entry as durable as the write asked for.
Durability Shard::durability_of(const WriteOp& op, uint64_t index) const {
  if (entries_ != nullptr && !is_synced(worker().wanted(op.durability))) return Durability::kFlush;
  if (index <= at_.synced) return Durability::kSync;
  return index <= at_.written ? Durability::kFlush : Durability::kMemory;
}

bool Shard::refuse(WriteOp& op) {
  if (!health().ok()) {
    op.answer(KvStatus::kShardReadOnly, std_view(health().message()));
  } else if (!worker().log_failure.ok()) {
    op.answer(KvStatus::kShardReadOnly, std_view(worker().log_failure.message()));
  } else if (entries_ != nullptr && !entries_->refusal().empty()) {
    op.answer(KvStatus::kWrongShard, entries_->refusal());
  } else if (entries_ != nullptr && entries_->leadership() != op.leadership) {
    op.answer(KvStatus::kWrongShard,
              "the shard had another primary while the write waited for the disk: try again with the same request id");
  } else if (!log_.refusal().ok()) {
    op.answer(KvStatus::kResourceExhausted, std_view(log_.refusal().message()));
  } else if (context_.has_apply_gap) {
    // A committed write is only in the log, so memory and database do not have the state of its key.
    op.answer(KvStatus::kResourceExhausted, "the node is stopping and has no memory left for this write");
  } else {
    return false;
  }
  finish(op);
  return true;
}

void Shard::take(WriteOp& op, bool has_effect) {
  op.state = WriteOp::State::kAnswered;
  op.evaluated_ms = worker().now_ms;
  op.record_ms = next_record_ms();
  if (has_effect) {
    op.index = at_.last + 1;
    take_effect(op);
  }
  if (op.state == WriteOp::State::kAnswered) op.drop_scratch();  // it may wait for those before it
  if (!has_effect && mutant(Mutant::kAnswerFromPending)) return finish(op);
  queue_.push(op);
  if (queue_.front() == &op) advance();
}

/// Gives an evaluated write to the log, or answers why not.
void Shard::take_effect(WriteOp& op) {
  const MemoryTier& memory = *worker().memory;
  RoomNeeded room(memory);
  if (!std::ranges::all_of(op.effects(), [&room](const Effect& effect) { return room.add(effect); })) {
    return op.answer(
        KvStatus::kResourceExhausted,
        absl::StrCat("a worker of this node has memory for values of up to ", memory.item_bytes_max(),
                     " bytes, and for batches of up to ", memory.batch_bytes_max() / 2, "; give it more (--memory)"));
  }
  if (at_.last >= EpochHistory::kIndexMax) {
    return op.answer(KvStatus::kResourceExhausted, "the shard has used up its indices; copy its rows into a new table");
  }
  const size_t record_bytes = op.payload_bytes();
  if (record_bytes > payload_bytes_max()) return refuse_record(op, record_bytes);
  // A small request may leave a large record: an EXPIRE or APPEND of a large value.
  const size_t more_bytes = std::max(record_bytes, op.counted_bytes) - op.counted_bytes;
  if (worker().has_too_many_unfinished(more_bytes)) return op.answer(KvStatus::kResourceExhausted, kTooManyUnfinished);
  op.counted_bytes += more_bytes;
  worker().counters.unfinished_bytes += more_bytes;
  if (const std::string why = why_no_marks(op); !why.empty()) return op.answer(KvStatus::kUnimplemented, why);
  if (const absl::Status submitted = entries_ != nullptr ? entries_->propose(op) : log_.submit(op); !submitted.ok()) {
    return op.answer(KvStatus::kResourceExhausted, std_view(submitted.message()));
  }
  at_.last = op.index;
  context_.clock.saw(op.record_ms, worker().steady_ms);
  queue_.enter(op);
}

/// Why what the write leaves may have no mark. Empty: it has none, or all replicas take it. An entry that a replica
/// does not take would block all later writes.
std::string Shard::why_no_marks(const WriteOp& op) const {
  const auto is_marked = [](const Effect& effect) { return !effect.mark.empty(); };
  if (entries_ == nullptr || std::ranges::none_of(op.effects(), is_marked)) return {};
  return entries_->why_no_marks();
}

/// The refusal is INVALID_ARGUMENT, whatever durability was asked for: the record would not fit later either.
void Shard::refuse_record(WriteOp& op, size_t bytes) const {
  const size_t log_bytes_max = log_payload_bytes_max();
  if (bytes <= log_bytes_max) {
    return op.answer(KvStatus::kInvalidArgument,
                     absl::StrCat("what the write leaves takes at least ", bytes,
                                  " bytes; of a replicated table one write takes up to ", payload_bytes_max(),
                                  ", what a message between nodes takes; split it, or give all nodes more memory for "
                                  "messages (--message-memory)"));
  }
  op.answer(KvStatus::kInvalidArgument,
            absl::StrCat("what the write leaves takes at least ", bytes, " bytes of the log, which takes up to ",
                         log_bytes_max, " at once; split it, or give the node larger log files (--log-segment)"));
}

size_t Shard::log_payload_bytes_max() const {
  const size_t bytes_max = worker().log->payload_bytes_max();
  return entries_ == nullptr ? bytes_max : bytes_max - kEntryHeadBytes;
}

size_t Shard::payload_bytes_max() const {
  const size_t log_bytes_max = log_payload_bytes_max();
  return entries_ == nullptr ? log_bytes_max : std::min(log_bytes_max, worker().options.replicated_payload_bytes_max);
}

// --- What the log says

void Shard::take_back(LogOp& op) {
  log_.take_back(op);
  touch();
}

void Shard::synced() {
  entries_->synced();
  touch();
}

void Shard::touch() {
  if (!std::exchange(touched_, true)) worker().touched.push_back(this);
}

void Shard::end_group() {
  touched_ = false;
  if (entries_ != nullptr) entries_->tell_log_moved();
  advance();
}

// --- The queue

/// True: the write is answered as soon as it is at the front.
bool Shard::may_leave_queue(const WriteOp& op) const {
  return op.state != WriteOp::State::kInLog || (entries_ != nullptr && entries_->is_committed(op.index));
}

/// Answers the writes at the front of the queue that can be answered, in order.
void Shard::advance() {
  // The tail rows must reach the applier before any effect that is committed after them.
  if (entries_ != nullptr && !entries_->rows().is_closed() && !entries_->rows().hand_on()) return stall();
  while (!queue_.empty() && may_leave_queue(*queue_.front())) {
    WriteOp& op = *queue_.front();
    if (op.entry != nullptr && !(log_.refusal().ok() && worker().log_failure.ok())) {
      // The write is not answered yet and comes after a record that the log refused. So the log will refuse its record,
      // too.
      op.entry->abandoned = true;
      op.state = WriteOp::State::kFailed;
    }
    const bool written = op.state == WriteOp::State::kWritten || op.state == WriteOp::State::kInLog;
    if (written) {
      if (!apply_.apply(op)) return stall();
      queue_.withdraw(op);
    }
    queue_.pop();
    if (!written && (failing_ || op.state == WriteOp::State::kFailed)) fail(op);
    finish(op);
  }
  if (!queue_.empty()) return;
  if (entries_ != nullptr) {
    if (!apply_.apply_entries()) stall();
  } else if (!log_.refusal().ok() && log_.in_log() == 0) {
    settle();
  }
}

/// Answers a write with an error: the log did not take its record, or it depends on a write whose record the log did
/// not take.
void Shard::fail(WriteOp& op) {
  failing_ = true;
  const absl::Status& log_failure = worker().log_failure;
  const bool in_doubt = op.state == WriteOp::State::kFailed && !log_failure.ok();
  context_.in_doubt |= in_doubt;
  if (op.state == WriteOp::State::kFailed) queue_.withdraw(op);
  if (in_doubt) return op.answer(KvStatus::kStorageFailed, std_view(log_failure.message()));
  if (!log_failure.ok()) return op.answer(KvStatus::kShardReadOnly, std_view(log_failure.message()));
  op.answer(KvStatus::kResourceExhausted, std_view(log_.refusal().message()));
}

/// The log refused records of the shard, and has none of its records any more.
void Shard::settle() {
  if (!mutant(Mutant::kKeepIndexes)) at_.last = std::max(at_.written, at_.committed);
  failing_ = false;
  if (!log_.has_unlogged()) {
    log_.clear_refusal();
  } else if (closing_.is_leaving()) {
    // The database of the shard has the writes that the log lacks.
  } else if (!worker().log_failure.ok() || !log_.resubmit()) {
    stall();
  }
}

void Shard::stall() {
  if (!std::exchange(stalled_, true)) worker().stalled.push_back(this);
}

void Shard::retry() {
  stalled_ = false;
  advance();
}

// --- Answers

void Shard::finish(WriteOp& op) {
  if (op.entry != nullptr) std::exchange(op.entry, nullptr)->write = nullptr;
  WriteOp* repetition = attempts_.end(op, context_.time_ms());
  tell(op);
  while (repetition != nullptr) {
    WriteOp& next = *repetition;
    repetition = next.repetition;
    tell(next);
  }
}

void Shard::tell(WriteOp& op) {
  WorkerCounters& all = worker().counters;
  --all.unfinished;
  all.unfinished_bytes -= op.counted_bytes;
  if (op.result.status == KvStatus::kResourceExhausted) ++all.writes_refused;
  if (op.from_record) ++all.writes_repeated;
  op.drop_scratch();
  worker().events.write_done(op);
}

}  // namespace skua::kv
