#include "kvstore/types/status.h"

#include <algorithm>
#include <iterator>

namespace skua::kv {
namespace {

using Code = absl::StatusCode;

/// What is known of a KvStatus.
struct StatusFacts {
  KvStatus status;
  const char* name;
  Code code;
  bool not_applied = false;     // certainly_not_applied()
  bool rests_on_state = false;  // rests_on_state()
};

constexpr bool kNotApplied = true;
constexpr bool kRestsOnState = true;

constexpr StatusFacts kFacts[] = {
    {KvStatus::kOk, "OK", Code::kOk},
    {KvStatus::kCancelled, "CANCELLED", Code::kCancelled},
    {KvStatus::kUnknown, "UNKNOWN", Code::kUnknown},
    {KvStatus::kInvalidArgument, "INVALID_ARGUMENT", Code::kInvalidArgument, kNotApplied},
    {KvStatus::kDeadlineExceeded, "DEADLINE_EXCEEDED", Code::kDeadlineExceeded},
    {KvStatus::kNotFound, "NOT_FOUND", Code::kNotFound, kNotApplied, kRestsOnState},
    {KvStatus::kAlreadyExists, "ALREADY_EXISTS", Code::kAlreadyExists, kNotApplied, kRestsOnState},
    {KvStatus::kPermissionDenied, "PERMISSION_DENIED", Code::kPermissionDenied, kNotApplied},
    {KvStatus::kResourceExhausted, "RESOURCE_EXHAUSTED", Code::kResourceExhausted, kNotApplied},
    {KvStatus::kFailedPrecondition, "FAILED_PRECONDITION", Code::kFailedPrecondition, kNotApplied},
    {KvStatus::kAborted, "ABORTED", Code::kAborted},
    {KvStatus::kOutOfRange, "OUT_OF_RANGE", Code::kOutOfRange, kNotApplied},
    {KvStatus::kUnimplemented, "UNIMPLEMENTED", Code::kUnimplemented, kNotApplied},
    {KvStatus::kInternal, "INTERNAL", Code::kInternal},
    {KvStatus::kUnavailable, "UNAVAILABLE", Code::kUnavailable},
    {KvStatus::kDataLoss, "DATA_LOSS", Code::kDataLoss},
    {KvStatus::kUnauthenticated, "UNAUTHENTICATED", Code::kUnauthenticated, kNotApplied},

    {KvStatus::kWrongShard, "WRONG_SHARD", Code::kUnavailable, kNotApplied},
    {KvStatus::kVersionMismatch, "VERSION_MISMATCH", Code::kFailedPrecondition, kNotApplied, kRestsOnState},
    {KvStatus::kNotARow, "NOT_A_ROW", Code::kFailedPrecondition, kNotApplied, kRestsOnState},
    {KvStatus::kStorageFailed, "STORAGE_FAILED", Code::kDataLoss},
    {KvStatus::kShardReadOnly, "SHARD_READ_ONLY", Code::kUnavailable, kNotApplied},
    {KvStatus::kNotANumber, "NOT_A_NUMBER", Code::kFailedPrecondition, kNotApplied, kRestsOnState},
    {KvStatus::kCounterOverflow, "COUNTER_OVERFLOW", Code::kOutOfRange, kNotApplied, kRestsOnState},
    {KvStatus::kStaleRetry, "STALE_RETRY", Code::kAborted},
    {KvStatus::kTooManyIncomplete, "TOO_MANY_INCOMPLETE", Code::kResourceExhausted, kNotApplied},
    {KvStatus::kBehindToken, "BEHIND_TOKEN", Code::kFailedPrecondition, kNotApplied},
    {KvStatus::kIsARow, "IS_A_ROW", Code::kInvalidArgument, kNotApplied, kRestsOnState},
};

/// For a byte that is no KvStatus: the facts of kUnknown.
const StatusFacts& facts_of(KvStatus status) {
  const auto* const found = std::ranges::find(kFacts, status, &StatusFacts::status);
  return found == std::end(kFacts) ? facts_of(KvStatus::kUnknown) : *found;
}

}  // namespace

const char* status_name(KvStatus status) {
  return facts_of(status).name;
}

absl::StatusCode to_status_code(KvStatus status) {
  return facts_of(status).code;
}

bool certainly_not_applied(KvStatus status) {
  return facts_of(status).not_applied;
}

bool rests_on_state(KvStatus status) {
  return facts_of(status).rests_on_state;
}

KvStatus from_status_code(absl::StatusCode code) {
  const int number = static_cast<int>(code);
  const bool is_known = number >= 0 && number <= static_cast<int>(KvStatus::kUnauthenticated);
  return is_known ? static_cast<KvStatus>(number) : KvStatus::kUnknown;
}

std::string status_text(KvStatus status, std::string_view text) {
  const bool code_names_it = from_status_code(to_status_code(status)) == status;
  if (code_names_it) return text.empty() ? "the node gives no reason" : std::string(text);
  return text.empty() ? status_name(status) : std::string(status_name(status)) + ": " + std::string(text);
}

}  // namespace skua::kv
