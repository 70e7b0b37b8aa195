#include "kvstore/engine/evaluate.h"

#include "kvstore/codec/limits.h"
#include "kvstore/codec/row.h"

namespace skua::kv {
namespace {

/// kOk, or why the condition does not hold.
KvStatus check_condition(const Condition& condition, uint64_t version) {
  switch (condition.kind) {
    case Condition::Kind::kNone: return KvStatus::kOk;
    case Condition::Kind::kIfAbsent: return version == 0 ? KvStatus::kOk : KvStatus::kAlreadyExists;
    case Condition::Kind::kIfVersion: return version == condition.version ? KvStatus::kOk : KvStatus::kVersionMismatch;
  }
  return KvStatus::kInvalidArgument;
}

Evaluated evaluate_patch(const Mutation& mutation, const CurrentState& current, std::string& scratch) {
  if (current.version == 0 && !mutation.create_if_missing) return {{KvStatus::kNotFound, 0}};
  scratch.clear();
  const absl::Status status = patch_row(current.value, mutation.value, scratch);
  if (status.ok()) return {{KvStatus::kOk, 0}, as_byte_span(scratch)};
  return {{absl::IsFailedPrecondition(status) ? KvStatus::kNotARow : KvStatus::kInvalidArgument, current.version}};
}

}  // namespace

bool needs_current(const Mutation& mutation) {
  return mutation.kind != Mutation::Kind::kPut || mutation.condition.kind != Condition::Kind::kNone;
}

Evaluated evaluate(const Mutation& mutation, const CurrentState& current, std::string& scratch) {
  if (!check_key(mutation.key).ok() || !check_value(mutation.value).ok()) return {{KvStatus::kInvalidArgument, 0}};
  if (mutation.kind == Mutation::Kind::kPatch) return evaluate_patch(mutation, current, scratch);
  const KvStatus status = check_condition(mutation.condition, current.version);
  if (status != KvStatus::kOk) return {{status, current.version}};
  if (mutation.kind == Mutation::Kind::kPut) return {{KvStatus::kOk, 0}, mutation.value};
  if (current.version == 0) return {{KvStatus::kNotFound, 0}};
  return {{KvStatus::kOk, 0}};
}

}  // namespace skua::kv
