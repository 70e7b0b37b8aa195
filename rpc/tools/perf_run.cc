#include "rpc/tools/perf_run.h"

#include <algorithm>
#include <optional>
#include <random>
#include <string>
#include <utility>
#include <vector>

#include "absl/strings/str_cat.h"
#include "rpc/base/rng.h"
#include "rpc/base/tsc_clock.h"
#include "rpc/memory/arena.h"
#include "rpc/tools/perf_memory.h"
#include "rpc/transport/faulty/faulty_transport.h"
#include "rpc/transport/sealed/seal.h"
#include "rpc/transport/tcp/tcp_transport.h"

namespace skua::rpc::perf {
namespace {

constexpr DurationNs kLookForCloseEvery = 20 * kMillisecond;
constexpr uint32_t kSessionsMax = 1u << 16;
constexpr uint32_t kTimedEvery = 8;
/// The time limit for opening one session.
constexpr DurationNs kConnectWithin = 10 * kSecond;
constexpr DurationNs kIdleWait = 10 * kMillisecond;
/// Peers of a transport whose packets are sealed.
constexpr uint32_t kPeersMax = 1024;

EndpointOptions endpoint_options(const TransportChoice& choice, bool busy) {
  EndpointOptions options;
  choice.traffic.apply(options.protocol);
  options.trusted_wire = choice.trusted_wire;
  options.spin_ns = busy ? kTimeNever : 50 * kMicrosecond;
  options.protocol.window = 256;
  // A test's client may take all sessions, because sessions may be what is measured.
  options.sessions_max = options.sessions_per_peer_max = options.sessions_per_host_max = kSessionsMax;
  return options;
}

/// The bytes that messages are made of, in registered memory, so that they can be sent without copying. Must outlive
/// the endpoint.
class Source {
 public:
  Source(Transport& transport, size_t bytes, char filling)
      : arena_({.limit_bytes = bytes + (size_t{4} << 20),
                .on_map = [&transport](MutableByteSpan region) { return transport.register_region(region); },
                .on_unmap = [&transport](MutableByteSpan region) { transport.unregister_region(region); }}),
        memory_(arena_.map(bytes)) {
    if (!memory_.ok()) return;
    memory_ = memory_->first(bytes);
    std::fill(memory_->begin(), memory_->end(), static_cast<std::byte>(filling));
  }

  [[nodiscard]] absl::Status status() const { return memory_.status(); }
  [[nodiscard]] MutableByteSpan bytes() const { return *memory_; }

 private:
  Arena arena_;
  absl::StatusOr<MutableByteSpan> memory_;
};

/// Puts the first `bytes` of `source` into the message: copied inline if they fit, else as a body that stays where it
/// is.
void fill(Message& message, ByteSpan source, size_t bytes) {
  const ByteSpan content = source.first(bytes);
  if (!message.append_head(content)) static_cast<void>(message.add_body(content, nullptr, nullptr));
}

/// Keeps `outstanding` calls in flight until told to stop.
class Client {
 public:
  /// Calls use `sessions` in turn. Each call sends `body`.
  Client(Endpoint& endpoint, const Clock& clock, std::vector<SessionId> sessions, MutableByteSpan body,
         const TestOptions& options, const std::atomic<bool>& stop)
      : endpoint_(endpoint),
        clock_(clock),
        sessions_(std::move(sessions)),
        options_(options),
        stop_(stop),
        body_(body),
        started_(options.outstanding) {
    store_le(body_.data(), options.response_bytes);
  }

  /// Starts the first calls. Each call that ends starts another, until `stop_at_ns` or until `stop` is set.
  void begin(TimeNs stop_at_ns, bool measure) {
    result_ = TestResult();
    measuring_ = measure;
    stop_at_ns_ = stop_at_ns;
    for (uint32_t i = 0; i < options_.outstanding; ++i) start(i, clock_.now_ns());
  }

  /// Used instead of begin(): pauses and calls in turn until `stop_at_ns`.
  void run_with_pauses(TimeNs stop_at_ns, bool measure) {
    result_ = TestResult();
    measuring_ = measure;
    stop_at_ns_ = stop_at_ns;
    while (clock_.now_ns() < stop_at_ns_ && result_.failed == 0 && !stop_) pause_then_call();
  }

  [[nodiscard]] bool is_calling() const { return in_flight_ > 0; }
  TestResult take_result() { return std::move(result_); }

