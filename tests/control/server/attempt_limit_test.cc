#include "control/server/attempt_limit.h"

#include <gtest/gtest.h>

#include <string>

namespace skua::control {
namespace {

constexpr TimeNs kNow = 1000 * kSecond;

TEST(AttemptLimit, EachSourceHasItsOwn) {
  AttemptLimit limit(2, 10);
  EXPECT_TRUE(limit.admit("a", kNow));
  EXPECT_TRUE(limit.admit("a", kNow));
  EXPECT_FALSE(limit.admit("a", kNow + kSecond));
  EXPECT_TRUE(limit.admit("b", kNow + kSecond));
}

TEST(AttemptLimit, AMinuteLaterItBeginsAnew_AlsoForWhoWentOnTrying) {
  AttemptLimit limit(1, 10);
  EXPECT_TRUE(limit.admit("a", kNow));
  EXPECT_FALSE(limit.admit("a", kNow + AttemptLimit::kWindow - 1));
  EXPECT_TRUE(limit.admit("a", kNow + AttemptLimit::kWindow));
  EXPECT_FALSE(limit.admit("a", kNow + AttemptLimit::kWindow + 1));
}

TEST(AttemptLimit, SourcesBeyondTheBoundShareOne) {
  AttemptLimit limit(2, 2);
  EXPECT_TRUE(limit.admit("a", kNow));
  EXPECT_TRUE(limit.admit("b", kNow));
  EXPECT_TRUE(limit.admit("c", kNow));
  EXPECT_TRUE(limit.admit("d", kNow));
  EXPECT_FALSE(limit.admit("e", kNow));
  EXPECT_TRUE(limit.admit("a", kNow)) << "who was there first keeps its own";
  // Those that are silent for a minute make room.
  EXPECT_TRUE(limit.admit("e", kNow + AttemptLimit::kWindow));
  EXPECT_TRUE(limit.admit("e", kNow + AttemptLimit::kWindow));
  EXPECT_TRUE(limit.admit("f", kNow + AttemptLimit::kWindow));
}

}  // namespace
}  // namespace skua::control
