#include "control/server/silent_connections.h"

#include <gtest/gtest.h>

namespace skua::control {
namespace {

Network network(uint8_t number) {
  Network made{};
  made[0] = number;
  return made;
}

/// Eight places, of which a network has four.
class SilentConnectionsTest : public testing::Test {
 protected:
  /// Which descriptor went for it; -1: none.
  int add(int fd, uint8_t from, TimeNs now = 0) {
    const auto gone = silent_.add(fd, 3, network(from), now);
    return gone.has_value() ? gone->fd : -1;
  }

  SilentConnections silent_{8 * kSilentPart};
};

TEST_F(SilentConnectionsTest, ANetworkThatHasItsShareMakesRoomItself) {
  EXPECT_EQ(add(100, 2), -1);
  for (int fd = 0; fd < 4; ++fd) EXPECT_EQ(add(fd, 1), -1);
  EXPECT_EQ(add(4, 1), 0);
  EXPECT_EQ(add(5, 1), 1);
  EXPECT_EQ(add(101, 2), -1);
  EXPECT_EQ(silent_.size(), 6u);
}

TEST_F(SilentConnectionsTest, TheOldestGoesIfNoPlaceIsLeft) {
  for (int fd = 0; fd < 8; ++fd) EXPECT_EQ(add(fd, static_cast<uint8_t>(fd)), -1);
  EXPECT_EQ(add(8, 8), 0);
  EXPECT_FALSE(silent_.contains(0));
  EXPECT_EQ(silent_.size(), 8u);
}

TEST_F(SilentConnectionsTest, OneThatSpeaksLeavesItsPlace) {
  for (int fd = 0; fd < 4; ++fd) EXPECT_EQ(add(fd, 1), -1);
  const auto taken = silent_.take(2);
  ASSERT_TRUE(taken.has_value());
  EXPECT_EQ(taken->listener, 3);
  EXPECT_EQ(taken->from, network(1));
  EXPECT_FALSE(silent_.take(2).has_value());
  EXPECT_EQ(add(4, 1), -1);
}

TEST_F(SilentConnectionsTest, TimeIsUpForTheOldestFirst) {
  EXPECT_EQ(silent_.next_ns(), kTimeNever);
  EXPECT_EQ(add(1, 1, 10), -1);
  EXPECT_EQ(add(2, 1, 20), -1);
  EXPECT_EQ(silent_.next_ns(), 10 + kFirstByteNs);
  EXPECT_FALSE(silent_.take_late(9 + kFirstByteNs).has_value());
  EXPECT_EQ(silent_.take_late(10 + kFirstByteNs)->fd, 1);
  EXPECT_FALSE(silent_.take_late(10 + kFirstByteNs).has_value());
  EXPECT_EQ(silent_.take_late(20 + kFirstByteNs)->fd, 2);
}

TEST(SilentConnectionsOfASmallDoor, HaveAPlaceForEachOfTwoNetworks) {
  SilentConnections silent(0);
  EXPECT_FALSE(silent.add(1, 0, network(1), 0).has_value());
  EXPECT_FALSE(silent.add(2, 0, network(2), 0).has_value());
  EXPECT_EQ(silent.add(3, 0, network(2), 0)->fd, 2);
}

}  // namespace
}  // namespace skua::control
