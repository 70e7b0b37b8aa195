#include "ycsb/driver/pacer.h"

#include <gtest/gtest.h>

namespace skua::ycsb {
namespace {

TEST(Pacer, Unpaced_IsAlwaysDue) {
  Pacer pacer = Pacer::unpaced();
  Rng rng(1);
  EXPECT_FALSE(pacer.paced());
  EXPECT_LT(pacer.due(), 0);
  pacer.advance(rng);
  EXPECT_LT(pacer.due(), 0);
}

TEST(Pacer, Ticks_DoNotDrift) {
  Pacer pacer = Pacer::ticks(1000, 1e9 / 3);
  Rng rng(1);
  EXPECT_EQ(pacer.due(), 1000);
  for (int i = 0; i < 3'000'000; ++i) pacer.advance(rng);
  EXPECT_NEAR(static_cast<double>(pacer.due()), 1000 + 1e15, 1);
}

// Gaps are exponential: mean g, and a share of 1 - 1/e below the mean.
TEST(Pacer, Poisson_GapsAreExponential) {
  Rng rng(2);
  Pacer pacer = Pacer::poisson(0, 1'000, rng);
  constexpr int kArrivals = 200'000;
  int below_mean = 0;
  TimeNs last = 0;
  for (int i = 0; i < kArrivals; ++i) {
    below_mean += pacer.due() - last < 1'000 ? 1 : 0;
    last = pacer.due();
    pacer.advance(rng);
  }
  EXPECT_NEAR(static_cast<double>(last) / kArrivals, 1'000, 10);
  EXPECT_NEAR(static_cast<double>(below_mean) / kArrivals, 0.632, 0.005);
}

}  // namespace
}  // namespace skua::ycsb
