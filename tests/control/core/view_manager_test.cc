#include "control/core/view_manager.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <optional>
#include <set>
#include <vector>

#include "control/core/cluster_progress.h"
#include "control/core/shard_map.h"
#include "control/core/uuid.h"
#include "tests/control/core/replicated_cluster.h"

namespace skua::control {
namespace {

using absl::StatusCode;
using testing::HasSubstr;
using testing::IsEmpty;
using Numbers = std::set<uint64_t>;

TEST(Reasons, NameWhoSuspectsWhomAndWhy) {
  ReplicatedCluster cluster(3);
  const uint64_t a = cluster.backup(0);
  const uint64_t primary = cluster.primary();
  const Decision removed = cluster.accuse(primary, a);
  ASSERT_EQ(removed.changes.put_shards.size(), 1u);
  const std::string reason = short_uuid(test_uuid(a)) + " is suspected by " + short_uuid(test_uuid(primary)) + ": test";
  EXPECT_THAT(removed.changes.reasons, testing::ElementsAre(reason));
}

TEST(Reasons, OfTheControlPlanesOwn) {
  ReplicatedCluster cluster(4);
  const auto next = [&](const Event& event) {
    Decision decision = cluster.step(event);
    while (decision.changes.reasons.empty()) decision = cluster.step(Tick{});
    EXPECT_EQ(decision.changes.reasons.size(), decision.changes.put_shards.size());
    return decision.changes.reasons.at(0);
  };
  EXPECT_EQ(next(TransferPrimary{"t", 0, cluster.node(cluster.backup(0)).uuid}), "operator");
  cluster.pass(10 * kSecond);
  const std::string primary = cluster.node(cluster.primary()).uuid;
  EXPECT_EQ(next(DrainNode{primary}), short_uuid(primary) + " is drained");
  EXPECT_EQ(next(Tick{}), "repair: a replica is missing");
}

// --- Nodes that stop soon

Decision yield(ReplicatedCluster& cluster, uint64_t n, bool yielding = true) {
  NodeHeartbeat heartbeat{cluster.node(n).uuid, cluster.node(n).incarnation, cluster.node(n).instance};
  heartbeat.applied_revision = cluster.revision();
  heartbeat.yielding = yielding;
  return cluster.step(heartbeat);
}

/// What the node is told.
YieldProgress progress(const ReplicatedCluster& cluster, uint64_t n) {
  return yield_progress(cluster.core.context(), test_uuid(n));
}

TEST(Yielding, AnotherMemberLeadsEachShardAndNothingElseChanges) {
  ReplicatedCluster cluster(4, 3, 8);
  const uint64_t p = cluster.primary();
  const size_t led = cluster.led_by(p);
  const size_t held = cluster.held_by(p);
  ASSERT_GT(led, 0u);
  yield(cluster, p);
  EXPECT_EQ(progress(cluster, p).left, led);
  const Decision handed = cluster.step(Tick{});
  EXPECT_EQ(handed.changes.reasons.at(0), "its primary " + short_uuid(test_uuid(p)) + " stops soon");
  cluster.settle();
  EXPECT_EQ(cluster.led_by(p), 0u);
  EXPECT_EQ(cluster.held_by(p), held);
  EXPECT_EQ(progress(cluster, p).left, 0u);
}

TEST(Yielding, IsDoneWhenWhoLeadsNowHasHeardOfIt) {
  ReplicatedCluster cluster(2, 2);
  const uint64_t p = cluster.primary();
  const uint64_t b = cluster.backup(0);
  yield(cluster, p);
  cluster.settle();
  ASSERT_EQ(cluster.primary(), b);
  EXPECT_TRUE(progress(cluster, p).lags);
  yield(cluster, p);
  EXPECT_TRUE(progress(cluster, p).lags);
  EXPECT_TRUE(cluster.heartbeat(cluster.node(b), cluster.revision()).ok());
  EXPECT_FALSE(progress(cluster, p).lags);
}

TEST(Yielding, ShardsThatNobodyElseCanLeadStay) {
  ReplicatedCluster single(2, 1);
  yield(single, single.primary());
  EXPECT_EQ(progress(single, single.primary()).left, 0u);
  EXPECT_EQ(single.settle(), 0);

  ReplicatedCluster silent(2, 2);
  const uint64_t p = silent.primary();
  silent.silence(silent.backup(0));
  silent.pass(10 * kSecond);
  yield(silent, p);
  EXPECT_EQ(progress(silent, p).left, 0u);
  silent.settle();
  EXPECT_EQ(silent.primary(), p);
}

/// A late heartbeat is no reason to stop with shards that another node could have led a moment later.
TEST(Yielding, WaitsForAMemberThatIsLateWithAHeartbeat) {
  ReplicatedCluster late(2, 2);
  const uint64_t p = late.primary();
  const uint64_t b = late.backup(0);
  late.silence(b);
  late.pass(2 * kSecond);  // longer than fresh_ns, less than suspect_after_ns
  yield(late, p);
  ASSERT_FALSE(late.core.context().heard(test_uuid(b)));
  EXPECT_EQ(progress(late, p).left, 1u);
  late.settle();
  EXPECT_EQ(late.primary(), p) << "one that was not heard of is not given the lead";
  late.silent.clear();
  EXPECT_TRUE(late.heartbeat(late.node(b), late.revision()).ok());
  late.settle();
  EXPECT_EQ(late.primary(), b);
}

TEST(Yielding, NodesThatStopTogetherGiveNothingToEachOther) {
  ReplicatedCluster cluster(3, 3, 6);
  const uint64_t last = cluster.primary();
  for (const uint64_t n : {1u, 2u, 3u}) {
    if (n != last) yield(cluster, n);
  }
  cluster.settle();
  EXPECT_EQ(cluster.led_by(last), 6u);
  yield(cluster, last);
  EXPECT_EQ(progress(cluster, last).left, 0u);
  EXPECT_EQ(cluster.settle(), 0);
}

TEST(Yielding, ANodeThatIsDrainedIsNotGivenTheLeadForItWouldGiveItBack) {
  ReplicatedCluster cluster(2, 2);
  const uint64_t p = cluster.primary();
  cluster.step(DrainNode{test_uuid(cluster.backup(0))});
  yield(cluster, p);
  EXPECT_EQ(progress(cluster, p).left, 0u);
  cluster.settle();
  EXPECT_EQ(cluster.primary(), p);
}

TEST(Yielding, EndsWithTheProcessOrWhenItIsTakenBack) {
  ReplicatedCluster cluster(2, 2);
  const uint64_t p = cluster.primary();
  yield(cluster, p);
  EXPECT_TRUE(cluster.core.context().yielding(test_uuid(p)));
  yield(cluster, p, false);
  EXPECT_FALSE(cluster.core.context().yielding(test_uuid(p)));
  yield(cluster, p);
  cluster.restart(p);
  EXPECT_FALSE(cluster.core.context().yielding(test_uuid(p)));
}

/// Balance would give the lead to the node that leads the least, and it would go to and fro.
TEST(Yielding, BalanceGivesItNothing) {
  ReplicatedCluster cluster(2, 2, 4);
  const uint64_t p = cluster.primary();
  for (int i = 0; i < 200; ++i) {
    yield(cluster, p);
    cluster.now += 300 * kMillisecond;
    EXPECT_TRUE(cluster.heartbeat(cluster.node(3 - p), cluster.revision()).ok());
    cluster.settle();
    yield(cluster, p);
    ASSERT_EQ(cluster.led_by(p), 0u);
  }
}

TEST(LostStorage, AMemberIsNoMemberAnyMoreAndLearns) {
  ReplicatedCluster cluster(3);
  const uint64_t b = cluster.backup(0);
  cluster.restart(b, true);
  EXPECT_FALSE(cluster.members().contains(b));
  ASSERT_EQ(cluster.record().learners.size(), 1u);
  EXPECT_EQ(cluster.record().learners[0].replica.storage_incarnation, 1u);
  cluster.let_learners_join();
  EXPECT_EQ(cluster.members().size(), 3u);
}

TEST(LostStorage, APrimaryIsReplacedAndRemoved) {
  ReplicatedCluster cluster(3);
  const uint64_t p = cluster.primary();
  cluster.restart(p, true);
  EXPECT_NE(cluster.primary(), p);
  EXPECT_FALSE(cluster.members().contains(p));
  EXPECT_EQ(cluster.record().fork, 0u);
}

TEST(StoppedBackup, IsRemovedOnlyIfThePrimaryOutlivedIt) {
  ReplicatedCluster cluster(2, 2);
  const uint64_t p = cluster.primary();
  const uint64_t b = cluster.backup(0);
  cluster.silence(p);
  cluster.pass(2 * kSecond);
  cluster.say_goodbye(b);
  EXPECT_EQ(cluster.members(), (Numbers{p, b})) << "the primary is late, and may be dead";
  ReplicatedCluster dead = cluster;
  dead.pass(60 * kSecond);
  EXPECT_EQ(dead.members(), (Numbers{p, b}));
  cluster.silent.erase(test_uuid(p));
  cluster.pass(500 * kMillisecond);
  EXPECT_EQ(cluster.members(), Numbers{p});
}

TEST(LostStorage, OfAllMembersWaitsForAnOperator) {
  ReplicatedCluster cluster(2, 2);
  const uint64_t p = cluster.primary();
  const uint64_t b = cluster.backup(0);
  cluster.silence(p);
  cluster.silence(b);
  cluster.pass(10 * kSecond);
  cluster.restart(p, true);
  cluster.restart(b, true);
  cluster.pass(10 * kSecond);
  EXPECT_EQ(cluster.record().epoch, 1u);
  EXPECT_EQ(available_shard_count(cluster.core.context(), 1), 0u);
  ASSERT_EQ(shard_troubles(cluster.core.context(), 10).size(), 1u);
  EXPECT_THAT(shard_troubles(cluster.core.context(), 10)[0], HasSubstr("every member lost its storage"));

  EXPECT_TRUE(cluster.step(ForceRecover{"t", 0, cluster.node(b).uuid}).status.ok());
  EXPECT_EQ(cluster.primary(), b);
  EXPECT_EQ(cluster.record().fork, 1u);
  EXPECT_EQ(cluster.record().epoch, 2u);
  cluster.let_learners_join();
  EXPECT_EQ(cluster.members(), (Numbers{p, b}));
}

TEST(LostStorage, WithoutReplicasTheOwnerGoesOnInAFork) {
  ReplicatedCluster cluster(1, 1);
  cluster.restart(1);
  EXPECT_EQ(cluster.record().epoch, 1u);
  cluster.restart(1, true);
  EXPECT_EQ(cluster.record().epoch, 2u);
  EXPECT_EQ(cluster.record().fork, 1u);
  EXPECT_EQ(cluster.record().primary->storage_incarnation, 1u);
}

TEST(LostStorage, OlderStorageIsRefused) {
  ReplicatedCluster cluster(1, 1);
  cluster.restart(1, true);
  NodeInfo old = cluster.node(1);
  old.incarnation += 1;
  old.storage_incarnation = 0;
  const absl::Status status = cluster.register_node(old);
  EXPECT_EQ(status.code(), StatusCode::kFailedPrecondition);
  EXPECT_THAT(message_of(status), HasSubstr("old copy"));
}

/// A shard of three with one member gone and node 4 learning.
class Learning : public testing::Test {
 protected:
  Learning() : cluster(4) {
    lost = cluster.backup(0);
    cluster.silence(lost);
    cluster.pass(2 * kSecond);
    cluster.accuse(cluster.primary(), lost);
    cluster.settle();
    EXPECT_EQ(cluster.record().learners.size(), 1u);
  }
  const Learner& learner() { return cluster.record().learners.at(0); }

