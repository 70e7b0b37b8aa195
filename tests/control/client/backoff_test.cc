#include "control/client/backoff.h"

#include <gtest/gtest.h>

namespace skua::control {
namespace {

TEST(Backoff, DoublesWithJitterUpToTheMaximum) {
  Backoff backoff({.min_ns = 100, .max_ns = 1000}, 1);
  for (const DurationNs expected : {100, 200, 400, 800, 1000, 1000, 1000}) {
    const DurationNs delay = backoff.next();
    EXPECT_GE(delay, expected / 2);
    EXPECT_LE(delay, expected);
  }
  backoff.reset();
  EXPECT_LE(backoff.next(), 100);
}

TEST(Backoff, SameSeedSameDelays) {
  Backoff one({}, 7);
  Backoff two({}, 7);
  for (int i = 0; i < 10; ++i) EXPECT_EQ(one.next(), two.next());
}

}  // namespace
}  // namespace skua::control
