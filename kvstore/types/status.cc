#include "kvstore/types/status.h"

namespace skua::kv {

const char* status_name(KvStatus status) {
  switch (status) {
    case KvStatus::kOk: return "OK";
    case KvStatus::kCancelled: return "CANCELLED";
    case KvStatus::kUnknown: return "UNKNOWN";
    case KvStatus::kInvalidArgument: return "INVALID_ARGUMENT";
    case KvStatus::kDeadlineExceeded: return "DEADLINE_EXCEEDED";
    case KvStatus::kNotFound: return "NOT_FOUND";
    case KvStatus::kAlreadyExists: return "ALREADY_EXISTS";
    case KvStatus::kPermissionDenied: return "PERMISSION_DENIED";
    case KvStatus::kResourceExhausted: return "RESOURCE_EXHAUSTED";
    case KvStatus::kFailedPrecondition: return "FAILED_PRECONDITION";
    case KvStatus::kAborted: return "ABORTED";
    case KvStatus::kOutOfRange: return "OUT_OF_RANGE";
    case KvStatus::kUnimplemented: return "UNIMPLEMENTED";
    case KvStatus::kInternal: return "INTERNAL";
    case KvStatus::kUnavailable: return "UNAVAILABLE";
    case KvStatus::kDataLoss: return "DATA_LOSS";
    case KvStatus::kUnauthenticated: return "UNAUTHENTICATED";
    case KvStatus::kWrongShard: return "WRONG_SHARD";
    case KvStatus::kVersionMismatch: return "VERSION_MISMATCH";
    case KvStatus::kNotARow: return "NOT_A_ROW";
    case KvStatus::kStorageFailed: return "STORAGE_FAILED";
    case KvStatus::kShardReadOnly: return "SHARD_READ_ONLY";
    case KvStatus::kNotANumber: return "NOT_A_NUMBER";
    case KvStatus::kCounterOverflow: return "COUNTER_OVERFLOW";
    case KvStatus::kStaleRetry: return "STALE_RETRY";
    case KvStatus::kTooManyIncomplete: return "TOO_MANY_INCOMPLETE";
    case KvStatus::kBehindToken: return "BEHIND_TOKEN";
  }
  return "UNKNOWN";
}

absl::StatusCode to_status_code(KvStatus status) {
  switch (status) {
    case KvStatus::kWrongShard:
    case KvStatus::kShardReadOnly: return absl::StatusCode::kUnavailable;
    case KvStatus::kVersionMismatch:
    case KvStatus::kNotARow:
    case KvStatus::kNotANumber:
    case KvStatus::kBehindToken: return absl::StatusCode::kFailedPrecondition;
    case KvStatus::kCounterOverflow: return absl::StatusCode::kOutOfRange;
    case KvStatus::kStaleRetry: return absl::StatusCode::kAborted;
    case KvStatus::kTooManyIncomplete: return absl::StatusCode::kResourceExhausted;
    case KvStatus::kStorageFailed: return absl::StatusCode::kDataLoss;
    default: break;
  }
  if (status <= KvStatus::kUnauthenticated) return static_cast<absl::StatusCode>(status);
  return absl::StatusCode::kUnknown;
}

KvStatus from_status_code(absl::StatusCode code) {
  const int number = static_cast<int>(code);
  if (number < 0 || number > static_cast<int>(KvStatus::kUnauthenticated)) {
    return KvStatus::kUnknown;
  }
  return static_cast<KvStatus>(number);
}

std::string status_text(KvStatus status, std::string_view text) {
  const bool code_names_it = from_status_code(to_status_code(status)) == status;
  if (code_names_it) return text.empty() ? "the node gives no reason" : std::string(text);
  return text.empty() ? status_name(status) : std::string(status_name(status)) + ": " + std::string(text);
}

bool certainly_not_applied(KvStatus status) {
  switch (status) {
    case KvStatus::kInvalidArgument:
    case KvStatus::kNotFound:
    case KvStatus::kAlreadyExists:
    case KvStatus::kPermissionDenied:
    case KvStatus::kResourceExhausted:
    case KvStatus::kFailedPrecondition:
    case KvStatus::kOutOfRange:
    case KvStatus::kUnimplemented:
    case KvStatus::kUnauthenticated:
    case KvStatus::kWrongShard:
    case KvStatus::kVersionMismatch:
    case KvStatus::kNotARow:
    case KvStatus::kNotANumber:
    case KvStatus::kCounterOverflow:
    case KvStatus::kTooManyIncomplete:
    case KvStatus::kBehindToken:
    case KvStatus::kShardReadOnly: return true;
    default: return false;
  }
}

bool rests_on_state(KvStatus status) {
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

}  // namespace skua::kv
