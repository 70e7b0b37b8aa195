#include "rpc/outgoing_calls.h"

#include <algorithm>
#include <utility>

#include "absl/strings/str_cat.h"

namespace skua::rpc {
namespace {

constexpr DurationNs kTimeoutMax = 3600 * kSecond;

}  // namespace

bool OutgoingCalls::call_small(SessionId session, MethodId method, ByteSpan bytes, CompletionFn& completion) {
  MessagePtr request = memory_.make_message();
  request->append_copy(bytes);
  CallId id;
  return call_small(session, method, SentMessage(request), {}, completion, id);
}

absl::StatusOr<CallId> OutgoingCalls::call_large(SessionId session, MethodId method, MessagePtr& request,
                                                 const CallOptions& options, CompletionFn& completion) {
  if (shutting_down_) return absl::CancelledError("the endpoint is shutting down");
  SessionEntry* entry = context_.sessions.find(session);
  if (entry == nullptr) return absl::NotFoundError("the session is closed: open a new one with connect()");
  if (method >= kMethodMax) return absl::InvalidArgumentError("method ids are below 256");
  if (options.timeout_ns <= 0 || options.timeout_ns > kTimeoutMax) {
    return absl::InvalidArgumentError("a call's timeout must be above 0 and at most one hour");
  }
  if (!request) request = memory_.make_message();
  if (request->size() > context_.options.protocol.message_max_bytes) {
    return absl::InvalidArgumentError(absl::StrCat("request of ", request->size(), " bytes; the limit is ",
                                                   context_.options.protocol.message_max_bytes));
  }
  // A call whose completion is running is over, although its record is not free yet.
  if (in_flight() >= context_.options.calls_max) {
    return absl::ResourceExhaustedError(
        absl::StrCat("calls in flight reached calls_max (", context_.options.calls_max, "): wait for completions"));
  }
  Call& call = take_call();
  call.request = std::move(request);
  call.method = method;
  call.one_way = options.one_way;
  call.sent = false;
  call.deadline_ns = context_.now_ns + options.timeout_ns;
  call.session_index = session.index;
  call.slot = kNoSlot;
  call.is_small = false;
  if (absl::Status status = entry->session->start(call, context_.now_ns); !status.ok()) {
    call.request.reset();
    free_.push_back(call.pool_index);
    return status;
  }
  call.completion = std::move(completion);
  ++context_.counters.calls_started;
  return CallId{call.pool_index, call.pool_generation};
}

absl::StatusOr<CallId> OutgoingCalls::call_copied(const CopiedCall& call, ByteSpan request) {
  MessagePtr message = memory_.make_message();
  message->append_copy(request);
  CallId id;
  if (call_small(call.session, call.method, SentMessage(message), *call.options, *call.completion, id)) return id;
  return call_large(call.session, call.method, message, *call.options, *call.completion);
}

/// Returns an empty record. Makes one if none is free.
Call& OutgoingCalls::take_call() {
  if (free_.empty()) {
    calls_.push_back(std::make_unique<Call>());
    calls_.back()->pool_index = static_cast<uint32_t>(calls_.size() - 1);
    small_calls_max_ -= std::min(small_calls_max_, 1u);
    return *calls_.back();
  }
  Call& call = *calls_[free_.back()];
  free_.pop_back();
  return call;
}

bool OutgoingCalls::start_small(Session& session, Call& call) {
  // The application's completion stays in the record, where cancel() finds it.
  CompletionFn completion = [this, &call](CallOutcome&& outcome) {
    call.is_small = false;
    --small_records_;
    --context_.counters.calls_completed;  // run_completions() counts it again
    call.outcome = std::move(outcome);
    complete(call);
  };
  const auto method = static_cast<uint8_t>(call.method);
  session.hot().hinder(SessionHot::kBusy, false);  // it is this call's turn; the session sets this again if need be
  call.is_small = bundles_.calls().start(session.hot(), method, SentMessage(call.request),
                                         call.deadline_ns - context_.now_ns, completion, call.small_number);
  if (call.is_small) {
    ++small_records_;
  } else {
    completion.reset();
  }
  return call.is_small;
}

Call& OutgoingCalls::take_over(Session& session) {
  bundles_.calls().give_up(session.hot());
  Call& call = take_call();
  call.session_index = session.address().local_index;
  return call;
}

void OutgoingCalls::cancel(CallId id) {
  if ((id.index & kSmallCall) != 0 && id.index != UINT32_MAX) {
    const uint32_t index = id.index & ~kSmallCall;
    SessionEntry* entry = context_.sessions.at(index);
    if (entry == nullptr || entry->state != SessionEntry::State::kOpen) return;
    if (entry->session->hot().wire_generation != id.generation) return;
    entry->session->cancel_small(id.number, absl::CancelledError("cancelled by the caller"), context_.now_ns);
    run_completions();
    return;
  }
  if (id.index >= calls_.size()) return;
  Call& call = *calls_[id.index];
  if (call.pool_generation != id.generation || call.session_index == UINT32_MAX) return;
  context_.sessions[call.session_index].session->cancel(call, absl::CancelledError("cancelled by the caller"),
                                                        context_.now_ns);
  run_completions();
}

size_t OutgoingCalls::run_completions() {
  size_t count = 0;
  while (Call* call = completed_.pop_front()) {
    ++count;
    ++context_.counters.calls_completed;
    call->request.reset();
    // The record stays in use meanwhile: a new call that the completion makes gets another record.
    ++completing_count_;
    if (call->completion) call->completion(std::move(call->outcome));
    --completing_count_;
    call->outcome.response.reset();
    if (!call->outcome.status.ok()) call->outcome.status = absl::OkStatus();
    call->outcome.from_peer = call->outcome.may_have_executed = false;
    ++call->pool_generation;
    free_.push_back(call->pool_index);
  }
  return count;
}

}  // namespace skua::rpc
