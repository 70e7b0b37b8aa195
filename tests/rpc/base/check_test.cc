#include "rpc/base/check.h"

#include <gtest/gtest.h>

namespace skua {
namespace {

TEST(Check, Check_HoldsAndEvaluatesOnce) {
  int evaluated = 0;
  SKUA_CHECK(++evaluated == 1, "must hold");
  EXPECT_EQ(evaluated, 1);
}

TEST(CheckDeathTest, Check_SaysWhereWhatAndWhy) {
  EXPECT_DEATH(SKUA_CHECK(1 + 1 == 3, "arithmetic is off"),
               "check_test\\.cc:[0-9]+: check failed: 1 \\+ 1 == 3: arithmetic is off");
}

}  // namespace
}  // namespace skua