  ReplicatedCluster cluster;
  uint64_t lost = 0;
};

TEST_F(Learning, JoinsInThreeStepsAndOneEpoch) {
  const uint64_t epoch = cluster.record().epoch;
  const uint64_t change = cluster.record().change;
  EXPECT_EQ(ReplicatedCluster::number(learner().replica), 4u);
  EXPECT_EQ(learner().join, 0u);
  cluster.caught_up(4);
  EXPECT_EQ(learner().join, 1u);
  EXPECT_EQ(cluster.record().epoch, epoch);
  EXPECT_EQ(cluster.record().change, change + 1);
  cluster.join_ready(4, 1);
  EXPECT_TRUE(cluster.members().contains(4));
  EXPECT_EQ(cluster.record().epoch, epoch + 1);
  EXPECT_THAT(cluster.record().learners, IsEmpty());
}

TEST_F(Learning, AbandonedAttemptsNeverCount) {
  cluster.caught_up(4);
  cluster.accuse(cluster.primary(), 4);
  EXPECT_EQ(learner().join, 0u);
  cluster.pass(2 * kSecond);
  cluster.caught_up(4);
  ASSERT_EQ(learner().join, 2u);
  cluster.join_ready(4, 1);
  EXPECT_FALSE(cluster.members().contains(4));
  cluster.join_ready(4, 2);
  EXPECT_TRUE(cluster.members().contains(4));
}

TEST_F(Learning, WhoDoesNotSayAgainThatItHasCaughtUpIsNotWaitedFor) {
  cluster.caught_up(4);
  ASSERT_EQ(learner().join, 1u);
  cluster.pass(60 * kSecond);
  EXPECT_EQ(learner().join, 0u);
  EXPECT_EQ(cluster.record().next_join, 2u) << "no other attempt";
  cluster.caught_up(4);
  EXPECT_EQ(learner().join, 2u);
}

TEST_F(Learning, OnlyThePrimarysWordOfThisEpochMakesAMember) {
  cluster.caught_up(4);
  for (const uint64_t liar : {cluster.backup(0), uint64_t{4}}) {
    ReplicaReport said = cluster.report(liar);
    said.join_ready.push_back({cluster.at(), cluster.node(4).uuid, 1});
    cluster.step(said);
  }
  ReplicaReport stale = cluster.report(cluster.primary());
  stale.join_ready.push_back({{{1, 0}, cluster.record().epoch - 1}, cluster.node(4).uuid, 1});
  cluster.step(stale);
  EXPECT_FALSE(cluster.members().contains(4));
}

TEST_F(Learning, ANewEpochEndsTheAttempt) {
  cluster.caught_up(4);
  ASSERT_EQ(learner().join, 1u);
  cluster.restart(cluster.primary());
  EXPECT_EQ(learner().join, 0u);
  cluster.caught_up(4);
  EXPECT_EQ(learner().join, 2u);
}

TEST_F(Learning, AnAttemptThatLastsTooLongEnds) {
  cluster.caught_up(4);
  cluster.pass(9 * kSecond);
  EXPECT_EQ(learner().join, 1u);
  cluster.pass(2 * kSecond);
  EXPECT_EQ(learner().join, 0u);
}

TEST_F(Learning, ALearnerThatStopsIsReleasedAtOnceAndReplaced) {
  cluster.caught_up(4);
  const NodeInfo node = cluster.node(4);
  cluster.silence(4);
  cluster.step(NodeHeartbeat{node.uuid, node.incarnation, node.instance, 0, true});
  cluster.settle();
  EXPECT_EQ(learner().join, 0u);
  cluster.pass(1 * kSecond);
  EXPECT_THAT(cluster.record().learners, IsEmpty());
}

TEST(Learner, IsWaitedForByAShardThatLostAMemberForAWhile) {
  ViewOptions views = eager_views();
  views.replace_after_ns = 30 * kSecond;
  ReplicatedCluster cluster(4, 3, 1, views);
  const uint64_t lost = cluster.backup(0);
  cluster.silence(lost);
  cluster.pass(2 * kSecond);
  cluster.accuse(cluster.primary(), lost);
  cluster.pass(25 * kSecond);
  EXPECT_THAT(cluster.record().learners, IsEmpty());
  cluster.restart(lost);  // returns in time: no copy of everything
  ASSERT_EQ(cluster.record().learners.size(), 1u);
  EXPECT_EQ(ReplicatedCluster::number(cluster.record().learners[0].replica), lost);
}

/// All nodes have stopped, `last` as the last one, and the control plane was started again: no node is there yet.
class Returning : public testing::Test {
 protected:
  Returning() {
    views.replace_after_ns = 30 * kSecond;
    ReplicatedCluster before(4, 3, 1, views);
    last = before.primary();
    first = before.backup(0);
    second = before.backup(1);
    outsider = before.outsider();
    for (const uint64_t n : {first, second, last, outsider}) before.say_goodbye(n);
    EXPECT_EQ(before.members(), Numbers{last}) << "the view stays when the last one stops";
    cluster.emplace(before, views);
  }
  const ShardRecord& record() { return cluster->record(); }
  bool learns(uint64_t n) { return find_learner(record(), test_uuid(n)) != nullptr; }

