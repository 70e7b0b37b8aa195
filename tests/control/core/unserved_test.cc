// Nodes that are alive and cannot open the data of a shard.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "control/core/cluster_limits.h"
#include "control/core/cluster_progress.h"
#include "tests/control/core/replicated_cluster.h"

namespace skua::control {
namespace {

using absl::StatusCode;
using testing::AllOf;
using testing::ElementsAre;
using testing::HasSubstr;
using testing::IsEmpty;
using testing::Not;
using testing::SizeIs;

absl::Status cannot_open(ReplicatedCluster& cluster, uint64_t n, std::vector<ShardRef> shards) {
  const NodeInfo& node = cluster.node(n);
  NodeHeartbeat heartbeat{node.uuid, node.incarnation, node.instance, cluster.revision(), false};
  heartbeat.trouble = "the disk is full";
  heartbeat.unserved = std::move(shards);
  const absl::Status status = cluster.step(heartbeat).status;
  cluster.settle();
  return status;
}

std::vector<std::string> troubles(const ReplicatedCluster& cluster) {
  return shard_troubles(cluster.core.context(), 16);
}

TEST(Unserved, OnlyReplicaMakesTheShardUnavailableAndSaysWhy) {
  ReplicatedCluster cluster(1, 1, 3);
  EXPECT_EQ(available_shard_count(cluster.core.context(), 1), 3u);
  ASSERT_TRUE(cannot_open(cluster, 1, {{{1, 1}, "its MANIFEST is damaged"}}).ok());
  EXPECT_EQ(available_shard_count(cluster.core.context(), 1), 2u);
  EXPECT_EQ(settled_shard_count(cluster.core.context(), 1), 2u);
  EXPECT_THAT(troubles(cluster),
              ElementsAre(AllOf(HasSubstr("shard 1 of table t is not served"), HasSubstr(test_uuid(1)),
                                HasSubstr("cannot open its data"), HasSubstr("its MANIFEST is damaged"))));
  EXPECT_THAT(lagging_owners(cluster.core.context(), 1, cluster.revision()), ElementsAre(test_uuid(1)));
  // The next heartbeat takes it back.
  ASSERT_TRUE(cannot_open(cluster, 1, {}).ok());
  EXPECT_EQ(available_shard_count(cluster.core.context(), 1), 3u);
  EXPECT_THAT(troubles(cluster), IsEmpty());
  EXPECT_THAT(lagging_owners(cluster.core.context(), 1, cluster.revision()), IsEmpty());
}

TEST(Unserved, WithoutAReasonTheNodesTroubleIsTold) {
  ReplicatedCluster cluster(1, 1, 1);
  ASSERT_TRUE(cannot_open(cluster, 1, {{{1, 0}, ""}}).ok());
  EXPECT_THAT(troubles(cluster), ElementsAre(HasSubstr("cannot open its data: the disk is full")));
}

TEST(Unserved, PrimaryIsReplacedByAMemberThatServes) {
  ReplicatedCluster cluster(3);
  const uint64_t primary = cluster.primary();
  ASSERT_TRUE(cannot_open(cluster, primary, {{{1, 0}, "damaged"}}).ok());
  EXPECT_NE(cluster.primary(), primary);
  EXPECT_THAT(cluster.members(), SizeIs(3)) << "who removes it is the primary that misses it";
  EXPECT_EQ(available_shard_count(cluster.core.context(), 1), 1u);
  EXPECT_EQ(settled_shard_count(cluster.core.context(), 1), 0u);
  EXPECT_THAT(troubles(cluster), IsEmpty());
}

TEST(Unserved, NoMemberThatServesLeavesTheShardAsItIs) {
  ReplicatedCluster cluster(2, 2);
  const uint64_t primary = cluster.primary();
  const uint64_t backup = cluster.backup(0);
  ASSERT_TRUE(cannot_open(cluster, backup, {{{1, 0}, "damaged there"}}).ok());
  EXPECT_EQ(available_shard_count(cluster.core.context(), 1), 1u);
  EXPECT_EQ(settled_shard_count(cluster.core.context(), 1), 0u);
  const uint64_t epoch = cluster.record().epoch;
  ASSERT_TRUE(cannot_open(cluster, primary, {{{1, 0}, "damaged here"}}).ok());
  EXPECT_EQ(cluster.record().epoch, epoch);
  EXPECT_EQ(available_shard_count(cluster.core.context(), 1), 0u);
  EXPECT_THAT(troubles(cluster), ElementsAre(HasSubstr("damaged here")));
  EXPECT_EQ(cluster.step(TransferPrimary{"t", 0, test_uuid(backup)}).status.code(), StatusCode::kFailedPrecondition);
  // The first that can open its data again leads.
  ASSERT_TRUE(cannot_open(cluster, backup, {}).ok());
  EXPECT_EQ(cluster.primary(), backup);
  EXPECT_EQ(available_shard_count(cluster.core.context(), 1), 1u);
}

TEST(Unserved, MembersThatDoNotRunAreNamed) {
  ReplicatedCluster cluster(2, 2);
  const uint64_t backup = cluster.backup(0);
  cluster.silence(backup);
  cluster.now += 10 * kSecond;
  ASSERT_TRUE(cannot_open(cluster, cluster.primary(), {{{1, 0}, "damaged"}}).ok());
  EXPECT_THAT(troubles(cluster),
              ElementsAre(AllOf(HasSubstr("damaged"), HasSubstr("start node " + test_uuid(backup)))));
}

TEST(Unserved, MemberIsAwaitedByOthersThatLostPower) {
  ReplicatedCluster cluster(2, 2);
  const uint64_t primary = cluster.primary();
  const uint64_t backup = cluster.backup(0);
  ASSERT_TRUE(cannot_open(cluster, backup, {{{1, 0}, "damaged"}}).ok());
  cluster.doubt(primary, 1, 7);
  cluster.settle();
  EXPECT_EQ(cluster.primary(), primary);
  const auto awaited = AllOf(HasSubstr("start node " + test_uuid(backup) + " (when it can open its data) again"),
                             Not(HasSubstr("in a moment")));
  EXPECT_THAT(troubles(cluster), ElementsAre(awaited));
  // Also if it has the longest of logs that all may lack something.
  cluster.doubt(backup, 1, 9);
  cluster.doubt(primary, 1, 7);
  cluster.settle();
  EXPECT_EQ(cluster.record().fork, 0u);
  EXPECT_THAT(troubles(cluster), ElementsAre(awaited));
  ASSERT_TRUE(cannot_open(cluster, backup, {}).ok());
  EXPECT_EQ(cluster.primary(), backup);
  EXPECT_NE(cluster.record().fork, 0u);
}

TEST(Unserved, ShardIsNotRecoveredFromWhatCannotBeOpened) {
  ReplicatedCluster cluster(1, 1, 1);
  ASSERT_TRUE(cannot_open(cluster, 1, {{{1, 0}, "damaged"}}).ok());
  const absl::Status status = cluster.step(ForceRecover{"t", 0, test_uuid(1)}).status;
  EXPECT_EQ(status.code(), StatusCode::kFailedPrecondition);
  EXPECT_THAT(std::string(status.message()), HasSubstr("cannot open"));
}

TEST(Unserved, WhatANodeHasNoPartInIsNotKept) {
  ReplicatedCluster cluster(2, 1, 2);
  std::vector<ShardRef> said;
  for (uint32_t i = 0; i < 1000; ++i) said.push_back({{i, i}, std::string(2 * kUnservedWhyMax, 'x')});
  for (uint32_t i = 0; i < 2; ++i) said.push_back({{1, i}, std::string(2 * kUnservedWhyMax, 'x')});
  ASSERT_TRUE(cannot_open(cluster, 1, std::move(said)).ok());
  const auto status = cluster.core.node_status(test_uuid(1));
  ASSERT_TRUE(status.has_value());
  ASSERT_THAT(status->unserved, SizeIs(1));
  EXPECT_THAT(status->unserved.begin()->second, SizeIs(kUnservedWhyMax));
  EXPECT_EQ(available_shard_count(cluster.core.context(), 1), 1u);
}

TEST(Unserved, ANewProcessStartsWithoutThem) {
  ReplicatedCluster cluster(1, 1, 1);
  ASSERT_TRUE(cannot_open(cluster, 1, {{{1, 0}, "damaged"}}).ok());
  cluster.restart(1);
  EXPECT_THAT(troubles(cluster), Not(testing::Contains(HasSubstr("damaged"))));
}

TEST(Unserved, LearnerDoesNotJoin) {
  ReplicatedCluster cluster(3, 2);
  const uint64_t learner = cluster.outsider();
  ASSERT_TRUE(cluster.step(MoveShard{"t", 0, test_uuid(cluster.backup(0)), test_uuid(learner)}).status.ok());
  ASSERT_TRUE(cannot_open(cluster, learner, {{{1, 0}, "no room"}}).ok());
  cluster.caught_up(learner);
  cluster.settle();
  ASSERT_THAT(cluster.record().learners, SizeIs(1));
  EXPECT_EQ(cluster.record().learners[0].join, 0u);
  ASSERT_TRUE(cannot_open(cluster, learner, {}).ok());
  cluster.let_learners_join();
  EXPECT_TRUE(cluster.members().contains(learner));
}

}  // namespace
}  // namespace skua::control
