#include "control/core/view_manager.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

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

std::string text(const absl::Status& status) {
  return std::string(status.message());
}

// The primary
// ----------------------------------------------------------------------------------------------------------

TEST(Primary, IsReplacedWhenAllOtherMembersAccuseIt) {
  ReplicatedCluster cluster(3);
  const uint64_t old = cluster.primary();
  const uint64_t a = cluster.backup(0);
  const uint64_t b = cluster.backup(1);
  cluster.accuse(a, old);
  EXPECT_EQ(cluster.record().epoch, 1u);
  cluster.accuse(b, old);
  EXPECT_EQ(cluster.record().epoch, 2u);
  EXPECT_EQ(cluster.members(), (Numbers{a, b}));
  EXPECT_EQ(cluster.record().primary_incarnation, cluster.node(cluster.primary()).incarnation);
}

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

TEST(Primary, IsReplacedWhenOneAccusesAndTheControlPlaneMissesIt) {
  ReplicatedCluster cluster(3);
  const uint64_t old = cluster.primary();
  cluster.silence(old);
  cluster.pass(2 * kSecond);
  EXPECT_EQ(cluster.record().epoch, 1u);
  cluster.accuse(cluster.backup(0), old);
  EXPECT_EQ(cluster.record().epoch, 2u);
  EXPECT_FALSE(cluster.members().contains(old));
}

TEST(Primary, SilenceTowardsTheControlPlaneAloneChangesNothing) {
  ReplicatedCluster cluster(4);
  cluster.silence(cluster.primary());
  const uint64_t revision = cluster.revision();
  cluster.pass(120 * kSecond);
  EXPECT_EQ(cluster.revision(), revision);
}

TEST(Primary, IsBelievedWhenOneAccusesAndOthersDoNot) {
  ReplicatedCluster cluster(3);
  const uint64_t old = cluster.primary();
  const uint64_t accuser = cluster.backup(0);
  cluster.accuse(accuser, old);
  EXPECT_EQ(cluster.settle(), 0);  // the others get time to agree
  cluster.pass(500 * kMillisecond);
  EXPECT_EQ(cluster.record().epoch, 2u);
  EXPECT_EQ(cluster.primary(), old);
  EXPECT_FALSE(cluster.members().contains(accuser));
}

TEST(Primary, OfTwoThatDoNotHearEachOtherOneLeaves) {
  for (const bool primary_first : {true, false}) {
    ReplicatedCluster cluster(2, 2);
    const uint64_t p = cluster.primary();
    const uint64_t b = cluster.backup(0);
    ReplicaReport of_p = cluster.report(p);
    of_p.suspicions.push_back({cluster.node(b).uuid, {cluster.at()}, "test"});
    ReplicaReport of_b = cluster.report(b);
    of_b.suspicions.push_back({cluster.node(p).uuid, {cluster.at()}, "test"});
    cluster.step(primary_first ? of_p : of_b);
    cluster.step(primary_first ? of_b : of_p);
    EXPECT_EQ(cluster.record().epoch, 2u);
    EXPECT_EQ(cluster.members(), (Numbers{primary_first ? p : b}));
  }
}

TEST(Primary, AccusationsOfAnotherEpochOrFromStrangersAreIgnored) {
  ReplicatedCluster cluster(4);
  const ShardAtEpoch wrong{{1, 0}, cluster.record().epoch + 1};
  for (const size_t i : {0U, 1U}) {
    ReplicaReport said = cluster.report(cluster.backup(i));
    said.suspicions.push_back({cluster.record().primary->node_uuid, {wrong}, "test"});
    cluster.step(said);
  }
  cluster.accuse(cluster.outsider(), cluster.primary());
  cluster.pass(2 * kSecond);
  EXPECT_EQ(cluster.record().epoch, 1u);
}

