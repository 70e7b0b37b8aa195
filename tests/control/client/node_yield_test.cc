#include "control/client/node_yield.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

namespace skua::control {
namespace {

using ::testing::HasSubstr;

TEST(NodeYield, IsDoneWhenNothingIsLeftAndWhoLeadsKnowsIt) {
  NodeYield yield;
  EXPECT_FALSE(yield.is_under_way());
  yield.begin();
  EXPECT_TRUE(yield.is_under_way());
  yield.on_reply(3, false);
  yield.on_reply(1, true);
  yield.on_reply(0, true);
  EXPECT_FALSE(yield.result().has_value());
  yield.on_reply(0, false);
  ASSERT_TRUE(yield.result().has_value());
  EXPECT_EQ(yield.result()->value(), 3u);
  EXPECT_FALSE(yield.is_under_way());
  EXPECT_TRUE(yield.has_begun()) << "heartbeats go on to say so";
}

TEST(NodeYield, WaitsForNobodyWhoLedBefore) {
  NodeYield yield;
  yield.begin();
  yield.on_reply(0, true);
  EXPECT_EQ(yield.result()->value(), 0u) << "others lag for other reasons";
}

TEST(NodeYield, FailsWhenNoControlProcessAnswers) {
  NodeYield yield;
  yield.on_failure(absl::UnavailableError("before it began"), 1);
  EXPECT_FALSE(yield.result().has_value());
  yield.begin();
  yield.on_failure(absl::UnavailableError("one"), 2);
  EXPECT_FALSE(yield.result().has_value());
  yield.on_failure(absl::InternalError("two"), 2);
  EXPECT_EQ(yield.result()->status(), absl::UnavailableError("two"));
  yield.on_reply(0, false);
  EXPECT_FALSE(yield.result()->ok()) << "the outcome stays";
}

TEST(NodeYield, SaysWhatItWaitsFor) {
  NodeYield yield;
  yield.begin();
  EXPECT_THAT(yield.out_of_time(kSecond).ToString(), HasSubstr("the control plane has not answered after 1000 ms"));
  yield.on_reply(2, false);
  EXPECT_THAT(yield.out_of_time(kSecond).ToString(), HasSubstr("still leads 2 shards"));
  yield.on_reply(0, true);
  EXPECT_THAT(yield.out_of_time(kSecond).ToString(), HasSubstr("do not all do so yet"));
}

}  // namespace
}  // namespace skua::control
