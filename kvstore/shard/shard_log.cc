#include "kvstore/shard/shard_log.h"

#include <algorithm>
#include <utility>

#include "kvstore/shard/entry_log.h"
#include "kvstore/types/mutants.h"

namespace skua::kv {
namespace {

/// Pause between two attempts to bring the records of answered writes into a log that has no room.
constexpr uint64_t kResubmitMs = 10;

LogShard log_shard(ShardId id) {
  return uint64_t{id.table_id} << 32 | id.shard;
}

/// True: the record makes no data grow, so the log may use its reserve for it.
bool only_deletes(const WriteOp& op) {
  return std::ranges::none_of(op.effects(), [](const Effect& effect) { return effect.value.has_value(); });
}

}  // namespace

ShardLog::ShardLog(ShardContext& shard, uint64_t epoch)
    : shard_(shard), id_(log_shard(shard.db.id())), epoch_(epoch), record_epoch_(epoch) {
  end_.shard = &shard.shard;
}

absl::Status ShardLog::submit(WriteOp& op) {
  const Durability durability = shard_.worker.wanted(op.durability);
  if (durability == Durability::kMemory) return submit_copy(op);
  const auto time_ms = static_cast<int64_t>(op.record_ms);
  absl::Status submitted = submit({.header = {id_, op.index, epoch_, time_ms, RecordKind::kData, durability},
                                   .payload = op.encode_record(),
                                   .urgent = only_deletes(op),
                                   .context = static_cast<LogOp*>(&op)});
  if (submitted.ok()) op.state = WriteOp::State::kInLog;
  return submitted;
}

absl::Status ShardLog::submit_copy(WriteOp& op) {
  Entry& entry = shard_.worker.entries.acquire(shard_.shard, op.index, epoch_, static_cast<int64_t>(op.record_ms),
                                               Durability::kMemory);
  for (const ByteSpan piece : op.encode_record()) entry.payload.append(as_string_view(piece));
  entry.urgent = only_deletes(op);
  absl::Status submitted = submit(entry);
  if (!submitted.ok()) {
    shard_.worker.entries.release(entry);
    return submitted;
  }
  entry.write = &op;
  op.entry = &entry;
  op.state = WriteOp::State::kWritten;
  op.achieved = Durability::kMemory;
  return absl::OkStatus();
}

absl::Status ShardLog::submit(Entry& entry, ByteSpan head) {
  absl::Status submitted =
      submit({.header = {id_, entry.index, epoch_, entry.time_ms, RecordKind::kData, entry.durability},
              .payload = {head, as_byte_span(entry.payload), {}},
              .urgent = entry.urgent,
              .context = static_cast<LogOp*>(&entry)});
  entry.in_log = submitted.ok();
  return submitted;
}

absl::Status ShardLog::submit(LogSubmission&& record) {
  if (const uint64_t index = record.header.index; !started_ || index <= start_index_) {
    if (absl::Status started = start(index - 1); !started.ok()) return started;
  }
  if (absl::Status submitted = shard_.worker.submit(std::move(record)); !submitted.ok()) return submitted;
  ++in_log_;
  record_epoch_ = epoch_;
  return absl::OkStatus();
}

absl::Status ShardLog::start(uint64_t index) {
  LogOp& op = starts_.emplace_back(LogOp::Kind::kShardStart);
  op.shard = &shard_.shard;
  const auto now_ms = static_cast<int64_t>(shard_.worker.now_ms);
  LogSubmission submission{.header = {id_, index, epoch_, now_ms, RecordKind::kShardStart}, .context = &op};
  if (absl::Status submitted = shard_.worker.submit(std::move(submission)); !submitted.ok()) {
    starts_.pop_back();
    return submitted;
  }
  started_ = true;
  start_index_ = index;
  ++in_log_;
  return absl::OkStatus();
}

void ShardLog::begin_anew() {
  if (start(shard_.at.last).ok()) record_epoch_ = epoch_;
}

bool ShardLog::end() {
  return shard_.worker.submit({.header = {.shard = id_, .kind = RecordKind::kShardEnd}, .context = &end_}).ok();
}

void ShardLog::take_back(LogOp& op) {
  --in_log_;
  if (!op.outcome.ok() && shard_.worker.log_failure.ok()) {
    if (absl::IsResourceExhausted(op.outcome)) shard_.worker.applier->free_log();
    if (shard_.entries == nullptr) refuse(op.outcome);
  }
  if (op.kind == LogOp::Kind::kWrite) return write_back(static_cast<WriteOp&>(op));
  if (op.kind == LogOp::Kind::kShardStart) return start_back(op);
  auto& entry = static_cast<Entry&>(op);
  shard_.entries != nullptr ? shard_.entries->take_back(entry) : copy_back(entry);
}

void ShardLog::write_back(WriteOp& op) {
  const bool taken = op.outcome.ok() || mutant(Mutant::kIgnoreLogFailure);
  op.state = taken ? WriteOp::State::kWritten : WriteOp::State::kFailed;
  op.achieved = op.log_durability;
  if (op.outcome.ok()) wrote(op.index, op.log_durability);
}

void ShardLog::start_back(LogOp& op) {
  if (!op.outcome.ok()) started_ = false;
  starts_.remove_if([&op](const LogOp& start) { return &start == &op; });
}

/// The record of a write with durability "memory" is back.
void ShardLog::copy_back(Entry& entry) {
  if (entry.outcome.ok()) {
    wrote(entry.index, entry.log_durability);
  } else if (entry.write != nullptr) {
    entry.write->state = WriteOp::State::kFailed;  // not answered yet, so it may fail
  } else if (shard_.worker.log_failure.ok() && !entry.abandoned) {
    return unlogged_.push_back(&entry);
  }
  shard_.worker.entries.release(entry);
}

void ShardLog::wrote(uint64_t index, Durability achieved) {
  shard_.at.written = index;
  if (is_synced(achieved)) shard_.at.synced = index;
}

bool ShardLog::resubmit() {
  if (!shard_.worker.has_passed(resubmitted_ms_, kResubmitMs)) return false;
  resubmitted_ms_ = shard_.worker.steady_ms;
  size_t given = 0;
  while (given < unlogged_.size()) {
    Entry& entry = *unlogged_[given];
    entry.urgent = true;
    if (!submit(entry).ok()) break;
    ++given;
  }
  unlogged_.erase(unlogged_.begin(), unlogged_.begin() + static_cast<std::ptrdiff_t>(given));
  if (!unlogged_.empty()) return given > 0;
  clear_refusal();
  return true;
}

void ShardLog::forget_unlogged() {
  for (Entry* entry : std::exchange(unlogged_, {})) shard_.worker.entries.release(*entry);
}

}  // namespace skua::kv
