#include "rpc/base/clock.h"

#include <gtest/gtest.h>

namespace skua {
namespace {

TEST(SteadyClock, NowNs_NeverGoesBackwards) {
  const SteadyClock clock;
  TimeNs last = clock.now_ns();
  for (int i = 0; i < 1000; ++i) {
    const TimeNs now = clock.now_ns();
    ASSERT_GE(now, last);
    last = now;
  }
}

TEST(ManualClock, NowNs_MovesOnlyWhenTold) {
  ManualClock clock;
  const TimeNs start = clock.now_ns();
  EXPECT_EQ(clock.now_ns(), start);
  clock.advance(3 * kMillisecond);
  EXPECT_EQ(clock.now_ns(), start + 3'000'000);
  clock.set(17);
  EXPECT_EQ(clock.now_ns(), 17);
}

}  // namespace
}  // namespace skua
