// Views and epochs: new primaries, restarts, and whose word about a view counts.
#include <gtest/gtest.h>

#include "kvstore/replication/messages.h"
#include "kvstore/replication/replica.h"
#include "tests/kvstore/replication/replica_group.h"

namespace skua::kv {
namespace {

using testing::Group;
using testing::view_of;

TEST(Replica, TheOldPrimarysSuffixIsDropped) {
  Group group({1, 2, 3});
  group.view(view_of(1, 1, {1, 2, 3}));
  group.cut = {1};
  group.propose(1);
  group.propose(1);
  EXPECT_EQ(group[1].last_index(), 3U);
  group.view(view_of(2, 2, {1, 2, 3}));
  group.pass(kSecond);
  EXPECT_FALSE(group[2].open()) << "it needs the member that is cut off";
  group.cut = {};
  group.pass(kSecond);
  ASSERT_TRUE(group[2].open());
  EXPECT_EQ(group[1].role(), ReplicaRole::kBackup);
  EXPECT_EQ(group[1].last_index(), 2U);
  EXPECT_EQ(group[1].log().last(), (EntryId{2, 2}));
  EXPECT_EQ(group[1].commit_index(), 2U);
}

/// Each of many primaries logged its barrier and committed nothing.
TEST(Replica, ALogOfManyEpochsIsReportedAllTheSame) {
  constexpr uint64_t kEpochs = EpochHistory::kRunsMax + 10;
  const auto restart = [](uint64_t entries) {
    Replica::Restart made;
    made.view = view_of(kEpochs, 3, {1, 2, 3});
    made.log = EpochHistory({0, 0});
    for (uint64_t epoch = 1; epoch <= entries; ++epoch) made.log.append(epoch);
    return made;
  };
  Group group({});
  group.start(1, restart(kEpochs));
  group.start(2, restart(kEpochs - 2));
  View view = view_of(kEpochs + 1, 1, {1, 2});
  group.view(view);
  group.pass(kSecond);
  EXPECT_TRUE(group[1].open());
  EXPECT_EQ(group[2].commit_index(), kEpochs + 1);
}

TEST(Replica, ARestartedPrimaryNeedsANewEpoch) {
  Group group({1, 2});
  group.view(view_of(1, 1, {1, 2}));
  group.propose(1);
  const EpochHistory log = group[1].log();
  group.start(1, {.view = view_of(1, 1, {1, 2}), .log = log, .commit_index = 0});
  group.view(view_of(1, 1, {1, 2}));
  group.pass(kSecond);
  EXPECT_EQ(group[1].role(), ReplicaRole::kInactive);
  ASSERT_FALSE(group.reports.empty());
  EXPECT_EQ(group.reports.back().second.kind, ReplicaReport::Kind::kSuspect);
  group.view(view_of(2, 1, {1, 2}));
  EXPECT_TRUE(group[1].open());
  EXPECT_EQ(group[1].commit_index(), 3U);
}

TEST(Replica, ARestartedBackupKnowsItsPeers) {
  Group group({1, 2});
  group.view(view_of(1, 1, {1, 2}));
  group.propose(1);
  group.start(2, {.view = view_of(1, 1, {1, 2}), .log = group[2].log(), .commit_index = 1});
  group.view_to(2, view_of(1, 1, {1, 2}));
  group.pass(kSecond);
  EXPECT_EQ(group[2].role(), ReplicaRole::kBackup);
  EXPECT_TRUE(group[1].may_serve_read(group.now)) << "it answers heartbeats";
  group.propose(1);
  EXPECT_EQ(group[1].commit_index(), 3U);
}

/// A restarted replica goes on in its last view when the control plane says so, whatever a peer says.
TEST(Replica, ItsLastViewStandsWhenTheControlPlaneSaysSo) {
  Group group({1, 2});
  const View view = view_of(1, 1, {1, 2});
  group.view(view);
  group.start(2, {.view = view, .log = group[1].log(), .commit_index = 1, .doubt = 0});
  ReplicaOutput out;
  group[2].on_message({1, 1}, StartView{view}, group.now, out);
  EXPECT_TRUE(out.messages.empty());
  group.view_to(2, view);
  group.settle();
  group.pass(200 * kMillisecond);
  group.propose(1);
  EXPECT_EQ(group[1].commit_index(), 2U);
}

TEST(Replica, SaysAndLogsNothingInAnEpochThatIsNotDurable) {
  Group group({1, 2, 3});
  group.view(view_of(1, 1, {1, 2, 3}));
  ReplicaOutput out;
  group[1].on_view(view_of(2, 1, {1, 2}), group.now, out);
  EXPECT_TRUE(group[1].open());
  EXPECT_FALSE(group[1].can_propose());
  const uint64_t round = group[1].begin_confirm(out);
  group[1].tick(group.now + kSecond, out);
  EXPECT_TRUE(out.messages.empty());
  out.clear();
  group[1].view_persisted(2, group.now, out);
  group.take(1, out);
  group.view(view_of(2, 1, {1, 2}));
  group.pass(200 * kMillisecond);
  EXPECT_TRUE(group[1].can_propose());
  EXPECT_EQ(group[1].confirmed_round(), round);
}

TEST(Replica, TakesNoViewFromAPeer) {
  const View view = view_of(1, 1, {1, 2, 3});
  View other_learner = view;
  ++other_learner.change;
  other_learner.learners.push_back({{4, 1}, 0});
  for (const NodeId node : {NodeId{1}, NodeId{2}}) {
    Group group({1, 2, 3});
    group.view(view);
    for (const View& forged : {view_of(UINT64_MAX, 0, {}), view_of(7, 3, {3}), other_learner}) {
      for (const ReplicaMessage& message : {ReplicaMessage(StaleEpoch{forged}), ReplicaMessage(StartView{forged})}) {
        ReplicaOutput out;
        group[node].on_message({3, 1}, message, group.now, out);
        EXPECT_TRUE(out.fetch_view);
        EXPECT_FALSE(out.persist_view);
        EXPECT_TRUE(out.messages.empty()) << "it is not passed on either";
        EXPECT_EQ(group[node].view(), view);
      }
    }
    group.propose(1);
    group.pass(200 * kMillisecond);
    EXPECT_EQ(group[1].commit_index(), 2U);
  }
}

/// Group::pass() checks that a replica is not due at once again.
TEST(Replica, APrimaryThatWasRemovedHasNobodyToTellOfItsLastCommit) {
  Group group({1, 2, 3});
  group.view(view_of(1, 1, {1, 2, 3}));
  group.pass(kSecond);
  group.propose(1);
  EXPECT_EQ(group[1].commit_index(), 2U);
  group.view(view_of(2, 2, {2, 3}));
  ASSERT_EQ(group[1].role(), ReplicaRole::kInactive);
  group.pass(kSecond);
  EXPECT_TRUE(group[2].open());
}

TEST(Replica, TooFewMembersForANewEntryAreNotAReasonToLookAgain) {
  Group group({1, 2});
  View view = view_of(1, 1, {1, 2});
  view.min_insync = 2;
  group.view(view);
  group.pass(kSecond);
  group.cut = {2};
  group.propose(1);
  view = view_of(2, 1, {1});
  view.min_insync = 2;
  group.view(view);
  group.pass(kSecond);
  EXPECT_EQ(group[1].commit_index(), 1U) << "all members have the entry, and they are too few";
}

/// Round 1 of the second leadership has the number that round 1 of the first one had, which nobody confirmed.
TEST(Replica, AnAnswerToAFormerLeadershipsRoundDoesNotCount) {
  Group group({1, 2, 3});
  group.view(view_of(1, 1, {1, 2, 3}));
  group.pass(kSecond);
  group.cut = {3};
  ReplicaOutput out;
  const uint64_t first = group[1].begin_confirm(out);
  group.take(1, out);
  group.settle();  // 2 answers, 3 does not
  EXPECT_LT(group[1].confirmed_round(), first);
  group.view(view_of(2, 2, {1, 2, 3}));
  group.cut = {};
  group.pass(kSecond);
  group.view(view_of(3, 1, {1, 2, 3}));
  group.pass(kSecond);
  ASSERT_TRUE(group[1].open());
  group.cut = {2};
  out.clear();
  const uint64_t again = group[1].begin_confirm(out);
  EXPECT_EQ(again, first);
  group.take(1, out);
  group.settle();
  EXPECT_LT(group[1].confirmed_round(), again) << "2 has not answered in this leadership";
}

}  // namespace
}  // namespace skua::kv