 private:
  /// A pause, then one call measured separately, then a row of calls for comparison.
  void pause_then_call() {
    const TimeNs until = clock_.now_ns() + options_.idle_ns;
    while (clock_.now_ns() < until && !stop_) endpoint_.poll_or_wait(kIdleWait);
    for (uint32_t i = 0; i <= kCallsBetweenPauses && result_.failed == 0; ++i) {
      first_after_pause_ = i == 0;
      start(0, clock_.now_ns());
      while (in_flight_ > 0) endpoint_.poll_or_wait(kIdleWait);
    }
  }

  void start(uint32_t index, TimeNs now) {
    started_[index] = now;
    const absl::StatusOr<CallId> call = send([this, index](CallResult&& result) { done(index, result); });
    if (++next_session_ == sessions_.size()) next_session_ = 0;
    if (call.ok()) {
      ++in_flight_;
    } else {
      fail(call.status());
    }
  }

  absl::StatusOr<CallId> send(CompletionFn completion) {
    const SessionId session = sessions_[next_session_];
    if (body_.size() <= kFewBytesMax) return endpoint_.call(session, kEchoSize, body_, {}, std::move(completion));
    MessagePtr request = endpoint_.make_message();
    fill(*request, body_, body_.size());
    return endpoint_.call(session, kEchoSize, std::move(request), {}, std::move(completion));
  }

  void done(uint32_t index, const CallResult& result) {
    --in_flight_;
    if (!result.status.ok()) return fail(result.status);
    ++result_.calls;
    // If many calls are in flight, or many endpoints call, only some calls are timed: reading the clock is a good part
    // of the cost of a small call.
    const bool timed = (options_.endpoints > 1 ? index + result_.calls : index) % kTimedEvery == 0;
    const TimeNs now = timed ? clock_.now_ns() : endpoint_.now_ns();
    Histogram& latency = first_after_pause_ ? result_.after_idle_ns : result_.latency_ns;
    if (timed && measuring_) latency.record(static_cast<uint64_t>(now - started_[index]));
    if (options_.idle_ns > 0) return;
    // One reading of the clock ends one call and begins the next.
    if (now < stop_at_ns_ && !stop_.load(std::memory_order_relaxed)) start(index, now);
  }

  void fail(const absl::Status& status) {
    if (result_.failed++ == 0) result_.first_failure = status;
  }