TEST(Primary, IsNotReplacedTwiceWithinTheStabilityTime) {
  ReplicatedCluster cluster(3);
  const auto all_accuse = [&] {
    const uint64_t accused = cluster.primary();
    for (const Replica& backup : std::vector<Replica>(cluster.record().backups)) {
      if (cluster.primary() == accused) cluster.accuse(ReplicatedCluster::number(backup), accused);
    }
  };
  all_accuse();
  const uint64_t second = cluster.primary();
  all_accuse();
  EXPECT_EQ(cluster.primary(), second);
  cluster.pass(1500 * kMillisecond);
  EXPECT_NE(cluster.primary(), second);
}

TEST(Primary, RestartedGivesWayToAnotherMember) {
  ReplicatedCluster cluster(3);
  const uint64_t old = cluster.primary();
  cluster.restart(old);
  EXPECT_EQ(cluster.record().epoch, 2u);
  EXPECT_NE(cluster.primary(), old);
  EXPECT_EQ(cluster.members().size(), 3u);
}

TEST(Primary, RestartedLeadsAgainInANewEpochIfItIsAlone) {
  ReplicatedCluster cluster(2, 2);
  const uint64_t p = cluster.primary();
  cluster.silence(cluster.backup(0));
  cluster.accuse(p, cluster.backup(0));
  ASSERT_EQ(cluster.members(), (Numbers{p}));
  cluster.restart(p);
  EXPECT_EQ(cluster.primary(), p);
  EXPECT_EQ(cluster.record().epoch, 3u);
  EXPECT_EQ(cluster.record().primary_incarnation, 2u);
}

TEST(Primary, ThatAccusesItselfHandsOverAndStaysAMember) {
  ReplicatedCluster cluster(3);
  const uint64_t old = cluster.primary();
  cluster.accuse(old, old);
  EXPECT_EQ(cluster.record().epoch, 2u);
  EXPECT_NE(cluster.primary(), old);
  EXPECT_EQ(cluster.members().size(), 3u);
  cluster.accuse(old, old);  // no primary any more
  EXPECT_EQ(cluster.settle(), 0);
}

TEST(Primary, ThatIsAloneAndAccusesItselfGetsANewEpoch) {
  ReplicatedCluster cluster(1, 1);
  cluster.accuse(1, 1);
  EXPECT_EQ(cluster.record().epoch, 1u);  // a plain shard has no view to lead
  ReplicatedCluster pair(2, 2);
  pair.silence(pair.backup(0));
  pair.accuse(pair.primary(), pair.backup(0));
  pair.accuse(pair.primary(), pair.primary());
  EXPECT_EQ(pair.record().epoch, 3u);
  EXPECT_EQ(pair.members().size(), 1u);
}

TEST(Primary, ThatStopsHandsOverAtOnce) {
  ReplicatedCluster cluster(3);
  const uint64_t old = cluster.primary();
  const NodeInfo& node = cluster.node(old);
  cluster.silence(old);
  cluster.step(NodeHeartbeat{node.uuid, node.incarnation, node.instance, 0, true});
  cluster.settle();
  EXPECT_FALSE(cluster.members().contains(old));
  EXPECT_EQ(cluster.record().epoch, 2u);
}

TEST(Primary, AllMembersDeadKeepsTheViewUntilOneReturns) {
  ReplicatedCluster cluster(3);
  const uint64_t p = cluster.primary();
  const uint64_t b = cluster.backup(0);
  for (uint64_t n = 1; n <= 3; ++n) cluster.silence(n);
  cluster.pass(60 * kSecond);
  EXPECT_EQ(cluster.record().epoch, 1u);
  cluster.restart(b);
  cluster.accuse(b, p);
  EXPECT_EQ(cluster.primary(), b);
  EXPECT_EQ(cluster.record().epoch, 2u);
}

