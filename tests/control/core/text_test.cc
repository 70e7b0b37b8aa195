#include "control/core/text.h"

#include <gtest/gtest.h>

namespace skua::control {
namespace {

TEST(Text, RoughTimes) {
  EXPECT_EQ(rough_time(90 * kSecond), "90 s");
  EXPECT_EQ(rough_time(12 * 60 * kSecond), "12 min");
  EXPECT_EQ(rough_time(3 * 3600 * kSecond), "3 h");
  EXPECT_EQ(rough_time(50 * 3600 * kSecond), "2 days");
}

}  // namespace
}  // namespace skua::control
