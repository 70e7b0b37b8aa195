#include "kvstore/replication/heartbeat_timer.h"

#include <gtest/gtest.h>

namespace skua::kv {
namespace {

TEST(HeartbeatTimer, IsDueRegularly) {
  HeartbeatTimer timer;
  timer.set(100);
  EXPECT_FALSE(timer.take_if_due(99, 50));
  EXPECT_TRUE(timer.take_if_due(100, 50));
  EXPECT_EQ(timer.wake_at(), 150);
  EXPECT_FALSE(timer.take_if_due(149, 50));
}

TEST(HeartbeatTimer, IsDueEarlierToTellOfACommit) {
  HeartbeatTimer timer;
  timer.set(1000);
  timer.tell_commit_by(200);
  timer.tell_commit_by(300);
  EXPECT_EQ(timer.wake_at(), 200) << "the first commit must not wait for the second";
  EXPECT_FALSE(timer.take_if_due(199, 50));
  EXPECT_TRUE(timer.take_if_due(200, 50));
  EXPECT_EQ(timer.wake_at(), 250) << "the heartbeat has told of the commit";
  timer.tell_commit_by(220);
  timer.commit_is_told();
  EXPECT_EQ(timer.wake_at(), 250);
}

}  // namespace
}  // namespace skua::kv
