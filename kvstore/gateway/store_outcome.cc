#include "kvstore/gateway/store_outcome.h"

#include "rpc/base/status.h"

namespace skua::kv::gateway {

using Kind = StoreRequest::Kind;

StoreResult::Status store_status(StoreRequest::Kind kind, const Outcome& outcome) {
  using Status = StoreResult::Status;
  if (outcome.ok()) return Status::kOk;
  // Without a detail the store itself has answered, or the client has refused.
  if (outcome.detail == nullptr && !outcome.may_have_been_applied) {
    switch (outcome.status.code()) {
      case absl::StatusCode::kNotFound: return Status::kNotFound;
      case absl::StatusCode::kAlreadyExists: return Status::kExists;
      case absl::StatusCode::kFailedPrecondition:
        if (kind == Kind::kEdit || kind == Kind::kGet) return Status::kNotARow;  // EDIT: or if_version does not hold
        return kind == Kind::kAdd ? Status::kNotANumber : Status::kOtherVersion;
      case absl::StatusCode::kOutOfRange: return Status::kOverflow;
      default: break;
    }
  }
  if (outcome.may_have_been_applied) return Status::kUnknown;
  // The client has looked at the keys before it sent anything. A node that got the batch has other reasons: its size.
  const bool is_refused = kind == Kind::kBatch && outcome.status.code() == absl::StatusCode::kInvalidArgument;
  if (is_refused && outcome.detail != nullptr && outcome.detail->attempt_count == 0) return Status::kManyShards;
  switch (outcome.status.code()) {
    case absl::StatusCode::kInvalidArgument:
    case absl::StatusCode::kFailedPrecondition:
    case absl::StatusCode::kUnimplemented: return Status::kRefused;
    case absl::StatusCode::kPermissionDenied:
    case absl::StatusCode::kUnauthenticated: return Status::kNoRight;
    default: return Status::kNotApplied;
  }
}

StoreResult store_result(StoreRequest::Kind kind, const Outcome& outcome) {
  StoreResult result;
  result.status = store_status(kind, outcome);
  result.version = outcome.version;
  if (result.is_failure()) result.text = std_view(outcome.status.message());
  return result;
}

StoreResult store_refusal(StoreRequest::Kind kind, const absl::Status& status) {
  return store_result(kind, {.status = status, .detail = nullptr});
}

}  // namespace skua::kv::gateway
