#include "control/core/rebalance.h"

#include <gtest/gtest.h>

#include "tests/control/core/replicated_cluster.h"

namespace skua::control {
namespace {

ViewOptions balancing_views() {
  ViewOptions views = eager_views();
  views.rebalance = true;
  return views;
}

TEST(Rebalance, FillsANewNodeAndEnds) {
  ReplicatedCluster cluster(3, 3, 12, balancing_views());
  cluster.info.push_back(test_node(4));
  ASSERT_TRUE(cluster.register_node(cluster.node(4)).ok());
  cluster.pass(5 * kSecond);
  EXPECT_EQ(cluster.held_by(4), 0u);  // not before it has been quiet for a while
  for (int i = 0; i < 40; ++i) cluster.let_learners_join();
  for (uint64_t n = 1; n <= 4; ++n) {
    EXPECT_EQ(cluster.held_by(n), 9u);
    EXPECT_GE(cluster.led_by(n), 2u);
    EXPECT_LE(cluster.led_by(n), 4u);
  }
  const uint64_t revision = cluster.revision();
  cluster.pass(60 * kSecond);
  EXPECT_EQ(cluster.revision(), revision);
}

TEST(Rebalance, GivesPrimariesBackAfterAFailure) {
  ReplicatedCluster cluster(3, 3, 12, balancing_views());
  for (uint32_t shard = 0; shard < 12; ++shard) {
    cluster.step(TransferPrimary{"t", shard, test_uuid(1)});
  }
  ASSERT_EQ(cluster.led_by(1), 12u);
  cluster.pass(40 * kSecond);
  for (uint64_t n = 1; n <= 3; ++n) EXPECT_EQ(cluster.led_by(n), 4u);
  const uint64_t revision = cluster.revision();
  cluster.pass(60 * kSecond);
  EXPECT_EQ(cluster.revision(), revision);
}

TEST(Rebalance, NeverMovesUnreplicatedShards) {
  ReplicatedCluster cluster(2, 1, 8, balancing_views());
  cluster.info.push_back(test_node(3));
  ASSERT_TRUE(cluster.register_node(cluster.node(3)).ok());
  const uint64_t revision = cluster.revision();
  cluster.pass(60 * kSecond);
  EXPECT_EQ(cluster.revision(), revision);
}

TEST(Rebalance, SeparatesReplicasThatShareAZone) {
  ReplicatedCluster cluster(2, 2, 4, balancing_views());  // both in no zone: they share it
  cluster.info.push_back(test_node(3));
  cluster.node(3).zone = "z";
  ASSERT_TRUE(cluster.register_node(cluster.node(3)).ok());
  for (int i = 0; i < 10; ++i) cluster.let_learners_join();
  for (uint32_t shard = 0; shard < 4; ++shard) EXPECT_TRUE(cluster.members(shard).contains(3));
}

}  // namespace
}  // namespace skua::control
