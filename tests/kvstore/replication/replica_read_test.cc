// Linearizable reads: promises, and rounds of Confirm.
#include <gtest/gtest.h>

#include "kvstore/replication/replica.h"
#include "tests/kvstore/replication/replica_group.h"

namespace skua::kv {
namespace {

using testing::Group;
using testing::kOptions;
using testing::view_of;

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

}  // namespace
}  // namespace skua::kv
