#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "control/core/cluster_progress.h"
#include "control/core/shard_map.h"
#include "tests/control/core/replicated_cluster.h"

namespace skua::control {
namespace {

using absl::StatusCode;
using testing::AllOf;
using testing::HasSubstr;
using testing::IsEmpty;
using testing::Not;

std::string text(const absl::Status& status) {
  return std::string(status.message());
}

ViewOptions balancing_views() {
  ViewOptions views = eager_views();
  views.rebalance = true;
  return views;
}

size_t primaries(const ReplicatedCluster& cluster, uint64_t n) {
  return cluster.core.state().owned_shard_count(test_uuid(n));
}

size_t replicas(const ReplicatedCluster& cluster, uint64_t n) {
  return cluster.core.state().replica_count(test_uuid(n));
}

// Placement
// -----------------------------------------------------------------------------------------------------------------

TEST(PlaceTable, SpreadsReplicasAndPrimariesEvenly) {
  ReplicatedCluster cluster(5, 3, 50);
  for (uint64_t n = 1; n <= 5; ++n) {
    EXPECT_EQ(replicas(cluster, n), 30u);
    EXPECT_EQ(primaries(cluster, n), 10u);
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

TEST(CreateTable, WithMoreReplicasThanNodesSaysWhatToDo) {
  TestCluster cluster;
  ASSERT_TRUE(cluster.register_node(test_node(1)).ok());
  ASSERT_TRUE(cluster.register_node(test_node(2)).ok());
  const absl::Status status = cluster.step(CreateTable{"t", 1, false, 3}).status;
  EXPECT_EQ(status.code(), StatusCode::kFailedPrecondition);
  EXPECT_THAT(text(status), HasSubstr("Start 1 more skuad"));
  EXPECT_THAT(text(status), HasSubstr("with 2 replicas"));
  EXPECT_EQ(cluster.step(CreateTable{"t", 1, false, 6}).status.code(), StatusCode::kInvalidArgument);
  EXPECT_EQ(cluster.step(CreateTable{"t", 1, false, 2, 3}).status.code(), StatusCode::kInvalidArgument);
  EXPECT_TRUE(cluster.step(CreateTable{"t", 1, false, 2}).status.ok());
  EXPECT_EQ(cluster.step(CreateTable{"t", 1, true, 1}).status.code(), StatusCode::kAlreadyExists);
  EXPECT_TRUE(cluster.step(CreateTable{"t", 1, true}).status.ok());
}

// Operations
// ----------------------------------------------------------------------------------------------------------------

TEST(DrainNode, MovesPrimariesAtOnceAndThenEverything) {
  ReplicatedCluster cluster(4, 3, 8);
  ASSERT_TRUE(cluster.step(DrainNode{test_uuid(1)}).status.ok());
  cluster.settle();
  EXPECT_EQ(primaries(cluster, 1), 0u);
  EXPECT_THAT(drain_progress(cluster.core.context(), test_uuid(1)), HasSubstr("still to be moved"));
  cluster.let_learners_join();
  EXPECT_EQ(replicas(cluster, 1), 0u);
  EXPECT_EQ(drain_progress(cluster.core.context(), test_uuid(1)), "");
  EXPECT_EQ(settled_shard_count(cluster.core.context(), 1), 8u);
  for (uint32_t shard = 0; shard < 8; ++shard) EXPECT_EQ(cluster.record(shard).fork, 0u);
  // The mark survives a restart of the node; an empty node can be removed.
  cluster.restart(1);
  EXPECT_TRUE(cluster.core.state().nodes.at(test_uuid(1)).draining);
  EXPECT_TRUE(cluster.step(NodeLeave{test_uuid(1), cluster.node(1).instance, false}).status.ok());
}

TEST(DrainNode, WithoutRoomElsewhereSaysSoAndCanBeTakenBack) {
  ReplicatedCluster cluster(3, 3, 4);
  ASSERT_TRUE(cluster.step(DrainNode{test_uuid(1)}).status.ok());
  cluster.pass(5 * kSecond);
  EXPECT_EQ(primaries(cluster, 1), 0u);
  EXPECT_EQ(replicas(cluster, 1), 4u);
  EXPECT_THAT(drain_progress(cluster.core.context(), test_uuid(1)), HasSubstr("4 of them cannot be"));
  EXPECT_TRUE(cluster.step(UndrainNode{test_uuid(1)}).status.ok());
  cluster.settle();
  EXPECT_EQ(settled_shard_count(cluster.core.context(), 1), 4u);
  EXPECT_EQ(cluster.step(DrainNode{test_uuid(9)}).status.code(), StatusCode::kNotFound);
}

TEST(DrainNode, LeavesShardsThatNobodyCopiesAndSaysSo) {
  ReplicatedCluster cluster(4, 3, 4);
  ASSERT_TRUE(cluster.step(CreateTable{"alone", 4, false, 1}).status.ok());
  const size_t staying = cluster.core.state().staying_shard_count(test_uuid(1));
  ASSERT_GT(staying, 0u);
  ASSERT_TRUE(cluster.step(DrainNode{test_uuid(1)}).status.ok());
  EXPECT_THAT(drain_progress(cluster.core.context(), test_uuid(1)),
              AllOf(HasSubstr("still to be moved; "), HasSubstr("tables with one replica are not copied (alone)")));
  cluster.let_learners_join();
  // No learner is sent for what no node would copy.
  EXPECT_EQ(replicas(cluster, 1), staying);
  for (const auto& [key, record] : cluster.core.state().shards) EXPECT_THAT(record.learners, IsEmpty());
  EXPECT_THAT(drain_progress(cluster.core.context(), test_uuid(1)),
              AllOf(Not(HasSubstr("to be moved")), HasSubstr(" here: "), HasSubstr("then drop them")));
  ASSERT_TRUE(cluster.step(DropTable{"alone"}).status.ok());
  EXPECT_EQ(drain_progress(cluster.core.context(), test_uuid(1)), "");
}

TEST(NodeLeave, IsRefusedWhileTheNodeHoldsReplicas) {
  ReplicatedCluster cluster(4, 3, 4);
  const auto refusal = cluster.step(NodeLeave{test_uuid(1), cluster.node(1).instance, false}).status;
  EXPECT_EQ(refusal.code(), StatusCode::kFailedPrecondition);
  EXPECT_THAT(text(refusal), HasSubstr("Drain it first"));
  EXPECT_TRUE(cluster.step(NodeLeave{test_uuid(1), cluster.node(1).instance, true}).status.ok());
  for (uint32_t shard = 0; shard < 4; ++shard) {
    EXPECT_FALSE(cluster.members(shard).contains(1));
    EXPECT_GE(cluster.members(shard).size(), 2u);
  }
}

TEST(MoveShard, EndsWithTheReplicaOnTheOtherNode) {
  ReplicatedCluster cluster(4);
  const uint64_t from = cluster.primary();
  const uint64_t to = cluster.outsider();
  ASSERT_TRUE(cluster.step(MoveShard{"t", 0, test_uuid(from), test_uuid(to)}).status.ok());
  EXPECT_EQ(cluster.record().epoch, 1u);
  cluster.let_learners_join();
  EXPECT_FALSE(cluster.members().contains(from));
  EXPECT_TRUE(cluster.members().contains(to));
  EXPECT_EQ(cluster.members().size(), 3u);
  EXPECT_THAT(cluster.record().leaving, IsEmpty());
}

TEST(MoveShard, OfATableWithOneReplicaIsRefused) {
  ReplicatedCluster cluster(2, 1);
  const uint64_t owner = cluster.primary();
  const auto status = cluster.step(MoveShard{"t", 0, test_uuid(owner), test_uuid(3 - owner)}).status;
  EXPECT_EQ(status.code(), StatusCode::kFailedPrecondition);
  EXPECT_THAT(text(status), AllOf(HasSubstr("stays where it is"), HasSubstr("--replicas 2")));
}

/// Earlier control planes began to move such shards.
TEST(MoveShard, OfATableWithOneReplicaThatWasBegunIsTakenBack) {
  ReplicatedCluster cluster(2, 1);
  const uint64_t owner = cluster.primary();
  ClusterState state = cluster.core.state();
  const NodeInfo target = state.nodes.at(test_uuid(3 - owner));
  state.shards.at({1, 0}) = with_move(cluster.record(), test_uuid(owner), {target.uuid, 0, target.storage_incarnation});
  TestCluster again(state);
  for (uint64_t n = 1; n <= 2; ++n) ASSERT_TRUE(again.register_node(test_node(n)).ok());
  for (int i = 0; i < 4; ++i) again.step(Tick{});
  const ShardAssignment& record = again.core.state().shards.at({1, 0});
  EXPECT_THAT(record.learners, IsEmpty());
  EXPECT_THAT(record.leaving, IsEmpty());
  EXPECT_EQ(record.primary->node_uuid, test_uuid(owner));
}

TEST(MoveShard, RefusalsSayWhy) {
  ReplicatedCluster cluster(4);
  const std::string member = test_uuid(cluster.primary());
  const std::string outsider = test_uuid(cluster.outsider());
  const auto refused = [&](const MoveShard& move) { return text(cluster.step(move).status); };
  EXPECT_THAT(refused({"x", 0, member, outsider}), HasSubstr("there are: t"));
  EXPECT_THAT(refused({"t", 7, member, outsider}), HasSubstr("no shard 7"));
  EXPECT_THAT(refused({"t", 0, outsider, outsider}), HasSubstr("no member on node"));
  EXPECT_THAT(refused({"t", 0, member, test_uuid(cluster.backup(0))}), HasSubstr("already"));
  EXPECT_THAT(refused({"t", 0, member, test_uuid(77)}), HasSubstr("no node"));
  ASSERT_TRUE(cluster.step(DrainNode{outsider}).status.ok());
  EXPECT_THAT(refused({"t", 0, member, outsider}), HasSubstr("draining"));
}

TEST(MoveShard, ToANodeThatDiesIsTakenBack) {
  ReplicatedCluster cluster(4);
  const uint64_t from = cluster.backup(0);
  const uint64_t to = cluster.outsider();
  ASSERT_TRUE(cluster.step(MoveShard{"t", 0, test_uuid(from), test_uuid(to)}).status.ok());
  cluster.silence(to);
  cluster.pass(10 * kSecond);
  EXPECT_THAT(cluster.record().learners, IsEmpty());
  EXPECT_THAT(cluster.record().leaving, IsEmpty());
  EXPECT_TRUE(cluster.members().contains(from));
  EXPECT_EQ(cluster.record().epoch, 1u);
}

TEST(TransferPrimary, GoesToLiveMembersOnly) {
  ReplicatedCluster cluster(4);
  const uint64_t b = cluster.backup(0);
  EXPECT_THAT(text(cluster.step(TransferPrimary{"t", 0, test_uuid(cluster.outsider())}).status),
              HasSubstr("no member"));
  ASSERT_TRUE(cluster.step(TransferPrimary{"t", 0, test_uuid(b)}).status.ok());
  EXPECT_EQ(cluster.primary(), b);
  EXPECT_EQ(cluster.record().epoch, 2u);
  EXPECT_EQ(cluster.members().size(), 3u);
  EXPECT_TRUE(cluster.step(TransferPrimary{"t", 0, test_uuid(b)}).changes.empty());
  const uint64_t other = cluster.backup(0);
  cluster.silence(other);
  cluster.pass(4 * kSecond);
  EXPECT_THAT(text(cluster.step(TransferPrimary{"t", 0, test_uuid(other)}).status), HasSubstr("not alive"));
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

// Balance
// -----------------------------------------------------------------------------------------------------------------

TEST(Rebalance, FillsANewNodeAndEnds) {
  ReplicatedCluster cluster(3, 3, 12, balancing_views());
  cluster.info.push_back(test_node(4));
  ASSERT_TRUE(cluster.register_node(cluster.node(4)).ok());
  cluster.pass(5 * kSecond);
  EXPECT_EQ(replicas(cluster, 4), 0u);  // not before it has been quiet for a while
  for (int i = 0; i < 40; ++i) cluster.let_learners_join();
  for (uint64_t n = 1; n <= 4; ++n) {
    EXPECT_EQ(replicas(cluster, n), 9u);
    EXPECT_GE(primaries(cluster, n), 2u);
    EXPECT_LE(primaries(cluster, n), 4u);
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
  ASSERT_EQ(primaries(cluster, 1), 12u);
  cluster.pass(40 * kSecond);
  for (uint64_t n = 1; n <= 3; ++n) EXPECT_EQ(primaries(cluster, n), 4u);
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
