#include "kvstore/replication/peer_replicas.h"

#include <gtest/gtest.h>

#include <vector>

#include "tests/kvstore/replication/replica_group.h"

namespace skua::kv {
namespace {

using testing::view_of;

constexpr TimeNs kNow = 10 * kSecond;

/// Members 1 (this replica), 2 and 3; 4 only follows; 5 is joining.
View five() {
  View view = view_of(1, 1, {1, 2, 3});
  view.learners = {{{4, 1}, 0}, {{5, 1}, 9}};
  return view;
}

PeerReplicas peers_of(const View& view) {
  PeerReplicas peers;
  peers.match(view, 1, {.commit_index = 6, .now = kNow, .first_word_ns = 100});
  return peers;
}

TEST(PeerReplicas, AreThoseOfTheViewInTheOrderOfTheirNodes) {
  View view = view_of(1, 1, {1, 3, 5});
  view.learners = {{{2, 1}, 0}, {{4, 1}, 9}};
  PeerReplicas peers = peers_of(view);
  std::vector<NodeId> nodes;
  for (const PeerReplica& peer : peers) nodes.push_back(peer.id.node);
  EXPECT_EQ(nodes, (std::vector<NodeId>{2, 3, 4, 5}));
  EXPECT_TRUE(peers.find(NodeId{3})->is_required());
  EXPECT_FALSE(peers.find(NodeId{2})->is_required()) << "it only follows";
  EXPECT_TRUE(peers.find(NodeId{4})->is_required()) << "it is joining";
  EXPECT_EQ(peers.find(NodeId{4})->join_goal, 6U);
  EXPECT_EQ(peers.find(NodeId{1}), nullptr);
  EXPECT_TRUE(peers.is_anybody_joining());
  view.learners.pop_back();
  EXPECT_FALSE(peers_of(view).is_anybody_joining());
}

TEST(PeerReplicas, ANodeWithOtherStorageIsAnotherReplica) {
  PeerReplicas peers = peers_of(five());
  EXPECT_NE(peers.find(ReplicaId{2, 1}), nullptr);
  EXPECT_EQ(peers.find(ReplicaId{2, 2}), nullptr);
  peers.find(NodeId{2})->log.acknowledge(LogLevels::all(7));
  View view = five();
  view.members[1].incarnation = 2;
  peers.match(view, 1, {.keep = true, .now = kNow});
  EXPECT_EQ(peers.find(NodeId{2})->log.acked(), LogLevels{});
}

TEST(PeerReplicas, AcknowledgementsCountInOneLeadership) {
  PeerReplicas peers = peers_of(five());
  PeerReplica& peer = *peers.find(NodeId{2});
  peer.log.acknowledge(LogLevels::all(7));
  peer.heard_ns = kNow + 5;
  peers.match(five(), 1, {.keep = true, .now = kNow + 9, .first_word_ns = 100});
  EXPECT_EQ(peers.find(NodeId{2})->log.acked(), LogLevels::all(7));
  EXPECT_EQ(peers.find(NodeId{2})->heard_ns, kNow + 5);
  peers.match(five(), 1, {.keep = false, .now = kNow + 9, .first_word_ns = 100});
  EXPECT_EQ(peers.find(NodeId{2})->log.acked(), LogLevels{});
  EXPECT_EQ(peers.find(NodeId{2})->heard_ns, kNow + 109) << "it gets time for its first word";
}

TEST(PeerReplicas, SilenceAsALearnerDoesNotCount) {
  PeerReplicas peers = peers_of(five());
  peers.find(NodeId{4})->heard_ns = 1;
  View view = five();
  view.learners[0].join = 11;
  peers.match(view, 1, {.keep = true, .commit_index = 8, .now = kNow});
  EXPECT_EQ(peers.find(NodeId{4})->heard_ns, kNow);
  EXPECT_EQ(peers.find(NodeId{4})->join_goal, 8U);
}

TEST(PeerReplicas, AnEntryIsMissingUntilAllThatAreWaitedForHaveIt) {
  PeerReplicas peers = peers_of(five());
  const CommitQueue::Entry entry{7, Durability::kFlush};
  EXPECT_EQ(peers.missing(entry), 3U);
  peers.find(NodeId{2})->log.acknowledge({7, 7, 0});
  peers.find(NodeId{3})->log.acknowledge({9, 6, 6});
  EXPECT_EQ(peers.missing(entry), 2U);
  peers.find(NodeId{3})->log.acknowledge({9, 7, 6});
  peers.find(NodeId{5})->log.acknowledge({9, 9, 9});
  EXPECT_EQ(peers.missing(entry), 0U);
}

TEST(PeerReplicas, EntriesAreNeededUntilTheyAreDurableEverywhere) {
  PeerReplicas peers = peers_of(view_of(1, 1, {1, 2, 3}));
  peers.find(NodeId{2})->log.acknowledge({9, 9, 4});
  EXPECT_EQ(peers.needed_from(10), 1U);
  peers.find(NodeId{3})->log.need_snapshot();
  EXPECT_EQ(peers.needed_from(10), 5U) << "a snapshot has them";
}

TEST(PeerReplicas, PromisesHoldWhileAllDo) {
  PeerReplicas peers = peers_of(five());
  for (const NodeId node : {NodeId{2}, NodeId{3}}) peers.find(node)->held_until = kNow + 10 * static_cast<TimeNs>(node);
  EXPECT_FALSE(peers.hold_promises(kNow)) << "the one that is joining has made none";
  peers.find(NodeId{5})->held_until = kNow + 99;
  EXPECT_EQ(peers.promised_until(), kNow + 20);
  EXPECT_TRUE(peers.hold_promises(kNow + 19));
  EXPECT_FALSE(peers.hold_promises(kNow + 20));
  peers.forget_promises();
  EXPECT_EQ(peers.promised_until(), 0);
  EXPECT_TRUE(PeerReplicas().hold_promises(kNow)) << "nobody else is there";
}

TEST(PeerReplicas, ARoundIsAnsweredByAllThatAreWaitedFor) {
  PeerReplicas peers = peers_of(five());
  for (const NodeId node : {NodeId{2}, NodeId{3}}) peers.find(node)->confirmed = 4;
  EXPECT_FALSE(peers.have_answered(4));
  peers.find(NodeId{5})->confirmed = 5;
  EXPECT_TRUE(peers.have_answered(4));
  EXPECT_FALSE(peers.have_answered(5));
}

TEST(PeerReplicas, OneThatIsSilentAloneIsNotAll) {
  PeerReplicas peers = peers_of(view_of(1, 1, {1, 2, 3}));
  for (PeerReplica& peer : peers) peer.heard_ns = kNow;
  EXPECT_FALSE(peers.all_are_silent(kNow + 50, 50));
  EXPECT_TRUE(peers.all_are_silent(kNow + 51, 50));
  peers.find(NodeId{3})->heard_ns = kNow + 1;
  EXPECT_FALSE(peers.all_are_silent(kNow + 51, 50));
  EXPECT_FALSE(peers_of(view_of(1, 1, {1, 2})).all_are_silent(kNow + kSecond, 50)) << "of two, either may be cut off";
}

TEST(PeerReplicas, APauseIsNobodysSilence) {
  PeerReplicas peers = peers_of(view_of(1, 1, {1, 2}));
  peers.find(NodeId{2})->heard_ns = kNow;
  peers.paused({kNow + 10, kNow + 1010});
  EXPECT_EQ(peers.find(NodeId{2})->heard_ns, kNow + 1000);
}

TEST(PeerReplica, ADoubtIsOverWhenAllThatWasCommittedIsDurable) {
  PeerReplica peer;
  EXPECT_FALSE(peer.is_restored());
  peer.note_doubt(3, 8);
  peer.note_doubt(3, 12);
  EXPECT_EQ(peer.restored_at, 8U) << "the same doubt";
  peer.acknowledge({9, 9, 7}, 12, kNow);
  EXPECT_FALSE(peer.is_restored());
  peer.acknowledge({9, 9, 8}, 12, kNow);
  EXPECT_TRUE(peer.is_restored());
  peer.note_doubt(4, 12);
  EXPECT_FALSE(peer.is_restored());
}

TEST(PeerReplica, CannotHaveMoreThanThePrimary) {
  PeerReplica peer;
  peer.acknowledge(LogLevels::all(UINT64_MAX), 12, kNow);
  EXPECT_EQ(peer.log.acked(), LogLevels::all(12));
}

TEST(PeerReplica, StartsAnewInANewLeadership) {
  PeerReplica peer;
  ASSERT_EQ(peer.log.take_report(EntryId{5, 1}, 1, true), PeerLog::Report::kAgrees);
  peer.log.refuse(4);
  peer.acknowledge({5, 5, 5}, 5, kNow);
  peer.latency.begin(6, Durability::kSync, kNow);
  peer.note_doubt(7, 5);
  peer.confirmed = 3;
  peer.start_anew(kNow + 1);
  EXPECT_EQ(peer.confirmed, 0U) << "numbers of rounds that nobody confirmed are used again";
  EXPECT_EQ(peer.doubt, 0U);
  EXPECT_FALSE(peer.latency.is_measuring());
  EXPECT_FALSE(peer.log.is_matched());
  EXPECT_FALSE(peer.log.is_refused());
  EXPECT_FALSE(peer.log.needs_snapshot());
  EXPECT_EQ(peer.log.acked(), LogLevels{});
  EXPECT_EQ(peer.heard_ns, kNow + 1);
}

}  // namespace
}  // namespace skua::kv
