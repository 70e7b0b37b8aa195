#include "kvstore/service/token_bucket.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <cstdint>

#include "rpc/base/rng.h"

namespace skua::kv {
namespace {

/// The same, one microsecond after the other.
class DumbBucket {
 public:
  DumbBucket(uint64_t rate_per_s, uint32_t shares, TimeNs now)
      : rate_(rate_per_s), shares_(shares), full_(rate_per_s * 1'000'000), now_ns_(now) {
    if (full_ < token()) full_ = token();
    level_ = full_;
  }
  /// How many tokens there are; below zero, too.
  int64_t tokens(TimeNs now) {
    while (now_ns_ + 1000 <= now) {
      now_ns_ += 1000;
      level_ += rate_;
      if (level_ > full_) level_ = full_;
    }
    const __int128 rounded_down = level_ >= 0 ? level_ : level_ - (token() - 1);
    return static_cast<int64_t>(rounded_down / token());
  }
  void take(uint64_t tokens) { level_ -= static_cast<__int128>(tokens) * token(); }

 private:
  [[nodiscard]] __int128 token() const { return static_cast<__int128>(shares_) * 1'000'000; }

  __int128 rate_;
  uint32_t shares_;
  __int128 full_;
  __int128 level_ = 0;
  TimeNs now_ns_;
};

TEST(TokenBucket, DoesWhatADumbOneDoes) {
  for (uint64_t seed = 1; seed <= 100; ++seed) {
    Rng rng(seed);
    const uint64_t rate = 1 + rng.below(uint64_t{1} << rng.below(41));
    const auto shares = static_cast<uint32_t>(1 + rng.below(uint64_t{1} << rng.below(11)));
    TimeNs now = static_cast<TimeNs>(rng.below(1'000'000));
    TokenBucket bucket(rate, shares, now);
    DumbBucket dumb(rate, shares, now);
    for (int step = 0; step < 200; ++step) {
      now += static_cast<TimeNs>(rng.below(uint64_t{1} << rng.below(22)));
      if (rng.below(20) == 0) now += static_cast<TimeNs>(rng.below(3 * kSecond / 100));
      const int64_t tokens = dumb.tokens(now);
      const auto there = static_cast<uint64_t>(std::max<int64_t>(tokens, 0));
      ASSERT_EQ(bucket.has(there, now), tokens >= 0) << "seed " << seed << " step " << step;
      ASSERT_FALSE(bucket.has(there + 1, now)) << "seed " << seed << " step " << step;
      // Some of them, all, or a few more.
      uint64_t taken = rng.below(2) == 0 ? rng.below(there + 1) : there;
      if (rng.below(4) == 0) taken += rng.below(3 + rate / 1000);
      bucket.take(taken);
      dumb.take(taken);
    }
  }
}

/// Whoever takes as much as there is gets the burst and the rate.
TEST(TokenBucket, GivesTheRateAndABurstOfOneSecond) {
  for (const uint32_t shares : {1U, 4U}) {
    TokenBucket bucket(1000, shares, 0);
    uint64_t taken = 0;
    for (TimeNs now = 0; now <= 10 * kSecond; now += 100 * kMicrosecond) {
      while (bucket.has(1, now)) {
        bucket.take(1);
        ++taken;
      }
    }
    EXPECT_EQ(taken, 11'000 / shares);
  }
}

TEST(TokenBucket, OfLessThanOneTokenASecondGivesOneNowAndThen) {
  TokenBucket bucket(1, 4, 0);
  EXPECT_TRUE(bucket.has(1, 0));
  bucket.take(1);
  EXPECT_FALSE(bucket.has(1, 4 * kSecond - kMicrosecond));
  EXPECT_TRUE(bucket.has(1, 4 * kSecond));
  EXPECT_FALSE(bucket.has(2, 1000 * kSecond)) << "it holds one";
}

TEST(TokenBucket, WhatWasTakenTooMuchIsWaitedFor) {
  TokenBucket bucket(100, 1, 0);
  bucket.take(1100);
  EXPECT_FALSE(bucket.has(1, 10 * kSecond));
  EXPECT_TRUE(bucket.has(1, 10 * kSecond + 10 * kMillisecond));
  EXPECT_FALSE(bucket.has(101, 1'000'000 * kSecond)) << "no more than a second's worth after any time";
  EXPECT_TRUE(bucket.has(100, 1'000'000 * kSecond));
}

TEST(TokenBucket, ExtremesDoNotOverflow) {
  TokenBucket bucket(TokenBucket::kRateMax, TokenBucket::kSharesMax, 0);
  for (int i = 0; i < 100; ++i) bucket.take(UINT64_MAX);
  EXPECT_FALSE(bucket.has(1, kSecond));
  EXPECT_FALSE(bucket.has(UINT64_MAX, kTimeNever));
  EXPECT_TRUE(bucket.has(1, kTimeNever));
  TokenBucket slow(1, TokenBucket::kSharesMax, 0);
  slow.take(UINT64_MAX);
  EXPECT_FALSE(slow.has(1, 1000 * kSecond));
}

TEST(TokenBucket, ATimeThatIsBehindBringsNothing) {
  TokenBucket bucket(1000, 1, kSecond);
  bucket.take(999);
  EXPECT_TRUE(bucket.has(1, 0)) << "and takes nothing";
  bucket.take(1);
  EXPECT_FALSE(bucket.has(1, kSecond));
  EXPECT_TRUE(bucket.has(1, kSecond + kMillisecond));
}

TEST(TokenBucket, WithoutARateIsNeverEmpty) {
  for (TokenBucket bucket : {TokenBucket(), TokenBucket(0, 4, 0)}) {
    bucket.take(UINT64_MAX);
    EXPECT_TRUE(bucket.has(UINT64_MAX, 0));
  }
}

}  // namespace
}  // namespace skua::kv
