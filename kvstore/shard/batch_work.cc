#include "kvstore/shard/batch_work.h"

#include <algorithm>
#include <cstdint>
#include <utility>

#include "absl/strings/str_cat.h"
#include "rpc/base/check.h"

namespace skua::kv {
namespace {

/// Of BatchWork::seen_: later operations on the key see the batch's own effect.
constexpr size_t kSettled = SIZE_MAX;

/// True: the mutation needs the old value, and makes a new one. A condition needs the version only.
bool needs_value(const Mutation& mutation) {
  return mutation.kind != Mutation::Kind::kPut && mutation.kind != Mutation::Kind::kDelete &&
         mutation.kind != Mutation::Kind::kCheck;
}

}  // namespace

void BatchWork::begin(std::span<const Mutation> batch, KeyHasher hasher) {
  hasher_ = hasher;
  needed_.clear();
  seen_.clear();
  release(memory_bytes_);
  failure_ = absl::OkStatus();
  made_bytes_ = 0;
  record_bytes_ = 0;
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

void BatchWork::release(size_t bytes_kept) {
  drop_fetched();
  effects_.clear();
  made_of_effect_.clear();
  if (!made_.empty()) made_.clear();
  payload_bytes_ = 0;
  results_ = {};
  if (memory_bytes_ <= bytes_kept) return;
  memory_.reset();
  memory_bytes_ = 0;
}

// --- Reads of the database

void BatchWork::take_fetched(const Needed& needed, const absl::Status& status, PinnedValue&& value, size_t bytes_max) {
  --fetching_;
  if (!failure_.ok()) return;  // the batch is refused when its last read is back
  if (status.ok()) {
    Fetched& kept = fetched_[needed.key];
    kept.state = {value.version(), {}, value.expires_at(), value.mark()};
    if (needed.value) {
      kept.state.value = value.bytes();
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

std::optional<CurrentState> BatchWork::fetched(std::string_view key) const {
  const auto found = fetched_.find(key);
  return found == fetched_.end() ? std::nullopt : std::optional(found->second.state);
}

// --- The evaluation

BatchWork::Outcome BatchWork::evaluate(WriteOp& op, uint64_t now_ms, size_t payload_bytes_max, StateBefore before) {
  op.results.assign(op.batch.size(), {});
  effect_of_key_.reset(op.batch.size());
  if (op.id.client_id != 0) record_bytes_ = kCompletionHeadBytes + op.batch.size() * kBatchResultBytes;
  for (size_t i = 0; i < op.batch.size(); ++i) {
    const Mutation& mutation = op.batch[i];
    const HashedKey key = hasher_(mutation.key);
    const Evaluated evaluated = evaluate_one(op, mutation, key, now_ms, before);
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
    if (mutation.kind == Mutation::Kind::kCheck) continue;
    op.results[i].version = op.index;
    enter_effect(key, evaluated, needs_value(mutation) ? static_cast<uint32_t>(made_.size() - 1) : kNotMade);
    if (record_bytes_ > payload_bytes_max) return Outcome::kTooLarge;
    if (needs_value(mutation) && evaluated.value.has_value()) made_bytes_ += evaluated.value->size();
    if (made_bytes_ > kMadeShare * payload_bytes_max) return Outcome::kTooMuch;
  }
  return Outcome::kApplied;
}

/// A value that the operation makes is the last one in made_.
Evaluated BatchWork::evaluate_one(const WriteOp& op, const Mutation& mutation, const HashedKey& key, uint64_t now_ms,
                                  StateBefore before) {
  std::string none;
  if (!needs_current(mutation)) return skua::kv::evaluate(mutation, kAbsent, now_ms, none);
  PinnedValue pin;
  const CurrentState state = current(op, key, pin, before);
  if (mutation.kind == Mutation::Kind::kCheck) return {evaluate_check(mutation, state, now_ms)};
  return skua::kv::evaluate(mutation, state, now_ms, needs_value(mutation) ? made_.emplace_back() : none);
}

CurrentState BatchWork::current(const WriteOp& op, const HashedKey& key, PinnedValue& pin, StateBefore before) {
  const uint32_t* const own = effect_of_key_.find(key.hash, is_of(key.text));
  if (own == nullptr) return before(key, pin);
  const Effect& effect = effects_[*own];
  return effect.value ? CurrentState{op.index, *effect.value, effect.expires_at, effect.mark} : CurrentState{};
}

/// Sets the effect of a key. The effect replaces the key's earlier one; the value that an earlier operation made for
/// the key is freed, because nothing points to that value any more.
void BatchWork::enter_effect(const HashedKey& key, const Evaluated& evaluated, uint32_t made) {
  const auto next = static_cast<uint32_t>(effects_.size());
  const auto [found, is_new] = effect_of_key_.try_add(key.hash, next, is_of(key.text));
  if (is_new) {
    effects_.emplace_back();
    made_of_effect_.push_back(made);
  } else {
    record_bytes_ -= encoded_bytes(effects_[*found]);
    const uint32_t made_earlier = std::exchange(made_of_effect_[*found], made);
    if (made_earlier != kNotMade) std::string().swap(made_[made_earlier]);
  }
  effects_[*found] = {{key.text, evaluated.value, evaluated.expires_at, evaluated.mark}, key.hash};
  record_bytes_ += encoded_bytes(effects_[*found]);
}

/// The payload has record_bytes(). From here on it does not move.
void BatchWork::encode(const WriteOp& op) {
  if (memory_bytes_ < record_bytes_) {
    memory_ = std::make_unique_for_overwrite<std::byte[]>(record_bytes_);
    memory_bytes_ = record_bytes_;
  }
  payload_bytes_ = record_bytes_;
  const MutableByteSpan bytes(memory_.get(), payload_bytes_);
  std::byte* to = bytes.data();
  if (op.id.client_id != 0) {
    const MutableByteSpan results = bytes.subspan(kCompletionHeadBytes, op.results.size() * kBatchResultBytes);
    encode_batch_results(op.results, results);
    results_ = results;
    ByteWriter writer(bytes);
    encode_completion_head(op.completion(), writer);
    to = results.data() + results.size();
  }
  for (HashedEffect& effect : effects_) to = encode_effect(effect, to);
  SKUA_CHECK(to == bytes.data() + bytes.size(), "the record has the bytes that were counted");
  made_.clear();
}

}  // namespace skua::kv
