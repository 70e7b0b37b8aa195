// A node that comes back with other storage is another replica.
#include <gtest/gtest.h>

#include "kvstore/replication/replica.h"
#include "tests/kvstore/replication/replica_group.h"

namespace skua::kv {
namespace {

using testing::Group;
using testing::view_of;

TEST(Replica, ANodeWhoseStorageWasReplacedIsNotTheMember) {
  Group group({1, 2});
  group.view(view_of(1, 1, {1, 2}));
  group.cut.insert(2);
  group.propose(1);
  const uint64_t last = group[1].last_index();
  ASSERT_EQ(group[1].commit_index(), last - 1);
  const AppendReply has_it{1, {last, last, last}};
  ReplicaOutput out;
  group[1].on_message({2, 2}, has_it, group.now, out);
  EXPECT_EQ(group[1].commit_index(), last - 1) << "what the node had is lost";
  group[1].on_message({2, 1}, has_it, group.now, out);
  EXPECT_EQ(group[1].commit_index(), last);
  // Nor does it lead.
  out.clear();
  const uint64_t there = group[2].last_index();
  group[2].on_message({1, 2}, Append{1, {there, 1}, {1}, 0, false}, group.now, out);
  EXPECT_EQ(group[2].last_index(), there);
  group[2].on_message({1, 2}, StartView{view_of(1, 1, {1, 2})}, group.now, out);
  EXPECT_TRUE(out.messages.empty());
  EXPECT_FALSE(out.fetch_view);
  group[2].on_message({1, 2}, Heartbeat{2, group.now, 0}, group.now, out);
  EXPECT_TRUE(out.fetch_view) << "but a hint is one";
}

}  // namespace
}  // namespace skua::kv
