// What a primary commits, and when.
#include <gtest/gtest.h>

#include "kvstore/replication/replica.h"
#include "tests/kvstore/replication/replica_group.h"

namespace skua::kv {
namespace {

using testing::Group;
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

}  // namespace
}  // namespace skua::kv
