// Nodes of one worker each that talk by PeerLinks, and bootstrap services that are a struct: for tests, polled by one
// thread.
#ifndef SKUA_TESTS_KVSTORE_PEERS_PEER_WORLD_H_
#define SKUA_TESTS_KVSTORE_PEERS_PEER_WORLD_H_

#include <gtest/gtest.h>

#include <algorithm>
#include <functional>
#include <map>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "kvstore/node/node.h"
#include "kvstore/peers/peer_identity.h"
#include "kvstore/peers/peer_links.h"
#include "rpc/endpoint.h"
#include "rpc/transport/sim/sim_network.h"

namespace skua::kv::testing {

inline constexpr char kPeerCluster[] = "c0ffee00-0000-4000-8000-000000000000";

/// One process of a node.
class PeerNode final : public PeerLinksHost {
 public:
  struct Received {
    PeerAddress from;
    ReplicaEnvelope envelope;
    ReplicaMessage message;
    std::vector<std::string> payloads;
    bool is_reply = false;
  };

  PeerNode(uint32_t number, uint64_t incarnation, std::unique_ptr<rpc::Transport> transport, const Clock& clock,
           PeerBootstrap& bootstrap, PeerLinksOptions options, const rpc::EndpointOptions& endpoint_options)
      : number_(number), incarnation_(incarnation), transport_(std::move(transport)) {
    endpoint_ = std::make_unique<rpc::Endpoint>(*transport_, clock, endpoint_options);
    options.cluster_id = kPeerCluster;
    options.node_uuid = uuid(number);
    links_ = std::make_unique<PeerLinks>(*endpoint_, bootstrap, *this, options);
  }
  ~PeerNode() {
    tokens.clear();
    leases.clear();
    endpoint_.reset();
    links_.reset();
  }

  static std::string uuid(uint32_t number) {
    return "aaaaaaaa-0000-400" + std::to_string(number) + "-8000-000000000000";
  }
  static NodeId id(uint32_t number) { return 0xaaaaaaaa00004000 + number; }
  static PeerAddress address(uint32_t number, uint32_t worker = 0) { return {id(number), worker}; }
  static std::string grpc(uint32_t number) { return "node" + std::to_string(number) + ":7401"; }

  [[nodiscard]] PeerInfo info() const { return {uuid(number_), grpc(number_), incarnation_, storage}; }
  [[nodiscard]] ReplicaEnvelope envelope() const { return {7, 3, id(number_), storage}; }
  [[nodiscard]] uint32_t number() const { return number_; }
  [[nodiscard]] uint64_t incarnation() const { return incarnation_; }
  rpc::Endpoint& endpoint() { return *endpoint_; }
  PeerLinks& links() { return *links_; }
  [[nodiscard]] bool send(const PeerNode& to, const ReplicaMessage& message) {
    return links_->send(address(to.number_), links_->make_frame(envelope(), message));
  }

  void on_peer_message(PeerMessage&& message) override {
    Received got{message.from, message.frame.envelope, message.frame.message, {}, !message.reply};
    for (const AppendEntry& entry : message.frame.entries) got.payloads.emplace_back(as_string_view(entry.payload));
    received.push_back(std::move(got));
    if (!message.reply) return;
    if (answer) {
      message.reply.reply(answer());
    } else {
      tokens.push_back(std::move(message.reply));
      leases.push_back(std::move(message.bytes));
    }
  }
  void on_peer_ready(PeerAddress peer) override { ready.push_back(peer); }
  void on_peer_failed(PeerAddress peer, const absl::Status& why) override { failed.emplace_back(peer, why); }
  void on_peer_room(PeerAddress peer) override { room.push_back(peer); }

  uint64_t storage = 11;
  /// Null: tokens and leases are kept.
  std::function<rpc::MessagePtr()> answer = [] { return rpc::MessagePtr(); };
  std::vector<Received> received;
  std::vector<rpc::ReplyToken> tokens;
  std::vector<rpc::Lease> leases;
  std::vector<PeerAddress> ready;
  std::vector<std::pair<PeerAddress, absl::Status>> failed;
  std::vector<PeerAddress> room;

 private:
  const uint32_t number_;
  const uint64_t incarnation_;
  const std::unique_ptr<rpc::Transport> transport_;
  std::unique_ptr<PeerLinks> links_;
  std::unique_ptr<rpc::Endpoint> endpoint_;
};

/// The nodes' bootstrap services.
class FakeBootstrap final : public PeerBootstrap {
 public:
  void describe(const std::string& grpc_address, const std::string&, DescribeFn done) override {
    describe_times.push_back(clock->now_ns());
    if (silent) return;
    if (!error.ok()) return done(error);
    const auto found = nodes.find(grpc_address);
    if (found == nodes.end()) return done(absl::UnavailableError("connection refused"));
    PeerNode& node = *found->second;
    const rpc::Descriptor descriptor = node.endpoint().local_descriptor();
    done(control::NodeDescription{PeerNode::uuid(node.number()),
                                  node.incarnation(),
                                  kPeerCluster,
                                  {{0, {{descriptor.transport, descriptor.encode()}}}}});
  }
  void open_session(const control::OpenSessionRequest& request, OpenSessionFn done) override {
    const auto found = nodes.find(answers_instead.empty() ? request.grpc_address : answers_instead);
    if (found == nodes.end()) return done(absl::UnavailableError("connection refused"));
    PeerNode& node = *found->second;
    done(control::OpenSessionAnswer{PeerNode::uuid(node.number()), node.incarnation(),
                                    node.endpoint().accept_offer(as_byte_span(request.offer))});
  }

