#include "tests/sim/rpc_world.h"

#include <algorithm>
#include <cmath>
#include <cstdio>
#include <cstring>
#include <deque>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_format.h"

namespace skua::rpc::sim {
namespace {

constexpr size_t kViolationsKept = 10;
constexpr DurationNs kDeadlineSlack = 2 * kMillisecond;
constexpr DurationNs kQuietLimit = 120 * kSecond;
constexpr DurationNs kSafetyLimit = 600 * kSecond;

enum Method : MethodId { kEcho = 1, kDeferred = 2, kNested = 3, kDropToken = 4, kRefuse = 5 };

/// The first bytes of each request.
struct RequestHead {
  uint64_t call_id = 0;
  uint32_t response_bytes = 0;
  uint32_t reserved = 0;
};

std::byte pattern(uint64_t call_id, size_t at) {
  return static_cast<std::byte>(mix64(call_id * 0x9e37 + at / 8) >> (8 * (at % 8)));
}

std::string make_pattern(uint64_t call_id, size_t bytes) {
  std::string out(bytes, '\0');
  for (size_t at = 0; at < bytes; at += 8) {
    const uint64_t word = mix64(call_id * 0x9e37 + at / 8);
    std::memcpy(out.data() + at, &word, std::min<size_t>(8, bytes - at));
  }
  return out;
}

bool matches_pattern(uint64_t call_id, ByteSpan bytes) {
  size_t at = 0;
  for (; at + 8 <= bytes.size(); at += 8) {
    if (load_le<uint64_t>(bytes.data() + at) != mix64(call_id * 0x9e37 + at / 8)) return false;
  }
  for (; at < bytes.size(); ++at) {
    if (bytes[at] != pattern(call_id, at)) return false;
  }
  return true;
}

void release_body(void* context) {
  auto* body = static_cast<std::string*>(context);
  std::fill(body->begin(), body->end(), '\xee');  // whoever still reads it is found out
  delete body;
}

void append_pattern(Message& message, uint64_t call_id, size_t bytes) {
  auto* body = new std::string(make_pattern(call_id, bytes));
  if (!message.add_body(as_byte_span(*body), release_body, body)) release_body(body);
}

struct CallRecord {
  uint32_t from = 0;
  uint32_t to = 0;
  MethodId method = 0;
  bool one_way = false;
  bool completed = false;
  bool claimed_not_executed = false;
  bool ok = false;
  uint32_t handler_runs = 0;
  uint32_t response_bytes = 0;
  TimeNs deadline_ns = 0;
  CallId handle;
};

class World {
 public:
  explicit World(const WorldOptions& options) : options_(options), rng_(options.seed), network_(rng_.next()) {}
  ~World() {
    for (Node& node : nodes_) crash(node);
  }

  WorldResult run();

 private:
  struct Deferred {
    TimeNs due_ns = 0;
    uint64_t call_id = 0;
    uint32_t response_bytes = 0;
    bool nested = false;
    SessionId caller;
    Lease request;
    ReplyToken reply;
  };
  struct KeptLease {
    TimeNs until_ns = 0;
    uint64_t call_id = 0;
    Lease lease;
  };
  struct Node {
    uint32_t index = 0;
    uint64_t incarnation = 0;
    std::unique_ptr<SimTransport> transport;
    std::unique_ptr<Endpoint> endpoint;
    std::map<uint32_t, SessionId> sessions;  // to node
    std::deque<Deferred> deferred;
    std::deque<KeptLease> kept;
    TimeNs restart_ns = kTimeNever;
    [[nodiscard]] bool up() const { return endpoint != nullptr; }
  };

  template <typename... Args>
  void violate(const Args&... args) {
    if (result_.violations.size() < kViolationsKept) {
      result_.violations.push_back(absl::StrCat("t=", now() / kMicrosecond, "us: ", args...));
    }
  }
  [[nodiscard]] TimeNs now() const { return network_.now_ns(); }

  void choose_faults();
  void start(Node& node);
  void choose_congestion(ProtocolOptions& protocol);
  void crash(Node& node);
  void serve(Node& node);
  void handle(Node& node, IncomingCall&& call);
  void reply(ReplyToken token, uint64_t call_id, uint32_t response_bytes, Endpoint& endpoint);
  void run_due(Node& node);
  void nested_then_reply(Node& node, Deferred&& deferred);
  void start_call(Node& from, uint32_t to, MethodId method, DurationNs timeout_ns = 0);
  void on_complete(uint64_t call_id, CallResult&& result);
  size_t random_size();
  void act();
  void step_to(TimeNs when);
  [[nodiscard]] TimeNs next_event() const;
  void poll_nodes();
  void settle();
  void check_liveness();
  void final_checks();
  void check_balance(const Node& node);

