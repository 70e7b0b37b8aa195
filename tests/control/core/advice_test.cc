// What the status and refusals advise: foreign nodes, nodes that are gone, names that were mistyped.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "control/core/cluster_limits.h"
#include "control/core/cluster_progress.h"
#include "control/core/table_names.h"
#include "control/core/text.h"
#include "tests/control/core/core_fixture.h"

namespace skua::control {
namespace {

using testing::AllOf;
using testing::ElementsAre;
using testing::HasSubstr;
using testing::IsEmpty;
using testing::Not;
using testing::SizeIs;

std::string message(const absl::Status& status) {
  return std::string(status.message());
}

RegisterNode foreign(uint64_t n, uint64_t cluster = 77) {
  return {test_uuid(cluster), test_node(n), 0};
}

TEST(Strangers, ThatAskAnEmptyClusterAreShownForAMinute) {
  TestCluster cluster;
  EXPECT_THAT(cluster.core.stranger_troubles(), IsEmpty());
  EXPECT_FALSE(cluster.step(foreign(1)).status.ok());
  EXPECT_THAT(cluster.core.stranger_troubles(),
              ElementsAre(AllOf(HasSubstr("a node of another cluster (uuid " + test_uuid(77) + ") at host-1:7500 asks"),
                                HasSubstr("was this control plane started on another --data-dir"))));
  cluster.advance(kStrangersKeptNs);
  EXPECT_THAT(cluster.core.stranger_troubles(), SizeIs(1));
  cluster.advance(kSecond);
  EXPECT_THAT(cluster.core.stranger_troubles(), IsEmpty());
}

TEST(Strangers, ThatAskAClusterWithNodesAreSentAway) {
  TestCluster cluster;
  ASSERT_TRUE(cluster.register_node(test_node(9)).ok());
  EXPECT_FALSE(cluster.step(foreign(1)).status.ok());
  EXPECT_THAT(cluster.core.stranger_troubles(),
              ElementsAre(AllOf(HasSubstr("--control-address"), Not(HasSubstr("was this control plane")))));
}

TEST(Strangers, AreBoundedAndOneLinePerCluster) {
  TestCluster cluster;
  for (uint64_t n = 1; n <= 10 * kStrangersMax; ++n) EXPECT_FALSE(cluster.step(foreign(n)).status.ok());
  EXPECT_THAT(cluster.core.stranger_troubles(), ElementsAre(HasSubstr(absl::StrCat(kStrangersMax, " nodes of"))));
  for (uint64_t n = 1; n <= 10 * kStrangersMax; ++n) EXPECT_FALSE(cluster.step(foreign(n, n)).status.ok());
  EXPECT_THAT(cluster.core.stranger_troubles(), SizeIs(kStrangersMax));
}

TEST(Strangers, AreOnlyWhatIsWellFormed) {
  TestCluster cluster;
  RegisterNode event = foreign(1);
  event.cluster_id = "\x1b[31mred";
  EXPECT_FALSE(cluster.step(event).status.ok());
  event = foreign(1);
  event.node.grpc_address = "\x1b[31mred:7500";
  EXPECT_FALSE(cluster.step(event).status.ok());
  EXPECT_THAT(cluster.core.stranger_troubles(), IsEmpty());
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

TEST(NoSuchTable, OffersTheNearestName) {
  EXPECT_EQ(message(no_such_table("usertabel", " in cluster skua", {"orders", "usertable"})),
            "no table \"usertabel\" in cluster skua; did you mean usertable? There are: orders, usertable");
  EXPECT_THAT(message(no_such_table("UserTable", "", {"usertable"})), HasSubstr("did you mean usertable?"));
  EXPECT_EQ(message(no_such_table("t", "", {"orders"})), "no table \"t\"; there are: orders");
  EXPECT_EQ(message(no_such_table("t", "", {})), "no table \"t\"; there are: none");
  EXPECT_THAT(message(no_such_table("x\n", "", {"1", "2", "3", "4", "5", "6", "7", "8", "9"})),
              AllOf(HasSubstr("\"x\\x0a\""), HasSubstr("8, ...")));
}

TEST(NoSuchTable, IsSaidOfEveryOperation) {
  TestCluster cluster;
  ASSERT_TRUE(cluster.register_node(test_node(1)).ok());
  ASSERT_TRUE(cluster.create_table("orders", 1).ok());
  const std::vector<Event> events = {DropTable{"oders"}, MoveShard{"oders", 0, test_uuid(1), test_uuid(2)},
                                     TransferPrimary{"oders", 0, test_uuid(1)}, ForceRecover{"oders", 0, test_uuid(1)}};
  for (const Event& event : events) {
    EXPECT_THAT(message(cluster.step(event).status), HasSubstr("did you mean orders?"));
  }
}

TEST(Refusals, CountOneThingAsOne) {
  TestCluster cluster;
  ASSERT_TRUE(cluster.register_node(test_node(1)).ok());
  ASSERT_TRUE(cluster.create_table("t", 1).ok());
  EXPECT_THAT(message(cluster.create_table("t", 2)), HasSubstr("exists with 1 shard."));
  EXPECT_THAT(message(cluster.step(NodeLeave{test_uuid(1), test_node(1).instance, false}).status),
              HasSubstr("owns 1 shard of t"));
  EXPECT_THAT(message(cluster.step(TransferPrimary{"t", 5, test_uuid(1)}).status), HasSubstr("one shard, 0"));
  EXPECT_THAT(message(cluster.step(CreateTable{"u", 1, false, 2}).status), HasSubstr("with 1 replica"));
}

TEST(Refusals, OfATableWhereAllNodesAreDrainedSaySo) {
  TestCluster cluster;
  ASSERT_TRUE(cluster.register_node(test_node(1)).ok());
  ASSERT_TRUE(cluster.step(DrainNode{test_uuid(1)}).status.ok());
  EXPECT_THAT(message(cluster.create_table("t", 1)),
              AllOf(HasSubstr("1 of 1 node is drained. "), HasSubstr("skuactl node undrain")));
  ASSERT_TRUE(cluster.register_node(test_node(2)).ok());
  cluster.advance(10 * kSecond);
  ASSERT_TRUE(cluster.heartbeat(test_node(1)).ok());
  EXPECT_THAT(message(cluster.create_table("t", 1)), HasSubstr("1 of 2 nodes is drained, the others are not alive. "));
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

TEST(Text, RoughTimes) {
  EXPECT_EQ(rough_time(90 * kSecond), "90 s");
  EXPECT_EQ(rough_time(12 * 60 * kSecond), "12 min");
  EXPECT_EQ(rough_time(3 * 3600 * kSecond), "3 h");
  EXPECT_EQ(rough_time(50 * 3600 * kSecond), "2 days");
}

}  // namespace
}  // namespace skua::control
