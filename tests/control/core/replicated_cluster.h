// Shorthand for tests of views: a table of replicated shards on nodes 1 to n, all alive.
#ifndef SKUA_TESTS_CONTROL_CORE_REPLICATED_CLUSTER_H_
#define SKUA_TESTS_CONTROL_CORE_REPLICATED_CLUSTER_H_

#include <gtest/gtest.h>

#include <map>
#include <set>
#include <string>
#include <vector>

#include "control/core/view_rules.h"
#include "tests/control/core/core_fixture.h"

namespace skua::control {

/// No moves for balance, no waiting for lost nodes.
inline ViewOptions eager_views() {
  ViewOptions views;
  views.rebalance = false;
  views.replace_after_ns = 0;
  return views;
}

class ReplicatedCluster : public TestCluster {
 public:
  explicit ReplicatedCluster(uint64_t nodes, uint32_t replicas = 3, uint32_t shards = 1,
                             ViewOptions views = eager_views())
      : TestCluster(empty_cluster(), views) {
    for (uint64_t n = 1; n <= nodes; ++n) {
      info.push_back(test_node(n));
      EXPECT_TRUE(register_node(info.back()).ok());
    }
    EXPECT_TRUE(step(CreateTable{"t", shards, false, replicas}).status.ok());
  }
  /// The control plane of `before` was started again and has only what it stored. No node is there yet: restart().
  ReplicatedCluster(const ReplicatedCluster& before, const ViewOptions& views)
      : TestCluster(before.core.state(), views), info(before.info) {
    for (const NodeInfo& each : info) silent.insert(each.uuid);
  }

  const ShardRecord& record(uint32_t shard = 0) const { return core.state().shards.at({1, shard}); }
  /// Number of the node.
  static uint64_t number(const Replica& replica) { return std::stoull(replica.node_uuid.substr(24), nullptr, 16); }
  uint64_t primary(uint32_t shard = 0) const { return number(*record(shard).primary); }
  uint64_t backup(size_t i, uint32_t shard = 0) const { return number(record(shard).backups.at(i)); }
  std::set<uint64_t> members(uint32_t shard = 0) const {
    std::set<uint64_t> result;
    for (const Replica& replica : members_of(record(shard))) result.insert(number(replica));
    return result;
  }
  /// How many shards the node leads, and of how many it is a member or a learner.
  size_t led_by(uint64_t n) const { return core.state().owned_shard_count(test_uuid(n)); }
  size_t held_by(uint64_t n) const { return core.state().replica_count(test_uuid(n)); }
  /// A node that has no part in the shard.
  uint64_t outsider(uint32_t shard = 0) const {
    for (const NodeInfo& node : info) {
      if (find_member(record(shard), node.uuid) == nullptr && find_learner(record(shard), node.uuid) == nullptr) {
        return static_cast<uint64_t>(&node - info.data()) + 1;
      }
    }
    return 0;
  }

  NodeInfo& node(uint64_t n) { return info.at(n - 1); }
  ReplicaReport report(uint64_t from) {
    return {node(from).uuid, node(from).incarnation, node(from).instance, {}, {}, {}};
  }
  ShardAtEpoch at(uint32_t shard = 0) const { return {{1, shard}, record(shard).epoch}; }

  /// Says so without committing what follows.
  Decision accuse(uint64_t accuser, uint64_t accused, uint32_t shard = 0) {
    ReplicaReport said = report(accuser);
    said.suspicions.push_back({node(accused).uuid, {at(shard)}, "test"});
    return step(said);
  }
  void caught_up(uint64_t learner, uint32_t shard = 0) {
    ReplicaReport said = report(learner);
    said.caught_up.push_back({at(shard), node(learner).uuid});
    step(said);
  }
  void join_ready(uint64_t learner, uint64_t join, uint32_t shard = 0) {
    ReplicaReport said = report(primary(shard));
    said.join_ready.push_back({at(shard), node(learner).uuid, join});
    step(said);
  }
  /// The node doubts what it has of the first shard, and says so now, if it is not silent, and with each heartbeat
  /// until trust().
  Decision doubt(uint64_t n, uint64_t last_epoch, uint64_t last_index) {
    doubts[n] = {at(), last_epoch, last_index};
    return silent.contains(node(n).uuid) ? Decision() : say_doubt(n);
  }
  void trust(uint64_t n) { doubts.erase(n); }
  Decision say_doubt(uint64_t n) {
    ReplicaReport said = report(n);
    said.doubts.push_back(doubts.at(n));
    return step(said);
  }
  /// What nodes do when nothing is wrong, until nothing changes.
  void let_learners_join() {
    for (int i = 0; i < 100; ++i) {
      const uint64_t before = revision();
      for (const auto& [key, shard] : ClusterState(core.state()).shards) {
        for (const Learner& learner : shard.learners) {
          if (learner.join == 0) caught_up(number(learner.replica), key.second);
        }
        for (const Learner& learner : ShardRecord(record(key.second)).learners) {
          if (learner.join != 0) join_ready(number(learner.replica), learner.join, key.second);
        }
      }
      pass(100 * kMillisecond);
      if (revision() == before && i > 50) return;
    }
  }

  /// Everybody but `silent` is heard of, then ticks until nothing changes.
  void pass(DurationNs by) {
    for (const TimeNs end = now + by; now < end;) {
      now += std::min<DurationNs>(500 * kMillisecond, end - now);
      for (const NodeInfo& each : info) {
        if (silent.contains(each.uuid) || !core.state().nodes.contains(each.uuid)) continue;
        if (const uint64_t n = static_cast<uint64_t>(&each - info.data()) + 1; doubts.contains(n)) say_doubt(n);
        EXPECT_TRUE(heartbeat(each).ok());
      }
      settle();
    }
  }
  /// Ticks without time passing; returns how many changed something.
  int settle() {
    int changes = 0;
    while (!step(Tick{}).changes.empty() && changes < 1000) ++changes;
    EXPECT_LT(changes, 1000);
    return changes;
  }
  void silence(uint64_t n) { silent.insert(node(n).uuid); }
  void say_goodbye(uint64_t n) {
    silence(n);
    step(NodeHeartbeat{node(n).uuid, node(n).incarnation, node(n).instance, 0, true});
    settle();
  }
  /// A new process registers.
  void restart(uint64_t n, bool storage_lost = false) {
    silent.erase(node(n).uuid);
    node(n).incarnation += 1;
    node(n).instance = test_uuid(n * 1000 + node(n).incarnation);
    if (storage_lost) node(n).storage_incarnation += 1;
    EXPECT_TRUE(register_node(node(n)).ok());
    settle();
  }

  std::vector<NodeInfo> info;
  std::set<std::string> silent;
  std::map<uint64_t, Doubt> doubts;
};

}  // namespace skua::control

#endif  // SKUA_TESTS_CONTROL_CORE_REPLICATED_CLUSTER_H_