  const WorldOptions options_;
  Rng rng_;
  SimNetwork network_;
  std::vector<Node> nodes_;
  std::vector<CallRecord> calls_;
  uint32_t open_calls_ = 0;
  bool faulty_ = true;
  double crash_chance_ = 0;
  double partition_chance_ = 0;
  uint64_t retransmits_of_dead_ = 0;
  TimeNs next_action_ns_ = 0;
  TimeNs heal_ns_ = kTimeNever;
  std::string last_error_;
  TimeNs last_completion_ns_ = 0;
  WorldResult result_;
};

void World::choose_faults() {
  SimFaults faults;
  auto maybe = [&](double max) { return rng_.chance(0.5) ? rng_.uniform() * max : 0; };
  if (options_.fixed_loss >= 0) {
    faults.loss = options_.fixed_loss;
  } else {
    faults.loss = maybe(options_.fault_max);
    faults.duplicate = maybe(options_.fault_max);
    faults.reorder = maybe(options_.fault_max);
    faults.corrupt = maybe(options_.fault_max / 2);
    faults.late_tx = rng_.chance(0.7) ? rng_.uniform() : 0;
    faults.tx_full = maybe(options_.fault_max);
    faults.clog = maybe(0.02);
    faults.reorder_max_ns = static_cast<DurationNs>(rng_.between(10, 2000)) * kMicrosecond;
    crash_chance_ = options_.crashes && rng_.chance(0.5) ? 0.02 * rng_.uniform() : 0;
    partition_chance_ = rng_.chance(0.3) ? 0.02 * rng_.uniform() : 0;
  }
  network_.set_faults(faults);
  result_.faults = absl::StrFormat("loss=%.3f duplicate=%.3f reorder=%.3f corrupt=%.3f", faults.loss, faults.duplicate,
                                   faults.reorder, faults.corrupt);
  absl::StrAppendFormat(&result_.faults, " late_tx=%.3f tx_full=%.3f clog=%.3f crash=%.4f partition=%.4f",
                        faults.late_tx, faults.tx_full, faults.clog, crash_chance_, partition_chance_);
}

// --- Nodes -----------------------------------------------------------------------------------------------------------

void World::start(Node& node) {
  EndpointIdentity identity;
  identity.uuid.bytes[0] = static_cast<uint8_t>(node.index + 1);
  identity.incarnation = ++node.incarnation;
  identity.cluster_id.bytes[0] = 7;
  SimTransportOptions transport;
  transport.payload_max_bytes = 1024;
  transport.rx_ring = options_.fixed_loss >= 0 ? 4096 : static_cast<uint32_t>(rng_.between(64, 1024));
  node.transport = network_.attach(100 + node.index, identity, transport);
  EndpointOptions options;
  options.seed = mix64(options_.seed * 31 + node.index * 7 + node.incarnation);
  options.memory_limit_bytes = size_t{1} << 30;
  options.protocol.window = static_cast<uint16_t>(1u << rng_.below(6));
  options.protocol.credits = static_cast<uint32_t>(options_.fixed_loss >= 0 ? 64 : rng_.between(2, 64));
  options.protocol.message_max_bytes = std::max(options_.message_max_bytes + 64, 4096u);
  options.protocol.peer_timeout_ns = 2 * kSecond;
  options.protocol.connect_timeout_ns = 3 * kSecond;
  if (options_.fixed_loss >= 0) options.protocol.window = 32;
  choose_congestion(options.protocol);
  node.endpoint = std::make_unique<Endpoint>(*node.transport, network_.clock(), options);
  node.restart_ns = kTimeNever;
  serve(node);
}

void World::choose_congestion(ProtocolOptions& protocol) {
  if (options_.congestion.has_value()) {
    protocol.congestion = *options_.congestion;
    return;
  }
  if (options_.fixed_loss >= 0) return;
  protocol.congestion = static_cast<CongestionControl>(rng_.below(3));
  protocol.receive_budget_packets = static_cast<uint32_t>(rng_.between(1, 64));
  if (rng_.chance(0.5)) {
    protocol.swift.queue_target_ns = static_cast<DurationNs>(rng_.between(1, 20)) * kMicrosecond;
    protocol.swift.loss_tolerance = 0;
    protocol.timely.low_ns = static_cast<DurationNs>(rng_.between(1, 50)) * kMicrosecond;
    protocol.timely.rate_max_bytes_per_s = 100e6;
  }
}

void World::crash(Node& node) {
  if (!node.up()) return;
  for (KeptLease& kept : node.kept) {
    if (!matches_pattern(kept.call_id, kept.lease.bytes())) violate("a kept lease changed");
  }
  node.kept.clear();
  node.deferred.clear();
  retransmits_of_dead_ += node.endpoint->counters().retransmits;
  node.endpoint.reset();
  node.transport.reset();
  node.sessions.clear();
}

void World::serve(Node& node) {
  for (MethodId method : {kEcho, kDeferred, kNested, kDropToken, kRefuse}) {
    node.endpoint->serve(method, [this, &node](IncomingCall&& call) { handle(node, std::move(call)); });
  }
}

void World::handle(Node& node, IncomingCall&& call) {
  ByteReader reader(call.request.bytes());
  RequestHead head;
  head.call_id = reader.read<uint64_t>();
  head.response_bytes = reader.read<uint32_t>();
  static_cast<void>(reader.read<uint32_t>());
  const ByteSpan body = reader.read_rest();
  if (!reader.ok() || head.call_id >= calls_.size()) return violate("a request without its head");
  CallRecord& record = calls_[head.call_id];
  if (++record.handler_runs > 1) violate("the handler of call ", head.call_id, " ran twice");
  if (record.to != node.index || record.method != call.method) violate("call ", head.call_id, " went astray");
  if (!matches_pattern(head.call_id, body)) violate("request ", head.call_id, " arrived damaged");
  result_.bytes_verified += body.size();
  if (call.one_way) return;
  switch (call.method) {
    case kDropToken: return;
    case kRefuse: return call.reply.fail(absl::FailedPreconditionError("refused on purpose"));
    case kEcho: return reply(std::move(call.reply), head.call_id, head.response_bytes, *node.endpoint);
    default: break;
  }
  Deferred deferred;
  deferred.due_ns = now() + static_cast<DurationNs>(rng_.below(3 * kMillisecond));
  deferred.call_id = head.call_id;
  deferred.response_bytes = head.response_bytes;
  deferred.nested = call.method == kNested;
  deferred.caller = call.session;
  deferred.request = std::move(call.request);
  deferred.reply = std::move(call.reply);
  node.deferred.push_back(std::move(deferred));
}

void World::reply(ReplyToken token, uint64_t call_id, uint32_t response_bytes, Endpoint& endpoint) {
  MessagePtr message = endpoint.make_message();
  append_pattern(*message, call_id + 1, response_bytes);
  token.reply(std::move(message));
}

void World::run_due(Node& node) {
  for (size_t i = 0; i < node.deferred.size();) {
    if (node.deferred[i].due_ns > now()) {
      ++i;
      continue;
    }
    Deferred deferred = std::move(node.deferred[i]);
    node.deferred.erase(node.deferred.begin() + static_cast<std::ptrdiff_t>(i));
    if (!matches_pattern(deferred.call_id, deferred.request.bytes().subspan(sizeof(RequestHead)))) {
      violate("a lease kept past its handler changed, call ", deferred.call_id);
    }
    ++result_.coverage["deferred reply"];
    if (deferred.nested) {
      nested_then_reply(node, std::move(deferred));
    } else {
      reply(std::move(deferred.reply), deferred.call_id, deferred.response_bytes, *node.endpoint);
    }
  }
  while (!node.kept.empty() && node.kept.front().until_ns <= now()) {
    if (!matches_pattern(node.kept.front().call_id, node.kept.front().lease.bytes())) {
      violate("a kept response lease changed");
    }
    node.kept.pop_front();
  }
}

/// Calls the caller back on its own session, then answers.
void World::nested_then_reply(Node& node, Deferred&& deferred) {
  const uint64_t inner = calls_.size();
  const CallRecord outer = calls_[deferred.call_id];
  calls_.push_back({.from = node.index,
                    .to = outer.from,
                    .method = kEcho,
                    .response_bytes = 32,
                    .deadline_ns = now() + kSecond,
                    .handle = {}});
  MessagePtr request = node.endpoint->make_message();
  const RequestHead head{inner, 32, 0};
  static_cast<void>(request->append_head({reinterpret_cast<const std::byte*>(&head), sizeof head}));
  append_pattern(*request, inner, 100);
  auto token = std::make_shared<ReplyToken>(std::move(deferred.reply));
  auto done = [this, &node, token, inner, outer_id = deferred.call_id,
               bytes = deferred.response_bytes](CallResult&& result) mutable {
    on_complete(inner, std::move(result));
    ++result_.coverage["call to the caller"];
    if (node.up()) reply(std::move(*token), outer_id, bytes, *node.endpoint);
  };
  ++open_calls_;
  absl::StatusOr<CallId> started =
      node.endpoint->call(deferred.caller, kEcho, std::move(request), {.timeout_ns = kSecond, .one_way = false}, done);
  if (!started.ok()) {
    calls_[inner].completed = true;
    --open_calls_;
    reply(std::move(*token), deferred.call_id, deferred.response_bytes, *node.endpoint);
  }
}

// --- Calls -----------------------------------------------------------------------------------------------------------

size_t World::random_size() {
  const uint64_t kind = rng_.below(options_.large_one_in);
  if (kind == 0) return rng_.below(options_.message_max_bytes - sizeof(RequestHead) + 1);
  if (kind < 4) return rng_.below(8) + (rng_.chance(0.5) ? 1024 - 20 : 1024 * rng_.between(1, 4) - 20);
  if (kind == 4) return 0;
  return static_cast<size_t>(std::exp2(rng_.uniform() * 10));
}

void World::start_call(Node& from, uint32_t to, MethodId method, DurationNs timeout_ns) {
  if (from.sessions.count(to) == 0) {
    absl::StatusOr<SessionId> session =
        from.endpoint->connect(nodes_[to].up() ? nodes_[to].endpoint->local_descriptor() : Descriptor{});
    if (!session.ok()) return;
    from.sessions[to] = *session;
  }
  const uint64_t id = calls_.size();
  CallOptions call_options;
  call_options.timeout_ns = options_.fixed_loss >= 0 ? 600 * kSecond
                            : rng_.chance(0.2)       ? static_cast<DurationNs>(rng_.between(1, 2000)) * kMicrosecond
                                                     : static_cast<DurationNs>(rng_.between(100, 5000)) * kMillisecond;
  if (timeout_ns > 0) call_options.timeout_ns = timeout_ns;
  call_options.one_way = timeout_ns == 0 && rng_.chance(0.05);
  const auto response_bytes = static_cast<uint32_t>(random_size());
  calls_.push_back({.from = from.index,
                    .to = to,
                    .method = method,
                    .one_way = call_options.one_way,
                    .response_bytes = response_bytes,
                    .deadline_ns = now() + call_options.timeout_ns,
                    .handle = {}});
  MessagePtr request = from.endpoint->make_message();
  const RequestHead head{id, response_bytes, 0};
  static_cast<void>(request->append_head({reinterpret_cast<const std::byte*>(&head), sizeof head}));
  append_pattern(*request, id, random_size());
  ++open_calls_;
  absl::StatusOr<CallId> started =
      from.endpoint->call(from.sessions[to], method, std::move(request), call_options,
                          [this, id](CallResult&& result) { on_complete(id, std::move(result)); });
  if (started.ok()) {
    calls_[id].handle = *started;
    ++result_.calls;
  } else {
    --open_calls_;
    calls_[id].completed = true;
    calls_[id].claimed_not_executed = true;
    ++result_.outcomes[absl::StrCat("refused ", absl::StatusCodeToString(started.status().code()))];
    if (started.status().code() == absl::StatusCode::kNotFound) from.sessions.erase(to);
  }
}

void World::on_complete(uint64_t call_id, CallResult&& result) {
  CallRecord& record = calls_[call_id];
  if (record.completed) violate("call ", call_id, " completed twice");
  record.completed = true;
  --open_calls_;
  last_completion_ns_ = now();
  record.claimed_not_executed = !result.may_have_executed;
  ++result_.outcomes[absl::StatusCodeToString(result.status.code())];
  if (now() > record.deadline_ns + kDeadlineSlack) {
    violate("call ", call_id, " completed ", (now() - record.deadline_ns) / kMicrosecond, " us after its deadline");
  }
  if (!result.status.ok()) {
    last_error_ = result.status.ToString();
    const bool asked_for = record.method == kRefuse || record.method == kDropToken;
    if (result.from_peer && !asked_for && result.status.code() == absl::StatusCode::kInternal) {
      // A node that crashed dropped its tokens; anything else is a lost duty.
      if (crash_chance_ == 0) violate("call ", call_id, " got ", std::string(result.status.message()));
    }
    return;
  }
  record.ok = true;
  ++result_.ok;
  if (record.one_way) return;
  if (!result.from_peer) violate("OK that did not come from the peer");
  if (result.response.size() != record.response_bytes || !matches_pattern(call_id + 1, result.response.bytes())) {
    violate("response ", call_id, " arrived damaged: ", result.response.size(), " of ", record.response_bytes,
            " bytes");
  }
  result_.bytes_verified += result.response.size();
  if (rng_.chance(0.2) && nodes_[record.from].up()) {
    nodes_[record.from].kept.push_back(
        {now() + static_cast<DurationNs>(rng_.below(5 * kMillisecond)), call_id + 1, std::move(result.response)});
  }
}

// --- Time ------------------------------------------------------------------------------------------------------------

void World::act() {
  const bool soak = options_.fixed_loss >= 0;
  next_action_ns_ = now() + (soak ? kMicrosecond : static_cast<DurationNs>(rng_.below(100 * kMicrosecond)));
  if (soak) {
    // Always full: the time it takes is the goodput.
    while (open_calls_ < options_.concurrent_max && result_.calls < options_.call_count) {
      const auto from = static_cast<uint32_t>(rng_.below(nodes_.size()));
      start_call(nodes_[from], (from + 1) % options_.node_count, kEcho);
    }
    return;
  }
  Node& node = nodes_[rng_.below(nodes_.size())];
  if (node.up() && open_calls_ < options_.concurrent_max) {
    const auto to = static_cast<uint32_t>((node.index + rng_.between(1, nodes_.size() - 1)) % nodes_.size());
    const uint64_t dice = rng_.below(20);
    const MethodId method = dice < 10   ? kEcho
                            : dice < 15 ? kDeferred
                            : dice < 18 ? kNested
                            : dice < 19 ? kDropToken
                                        : kRefuse;
    start_call(node, to, method);
  }
  if (rng_.chance(0.03) && !calls_.empty()) {
    const CallRecord& victim = calls_[rng_.below(calls_.size())];
    if (!victim.completed && nodes_[victim.from].up() && victim.handle.index != UINT32_MAX) {
      ++result_.coverage["cancel"];
      nodes_[victim.from].endpoint->cancel(victim.handle);
    }
  }
  if (rng_.chance(crash_chance_) && node.up()) {
    ++result_.coverage["crash"];
    node.restart_ns = now() + static_cast<DurationNs>(rng_.below(50)) * kMillisecond;
    crash(node);
  }
  if (rng_.chance(0.005) && node.up() && !node.sessions.empty()) {
    ++result_.coverage["close"];
    node.endpoint->close(node.sessions.begin()->second);
    node.sessions.erase(node.sessions.begin());
  }
  if (rng_.chance(partition_chance_)) {
    ++result_.coverage["partition"];
    const auto a = static_cast<uint32_t>(rng_.below(nodes_.size()));
    const auto b = static_cast<uint32_t>((a + 1) % nodes_.size());
    network_.block(100 + a, 100 + b);
    if (rng_.chance(0.5)) network_.block(100 + b, 100 + a);
    heal_ns_ = now() + static_cast<DurationNs>(rng_.below(4000)) * kMillisecond;
  }
}

TimeNs World::next_event() const {
  TimeNs next = network_.next_event_ns();
  if (faulty_) next = std::min({next, next_action_ns_, heal_ns_});
  for (const Node& node : nodes_) {
    next = std::min(next, node.restart_ns);
    if (!node.up()) continue;
    next = std::min(next, node.endpoint->next_timer_ns());
    for (const Deferred& deferred : node.deferred) next = std::min(next, deferred.due_ns);
    if (!node.kept.empty()) next = std::min(next, node.kept.front().until_ns);
  }
  return next;
}

void World::poll_nodes() {
  for (Node& node : nodes_) {
    if (!node.up() && node.restart_ns <= now()) start(node);
    if (!node.up()) continue;
    run_due(node);
    node.endpoint->poll();
  }
}

void World::step_to(TimeNs when) {
  network_.advance_to(std::max(when, now()));
  if (heal_ns_ <= now()) {
    network_.heal();
    heal_ns_ = kTimeNever;
  }
  if (faulty_ && now() >= next_action_ns_) act();
  poll_nodes();
}

/// Nothing is wrong any more: every node must be able to call every other. The first round may
/// still find sessions whose peer has restarted or closed them, which is a typed answer; the second
/// must succeed.
void World::check_liveness() {
  for (int round = 0; round < 2 && result_.violations.empty(); ++round) {
    const size_t first = calls_.size();
    for (Node& node : nodes_) {
      for (uint32_t to = 0; to < nodes_.size(); ++to) {
        if (to != node.index) start_call(node, to, kEcho, 60 * kSecond);
      }
    }
    settle();
    for (size_t id = first; round == 1 && id < calls_.size(); ++id) {
      if (!calls_[id].ok) {
        violate("after healing, call ", id, " from ", calls_[id].from, " to ", calls_[id].to,
                " still fails: ", last_error_);
      }
    }
  }
}

void World::settle() {
  for (Node& node : nodes_) {
    if (!node.up()) start(node);
  }
  const TimeNs limit = now() + kQuietLimit;
  uint64_t idle_turns = 0;
  while (now() < limit && idle_turns < 400) {
    const TimeNs next = next_event();
    if (next == kTimeNever) break;
    step_to(next);
    bool quiet = open_calls_ == 0 && network_.next_event_ns() == kTimeNever;
    for (const Node& node : nodes_) quiet = quiet && node.deferred.empty() && node.kept.empty();
    idle_turns = quiet ? idle_turns + 1 : 0;
    if (quiet && idle_turns > 20) break;
  }
}

void World::check_balance(const Node& node) {
  const Endpoint::Balance balance = node.endpoint->balance();
  auto must_be_zero = [&](size_t value, const char* what) {
    if (value != 0) violate("at rest node ", node.index, " has ", value, " ", what);
  };
  must_be_zero(balance.calls, "calls");
  must_be_zero(balance.handlers, "handlers running");
  must_be_zero(balance.lent_buffers, "lent buffers");
  must_be_zero(balance.pool_buffers, "assembly buffers");
  must_be_zero(balance.messages, "messages");
  must_be_zero(balance.credits_missing, "credits missing");
}

void World::final_checks() {
  if (open_calls_ != 0) violate(open_calls_, " calls never completed");
  for (size_t id = 0; id < calls_.size(); ++id) {
    const CallRecord& record = calls_[id];
    if (!record.completed) violate("call ", id, " never completed");
    if (record.claimed_not_executed && record.handler_runs > 0) {
      violate("call ", id, " ran although its caller was told that it did not");
    }
    if (record.ok && record.handler_runs != 1) {
      violate("call ", id, " is OK but its handler ran ", record.handler_runs, " times");
    }
  }
  for (const Node& node : nodes_) check_balance(node);
  if (network_.violations().tx_changed > 0) violate("memory changed while the wire was reading it");
  if (network_.violations().bad_release > 0) violate("a receive buffer was released twice");
}

WorldResult World::run() {
  choose_faults();
  nodes_.resize(options_.node_count);
  for (uint32_t i = 0; i < nodes_.size(); ++i) {
    nodes_[i].index = i;
    start(nodes_[i]);
  }
  const TimeNs begun = now();
  while (result_.calls < options_.call_count && result_.violations.empty() && now() - begun < kSafetyLimit) {
    step_to(next_event());
  }
  faulty_ = false;
  network_.heal();
  if (options_.fixed_loss < 0) network_.set_faults({});
  settle();
  result_.busy_ns = last_completion_ns_ - begun;
  network_.set_faults({});
  check_liveness();
  result_.virtual_ns = now() - begun;
  final_checks();
  result_.retransmits = retransmits_of_dead_;
  for (const Node& node : nodes_) {
    result_.retransmits += node.endpoint->counters().retransmits;
    for (size_t i = 0; i < kDropReasonCount; ++i) {
      const uint64_t count = node.endpoint->counters().drops[i];
      if (count > 0) {
        result_.coverage[absl::StrCat("drop ", std::string(drop_reason_name(static_cast<DropReason>(i))))] += count;
      }
    }
    result_.coverage["session broken"] += node.endpoint->counters().sessions_broken;
    result_.coverage["session reconnected"] += node.endpoint->counters().sessions_reconnected;
    result_.coverage["stale reply"] += node.endpoint->counters().stale_replies;
    result_.coverage["copied out"] += node.endpoint->counters().leases_copied_out;
  }
  result_.trace_hash = mix64(network_.trace_hash() ^ static_cast<uint64_t>(now()) ^ (result_.ok << 32));
  return result_;
}

}  // namespace

WorldResult run_world(const WorldOptions& options) {
  World world(options);
  return world.run();
}

}  // namespace skua::rpc::sim
