#include "kvstore/shard/evaluate.h"

#include <array>
#include <charconv>
#include <limits>

#include "kvstore/codec/row.h"
#include "kvstore/codec/size_limits.h"

namespace skua::kv {
namespace {

/// kOk, or why the condition does not hold.
KvStatus check_condition(const Condition& condition, uint64_t version) {
  switch (condition.kind) {
    case Condition::Kind::kNone: return KvStatus::kOk;
    case Condition::Kind::kIfAbsent: return version == 0 ? KvStatus::kOk : KvStatus::kAlreadyExists;
    case Condition::Kind::kIfPresent: return version != 0 ? KvStatus::kOk : KvStatus::kNotFound;
    case Condition::Kind::kIfVersion: return version == condition.version ? KvStatus::kOk : KvStatus::kVersionMismatch;
  }
  return KvStatus::kInvalidArgument;
}

uint64_t expiry_after(uint64_t ttl_ms, uint64_t now_ms) {
  if (ttl_ms == 0) return 0;
  return ttl_ms > std::numeric_limits<uint64_t>::max() - now_ms ? std::numeric_limits<uint64_t>::max()
                                                                : now_ms + ttl_ms;
}

/// A PATCH that edits the row, after its conditions.
Evaluated evaluate_edit(const Mutation& mutation, const CurrentState& current, RecordMark mark, std::string& scratch) {
  PatchCounts counts;
  switch (edit_row(current.value, mutation.value, scratch, counts)) {
    case Edited::kDone: break;
    case Edited::kUnchanged:
      if (current.version == 0) return {{KvStatus::kNotFound, 0}};
      return {.result = {KvStatus::kOk, current.version, counts.word()}, .is_unchanged = true};
    case Edited::kNotARow: return {{KvStatus::kNotARow, current.version}};
    case Edited::kMalformed: return {{KvStatus::kInvalidArgument, current.version}};
    case Edited::kTooManyFields:
      return {.result = {KvStatus::kInvalidArgument, current.version},
              .why = "the row would have more fields than rows may have (1,024)"};
    case Edited::kTooLarge:
      return {.result = {KvStatus::kInvalidArgument, current.version},
              .why = "the row would be larger than values may be (16 MiB)"};
  }
  if (counts.left == 0) return {{KvStatus::kOk, 0, counts.word()}};
  return {{KvStatus::kOk, 0, counts.word()}, as_byte_span(scratch), current.expires_at, mark};
}

Evaluated evaluate_patch(const Mutation& mutation, const CurrentState& current, std::string& scratch) {
  const bool is_new = current.version == 0;
  if (is_new && !mutation.create_if_missing) return {{KvStatus::kNotFound, 0}};
  if (!is_new && mutation.mark.row && !current.mark.row) return {{KvStatus::kNotARow, current.version}};
  const RecordMark mark = is_new ? mutation.mark : current.mark;
  if (mutation.edits_row) return evaluate_edit(mutation, current, mark, scratch);
  scratch.clear();
  const absl::Status status = patch_row(current.value, mutation.value, scratch);
  if (status.ok()) return {{KvStatus::kOk, 0}, as_byte_span(scratch), current.expires_at, mark};
  return {{absl::IsFailedPrecondition(status) ? KvStatus::kNotARow : KvStatus::kInvalidArgument, current.version}};
}

void write_counter(int64_t counter, std::string& out) {
  std::array<char, 24> text;
  out.assign(text.data(), std::to_chars(text.data(), text.data() + text.size(), counter).ptr);
}

/// The value must be in the form that this function writes: no leading zeros, no plus sign.
Evaluated evaluate_add(const Mutation& mutation, const CurrentState& current, std::string& scratch) {
  int64_t counter = 0;
  if (current.version != 0) {
    const std::string_view text = as_string_view(current.value);
    std::from_chars(text.data(), text.data() + text.size(), counter);
    write_counter(counter, scratch);
    if (scratch != text) return {{KvStatus::kNotANumber, current.version}};
  }
  if (__builtin_add_overflow(counter, mutation.delta, &counter)) {
    return {{KvStatus::kCounterOverflow, current.version}};
  }
  write_counter(counter, scratch);
  return {{KvStatus::kOk, 0, counter}, as_byte_span(scratch), current.expires_at, current.mark};
}

Evaluated evaluate_append(const Mutation& mutation, const CurrentState& current, std::string& scratch) {
  if (current.mark.row) return {{KvStatus::kIsARow, current.version}};
  if (current.value.size() + mutation.value.size() > kValueBytesMax) {
    return {{KvStatus::kInvalidArgument, current.version}};
  }
  scratch.assign(as_string_view(current.value));
  scratch.append(as_string_view(mutation.value));
  return {{KvStatus::kOk, 0}, as_byte_span(scratch), current.expires_at, current.mark};
}

/// The value is copied: the memory that holds it may be gone before the effect is in memory.
Evaluated evaluate_expire(const Mutation& mutation, const CurrentState& current, uint64_t now_ms,
                          std::string& scratch) {
  if (current.version == 0) return {{KvStatus::kNotFound, 0}};
  scratch.assign(as_string_view(current.value));
  return {{KvStatus::kOk, 0}, as_byte_span(scratch), expiry_after(mutation.ttl_ms, now_ms), current.mark};
}

}  // namespace

MutationResult evaluate_check(const Mutation& check, const CurrentState& current, uint64_t now_ms) {
  const uint64_t version = is_expired(current.expires_at, now_ms) ? 0 : current.version;
  return {check_condition(check.condition, version), version};
}

Evaluated evaluate(const Mutation& mutation, const CurrentState& stored, uint64_t now_ms, std::string& scratch) {
  const bool fits =
      !mutation.key.empty() && mutation.key.size() <= kKeyBytesMax && mutation.value.size() <= kValueBytesMax;
  if (!fits) return {{KvStatus::kInvalidArgument, 0}};
  const CurrentState& current = is_expired(stored.expires_at, now_ms) ? kAbsent : stored;
  const KvStatus status = check_condition(mutation.condition, current.version);
  if (status != KvStatus::kOk) return {{status, current.version}};
  switch (mutation.kind) {
    case Mutation::Kind::kPut:
      return {{KvStatus::kOk, 0},
              mutation.value,
              mutation.keep_ttl ? current.expires_at : expiry_after(mutation.ttl_ms, now_ms),
              mutation.mark};
    case Mutation::Kind::kDelete: return {{current.version == 0 ? KvStatus::kNotFound : KvStatus::kOk, 0}};
    case Mutation::Kind::kPatch: return evaluate_patch(mutation, current, scratch);
    case Mutation::Kind::kAdd: return evaluate_add(mutation, current, scratch);
    case Mutation::Kind::kAppend: return evaluate_append(mutation, current, scratch);
    case Mutation::Kind::kExpire: return evaluate_expire(mutation, current, now_ms, scratch);
    case Mutation::Kind::kCheck: break;
  }
  return {{KvStatus::kInvalidArgument, 0}};
}

}  // namespace skua::kv
