#include "rpc/endpoint.h"

#include <algorithm>
#include <bit>

#include "absl/strings/str_cat.h"
#include "rpc/base/check.h"
#include "rpc/endpoint_impl.h"

namespace skua::rpc {
namespace {

constexpr size_t kMailboxTasksPerTurn = 256;
/// For a spinning endpoint that finds nothing: how often it looks at the wire in a turn, and after how many such turns
/// it makes a full turn. On some transports a look is a system call.
struct IdleSpin {
  uint32_t looks;
  uint32_t turns_per_full_turn;
};
constexpr IdleSpin kSpinByCalls{.looks = 1, .turns_per_full_turn = 8};
constexpr IdleSpin kSpinInMemory{.looks = 16, .turns_per_full_turn = 4};

void check_options(const EndpointOptions& options) {
  const ProtocolOptions& protocol = options.protocol;
  SKUA_CHECK(std::has_single_bit(protocol.window) && protocol.window <= kWindowMax,
             "window must be a power of two up to 1024, so that request numbers may wrap");
  SKUA_CHECK(protocol.credits > 0 && protocol.credits <= kCreditsMax, "credits must be 1..4096");
  SKUA_CHECK(protocol.message_max_bytes > 0 && protocol.message_max_bytes <= BufferPool::kLargest,
             "message_max_bytes must be 1..32 MiB");
  SKUA_CHECK(protocol.reads_max > 0 && protocol.read_chunk_bytes > 0, "reads_max and read_chunk_bytes must be above 0");
  SKUA_CHECK(protocol.rto_min_ns > 0 && protocol.rto_min_ns <= protocol.rto_max_ns, "0 < rto_min_ns <= rto_max_ns");
  SKUA_CHECK(is_valid(protocol.swift) && is_valid(protocol.timely),
             "congestion control's options are out of range or contradict each other (rpc/protocol/options.h)");
  SKUA_CHECK(protocol.ping_after_ns > 0 && protocol.ping_after_ns < protocol.peer_timeout_ns,
             "0 < ping_after_ns < peer_timeout_ns");
  SKUA_CHECK(protocol.connect_retry_ns > 0 && protocol.connect_timeout_ns > 0 && protocol.idle_timeout_ns >= 3,
             "connect and idle times must be above 0");
  SKUA_CHECK(protocol.kept_question_ns > 0, "kept_question_ns must be above 0");
}

}  // namespace

// --- Endpoint: the public face ---------------------------------------------------------------------------------------

Endpoint::Endpoint(Transport& transport, const Clock& clock, const EndpointOptions& options)
    : impl_(std::make_unique<EndpointImpl>(transport, clock, options)) {}
Endpoint::~Endpoint() = default;

void Endpoint::adopt_thread() {
  impl_->adopt_thread();
}
void Endpoint::serve(MethodId method, HandlerFn handler, const ServeOptions& options) {
  impl_->context_.check_thread();
  impl_->incoming_.serve(method, std::move(handler), options);
}
void Endpoint::on_session_event(SessionEventFn observer) {
  impl_->context_.check_thread();
  impl_->lives_.observe(std::move(observer));
}
void Endpoint::keep_for(absl::AnyInvocable<bool(const EndpointIdentity& peer) const> may_have) {
  impl_->context_.check_thread();
  impl_->context_.may_have_reserved = std::move(may_have);
}

void Endpoint::on_burst_end(absl::AnyInvocable<void()> observer) {
  impl_->context_.check_thread();
  impl_->observe_burst_end(std::move(observer));
}
absl::StatusOr<SessionId> Endpoint::connect(const Descriptor& peer) {
  impl_->context_.enter();
  return impl_->dialer_.connect(peer);
}
absl::StatusOr<Endpoint::Offer> Endpoint::begin_connect(const Descriptor& peer) {
  impl_->context_.enter();
  return impl_->dialer_.begin_connect(peer);
}
absl::Status Endpoint::finish_connect(SessionId session, ByteSpan answer) {
  impl_->context_.enter();
  return impl_->dialer_.finish_connect(session, answer);
}
std::string Endpoint::accept_offer(ByteSpan offer, const OfferOrigin& origin, SessionId* accepted) {
  impl_->context_.enter();
  return impl_->acceptor_.accept_offer(offer, origin, accepted);
}
void Endpoint::close(SessionId session) {
  impl_->context_.enter();
  impl_->lives_.close(session);
}
bool Endpoint::is_connected(SessionId session) const {
  impl_->context_.check_thread();
  const SessionEntry* entry = impl_->context_.sessions.find(session);
  return entry != nullptr && entry->state == SessionEntry::State::kOpen;
}
EndpointIdentity Endpoint::peer_identity(SessionId session) const {
  impl_->context_.check_thread();
  const SessionEntry* entry = impl_->context_.sessions.find(session);
  return entry == nullptr ? EndpointIdentity{} : entry->identity;
}
uint64_t Endpoint::session_nonce(SessionId session) const {
  impl_->context_.check_thread();
  const SessionEntry* entry = impl_->context_.sessions.find(session);
  return entry == nullptr ? 0 : entry->nonce;
}
Descriptor Endpoint::local_descriptor() const {
  return impl_->context_.transport.local_descriptor();
}
absl::Status Endpoint::register_memory(MutableByteSpan region) {
  impl_->context_.check_thread();
  return impl_->context_.transport.register_region(region);
}
void Endpoint::unregister_memory(MutableByteSpan region) {
  impl_->context_.check_thread();
  impl_->context_.transport.unregister_region(region);
}
MemoryAccess& Endpoint::memory_access() {
  impl_->context_.check_thread();
  return impl_->operations_;
}
MessagePtr Endpoint::make_message() {
  impl_->context_.check_thread();
  return impl_->memory_.make_message();
}
absl::StatusOr<CallId> Endpoint::call(SessionId session, MethodId method, MessagePtr request,
                                      const CallOptions& options, CompletionFn completion) {
  EndpointImpl& impl = *impl_;
  impl.context_.enter(options.now_ns);
  CallId id;
  if (request && impl.outgoing_.call_small(session, method, SentMessage(request), options, completion, id)) [[likely]] {
    return id;
  }
  return impl.outgoing_.call_large(session, method, request, options, completion);
}

absl::StatusOr<CallId> Endpoint::call(SessionId session, MethodId method, ByteSpan request, const CallOptions& options,
                                      CompletionFn completion) {
  EndpointImpl& impl = *impl_;
  impl.context_.enter(options.now_ns);
  const bool are_few = request.size() <= FewBytes::kMax;
  if (CallId id; are_few && impl.outgoing_.call_small(session, method, SentBytes(request), options, completion, id))
      [[likely]] {
    return id;
  }
  return impl.outgoing_.call_copied({session, method, &options, &completion}, request);
}

void Endpoint::cancel(CallId call) noexcept {
  impl_->context_.enter();
  impl_->outgoing_.cancel(call);
}
size_t Endpoint::poll() noexcept {
  impl_->context_.check_thread();
  return impl_->poll();
}
size_t Endpoint::poll_or_wait(DurationNs max_wait_ns) noexcept {
  impl_->context_.check_thread();
  return impl_->poll_or_wait(max_wait_ns);
}
int Endpoint::wait_fd() const {
  return impl_->context_.transport.wait_fd();
}
DurationNs Endpoint::begin_wait(DurationNs max_wait_ns, size_t polled) noexcept {
  impl_->context_.check_thread();
  return impl_->begin_wait(max_wait_ns, polled);
}
void Endpoint::end_wait() noexcept {
  impl_->context_.check_thread();
  impl_->end_wait();
}
void Endpoint::transmit() {
  impl_->context_.check_thread();
  impl_->transmit_between_turns();
}
TimeNs Endpoint::next_timer_ns() const {
  return impl_->next_timer_ns();
}
bool Endpoint::post(absl::AnyInvocable<void()>&& task) {
  return impl_->context_.mailbox->post(std::move(task));
}
std::shared_ptr<Mailbox> Endpoint::mailbox() const {
  return impl_->context_.mailbox;
}
const EndpointCounters& Endpoint::counters() const {
  return impl_->context_.counters;
}
TimeNs Endpoint::now_ns() const {
  return impl_->context_.now_ns;
}
size_t Endpoint::session_count() const {
  return impl_->context_.sessions.size();
}
bool Endpoint::is_short_of_sessions() const {
  return impl_->context_.sessions.is_short();
}
Endpoint::Balance Endpoint::balance() const {
  return impl_->balance();
}

// --- EndpointImpl: making and unmaking -------------------------------------------------------------------------------

EndpointImpl::EndpointImpl(Transport& transport, const Clock& clock, const EndpointOptions& options)
    : context_(transport, clock, options, std::make_shared<EndpointMailbox>(&answers_, transport, options.mailbox_max)),
      spin_policy_(options.spin_ns) {
  check_options(context_.options);
  SKUA_CHECK(!options.trusted_wire || !context_.capabilities.keyed || !transport.channels()->admits_keyless(),
             "peers without keys would leave out the checksums that the sealed transport looks at");
  context_.mailbox->keep_alive(context_.mailbox);
  context_.transport.set_placer(&receiver_);
  context_.transport.set_peer_use(&context_.sessions);
}

EndpointImpl::~EndpointImpl() {
  context_.check_thread();
  SKUA_CHECK(!context_.in_turn, "an endpoint was destroyed from inside its own poll()");
  outgoing_.shut_down();
  // Waiting tasks may hold this endpoint's reply tokens, leases and messages. After close() no tasks are added, so this
  // destroys all of them.
  context_.mailbox->close();
  absl::AnyInvocable<void()> task;
  while (context_.mailbox->take(task)) task = nullptr;
  lives_.abort_all(absl::CancelledError("the endpoint is shutting down"));
  one_sided_.end();
  outgoing_.run_completions();
  operations_.drop_task();
  incoming_.drop_handlers();
  lives_.observe(nullptr);
  context_.mailbox->detach();
  lives_.destroy_all();
  transmits_.end();
  SKUA_CHECK(memory_.lent_count() == 0, "a lease outlives its endpoint");
  memory_.flush_releases();
  context_.transport.set_placer(nullptr);
  context_.transport.set_peer_use(nullptr);
}

void EndpointImpl::adopt_thread() {
  context_.mailbox->set_owner();
  bundles_.adopt_thread();
}

void EndpointImpl::observe_burst_end(absl::AnyInvocable<void()> observer) {
  incoming_.observe_burst_end(std::move(observer));
  bundles_.gather(incoming_.gathers());
}

// --- The loop --------------------------------------------------------------------------------------------------------

size_t EndpointImpl::run_mailbox() {
  absl::AnyInvocable<void()> task;
  size_t count = 0;
  while (count < kMailboxTasksPerTurn && context_.mailbox->take(task)) {
    task();
    task = nullptr;
    ++count;
  }
  return count;
}

void EndpointImpl::run_timers() {
  timers_.run_due();
  if (context_.now_ns >= operations_.task_due_ns()) operations_.run_task();
  if (context_.now_ns >= rehearsals_.next_ns()) [[unlikely]] {
    rehearsals_.run();
  }
}

size_t EndpointImpl::poll() {
  SKUA_CHECK(!context_.in_turn, "poll() was called from a handler or completion");
  context_.in_turn = true;
  context_.now_ns = context_.clock.now_ns();
  return turn(receiver_.receive());
}

/// The clock was read before the packets were received, so packets do not wait for the clock.
size_t EndpointImpl::turn(size_t received) {
  size_t work = received;
  // With connections: sessions hear of a connection that came or went before they get the packets that it brought.
  if (context_.capabilities.connected) work += links_.poll();
  if (received > 0) {
    context_.counters.packets_received += received;
    receiver_.dispatch(received);
    incoming_.tell_burst_end();
    bundles_.send_all();
  }
  // Without connections, link events can wait until the packets are handled.
  if (!context_.capabilities.connected) work += links_.poll();
  // Mostly none of the following has work; a check here is cheaper than a call.
  if (!context_.mailbox->empty()) work += run_mailbox();
  if (const size_t done = one_sided_.run(); done > 0) {
    incoming_.tell_burst_end();
    work += done;
  }
  if (has_due_timer()) run_timers();
  if (outgoing_.has_completed()) work += outgoing_.run_completions();
  if (has_to_transmit()) work += transmit();
  transmits_.reap();
  memory_.flush_releases();
  if (context_.sessions.has_doomed()) bury_ended();
  bundles_.bury_ended();
  context_.in_turn = false;
  return work;
}

size_t EndpointImpl::transmit() {
  bundles_.send_all();
  if (dialer_.has_offers_due()) dialer_.send_offers();
  return transmits_.transmit();
}

void EndpointImpl::bury_ended() {
  outgoing_.run_completions();
  lives_.bury();
}

bool EndpointImpl::nothing_to_do() const {
  return transmits_.is_idle() && memory_.nothing_to_release() && !dialer_.has_offers_due() &&
         !context_.sessions.has_doomed() && !outgoing_.has_completed() && context_.mailbox->empty() &&
         one_sided_.is_idle();
}

size_t EndpointImpl::poll_or_wait(DurationNs max_wait_ns) {
  SKUA_CHECK(!context_.in_turn, "poll_or_wait() was called from a handler or completion");
  context_.in_turn = true;
  // An endpoint that does not spin sleeps first, and looks at the wire only when the wire has something. This saves a
  // fruitless receive in each turn.
  const DurationNs spin_ns = context_.capabilities.wakes_on_receive ? spin_policy_.spin_ns() : context_.options.spin_ns;
  const bool spins = spin_ns > 0 || !context_.capabilities.wakes_on_receive;
  bool slept = false;
  if (!spins && max_wait_ns > 0) {
    context_.now_ns = context_.clock.now_ns();
    transmit();
    slept = nothing_to_do();
    if (slept) sleep(max_wait_ns);
  }
  context_.now_ns = context_.clock.now_ns();
  size_t received = receiver_.receive();
  // While it spins, most turns find nothing. These turns look only at the wire; the clock and the rest wait for a full
  // turn.
  const IdleSpin& spin = context_.capabilities.receives_in_memory ? kSpinInMemory : kSpinByCalls;
  if (spins && received == 0 && ++idle_turns_ % spin.turns_per_full_turn != 0 && nothing_to_do()) {
    for (uint32_t i = 1; i < spin.looks && received == 0; ++i) received = receiver_.receive();
    if (received == 0) {
      context_.in_turn = false;
      return 0;
    }
  }
  const size_t work = turn(received);
  slept_since_work_ = slept_since_work_ || slept;
  if (work > 0) {
    spin_policy_.worked(context_.now_ns - last_work_ns_, std::exchange(slept_since_work_, false));
    last_work_ns_ = context_.now_ns;
    return work;
  }
  if (slept || spin_ns == kTimeNever || context_.now_ns - last_work_ns_ < spin_ns) return 0;
  sleep(max_wait_ns);
  slept_since_work_ = true;
  return 0;
}

void EndpointImpl::transmit_between_turns() {
  SKUA_CHECK(!context_.in_turn, "transmit() was called from a handler or completion");
  context_.in_turn = true;
  context_.now_ns = context_.clock.now_ns();
  transmit();
  context_.in_turn = false;
}

/// How long to sleep until a timer is due, at most `max_wait_ns`. 0: not at all. From now on other threads that post
/// wake the transport, until context_.mailbox->end_sleep().
DurationNs EndpointImpl::begin_sleep(DurationNs max_wait_ns) {
  const TimeNs next = next_timer_ns();
  const DurationNs until_timer = next == kTimeNever ? max_wait_ns : next - context_.now_ns;
  const DurationNs wait_ns = std::min(max_wait_ns, until_timer);
  return wait_ns > 0 && context_.mailbox->begin_sleep() ? wait_ns : 0;
}

/// Sleeps until there is traffic, a timer is due, another thread wakes the endpoint, or `max_wait_ns` has passed.
void EndpointImpl::sleep(DurationNs max_wait_ns) {
  if (const DurationNs wait_ns = begin_sleep(max_wait_ns); wait_ns > 0) context_.transport.wait(wait_ns);
  context_.mailbox->end_sleep();
}

DurationNs EndpointImpl::begin_wait(DurationNs max_wait_ns, size_t polled) {
  transmit_between_turns();
  // Some work waits for the world outside, for example for memory that the wire still reads. If a turn could do nothing
  // about it, the traffic that wakes the loop can. A cancelled call needs a turn of its own: nothing else tells of it.
  if (outgoing_.has_completed() || (polled > 0 && !nothing_to_do())) return 0;
  const DurationNs wait_ns = begin_sleep(max_wait_ns);
  const DurationNs left_ns = wait_ns > 0 ? context_.transport.begin_wait(wait_ns) : 0;
  if (left_ns == 0) context_.mailbox->end_sleep();
  return left_ns;
}

void EndpointImpl::end_wait() {
  context_.transport.end_wait();
  context_.mailbox->end_sleep();
}

TimeNs EndpointImpl::next_timer_ns() const {
  return transmits_.has_ready() ? context_.now_ns : std::min(context_.timers.next(), operations_.next_ns());
}

Endpoint::Balance EndpointImpl::balance() const {
  Endpoint::Balance out;
  Session::Retained retained;
  context_.sessions.for_each([&](const SessionEntry& entry) {
    out.credits_missing += entry.session->credits_missing();
    retained.responses += entry.session->retained().responses;
    retained.requests += entry.session->retained().requests;
  });
  out.calls = outgoing_.in_flight();
  out.credits_missing += lives_.pulled_packets();
  out.handlers = incoming_.running();
  out.lent_buffers = memory_.lent_count();
  out.pool_buffers = memory_.buffer_count() - std::min(memory_.buffer_count(), retained.requests);
  // A response may come from the heap instead of the pool, so fewer messages may be counted than are retained.
  out.messages = memory_.message_count() - std::min(memory_.message_count(), retained.responses);
  return out;
}

}  // namespace skua::rpc
