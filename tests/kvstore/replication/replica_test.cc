#include "kvstore/replication/replica.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <map>
#include <memory>
#include <set>
#include <vector>

#include "tests/kvstore/replication/replica_group.h"

namespace skua::kv {
namespace {

using testing::Group;
using testing::kOptions;
using testing::view_of;

TEST(Replica, FirstPrimaryOpensWhenAllHaveItsBarrier) {
  Group group({1, 2, 3});
  group.stuck_logs = {3};
  group.view(view_of(1, 1, {1, 2, 3}));
  EXPECT_FALSE(group[1].open());
  group.stuck_logs = {};
  group.pass(200 * kMillisecond);
  ASSERT_TRUE(group[1].open());
  EXPECT_EQ(group[1].commit_index(), 1U);
  EXPECT_TRUE(group[1].may_serve_read(group.now));
  EXPECT_FALSE(group[2].may_serve_read(group.now));
}

TEST(Replica, CommitsWhatAllMembersHave) {
  Group group({1, 2, 3});
  group.view(view_of(1, 1, {1, 2, 3}));
  group.stuck_logs = {2};
  group.propose(1);
  EXPECT_EQ(group[1].commit_index(), 1U);
  group.stuck_logs = {};
  group.pass(200 * kMillisecond);
  EXPECT_EQ(group[1].commit_index(), 2U);
  group.propose(1);
  EXPECT_EQ(group[1].commit_index(), 3U);
  group.pass(20 * kMillisecond);
  EXPECT_EQ(group[3].commit_index(), 3U);
}

TEST(Replica, ReceivedIsEnoughForWhoAsksNoMore) {
  Group group({1, 2});
  group.view(view_of(1, 1, {1, 2}));
  group.stuck_logs = {1, 2};
  group.propose(1, Durability::kMemory);
  EXPECT_EQ(group[1].commit_index(), 2U);
  group.propose(1, Durability::kSync);
  EXPECT_EQ(group[1].commit_index(), 2U);
}

TEST(Replica, WrittenIsEnoughForWhoAsksNoMore) {
  Group group({1, 2});
  group.view(view_of(1, 1, {1, 2}));
  const uint64_t before = group[1].commit_index();
  group.unsynced_logs = {1, 2};
  group.propose(1, Durability::kFlush);
  EXPECT_EQ(group[1].commit_index(), before + 1);
  group.propose(1, Durability::kSync);
  group.propose(1, Durability::kFlush);
  EXPECT_EQ(group[1].commit_index(), before + 1) << "entries are committed in order";
}

/// A backup of epoch 1 whose log lost its end with the power.
Replica::Restart in_doubt(uint64_t entries) {
  Replica::Restart restart;
  restart.view = view_of(1, 1, {1, 2});
  restart.log = EpochHistory({0, 0});
  for (uint64_t i = 0; i < entries; ++i) restart.log.append(1);
  restart.doubt = 7;
  return restart;
}

TEST(Replica, ADoubtfulReplicaLeadsNobody) {
  Group group({1});
  group.start(2, in_doubt(4));
  group.view_to(2, view_of(2, 2, {1, 2}));
  group.pass(kSecond);
  EXPECT_EQ(group[2].role(), ReplicaRole::kInactive);
  std::set<ReplicaReport::Kind> kinds;
  for (const auto& [node, report] : group.reports) {
    kinds.insert(report.kind);
    if (report.kind == ReplicaReport::Kind::kDoubtful) {
      EXPECT_EQ(report.last, (EntryId{4, 1}));
    }
  }
  EXPECT_EQ(kinds, (std::set{ReplicaReport::Kind::kNeedsEpoch, ReplicaReport::Kind::kDoubtful}));
  // Nobody has more: an operator, or the control plane, goes on with what there is.
  View fork = view_of(3, 2, {2});
  fork.fork = 1;
  group.view_to(2, fork);
  EXPECT_FALSE(group[2].is_doubtful());
  EXPECT_EQ(group[2].role(), ReplicaRole::kPrimary);
}

TEST(Replica, ADoubtEndsWhenEverythingIsBackAndSynced) {
  Group group({1, 2});
  View view = view_of(1, 1, {1, 2});
  view.read_anywhere = true;
  group.view(view);
  group.unsynced_logs = {2};
  for (int i = 0; i < 5; ++i) group.propose(1, Durability::kFlush);
  ASSERT_EQ(group[1].commit_index(), 6U);
  Replica::Restart restart = in_doubt(3);
  restart.view = view;
  group.start(2, std::move(restart));
  group.view_to(2, view);
  group.pass(kSecond);
  EXPECT_EQ(group[2].last_index(), 6U);
  EXPECT_TRUE(group[2].is_doubtful()) << "the next power cut could take it again";
  EXPECT_FALSE(group[2].may_serve_read(group.now));
  EXPECT_EQ(group[1].commit_index(), 6U);
  group.unsynced_logs.clear();
  group.propose(1);
  group.pass(kSecond);
  EXPECT_FALSE(group[2].is_doubtful());
  EXPECT_TRUE(group[2].may_serve_read(group.now));
  group.view(view_of(2, 2, {1, 2}));
  EXPECT_EQ(group[2].role(), ReplicaRole::kPrimary);
}

TEST(Replica, ADoubtIsNotEndedByTheWordForAnotherOne) {
  Group group({1});
  group.start(2, in_doubt(3));
  group.view_to(2, view_of(1, 1, {1, 2}));
  ReplicaOutput out;
  group[2].on_message({1, 1}, Restored{1, 6}, group.now, out);
  EXPECT_TRUE(group[2].is_doubtful());
  group[2].on_message({1, 1}, Restored{1, 7}, group.now, out);
  EXPECT_FALSE(group[2].is_doubtful());
  EXPECT_TRUE(out.restored);
}

TEST(Replica, ANewPrimaryWaitsForItsPromises) {
  Group group({1, 2, 3});
  group.view(view_of(1, 1, {1, 2, 3}));
  group.propose(1);
  group.pass(100 * kMillisecond);
  group.cut = {1};
  for (const NodeId node : {2U, 3U}) group.view_to(node, view_of(2, 2, {2, 3}));
  group.settle();
  EXPECT_FALSE(group[2].open());
  EXPECT_TRUE(group[1].may_serve_read(group.now));
  while (!group[2].open()) {
    group.pass(10 * kMillisecond);
    ASSERT_LT(group.now, 10 * kSecond);
    ASSERT_FALSE(group[2].open() && group[1].may_serve_read(group.now));
  }
  EXPECT_FALSE(group[1].may_serve_read(group.now));
  EXPECT_EQ(group[2].commit_index(), 3U);
}

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

TEST(Replica, LosingABackupDoesNotStopReads) {
  Group group({1, 2, 3});
  group.view(view_of(1, 1, {1, 2, 3}));
  group.pass(100 * kMillisecond);
  group.cut = {3};
  group.propose(1);
  EXPECT_EQ(group[1].commit_index(), 1U);
  group.view(view_of(2, 1, {1, 2}));
  EXPECT_TRUE(group[1].open());
  EXPECT_TRUE(group[1].may_serve_read(group.now));
  EXPECT_EQ(group[1].commit_index(), 2U);
}

TEST(Replica, BackupsReadWhileAllMembersPromise) {
  Group group({1, 2, 3});
  View view = view_of(1, 1, {1, 2, 3});
  view.read_anywhere = true;
  group.view(view);
  group.pass(200 * kMillisecond);
  for (const NodeId node : {1U, 2U, 3U}) EXPECT_TRUE(group[node].may_serve_read(group.now)) << node;
  // Cut off from one member, neither of the others reads alone for longer than the promise.
  group.cut = {3};
  group.pass(kOptions.lease.promised_ns());
  for (const NodeId node : {1U, 2U, 3U}) EXPECT_FALSE(group[node].may_serve_read(group.now)) << node;
  group.cut = {};
  group.pass(200 * kMillisecond);
  EXPECT_TRUE(group[2].may_serve_read(group.now));
}

TEST(Replica, NothingIsCommittedWithoutABackupThatMayStillRead) {
  Group group({1, 2, 3});
  View view = view_of(1, 1, {1, 2, 3});
  view.read_anywhere = true;
  group.view(view);
  group.pass(200 * kMillisecond);
  group.cut = {3};
  View without = view_of(2, 1, {1, 2});
  without.read_anywhere = true;
  for (const NodeId node : {1U, 2U}) group.view_to(node, without);
  group.settle();
  const uint64_t before = group[1].commit_index();
  group.propose(1);
  while (group[1].commit_index() == before) {
    ASSERT_LT(group.now, 10 * kSecond);
    group.pass(10 * kMillisecond);
    ASSERT_FALSE(group[1].commit_index() > before && group[3].may_serve_read(group.now));
  }
  EXPECT_TRUE(group[2].may_serve_read(group.now));
}

TEST(Replica, TooFewMembersCommitNothingNewButWhatAFormerPrimaryLeft) {
  Group group({1, 2, 3});
  View view = view_of(1, 1, {1, 2, 3});
  view.min_insync = 2;
  group.view(view);
  group.cut = {3};
  group.propose(1);
  group.pass(100 * kMillisecond);
  view = view_of(2, 1, {1});
  view.min_insync = 2;
  group.view_to(1, view);
  group.settle();
  group.pass(kSecond);
  EXPECT_FALSE(group[1].can_propose());
  EXPECT_EQ(group[1].commit_index(), 1U);
  view = view_of(3, 2, {2});
  view.min_insync = 2;
  group.cut = {1, 3};
  group.view_to(2, view);
  group.settle();
  group.pass(kSecond);
  EXPECT_TRUE(group[2].open());
  EXPECT_FALSE(group[2].can_propose());
  EXPECT_EQ(group[2].commit_index(), 3U);
}

TEST(Replica, SuspectsWhoIsSilent) {
  Group group({1, 2, 3});
  group.view(view_of(1, 1, {1, 2, 3}));
  group.pass(kSecond);
  EXPECT_TRUE(group.reports.empty());
  group.cut = {1};
  group.pass(kSecond);
  std::set<NodeId> accusers;
  for (const auto& [node, report] : group.reports) {
    EXPECT_EQ(report, (ReplicaReport{ReplicaReport::Kind::kSuspect, 1, 1, 0}));
    accusers.insert(node);
  }
  EXPECT_EQ(accusers, (std::set<NodeId>{2, 3}));
}

TEST(Replica, ALearnerJoinsWithoutAHole) {
  Group group({1, 2});
  group.view(view_of(1, 1, {1}));
  group.propose(1);
  View view = view_of(1, 1, {1});
  view.change = 2;
  view.learners = {{{2, 1}, 0}};
  group.view(view);
  group.pass(200 * kMillisecond);
  ASSERT_FALSE(group.reports.empty());
  EXPECT_EQ(group.reports.back().second, (ReplicaReport{ReplicaReport::Kind::kCaughtUp, 1, 2, 0}));
  EXPECT_EQ(group[2].last_index(), 2U);
  // Following only: nobody waits for it.
  group.stuck_logs = {2};
  group.propose(1);
  EXPECT_EQ(group[1].commit_index(), 3U);
  view.change = 3;
  view.learners = {{{2, 1}, 9}};
  group.view(view);
  group.propose(1);
  EXPECT_EQ(group[1].commit_index(), 3U);
  group.reports.clear();
  group.pass(200 * kMillisecond);
  EXPECT_TRUE(group.reports.empty());
  group.stuck_logs = {};
  group.propose(1);
  EXPECT_EQ(group[1].commit_index(), 5U);
  group.pass(200 * kMillisecond);
  ASSERT_FALSE(group.reports.empty());
  EXPECT_EQ(group.reports.back().second, (ReplicaReport{ReplicaReport::Kind::kJoinReady, 1, 2, 9}));
  group.view(view_of(2, 1, {1, 2}));
  group.propose(1);
  EXPECT_EQ(group[2].role(), ReplicaRole::kBackup);
  EXPECT_EQ(group[1].commit_index(), 6U);
}

/// A view that it must make durable first keeps it silent.
TEST(Replica, AMemberGetsTimeToAdoptTheNextEpoch) {
  for (const bool silent_before : {false, true}) {
    Group group({1, 2, 3});
    group.view(view_of(1, 1, {1, 2, 3}));
    group.pass(kSecond);
    group.cut = {2};
    if (silent_before) group.pass(200 * kMillisecond);
    ASSERT_TRUE(group.reports.empty());
    group.view(view_of(2, 1, {1, 2, 3}));
    group.pass(kSecond);
    EXPECT_EQ(group.reports.empty(), !silent_before);
    group.pass(kOptions.first_word_ns);
    EXPECT_FALSE(group.reports.empty()) << "silence all the same";
  }
}

/// Who did not run has asked nobody, and heard nobody.
TEST(Replica, BlamesNobodyForItsOwnPause) {
  for (const bool told : {false, true}) {
    Group group({1, 2, 3});
    group.view(view_of(1, 1, {1, 2, 3}));
    group.stuck_logs = {2};
    group.propose(1);
    group.pass(kSecond / 10);
    ASSERT_TRUE(group.reports.empty());
    const TimeNs before = group.now;
    group.now += 5 * kSecond;
    if (told) group[1].paused(before, group.now);
    ReplicaOutput out;
    group[1].tick(group.now, out);
    EXPECT_EQ(out.reports.empty(), told);
    group.take(1, out);
    group.settle();
    // Silence that follows is silence again.
    group.reports.clear();
    group.cut = {2};
    group.pass(kSecond / 2);
    EXPECT_FALSE(group.reports.empty());
  }
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

TEST(Replica, ConfirmRoundNeedsAllMembers) {
  Group group({1, 2, 3});
  group.view(view_of(1, 1, {1, 2, 3}));
  ReplicaOutput out;
  const uint64_t round = group[1].begin_confirm(out);
  ASSERT_EQ(out.messages.size(), 2U);
  EXPECT_LT(group[1].confirmed_round(), round);
  for (const auto& envelope : out.messages) {
    ReplicaOutput answer;
    group[envelope.to].on_message({1, 1}, envelope.message, group.now, answer);
    ASSERT_EQ(answer.messages.size(), 1U);
    ReplicaOutput ignored;
    group[1].on_message({envelope.to, 1}, answer.messages[0].message, group.now, ignored);
  }
  EXPECT_EQ(group[1].confirmed_round(), round);
}

TEST(Replica, APrimaryWhoseLogIsFullGivesUpItsEpoch) {
  Group group({1, 2});
  group.view(view_of(1, 1, {1, 2}));
  group.stuck_logs = {1};
  group.propose(1);
  ReplicaOutput out;
  group[1].log_refused_after(1, out);
  EXPECT_EQ(group[1].role(), ReplicaRole::kInactive);
  ASSERT_EQ(out.reports.size(), 1U);
  EXPECT_EQ(out.reports[0].kind, ReplicaReport::Kind::kNeedsEpoch);
  EXPECT_FALSE(out.failed);
}

TEST(Replica, ALearnerTooFarBehindFetchesASnapshot) {
  Group group({1, 2});
  group.view(view_of(1, 1, {1}));
  for (int i = 0; i < 10; ++i) group.propose(1);
  group[1].set_first_available(8);
  View view = view_of(1, 1, {1});
  view.change = 2;
  view.learners = {{{2, 1}, 0}};
  group.view(view);
  group.pass(100 * kMillisecond);
  EXPECT_EQ(group[2].last_index(), 0U);
  ReplicaOutput out;
  group[2].install_snapshot({9, 1}, group.now, out);
  for (const auto& envelope : out.messages) {
    ReplicaOutput answer;
    group[1].on_message({2, 1}, envelope.message, group.now, answer);
  }
  group.pass(100 * kMillisecond);
  EXPECT_EQ(group[2].last_index(), 11U);
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

TEST(Replica, APeerThatHasEverythingIsToldSoAgain) {
  Group group({1});
  View view = view_of(1, 1, {1});
  group.view(view);
  for (int i = 0; i < 9; ++i) group.propose(1);
  group[1].set_first_available(11);
  view.change = 2;
  view.learners = {{{2, 1}, 0}};
  group.view_to(1, view);
  EpochHistory log({0, 0});
  for (int i = 0; i < 10; ++i) log.append(1);
  ReplicaOutput lost;  // what answers the report
  group[1].on_message({2, 1}, TailReport{1, log, {10, 10, 10}, 5}, group.now, lost);
  ASSERT_EQ(lost.messages.size(), 1U);

  group.now += 50 * kMillisecond;
  ReplicaOutput out;
  group[1].on_message({2, 1}, HeartbeatReply{1, group.now, true, {5, 5, 5}}, group.now + kMillisecond, out);
  EXPECT_TRUE(out.sends.empty());
  ASSERT_EQ(out.messages.size(), 1U) << "no copy is asked for";
  const auto* told = std::get_if<Append>(&out.messages[0].message);
  ASSERT_NE(told, nullptr);
  EXPECT_EQ(told->prev.index, 10U);
  EXPECT_TRUE(told->epochs.empty());
}

TEST(Replica, AReportThatWasOvertakenEndsInAnotherOne) {
  Group group({1, 2});
  View view = view_of(1, 1, {1});
  view.learners = {{{2, 1}, 0}};
  group.view(view);
  for (int i = 0; i < 10; ++i) group.propose(1);
  ASSERT_EQ(group[2].last_index(), 11U);
  group[1].set_first_available(8);
  ReplicaOutput out;
  group[1].on_message({2, 1}, TailReport{1, EpochHistory({0, 0}), {}, 0}, group.now, out);  // of long ago
  group.take(1, out);
  group.pass(200 * kMillisecond);
  group.propose(1);
  EXPECT_EQ(group[2].last_index(), 12U) << "entries flow again, and no copy was fetched";
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

TEST(Replica, ARoundEndsWithoutAMemberThatIsNoneAnyMore) {
  Group group({1, 2, 3});
  group.view(view_of(1, 1, {1, 2, 3}));
  group.cut = {3};
  ReplicaOutput out;
  const uint64_t round = group[1].begin_confirm(out);
  group.take(1, out);
  group.pass(kSecond);
  EXPECT_LT(group[1].confirmed_round(), round);
  group.view(view_of(2, 1, {1, 2}));
  group.pass(200 * kMillisecond);
  EXPECT_EQ(group[1].confirmed_round(), round);
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

TEST(Replica, ComplainsOfAGapOnce) {
  Group group({1, 2});
  group.view(view_of(1, 1, {1, 2}));
  size_t complaints = 0;
  const auto receive = [&](TimeNs now, uint64_t prev) {
    ReplicaOutput out;
    group[2].on_message({1, 1}, Append{1, {prev, 1}, {1}, 0, false}, now, out);
    for (const auto& envelope : out.messages) {
      complaints += std::holds_alternative<TailReport>(envelope.message) ? 1 : 0;
    }
  };
  for (uint64_t prev = 10; prev < 100; ++prev) receive(group.now, prev);
  EXPECT_EQ(complaints, 1U) << "each makes the primary send all of its window";
  receive(group.now + kOptions.tail_again_ns, 10);
  EXPECT_EQ(complaints, 2U);
}

TEST(Replica, TakesNoEntriesThatNoPrimarysLogHas) {
  Group group({1, 2});
  group.view(view_of(5, 1, {1, 2}));
  const EntryId last = group[2].log().last();
  ASSERT_EQ(last, (EntryId{1, 5}));
  const auto taken = [&](const Append& append) {
    ReplicaOutput out;
    group[2].on_message({1, 1}, append, group.now, out);
    return out.accept_first != 0;
  };
  EXPECT_FALSE(taken(Append{5, last, {6}, 0, false})) << "an epoch that the primary does not know";
  EXPECT_FALSE(taken(Append{5, last, {5, 4}, 0, false})) << "epochs fall";
  EXPECT_FALSE(taken(Append{5, last, {4}, 0, false})) << "below that of the entry before";
  EXPECT_FALSE(taken(Append{5, {UINT64_MAX, 5}, {5, 5}, 0, false}));
  EXPECT_EQ(group[2].log().last(), last);
  EXPECT_TRUE(taken(Append{5, last, {5, 5}, 0, false}));
}

TEST(Replica, AnOvertakenTailIsNoLoss) {
  Group group({1, 2, 3});
  group.view(view_of(1, 1, {1, 2, 3}));
  for (int i = 0; i < 5; ++i) group.propose(1);
  const TailReport old{1, EpochHistory({0, 0}), {}, 0};
  ReplicaOutput out;
  group[1].on_message({2, 1}, old, group.now, out);
  EXPECT_TRUE(out.reports.empty());
  ASSERT_EQ(out.messages.size(), 1U);
  group.take(1, out);
  group.settle();
  EXPECT_TRUE(group.reports.empty()) << "its true tail came back";
  out.clear();
  group[1].on_message({2, 1}, old, group.now, out);
  EXPECT_TRUE(out.reports.empty());
  group[1].on_message({2, 1}, old, group.now, out);
  ASSERT_EQ(out.reports.size(), 1U) << "it means it";
  EXPECT_EQ(out.reports[0].kind, ReplicaReport::Kind::kSuspect);
}

TEST(Replica, AnOldSnapshotLeavesWhatWasAcknowledged) {
  Group group({1, 2});
  group.view(view_of(1, 1, {1, 2}));
  for (int i = 0; i < 5; ++i) group.propose(1);
  group.cut = {1};
  Replica& backup = group[2];
  const uint64_t commit = backup.commit_index();
  ASSERT_LT(commit, 6U);
  EXPECT_EQ(backup.snapshot_fit({commit, 1}), SnapshotFit::kKeepsLog);
  EXPECT_EQ(backup.snapshot_fit({commit + 1, 9}), SnapshotFit::kReplacesLog);
  EXPECT_EQ(group[1].snapshot_fit({6, 1}), SnapshotFit::kNone);
  ReplicaOutput out;
  backup.install_snapshot({5, 1}, group.now, out);
  EXPECT_EQ(backup.last_index(), 6U);
  EXPECT_EQ(backup.commit_index(), 5U);
}

TEST(Replica, WhatAFullLinkRefusedFollowsWhenThereIsRoom) {
  Group group({1, 2});
  group.view(view_of(1, 1, {1, 2}));
  group.pass(kSecond);
  const uint64_t before = group[1].commit_index();
  // The way to 2 is full from the next entry on.
  group[1].send_refused(2, before + 1);
  EXPECT_FALSE(group[1].may_send(2));
  group.propose(1);
  group.propose(1);
  EXPECT_EQ(group[1].commit_index(), before);
  EXPECT_EQ(group[2].last_index(), before);
  ReplicaOutput out;
  group[1].peer_has_room(2, group.now, out);
  ASSERT_EQ(out.sends.size(), 1U);
  EXPECT_EQ(out.sends[0].first, before + 1);
  EXPECT_EQ(out.sends[0].last, before + 2);
  group.take(1, out);
  group.settle();
  EXPECT_EQ(group[1].commit_index(), before + 2);
}

TEST(Replica, WhatAFullLinkRefusedFollowsAlsoIfNobodyTellsOfRoom) {
  Group group({1, 2});
  group.view(view_of(1, 1, {1, 2}));
  group.pass(kSecond);
  const uint64_t before = group[1].commit_index();
  group[1].send_refused(2, before + 1);
  group.propose(1);
  group.pass(kSecond);
  EXPECT_EQ(group[1].commit_index(), before + 1);
}

TEST(Replica, APeerThatCanBeReachedIsAskedForItsTailAtOnce) {
  Group group({1, 2});
  group.view(view_of(1, 1, {1, 2}));
  group.pass(kSecond);
  group.cut = {2};
  ReplicaOutput out;
  group[1].peer_failed(2, group.now, out);
  group.take(1, out);
  group.propose(1);
  group.cut = {};
  ReplicaOutput ready;
  group[1].peer_ready(2, group.now, ready);
  ASSERT_EQ(ready.messages.size(), 1U);
  group.take(1, ready);
  group.settle();
  EXPECT_EQ(group[1].commit_index(), group[1].last_index());
}

/// A link of one request: each question makes it full, and each answer makes room. Nothing else would pass.
TEST(Replica, RoomOnALinkIsNoReasonToAskAgainAndAgain) {
  Group group({1, 2});
  group.cut = {2};
  group.view(view_of(1, 1, {1, 2}));
  for (const NodeId node : {NodeId{1}, NodeId{2}}) {
    ReplicaOutput first;
    group[node].peer_has_room(3 - node, group.now, first);
    EXPECT_EQ(first.messages.size(), 1U) << "the question may not have had room";
    ReplicaOutput second;
    group[node].peer_has_room(3 - node, group.now, second);
    EXPECT_TRUE(second.messages.empty()) << "it is asked again with the next heartbeat";
  }
}

bool reported(const Group& group, NodeId by, ReplicaReport::Kind kind, NodeId node) {
  return std::any_of(group.reports.begin(), group.reports.end(), [&](const auto& report) {
    return report.first == by && report.second.kind == kind && report.second.node == node;
  });
}

TEST(Replica, APrimaryWhoseDiskHangsAsksForAnother) {
  Group group({1, 2, 3});
  group.view(view_of(1, 1, {1, 2, 3}));
  group.pass(100 * kMillisecond);
  group.stuck_logs = {1};
  group.propose(1);
  group.pass(kOptions.hung_after_ns / 2);
  EXPECT_FALSE(reported(group, 1, ReplicaReport::Kind::kNeedsEpoch, 1));
  group.pass(kOptions.hung_after_ns);
  EXPECT_TRUE(reported(group, 1, ReplicaReport::Kind::kNeedsEpoch, 1));
}

TEST(Replica, ANewPrimaryGoesOnWithoutTheOldOnesHungDisk) {
  Group group({1, 2, 3});
  group.view(view_of(1, 1, {1, 2, 3}));
  group.pass(100 * kMillisecond);
  group.stuck_logs = {1};
  group.propose(1);
  group.view(view_of(2, 2, {1, 2, 3}));
  group.pass(2 * kOptions.hung_after_ns);
  EXPECT_FALSE(group[2].open());
  EXPECT_TRUE(reported(group, 2, ReplicaReport::Kind::kSlow, 1));
  group.view_to(2, view_of(3, 2, {2, 3}));
  group.view_to(3, view_of(3, 2, {2, 3}));
  group.settle();
  group.pass(kSecond);
  EXPECT_TRUE(group[2].open());
}

TEST(Replica, ASlowDiskThatGetsOnIsNotTakenForAHungOne) {
  Group group({1, 2});
  group.view(view_of(1, 1, {1, 2}));
  group.pass(100 * kMillisecond);
  for (int i = 0; i < 10; ++i) {
    group.stuck_logs = {1};
    group.propose(1);
    group.pass(kOptions.hung_after_ns / 2);
    group.stuck_logs = {};
    group.pass(50 * kMillisecond);
  }
  EXPECT_FALSE(reported(group, 1, ReplicaReport::Kind::kNeedsEpoch, 1));
}

TEST(Replica, AMemberThatSaysItHasEverythingThereCanBeIsSentWhatFollows) {
  Group group({1, 2});
  group.view(view_of(1, 1, {1, 2}));
  group.pass(100 * kMillisecond);
  ReplicaOutput out;
  constexpr uint64_t kMost = UINT64_MAX;
  group[1].on_message({2, 1}, HeartbeatReply{1, group.now, true, {kMost, kMost, kMost}}, group.now + kMillisecond, out);
  EXPECT_TRUE(std::ranges::none_of(out.messages, [](const ReplicaOutput::Envelope& sent) {
    return std::holds_alternative<SnapshotNeeded>(sent.message);
  }));
  group.propose(1);
  EXPECT_EQ(group[2].last_index(), group[1].last_index());
}

TEST(Replica, APrimaryTellsOfNoCommitThatItsReadsDoNotShow) {
  Group group({1, 2});
  group.view(view_of(1, 1, {1, 2}));
  group.pass(100 * kMillisecond);
  const uint64_t shown = group[1].commit_index();
  group[1].set_shown(shown);
  group.propose(1);
  group.pass(200 * kMillisecond);
  ASSERT_GT(group[1].commit_index(), shown);
  EXPECT_EQ(group[2].commit_index(), shown);
  group[1].set_shown(group[1].commit_index());
  group.pass(200 * kMillisecond);
  EXPECT_EQ(group[2].commit_index(), group[1].commit_index());
}

}  // namespace
}  // namespace skua::kv
