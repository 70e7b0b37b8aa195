#include "control/core/node_status.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "control/core/cluster_limits.h"

namespace skua::control {
namespace {

using testing::AllOf;
using testing::HasSubstr;

TEST(NodeStatus, LivenessHasNames) {
  EXPECT_STREQ(liveness_name(Liveness::kUnknown), "unknown");
  EXPECT_STREQ(liveness_name(Liveness::kAlive), "alive");
  EXPECT_STREQ(liveness_name(Liveness::kSuspected), "suspected");
  EXPECT_STREQ(liveness_name(Liveness::kStopped), "stopped");
}

TEST(NodeStatus, AClockIsATroubleBeyondABoundOnly) {
  EXPECT_EQ(clock_trouble(kClockAheadMax), "");
  EXPECT_EQ(clock_trouble(-kClockAheadMax), "");
  EXPECT_THAT(clock_trouble(kClockAheadMax + 1), AllOf(HasSubstr("5 s ahead of"), HasSubstr("5 s too early")));
  EXPECT_THAT(clock_trouble(-90 * kSecond), AllOf(HasSubstr("90 s behind"), HasSubstr("90 s too late")));
}

TEST(NodeStatus, TheClocksTroubleFollowsTheNodes) {
  EXPECT_EQ(trouble_of({}), "");
  EXPECT_EQ(trouble_of({.trouble = "the disk is full"}), "the disk is full");
  EXPECT_THAT(trouble_of({.trouble = "the disk is full", .clock_ahead_ns = 90 * kSecond}),
              HasSubstr("the disk is full; the node's clock is 90 s ahead"));
  EXPECT_THAT(trouble_of({.clock_ahead_ns = 90 * kSecond}), testing::StartsWith("the node's clock"));
}

}  // namespace
}  // namespace skua::control
