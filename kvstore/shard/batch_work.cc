#include "kvstore/shard/batch_work.h"

#include <algorithm>
#include <cstdint>
#include <utility>

#include "absl/strings/str_cat.h"
#include "kvstore/shard/write_op.h"

namespace skua::kv {
namespace {

/// Of BatchWork::seen_: later operations on the key see the batch's own effect.
constexpr size_t kSettled = SIZE_MAX;

/// True: the mutation needs the old value. A condition needs the version only.
bool needs_value(const Mutation& mutation) {
  return mutation.kind != Mutation::Kind::kPut && mutation.kind != Mutation::Kind::kDelete &&
         mutation.kind != Mutation::Kind::kCheck;
}

}  // namespace

void BatchWork::begin(std::span<const Mutation> batch) {
  needed_.clear();
  seen_.clear();
  drop_fetched();
  failure_ = absl::OkStatus();
  effects_.clear();
  effect_of_key_.clear();
  operation_of_effect_.clear();
  made_.clear();
  record_bytes_ = 0;
  results_.clear();
  payload_.clear();
  if (std::ranges::none_of(batch, needs_current)) return;
  for (const Mutation& mutation : batch) {
    const auto [seen, is_first] = seen_.try_emplace(mutation.key, needed_.size());
    if (seen->second == kSettled) continue;
    if (is_first && needs_current(mutation)) needed_.push_back({mutation.key, false});
    if (needs_value(mutation)) needed_[seen->second].value = true;
    // A check leaves the key as it is, so the key's next operation looks at the old state, too.
    if (mutation.kind != Mutation::Kind::kCheck) seen->second = kSettled;
  }
}

// --- Reads of the database

void BatchWork::begin_fetch(std::string_view key) {
  fetched_.try_emplace(key);
  ++fetching_;
}

void BatchWork::take_fetched(const Needed& needed, const absl::Status& status, PinnedValue&& value, size_t bytes_max) {
  --fetching_;
  if (!failure_.ok()) return;  // the batch is refused when its last read is back
  if (status.ok()) {
    Fetched& kept = fetched_[needed.key];
    kept.version = value.version();
    kept.expires_at = value.expires_at();
    kept.mark = value.mark();
    if (needed.value) {
      fetched_bytes_ += value.bytes().size();
      kept.value = std::move(value);
    }
  } else if (!absl::IsNotFound(status)) {
    failure_ = status;
  }
  if (failure_.ok() && fetched_bytes_ > bytes_max) {
    failure_ = absl::ResourceExhaustedError(
        absl::StrCat("old values of the batch's keys must be read from the disk, and take more than ", bytes_max,
                     " bytes; split it"));
  }
  if (!failure_.ok()) drop_fetched();
}

void BatchWork::drop_fetched() {
  fetched_.clear();
  fetched_bytes_ = 0;
}

std::optional<CurrentState> BatchWork::fetched(std::string_view key) const {
  const auto found = fetched_.find(key);
  if (found == fetched_.end()) return std::nullopt;
  const Fetched& kept = found->second;
  return CurrentState{kept.version, kept.value.bytes(), kept.expires_at, kept.mark};
}

// --- The evaluation

BatchWork::Outcome BatchWork::evaluate(WriteOp& op, uint64_t now_ms, size_t payload_bytes_max, StateBefore before) {
  op.results.assign(op.batch.size(), {});
  if (op.id.client_id != 0) record_bytes_ = kCompletionHeadBytes + op.batch.size() * kBatchResultBytes;
  for (size_t i = 0; i < op.batch.size(); ++i) {
    const Mutation& mutation = op.batch[i];
    PinnedValue pin;
    const CurrentState state = needs_current(mutation) ? current(op, mutation.key, pin, before) : CurrentState{};
    const bool is_check = mutation.kind == Mutation::Kind::kCheck;
    std::string& made = made_.emplace_back();
    const Evaluated evaluated = is_check ? Evaluated{evaluate_check(mutation, state, now_ms)}
                                         : skua::kv::evaluate(mutation, state, now_ms, made);
    op.results[i] = evaluated.result;
    const KvStatus status = evaluated.result.status;
    // Unless the operation wants the key to be there.
    const bool nothing_to_delete = mutation.kind == Mutation::Kind::kDelete && status == KvStatus::kNotFound &&
                                   mutation.condition.kind != Condition::Kind::kIfPresent;
    if (nothing_to_delete) continue;
    if (status != KvStatus::kOk) {
      op.results.assign(op.batch.size(), {});
      op.results[i] = evaluated.result;
      return Outcome::kNotApplied;
    }
    if (is_check) continue;
    op.results[i].version = op.index;
    enter_effect(i, {mutation.key, evaluated.value, evaluated.expires_at, evaluated.mark});
    if (record_bytes_ > payload_bytes_max) return Outcome::kTooLarge;
  }
  return Outcome::kApplied;
}

CurrentState BatchWork::current(const WriteOp& op, std::string_view key, PinnedValue& pin, StateBefore before) {
  const auto own = effect_of_key_.find(key);
  if (own == effect_of_key_.end()) return before(key, pin);
  const Effect& effect = effects_[own->second];
  return effect.value ? CurrentState{op.index, *effect.value, effect.expires_at, effect.mark} : CurrentState{};
}

/// Sets the effect of a key. The effect replaces the key's earlier one; the value that an earlier operation made for
/// the key is freed, because nothing points to that value any more.
void BatchWork::enter_effect(size_t operation, const Effect& effect) {
  const auto [found, is_new] = effect_of_key_.try_emplace(effect.key, effects_.size());
  const size_t at = found->second;
  if (is_new) {
    effects_.emplace_back();
    operation_of_effect_.push_back(operation);
  } else {
    record_bytes_ -= encoded_bytes(effects_[at]);
    std::string().swap(made_[std::exchange(operation_of_effect_[at], operation)]);
  }
  record_bytes_ += encoded_bytes(effect);
  effects_[at] = effect;
}

void BatchWork::encode(const WriteOp& op) {
  size_t bytes = kCompletionHeadBytes + op.results.size() * kBatchResultBytes;
  for (const Effect& effect : effects_) {
    bytes += kEffectHeadBytesMax + effect.key.size() + (effect.value ? effect.value->size() : 0);
  }
  payload_.reserve(bytes);  // so the payload does not move while it grows
  if (op.id.client_id != 0) {
    for (const MutationResult& result : op.results) append_batch_result(result, results_);
    EffectHead head;
    ByteWriter writer(head);
    encode_completion_head(op.completion(), writer);
    payload_.append(as_string_view(writer.written()));
    payload_.append(results_);
  }
  for (Effect& effect : effects_) append_effect(effect);
  effect_of_key_.clear();
  made_.clear();
}

void BatchWork::append_effect(Effect& effect) {
  EffectHead head;
  ByteWriter writer(head);
  encode_effect_head(effect, writer);
  payload_.append(as_string_view(writer.written()));
  const size_t key_at = payload_.size();
  payload_.append(effect.key);
  const size_t value_at = payload_.size();
  if (effect.value) payload_.append(as_string_view(*effect.value));
  const std::string_view written = payload_;
  effect.key = written.substr(key_at, value_at - key_at);
  if (effect.value) effect.value = as_byte_span(written.substr(value_at));
}

}  // namespace skua::kv