  Endpoint& endpoint_;
  const Clock& clock_;
  const std::vector<SessionId> sessions_;
  const TestOptions& options_;
  const std::atomic<bool>& stop_;
  const MutableByteSpan body_;
  std::vector<TimeNs> started_;
  uint32_t in_flight_ = 0;
  bool measuring_ = false;
  bool first_after_pause_ = false;
  size_t next_session_ = 0;
  TimeNs stop_at_ns_ = 0;
  TestResult result_;
};

/// Begins to open a session: by packets or, if these are sealed, by an offer that the exchange carries.
absl::StatusOr<SessionId> open_session(Endpoint& endpoint, const Socket& control, const Descriptor& peer,
                                       PacketProtection packets) {
  if (packets == PacketProtection::kOff) return endpoint.connect(peer);
  absl::StatusOr<Endpoint::Offer> offer = endpoint.begin_connect(peer);
  if (!offer.ok()) return offer.status();
  if (absl::Status status = send_block(control, offer->bytes); !status.ok()) return status;
  absl::StatusOr<std::string> answer = receive_block(control);
  if (!answer.ok()) return answer.status();
  if (absl::Status status = endpoint.finish_connect(offer->session, as_byte_span(*answer)); !status.ok()) return status;
  return offer->session;
}

/// Opens the test's sessions and waits until they are connected.
absl::StatusOr<std::vector<SessionId>> open_sessions(Endpoint& endpoint, const Clock& clock, const Socket& control,
                                                     const Descriptor& peer, const TestOptions& options,
                                                     const std::atomic<bool>& stop) {
  const uint32_t count = options.sessions;
  std::vector<SessionId> sessions;
  // One after another, because a burst of handshakes is not what is measured.
  while (sessions.size() < count) {
    absl::StatusOr<SessionId> session = open_session(endpoint, control, peer, options.transport.packets);
    if (!session.ok()) return session.status();
    sessions.push_back(*session);
    const TimeNs give_up = clock.now_ns() + kConnectWithin;
    while (!endpoint.is_connected(*session)) {
      endpoint.poll_or_wait(kIdleWait);
      if (stop) return stopped_early();
      if (clock.now_ns() < give_up) continue;
      return absl::UnavailableError(absl::StrCat("session ", sessions.size(), " of ", count,
                                                 " did not open: is the server's transport reachable from here?"));
    }
  }
  return sessions;
}

/// Adds `more` to `total`.
void add(TestResult& total, const TestResult& more) {
  total.calls += more.calls;
  if (total.failed == 0) total.first_failure = more.first_failure;
  total.failed += more.failed;
  total.latency_ns.add(more.latency_ns);
  total.after_idle_ns.add(more.after_idle_ns);
  total.engine.packets_sent += more.engine.packets_sent;
  total.engine.retransmits += more.engine.retransmits;
  total.engine.rx_copied_bytes += more.engine.rx_copied_bytes;
  total.engine.rx_zero_copy_bytes += more.engine.rx_zero_copy_bytes;
  total.transport.rx_dropped += more.transport.rx_dropped;
  total.transport.tx_copied_bytes += more.transport.tx_copied_bytes;
  total.transport.tx_zero_copy_bytes += more.transport.tx_zero_copy_bytes;
  total.transport.rx_copied_bytes += more.transport.rx_copied_bytes;
  total.transport.rx_zero_copy_bytes += more.transport.rx_zero_copy_bytes;
}

/// An endpoint that calls, with its transport, message bytes and sessions.
class Caller {
 public:
  /// `beside`: a caller that the same thread polls; null: none.
  static absl::StatusOr<std::unique_ptr<Caller>> open(const Place& place, const Socket& control, const Descriptor& peer,
                                                      const TestOptions& options, const Caller* beside,
                                                      const std::atomic<bool>& stop) {
    absl::StatusOr<std::unique_ptr<Transport>> transport =
        place.source.make(place.lane, "", beside == nullptr ? nullptr : beside->transport_.get());
    if (!transport.ok()) return transport.status();
    std::unique_ptr<Caller> caller(new Caller(*std::move(transport), place, options));
    if (!caller->body_.status().ok()) return caller->body_.status();
    absl::StatusOr<std::vector<SessionId>> sessions =
        open_sessions(caller->endpoint_, caller->clock_, control, peer, options, stop);
    if (!sessions.ok()) return sessions.status();
    caller->sessions_ = *std::move(sessions);
    const uint32_t active =
        options.active_sessions == 0 ? options.sessions : std::min(options.active_sessions, options.sessions);
    std::vector<SessionId> calling;
    calling.reserve(active);
    for (uint32_t i = 0; i < active; ++i) calling.push_back(caller->sessions_[size_t{i} * options.sessions / active]);
    caller->client_.emplace(caller->endpoint_, caller->clock_, std::move(calling), caller->body_.bytes(), options,
                            stop);
    return caller;
  }

  Endpoint& endpoint() { return endpoint_; }
  Client& client() { return *client_; }

  /// Results count from now on.
  void look() {
    engine_before_ = endpoint_.counters();
    wire_before_ = transport_->counters();
  }

  /// The results since look().
  TestResult take_result() {
    TestResult result = client_->take_result();
    const EndpointCounters& engine = endpoint_.counters();
    const TransportCounters& wire = transport_->counters();
    result.engine.packets_sent = engine.packets_sent - engine_before_.packets_sent;
    result.engine.retransmits = engine.retransmits - engine_before_.retransmits;
    result.engine.rx_copied_bytes = engine.rx_copied_bytes - engine_before_.rx_copied_bytes;
    result.engine.rx_zero_copy_bytes = engine.rx_zero_copy_bytes - engine_before_.rx_zero_copy_bytes;
    result.transport.rx_dropped = wire.rx_dropped - wire_before_.rx_dropped;
    result.transport.tx_copied_bytes =
        wire.tx_copied_bytes - wire_before_.tx_copied_bytes + engine.tx_copied_bytes - engine_before_.tx_copied_bytes;
    result.transport.tx_zero_copy_bytes = wire.tx_zero_copy_bytes - wire_before_.tx_zero_copy_bytes;
    result.transport.rx_copied_bytes = wire.rx_copied_bytes - wire_before_.rx_copied_bytes;
    result.transport.rx_zero_copy_bytes = wire.rx_zero_copy_bytes - wire_before_.rx_zero_copy_bytes;
    return result;
  }

  void close() {
    for (const SessionId session : sessions_) {
      endpoint_.close(session);
      endpoint_.poll();
    }
  }

