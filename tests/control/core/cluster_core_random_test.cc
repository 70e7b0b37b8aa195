// Thousands of random events against the core, with the invariants checked after each one.
#include <gtest/gtest.h>

#include "control/core/shard_map.h"
#include "rpc/base/rng.h"
#include "tests/control/core/core_fixture.h"

namespace skua::control {
namespace {

Event random_event(Rng& rng) {
  const NodeInfo node = test_node(rng.between(1, 5), rng.between(1, 4), static_cast<uint32_t>(rng.between(1, 4)));
  const std::string table = "t" + std::to_string(rng.below(6));
  switch (rng.below(8)) {
    case 0:
    case 1: return RegisterNode{rng.chance(0.1) ? "foreign" : kClusterId, node, rng.below(50)};
    case 2:
    case 3: return NodeHeartbeat{node.uuid, node.incarnation, node.instance, rng.below(50), rng.chance(0.1)};
    case 4: return NodeLeave{node.uuid, rng.chance(0.5) ? node.instance : "", rng.chance(0.3)};
    case 5:
    case 6: return CreateTable{table, static_cast<uint32_t>(rng.below(9)), rng.chance(0.5)};
    default: return DropTable{table};
  }
}

void check_invariants(const ClusterState& before, const TestCluster& cluster, const Decision& decision) {
  const ClusterState& state = cluster.core.state();
  // A refusal changes nothing; a change raises the revision by exactly one.
  if (!decision.status.ok()) {
    ASSERT_TRUE(decision.changes.empty());
    ASSERT_FALSE(decision.status.message().empty());
  }
  ASSERT_EQ(state.map_revision, before.map_revision + (decision.changes.empty() ? 0 : 1));
  ASSERT_GE(state.next_table_id, before.next_table_id);
  // Every table has all its shards, every owner exists and has that worker.
  size_t shard_count = 0;
  for (const auto& [id, table] : state.tables) {
    ASSERT_LT(id, state.next_table_id);
    shard_count += table.shard_count;
    for (uint32_t shard = 0; shard < table.shard_count; ++shard) {
      const ShardAssignment& assignment = state.shards.at({id, shard});
      if (!assignment.primary) continue;
      const auto node = state.nodes.find(assignment.primary->node_uuid);
      ASSERT_NE(node, state.nodes.end());
      ASSERT_LT(assignment.primary->worker, node->second.worker_count);
    }
  }
  ASSERT_EQ(state.shards.size(), shard_count);
  ASSERT_TRUE(build_shard_map(state).valid());
  // An owner changes only together with the epoch, which grows; incarnations grow.
  for (const auto& [key, old] : before.shards) {
    const auto now = state.shards.find(key);
    if (now == state.shards.end()) continue;
    ASSERT_EQ(now->second.epoch, old.epoch + (now->second.primary == old.primary ? 0 : 1));
  }
  for (const auto& [uuid, old] : before.nodes) {
    const auto now = state.nodes.find(uuid);
    if (now != state.nodes.end()) {
      ASSERT_GE(now->second.incarnation, old.incarnation);
    }
  }
}

TEST(ClusterCore, RandomEventsKeepTheInvariants) {
  for (uint64_t seed = 1; seed <= 200; ++seed) {
    SCOPED_TRACE(seed);
    Rng rng(seed);
    TestCluster cluster;
    for (int i = 0; i < 150; ++i) {
      if (rng.chance(0.1)) cluster.advance(static_cast<DurationNs>(rng.below(4 * kSecond)));
      const ClusterState before = cluster.core.state();
      const Decision decision = cluster.step(random_event(rng));
      check_invariants(before, cluster, decision);
      if (HasFatalFailure()) return;
    }
  }
}

TEST(ClusterCore, SameEventsSameState) {
  const auto run = [](uint64_t seed) {
    Rng rng(seed);
    TestCluster cluster;
    for (int i = 0; i < 300; ++i) cluster.step(random_event(rng));
    return build_shard_map(cluster.core.state());
  };
  EXPECT_EQ(run(5), run(5));
}

}  // namespace
}  // namespace skua::control
