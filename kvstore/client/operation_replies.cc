// What follows from the end of an attempt.
#include <algorithm>
#include <utility>

#include "absl/strings/str_cat.h"
#include "kvstore/client/client_limits.h"
#include "kvstore/client/operation_runner.h"
#include "rpc/base/status.h"

namespace skua::kv {

void OperationRunner::on_result(CallOperation& operation, rpc::CallResult&& result) {
  CallsInFlight::ended(operation);
  if (result.status.ok()) {
    sessions_.call_ended(operation.target, operation.session, true);
    // A GET's reply is handled without a virtual call.
    if (operation.method == Method::kGet) [[likely]] {
      return static_cast<GetOperation&>(operation).on_reply(std::move(result.response));
    }
    return operation.on_reply(std::move(result.response));
  }
  if (operation.moved) [[unlikely]] {
    return on_given_up(operation, result);
  }
  const Judgement judgement = judge_failure(repeat_of(operation), result);
  if (judgement.session_suspect) sessions_.suspect(operation.target, operation.session);
  sessions_.call_ended(operation.target, operation.session, result.from_peer);
  retry_or_give_up(operation, judgement, result.status);
}

void OperationRunner::on_given_up(CallOperation& operation, const rpc::CallResult& result) {
  operation.moved = false;
  ++counters_.calls_moved;
  sessions_.call_ended(operation.target, operation.session, result.from_peer);
  note_attempt(operation, operation.attempt_ns,
               absl::AbortedError("no answer yet, and another node leads the shard now"));
  operation.uncertain = operation.uncertain || (operation.is_write() && result.may_have_executed);
  dispatch(operation);
}

bool OperationRunner::is_answer(CallOperation& operation, const ReplyHead& head) {
  if (operation.spreads) {
    const bool answered = head.status == KvStatus::kOk || head.status == KvStatus::kNotFound ||
                          head.status == KvStatus::kNotARow;  // of a GET of fields
    if (!answered && operation.at_backup) {
      // What this client has no right to is no fault of the backup.
      turn_to_primary(operation, head.status != KvStatus::kUnavailable && head.status != KvStatus::kPermissionDenied);
      return false;
    }
    if (answered) spread_.answered(operation.target);
    if (operation.at_backup) ++counters_.backup_reads;
  }
  if (head.status == KvStatus::kOk) return true;
  Judgement judgement = judge_reply(repeat_of(operation), head.status);
  if (judgement.verdict == Verdict::kAnswer) return true;
  // The shard takes only numbers from head.version on. If no attempt of this write can have been executed, the write
  // may get a new number.
  if (head.status == KvStatus::kStaleRetry && operation.is_write() && !operation.uncertain &&
      lanes_.renumber(static_cast<NumberedOperation&>(operation), head.version)) {
    judgement = {.verdict = Verdict::kRetry};
  }
  if (head.status == KvStatus::kWrongShard) ++counters_.wrong_shard;
  retry_or_give_up(operation, judgement, to_status(head));
  return false;
}

void OperationRunner::on_malformed(CallOperation& operation, const absl::Status& why) {
  note_attempt(operation, operation.attempt_ns, why);
  fail(operation, absl::StatusCode::kInternal,
       absl::StrCat("the node's reply is malformed: ", why.message(), "; do client and node have the same version?"),
       operation.is_write());
}

void OperationRunner::retry_or_give_up(CallOperation& operation, const Judgement& judgement,
                                       const absl::Status& cause) {
  note_attempt(operation, operation.attempt_ns, cause);
  operation.uncertain = operation.uncertain || judgement.may_have_been_applied;
  if (judgement.refresh_map && !closing_) cluster_.hurry();
  if (operation.at_backup) return turn_to_primary(operation, true);
  if (operation.spreads && absl::IsDeadlineExceeded(cause) && now() < operation.deadline_ns) {
    // The primary is silent. Another replica may answer.
    spread_.failed(operation.target, now());
    return dispatch(operation);
  }
  const std::string_view text = std_view(cause.message());
  if (judgement.verdict != Verdict::kRetry || closing_) {
    return fail(operation, cause.code(), text, judgement.may_have_been_applied);
  }
  const bool soon = operation.failed_attempts <= kRetrySoonAttempts;
  const TimeNs when = now() + retry_pause(operation.failed_attempts, kRetryPauseMinNs,
                                          soon ? kRetryPauseSoonMaxNs : kRetryPauseMaxNs, rng_);
  if (when >= operation.deadline_ns) {
    return fail(operation, absl::StatusCode::kDeadlineExceeded,
                operation.failed_attempts > 1
                    ? "no time is left for another attempt"
                    : absl::StrCat("no time is left for another attempt; the only one: ", absl_view(text)));
  }
  park(operation, judgement.refresh_map ? Awaits::kMap : Awaits::kTime, when);
}

void OperationRunner::note_attempt(Operation& operation, TimeNs started_ns, const absl::Status& outcome) {
  ++operation.failed_attempts;
  auto& trail = operation.trail;
  if (trail.size() == kTrailFirstMax + kTrailLatestMax) {
    trail.erase(trail.begin() + kTrailFirstMax);
  }
  trail.push_back({.started = std::chrono::nanoseconds(started_ns - operation.started_ns),
                   .whom = routes_.describe(operation.target),
                   .outcome = outcome.ToString()});
}

}  // namespace skua::kv
