#include "rpc/base/one_shot.h"

#include <gtest/gtest.h>

#include <array>
#include <memory>
#include <string>
#include <utility>

namespace skua::rpc {
namespace {

using Fn = OneShot<std::string>;

TEST(OneShotTest, IsCalledOnce) {
  std::string got;
  Fn fn = [&got](std::string&& text) { got = std::move(text); };
  EXPECT_TRUE(fn);
  fn("a text");
  EXPECT_EQ(got, "a text");
  EXPECT_FALSE(fn);
}

TEST(OneShotTest, EmptyOnesAreFalse) {
  EXPECT_FALSE(Fn());
  EXPECT_FALSE(Fn(nullptr));
  Fn fn = [](std::string&&) {};
  fn = nullptr;
  EXPECT_FALSE(fn);
}

TEST(OneShotTest, MovesWhatItHolds) {
  int calls = 0;
  Fn first = [&calls](std::string&&) { ++calls; };
  Fn second = std::move(first);
  EXPECT_FALSE(first);  // NOLINT(bugprone-use-after-move)
  Fn third;
  third = std::move(second);
  third("");
  EXPECT_EQ(calls, 1);
}

TEST(OneShotTest, DestroysLargeCapturesOnce) {
  const auto counted = std::make_shared<int>(0);
  std::array<int, 32> filling{};
  {
    Fn never_called = [counted, filling](std::string&&) { static_cast<void>(filling); };
    EXPECT_EQ(counted.use_count(), 2);
    Fn moved = std::move(never_called);
    EXPECT_EQ(counted.use_count(), 2);
  }
  EXPECT_EQ(counted.use_count(), 1);
  Fn called = [counted](std::string&&) { ++*counted; };
  called("");
  EXPECT_EQ(counted.use_count(), 1);
  EXPECT_EQ(*counted, 1);
}

}  // namespace
}  // namespace skua::rpc