 private:
  Caller(std::unique_ptr<Transport> transport, const Place& place, const TestOptions& options)
      : transport_(std::move(transport)),
        body_(*transport_, std::max<size_t>(options.request_bytes, sizeof options.response_bytes), 'q'),
        endpoint_(*transport_, clock_, endpoint_options(place.source.choice(), options.busy)) {}

  const std::unique_ptr<Transport> transport_;
  const TscClock clock_;
  const Source body_;
  Endpoint endpoint_;
  std::vector<SessionId> sessions_;
  std::optional<Client> client_;
  EndpointCounters engine_before_;
  TransportCounters wire_before_;
};

using Callers = std::vector<std::unique_ptr<Caller>>;

/// Opens options.endpoints callers. While it opens them, it polls those that are open already.
absl::StatusOr<Callers> open_callers(const Place& place, const Socket& control, const Descriptor& peer,
                                     const TestOptions& options, const std::atomic<bool>& stop) {
  Callers callers;
  for (uint16_t i = 0; i < options.endpoints; ++i) {
    absl::StatusOr<std::unique_ptr<Caller>> caller =
        Caller::open({place.source, static_cast<uint16_t>(place.lane + i), place.listen_host}, control, peer, options,
                     callers.empty() ? nullptr : callers.front().get(), stop);
    if (!caller.ok()) return caller.status();
    callers.push_back(*std::move(caller));
    for (const std::unique_ptr<Caller>& open : callers) open->endpoint().poll();
  }
  return callers;
}

/// Runs for `duration_ns` or until stopped, and then waits for calls in flight. Returns how long all that took.
DurationNs run_callers(Callers& callers, const TestOptions& options, DurationNs duration_ns, bool measure) {
  const TscClock clock;
  const TimeNs begun = clock.now_ns();
  if (options.idle_ns > 0) {
    callers.front()->client().run_with_pauses(begun + duration_ns, measure);
    return clock.now_ns() - begun;
  }
  for (std::unique_ptr<Caller>& caller : callers) caller->client().begin(begun + duration_ns, measure);
  if (callers.size() == 1) {
    Caller& only = *callers.front();
    while (only.client().is_calling()) only.endpoint().poll_or_wait(kIdleWait);
  } else {
    for (bool calling = true; calling;) {
      calling = false;
      for (std::unique_ptr<Caller>& caller : callers) {
        caller->endpoint().poll();
        calling = calling || caller->client().is_calling();
      }
    }
  }
  return clock.now_ns() - begun;
}

/// The server's part of open_session().
absl::Status answer_offer(const Socket& control, Endpoint& endpoint) {
  absl::StatusOr<std::string> offer = receive_block(control);
  if (!offer.ok()) return offer.status();
  return send_block(control, endpoint.accept_offer(as_byte_span(*offer)));
}

}  // namespace

absl::StatusOr<std::unique_ptr<TransportSource>> TransportSource::open(const TransportChoice& choice, uint16_t lanes) {
  std::unique_ptr<TransportSource> source(new TransportSource(choice));
  if (choice.name == "tcp") {
    if (choice.loss > 0) return absl::InvalidArgumentError("TCP loses nothing: --loss is for transports that may");
    return source;
  }
  if (choice.name == "verbs") {
    absl::StatusOr<VerbsOptions> options = choice.verbs.to_options();
    if (!options.ok()) return options.status();
    absl::StatusOr<std::unique_ptr<VerbsFabric>> fabric = VerbsFabric::start(*options);
    if (!fabric.ok()) return fabric.status();
    source->verbs_ = *std::move(fabric);
    return source;
  }
  if (choice.name != "dpdk") {
    return absl::InvalidArgumentError(
        absl::StrCat("unknown transport \"", choice.name, "\"; there are: tcp, dpdk, verbs"));
  }
  absl::StatusOr<DpdkOptions> options = choice.dpdk.to_options(lanes);
  if (!options.ok()) return options.status();
  absl::StatusOr<std::unique_ptr<DpdkFabric>> fabric = DpdkFabric::start(*options);
  if (!fabric.ok()) return fabric.status();
  source->dpdk_ = *std::move(fabric);
  return source;
}

absl::StatusOr<std::unique_ptr<Transport>> TransportSource::make(uint16_t lane, const std::string& listen_host,
                                                                 const Transport* beside) {
  // Where a transport wraps another one, the next transport cannot be placed beside it.
  const bool is_wrapped = choice_.loss != 0 || choice_.packets != PacketProtection::kOff;
  absl::StatusOr<std::unique_ptr<Transport>> wire = make_plain(lane, listen_host, is_wrapped ? nullptr : beside);
  if (!wire.ok()) return wire;
  std::unique_ptr<Transport> made = *std::move(wire);
  if (choice_.loss != 0) {
    FaultOptions faults;
    faults.loss = choice_.loss;
    made = std::make_unique<FaultyTransport>(std::move(made), faults);
  }
  if (choice_.packets != PacketProtection::kOff) {
    made = seal(std::move(made), clock_, {.protection = choice_.packets, .peers_max = kPeersMax});
  }
  return made;
}

absl::StatusOr<std::unique_ptr<Transport>> TransportSource::make_plain(uint16_t lane, const std::string& listen_host,
                                                                       const Transport* beside) {
  std::random_device entropy;
  Rng rng((uint64_t{entropy()} << 32) ^ entropy());
  EndpointIdentity self;
  for (uint8_t& byte : self.uuid.bytes) byte = static_cast<uint8_t>(rng.next());
  self.incarnation = 1;
  if (dpdk_ != nullptr) return dpdk_->make_transport(lane, self, beside);
  if (verbs_ != nullptr) return verbs_->make_transport(self);
  TcpOptions options;
  options.listen_ip = listen_host;
  options.self = self;
  absl::StatusOr<std::unique_ptr<TcpTransport>> transport = TcpTransport::create(options);
  if (!transport.ok()) return transport.status();
  return std::unique_ptr<Transport>(*std::move(transport));
}

absl::Status serve_client(const Socket& control, const Place& place, const std::atomic<bool>& stop) {
  absl::StatusOr<TestPlan> plan = receive_plan(control);
  if (!plan.ok()) return plan.status();
  if (plan->memory_bytes > 0) return serve_memory(control, place, *plan, stop);
  absl::StatusOr<std::unique_ptr<Transport>> transport = place.source.make(place.lane, place.listen_host);
  if (!transport.ok()) return transport.status();
  const TscClock clock;
  const Source source(**transport, std::max<size_t>(plan->response_bytes_max, 1), 'r');
  if (!source.status().ok()) return source.status();
  Endpoint endpoint(**transport, clock, endpoint_options(place.source.choice(), plan->busy));
  endpoint.serve(kEchoSize, [&](IncomingCall&& call) {
    ByteReader reader(call.request.bytes());
    const auto wanted = reader.read<uint32_t>();
    if (!reader.ok() || wanted > source.bytes().size()) {
      return call.reply.fail(absl::InvalidArgumentError("the request does not follow the test's plan"));
    }
    if (wanted <= kFewBytesMax) return call.reply.reply(source.bytes().first(wanted));
    MessagePtr response = endpoint.make_message();
    fill(*response, source.bytes(), wanted);
    call.reply.reply(std::move(response));
  });
  if (absl::Status status = send_reply(control, endpoint.local_descriptor()); !status.ok()) return status;
  TimeNs next_look_ns = 0;
  while (!stop) {
    endpoint.poll_or_wait(kIdleWait);
    if (endpoint.now_ns() < next_look_ns) continue;
    next_look_ns = endpoint.now_ns() + kLookForCloseEvery;
    const Socket::Peer peer = control.peer();
    const bool has_offer = peer == Socket::Peer::kSpeaks && (*transport)->capabilities().keyed;
    if (peer != Socket::Peer::kSilent && !has_offer) break;
    if (!has_offer) continue;
    if (absl::Status status = answer_offer(control, endpoint); !status.ok()) return status;
  }
  return absl::OkStatus();
}

absl::StatusOr<TestResult> run_client(const Socket& control, const Place& place, const TestOptions& options,
                                      const std::atomic<bool>& stop) {
  if (absl::Status status = send_plan(control, {.response_bytes_max = options.response_bytes, .busy = options.busy});
      !status.ok())
    return status;
  absl::StatusOr<Descriptor> peer = receive_reply(control);
  if (!peer.ok()) return peer.status();
  absl::StatusOr<Callers> callers = open_callers(place, control, *peer, options, stop);
  if (!callers.ok()) return callers.status();
  run_callers(*callers, options, options.warm_up_ns, false);
  if (stop) return stopped_early();
  for (std::unique_ptr<Caller>& caller : *callers) caller->look();
  TestResult result;
  result.elapsed_ns = run_callers(*callers, options, options.duration_ns, true);
  for (std::unique_ptr<Caller>& caller : *callers) add(result, caller->take_result());
  for (std::unique_ptr<Caller>& caller : *callers) caller->close();
  return result;
}

}  // namespace skua::rpc::perf
