#include "kvstore/replication/leadership.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "tests/kvstore/replication/replica_parts.h"

namespace skua::kv {
namespace {

using ::testing::ElementsAre;
using testing::find_message;
using ::testing::IsEmpty;
using testing::kBegan;
using testing::kOptions;
using testing::receivers;
using testing::StateOfOne;
using testing::view_of;

/// Replica 1 leads epoch 4 and begins to.
struct Leader {
  explicit Leader(const View& view = view_of(4, 1, {1, 2, 3})) : state(view) {
    leadership.start(out);
    state.sync_log();
  }

  /// The peer says that its log is empty, and then gets what there is.
  void report_empty(NodeId peer) { leadership.on({peer, 1}, TailReport{state.view.epoch, {}, {}, 0, 0}, kBegan, out); }
  void acknowledge(NodeId peer, const LogLevels& levels) {
    leadership.on({peer, 1}, AppendReply{state.view.epoch, levels}, kBegan, out);
  }
  void acknowledge_all(uint64_t index) {
    for (const PeerReplica& peer : state.peers) acknowledge(peer.id.node, LogLevels::all(index));
  }
  /// All peers have the barrier: entry 1.
  void open() {
    for (const PeerReplica& peer : state.peers) report_empty(peer.id.node);
    acknowledge_all(1);
    out.clear();
  }
  void propose(Durability level) {
    leadership.propose(level, kBegan, out);
    state.sync_log();
  }
  [[nodiscard]] uint64_t committed() const { return state.log.commit_index(); }

