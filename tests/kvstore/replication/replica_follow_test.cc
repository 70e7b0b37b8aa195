// Backups and learners: gaps, entries that no primary can have, snapshots, and joining.
#include <gtest/gtest.h>

#include <variant>

#include "kvstore/replication/messages.h"
#include "kvstore/replication/replica.h"
#include "tests/kvstore/replication/replica_group.h"

namespace skua::kv {
namespace {

using testing::Group;
using testing::kOptions;
using testing::view_of;

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

}  // namespace
}  // namespace skua::kv
