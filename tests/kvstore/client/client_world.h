// One client and a few nodes on a simulated network, on one thread and under one clock.
#ifndef SKUA_TESTS_KVSTORE_CLIENT_CLIENT_WORLD_H_
#define SKUA_TESTS_KVSTORE_CLIENT_CLIENT_WORLD_H_

#include <algorithm>
#include <memory>
#include <set>
#include <string>
#include <vector>

#include "kvstore/client/client_core.h"
#include "rpc/base/check.h"
#include "rpc/transport/sim/sim_network.h"
#include "tests/kvstore/client/fake_cluster.h"

namespace skua::kv {

class ClientWorld {
 public:
  /// `one_store`: the nodes have the same data, as replicas that never lag.
  explicit ClientWorld(uint32_t node_count, ClientOptions options = {}, uint64_t seed = 1, bool one_store = false)
      : network(seed), options_(options) {
    options_.seed = seed;
    for (uint32_t i = 0; i < node_count; ++i) {
      stores_.push_back(one_store && i > 0 ? stores_[0] : std::make_shared<FakeStore>());
      nodes_.push_back(nullptr);
      start_node(i, 1);
    }
  }
  ~ClientWorld() {
    client.reset();
    access_.reset();
    client_transport_.reset();
    nodes_.clear();
  }

  /// All nodes share the table's shards evenly.
  void publish(uint32_t shard_count, uint64_t epoch = 1) {
    std::vector<uint32_t> owners;
    for (uint32_t i = 0; i < shard_count; ++i) owners.push_back(i % static_cast<uint32_t>(nodes_.size()));
    publish_owners(owners, epoch);
  }
  void publish_owners(const std::vector<uint32_t>& owners, uint64_t epoch) {
    owners_ = owners;
    epoch_ = epoch;
    std::vector<FakeNode*> nodes;
    for (const auto& node : nodes_) nodes.push_back(node.get());
    control.publish(nodes, owners, epoch);
  }

  /// The process' first client, or one after the other.
  ClientCore& start_client() {
    client.reset();
    client_transport_.reset();
    rpc::EndpointIdentity self;
    self.uuid.bytes[0] = 99;
    client_transport_ = network.attach(99, self, {.payload_max_bytes = 32 * 1024});
    access_ = control.access();
    client = std::make_unique<ClientCore>(*client_transport_, network.clock(), *access_, options_, ++client_id_,
                                          options_.seed);
    return *client;
  }

  FakeNode& node(uint32_t index) { return *nodes_[index]; }
  FakeStore& store(uint32_t index) { return *stores_[index]; }

  /// SIGSTOP and SIGCONT: what comes meanwhile waits in the node's receive ring.
  void pause_node(uint32_t index) { paused_.insert(index); }
  void continue_node(uint32_t index) { paused_.erase(index); }

  /// kill -9, and a new process with the same data; the map learns of it with the next publish().
  void restart_node(uint32_t index) {
    const uint64_t incarnation = nodes_[index]->incarnation() + 1;
    stop_node(index);
    start_node(index, incarnation);
    nodes_[index]->owned = owned_by(index);
    nodes_[index]->placement.shard_count = static_cast<uint32_t>(owners_.size());
  }
  void stop_node(uint32_t index) {
    control.detach(*nodes_[index]);
    nodes_[index].reset();
  }

  /// Runs until `done()`, or for `limit_ns`; true if it was.
  template <typename Predicate>
  bool run_until(Predicate done, DurationNs limit_ns = 60 * kSecond) {
    const TimeNs end = network.now_ns() + limit_ns;
    turn();
    while (!done()) {
      if (network.now_ns() >= end) return false;
      TimeNs next = std::min(network.next_event_ns(), client->next_timer_ns());
      for (uint32_t i = 0; i < nodes_.size(); ++i) {
        if (runs(i)) next = std::min(next, nodes_[i]->endpoint().next_timer_ns());
      }
      network.advance_to(std::clamp(next, network.now_ns(), end));
      turn();
    }
    return true;
  }
  void turn() {
    for (int i = 0; i < 3; ++i) {
      for (uint32_t k = 0; k < nodes_.size(); ++k) {
        if (runs(k)) nodes_[k]->endpoint().poll();
      }
      client->poll(0);
    }
  }

  rpc::SimNetwork network;
  FakeControl control;
  std::unique_ptr<ClientCore> client;

 private:
  [[nodiscard]] bool runs(uint32_t index) const { return nodes_[index] != nullptr && !paused_.contains(index); }
  void start_node(uint32_t index, uint64_t incarnation) {
    rpc::EndpointIdentity self;
    self.uuid.bytes[0] = static_cast<uint8_t>(index + 1);
    self.incarnation = incarnation;
    auto transport = network.attach(index + 1, self, {.payload_max_bytes = 32 * 1024});
    nodes_[index] = std::make_unique<FakeNode>("node" + std::to_string(index), incarnation, std::move(transport),
                                               network.clock(), stores_[index]);
    control.attach(*nodes_[index]);
  }
  std::map<uint32_t, uint64_t> owned_by(uint32_t index) const {
    std::map<uint32_t, uint64_t> owned;
    for (uint32_t shard = 0; shard < owners_.size(); ++shard) {
      if (owners_[shard] == index) owned[shard] = epoch_;
    }
    return owned;
  }

  ClientOptions options_;
  std::vector<std::shared_ptr<FakeStore>> stores_;
  std::vector<std::unique_ptr<FakeNode>> nodes_;
  std::set<uint32_t> paused_;
  std::vector<uint32_t> owners_;
  uint64_t epoch_ = 1;
  uint64_t client_id_ = 1000;
  std::unique_ptr<ClusterAccess> access_;
  std::unique_ptr<rpc::SimTransport> client_transport_;
};

/// A result that a callback has put here, or nothing yet. The callback may be called when this is gone: a client
/// that outlives it ends its operations when it is closed.
template <typename Result>
class Got {
 public:
  Got() = default;
  Got(const Got&) = delete;
  Got& operator=(const Got&) = delete;

  auto callback() {
    return [held = held_](Result&& arrived) {
      ++held->count;
      held->result = std::move(arrived);
    };
  }
  [[nodiscard]] bool here() const { return count > 0; }

 private:
  struct Held {
    int count = 0;
    Result result;
  };
  const std::shared_ptr<Held> held_ = std::make_shared<Held>();

 public:
  int& count = held_->count;
  Result& result = held_->result;
};

}  // namespace skua::kv

#endif  // SKUA_TESTS_KVSTORE_CLIENT_CLIENT_WORLD_H_
