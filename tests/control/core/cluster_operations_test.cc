#include "control/core/cluster_operations.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <vector>

#include "control/core/cluster_limits.h"
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

TEST(Leave, RemovesANodeWithoutShards) {
  TestCluster cluster;
  ASSERT_TRUE(cluster.register_node(test_node(1)).ok());
  EXPECT_TRUE(cluster.step(NodeLeave{test_uuid(1), test_node(1).instance, false}).status.ok());
  EXPECT_THAT(cluster.core.state().nodes, IsEmpty());
  EXPECT_FALSE(cluster.core.node_status(test_uuid(1)).has_value());
  EXPECT_EQ(cluster.heartbeat(test_node(1)).code(), StatusCode::kNotFound);
}

TEST(Leave, IsRefusedWhileTheNodeOwnsShards) {
  TestCluster cluster;
  ASSERT_TRUE(cluster.register_node(test_node(1)).ok());
  ASSERT_TRUE(cluster.create_table("orders", 4).ok());
  const absl::Status status = cluster.step(NodeLeave{test_uuid(1), test_node(1).instance, false}).status;
  EXPECT_EQ(status.code(), StatusCode::kFailedPrecondition);
  EXPECT_THAT(message_of(status), HasSubstr("4 shards of orders"));
  EXPECT_THAT(message_of(status), HasSubstr("force"));
}

TEST(Leave, ByForceLeavesShardsWithoutOwnerInANewEpoch) {
  TestCluster cluster;
  ASSERT_TRUE(cluster.register_node(test_node(1)).ok());
  ASSERT_TRUE(cluster.create_table("t", 1).ok());
  ASSERT_TRUE(cluster.step(NodeLeave{test_uuid(1), test_node(1).instance, true}).status.ok());
  const ShardRecord& shard = cluster.core.state().shards.begin()->second;
  EXPECT_FALSE(shard.primary.has_value());
  EXPECT_EQ(shard.epoch, 2u);
  const ShardMap map = build_shard_map(cluster.core.state());
  EXPECT_TRUE(map.valid());
  EXPECT_FALSE(map.owner(1, 0).has_value());
}

TEST(Leave, OperatorMustStopTheNodeFirst) {
  TestCluster cluster;
  ASSERT_TRUE(cluster.register_node(test_node(1)).ok());
  EXPECT_EQ(cluster.step(NodeLeave{test_uuid(1), "", true}).status.code(), StatusCode::kFailedPrecondition);
  cluster.advance(4 * kSecond);
  EXPECT_TRUE(cluster.step(NodeLeave{test_uuid(1), "", false}).status.ok());
}

TEST(Leave, WaitsForNewsAfterARestart) {
  TestCluster before;
  ASSERT_TRUE(before.register_node(test_node(1)).ok());
  TestCluster after(before.core.state());
  EXPECT_EQ(after.step(NodeLeave{test_uuid(1), "", true}).status.code(), StatusCode::kUnavailable);
}

/// A node with a part in more shards than one transaction takes.
class CrowdedNodeTest : public testing::Test {
 protected:
  CrowdedNodeTest() {
    EXPECT_TRUE(cluster_.register_node(test_node(1)).ok());
    EXPECT_TRUE(cluster_.create_table("a", kShardsPerTableMax).ok());
    EXPECT_TRUE(cluster_.create_table("b", kShardsPerTableMax).ok());
  }
  /// Carries the event out and returns how many transactions that took.
  int transactions(const Event& event) {
    for (int count = 1;; ++count) {
      const Decision decision = cluster_.core.step(event, cluster_.now);
      EXPECT_TRUE(decision.status.ok()) << decision.status;
      EXPECT_LE(decision.changes.put_shards.size(), kShardsPerChangeMax);
      EXPECT_EQ(decision.changes.put_shards.size(), decision.changes.reasons.size());
      EXPECT_EQ(decision.unfinished, decision.changes.put_nodes.empty() && decision.changes.delete_nodes.empty());
      cluster_.core.committed(decision.changes, cluster_.now);
      if (!decision.unfinished || !decision.status.ok()) return count;
    }
  }

  TestCluster cluster_;
};

TEST_F(CrowdedNodeTest, LeavesInSeveralTransactions) {
  const int parts = 2 * kShardsPerTableMax / kShardsPerChangeMax;
  EXPECT_EQ(transactions(NodeLeave{test_uuid(1), test_node(1).instance, true}), parts);
  EXPECT_TRUE(cluster_.core.state().nodes.empty());
  for (const auto& [key, shard] : cluster_.core.state().shards) EXPECT_FALSE(shard.primary.has_value());
}

TEST_F(CrowdedNodeTest, StartsWithFewerWorkersInSeveralTransactions) {
  const int parts = kShardsPerTableMax / kShardsPerChangeMax;
  EXPECT_EQ(transactions(RegisterNode{kClusterId, test_node(1, 2, 1), 0}), parts);
  EXPECT_EQ(cluster_.core.state().nodes.at(test_uuid(1)).worker_count, 1u);
  for (const auto& [key, shard] : cluster_.core.state().shards) EXPECT_EQ(shard.primary->worker, 0u);
}

