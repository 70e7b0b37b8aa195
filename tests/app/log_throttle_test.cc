#include "app/log_throttle.h"

#include <gtest/gtest.h>

#include <string>

namespace skua::app {
namespace {

TEST(LogThrottle, Kind_IsTheTextBeforeItsValues) {
  EXPECT_EQ(kind_of_line("client refused address=10.0.0.1"), "client refused address");
  EXPECT_EQ(kind_of_line("node 7 is away"), "node ");
  EXPECT_EQ(kind_of_line("shard map: cannot be had"), "shard map");
  EXPECT_EQ(kind_of_line(std::string(1000, 'x')).size(), 40u);
  EXPECT_EQ(kind_of_line(""), "");
}

TEST(LogThrottle, Flood_IsCutAndCounted) {
  LogThrottle throttle({.burst = 5, .per_second = 2});
  TimeNs now = 100 * kSecond;
  int written = 0;
  for (int i = 0; i < 1000; ++i)
    written += throttle.admit("refused peer " + std::to_string(i), now).has_value() ? 1 : 0;
  EXPECT_EQ(written, 5);
  EXPECT_TRUE(throttle.admit("registered node", now).has_value()) << "another kind";
  now += 500 * kMillisecond;
  EXPECT_EQ(throttle.admit("refused peer 1000", now), 995u);
  EXPECT_FALSE(throttle.admit("refused peer 1001", now).has_value());
  now += 3600 * kSecond;
  EXPECT_EQ(throttle.admit("refused peer 1002", now), 1u);
  EXPECT_EQ(throttle.admit("refused peer 1003", now), 0u);
}

TEST(LogThrottle, Rate_IsKeptOverALongTime) {
  LogThrottle throttle({.burst = 5, .per_second = 2});
  int written = 0;
  for (int i = 0; i < 100'000; ++i) written += throttle.admit("refused", i * kMillisecond).has_value() ? 1 : 0;
  EXPECT_NEAR(written, 5 + 2 * 100, 2);
}

}  // namespace
}  // namespace skua::app
