#include "control/core/accusations.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <set>
#include <vector>

#include "tests/control/core/replicated_cluster.h"

namespace skua::control {
namespace {

using testing::IsEmpty;
using Numbers = std::set<uint64_t>;

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

TEST(Backup, IsRemovedWhenThePrimaryAsks) {
  ReplicatedCluster cluster(3);
  const uint64_t b = cluster.backup(0);
  cluster.accuse(cluster.primary(), b);
  EXPECT_FALSE(cluster.members().contains(b));
  EXPECT_EQ(cluster.record().epoch, 2u);
}

/// The removal was stored without an answer to the control process, which loaded the state anew.
TEST(Backup, ThatWasEjectedWaitsBeforeItComesBackAlsoIfNobodyKnewThatItsRemovalWasStored) {
  ReplicatedCluster cluster(3);
  const uint64_t b = cluster.backup(0);
  ReplicaReport said = cluster.report(cluster.primary());
  said.suspicions.push_back({cluster.node(b).uuid, {cluster.at()}, "test"});
  ClusterState stored = cluster.core.state();
  apply(cluster.core.step(said, cluster.now).changes, stored);
  cluster.core.reload(stored, cluster.now);
  ASSERT_FALSE(cluster.members().contains(b));
  cluster.settle();
  EXPECT_THAT(cluster.record().learners, IsEmpty());
  cluster.pass(2 * kSecond);
  EXPECT_NE(find_learner(cluster.record(), test_uuid(b)), nullptr);
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

}  // namespace
}  // namespace skua::control