  StateOfOne state;
  Leadership leadership{state};
  ReplicaOutput out;
};

TEST(Leadership, BeginsWithABarrierAndTellsThePeersOfTheView) {
  Leader leader;
  EXPECT_TRUE(leader.out.append_barrier);
  EXPECT_EQ(leader.state.log.entries().last(), (EntryId{1, 4}));
  EXPECT_THAT(receivers<StartView>(leader.out), ElementsAre(2, 3));
  EXPECT_FALSE(leader.leadership.is_open());
}

TEST(Leadership, ThatGoesOnInTheNextEpochLogsNoOtherBarrier) {
  Leader leader;
  leader.out.clear();
  leader.leadership.start(leader.out);
  EXPECT_FALSE(leader.out.append_barrier);
  EXPECT_THAT(receivers<StartView>(leader.out), ElementsAre(2, 3));
}

TEST(Leadership, IsOpenWhenAllHaveTheBarrier) {
  Leader leader;
  leader.report_empty(2);
  leader.report_empty(3);
  ASSERT_EQ(leader.out.sends.size(), 2U) << "now their logs are known, and the barrier follows";
  EXPECT_EQ(leader.out.sends[0].first, 1U);
  EXPECT_EQ(leader.out.sends[0].last, 1U);
  leader.acknowledge(2, LogLevels::all(1));
  EXPECT_FALSE(leader.leadership.is_open());
  leader.acknowledge(3, LogLevels::all(1));
  EXPECT_TRUE(leader.leadership.is_open());
  EXPECT_EQ(leader.committed(), 1U);
}

TEST(Leadership, CommitsAnEntryWhenAllHaveItAsItsWriterAsked) {
  Leader leader;
  leader.open();
  leader.propose(Durability::kFlush);
  leader.acknowledge(2, {2, 2, 1});
  leader.acknowledge(3, {2, 1, 1});
  EXPECT_EQ(leader.committed(), 1U) << "3 has only received it";
  leader.acknowledge(3, {2, 2, 1});
  EXPECT_EQ(leader.committed(), 2U) << "nobody has synced it, and nobody asked for that";
}

TEST(Leadership, CommitsEntriesInTheirOrder) {
  Leader leader;
  leader.open();
  leader.propose(Durability::kSync);
  leader.propose(Durability::kMemory);
  leader.acknowledge(2, {3, 3, 1});
  leader.acknowledge(3, {3, 3, 1});
  EXPECT_EQ(leader.committed(), 1U) << "entry 3 is safe enough and waits for entry 2";
  leader.acknowledge_all(2);
  EXPECT_EQ(leader.committed(), 3U);
}

TEST(Leadership, CommitsNoNewEntryWithTooFewMembers) {
  View view = view_of(4, 1, {1, 2});
  view.min_insync = 3;
  Leader leader(view);
  leader.open();
  EXPECT_EQ(leader.committed(), 1U) << "the barrier, so that reads can be served";
  leader.propose(Durability::kSync);
  leader.acknowledge_all(2);
  EXPECT_EQ(leader.committed(), 1U);
}

TEST(Leadership, CommitsNothingBeforePromisesToFormerMembersHaveEnded) {
  Leader leader;
  leader.state.promises.give(9, kBegan + 100);
  leader.state.promises.give(2, kBegan + 900);
  leader.open();
  EXPECT_EQ(leader.committed(), 0U);
  EXPECT_EQ(leader.leadership.commits_at(), kBegan + 100) << "2 is a member: its acknowledgement is enough";
  leader.leadership.advance_commit(kBegan + 100);
  EXPECT_EQ(leader.committed(), 1U);
}

TEST(Leadership, DoesNotWaitForALearnerThatOnlyFollows) {
  View view = view_of(4, 1, {1, 2});
  view.learners = {{{3, 1}, 0}};
  Leader leader(view);
  leader.report_empty(2);
  leader.acknowledge(2, LogLevels::all(1));
  EXPECT_TRUE(leader.leadership.is_open());
}

TEST(Leadership, WaitsForALearnerThatJoins) {
  View view = view_of(4, 1, {1, 2});
  view.learners = {{{3, 1}, 7}};
  Leader leader(view);
  leader.report_empty(2);
  leader.acknowledge(2, LogLevels::all(1));
  EXPECT_FALSE(leader.leadership.is_open());
  leader.report_empty(3);
  leader.acknowledge(3, LogLevels::all(1));
  EXPECT_TRUE(leader.leadership.is_open());
}

TEST(Leadership, APeerThatIsTooFarBehindGetsASnapshot) {
  Leader leader;
  leader.state.log.set_first_available(2);
  leader.out.clear();
  leader.report_empty(2);
  EXPECT_THAT(receivers<SnapshotNeeded>(leader.out), ElementsAre(2));
  EXPECT_THAT(leader.out.sends, IsEmpty());
}

TEST(Leadership, AMemberThatHasLostEntriesIsReported) {
  Leader leader;
  leader.open();
  leader.report_empty(2);
  EXPECT_THAT(receivers<StartView>(leader.out), ElementsAre(2))
      << "that may have been an old report: it is asked again";
  EXPECT_THAT(leader.out.reports, IsEmpty());
  leader.report_empty(2);
  ASSERT_EQ(leader.out.reports.size(), 1U);
  EXPECT_EQ(leader.out.reports[0].kind, ReplicaReport::Kind::kSuspect);
  EXPECT_EQ(leader.out.reports[0].node, 2U);
}

TEST(Leadership, AnAppendSaysWhereItContinuesAndWhatIsCommitted) {
  Leader leader;
  leader.open();
  leader.propose(Durability::kSync);
  leader.propose(Durability::kMemory);
  const Append both = leader.leadership.make_append(2, 3);
  EXPECT_EQ(both.epoch, 4U);
  EXPECT_EQ(both.prev, (EntryId{1, 4}));
  EXPECT_THAT(both.epochs, ElementsAre(4, 4));
  EXPECT_EQ(both.commit_index, 1U);
  EXPECT_TRUE(both.acknowledge_received) << "entry 3 is safe enough then";
  EXPECT_FALSE(leader.leadership.make_append(2, 2).acknowledge_received);
  EXPECT_THAT(leader.leadership.make_append(4, 3).epochs, IsEmpty());
}

TEST(Leadership, SendsNothingToAPeerWhoseConnectionIsFull) {
  Leader leader;
  leader.open();
  leader.state.peers.find(NodeId{2})->log.refuse(2);
  leader.propose(Durability::kSync);
  ASSERT_EQ(leader.out.sends.size(), 1U);
  EXPECT_EQ(leader.out.sends[0].to, 3U);
  leader.out.clear();
  PeerReplica& refused = *leader.state.peers.find(NodeId{2});
  refused.log.end_refusal();
  leader.leadership.peer_ready(refused, kBegan, leader.out);
  ASSERT_EQ(leader.out.sends.size(), 1U);
  EXPECT_EQ(leader.out.sends[0].to, 2U);
}

TEST(Leadership, ARoundIsConfirmedWhenAllHaveAnswered) {
  Leader leader;
  leader.open();
  const uint64_t round = leader.leadership.begin_confirm(leader.out);
  EXPECT_THAT(receivers<Confirm>(leader.out), ElementsAre(2, 3));
  leader.leadership.on({2, 1}, ConfirmReply{4, round}, kBegan, leader.out);
  leader.out.clear();
  leader.leadership.heartbeat(kBegan, leader.out);
  EXPECT_THAT(receivers<Confirm>(leader.out), ElementsAre(3)) << "it is asked again";
  EXPECT_LT(leader.leadership.confirmed_round(), round);
  leader.leadership.on({3, 1}, ConfirmReply{4, round}, kBegan, leader.out);
  EXPECT_EQ(leader.leadership.confirmed_round(), round);
}

TEST(Leadership, TellsAReplicaThatItsDoubtIsOver) {
  Leader leader;
  leader.report_empty(3);
  leader.leadership.on({2, 1}, TailReport{4, {}, {}, 0, 77}, kBegan, leader.out);
  leader.acknowledge(2, {1, 1, 0});
  EXPECT_THAT(receivers<Restored>(leader.out), IsEmpty()) << "the barrier is not durable there";
  leader.acknowledge(2, LogLevels::all(1));
  ASSERT_THAT(receivers<Restored>(leader.out), ElementsAre(2));
  EXPECT_EQ(find_message<Restored>(leader.out)->doubt, 77U);
}

TEST(Leadership, ReportsWhatLearnersHaveReached) {
  View view = view_of(4, 1, {1, 2});
  view.learners = {{{3, 1}, 0}, {{4, 1}, 7}};
  Leader leader(view);
  leader.open();
  leader.leadership.watch(kBegan, leader.out);
  ASSERT_EQ(leader.out.reports.size(), 2U);
  EXPECT_EQ(leader.out.reports[0], (ReplicaReport{ReplicaReport::Kind::kCaughtUp, 4, 3, 0, {}}));
  EXPECT_EQ(leader.out.reports[1], (ReplicaReport{ReplicaReport::Kind::kJoinReady, 4, 4, 7, {}}));
}

TEST(Leadership, ThatHasEndedKeepsNothing) {
  Leader leader;
  leader.open();
  leader.propose(Durability::kSync);
  const uint64_t round = leader.leadership.begin_confirm(leader.out);
  leader.leadership.end();
  EXPECT_FALSE(leader.leadership.is_open());
  leader.acknowledge_all(2);
  leader.leadership.on({2, 1}, ConfirmReply{4, round}, kBegan, leader.out);
  leader.leadership.on({3, 1}, ConfirmReply{4, round}, kBegan, leader.out);
  EXPECT_EQ(leader.committed(), 1U);
  EXPECT_LT(leader.leadership.confirmed_round(), round);
}

TEST(Leadership, IsNothingForABackup) {
  StateOfOne state(view_of(4, 2, {1, 2, 3}));
  Leadership leadership(state);
  ReplicaOutput out;
  leadership.on({3, 1}, TailReport{4, {}, {}, 0, 0}, kBegan, out);
  leadership.on({3, 1}, AppendReply{4, LogLevels::all(9)}, kBegan, out);
  leadership.on({3, 1}, ConfirmReply{4, 1}, kBegan, out);
  EXPECT_THAT(out.messages, IsEmpty());
  EXPECT_THAT(out.sends, IsEmpty());
  EXPECT_EQ(state.peers.find(NodeId{3})->log.acked(), LogLevels{});
}

}  // namespace
}  // namespace skua::kv
