#include "kvstore/shard/attempts.h"

#include <algorithm>
#include <string_view>

#include "absl/strings/str_cat.h"
#include "kvstore/completions/completion_limits.h"

namespace skua::kv {
namespace {

/// Bytes of the results of a batch's operations in the completion table; 0: not a batch.
size_t kept_bytes(const WriteOp& op) {
  return op.batch.size() * kBatchResultBytes;
}

constexpr std::string_view kOtherWrite =
    "the request's number is that of another write of the client: a repetition has the same operations";

/// True: the record may be that of an earlier attempt of `op`. A client may have given two writes the same number, and
/// the answer must have the form that the request asks for.
bool is_record_of(const CompletionTable::Result& kept, const WriteOp& op) {
  if (kept.has_effect) return kept.batch_results.size() == kept_bytes(op);
  // A batch without an effect has no version; an edit without one has the key's.
  const bool of_batch = (kept.status == KvStatus::kOk && kept.version == 0) || kept.refused_operation.has_value();
  return of_batch == op.is_batch() && kept.refused_operation.value_or(0) < std::max<size_t>(op.batch.size(), 1);
}

/// Restores the results of the checks of a batch that was applied. Their versions are those that the request names,
/// which a repetition names, too.
void restore_checks(WriteOp& op) {
  for (size_t i = 0; i < op.results.size(); ++i) {
    const Mutation& mutation = op.batch[i];
    if (mutation.kind == Mutation::Kind::kCheck) op.results[i] = {KvStatus::kOk, mutation.condition.version};
  }
}

/// Restores the answer of a refused write, as the evaluation gave it.
void answer_refused(WriteOp& op, const CompletionTable::Result& kept) {
  const MutationResult refused = {kept.status, kept.version, kept.value};
  if (!op.is_batch()) {
    op.result = refused;
    op.is_unchanged = refused.status == KvStatus::kOk;
    if (op.is_unchanged) op.achieved = Durability::kSync;
    return;
  }
  op.result = {};
  op.not_applied = kept.refused_operation.has_value();
  const KvStatus others = op.not_applied ? KvStatus::kOk : KvStatus::kNotFound;
  op.results.assign(op.batch.size(), {others, 0, 0});
  if (!op.not_applied) {
    op.achieved = Durability::kSync;
    restore_checks(op);
  } else if (*kept.refused_operation < op.results.size()) {
    op.results[*kept.refused_operation] = refused;
  }
}

void answer_from_record(WriteOp& op, const CompletionTable::Result& kept,
                        absl::FunctionRef<Durability(uint64_t index)> achieved) {
  op.state = WriteOp::State::kAnswered;
  op.from_record = true;
  op.results.clear();
  if (!kept.has_effect) return answer_refused(op, kept);
  op.result = {KvStatus::kOk, kept.version, kept.value};
  op.achieved = achieved(kept.version);
  for (size_t at = 0; at < kept.batch_results.size() / kBatchResultBytes; ++at) {
    op.results.push_back(batch_result(as_byte_span(kept.batch_results), at, kept.version));
  }
  restore_checks(op);
}

/// Gives a repetition the answer of the first attempt.
void answer_like(const WriteOp& first, WriteOp& repetition) {
  if (repetition.batch.size() != first.batch.size()) {
    return repetition.answer(KvStatus::kInvalidArgument, kOtherWrite);
  }
  repetition.result = first.result;
  repetition.results = first.results;
  repetition.not_applied = first.not_applied;
  repetition.is_unchanged = first.is_unchanged;
  repetition.achieved = first.achieved;
  repetition.why = first.why;
  repetition.from_record = true;
}

}  // namespace

bool Attempts::is_repetition(const RequestId& id, uint64_t now_ms) const {
  if (id.client_id == 0) return false;
  return under_way_.contains({id.client_id, id.seq}) || completions_.find(id, now_ms) != nullptr;
}

Attempts::Begin Attempts::begin(WriteOp& op, uint64_t now_ms, absl::FunctionRef<Durability(uint64_t index)> achieved) {
  const auto first = under_way_.find({op.id.client_id, op.id.seq});
  if (first != under_way_.end()) {
    op.repetition = std::exchange(first->second->repetition, &op);
    return Begin::kWaits;
  }
  if (const CompletionTable::Result* kept = completions_.find(op.id, now_ms)) {
    if (is_record_of(*kept, op)) {
      answer_from_record(op, *kept, achieved);
    } else {
      op.answer(KvStatus::kInvalidArgument, kOtherWrite);
    }
    return Begin::kAnswered;
  }
  const CompletionTable::Verdict verdict = completions_.begin(op.id, now_ms, kept_bytes(op));
  if (verdict != CompletionTable::Verdict::kNew) {
    refuse(op, verdict, now_ms);
    return Begin::kAnswered;
  }
  op.is_attempt = true;
  under_way_.emplace(std::pair(op.id.client_id, op.id.seq), &op);
  return Begin::kNew;
}

void Attempts::refuse(WriteOp& op, CompletionTable::Verdict verdict, uint64_t now_ms) const {
  switch (verdict) {
    case CompletionTable::Verdict::kNew: return;
    case CompletionTable::Verdict::kStale:
      op.answer(KvStatus::kStaleRetry,
                "the shard keeps nothing of this write any more: the client has said that it knows its fate, or it was "
                "forgotten to make room for others; an earlier attempt may have been applied");
      op.result.version = completions_.first_taken(op.id.client_id, now_ms);
      return;
    case CompletionTable::Verdict::kIncomplete:
      return op.answer(
          KvStatus::kTooManyIncomplete,
          absl::StrCat("the shard keeps as many results for this client as it may: ", kIncompleteMax, ", and ",
                       kClientBytesMax, " bytes of them; wait for answers before more is written"));
    case CompletionTable::Verdict::kFull:
      return op.answer(
          KvStatus::kResourceExhausted,
          absl::StrCat("the shard has no room for a client that it does not know: it keeps kCompletionClientsMax of ",
                       kCompletionClientsMax, ", and kCompletionNewcomersMax of ", kCompletionNewcomersMax,
                       " came within a minute; try later"));
  }
}

WriteOp* Attempts::end(WriteOp& op, uint64_t now_ms) {
  if (!std::exchange(op.is_attempt, false)) return nullptr;
  under_way_.erase({op.id.client_id, op.id.seq});
  completions_.finish(op.id, kept_bytes(op));
  keep_refusal(op, now_ms);
  WriteOp* const repetitions = std::exchange(op.repetition, nullptr);
  for (WriteOp* each = repetitions; each != nullptr; each = each->repetition) answer_like(op, *each);
  return repetitions;
}

/// Remembers an answer without effect that the client takes as final.
void Attempts::keep_refusal(const WriteOp& op, uint64_t now_ms) {
  CompletionTable::Result kept{.seq = op.id.seq, .has_effect = false};
  MutationResult refused = op.result;
  if (op.is_batch()) {
    if (op.result.status != KvStatus::kOk || op.result.version != 0) return;
    if (op.not_applied) {
      const auto is_refused = [](const MutationResult& result) { return result.status != KvStatus::kOk; };
      const auto which = std::ranges::find_if(op.results, is_refused);
      kept.refused_operation = static_cast<uint16_t>(which - op.results.begin());
      refused = *which;
    }
  } else if (!rests_on_state(op.result.status) && !(op.is_unchanged && op.result.status == KvStatus::kOk)) {
    return;
  }
  kept.status = refused.status;
  kept.version = refused.version;
  kept.value = refused.value;
  completions_.refuse(op.id, std::move(kept), now_ms);
}

}  // namespace skua::kv
