#include "control/server/node_roll.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "tests/control/core/core_fixture.h"

namespace skua::control {
namespace {

using absl::StatusCode;
using Kind = NodeRoll::Kind;

class NodeRollTest : public testing::Test {
 protected:
  NodeRollTest() {
    ClusterState state = empty_cluster();
    state.nodes[test_uuid(1)] = test_node(1, 2);
    roll_.publish(state);
  }
  StatusCode admit(const NodeInfo& node, Kind kind = Kind::kHeartbeat) {
    return roll_.admit(node.uuid, node.incarnation, node.instance, kind).code();
  }

  NodeRoll roll_;
};

TEST_F(NodeRollTest, OnlyTheRegisteredProcessMayWait) {
  EXPECT_EQ(admit(test_node(9)), StatusCode::kNotFound) << "an unknown node";
  EXPECT_EQ(admit(test_node(1, 3)), StatusCode::kNotFound) << "a process that did not register";
  EXPECT_EQ(admit(test_node(1, 1)), StatusCode::kFailedPrecondition) << "a replaced process";
  NodeInfo forged = test_node(1, 2);
  forged.instance = test_uuid(77);
  EXPECT_EQ(admit(forged), StatusCode::kFailedPrecondition) << "somebody who knows no instance";
  EXPECT_EQ(admit(test_node(1, 2)), StatusCode::kOk);
}

TEST_F(NodeRollTest, OneOfAKindMayWait) {
  const NodeInfo node = test_node(1, 2);
  EXPECT_EQ(admit(node), StatusCode::kOk);
  EXPECT_EQ(admit(node), StatusCode::kResourceExhausted);
  EXPECT_EQ(admit(node, Kind::kReport), StatusCode::kOk);
  EXPECT_EQ(admit(node, Kind::kGoodbye), StatusCode::kOk) << "a goodbye is not lost over a heartbeat";
  roll_.served(node.uuid, Kind::kHeartbeat);
  EXPECT_EQ(admit(node), StatusCode::kOk);
  EXPECT_EQ(admit(node, Kind::kReport), StatusCode::kResourceExhausted);
}

TEST_F(NodeRollTest, SuspendedUntilTheNextState) {
  roll_.suspend(absl::UnavailableError("another leads"));
  EXPECT_EQ(roll_.admit(test_uuid(9), 1, "", Kind::kHeartbeat).message(), "another leads");
  roll_.publish(empty_cluster());
  EXPECT_EQ(admit(test_node(1, 2)), StatusCode::kNotFound);
}

}  // namespace
}  // namespace skua::control
