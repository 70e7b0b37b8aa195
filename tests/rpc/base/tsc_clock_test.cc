#include "rpc/base/tsc_clock.h"

#include <gtest/gtest.h>

namespace skua {
namespace {

TEST(TscClock, NowNs_NeverGoesBack) {
  const TscClock clock;
  TimeNs last = clock.now_ns();
  for (int i = 0; i < 2'000'000; ++i) {
    const TimeNs now = clock.now_ns();
    ASSERT_GE(now, last);
    last = now;
  }
}

TEST(TscClock, NowNs_StaysWithTheMonotonicClock) {
  const TscClock clock;
  const SteadyClock steady;
  const TimeNs until = steady.now_ns() + 50 * kMillisecond;
  // A look is preceded and followed by the other clock's; a thread that is put aside in between only widens that.
  while (steady.now_ns() < until) {
    const TimeNs before = steady.now_ns();
    const TimeNs now = clock.now_ns();
    const TimeNs after = steady.now_ns();
    ASSERT_GE(now, before - 20 * kMicrosecond);
    ASSERT_LE(now, after + 20 * kMicrosecond);
  }
}

/// Whoever asks all the time must not run ahead, a little with each anchor.
TEST(TscClock, NowNs_DoesNotRunAheadHoweverOftenItIsAsked) {
  const TscClock clock;
  const SteadyClock steady;
  const TimeNs until = steady.now_ns() + 200 * kMillisecond;
  TimeNs now = 0;
  while (now < until) now = clock.now_ns();
  EXPECT_LE(now, steady.now_ns() + 5 * kMicrosecond);
}

}  // namespace
}  // namespace skua
