#include "control/core/protocol_version.h"

#include <gtest/gtest.h>

namespace skua::control {
namespace {

TEST(Negotiate, TakesTheHighestCommonVersion) {
  EXPECT_EQ(negotiate({1, 3}, {2, 5}), 3u);
  EXPECT_EQ(negotiate({2, 5}, {1, 3}), 3u);
  EXPECT_EQ(negotiate({1, 1}, {1, 1}), 1u);
}

TEST(Negotiate, RefusesDisjointAndMalformedRanges) {
  EXPECT_EQ(negotiate({1, 2}, {3, 4}), std::nullopt);
  EXPECT_EQ(negotiate({3, 4}, {1, 2}), std::nullopt);
  EXPECT_EQ(negotiate({3, 1}, {1, 3}), std::nullopt);
  EXPECT_EQ(negotiate({0, 0}, {0, 0}), std::nullopt);
}

}  // namespace
}  // namespace skua::control
