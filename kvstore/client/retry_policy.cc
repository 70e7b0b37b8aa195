#include "kvstore/client/retry_policy.h"

#include <algorithm>

#include "absl/status/status.h"

namespace skua::kv {

Judgement judge_reply(Repeat repeat, KvStatus status) {
  const bool is_write = repeat != Repeat::kRead;
  switch (status) {
    case KvStatus::kWrongShard: return {.verdict = Verdict::kRetry, .refresh_map = true};
    case KvStatus::kTooManyIncomplete:
    case KvStatus::kResourceExhausted: return {.verdict = Verdict::kRetry};
    case KvStatus::kUnavailable:
    case KvStatus::kAborted:
    case KvStatus::kCancelled:
      if (repeat == Repeat::kUnidentified) return {.verdict = Verdict::kGiveUp, .may_have_been_applied = true};
      return {.verdict = Verdict::kRetry, .refresh_map = true, .may_have_been_applied = is_write};
    case KvStatus::kOk:
    case KvStatus::kNotFound:
    case KvStatus::kAlreadyExists:
    case KvStatus::kVersionMismatch:
    case KvStatus::kNotARow:
    case KvStatus::kIsARow:
    case KvStatus::kNotANumber:
    case KvStatus::kCounterOverflow:
    case KvStatus::kBehindToken: return {.verdict = Verdict::kAnswer};
    default: return {.verdict = Verdict::kGiveUp, .may_have_been_applied = is_write && !certainly_not_applied(status)};
  }
}

Judgement judge_failure(Repeat repeat, const rpc::CallResult& failure) {
  const bool unknown = repeat != Repeat::kRead && failure.may_have_executed;
  Judgement judgement{.verdict = Verdict::kGiveUp, .may_have_been_applied = unknown};
  switch (failure.status.code()) {
    case absl::StatusCode::kInvalidArgument:
    case absl::StatusCode::kDeadlineExceeded:
    case absl::StatusCode::kUnimplemented:
    case absl::StatusCode::kUnauthenticated:
    case absl::StatusCode::kPermissionDenied: return judgement;
    case absl::StatusCode::kInternal:
    case absl::StatusCode::kDataLoss:
      // An error of the peer's handler would come again. An error on this side (a broken reply) may not.
      if (failure.from_peer) return judgement;
      break;
    default: break;
  }
  const bool crowded = failure.status.code() == absl::StatusCode::kResourceExhausted;
  judgement.session_suspect = !failure.from_peer && !crowded;
  judgement.refresh_map = judgement.session_suspect;
  if (!unknown || repeat == Repeat::kIdentified) judgement.verdict = Verdict::kRetry;
  return judgement;
}

DurationNs retry_pause(uint32_t attempt, DurationNs min_ns, DurationNs max_ns, Rng& rng) {
  const uint32_t doublings = std::min(attempt == 0 ? 0 : attempt - 1, 30u);
  const DurationNs whole = std::min(min_ns << doublings, max_ns);
  const auto half = static_cast<uint64_t>(whole / 2);
  return static_cast<DurationNs>(std::max<uint64_t>(1, half + rng.below(half + 1)));
}

}  // namespace skua::kv
