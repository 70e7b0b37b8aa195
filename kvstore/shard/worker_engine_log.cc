// Records on their way to the log and back.
//
//    sync, flush    the record's bytes are the submitter's and the op's; the write waits for the group
//    memory         the record has bytes of its own and the write goes on at once
//
// If the log has no room for a group, all of the group comes back, and so do all later records of the group's shards.
// When the log has no record of a shard any more, the shard counts on from the last index that was written. If writes
// were answered whose records were not written, these records ("unlogged") go to the log before any other write of the
// shard.
#include <algorithm>
#include <utility>

#include "absl/strings/str_cat.h"
#include "kvstore/shard/engine_limits.h"
#include "kvstore/shard/engine_shard.h"
#include "kvstore/shard/worker_engine.h"
#include "kvstore/types/engine_mutants.h"
#include "rpc/base/status.h"

namespace skua::kv {
namespace {

/// Pause between two attempts to bring the records of answered writes into a log that has no room.
constexpr uint64_t kResubmitMs = 10;

}  // namespace

/// OK: the write's record was given to the log. A write that asks for durability "memory" counts as written from then
/// on.
absl::Status WorkerEngine::submit(EngineShard& shard, WriteOp& op) {
  if (shard.replica != nullptr) return submit_entry(shard, op);
  if (!shard.started) {
    if (absl::Status started = start_in_log(shard, shard.last_index); !started.ok()) return started;
  }
  LogSubmission record;
  record.header = {.shard = shard.log_shard,
                   .index = op.index,
                   .epoch = shard.epoch,
                   .time = static_cast<int64_t>(op.record_ms),
                   .durability = wanted_durability(op.durability)};
  if (op.batch.empty()) {
    ByteWriter head(op.head);
    if (op.id.client_id != 0) encode_completion_head(completion_of(op), head);
    encode_effect_head(op.effect, head);
    record.payload = {head.written(), as_byte_span(op.effect.key), op.effect.value.value_or(ByteSpan{})};
    record.urgent = !op.effect.value.has_value();
  } else {
    record.payload = {as_byte_span(op.work->payload), {}, {}};
    record.urgent =
        std::ranges::none_of(op.work->effects, [](const Effect& effect) { return effect.value.has_value(); });
  }
  if (record.header.durability == Durability::kMemory) {
    RelaxedRecord& relaxed = acquire_relaxed();
    for (const ByteSpan piece : record.payload) relaxed.payload.append(as_string_view(piece));
    relaxed.shard = &shard;
    relaxed.index = op.index;
    relaxed.time_ms = record.header.time;
    relaxed.urgent = record.urgent;
    absl::Status submitted = submit_relaxed(shard, relaxed);
    if (!submitted.ok()) {
      release_relaxed(relaxed);
      return submitted;
    }
    relaxed.op = &op;
    op.relaxed = &relaxed;
    op.state = WriteOp::State::kWritten;
    op.achieved = Durability::kMemory;
    return absl::OkStatus();
  }
  record.context = static_cast<LogOp*>(&op);
  absl::Status submitted = submit_to_log(std::move(record));
  if (!submitted.ok()) return submitted;
  ++shard.in_log;
  op.state = WriteOp::State::kInLog;
  return absl::OkStatus();
}

absl::Status WorkerEngine::submit_relaxed(EngineShard& shard, RelaxedRecord& relaxed) {
  LogSubmission record;
  record.header = {.shard = shard.log_shard,
                   .index = relaxed.index,
                   .epoch = shard.epoch,
                   .time = relaxed.time_ms,
                   .durability = Durability::kMemory};
  record.payload = {as_byte_span(relaxed.payload), {}, {}};
  record.urgent = relaxed.urgent;
  record.context = static_cast<LogOp*>(&relaxed);
  absl::Status submitted = submit_to_log(std::move(record));
  if (submitted.ok()) ++shard.in_log;
  return submitted;
}

absl::Status WorkerEngine::start_in_log(EngineShard& shard, uint64_t index) {
  LogSubmission start;
  start.header = {.shard = shard.log_shard,
                  .index = index,
                  .epoch = shard.epoch,
                  .time = static_cast<int64_t>(now_ms_),
                  .kind = RecordKind::kShardStart};
  LogOp& op = shard.starts.emplace_back(LogOp::Kind::kShardStart);
  op.shard = &shard;
  start.context = &op;
  if (absl::Status submitted = submit_to_log(std::move(start)); !submitted.ok()) {
    shard.starts.pop_back();
    return submitted;
  }
  shard.started = true;
  ++shard.in_log;
  return absl::OkStatus();
}

RelaxedRecord& WorkerEngine::acquire_relaxed() {
  if (free_relaxed_ == nullptr) free_relaxed_ = relaxed_.emplace_back(std::make_unique<RelaxedRecord>()).get();
  return *std::exchange(free_relaxed_, free_relaxed_->next_free);
}

void WorkerEngine::release_relaxed(RelaxedRecord& relaxed) {
  if (relaxed.op != nullptr) std::exchange(relaxed.op, nullptr)->relaxed = nullptr;
  relaxed.abandoned = false;
  relaxed.payload.clear();
  if (relaxed.payload.capacity() > kPayloadBytesKept) std::string().swap(relaxed.payload);
  relaxed.next_free = std::exchange(free_relaxed_, &relaxed);
}

// --- Back

/// On the log's thread. The ops belong to this thread until the posted task runs.
void WorkerEngine::group_done(std::span<const LogSubmission> group) {
  LogOp* first = nullptr;
  size_t writes = 0;
  bool synced = group.empty();
  for (size_t i = group.size(); i-- > 0;) {
    auto* op = static_cast<LogOp*>(group[i].context);
    op->outcome = group[i].outcome;
    op->log_durability = group[i].achieved;
    op->next = std::exchange(first, op);
    synced = synced || (op->outcome.ok() && op->log_durability == Durability::kSync);
    if (op->kind != LogOp::Kind::kShardStart && op->kind != LogOp::Kind::kShardEnd) ++writes;
  }
  events_.post([this, first, writes, synced] { finish_group(first, writes, synced); });
}

void WorkerEngine::finish_group(LogOp* first, size_t writes, bool synced) {
  for (LogOp *op = first, *next = nullptr; op != nullptr; op = next) {
    next = op->next;
    take_outcome(*op);
  }
  if (synced && !unsynced_.empty()) log_synced();
  if (writes > 0 && events_.group_done) events_.group_done(writes);
  for (EngineShard* shard : std::exchange(touched_, {})) {
    shard->touched = false;
    if (shard->replica != nullptr) tell_log_moved(*shard);
    advance(*shard);
    if (shard->leaving && !shard->ending && shard->in_log == 0) forget(*shard);
  }
}

void WorkerEngine::take_outcome(LogOp& op) {
  EngineShard& shard = *op.shard;
  if (op.kind == LogOp::Kind::kShardEnd) return forget(shard);
  --shard.in_log;
  if (!op.outcome.ok()) {
    if (op.kind == LogOp::Kind::kShardStart) shard.started = false;
    if (const absl::Status health = log_->health(); !health.ok()) {
      log_failure_ = absl::Status(health.code(), absl::StrCat("the worker's log failed, and its shards refuse writes "
                                                              "until the node is started again: ",
                                                              health.message()));
    } else {
      if (absl::IsResourceExhausted(op.outcome)) applier_->free_log();
      if (shard.refusal.ok() && shard.replica == nullptr) shard.refusal = op.outcome;
    }
  }
  if (op.kind == LogOp::Kind::kReplica) {
    entry_done(shard, static_cast<ReplicaRecord&>(op));
  } else if (op.kind == LogOp::Kind::kRelaxed) {
    relaxed_done(shard, static_cast<RelaxedRecord&>(op));
  } else if (op.kind == LogOp::Kind::kShardStart) {
    shard.starts.remove_if([&op](const LogOp& start) { return &start == &op; });
  } else if (op.kind == LogOp::Kind::kWrite) {
    auto& write = static_cast<WriteOp&>(op);
    const bool taken = op.outcome.ok() || engine_mutant(EngineMutant::kIgnoreLogFailure);
    write.state = taken ? WriteOp::State::kWritten : WriteOp::State::kFailed;
    write.achieved = op.log_durability;
    if (op.outcome.ok()) shard.written_index = write.index;
    if (op.outcome.ok() && op.log_durability == Durability::kSync) shard.synced_index = write.index;
  }
  touch(shard);
}

/// finish_group() looks at the shard when all outcomes of the group were taken.
void WorkerEngine::touch(EngineShard& shard) {
  if (std::exchange(shard.touched, true)) return;
  touched_.push_back(&shard);
}

void WorkerEngine::relaxed_done(EngineShard& shard, RelaxedRecord& relaxed) {
  if (relaxed.outcome.ok()) {
    shard.written_index = relaxed.index;
    if (relaxed.log_durability == Durability::kSync) shard.synced_index = relaxed.index;
  } else if (relaxed.op != nullptr) {
    relaxed.op->state = WriteOp::State::kFailed;  // not answered yet, so it may fail
  } else if (log_failure_.ok() && !relaxed.abandoned) {
    shard.unlogged.push_back(&relaxed);
    return;
  }
  release_relaxed(relaxed);
}

/// The log refused records of the shard, and has none of its records any more.
void WorkerEngine::settle(EngineShard& shard) {
  if (!engine_mutant(EngineMutant::kKeepIndexes)) {
    shard.last_index = std::max(shard.written_index, shard.committed_index);
  }
  shard.failing = false;
  if (shard.unlogged.empty()) {
    shard.refusal = absl::OkStatus();
  } else if (shard.leaving) {
    // The database of the shard has the writes that the log lacks.
  } else if (!log_failure_.ok() || !resubmit(shard)) {
    stall(shard);
  }
}

/// Gives the records of answered writes that the log had no room for to the log again. They may use the log's reserve,
/// because nothing else of the shard can be written before them. False: try again later.
bool WorkerEngine::resubmit(EngineShard& shard) {
  if (!has_passed(shard.resubmitted_ms, kResubmitMs)) return false;
  shard.resubmitted_ms = steady_ms_;
  if (!shard.started && !start_in_log(shard, shard.unlogged.front()->index - 1).ok()) return false;
  size_t given = 0;
  while (given < shard.unlogged.size()) {
    RelaxedRecord& relaxed = *shard.unlogged[given];
    relaxed.urgent = true;
    if (!submit_relaxed(shard, relaxed).ok()) break;
    ++given;
  }
  shard.unlogged.erase(shard.unlogged.begin(), shard.unlogged.begin() + static_cast<std::ptrdiff_t>(given));
  if (!shard.unlogged.empty()) return given > 0;
  shard.refusal = absl::OkStatus();
  return true;
}

}  // namespace skua::kv
