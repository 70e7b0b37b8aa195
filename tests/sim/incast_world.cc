#include "tests/sim/incast_world.h"

#include <algorithm>
#include <memory>

#include "absl/strings/str_cat.h"
#include "rpc/base/rng.h"

namespace skua::rpc::sim {
namespace {

enum Method : MethodId { kFetch = 1, kEcho = 2 };

constexpr uint32_t kClientAddress = 1;
constexpr uint32_t kBystanderAddress = 2;
constexpr uint32_t kFirstServerAddress = 100;
constexpr uint32_t kRing = 2048;
constexpr size_t kBystanderBytes = 64;
constexpr DurationNs kQuietBefore = 10 * kMillisecond;  // sessions stand, paths are known
constexpr size_t kViolationsKept = 5;
constexpr DurationNs kGiveUpAfter = 30 * kSecond;

class IncastWorld {
 public:
  explicit IncastWorld(const IncastOptions& options)
      : options_(options), network_(options.seed), response_(options.response_bytes) {
    Rng rng(options.seed);
    for (std::byte& byte : response_) byte = static_cast<std::byte>(rng.next());
    network_.set_switch({options.gigabits_per_s * 125'000'000, options.buffer_bytes});
  }
  ~IncastWorld() {
    for (Node& node : nodes_) node.endpoint.reset();
  }

  IncastResult run();

 private:
  struct Node {
    std::unique_ptr<SimTransport> transport;
    std::unique_ptr<Endpoint> endpoint;
  };

  Node& add_node(uint32_t address);
  void connect_all();
  void fetch(SessionId from);
  void bystander_call();
  void step(TimeNs limit);
  void run_until(TimeNs when);
  IncastResult result(DurationNs busy_ns);
  void violate(std::string what) {
    if (result_.violations.size() < kViolationsKept) result_.violations.push_back(std::move(what));
  }
  [[nodiscard]] TimeNs now() const { return network_.now_ns(); }

