#include "rpc/base/spin_policy.h"

#include <gtest/gtest.h>

namespace skua {
namespace {

constexpr DurationNs kSpin = 50 * kMicrosecond;

void repeat(SpinPolicy& policy, int times, DurationNs idle_ns, bool slept) {
  for (int i = 0; i < times; ++i) policy.worked(idle_ns, slept);
}

TEST(SpinPolicy, SpinsAtFirst) {
  EXPECT_EQ(SpinPolicy(kSpin).spin_ns(), kSpin);
  EXPECT_EQ(SpinPolicy(0).spin_ns(), 0);
  EXPECT_EQ(SpinPolicy(kTimeNever).spin_ns(), kTimeNever);
}

TEST(SpinPolicy, StopsWhenItIsInVain) {
  SpinPolicy policy(kSpin);
  repeat(policy, 10, 200 * kMicrosecond, true);
  EXPECT_EQ(policy.spin_ns(), 0);
}

TEST(SpinPolicy, AFewLongPausesChangeNothing) {
  SpinPolicy policy(kSpin);
  for (int i = 0; i < 100; ++i) {
    repeat(policy, 2, kMillisecond, true);
    repeat(policy, 5, 10 * kMicrosecond, false);
    EXPECT_EQ(policy.spin_ns(), kSpin);
  }
}

TEST(SpinPolicy, BeginsAgainWhenItWouldHavePaid) {
  SpinPolicy policy(kSpin);
  repeat(policy, 100, kSecond, true);
  // Both sides sleep and wake the other: longer than the spin, but not by much.
  repeat(policy, 10, kSpin + 20 * kMicrosecond, true);
  EXPECT_EQ(policy.spin_ns(), kSpin);
}

TEST(SpinPolicy, WhoNeverSleepsGoesOnSo) {
  SpinPolicy policy(kTimeNever);
  repeat(policy, 100, kSecond, false);
  EXPECT_EQ(policy.spin_ns(), kTimeNever);
}

}  // namespace
}  // namespace skua