TEST(Leave, UnknownNode) {
  TestCluster cluster;
  EXPECT_EQ(cluster.step(NodeLeave{test_uuid(1), "", false}).status.code(), StatusCode::kNotFound);
}

TEST(DrainNode, MovesPrimariesAtOnceAndThenEverything) {
  ReplicatedCluster cluster(4, 3, 8);
  ASSERT_TRUE(cluster.step(DrainNode{test_uuid(1)}).status.ok());
  cluster.settle();
  EXPECT_EQ(cluster.led_by(1), 0u);
  EXPECT_THAT(drain_progress(cluster.core.context(), test_uuid(1)), HasSubstr("still to be moved"));
  cluster.let_learners_join();
  EXPECT_EQ(cluster.held_by(1), 0u);
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
  EXPECT_EQ(cluster.led_by(1), 0u);
  EXPECT_EQ(cluster.held_by(1), 4u);
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
  EXPECT_EQ(cluster.held_by(1), staying);
  for (const auto& [key, record] : cluster.core.state().shards) EXPECT_THAT(record.learners, IsEmpty());
  EXPECT_THAT(drain_progress(cluster.core.context(), test_uuid(1)),
              AllOf(Not(HasSubstr("to be moved")), HasSubstr(" here: "), HasSubstr("then drop them")));
  ASSERT_TRUE(cluster.step(DropTable{"alone"}).status.ok());
  EXPECT_EQ(drain_progress(cluster.core.context(), test_uuid(1)), "");
}

TEST(ShardCounts, OfAllNodesAreThoseOfEach) {
  ReplicatedCluster cluster(5, 3, 4);
  ASSERT_TRUE(cluster.step(CreateTable{"alone", 4, false, 1}).status.ok());
  ASSERT_TRUE(cluster.step(DrainNode{test_uuid(1)}).status.ok());
  cluster.pass(kSecond);
  const ClusterState& state = cluster.core.state();
  auto counts = state.shard_counts();
  for (uint64_t n = 1; n <= 5; ++n) {
    const std::string uuid = test_uuid(n);
    EXPECT_EQ(counts[uuid],
              (ShardCounts{state.owned_shard_count(uuid), state.staying_shard_count(uuid), state.replica_count(uuid)}))
        << n;
  }
  EXPECT_GT(counts[test_uuid(1)].staying, 0u);
}

TEST(NodeLeave, IsRefusedWhileTheNodeHoldsReplicas) {
  ReplicatedCluster cluster(4, 3, 4);
  const auto refusal = cluster.step(NodeLeave{test_uuid(1), cluster.node(1).instance, false}).status;
  EXPECT_EQ(refusal.code(), StatusCode::kFailedPrecondition);
  EXPECT_THAT(message_of(refusal), HasSubstr("Drain it first"));
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
  EXPECT_THAT(message_of(status), AllOf(HasSubstr("stays where it is"), HasSubstr("--replicas 2")));
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
  const ShardRecord& record = again.core.state().shards.at({1, 0});
  EXPECT_THAT(record.learners, IsEmpty());
  EXPECT_THAT(record.leaving, IsEmpty());
  EXPECT_EQ(record.primary->node_uuid, test_uuid(owner));
}

TEST(MoveShard, RefusalsSayWhy) {
  ReplicatedCluster cluster(4);
  const std::string member = test_uuid(cluster.primary());
  const std::string outsider = test_uuid(cluster.outsider());
  const auto refused = [&](const MoveShard& move) { return message_of(cluster.step(move).status); };
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
  EXPECT_THAT(message_of(cluster.step(TransferPrimary{"t", 0, test_uuid(cluster.outsider())}).status),
              HasSubstr("no member"));
  ASSERT_TRUE(cluster.step(TransferPrimary{"t", 0, test_uuid(b)}).status.ok());
  EXPECT_EQ(cluster.primary(), b);
  EXPECT_EQ(cluster.record().epoch, 2u);
  EXPECT_EQ(cluster.members().size(), 3u);
  EXPECT_TRUE(cluster.step(TransferPrimary{"t", 0, test_uuid(b)}).changes.empty());
  const uint64_t other = cluster.backup(0);
  cluster.silence(other);
  cluster.pass(4 * kSecond);
  EXPECT_THAT(message_of(cluster.step(TransferPrimary{"t", 0, test_uuid(other)}).status), HasSubstr("not alive"));
}

TEST(ForceRecover, IsRefusedWhileAMemberLives) {
  ReplicatedCluster cluster(3);
  const auto refusal = cluster.step(ForceRecover{"t", 0, cluster.node(1).uuid}).status;
  EXPECT_EQ(refusal.code(), StatusCode::kFailedPrecondition);
  EXPECT_THAT(message_of(refusal), HasSubstr("Nothing needs to be forced"));
}

