// Whom a replica reports: silent peers, and disks that hang.
#include <gtest/gtest.h>

#include <algorithm>
#include <set>

#include "kvstore/replication/replica.h"
#include "tests/kvstore/replication/replica_group.h"

namespace skua::kv {
namespace {

using testing::Group;
using testing::kOptions;
using testing::view_of;

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

}  // namespace
}  // namespace skua::kv
