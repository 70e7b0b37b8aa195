#include "control/server/command_queue.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "absl/strings/str_cat.h"
#include "control/server/controller_limits.h"

namespace skua::control {
namespace {

using absl::StatusCode;
using testing::ElementsAre;
using Lane = CommandQueue::Lane;

class CommandQueueTest : public testing::Test {
 protected:
  absl::Status push(Lane lane, const std::string& name, const std::string& source = "") {
    return queue_.push(
        lane, [this, name](bool) { ran_.push_back(name); }, source);
  }
  /// The names of what one round runs.
  std::vector<std::string> round() {
    ran_.clear();
    for (const auto& command : queue_.take_round()) command(false);
    return ran_;
  }

  CommandQueue queue_;
  std::vector<std::string> ran_;
};

TEST_F(CommandQueueTest, NodesComeFirstInTheOrderTheyCame) {
  ASSERT_TRUE(push(Lane::kOthers, "table").ok());
  ASSERT_TRUE(push(Lane::kJoining, "register").ok());
  ASSERT_TRUE(push(Lane::kNodes, "first").ok());
  ASSERT_TRUE(push(Lane::kNodes, "second").ok());
  EXPECT_THAT(round(), ElementsAre("first", "second", "register", "table"));
  EXPECT_TRUE(queue_.empty());
}

TEST_F(CommandQueueTest, AFullLaneOfOthersHoldsNeitherNodesNorNewcomersUp) {
  for (size_t i = 0; i < kCommandsMax; ++i) ASSERT_TRUE(push(Lane::kOthers, "other").ok());
  EXPECT_EQ(push(Lane::kOthers, "other").code(), StatusCode::kResourceExhausted);
  ASSERT_TRUE(push(Lane::kJoining, "register").ok());
  ASSERT_TRUE(push(Lane::kNodes, "heartbeat").ok());
  EXPECT_EQ(round().size(), 2 + kOthersPerRound);
  EXPECT_EQ(ran_[0], "heartbeat");
  EXPECT_EQ(ran_[1], "register");
  ASSERT_TRUE(push(Lane::kNodes, "heartbeat").ok());
  EXPECT_EQ(round()[0], "heartbeat") << "before what waited longer";
}

TEST_F(CommandQueueTest, OneHostFillsAPartOfTheJoiningLaneOnly) {
  for (size_t i = 0; i < kJoiningPerSourceMax; ++i) ASSERT_TRUE(push(Lane::kJoining, "leave", "ipv4:10.0.0.9").ok());
  EXPECT_EQ(push(Lane::kJoining, "leave", "ipv4:10.0.0.9").code(), StatusCode::kResourceExhausted);
  EXPECT_TRUE(push(Lane::kJoining, "register", "ipv4:10.0.0.1").ok());
}

TEST_F(CommandQueueTest, AFloodOfRegistrationsHoldsNoHeartbeatUp) {
  for (size_t i = 0; i < kJoiningMax; ++i) ASSERT_TRUE(push(Lane::kJoining, "register").ok());
  EXPECT_EQ(push(Lane::kJoining, "register").code(), StatusCode::kResourceExhausted);
  ASSERT_TRUE(push(Lane::kNodes, "heartbeat").ok());
  EXPECT_EQ(round().size(), 1 + kJoiningPerRound);
  EXPECT_EQ(ran_[0], "heartbeat");
}

TEST_F(CommandQueueTest, OneHostLeavesRoomForOthersToRegister) {
  for (size_t i = 0; i < kJoiningPerSourceMax; ++i) ASSERT_TRUE(push(Lane::kJoining, "theirs", "flood").ok());
  const absl::Status refused = push(Lane::kJoining, "theirs", "flood");
  EXPECT_EQ(refused.code(), StatusCode::kResourceExhausted);
  EXPECT_THAT(std::string(refused.message()), testing::HasSubstr("Try again"));
  EXPECT_TRUE(push(Lane::kJoining, "ours", "another").ok());
  (void)round();
  EXPECT_TRUE(push(Lane::kJoining, "theirs", "flood").ok()) << "what ran counts no more";
}

TEST_F(CommandQueueTest, TakeAllLeavesNothing) {
  for (const Lane lane : {Lane::kOthers, Lane::kJoining, Lane::kNodes}) ASSERT_TRUE(push(lane, "x", "host").ok());
  EXPECT_EQ(queue_.take_all().size(), 3u);
  EXPECT_TRUE(queue_.empty());
}

}  // namespace
}  // namespace skua::control
