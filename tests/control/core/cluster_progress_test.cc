#include "control/core/cluster_progress.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "control/core/cluster_limits.h"
#include "tests/control/core/replicated_cluster.h"

namespace skua::control {
namespace {

using testing::AllOf;
using testing::ElementsAre;
using testing::HasSubstr;
using testing::IsEmpty;

TEST(LaggingOwners, ShrinksAsNodesApplyTheMap) {
  TestCluster cluster;
  ASSERT_TRUE(cluster.register_node(test_node(1)).ok());
  ASSERT_TRUE(cluster.register_node(test_node(2)).ok());
  ASSERT_TRUE(cluster.create_table("t", 4).ok());
  const TableId id = cluster.core.state().find_table("t")->id;
  EXPECT_THAT(lagging_owners(cluster.core.context(), id, cluster.revision()), ElementsAre(test_uuid(1), test_uuid(2)));
  ASSERT_TRUE(cluster.heartbeat(test_node(1), cluster.revision()).ok());
  EXPECT_THAT(lagging_owners(cluster.core.context(), id, cluster.revision()), ElementsAre(test_uuid(2)));
  ASSERT_TRUE(cluster.heartbeat(test_node(2), cluster.revision() - 1).ok());
  EXPECT_THAT(lagging_owners(cluster.core.context(), id, cluster.revision()), ElementsAre(test_uuid(2)));
  ASSERT_TRUE(cluster.heartbeat(test_node(2), cluster.revision() + 1).ok());
  EXPECT_THAT(lagging_owners(cluster.core.context(), id, cluster.revision()), IsEmpty());
}

TEST(Hints, NameNodesThatAreGoneAndHoldNothing) {
  TestCluster cluster;
  ASSERT_TRUE(cluster.register_node(test_node(1)).ok());
  ASSERT_TRUE(cluster.create_table("t", 2).ok());
  ASSERT_TRUE(cluster.register_node(test_node(2)).ok());
  ASSERT_TRUE(cluster.register_node(test_node(3)).ok());
  const NodeInfo stopped = test_node(3);
  ASSERT_TRUE(cluster.step(NodeHeartbeat{stopped.uuid, 1, stopped.instance, 0, true}).status.ok());
  cluster.advance(kForgottenNodeNs - kSecond);
  EXPECT_THAT(hints(cluster.core.context(), 8), IsEmpty());
  cluster.advance(3 * 3600 * kSecond);
  ASSERT_TRUE(cluster.heartbeat(test_node(2)).ok());
  EXPECT_THAT(hints(cluster.core.context(), 8),
              ElementsAre(AllOf(HasSubstr("node " + test_uuid(3) + " has not been heard of for 3 h and holds nothing"),
                                HasSubstr("skuactl node remove " + test_uuid(3)))))
      << "node 1 holds shards, node 2 is alive";
  EXPECT_THAT(hints(cluster.core.context(), 0), IsEmpty());
}

TEST(Hints, DoNotNameWhoMayHaveTheOnlyCopyOfAShard) {
  ReplicatedCluster cluster(2, 2);
  const uint64_t p = cluster.primary();
  const uint64_t b = cluster.backup(0);
  cluster.say_goodbye(b);
  cluster.silence(p);
  cluster.pass(2 * kForgottenNodeNs);
  EXPECT_THAT(hints(cluster.core.context(), 8), IsEmpty());
  EXPECT_THAT(shard_troubles(cluster.core.context(), 8),
              ElementsAre(AllOf(HasSubstr("skuactl shard recover"), HasSubstr(test_uuid(b)))));
  cluster.restart(p);
  EXPECT_THAT(hints(cluster.core.context(), 8), ElementsAre(HasSubstr("skuactl node remove " + test_uuid(b))));
}

/// After a start nothing is known of nodes that have not spoken yet. They may be alive, and lead a moment later.
TEST(YieldProgress, CountsMembersThatHaveNotSpokenSinceTheControlPlaneStarted) {
  const ReplicatedCluster before(2, 2);
  const uint64_t p = before.primary();
  const uint64_t b = before.backup(0);
  ReplicatedCluster after(before, eager_views());
  NodeHeartbeat stops_soon{after.node(p).uuid, after.node(p).incarnation, after.node(p).instance, after.revision()};
  stops_soon.yielding = true;
  ASSERT_TRUE(after.step(stops_soon).status.ok());
  EXPECT_EQ(yield_progress(after.core.context(), test_uuid(p)).left, 1u);
  after.settle();
  EXPECT_EQ(after.primary(), p);
  after.advance(4 * kSecond);
  ASSERT_TRUE(after.step(stops_soon).status.ok());
  EXPECT_EQ(yield_progress(after.core.context(), test_uuid(p)).left, 0u) << "node " << b << " is suspected";
}

TEST(DrainProgress, SaysThatANodeThatDoesNotRunMustBeStarted) {
  TestCluster cluster;
  ASSERT_TRUE(cluster.register_node(test_node(1)).ok());
  ASSERT_TRUE(cluster.register_node(test_node(3)).ok());
  ASSERT_TRUE(cluster.step(CreateTable{"t", 1, false, 2}).status.ok());
  ASSERT_TRUE(cluster.register_node(test_node(2)).ok());
  cluster.advance(10 * kSecond);
  ASSERT_TRUE(cluster.heartbeat(test_node(2)).ok());
  ASSERT_TRUE(cluster.step(DrainNode{test_uuid(1)}).status.ok());
  EXPECT_THAT(drain_progress(cluster.core.context(), test_uuid(1)),
              AllOf(HasSubstr("1 shard still to be moved"), HasSubstr("this node does not run, start it again")));
}

}  // namespace
}  // namespace skua::control
