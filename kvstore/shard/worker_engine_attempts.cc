// Exactly once: a repetition of a write is answered and not executed again.
#include <algorithm>
#include <utility>

#include "absl/strings/str_cat.h"
#include "kvstore/completions/completion_limits.h"
#include "kvstore/shard/engine_shard.h"
#include "kvstore/shard/worker_engine.h"
#include "kvstore/types/engine_mutants.h"

namespace skua::kv {
namespace {

/// True: the status is a final answer to one mutation that had no effect. After other errors a client may repeat the
/// mutation, or it tells its caller that an earlier attempt may have had an effect (retry_policy.cc).
bool is_answer_without_effect(KvStatus status) {
  switch (status) {
    case KvStatus::kNotFound:
    case KvStatus::kAlreadyExists:
    case KvStatus::kVersionMismatch:
    case KvStatus::kNotARow:
    case KvStatus::kNotANumber:
    case KvStatus::kCounterOverflow: return true;
    default: return false;
  }
}

/// Bytes of results that a batch leaves in the completion table; 0: not a batch.
size_t kept_bytes(const WriteOp& op) {
  return op.batch.size() * kBatchResultBytes;
}

constexpr char kOtherWrite[] =
    "the request's number is that of another write of the client: a repetition has the same operations";

/// True: the record may be that of an earlier attempt of `op`. A client may have given two writes the same number, and
/// the answer must have the form that the request asks for.
bool is_record_of(const CompletionTable::Result& kept, const WriteOp& op) {
  if (kept.has_effect) return kept.batch_results.size() == kept_bytes(op);
  const bool of_batch = kept.status == KvStatus::kOk || kept.refused_operation.has_value();
  return of_batch == !op.batch.empty() && kept.refused_operation.value_or(0) < std::max<size_t>(op.batch.size(), 1);
}

}  // namespace

uint64_t WorkerEngine::time_of(const EngineShard& shard) const {
  if (engine_mutant(EngineMutant::kForgetByWallClock)) return now_ms_;
  return shard.clock.now_ms(steady_ms_, now_ms_);
}

uint64_t WorkerEngine::next_record_ms(const EngineShard& shard) const {
  return shard.clock.stamp_ms(steady_ms_, now_ms_);
}

bool WorkerEngine::is_repetition(const EngineShard& shard, const RequestId& id) const {
  if (id.client_id == 0) return false;
  return shard.under_way.contains({id.client_id, id.seq}) || shard.completions.find(id, time_of(shard)) != nullptr;
}

/// True: the write must be evaluated. False: the write is answered, or it waits for an earlier attempt that is under
/// way.
bool WorkerEngine::begin_attempt(EngineShard& shard, WriteOp& op) {
  const auto first = shard.under_way.find({op.id.client_id, op.id.seq});
  if (first != shard.under_way.end()) {
    op.repetition = std::exchange(first->second->repetition, &op);
    return false;
  }
  if (const CompletionTable::Result* kept = shard.completions.find(op.id, time_of(shard))) {
    if (is_record_of(*kept, op)) {
      answer_from_record(shard, op, *kept);
    } else {
      answer(op, KvStatus::kInvalidArgument, kOtherWrite);
    }
    finish(op);
    return false;
  }
  switch (shard.completions.begin(op.id, time_of(shard), kept_bytes(op))) {
    case CompletionTable::Verdict::kNew:
      op.is_attempt = true;
      shard.under_way.emplace(std::pair(op.id.client_id, op.id.seq), &op);
      return true;
    case CompletionTable::Verdict::kStale:
      answer(op, KvStatus::kStaleRetry,
             "the shard keeps nothing of this write any more: the client has said that it knows its fate, or it was "
             "forgotten to "
             "make room for others; an earlier attempt may have been applied");
      op.result.version = shard.completions.first_taken(op.id.client_id, time_of(shard));
      break;
    case CompletionTable::Verdict::kIncomplete:
      answer(
          op, KvStatus::kTooManyIncomplete,
          absl::StrCat("the shard keeps as many results for this client as it may: ", kIncompleteMax, ", and ",
                       kClientBatchBytesMax, " bytes of results of batches; wait for answers before more is written"));
      break;
    case CompletionTable::Verdict::kFull:
      answer(
          op, KvStatus::kResourceExhausted,
          absl::StrCat("the shard has no room for a client that it does not know: it keeps kCompletionClientsMax of ",
                       kCompletionClientsMax, ", and kCompletionNewcomersMax of ", kCompletionNewcomersMax,
                       " came within a minute; try later"));
      break;
  }
  finish(op);
  return false;
}

void WorkerEngine::answer_from_record(EngineShard& shard, WriteOp& op, const CompletionTable::Result& kept) {
  op.state = WriteOp::State::kAnswered;
  op.from_record = true;
  op.results.clear();
  ++writes_repeated_;
  if (!kept.has_effect) return answer_refused(op, kept);
  // The durability is what is known of the record by now.
  op.result = {KvStatus::kOk, kept.version, kept.value};
  op.achieved = kept.version <= shard.synced_index    ? Durability::kSync
                : kept.version <= shard.written_index ? Durability::kFlush
                                                      : Durability::kMemory;
  // Of the other members only is known that they have the entry as durable as the write asked for.
  if (shard.replica != nullptr && wanted_durability(op.durability) != Durability::kSync) {
    op.achieved = Durability::kFlush;
  }
  for (size_t at = 0; at < kept.batch_results.size() / kBatchResultBytes; ++at) {
    op.results.push_back(batch_result(as_byte_span(kept.batch_results), at, kept.version));
  }
}

/// Restores the answer of a refused write, as evaluate_batch() or evaluate_write() gave it.
void WorkerEngine::answer_refused(WriteOp& op, const CompletionTable::Result& kept) {
  const MutationResult refused = {kept.status, kept.version, kept.value};
  if (op.batch.empty()) {
    op.result = refused;
    return;
  }
  op.result = {};
  op.not_applied = kept.refused_operation.has_value();
  const KvStatus others = op.not_applied ? KvStatus::kOk : KvStatus::kNotFound;
  op.results.assign(op.batch.size(), {others, 0, 0});
  if (!op.not_applied) {
    op.achieved = Durability::kSync;
  } else if (*kept.refused_operation < op.results.size()) {
    op.results[*kept.refused_operation] = refused;
  }
}

/// Remembers an answer without effect that the client takes as final.
void WorkerEngine::keep_refusal(EngineShard& shard, const WriteOp& op) {
  CompletionTable::Result kept{.seq = op.id.seq, .has_effect = false};
  MutationResult refused = op.result;
  if (!op.batch.empty()) {
    if (op.result.status != KvStatus::kOk || op.result.version != 0) return;
    const auto is_refused = [](const MutationResult& result) { return result.status != KvStatus::kOk; };
    const auto which = std::ranges::find_if(op.results, is_refused);
    if (op.not_applied) {
      kept.refused_operation = static_cast<size_t>(which - op.results.begin());
      refused = *which;
    }
  } else if (!is_answer_without_effect(op.result.status)) {
    return;
  }
  kept.status = refused.status;
  kept.version = refused.version;
  kept.value = refused.value;
  shard.completions.refuse(op.id, std::move(kept), time_of(shard));
}

/// Ends an attempt, and copies its answer to the repetitions that wait for it. Returns these; the caller must tell
/// them.
WriteOp* WorkerEngine::end_attempt(EngineShard& shard, WriteOp& op) {
  if (!op.is_attempt) return nullptr;
  op.is_attempt = false;
  shard.under_way.erase({op.id.client_id, op.id.seq});
  shard.completions.finish(op.id, kept_bytes(op));
  keep_refusal(shard, op);
  WriteOp* const repetitions = std::exchange(op.repetition, nullptr);
  for (WriteOp* repetition = repetitions; repetition != nullptr; repetition = repetition->repetition) {
    if (repetition->batch.size() != op.batch.size()) {
      answer(*repetition, KvStatus::kInvalidArgument, kOtherWrite);
      continue;
    }
    repetition->result = op.result;
    repetition->results = op.results;
    repetition->not_applied = op.not_applied;
    repetition->achieved = op.achieved;
    repetition->why = op.why;
    repetition->from_record = true;
    ++writes_repeated_;
  }
  return repetitions;
}

Completion WorkerEngine::completion_of(const WriteOp& op) {
  return {op.id, op.result.value, op.batch.empty() ? ByteSpan{} : as_byte_span(op.work->results)};
}

}  // namespace skua::kv
