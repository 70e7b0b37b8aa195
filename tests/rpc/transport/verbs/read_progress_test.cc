#include "rpc/transport/verbs/read_progress.h"

#include <gtest/gtest.h>

namespace skua::rpc::verbs {
namespace {

constexpr TimeNs kNow = 1000 * kSecond;
constexpr DurationNs kStall = ReadProgress::kStalledAfter;

TEST(ReadProgress, NothingUnderWayStallsNever) {
  ReadProgress progress;
  EXPECT_FALSE(progress.is_stalled(kNow));
  progress.on_post(kNow);
  progress.on_end(100, kNow + 1);
  EXPECT_FALSE(progress.is_stalled(kNow + 3600 * kSecond));
  EXPECT_FALSE(progress.was_held());
}

TEST(ReadProgress, WhatEndsNowAndThenGetsOn) {
  ReadProgress progress;
  TimeNs now = kNow;
  for (int i = 0; i < 8; ++i) progress.on_post(now);
  for (int i = 0; i < 7; ++i) {
    EXPECT_FALSE(progress.is_stalled(now + kStall - 1));
    EXPECT_TRUE(progress.is_stalled(now + kStall));
    now += kStall - 1;
    progress.on_end(1, now);
  }
  // More behind it make an old one no younger.
  progress.on_post(now + kStall - 1);
  EXPECT_TRUE(progress.is_stalled(now + kStall));
}

TEST(ReadProgress, EachStallHoldsThemBackForLonger) {
  ReadProgress progress;
  TimeNs now = kNow;
  for (DurationNs hold = ReadProgress::kHoldFirst; hold < 3 * ReadProgress::kHoldMax; hold *= 2) {
    progress.on_post(now);
    progress.hold_back(now);
    progress.on_end(0, now);
    const DurationNs expected = std::min(hold, ReadProgress::kHoldMax);
    EXPECT_TRUE(progress.is_held(now + expected - 1)) << hold;
    now += expected;
    EXPECT_FALSE(progress.is_held(now)) << hold;
    EXPECT_TRUE(progress.was_held());
  }
}

TEST(ReadProgress, BytesWithoutAStallMakeUpForStallsBefore) {
  ReadProgress progress;
  const auto half = static_cast<uint32_t>(ReadProgress::kTrustedBytes / 2);
  const auto stall = [&] {
    progress.on_post(kNow);
    progress.hold_back(kNow);
    progress.on_end(0, kNow);
  };
  const auto move = [&] {
    progress.on_post(kNow);
    progress.on_end(half, kNow);
  };
  stall();
  stall();
  EXPECT_TRUE(progress.is_held(kNow + 2 * ReadProgress::kHoldFirst - 1));
  move();
  stall();
  EXPECT_TRUE(progress.is_held(kNow + 4 * ReadProgress::kHoldFirst - 1))
      << "what moved before the stall does not count";
  move();
  move();
  stall();
  EXPECT_FALSE(progress.is_held(kNow + ReadProgress::kHoldFirst));
}

}  // namespace
}  // namespace skua::rpc::verbs
