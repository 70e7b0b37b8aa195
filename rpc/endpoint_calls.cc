// Calls: how they begin, end and are answered. There are two ways: Endpoint::call() tries the way of small calls first
// (rpc/bundles.h), then that of large calls (rpc/protocol/session_caller.h). An answer takes the way that its sslot
// records.
#include <algorithm>

#include "absl/strings/str_cat.h"
#include "rpc/base/check.h"
#include "rpc/endpoint.h"
#include "rpc/endpoint_impl.h"

namespace skua::rpc {
namespace {

constexpr DurationNs kTimeoutMax = 3600 * kSecond;
constexpr size_t kErrorTextMax = 1024;

}  // namespace

// --- ReplyToken ------------------------------------------------------------------------------------------------------

void ReplyToken::dropped() {
  fail(absl::InternalError("the handler dropped its reply token"));
}

/// Most answers are small, and are given on the endpoint's thread: these take the short way.
void ReplyToken::reply(MessagePtr message) {
  if (message && reply_small(SentMessage(message))) [[likely]] {
    return;
  }
  answer(absl::OkStatus(), std::move(message));
}

void ReplyToken::reply(ByteSpan bytes) {
  if (bytes.size() <= FewBytes::kMax && reply_small(SentBytes(bytes))) [[likely]] {
    return;
  }
  const bool has_pool = mailbox_ != nullptr && mailbox_->on_owner_thread() && mailbox_->endpoint() != nullptr;
  MessagePtr message = has_pool ? mailbox_->endpoint()->make_message() : MessagePtr::make();
  message->append_copy(bytes);
  reply(std::move(message));
}

template <typename Sent>
bool ReplyToken::reply_small(Sent response) {
  if (mailbox_ == nullptr || !mailbox_->on_owner_thread()) return false;
  EndpointImpl* endpoint = mailbox_->endpoint();
  if (endpoint == nullptr || !endpoint->answer_small(session_, req_num_, response)) return false;
  std::exchange(mailbox_, nullptr)->let_go_here();
  endpoint->handler_done();
  return true;
}

void ReplyToken::fail(const absl::Status& status) {
  SKUA_CHECK(!status.ok(), "fail() takes an error; use reply() for success");
  answer(status, MessagePtr());
}

SessionId ReplyToken::session() const {
  SKUA_CHECK(mailbox_ != nullptr && mailbox_->on_owner_thread(),
             "session() is for the endpoint's thread, before the answer");
  const EndpointImpl* const endpoint = mailbox_->endpoint();
  return endpoint == nullptr ? SessionId{} : endpoint->session_of(session_);
}

std::optional<Lease> ReplyToken::reserve(size_t bytes) {
  SKUA_CHECK(mailbox_ != nullptr && mailbox_->on_owner_thread(),
             "reserve() is for the endpoint's thread, before the answer");
  EndpointImpl* endpoint = mailbox_->endpoint();
  return endpoint == nullptr ? std::optional<Lease>() : endpoint->reserve_answer(session_, bytes);
}

namespace {

/// Keeps a token's hold on the mailbox while the answer travels through the mailbox.
class TokenHold {
 public:
  explicit TokenHold(EndpointMailbox* mailbox) : mailbox_(mailbox) {}
  TokenHold(TokenHold&& other) noexcept : mailbox_(std::exchange(other.mailbox_, nullptr)) {}
  TokenHold& operator=(TokenHold&&) = delete;
  ~TokenHold() {
    if (mailbox_ != nullptr) mailbox_->let_go();
  }
  [[nodiscard]] EndpointMailbox* mailbox() const { return mailbox_; }

