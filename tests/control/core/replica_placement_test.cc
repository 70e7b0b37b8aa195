#include "control/core/replica_placement.h"

#include <gtest/gtest.h>

#include <set>

#include "control/core/shard_map.h"
#include "tests/control/core/replicated_cluster.h"

namespace skua::control {
namespace {

TEST(PlaceTable, SpreadsReplicasAndPrimariesEvenly) {
  ReplicatedCluster cluster(5, 3, 50);
  for (uint64_t n = 1; n <= 5; ++n) {
    EXPECT_EQ(cluster.held_by(n), 30u);
    EXPECT_EQ(cluster.led_by(n), 10u);
  }
}

TEST(PlaceTable, UsesDifferentZones) {
  TestCluster cluster;
  for (uint64_t n = 1; n <= 6; ++n) {
    NodeInfo node = test_node(n);
    node.zone = n <= 2 ? "a" : n <= 4 ? "b" : "c";
    ASSERT_TRUE(cluster.register_node(node).ok());
  }
  ASSERT_TRUE(cluster.step(CreateTable{"t", 12, false, 3}).status.ok());
  for (const auto& [key, record] : cluster.core.state().shards) {
    std::set<std::string> zones;
    for (const Replica& replica : members_of(record)) {
      zones.insert(cluster.core.state().nodes.at(replica.node_uuid).zone);
    }
    EXPECT_EQ(zones.size(), 3u);
  }
}

TEST(Register, FewerWorkersMoveReplicasWithinTheNode) {
  ReplicatedCluster cluster(3, 3, 4);
  NodeInfo& node = cluster.node(1);
  node.worker_count = 1;
  cluster.restart(1);
  EXPECT_TRUE(build_shard_map(cluster.core.state()).valid());
  for (uint32_t shard = 0; shard < 4; ++shard) {
    EXPECT_EQ(find_member(cluster.record(shard), node.uuid)->worker, 0u);
  }
}

}  // namespace
}  // namespace skua::control
