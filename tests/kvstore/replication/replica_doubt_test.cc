// A replica that may lack entries which it had acknowledged.
#include <gtest/gtest.h>

#include <set>
#include <utility>

#include "kvstore/replication/replica.h"
#include "tests/kvstore/replication/replica_group.h"

namespace skua::kv {
namespace {

using testing::Group;
using testing::view_of;

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

}  // namespace
}  // namespace skua::kv
