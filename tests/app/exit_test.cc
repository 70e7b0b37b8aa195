#include "app/exit.h"

#include <gtest/gtest.h>

namespace skua::app {
namespace {

TEST(ExitDeathTest, FailUsage_OneLineAndCodeTwo) {
  EXPECT_EXIT(fail_usage("skuad", "port 7400 is in use;\nstop the other one\n"), testing::ExitedWithCode(2),
              "^skuad: port 7400 is in use; stop the other one\n$");
}

TEST(ExitDeathTest, Fail_CodeOne) {
  EXPECT_EXIT(fail("skuad", "disk full"), testing::ExitedWithCode(1), "^skuad: disk full\n$");
}

}  // namespace
}  // namespace skua::app