  const Clock* clock = nullptr;
  std::map<std::string, PeerNode*> nodes;
  std::vector<TimeNs> describe_times;
  bool silent = false;
  absl::Status error;
  std::string answers_instead;
};

/// On a simulated network, under its clock.
class PeerWorld {
 public:
  explicit PeerWorld(uint32_t node_count, PeerLinksOptions options = {}, uint64_t seed = 1)
      : network(seed), options_(std::move(options)) {
    bootstrap.clock = &network.clock();
    nodes_.resize(node_count);
    for (uint32_t i = 0; i < node_count; ++i) start(i, 1);
    introduce_all();
  }
  ~PeerWorld() {
    // All at once, as far as the network goes: what one still sends is nobody's concern.
    for (auto& node : nodes_) node.reset();
  }

  PeerNode& node(uint32_t index) { return *nodes_[index]; }

  void start(uint32_t index, uint64_t incarnation) {
    const auto identity = worker_identity(PeerNode::uuid(index), incarnation, kPeerCluster, 0).value();
    auto transport = network.attach(index + 1, identity, {.payload_max_bytes = 8192, .rx_ring = 4096});
    nodes_[index] = std::make_unique<PeerNode>(index, incarnation, std::move(transport), network.clock(), bootstrap,
                                               options_, endpoint_options);
    bootstrap.nodes[PeerNode::grpc(index)] = nodes_[index].get();
  }
  /// kill -9.
  void stop(uint32_t index) {
    bootstrap.nodes.erase(PeerNode::grpc(index));
    nodes_[index].reset();
  }
  /// Everybody knows everybody as they are now.
  void introduce_all() {
    for (auto& node : nodes_) {
      for (auto& other : nodes_) {
        if (node == nullptr || other == nullptr || node == other) continue;
        EXPECT_TRUE(node->links().set_peer(other->info()).ok());
      }
    }
  }

  void turn() {
    for (int i = 0; i < 2; ++i) {
      next_tick_ns_ = kTimeNever;
      for (auto& node : nodes_) {
        if (node == nullptr) continue;
        node->endpoint().poll();
        next_tick_ns_ = std::min(next_tick_ns_, node->links().tick());
      }
    }
  }
  /// Runs until `done()`, or for `limit_ns`; true if it was.
  template <typename Predicate>
  bool run_until(Predicate done, DurationNs limit_ns = 60 * kSecond) {
    const TimeNs end = network.now_ns() + limit_ns;
    turn();
    while (!done()) {
      if (network.now_ns() >= end) return false;
      TimeNs next = std::min(network.next_event_ns(), next_tick_ns_);
      for (auto& node : nodes_) {
        if (node != nullptr) next = std::min(next, node->endpoint().next_timer_ns());
      }
      network.advance_to(std::clamp(next, network.now_ns() + 1, end));
      turn();
    }
    return true;
  }
  void run_for(DurationNs time) {
    static_cast<void>(run_until([] { return false; }, time));
  }
  /// Sends until it goes.
  bool connect(uint32_t from, uint32_t to) {
    static_cast<void>(node(from).send(node(to), Release{0}));
    return run_until([&] { return node(from).links().is_open(PeerNode::address(to)); });
  }
  /// Nothing is held anywhere once everything has come to rest.
  void expect_balance() {
    run_for(kSecond);
    for (auto& node : nodes_) {
      if (node == nullptr) continue;
      const auto balance = node->endpoint().balance();
      EXPECT_EQ(balance.calls, 0U);
      EXPECT_EQ(balance.handlers, 0U);
      EXPECT_EQ(balance.lent_buffers, 0U);
      EXPECT_EQ(balance.pool_buffers, 0U);
      EXPECT_EQ(balance.messages, 0U);
      EXPECT_EQ(balance.credits_missing, 0U);
    }
  }

  rpc::SimNetwork network;
  FakeBootstrap bootstrap;
  rpc::EndpointOptions endpoint_options;

 private:
  PeerLinksOptions options_;
  std::vector<std::unique_ptr<PeerNode>> nodes_;
  TimeNs next_tick_ns_ = kTimeNever;
};

}  // namespace skua::kv::testing

#endif  // SKUA_TESTS_KVSTORE_PEERS_PEER_WORLD_H_