TEST(Refusals, CountOneThingAsOne) {
  TestCluster cluster;
  ASSERT_TRUE(cluster.register_node(test_node(1)).ok());
  ASSERT_TRUE(cluster.create_table("t", 1).ok());
  EXPECT_THAT(message_of(cluster.create_table("t", 2)), HasSubstr("exists with 1 shard."));
  EXPECT_THAT(message_of(cluster.step(NodeLeave{test_uuid(1), test_node(1).instance, false}).status),
              HasSubstr("owns 1 shard of t"));
  EXPECT_THAT(message_of(cluster.step(TransferPrimary{"t", 5, test_uuid(1)}).status), HasSubstr("one shard, 0"));
  EXPECT_THAT(message_of(cluster.step(CreateTable{"u", 1, false, 2}).status), HasSubstr("with 1 replica"));
}

TEST(ForceRecover, OtherMembersBecomeLearnersAgainAlsoAfterARestart) {
  ViewOptions views = eager_views();
  views.replace_after_ns = 1000 * kSecond;
  ReplicatedCluster before(2, 2, 1, views);
  const uint64_t p = before.primary();
  const uint64_t b = before.backup(0);
  before.silence(p);
  before.silence(b);
  before.pass(10 * kSecond);
  before.restart(p, true);
  before.restart(b, true);
  ASSERT_TRUE(before.step(ForceRecover{"t", 0, test_uuid(b)}).status.ok());
  EXPECT_EQ(before.record().former, std::vector{test_uuid(p)});
  ReplicatedCluster after(before, views);
  after.restart(b);
  after.restart(p);
  EXPECT_NE(find_learner(after.record(), test_uuid(p)), nullptr);
}

TEST(ForceRecover, GoesOnFromAFormerMember) {
  ReplicatedCluster cluster(3, 2);
  const uint64_t p = cluster.primary();
  const uint64_t b = cluster.backup(0);
  const uint64_t outsider = cluster.outsider();
  cluster.silence(outsider);
  cluster.pass(4 * kSecond);
  cluster.say_goodbye(b);
  ASSERT_EQ(cluster.members(), std::set{p});
  cluster.restart(p, true);
  cluster.restart(b);
  cluster.restart(outsider);
  cluster.pass(60 * kSecond);
  ASSERT_THAT(cluster.record().learners, IsEmpty()) << "its data stay as they are";
  EXPECT_THAT(message_of(cluster.step(ForceRecover{"t", 0, test_uuid(outsider)}).status), HasSubstr("neither"));
  ASSERT_TRUE(cluster.step(ForceRecover{"t", 0, test_uuid(b)}).status.ok());
  EXPECT_EQ(cluster.members(), std::set{b});
  EXPECT_EQ(cluster.record().fork, 1u);
  cluster.settle();
  cluster.let_learners_join();
  EXPECT_EQ(cluster.members(), (std::set{b, p})) << "whose data were lost learns again";
}

TEST(ForceRecover, GoesOnFromALearnerThatWasGoneForLong) {
  ReplicatedCluster cluster(3, 2);
  const uint64_t p = cluster.primary();
  const uint64_t b = cluster.backup(0);
  const uint64_t learner = cluster.outsider();
  cluster.say_goodbye(b);
  ASSERT_NE(find_learner(cluster.record(), test_uuid(learner)), nullptr);
  cluster.silence(p);
  cluster.silence(learner);
  cluster.pass(60 * kSecond);
  EXPECT_THAT(cluster.record().learners, IsEmpty()) << "so that other shards may have learners";
  EXPECT_EQ(cluster.record().former, (std::vector{test_uuid(learner), test_uuid(b)}));
  EXPECT_THAT(message_of(cluster.step(ForceRecover{"t", 0, test_uuid(learner)}).status), HasSubstr("not alive"));
  cluster.restart(learner);
  ASSERT_TRUE(cluster.step(ForceRecover{"t", 0, test_uuid(learner)}).status.ok());
  EXPECT_EQ(cluster.members(), std::set{learner});
}

TEST(NodeLeave, IsRefusedWhileTheNodeMayHaveTheOnlyCopyOfAShard) {
  ReplicatedCluster cluster(2, 2);
  const uint64_t p = cluster.primary();
  const uint64_t b = cluster.backup(0);
  cluster.say_goodbye(b);
  cluster.silence(p);
  cluster.pass(4 * kSecond);
  const auto refusal = cluster.step(NodeLeave{test_uuid(b), "", false}).status;
  EXPECT_EQ(refusal.code(), StatusCode::kFailedPrecondition);
  EXPECT_THAT(message_of(refusal),
              AllOf(HasSubstr("shard 0 of table t"), HasSubstr("skuactl shard recover"), HasSubstr("use force")));
  cluster.restart(p);
  EXPECT_TRUE(cluster.step(NodeLeave{test_uuid(b), "", false}).status.ok());
}

}  // namespace
}  // namespace skua::control