TEST(Primary, LosingANodeWithManyShardsTakesFewChanges) {
  ReplicatedCluster cluster(3, 3, 300);
  std::vector<ReplicaReport> reports;
  size_t led = 0;
  for (uint64_t n : {2u, 3u}) {
    ReplicaReport said = cluster.report(n);
    said.suspicions.push_back({cluster.node(1).uuid, {}, "test"});
    for (uint32_t shard = 0; shard < 300; ++shard) said.suspicions[0].shards.push_back(cluster.at(shard));
    reports.push_back(said);
    led = cluster.core.state().owned_shard_count(cluster.node(1).uuid);
  }
  cluster.silence(1);
  cluster.now += 2 * kSecond;
  const uint64_t before = cluster.revision();
  for (const ReplicaReport& said : reports) cluster.step(said);
  cluster.settle();
  EXPECT_EQ(led, 100u);
  EXPECT_LE(cluster.revision() - before, 2u + 300 / 64 + 1);
  EXPECT_EQ(cluster.core.state().replica_count(cluster.node(1).uuid), 0u);
  // Those that led go on evenly.
  EXPECT_EQ(cluster.core.state().owned_shard_count(cluster.node(2).uuid), 150u);
}

// Backups
// ----------------------------------------------------------------------------------------------------------------

TEST(Backup, IsRemovedWhenThePrimaryAsks) {
  ReplicatedCluster cluster(3);
  const uint64_t b = cluster.backup(0);
  cluster.accuse(cluster.primary(), b);
  EXPECT_FALSE(cluster.members().contains(b));
  EXPECT_EQ(cluster.record().epoch, 2u);
}

TEST(Backup, AnotherBackupsWordCountsOnlyOnceItIsGone) {
  ReplicatedCluster cluster(3);
  const uint64_t a = cluster.backup(0);
  const uint64_t b = cluster.backup(1);
  cluster.accuse(a, b);
  cluster.pass(2 * kSecond);
  EXPECT_TRUE(cluster.members().contains(b));
  cluster.silence(b);
  cluster.pass(4 * kSecond);
  cluster.accuse(a, b);
  EXPECT_FALSE(cluster.members().contains(b));
}

TEST(Backup, TheSecondHasTimeToSpeakBeforeAPrimaryThatHearsNobodyIsAlone) {
  for (const bool second_speaks : {true, false}) {
    ReplicatedCluster cluster(3);
    const uint64_t p = cluster.primary();
    const uint64_t a = cluster.backup(0);
    const uint64_t b = cluster.backup(1);
    cluster.accuse(p, a);
    // In the new epoch b waits for the primary's first word, 2 s and then 0.3 s; and then its report has to come.
    for (int i = 0; i < 10; ++i) {
      cluster.accuse(p, b);
      cluster.pass(460 * kMillisecond);
    }
    EXPECT_EQ(cluster.members(), (Numbers{p, b}));
    if (second_speaks) {
      cluster.accuse(b, p);
      EXPECT_EQ(cluster.members(), Numbers{b});
    } else {
      for (int i = 0; i < 3; ++i) {
        cluster.accuse(p, b);
        cluster.pass(460 * kMillisecond);
      }
      EXPECT_EQ(cluster.members(), Numbers{p});
    }
  }
}

TEST(Backup, ThatAnswersAgainStaysAlthoughItsRemovalWasDue) {
  for (const bool answers_again : {true, false}) {
    ReplicatedCluster cluster(3);
    const uint64_t p = cluster.primary();
    const uint64_t a = cluster.backup(0);
    const uint64_t b = cluster.backup(1);
    cluster.accuse(p, a);
    cluster.pass(4 * kSecond);
    cluster.accuse(p, b);  // too soon after the other one
    EXPECT_TRUE(cluster.members().contains(b));
    if (answers_again) cluster.step(cluster.report(p));
    cluster.pass(2 * kSecond);
    EXPECT_EQ(cluster.members().contains(b), answers_again);
  }
}

