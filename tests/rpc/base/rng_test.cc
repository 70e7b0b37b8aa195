#include "rpc/base/rng.h"

#include <gtest/gtest.h>

#include <array>
#include <map>

namespace skua {
namespace {

// Computed by an independent implementation that was checked against the published vectors of
// xoshiro256** and splitmix64.
TEST(Rng, Mix64_GoldenValues) {
  EXPECT_EQ(mix64(0), 0xe220a8397b1dcdafu);
  EXPECT_EQ(mix64(1), 0x910a2dec89025cc1u);
  EXPECT_EQ(mix64(UINT64_MAX), 0xe4d971771b652c20u);
}

TEST(Rng, Next_GoldenValues) {
  Rng rng(42);
  for (const uint64_t expected : {0x5c8961e1f2055d33u, 0xe182e8e848466886u, 0x9f7313650e290a18u, 0xe6c0f551804ef0bbu,
                                  0x25fcce688f7e3b25u, 0x81c8c0c6e0febf41u}) {
    EXPECT_EQ(rng.next(), expected);
  }
}

TEST(Rng, Below_GoldenValues) {
  Rng rng(42);
  for (const uint64_t expected : std::initializer_list<uint64_t>{361, 880, 622, 901, 148, 506, 378, 279}) {
    EXPECT_EQ(rng.below(1000), expected);
  }
}

TEST(Rng, Below_Bounds) {
  Rng rng(1);
  EXPECT_EQ(rng.below(0), 0u);
  for (int i = 0; i < 1000; ++i) {
    EXPECT_EQ(rng.below(1), 0u);
    EXPECT_LT(rng.below(3), 3u);
  }
}

TEST(Rng, Between_BothEndsOccur) {
  Rng rng(2);
  std::map<uint64_t, int> seen;
  for (int i = 0; i < 6000; ++i) ++seen[rng.between(10, 15)];
  EXPECT_EQ(seen.size(), 6u);
  EXPECT_EQ(seen.begin()->first, 10u);
  EXPECT_EQ(seen.rbegin()->first, 15u);
  for (const auto& [value, count] : seen) EXPECT_NEAR(count, 1000, 150) << value;
}

TEST(Rng, Uniform_GoldenValuesAndRange) {
  Rng rng(7);
  EXPECT_DOUBLE_EQ(rng.uniform(), 0.8871202846290809);
  EXPECT_DOUBLE_EQ(rng.uniform(), 0.6088544824874289);
  EXPECT_DOUBLE_EQ(rng.uniform(), 0.24841477476334384);
  for (int i = 0; i < 10'000; ++i) {
    const double value = rng.uniform();
    ASSERT_GE(value, 0);
    ASSERT_LT(value, 1);
  }
}

TEST(Rng, Chance_ZeroDrawsNothing) {
  Rng a(3);
  Rng b(3);
  EXPECT_FALSE(a.chance(0));
  EXPECT_EQ(a.next(), b.next());  // switching a fault off does not shift the others
}

TEST(Rng, Chance_Frequency) {
  Rng rng(4);
  int hits = 0;
  for (int i = 0; i < 100'000; ++i) hits += rng.chance(0.3) ? 1 : 0;
  EXPECT_NEAR(hits, 30'000, 700);
  EXPECT_TRUE(rng.chance(1));
}

TEST(Rng, Fork_GoldenValuesAndIndependence) {
  Rng parent(7);
  Rng child = parent.fork(3);
  EXPECT_EQ(child.next(), 0xb15f457552327c33u);
  EXPECT_EQ(child.next(), 0xdb9a807561b1165du);
  EXPECT_EQ(parent.next(), 0x9bdde32a4e7792c2u);
  Rng same(7);
  Rng other = same.fork(4);
  EXPECT_NE(other.next(), 0xb15f457552327c33u);
  EXPECT_EQ(same.next(), 0x9bdde32a4e7792c2u);  // however much the child draws
}

}  // namespace
}  // namespace skua
