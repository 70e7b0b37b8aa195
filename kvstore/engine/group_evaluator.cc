#include "kvstore/engine/group_evaluator.h"

#include "kvstore/codec/limits.h"
#include "kvstore/codec/row.h"
#include "rpc/base/check.h"

namespace skua::kv {
namespace {

/// Scratch rows above this size are given back after their group.
constexpr size_t kScratchBytesKept = size_t{64} << 10;

/// kOk, or why the condition does not hold.
KvStatus check_condition(const Condition& condition, uint64_t version) {
  switch (condition.kind) {
    case Condition::Kind::kNone: return KvStatus::kOk;
    case Condition::Kind::kIfAbsent: return version == 0 ? KvStatus::kOk : KvStatus::kAlreadyExists;
    case Condition::Kind::kIfVersion: return version == condition.version ? KvStatus::kOk : KvStatus::kVersionMismatch;
  }
  return KvStatus::kInvalidArgument;
}

}  // namespace

uint64_t GroupEvaluator::evaluate(std::span<const Mutation> group, uint64_t last_index, ReadCurrent read,
                                  std::span<MutationResult> results) {
  SKUA_CHECK(results.size() == group.size(), "give a result for each mutation");
  effects_.clear();
  last_effect_.clear();
  for (size_t i = 0; i < scratch_used_; ++i) {
    if (scratch_[i]->capacity() > kScratchBytesKept) std::string().swap(*scratch_[i]);
  }
  scratch_used_ = 0;
  index_ = last_index;
  for (size_t i = 0; i < group.size(); ++i) results[i] = evaluate_one(group[i], read);
  return index_;
}

MutationResult GroupEvaluator::evaluate_one(const Mutation& mutation, ReadCurrent read) {
  if (!check_key(mutation.key).ok() || !check_value(mutation.value).ok()) {
    return {KvStatus::kInvalidArgument, 0};
  }
  if (mutation.kind == Mutation::Kind::kPut && mutation.condition.kind == Condition::Kind::kNone) {
    return take_effect(mutation.key, mutation.value);
  }
  Current current;
  if (absl::Status status = find_current(mutation.key, read, current); !status.ok()) {
    return {from_status_code(status.code()), 0};
  }
  if (mutation.kind == Mutation::Kind::kPatch) return evaluate_patch(mutation, current);
  const KvStatus status = check_condition(mutation.condition, current.version);
  if (status != KvStatus::kOk) return {status, current.version};
  if (mutation.kind == Mutation::Kind::kPut) return take_effect(mutation.key, mutation.value);
  if (current.version == 0) return {KvStatus::kNotFound, 0};
  return take_effect(mutation.key, std::nullopt);
}

MutationResult GroupEvaluator::evaluate_patch(const Mutation& mutation, const Current& current) {
  if (current.version == 0 && !mutation.create_if_missing) return {KvStatus::kNotFound, 0};
  std::string& row = next_scratch();
  const absl::Status status = patch_row(current.value, mutation.value, row);
  if (status.ok()) return take_effect(mutation.key, as_byte_span(row));
  return {status.code() == absl::StatusCode::kFailedPrecondition ? KvStatus::kNotARow : KvStatus::kInvalidArgument,
          current.version};
}

absl::Status GroupEvaluator::find_current(std::string_view key, ReadCurrent read, Current& current) {
  const auto earlier = last_effect_.find(key);
  if (earlier == last_effect_.end()) return read(key, current);
  const Effect& effect = effects_[earlier->second];
  if (effect.value) current = {effect.version, *effect.value};
  return absl::OkStatus();
}

MutationResult GroupEvaluator::take_effect(std::string_view key, std::optional<ByteSpan> value) {
  const auto [earlier, is_new] = last_effect_.try_emplace(key, effects_.size());
  if (!is_new) {
    effects_[earlier->second].superseded = true;
    earlier->second = effects_.size();
  }
  effects_.push_back({.key = key, .version = ++index_, .value = value});
  return {KvStatus::kOk, index_};
}

std::string& GroupEvaluator::next_scratch() {
  if (scratch_used_ == scratch_.size()) scratch_.push_back(std::make_unique<std::string>());
  return *scratch_[scratch_used_++];
}

}  // namespace skua::kv
