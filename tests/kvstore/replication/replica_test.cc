// Replicas of one shard, joined by hand: messages arrive in order at once unless a node is cut off, logs are durable when
// the test says so.
#include "kvstore/replication/replica.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <deque>
#include <map>
#include <memory>
#include <set>
#include <vector>

namespace skua::kv {
namespace {

constexpr ReplicaOptions kOptions{};

class Group {
 public:
  explicit Group(std::vector<NodeId> nodes) {
    for (const NodeId node : nodes) start(node, {});
  }

  void start(NodeId node, Replica::Restart restart) {
    replicas_[node] = std::make_unique<Replica>(kOptions, ReplicaId{node, 1}, std::move(restart), now);
  }

  Replica& operator[](NodeId node) { return *replicas_.at(node); }

  void view(View view) {
    for (auto& [node, replica] : replicas_) view_to(node, view);
    settle();
  }
  void view_to(NodeId node, const View& view) {
    ReplicaOutput out;
    replicas_.at(node)->on_view(view, now, out);
    take(node, out);
  }
  void propose(NodeId node, AckLevel level = AckLevel::kDurable) {
    ReplicaOutput out;
    replicas_.at(node)->propose(level, now, out);
    take(node, out);
    settle();
  }
  void pass(DurationNs time) {
    for (const TimeNs end = now + time; now < end;) {
      now += 10 * kMillisecond;
      for (auto& [node, replica] : replicas_) {
        ReplicaOutput out;
        if (!cut.contains(node)) replica->tick(now, out);
        take(node, out);
      }
      settle();
    }
  }

  void settle() {
    while (!queue_.empty()) {
      auto [from, envelope] = std::move(queue_.front());
      queue_.pop_front();
      if (cut.contains(from) || cut.contains(envelope.to) || !replicas_.contains(envelope.to)) continue;
      ReplicaOutput out;
      replicas_.at(envelope.to)->on_message(from, envelope.message, now, out);
      take(envelope.to, out);
    }
  }

  /// Does what a replica asks for.
  void take(NodeId node, ReplicaOutput& out) {
    Replica& replica = *replicas_.at(node);
    for (const auto& envelope : out.messages) queue_.emplace_back(node, envelope);
    for (const auto& send : out.sends) {
      queue_.emplace_back(node, ReplicaOutput::Envelope{send.to, replica.make_append(send.first, send.last)});
    }
    for (const auto& report : out.reports) reports.emplace_back(node, report);
    if (out.persist_view) {
      ReplicaOutput next;
      replica.view_persisted(out.persist_view->epoch, now, next);
      take(node, next);
    }
    if (!stuck_logs.contains(node) && replica.role() != ReplicaRole::kInactive) {
      const uint64_t last = replica.last_index();
      if (durable_[node] != last || out.truncate_after) {
        durable_[node] = last;
        if (!unsynced_logs.contains(node)) synced_[node] = last;
        ReplicaOutput next;
        replica.log_progress({last, last, std::min(synced_[node], last)}, now, next);
        take(node, next);
      }
    }
  }

  TimeNs now = kSecond;
  std::set<NodeId> cut;
  std::set<NodeId> stuck_logs;
  std::set<NodeId> unsynced_logs;  // write and do not sync
  std::vector<std::pair<NodeId, ReplicaReport>> reports;

