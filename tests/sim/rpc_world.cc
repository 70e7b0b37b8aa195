#include "tests/sim/rpc_world.h"

#include <algorithm>
#include <iterator>
#include <utility>

#include "absl/strings/str_format.h"
#include "tests/sim/rpc_world_internal.h"

namespace skua::rpc::sim {
namespace {

constexpr DurationNs kQuietLimit = 120 * kSecond;
constexpr DurationNs kSafetyLimit = 600 * kSecond;
constexpr double kRenewalChance = 0.1;
constexpr double kLetterLossMax = 0.3;
constexpr uint32_t kBurstCalls = 40;
/// Long enough for every session to have joined.
constexpr DurationNs kJoinLimit = kSecond;

}  // namespace

void World::choose_faults() {
  SimFaults faults;
  auto maybe = [&](double max) { return rng_.chance(0.5) ? rng_.uniform() * max : 0; };
  if (options_.fixed_loss >= 0) {
    faults.loss = options_.fixed_loss;
  } else if (options_.memory_taken_back) {
    renewal_chance_ = kRenewalChance;
    faults.loss = maybe(0.1);
    faults.reorder = 0.1 + 0.4 * rng_.uniform();
    faults.reorder_max_ns = static_cast<DurationNs>(rng_.between(100, 2000)) * kMicrosecond;
    faults.one_sided_max_ns = static_cast<DurationNs>(rng_.between(1, 1000)) * kMicrosecond;
  } else {
    faults.loss = maybe(options_.fault_max);
    faults.duplicate = maybe(options_.fault_max);
    faults.reorder = maybe(options_.fault_max);
    faults.corrupt = maybe(options_.fault_max / 2);
    faults.late_tx = rng_.chance(0.7) ? rng_.uniform() : 0;
    faults.tx_full = maybe(options_.fault_max);
    faults.clog = maybe(0.02);
    faults.one_sided_failure = maybe(0.3);
    faults.one_sided_max_ns =
        static_cast<DurationNs>(rng_.below(rng_.chance(0.5) ? 3 * kMillisecond : 200 * kMillisecond));
    faults.reorder_max_ns = static_cast<DurationNs>(rng_.between(10, 2000)) * kMicrosecond;
    cut_chance_ = options_.connections ? 0 : maybe(options_.fault_max / 4);
    renewal_chance_ = rng_.chance(0.3) ? 2 * kRenewalChance * rng_.uniform() : 0;
    crash_chance_ = options_.crashes && rng_.chance(0.5) ? 0.02 * rng_.uniform() : 0;
    partition_chance_ = rng_.chance(0.3) ? 0.02 * rng_.uniform() : 0;
  }
  network_.set_faults(faults);
  is_damaging_ = faults.corrupt > 0;
  if (options_.fixed_loss < 0) {
    lane_count_ = static_cast<uint32_t>(rng_.between(1, 3));
    versions_ = rng_.chance(0.1) ? Versions::kAllOld : rng_.chance(0.3) ? Versions::kMixed : Versions::kAllNew;
  }
  if (options_.sealed) letter_loss_ = maybe(kLetterLossMax);
  if (options_.bundles.has_value()) versions_ = *options_.bundles ? Versions::kAllNew : Versions::kAllOld;
  result_.faults = absl::StrFormat("loss=%.3f duplicate=%.3f reorder=%.3f corrupt=%.3f", faults.loss, faults.duplicate,
                                   faults.reorder, faults.corrupt);
  absl::StrAppendFormat(&result_.faults, " late_tx=%.3f tx_full=%.3f clog=%.3f crash=%.4f partition=%.4f",
                        faults.late_tx, faults.tx_full, faults.clog, crash_chance_, partition_chance_);
  absl::StrAppendFormat(&result_.faults, " cut=%.3f renewal=%.3f lanes=%d versions=%d", cut_chance_, renewal_chance_,
                        lane_count_, static_cast<int>(versions_));
}

// --- Nodes -----------------------------------------------------------------------------------------------------------

void World::start(Node& node) {
  EndpointIdentity identity;
  identity.uuid.bytes[0] = static_cast<uint8_t>(node.index + 1);
  identity.incarnation = ++node.incarnation;
  identity.cluster_id.bytes[0] = 7;
  SimTransportOptions transport;
  transport.payload_max_bytes = options_.fixed_loss < 0 && rng_.chance(0.2) ? 4400 : 1024;
  // Not of rng_: what else a seed does stays as it was.
  const uint64_t drawn = mix64(options_.seed * 131 + node.index * 17 + node.incarnation);
  transport.inline_max_bytes = drawn % 2 == 0 ? transport.payload_max_bytes : 0;
  transport.one_sided = options_.memory_taken_back || (options_.fixed_loss < 0 && rng_.chance(0.5));
  transport.rx_ring = options_.fixed_loss >= 0 ? 4096 : static_cast<uint32_t>(rng_.between(64, 1024));
  if (options_.connections) {
    transport.connected = true;
    transport.one_sided = false;
    // Over TCP a message is one packet, and several when packets are sealed.
    transport.payload_max_bytes = mix64(options_.seed * 59) % 2 == 0 ? options_.message_max_bytes + 64 : 1024;
  }
  node.transport = protect(network_.attach(100 + node.index, identity, transport), node);
  EndpointOptions options;
  options.simulation_seed = mix64(options_.seed * 31 + node.index * 7 + node.incarnation);
  options.memory_limit_bytes = size_t{1} << 30;
  // Tables of the usual sizes take longer to make than most worlds last.
  options.calls_max = options.handlers_max = 2048;
  options.mailbox_max = 512;
  options.protocol.window = static_cast<uint16_t>(1u << rng_.below(6));
  options.protocol.credits = static_cast<uint32_t>(options_.fixed_loss >= 0 ? 64 : rng_.between(2, 64));
  options.protocol.message_max_bytes = std::max(options_.message_max_bytes + 64, 4096u);
  options.protocol.read_above_bytes = static_cast<uint32_t>(rng_.below(options_.memory_taken_back ? 1000 : 20'000));
  options.protocol.reads_max = static_cast<uint32_t>(rng_.between(1, 16));
  options.protocol.read_chunk_bytes = static_cast<uint32_t>(rng_.between(200, 64 << 10));
  options.protocol.peer_timeout_ns = 2 * kSecond;
  options.protocol.connect_timeout_ns = 3 * kSecond;
  // Most of a world lasts some ten milliseconds.
  if (rng_.chance(0.8))
    options.protocol.connect_retry_ns = static_cast<DurationNs>(rng_.between(100, 5000)) * kMicrosecond;
  if (options_.fixed_loss >= 0) options.protocol.window = 32;
  choose_congestion(options.protocol);
  options.bundles = node.bundles =
      versions_ == Versions::kAllNew || (versions_ == Versions::kMixed && rng_.chance(0.5));
  options.trusted_wire = !is_damaging_ && drawn / 2 % 2 == 0;
  node.is_paced = options.protocol.congestion != CongestionControl::kNone && !options_.connections;
  node.endpoint = std::make_unique<Endpoint>(*node.transport, *node.clock, options);
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
  cover_seals(node);
  node.endpoint.reset();
  node.sealed = nullptr;
  node.transport.reset();
  node.sessions.clear();
  node.joined.clear();
}

/// A new session to where an old one leads, which ends then: calls that begin from now on do not wait for the old
/// one's.
void World::renew_session(Node& node) {
  auto renewed = node.sessions.begin();
  std::advance(renewed, rng_.below(node.sessions.size()));
  if (!nodes_[renewed->first.first].up()) return;
  absl::StatusOr<SessionId> session = open_session(node, renewed->first.first);
  if (!session.ok()) return;
  ++result_.coverage["session renewed"];
  node.endpoint->close(std::exchange(renewed->second, *session));
}

// --- Time ------------------------------------------------------------------------------------------------------------

void World::act() {
  const bool soak = options_.fixed_loss >= 0;
  next_action_ns_ = now() + (soak ? kMicrosecond : static_cast<DurationNs>(rng_.below(100 * kMicrosecond)));
  // Long enough for what was held back before to be stale.
  if (!soak && rng_.chance(0.004)) next_action_ns_ += static_cast<DurationNs>(rng_.between(200, 2000)) * kMillisecond;
  if (soak) {
    // Always full: the time it takes is the goodput.
    while (open_calls_ < options_.concurrent_max && result_.calls < options_.call_count) {
      const auto from = static_cast<uint32_t>(rng_.below(nodes_.size()));
      start_call(nodes_[from], any_lane((from + 1) % options_.node_count), kEcho);
    }
    return;
  }
  Node& node = nodes_[rng_.below(nodes_.size())];
  if (node.up()) act_calls(node);
  if (rng_.chance(0.03) && !calls_.empty()) cancel(calls_.size() - 1 - rng_.below(std::min<size_t>(calls_.size(), 40)));
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
  if (rng_.chance(renewal_chance_) && node.up() && !node.sessions.empty()) renew_session(node);
  if (rng_.chance(partition_chance_)) {
    ++result_.coverage["partition"];
    const auto a = static_cast<uint32_t>(rng_.below(nodes_.size()));
    const auto b = static_cast<uint32_t>((a + 1) % nodes_.size());
    network_.block(100 + a, 100 + b);
    if (rng_.chance(0.5)) network_.block(100 + b, 100 + a);
    heal_ns_ = now() + static_cast<DurationNs>(rng_.below(4000)) * kMillisecond;
  }
}

/// One call, or several at once, which share bundles.
void World::act_calls(Node& node) {
  const uint64_t count = rng_.chance(0.1) ? rng_.between(2, kBurstCalls) : 1;
  const auto to = static_cast<uint32_t>((node.index + rng_.between(1, nodes_.size() - 1)) % nodes_.size());
  const uint32_t open_max = options_.concurrent_max + (count > 1 ? kBurstCalls : 0);
  for (uint64_t i = 0; i < count && open_calls_ < open_max; ++i) {
    const uint64_t dice = rng_.below(20);
    const MethodId method = dice < 10   ? kEcho
                            : dice < 15 ? kDeferred
                            : dice < 18 ? kNested
                            : dice < 19 ? kDropToken
                                        : kRefuse;
    start_call(node, any_lane(to), method);
  }
}

void World::cancel(uint64_t call_id) {
  CallRecord& victim = calls_[call_id];
  if (victim.completed || !nodes_[victim.from].up() || victim.handle.index == UINT32_MAX) return;
  ++result_.coverage["cancel"];
  victim.cancelled = true;
  nodes_[victim.from].endpoint->cancel(victim.handle);
}

TimeNs World::next_event() const {
  TimeNs next = network_.next_event_ns();
  if (faulty_) next = std::min({next, next_action_ns_, heal_ns_});
  for (const Letter& letter : letters_) next = std::min(next, letter.due_ns);
  for (const Node& node : nodes_) {
    next = std::min(next, node.restart_ns);
    if (!node.up()) continue;
    const TimeNs timer_ns = node.endpoint->next_timer_ns();
    if (timer_ns != kTimeNever) next = std::min(next, timer_ns - node.clock->ahead_ns);
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
  deliver_letters();
  poll_nodes();
}

/// Nothing is wrong any more: every node must be able to call every other. The first round may still find sessions
/// whose peer has restarted or closed them, which is a typed answer. The last round must succeed. Under seals nothing
/// tells of a peer's restart before a call has waited for an answer, so the rounds before the last one use all
/// sessions, and the second round may still find keys that the peer has lost.
void World::check_liveness() {
  const int last = options_.sealed ? 2 : 1;
  for (int round = 0; round <= last && result_.violations.empty(); ++round) {
    const size_t first = calls_.size();
    for (Node& node : nodes_) {
      for (uint32_t to = 0; to < nodes_.size(); ++to) {
        if (to == node.index) continue;
        if (round == last || !options_.sealed) {
          start_call(node, any_lane(to), kEcho, 60 * kSecond);
          continue;
        }
        for (uint32_t lane = 0; lane < lane_count_; ++lane) start_call(node, {to, lane}, kEcho, 60 * kSecond);
      }
    }
    if (options_.connections && round == last) {
      // Anywhere in the middle of them. They are repeated, and must succeed.
      for (uint64_t steps = rng_.below(40); steps > 0 && next_event() != kTimeNever; --steps) step_to(next_event());
      network_.break_connections();
    }
    settle();
    for (size_t id = first; round == last && id < calls_.size(); ++id) {
      if (!calls_[id].ok) {
        violate("after healing, call ", id, " from ", calls_[id].from, " to ", calls_[id].to,
                " still fails: ", last_error_);
      }
    }
  }
}

/// Sessions that can join have done so after a while: small calls go in bundles, where congestion control lets them. A
/// session's first call makes its sslots.
void World::check_joined() {
  size_t first = 0;
  for (int round = 0; round < 2; ++round) {
    first = calls_.size();
    for (Node& node : nodes_) {
      for (uint32_t to = 0; to < nodes_.size(); ++to) {
        for (uint32_t lane = 0; to != node.index && lane < lane_count_; ++lane) {
          start_call(node, {to, lane}, kEcho, 10 * kSecond, 100);
        }
      }
    }
    settle();
    for (const TimeNs limit = now() + kJoinLimit; next_event() <= limit;) step_to(next_event());
  }
  for (size_t id = first; id < calls_.size(); ++id) {
    const CallRecord& record = calls_[id];
    if (!record.ok) violate("at rest, call ", id, " fails: ", last_error_);
    if (record.is_small && !record.in_bundle && !options_.sealed && !nodes_[record.from].is_paced) {
      violate("at rest, small call ", id, " from ", record.from, " to ", record.to, " went in packets");
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
    bool quiet = open_calls_ == 0 && letters_.empty() && network_.next_event_ns() == kTimeNever;
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
    nodes_[i].clock = std::make_unique<NodeClock>(network_.clock());
    nodes_[i].clock->ahead_ns =
        static_cast<DurationNs>(rng_.below(1000)) * kSecond + static_cast<DurationNs>(rng_.below(kSecond));
    start(nodes_[i]);
  }
  network_.set_watch([this](uint32_t from, uint32_t to, std::vector<std::byte>& packet) { watch(from, to, packet); });
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
  if (result_.violations.empty()) check_joined();
  result_.virtual_ns = now() - begun;
  final_checks();
  result_.retransmits = retransmits_of_dead_;
  for (const Node& node : nodes_) {
    cover_seals(node);
    result_.retransmits += node.endpoint->counters().retransmits;
    for (size_t i = 0; i < kDropReasonCount; ++i) {
      const uint64_t count = node.endpoint->counters().drops[i];
      if (count > 0) {
        result_.coverage[absl::StrCat("drop ", std::string(drop_reason_name(static_cast<DropReason>(i))))] += count;
      }
    }
    result_.coverage["bytes read by their receiver"] += node.endpoint->counters().rx_read_bytes;
    result_.coverage["bytes written into frames"] += node.endpoint->counters().tx_copied_bytes;
    result_.coverage["READ failed"] += node.endpoint->counters().reads_failed;
    result_.coverage["session broken"] += node.endpoint->counters().sessions_broken;
    result_.coverage["session reconnected"] += node.endpoint->counters().sessions_reconnected;
    result_.coverage["stale reply"] += node.endpoint->counters().stale_replies;
    result_.coverage["copied out"] += node.endpoint->counters().leases_copied_out;
  }
  if (options_.sealed) result_.coverage["nonce used"] += nonces_.used_count();
  if (options_.connections) result_.coverage["connection broken"] += network_.fates().connections_broken;
  result_.trace_hash = mix64(network_.trace_hash() ^ static_cast<uint64_t>(now()) ^ (result_.ok << 32));
  return result_;
}

WorldResult run_world(const WorldOptions& options) {
  World world(options);
  return world.run();
}

}  // namespace skua::rpc::sim
