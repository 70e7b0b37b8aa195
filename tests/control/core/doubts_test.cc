#include "control/core/doubts.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "control/core/cluster_progress.h"
#include "control/core/view_manager.h"
#include "tests/control/core/replicated_cluster.h"

namespace skua::control {
namespace {

using testing::AllOf;
using testing::HasSubstr;
using testing::Not;
using Numbers = std::set<uint64_t>;

/// A shard of three members, the primary first.
struct Doubtful : ReplicatedCluster {
  explicit Doubtful(uint64_t nodes = 3, uint32_t replicas = 3, ViewOptions views = eager_views())
      : ReplicatedCluster(nodes, replicas, 1, views) {
    for (const Replica& member : members_of(record())) m.push_back(number(member));
  }
  /// As if primaries had followed each other, of which the present one is the last.
  void reach_epoch(uint64_t epoch) {
    ClusterState later = core.state();
    later.shards.at({1, 0}).epoch = epoch;
    core.reload(later, now);
    pass(1 * kSecond);
  }
  std::string trouble() const {
    const auto troubles = shard_troubles(core.context(), 10);
    return troubles.empty() ? "" : troubles[0];
  }
  std::vector<uint64_t> m;
};

// Who leads
// ---------------------------------------------------------------------------------------------------------------

TEST(Doubts, ABackupGoesOnAsOne) {
  Doubtful cluster;
  cluster.doubt(cluster.m[1], 1, 7);
  cluster.pass(10 * kSecond);
  EXPECT_EQ(cluster.record().epoch, 1u);
  EXPECT_EQ(available_shard_count(cluster.core.context(), 1), 1u);
  EXPECT_EQ(settled_shard_count(cluster.core.context(), 1), 0u);
  EXPECT_EQ(cluster.trouble(), "");
}

TEST(Doubts, ADoubtfulMemberIsNotChosenWhenThePrimaryFails) {
  for (const size_t doubtful : {1U, 2U}) {
    Doubtful cluster;
    cluster.doubt(cluster.m[doubtful], 1, 7);
    cluster.say_goodbye(cluster.m[0]);
    EXPECT_EQ(cluster.primary(), cluster.m[3 - doubtful]);
    EXPECT_FALSE(cluster.members().contains(cluster.m[0]));
  }
}

TEST(Doubts, ADoubtfulMemberIsNotChosenWhenThePrimaryStartsAgainOrResigns) {
  for (const size_t doubtful : {1U, 2U}) {
    Doubtful cluster;
    cluster.doubt(cluster.m[doubtful], 1, 7);
    cluster.restart(cluster.m[0]);
    EXPECT_EQ(cluster.primary(), cluster.m[3 - doubtful]);
    cluster.pass(2 * kSecond);
    const uint64_t second = cluster.primary();
    cluster.accuse(second, second);
    EXPECT_EQ(cluster.primary(), cluster.m[0]);
  }
}

TEST(Doubts, ASilentPrimaryStaysAMemberWhileOnlyDoubtfulOnesMissIt) {
  Doubtful cluster;
  cluster.silence(cluster.m[0]);
  cluster.pass(4 * kSecond);
  // The other one says nothing yet: it may be doubtful as well.
  cluster.doubt(cluster.m[1], 1, 7);
  cluster.accuse(cluster.m[1], cluster.m[0]);
  EXPECT_EQ(cluster.record().epoch, 1u);
  cluster.doubt(cluster.m[2], 1, 8);
  cluster.accuse(cluster.m[2], cluster.m[0]);
  cluster.pass(2 * kSecond);
  EXPECT_EQ(cluster.record().epoch, 1u);
  EXPECT_THAT(cluster.trouble(), HasSubstr("start node " + test_uuid(cluster.m[0]) + " again"));
  // One that does not doubt takes over.
  cluster.trust(cluster.m[2]);
  cluster.pass(5 * kSecond);
  cluster.accuse(cluster.m[2], cluster.m[0]);
  EXPECT_EQ(cluster.primary(), cluster.m[2]);
  EXPECT_EQ(cluster.members(), (Numbers{cluster.m[1], cluster.m[2]}));
}

TEST(Doubts, OfAPrimaryMakeAnotherMemberLeadAtOnce) {
  Doubtful cluster;
  const Decision decision = cluster.doubt(cluster.m[0], 1, 7);
  EXPECT_EQ(cluster.record().epoch, 2u);
  EXPECT_NE(cluster.primary(), cluster.m[0]);
  EXPECT_EQ(cluster.members().size(), 3u);
  EXPECT_THAT(decision.changes.reasons, testing::ElementsAre(HasSubstr("lost power")));
  // Also if it has led for less than the time that a primary is left in peace; and never back and forth.
  const uint64_t second = cluster.primary();
  cluster.doubt(second, 1, 9);
  EXPECT_EQ(cluster.record().epoch, 3u);
  EXPECT_TRUE(cluster.primary() != second && cluster.primary() != cluster.m[0]);
  cluster.pass(20 * kSecond);
  EXPECT_EQ(cluster.record().epoch, 3u);
  EXPECT_EQ(cluster.record().fork, 0u);
}

TEST(Doubts, WhoIsAwayIsWaitedForAndLeads) {
  Doubtful cluster;
  cluster.silence(cluster.m[2]);
  cluster.pass(4 * kSecond);
  cluster.doubt(cluster.m[1], 1, 9);
  cluster.doubt(cluster.m[0], 1, 7);
  for (int i = 0; i < 20; ++i) {
    cluster.accuse(cluster.m[0], cluster.m[0]);
    cluster.accuse(cluster.m[1], cluster.m[0]);
    cluster.accuse(cluster.m[1], cluster.m[2]);  // gone, but it may have everything
    cluster.pass(500 * kMillisecond);
  }
  EXPECT_EQ(cluster.record().epoch, 1u);
  EXPECT_EQ(cluster.members().size(), 3u);
  EXPECT_EQ(cluster.record().fork, 0u);
  EXPECT_EQ(available_shard_count(cluster.core.context(), 1), 0u);
  EXPECT_THAT(cluster.trouble(),
              AllOf(HasSubstr(test_uuid(cluster.m[0])), HasSubstr(test_uuid(cluster.m[1])),
                    HasSubstr("start node " + test_uuid(cluster.m[2]) + " again"), HasSubstr("skuactl shard recover")));
  cluster.restart(cluster.m[2]);
  cluster.pass(1 * kSecond);
  EXPECT_EQ(cluster.primary(), cluster.m[2]);
  EXPECT_EQ(cluster.members().size(), 3u);
  EXPECT_EQ(cluster.record().fork, 0u);
}

TEST(Doubts, OfARestartedPrimaryBringItNoNewEpochs) {
  Doubtful cluster(2, 2);
  cluster.silence(cluster.m[1]);
  cluster.pass(4 * kSecond);
  cluster.doubt(cluster.m[0], 1, 7);
  const uint64_t epoch = cluster.record().epoch;
  cluster.restart(cluster.m[0]);
  cluster.pass(2 * kSecond);
  EXPECT_EQ(cluster.record().epoch, epoch);
}

TEST(Doubts, ABackupThatSaidGoodbyeStaysAMemberOfADoubtfulPrimary) {
  Doubtful cluster(2, 2);
  cluster.silence(cluster.m[1]);
  cluster.pass(4 * kSecond);
  cluster.doubt(cluster.m[0], 1, 7);
  cluster.say_goodbye(cluster.m[1]);
  cluster.pass(2 * kSecond);
  EXPECT_EQ(cluster.members().size(), 2u);
}

// All members
// ---------------------------------------------------------------------------------------------------------------

TEST(Doubts, OfAllMembersTheLongestLogGoesOn) {
  const std::vector<std::vector<std::pair<uint64_t, uint64_t>>> logs{
      {{3, 7}, {3, 9}, {3, 8}}, {{4, 1}, {3, 9}, {3, 8}}, {{3, 9}, {4, 2}, {4, 2}}};
  for (size_t i = 0; i < logs.size(); ++i) {
    Doubtful cluster;
    cluster.reach_epoch(4);
    std::string reason;
    for (size_t n = 0; n < 3; ++n) {
      const Decision last = cluster.doubt(cluster.m[n], logs[i][n].first, logs[i][n].second);
      EXPECT_EQ(cluster.record().fork, n < 2 ? 0u : 1u);
      if (!last.changes.reasons.empty()) reason = last.changes.reasons.back();
    }
    EXPECT_EQ(reason, "all members lost power: the longest log goes on");
    EXPECT_EQ(cluster.record().fork, 1u);
    const uint64_t longest = i == 0 ? cluster.m[1] : i == 1 ? cluster.m[0] : std::min(cluster.m[1], cluster.m[2]);
    EXPECT_EQ(cluster.members(), Numbers{longest});
    EXPECT_EQ(cluster.record().primary_incarnation, 1u);
    EXPECT_THAT(cluster.trouble(), "");
  }
}

TEST(Doubts, AForkAnswersThemAndTheOthersComeBack) {
  Doubtful cluster;
  for (size_t n = 0; n < 3; ++n) cluster.doubt(cluster.m[n], 1, n);
  ASSERT_EQ(cluster.record().fork, 1u);
  // What was said before it is still repeated for a while.
  cluster.pass(10 * kSecond);
  EXPECT_EQ(cluster.record().fork, 1u);
  EXPECT_EQ(available_shard_count(cluster.core.context(), 1), 1u);
  cluster.doubts.clear();
  cluster.let_learners_join();
  EXPECT_EQ(cluster.members().size(), 3u);
  EXPECT_EQ(settled_shard_count(cluster.core.context(), 1), 1u);
  EXPECT_EQ(cluster.primary(), cluster.m[2]);
}

TEST(Doubts, OfASoleMember) {
  ViewOptions views = eager_views();
  views.replace_after_ns = 1000 * kSecond;
  Doubtful cluster(2, 2, views);
  cluster.say_goodbye(cluster.m[1]);
  ASSERT_EQ(cluster.members(), Numbers{cluster.m[0]});
  cluster.doubt(cluster.m[0], 2, 1);
  EXPECT_EQ(cluster.record().fork, 1u);
  cluster.pass(10 * kSecond);
  EXPECT_EQ(cluster.record().fork, 1u);
  // Another loss of power in the new fork.
  cluster.doubt(cluster.m[0], 3, 1);
  EXPECT_EQ(cluster.record().fork, 2u);
  // Not faster than a replica can follow.
  cluster.doubt(cluster.m[0], 4, 1);
  EXPECT_EQ(cluster.record().fork, 2u);
}

TEST(Doubts, NoForkWhileOneIsAwayOrLostItsStorage) {
  for (const bool away : {true, false}) {
    Doubtful cluster;
    cluster.silence(cluster.m[2]);
    cluster.pass(4 * kSecond);
    if (!away) cluster.restart(cluster.m[2], true);
    ASSERT_EQ(cluster.record().fork, 0u);
    const std::vector<Replica> members = members_of(cluster.record());
    for (const Replica& member : members) cluster.doubt(ReplicatedCluster::number(member), 1, 1);
    cluster.pass(5 * kSecond);
    if (away) {
      EXPECT_EQ(cluster.record().fork, 0u);
      EXPECT_EQ(cluster.members().size(), 3u);
    } else {
      EXPECT_EQ(members.size(), 2u);  // it was removed before anybody had doubts
    }
  }
}

TEST(Doubts, NoForkWhenOneHasCaughtUpSinceItDoubted) {
  Doubtful cluster(2, 2);
  cluster.doubt(cluster.m[1], 1, 7);
  cluster.pass(2 * kSecond);
  cluster.trust(cluster.m[1]);
  cluster.pass(1 * kSecond);
  // The primary loses power before the other one's doubt is forgotten.
  cluster.doubt(cluster.m[0], 1, 9);
  EXPECT_EQ(cluster.record().epoch, 1u);
  cluster.pass(6 * kSecond);
  EXPECT_EQ(cluster.record().fork, 0u);
  EXPECT_EQ(cluster.primary(), cluster.m[1]);
}

TEST(Doubts, OfANewProcessBeginAnew) {
  Doubtful cluster(2, 2);
  cluster.doubt(cluster.m[0], 1, 7);
  ASSERT_EQ(cluster.primary(), cluster.m[1]);
  cluster.trust(cluster.m[0]);
  cluster.pass(500 * kMillisecond);
  cluster.doubt(cluster.m[1], 1, 6);  // when the other one has caught up
  cluster.trust(cluster.m[1]);
  cluster.pass(500 * kMillisecond);
  // The first one loses power again, when this one has caught up.
  cluster.restart(cluster.m[0]);
  cluster.doubt(cluster.m[0], 1, 9);
  EXPECT_EQ(cluster.record().fork, 0u);
}

TEST(Doubts, FromBeforeAForkThatAnotherControlProcessMadeForkNothing) {
  Doubtful cluster(2, 2);
  ClusterState forked_state = cluster.core.state();
  ShardRecord& record = forked_state.shards.at({1, 0});
  record = forked(record, *record.primary, 1);
  ReplicaReport late = cluster.report(cluster.m[0]);
  late.doubts.push_back({cluster.at(), 1, 7});
  cluster.core.reload(forked_state, cluster.now);
  cluster.step(late);
  cluster.settle();
  EXPECT_EQ(cluster.record().fork, 1u);
}

// What counts
// ---------------------------------------------------------------------------------------------------------------

TEST(Doubts, AreForgottenWhenTheyAreNotRepeated) {
  Doubtful cluster;
  cluster.doubt(cluster.m[1], 1, 7);
  cluster.pass(10 * kSecond);
  const auto transfer = [&] { return cluster.step(TransferPrimary{"t", 0, test_uuid(cluster.m[1])}).status; };
  EXPECT_THAT(message_of(transfer()), AllOf(HasSubstr("lost power"), HasSubstr("until it has caught up")));
  EXPECT_EQ(transfer().code(), absl::StatusCode::kFailedPrecondition);
  cluster.trust(cluster.m[1]);
  cluster.pass(2 * kSecond);
  EXPECT_FALSE(transfer().ok());
  cluster.pass(3 * kSecond);
  EXPECT_EQ(settled_shard_count(cluster.core.context(), 1), 1u);
  EXPECT_TRUE(transfer().ok());
}

TEST(Doubts, OfANodeThatIsNotHeardOfStay) {
  for (const size_t doubtful : {1U, 2U}) {
    Doubtful cluster;
    cluster.doubt(cluster.m[doubtful], 1, 7);
    cluster.silence(cluster.m[doubtful]);
    cluster.pass(60 * kSecond);
    cluster.silent.clear();
    ASSERT_TRUE(cluster.heartbeat(cluster.node(cluster.m[doubtful])).ok());  // its report comes a little later
    cluster.say_goodbye(cluster.m[0]);
    EXPECT_EQ(cluster.primary(), cluster.m[3 - doubtful]);
  }
}

TEST(Doubts, ADoubtfulMembersWordRemovesNoBackup) {
  for (const bool doubtful : {true, false}) {
    Doubtful cluster;
    cluster.silence(cluster.m[0]);
    cluster.silence(cluster.m[2]);
    cluster.pass(4 * kSecond);
    if (doubtful) cluster.doubt(cluster.m[1], 1, 9);
    cluster.accuse(cluster.m[1], cluster.m[2]);
    EXPECT_EQ(cluster.members().contains(cluster.m[2]), doubtful);
  }
}

TEST(Doubts, OfAnOlderEpochCountAndOfStrangersDoNot) {
  Doubtful cluster(4);
  cluster.doubt(cluster.m[1], 1, 7);
  ASSERT_TRUE(cluster.step(TransferPrimary{"t", 0, test_uuid(cluster.m[2])}).status.ok());
  cluster.doubt(cluster.outsider(), 1, 9);
  cluster.pass(5 * kSecond);
  EXPECT_FALSE(cluster.step(TransferPrimary{"t", 0, test_uuid(cluster.m[1])}).status.ok());
  EXPECT_EQ(cluster.record().epoch, 2u);
}

/// Nobody can have entries of an epoch that there has not been. Who claims them would always have the longest log.
TEST(Doubts, OfEpochsToComeDoNotCount) {
  Doubtful cluster;
  cluster.doubt(cluster.m[1], 1, 7);
  cluster.doubt(cluster.m[2], 1, 8);
  cluster.doubt(cluster.m[0], 2, 1);
  EXPECT_EQ(cluster.record().epoch, 1u);
  EXPECT_EQ(cluster.record().fork, 0u);
  ReplicaReport ahead = cluster.report(cluster.m[0]);
  ahead.doubts.push_back({{cluster.at().shard, 2}, 1, 1});
  cluster.step(ahead);
  cluster.settle();
  EXPECT_EQ(cluster.record().fork, 0u);
  cluster.doubt(cluster.m[0], 1, 1);
  EXPECT_EQ(cluster.record().fork, 1u);
  EXPECT_EQ(cluster.members(), Numbers{cluster.m[2]});
}

TEST(Doubts, ADoubtfulMemberCountsForNoMove) {
  Doubtful cluster;
  cluster.doubt(cluster.m[1], 1, 7);
  ASSERT_TRUE(cluster.step(DrainNode{test_uuid(cluster.m[0])}).status.ok());
  cluster.settle();
  EXPECT_EQ(cluster.primary(), cluster.m[2]);
  EXPECT_TRUE(cluster.members().contains(cluster.m[0]));
}

TEST(Doubts, AnOperatorMayGoOnWithoutWhoIsAway) {
  Doubtful cluster;
  const auto recover = [&](uint64_t n) { return cluster.step(ForceRecover{"t", 0, test_uuid(n)}).status; };
  cluster.silence(cluster.m[2]);
  cluster.pass(4 * kSecond);
  cluster.doubt(cluster.m[0], 1, 7);
  EXPECT_THAT(message_of(recover(cluster.m[0])), HasSubstr("Nothing needs to be forced"));
  cluster.doubt(cluster.m[1], 1, 6);
  EXPECT_TRUE(recover(cluster.m[0]).ok());
  EXPECT_EQ(cluster.members(), Numbers{cluster.m[0]});
  EXPECT_EQ(cluster.record().fork, 1u);
  EXPECT_THAT(cluster.trouble(), Not(HasSubstr("lost power")));
}

}  // namespace
}  // namespace skua::control