  ViewOptions views = eager_views();
  std::optional<ReplicatedCluster> cluster;
  uint64_t last = 0;
  uint64_t first = 0;
  uint64_t second = 0;
  uint64_t outsider = 0;
};

TEST_F(Returning, FormerMembersLearnAtOnceAndNobodyElseGetsACopy) {
  for (const uint64_t n : {outsider, first, last, second}) cluster->restart(n);
  EXPECT_TRUE(learns(first));
  EXPECT_TRUE(learns(second));
  EXPECT_FALSE(learns(outsider));
  EXPECT_EQ(cluster->members(), Numbers{last}) << "who learns does not count";
  cluster->let_learners_join();
  EXPECT_EQ(cluster->members(), (Numbers{first, second, last}));
  EXPECT_THAT(record().former, IsEmpty());
}

TEST_F(Returning, NothingHappensBeforeThePrimaryIsThere) {
  for (const uint64_t n : {first, second, outsider}) cluster->restart(n);
  cluster->pass(60 * kSecond);
  EXPECT_EQ(cluster->members(), Numbers{last});
  EXPECT_THAT(record().learners, IsEmpty());
  cluster->restart(last);
  EXPECT_TRUE(learns(first));
  EXPECT_TRUE(learns(second));
}

TEST_F(Returning, WhoStaysAwayIsReplacedAfterAWhileAndForgottenWhenAllMembersAreThere) {
  cluster->restart(last);
  cluster->restart(outsider);
  cluster->pass(25 * kSecond);
  EXPECT_THAT(record().learners, IsEmpty());
  cluster->pass(10 * kSecond);
  EXPECT_TRUE(learns(outsider));
  cluster->let_learners_join();
  EXPECT_EQ(cluster->members(), (Numbers{last, outsider}));
  EXPECT_EQ(record().former, (std::vector{test_uuid(first), test_uuid(second)})) << "one is still missing";
  cluster->restart(first);
  EXPECT_TRUE(learns(first));
  cluster->let_learners_join();
  EXPECT_EQ(cluster->members(), (Numbers{last, outsider, first}));
  EXPECT_THAT(record().former, IsEmpty());
  // The second one has old data. When the shard loses another member, that one is waited for.
  cluster->restart(second);
  cluster->say_goodbye(outsider);
  EXPECT_THAT(record().learners, IsEmpty());
}

TEST_F(Returning, WhoLostItsStorageLearnsAtOnceAsWell) {
  cluster->restart(last);
  cluster->restart(first, true);
  ASSERT_TRUE(learns(first));
  EXPECT_EQ(record().learners[0].replica.storage_incarnation, 1u);
}

TEST_F(Returning, WhoIsDrainedDoesNotComeBackAndWhoIsRemovedIsForgotten) {
  cluster->restart(last);
  ASSERT_TRUE(cluster->step(DrainNode{test_uuid(first)}).status.ok());
  cluster->pass(4 * kSecond);  // then the others count as silent
  ASSERT_TRUE(cluster->step(NodeLeave{test_uuid(second), "", true}).status.ok());
  cluster->restart(first);
  EXPECT_THAT(record().learners, IsEmpty());
  ASSERT_TRUE(cluster->step(UndrainNode{test_uuid(first)}).status.ok());
  cluster->settle();
  EXPECT_TRUE(learns(first));
  EXPECT_EQ(record().former, std::vector{test_uuid(first)}) << "no node of that name is left";
}

TEST(FormerMember, IsNotWhoWasReplacedOnPurpose) {
  ReplicatedCluster cluster(4);
  const uint64_t drained = cluster.backup(0);
  cluster.step(DrainNode{test_uuid(drained)});
  cluster.pass(1 * kSecond);
  cluster.let_learners_join();
  EXPECT_FALSE(cluster.members().contains(drained));
  EXPECT_THAT(cluster.record().former, IsEmpty());
}

TEST(Learner, NumbersAreBounded) {
  ViewOptions views = eager_views();
  views.learners_per_node_max = 2;
  ReplicatedCluster cluster(4, 3, 12, views);
  cluster.silence(1);
  cluster.pass(4 * kSecond);
  for (uint64_t n : {2u, 3u, 4u}) {
    for (uint32_t shard = 0; shard < 12; ++shard) cluster.accuse(n, 1, shard);
  }
  cluster.settle();
  for (uint64_t n : {2u, 3u, 4u}) {
    size_t learners = 0;
    for (uint32_t shard = 0; shard < 12; ++shard) {
      if (find_learner(cluster.record(shard), cluster.node(n).uuid) != nullptr) ++learners;
    }
    EXPECT_LE(learners, 2u);
  }
  cluster.let_learners_join();
  for (uint32_t shard = 0; shard < 12; ++shard) EXPECT_EQ(cluster.members(shard).size(), 3u);
}

TEST(Map, ShowsMembersLearnersAndTheOrderOfRecords) {
  ReplicatedCluster cluster(4);
  cluster.accuse(cluster.primary(), cluster.backup(0));
  cluster.pass(2 * kSecond);
  const ShardMap map = build_shard_map(cluster.core.state());
  ASSERT_TRUE(map.valid());
  const MapTable& table = *map.find_table("t");
  EXPECT_EQ(table.replicas, 3u);
  EXPECT_EQ(table.min_insync, 2u);
  EXPECT_EQ(table.shards[0].backups.size(), 1u);
  EXPECT_EQ(table.shards[0].learners.size(), 1u);
  EXPECT_EQ(table.shards[0].change, cluster.record().change);
  EXPECT_EQ(table.shards[0].primary_incarnation, 1u);
}

}  // namespace
}  // namespace skua::control