 private:
  std::map<NodeId, std::unique_ptr<Replica>> replicas_;
  std::map<NodeId, uint64_t> durable_;  // or written: told, anyhow
  std::map<NodeId, uint64_t> synced_;
  std::deque<std::pair<NodeId, ReplicaOutput::Envelope>> queue_;
};

View view_of(uint64_t epoch, NodeId primary, std::vector<NodeId> members) {
  View view;
  view.epoch = view.change = epoch;
  view.primary = primary;
  for (const NodeId node : members) view.members.push_back({node, 1});
  return view;
}

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
  group.propose(1, AckLevel::kReceived);
  EXPECT_EQ(group[1].commit_index(), 2U);
  group.propose(1, AckLevel::kDurable);
  EXPECT_EQ(group[1].commit_index(), 2U);
}

TEST(Replica, WrittenIsEnoughForWhoAsksNoMore) {
  Group group({1, 2});
  group.view(view_of(1, 1, {1, 2}));
  const uint64_t before = group[1].commit_index();
  group.unsynced_logs = {1, 2};
  group.propose(1, AckLevel::kWritten);
  EXPECT_EQ(group[1].commit_index(), before + 1);
  group.propose(1, AckLevel::kDurable);
  group.propose(1, AckLevel::kWritten);
  EXPECT_EQ(group[1].commit_index(), before + 1) << "entries are committed in order";
}

/// A backup of epoch 1 whose log lost its end with the power.
Replica::Restart in_doubt(uint64_t entries) {
  Replica::Restart restart;
  restart.view = view_of(1, 1, {1, 2});
  restart.log = EpochRuns({0, 0});
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
  for (int i = 0; i < 5; ++i) group.propose(1, AckLevel::kWritten);
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
  group[2].on_message(1, Restored{1, 6}, group.now, out);
  EXPECT_TRUE(group[2].is_doubtful());
  group[2].on_message(1, Restored{1, 7}, group.now, out);
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
  const EpochRuns log = group[1].log();
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
    group[envelope.to].on_message(1, envelope.message, group.now, answer);
    ASSERT_EQ(answer.messages.size(), 1U);
    ReplicaOutput ignored;
    group[1].on_message(envelope.to, answer.messages[0].message, group.now, ignored);
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
    group[1].on_message(2, envelope.message, group.now, answer);
  }
  group.pass(100 * kMillisecond);
  EXPECT_EQ(group[2].last_index(), 11U);
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
  EpochRuns log({0, 0});
  for (int i = 0; i < 10; ++i) log.append(1);
  ReplicaOutput lost;  // what answers the report
  group[1].on_message(2, TailReport{1, log, {10, 10, 10}, 5}, group.now, lost);
  ASSERT_EQ(lost.messages.size(), 1U);

  group.now += 50 * kMillisecond;
  ReplicaOutput out;
  group[1].on_message(2, HeartbeatReply{1, group.now, true, {5, 5, 5}}, group.now + kMillisecond, out);
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
  group[1].on_message(2, TailReport{1, EpochRuns({0, 0}), {}, 0}, group.now, out);  // of long ago
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

TEST(Replica, ComplainsOfAGapOnce) {
  Group group({1, 2});
  group.view(view_of(1, 1, {1, 2}));
  size_t complaints = 0;
  const auto receive = [&](TimeNs now, uint64_t prev) {
    ReplicaOutput out;
    group[2].on_message(1, Append{1, {prev, 1}, {1}, 0, false}, now, out);
    for (const auto& envelope : out.messages) {
      complaints += std::holds_alternative<TailReport>(envelope.message) ? 1 : 0;
    }
  };
  for (uint64_t prev = 10; prev < 100; ++prev) receive(group.now, prev);
  EXPECT_EQ(complaints, 1U) << "each makes the primary send all of its window";
  receive(group.now + kOptions.tail_again_ns, 10);
  EXPECT_EQ(complaints, 2U);
}

TEST(Replica, AnOvertakenTailIsNoLoss) {
  Group group({1, 2, 3});
  group.view(view_of(1, 1, {1, 2, 3}));
  for (int i = 0; i < 5; ++i) group.propose(1);
  const TailReport old{1, EpochRuns({0, 0}), {}, 0};
  ReplicaOutput out;
  group[1].on_message(2, old, group.now, out);
  EXPECT_TRUE(out.reports.empty());
  ASSERT_EQ(out.messages.size(), 1U);
  group.take(1, out);
  group.settle();
  EXPECT_TRUE(group.reports.empty()) << "its true tail came back";
  out.clear();
  group[1].on_message(2, old, group.now, out);
  EXPECT_TRUE(out.reports.empty());
  group[1].on_message(2, old, group.now, out);
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
  group[1].peer_ready(2, group.now, out);
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
