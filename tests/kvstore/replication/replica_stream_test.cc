// The stream of entries to a peer: reports of its log, full connections, and new ones.
#include <gtest/gtest.h>

#include <algorithm>
#include <variant>

#include "kvstore/replication/messages.h"
#include "kvstore/replication/replica.h"
#include "tests/kvstore/replication/replica_group.h"

namespace skua::kv {
namespace {

using testing::Group;
using testing::view_of;

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

}  // namespace
}  // namespace skua::kv