 private:
  EndpointMailbox* mailbox_;
};

}  // namespace

void ReplyToken::answer(const absl::Status& status, MessagePtr&& message) {
  SKUA_CHECK(mailbox_ != nullptr, "a reply token answers once; this one was used or moved from");
  EndpointMailbox* mailbox = std::exchange(mailbox_, nullptr);
  if (mailbox->on_owner_thread()) {
    EndpointImpl* endpoint = mailbox->endpoint();
    mailbox->let_go();
    if (endpoint == nullptr) return;
    endpoint->handler_done();
    endpoint->answer(session_, slot_, req_num_, status, std::move(message));
    return;
  }
  answer_from_afar(mailbox, status, std::move(message));
}

void ReplyToken::answer_from_afar(EndpointMailbox* mailbox, const absl::Status& status, MessagePtr&& message) {
  TokenHold hold(mailbox);
  // The task keeps the hold. If the endpoint is gone, posting fails; then nobody waits for the answer.
  static_cast<void>(mailbox->post_waiting([hold = std::move(hold), session = session_, slot = slot_, req_num = req_num_,
                                           status, message = std::move(message)]() mutable {
    EndpointImpl* endpoint = hold.mailbox()->endpoint();
    if (endpoint == nullptr) return;
    endpoint->handler_done();
    endpoint->answer(session, slot, req_num, status, std::move(message));
  }));
}

// --- Calls -----------------------------------------------------------------------------------------------------------

namespace {
/// The highest bit of CallId::index: the call is a small one. The other bits are the session's index, and `number` is
/// the request number.
constexpr uint32_t kSmallCall = 1u << 31;
}  // namespace

template <typename Sent>
bool EndpointImpl::call_small(SessionId session, MethodId method, Sent request, const CallOptions& options,
                              CompletionFn& completion, CallId& id) {
  SessionHot& hot = bundles_.hot(session.index);
  const bool is_other = (index_of_handle(hot.handle) != session.index) | (hot.handle_generation != session.generation);
  if (is_other | (method >= kMethodMax) | options.one_way) [[unlikely]] {
    return false;
  }
  if (bundles_.calls().in_flight() >= small_calls_max_ && calls_in_flight() >= context_.options.calls_max)
      [[unlikely]] {
    return false;
  }
  if (!bundles_.calls().start(hot, static_cast<uint8_t>(method), request, options.timeout_ns, completion, id.number)) {
    return false;
  }
  id.index = session.index | kSmallCall;
  id.generation = hot.wire_generation;  // names this connection: the next one numbers its calls anew
  ++context_.counters.calls_started;
  return true;
}

bool EndpointImpl::call_small(SessionId session, MethodId method, ByteSpan bytes, CompletionFn& completion) {
  MessagePtr request = make_message();
  request->append_copy(bytes);
  CallId id;
  return call_small(session, method, SentMessage(request), {}, completion, id);
}

absl::StatusOr<CallId> EndpointImpl::call_large(SessionId session, MethodId method, MessagePtr& request,
                                                const CallOptions& options, CompletionFn& completion) {
  if (shutting_down_) return absl::CancelledError("the endpoint is shutting down");
  SessionEntry* entry = context_.sessions.find(session);
  if (entry == nullptr) return absl::NotFoundError("the session is closed: open a new one with connect()");
  if (method >= kMethodMax) return absl::InvalidArgumentError("method ids are below 256");
  if (options.timeout_ns <= 0 || options.timeout_ns > kTimeoutMax) {
    return absl::InvalidArgumentError("a call's timeout must be above 0 and at most one hour");
  }
  if (!request) request = make_message();
  if (request->size() > context_.options.protocol.message_max_bytes) {
    return absl::InvalidArgumentError(absl::StrCat("request of ", request->size(), " bytes; the limit is ",
                                                   context_.options.protocol.message_max_bytes));
  }
  // A call whose completion is running is over, although its record is not free yet.
  if (calls_in_flight() >= context_.options.calls_max) {
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
    free_calls_.push_back(call.pool_index);
    return status;
  }
  call.completion = std::move(completion);
  ++context_.counters.calls_started;
  return CallId{call.pool_index, call.pool_generation};
}

absl::StatusOr<CallId> Endpoint::call(SessionId session, MethodId method, MessagePtr request,
                                      const CallOptions& options, CompletionFn completion) {
  EndpointImpl& impl = *impl_;
  impl.enter(options.now_ns);
  CallId id;
  if (request && impl.call_small(session, method, SentMessage(request), options, completion, id)) [[likely]] {
    return id;
  }
  return impl.call_large(session, method, request, options, completion);
}

absl::StatusOr<CallId> Endpoint::call(SessionId session, MethodId method, ByteSpan request, const CallOptions& options,
                                      CompletionFn completion) {
  EndpointImpl& impl = *impl_;
  impl.enter(options.now_ns);
  const bool are_few = request.size() <= FewBytes::kMax;
  if (CallId id; are_few && impl.call_small(session, method, SentBytes(request), options, completion, id)) [[likely]] {
    return id;
  }
  return impl.call_copied({session, method, &options, &completion}, request);
}

absl::StatusOr<CallId> EndpointImpl::call_copied(const CopiedCall& call, ByteSpan request) {
  MessagePtr message = make_message();
  message->append_copy(request);
  CallId id;
  if (call_small(call.session, call.method, SentMessage(message), *call.options, *call.completion, id)) return id;
  return call_large(call.session, call.method, message, *call.options, *call.completion);
}

/// Returns an empty record. Makes one if none is free.
Call& EndpointImpl::take_call() {
  if (free_calls_.empty()) {
    calls_.push_back(std::make_unique<Call>());
    calls_.back()->pool_index = static_cast<uint32_t>(calls_.size() - 1);
    small_calls_max_ -= std::min(small_calls_max_, 1u);
    return *calls_.back();
  }
  Call& call = *calls_[free_calls_.back()];
  free_calls_.pop_back();
  return call;
}

bool EndpointImpl::start_small(Session& session, Call& call) {
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

Call& EndpointImpl::take_over(Session& session) {
  bundles_.calls().give_up(session.hot());
  Call& call = take_call();
  call.session_index = session.address().local_index;
  return call;
}

void EndpointImpl::cancel(CallId id) {
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

size_t EndpointImpl::run_completions() {
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
    free_calls_.push_back(call->pool_index);
  }
  return count;
}

// --- Handlers --------------------------------------------------------------------------------------------------------

void EndpointImpl::refuse(Session& session, const ArrivedRequest& request, absl::StatusCode code,
                          const std::string& text) {
  ++context_.counters.requests_refused;
  MessagePtr message = make_message();
  message->append_copy(as_byte_span(text));
  session.respond(request.slot, request.req_num, code, true, std::move(message), context_.now_ns);
}

void EndpointImpl::deliver(Session& session, ArrivedRequest&& request) {
  if (request.method >= kMethodMax || !handlers_[request.method]) {
    return refuse(session, request, absl::StatusCode::kUnimplemented,
                  absl::StrCat("no handler for method ", request.method));
  }
  if (handlers_running_ >= context_.options.handlers_max) {
    return refuse(
        session, request, absl::StatusCode::kResourceExhausted,
        absl::StrCat("the peer runs handlers_max (", context_.options.handlers_max, ") requests: try again later"));
  }
  ++context_.counters.requests_served;
  has_gathered_ = static_cast<bool>(burst_end_observer_);
  const SessionEntry& entry = context_.sessions[session.address().local_index];
  if (!request.one_way) {
    ++handlers_running_;
    context_.mailbox->hold();
  }
  IncomingCall call{.session = {entry.index, entry.handle_generation},
                    .method = request.method,
                    .one_way = request.one_way,
                    .deadline_ns = request.deadline_ns,
                    .received_ns = context_.now_ns,
                    .request = std::move(request.request),
                    .reply = ReplyToken(request.one_way ? nullptr : context_.mailbox.get(),
                                        {entry.index, entry.wire_generation}, request.slot, request.req_num)};
  handlers_[call.method](std::move(call));
}

MessagePtr EndpointImpl::error_message(const absl::Status& status) {
  MessagePtr message = make_message();
  message->append_copy(
      as_byte_span(std::string_view(status.message().data(), status.message().size()).substr(0, kErrorTextMax)));
  return message;
}

template <typename Sent>
bool EndpointImpl::answer_small(SessionId wire_session, uint32_t req_num, Sent response) {
  SessionHot& hot = bundles_.hot(wire_session.index);
  return hot.wire_generation == wire_session.generation && bundles_.calls().answer(hot, req_num, response);
}

void EndpointImpl::answer(SessionId wire_session, uint32_t slot, uint32_t req_num, const absl::Status& status,
                          MessagePtr&& message) {
  if (status.ok()) {
    if (!message) message = make_message();
    if (answer_small(wire_session, req_num, SentMessage(message))) return;
  }
  SessionEntry* entry = context_.sessions.at(wire_session.index);
  if (entry == nullptr || entry->state != SessionEntry::State::kOpen ||
      entry->wire_generation != wire_session.generation) {
    ++context_.counters.stale_replies;
    return;
  }
  absl::StatusCode code = absl::StatusCode::kOk;
  if (!status.ok()) [[unlikely]] {
    code = status.code();
    message = error_message(status);
  }
  if (!entry->session->respond(slot, req_num, code, false, std::move(message), context_.now_ns))
    ++context_.counters.stale_replies;
}

SessionId EndpointImpl::session_of(SessionId wire_session) const {
  const SessionEntry& entry = context_.sessions[wire_session.index];
  const bool is_same = entry.is_alive() && entry.wire_generation == wire_session.generation;
  return is_same ? entry.handle() : SessionId{};
}

std::optional<Lease> EndpointImpl::reserve_answer(SessionId wire_session, size_t bytes) {
  const SessionEntry& entry = context_.sessions[wire_session.index];
  // The session is gone: its answer is discarded at once, so it needs no share.
  if (entry.session == nullptr || entry.wire_generation != wire_session.generation) return Lease();
  return answers_.take(memory_.payer_of(entry, entry.peer), bytes);
}

}  // namespace skua::rpc