TEST(Backup, OnlyOneHealthyMemberIsEjectedAtATime) {
  ReplicatedCluster cluster(3);
  const uint64_t p = cluster.primary();
  const uint64_t a = cluster.backup(0);
  const uint64_t b = cluster.backup(1);
  cluster.accuse(p, a);
  cluster.accuse(p, b);
  EXPECT_EQ(cluster.members(), (Numbers{p, b}));
  // A primary that hears nobody meets the other's word before it can eject it.
  cluster.accuse(b, p);
  cluster.pass(1500 * kMillisecond);
  EXPECT_TRUE(cluster.members().contains(b) || cluster.members().contains(p));
  EXPECT_GE(cluster.members().size(), 1u);
}

TEST(Backup, NotTooManyHealthyNodesAreEjectedAtOnce) {
  ViewOptions views = eager_views();
  views.rejoin_ns = 3600 * kSecond;
  views.ejected_min = 1;
  views.ejected_one_in = 100;
  ReplicatedCluster cluster(3, 3, 2, views);
  ASSERT_NE(cluster.primary(0), cluster.primary(1));
  const uint64_t p0 = cluster.primary(0);
  const uint64_t p1 = cluster.primary(1);
  cluster.accuse(p0, p1, 0);
  EXPECT_EQ(cluster.members(0).size(), 2u);
  cluster.accuse(p1, p0, 1);
  EXPECT_EQ(cluster.members(1).size(), 3u);  // another node: over the cap
}

TEST(Backup, ComesBackAsALearnerWhenItMayAndWaitsLongerEachTime) {
  ReplicatedCluster cluster(3);
  const uint64_t p = cluster.primary();
  const uint64_t b = cluster.backup(0);
  cluster.accuse(p, b);
  EXPECT_THAT(cluster.record().learners, IsEmpty());
  cluster.pass(1 * kSecond);
  ASSERT_EQ(cluster.record().learners.size(), 1u);
  cluster.let_learners_join();
  ASSERT_TRUE(cluster.members().contains(b));
  cluster.accuse(p, b);
  ASSERT_FALSE(cluster.members().contains(b));
  cluster.pass(1 * kSecond);
  EXPECT_THAT(cluster.record().learners, IsEmpty());
  cluster.pass(1 * kSecond);
  EXPECT_EQ(cluster.record().learners.size(), 1u);
}

TEST(Backup, ComesBackAtOnceWhereWritesCannotGoOnWithoutIt) {
  ViewOptions views = eager_views();
  views.rejoin_ns = views.rejoin_max_ns = 3600 * kSecond;
  ReplicatedCluster cluster(3, 3, 1, views);
  const uint64_t p = cluster.primary();
  const uint64_t slow = cluster.backup(0);
  const uint64_t dead = cluster.backup(1);
  cluster.accuse(p, slow);
  cluster.pass(1 * kSecond);
  ASSERT_EQ(cluster.members(), (Numbers{p, dead}));
  EXPECT_THAT(cluster.record().learners, IsEmpty()) << "writes go on with two members, and it may be slow again";
  cluster.silence(dead);
  cluster.pass(2 * kSecond);
  cluster.accuse(p, dead);
  cluster.settle();
  EXPECT_EQ(cluster.members(), Numbers{p});
  ASSERT_EQ(cluster.record().learners.size(), 1u);
  cluster.let_learners_join();
  EXPECT_EQ(cluster.members(), (Numbers{p, slow}));
}

// Lost storage
// ----------------------------------------------------------------------------------------------------------------

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
  EXPECT_THAT(text(status), HasSubstr("old copy"));
}

TEST(ForceRecover, IsRefusedWhileAMemberLives) {
  ReplicatedCluster cluster(3);
  const auto refusal = cluster.step(ForceRecover{"t", 0, cluster.node(1).uuid}).status;
  EXPECT_EQ(refusal.code(), StatusCode::kFailedPrecondition);
  EXPECT_THAT(text(refusal), HasSubstr("Nothing needs to be forced"));
}

// Learners
// ---------------------------------------------------------------------------------------------------------------

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