  const IncastOptions options_;
  SimNetwork network_;
  std::vector<std::byte> response_;
  std::vector<Node> nodes_;  // the client, the bystander, the servers
  std::vector<SessionId> to_servers_;
  SessionId bystander_to_client_;
  uint32_t awaited_ = 0;
  TimeNs next_bystander_ns_ = kTimeNever;
  std::vector<DurationNs> bystander_ns_;
  IncastResult result_;
};

IncastWorld::Node& IncastWorld::add_node(uint32_t address) {
  EndpointIdentity identity;
  identity.uuid.bytes[0] = static_cast<uint8_t>(address);
  identity.uuid.bytes[1] = static_cast<uint8_t>(address >> 8);
  identity.incarnation = 1;
  identity.cluster_id.bytes[0] = 7;
  SimTransportOptions transport;
  transport.payload_max_bytes = options_.payload_bytes;
  transport.rx_ring = kRing;
  transport.latency_ns = options_.latency_ns;
  EndpointOptions options;
  options.protocol = options_.protocol;
  options.simulation_seed = mix64(options_.seed + address);
  Node& node = nodes_.emplace_back();
  node.transport = network_.attach(address, identity, transport);
  node.endpoint = std::make_unique<Endpoint>(*node.transport, network_.clock(), options);
  node.endpoint->serve(kEcho, [endpoint = node.endpoint.get()](IncomingCall&& call) {
    MessagePtr answer = endpoint->make_message();
    answer->append_copy(call.request.bytes());
    call.reply.reply(std::move(answer));
  });
  return node;
}

void IncastWorld::connect_all() {
  nodes_.reserve(options_.server_count + 2);
  Node& client = add_node(kClientAddress);
  Node& bystander = add_node(kBystanderAddress);
  for (uint32_t i = 0; i < options_.server_count; ++i) {
    Endpoint& server = *add_node(kFirstServerAddress + i).endpoint;
    server.serve(kFetch, [this, &server](IncomingCall&& call) {
      MessagePtr answer = server.make_message();
      static_cast<void>(answer->add_body(
          response_, [](void*) {}, nullptr));
      call.reply.reply(std::move(answer));
    });
    to_servers_.push_back(*client.endpoint->connect(server.local_descriptor()));
    // One small call, so that the session knows its path before it is crowded.
    static_cast<void>(
        client.endpoint->call(to_servers_.back(), kEcho, client.endpoint->make_message(), {}, [](CallResult&&) {}));
  }
  bystander_to_client_ = *bystander.endpoint->connect(client.endpoint->local_descriptor());
}

void IncastWorld::fetch(SessionId from) {
  Endpoint& client = *nodes_.front().endpoint;
  ++awaited_;
  const CallOptions patient{.timeout_ns = kGiveUpAfter, .one_way = false};
  absl::StatusOr<CallId> call = client.call(from, kFetch, client.make_message(), patient, [this](CallResult&& got) {
    --awaited_;
    if (!got.status.ok()) return violate(got.status.ToString());
    const ByteSpan bytes = got.response.bytes();
    if (!std::equal(bytes.begin(), bytes.end(), response_.begin(), response_.end())) {
      violate("a response arrived damaged");
    }
  });
  if (!call.ok()) violate(call.status().ToString());
}

void IncastWorld::bystander_call() {
  Endpoint& bystander = *nodes_[1].endpoint;
  MessagePtr request = bystander.make_message();
  request->append_copy(ByteSpan(response_).first(kBystanderBytes));
  absl::StatusOr<CallId> call =
      bystander.call(bystander_to_client_, kEcho, std::move(request), {}, [this, begun = now()](CallResult&& got) {
        bystander_ns_.push_back(now() - begun);
        if (!got.status.ok()) violate(got.status.ToString());
      });
  if (!call.ok()) violate(call.status().ToString());
}

/// To the next event, not beyond `limit`; polls whoever has something to do.
void IncastWorld::step(TimeNs limit) {
  TimeNs next = std::min({network_.next_event_ns(), next_bystander_ns_, limit});
  for (const Node& node : nodes_) next = std::min(next, node.endpoint->next_timer_ns());
  network_.advance_to(std::max(next, now()));
  if (next_bystander_ns_ <= now()) {
    next_bystander_ns_ += options_.bystander_every_ns;
    bystander_call();
  }
  for (Node& node : nodes_) {
    while (node.transport->has_received() || node.endpoint->next_timer_ns() <= now()) node.endpoint->poll();
  }
}

void IncastWorld::run_until(TimeNs when) {
  while (now() < when) step(when);
}

IncastResult IncastWorld::run() {
  connect_all();
  run_until(now() + kQuietBefore);
  next_bystander_ns_ = now();
  const TimeNs begun = now();
  if (options_.server_count == 0) run_until(begun + options_.rounds * kMillisecond);
  for (uint32_t round = 0; options_.server_count > 0 && round < options_.rounds; ++round) {
    for (const SessionId& session : to_servers_) fetch(session);
    while (awaited_ > 0 && now() - begun < kGiveUpAfter) step(begun + kGiveUpAfter);
  }
  const DurationNs busy_ns = now() - begun;
  next_bystander_ns_ = kTimeNever;
  run_until(now() + kQuietBefore);
  return result(busy_ns);
}

IncastResult IncastWorld::result(DurationNs busy_ns) {
  std::sort(bystander_ns_.begin(), bystander_ns_.end());
  result_.bystander_calls = bystander_ns_.size();
  if (!bystander_ns_.empty()) {
    result_.bystander_p50_ns = bystander_ns_[bystander_ns_.size() / 2];
    result_.bystander_p99_ns = bystander_ns_[bystander_ns_.size() * 99 / 100];
  }
  const double bits = 8.0 * options_.rounds * options_.server_count * options_.response_bytes;
  result_.goodput_gigabits_per_s = bits / static_cast<double>(busy_ns);
  result_.link_use = result_.goodput_gigabits_per_s / static_cast<double>(options_.gigabits_per_s);
  result_.tail_dropped = network_.fates().tail_dropped;
  result_.ring_overflowed = network_.fates().overflowed;
  result_.switch_peak_bytes = network_.switch_peak_bytes();
  for (const Node& node : nodes_) {
    result_.retransmits += node.endpoint->counters().retransmits;
    const Endpoint::Balance balance = node.endpoint->balance();
    if (balance.calls + balance.credits_missing + balance.lent_buffers + balance.pool_buffers > 0) {
      violate("not everything came to rest");
    }
  }
  return result_;
}

}  // namespace

IncastResult run_incast(const IncastOptions& options) {
  IncastWorld world(options);
  return world.run();
}

}  // namespace skua::rpc::sim
