#include "ycsb/core/zipfian.h"

#include <gtest/gtest.h>

#include <cmath>
#include <map>
#include <vector>

namespace skua::ycsb {
namespace {

double zeta_term_by_term(uint64_t n, double theta) {
  double sum = 0;
  for (uint64_t i = 1; i <= n; ++i) sum += 1 / std::pow(static_cast<double>(i), theta);
  return sum;
}

TEST(Zeta, Zeta_AgreesWithTermByTermSum) {
  for (const double theta : {0.1, 0.5, 0.99}) {
    for (const uint64_t n : std::initializer_list<uint64_t>{1, 2, 3, 1000, 8191, 8192, 8193, 20'000, 3'000'000}) {
      const double expected = zeta_term_by_term(n, theta);
      EXPECT_NEAR(zeta(n, theta) / expected, 1, 1e-11) << n << " " << theta;
    }
  }
}

TEST(Zeta, Zeta_KnownValues) {
  EXPECT_NEAR(zeta(1'000'000, 0.99), 15.3918, 0.0001);
  EXPECT_NEAR(zeta(10'000'000, 0.99), 18.0662, 0.0001);
  EXPECT_NEAR(zeta(10'000'000'000, 0.99), 26.46902820178302, 1e-6);
}

TEST(Zeta, ExtendZeta_InAnyStepsGivesTheSame) {
  double sum = 0;
  uint64_t from = 0;
  for (const uint64_t to : std::initializer_list<uint64_t>{1, 2, 10, 1000, 9000, 9001, 50'000, 1'000'000}) {
    sum = extend_zeta(sum, from, to, 0.99);
    EXPECT_NEAR(sum, zeta(to, 0.99), 1e-9) << to;
    from = to;
  }
  EXPECT_EQ(extend_zeta(sum, 10, 10, 0.99), sum);
}

TEST(Zipfian, RankOf_EndsOfTheRange) {
  for (const uint64_t items : std::initializer_list<uint64_t>{1, 2, 3, 1000}) {
    const Zipfian zipfian(items, 0.99);
    EXPECT_EQ(zipfian.rank_of(0), 0U);
    EXPECT_LT(zipfian.rank_of(std::nextafter(1.0, 0.0)), items);
  }
}

// The first two ranks are exact; ranks above follow the method's continuous approximation.
TEST(Zipfian, Next_FrequenciesMatchClosedForm) {
  constexpr uint64_t kItems = 1000;
  constexpr int kDraws = 2'000'000;
  const Zipfian zipfian(kItems, 0.99);
  Rng rng(1);
  std::vector<double> share(kItems, 0);
  for (int i = 0; i < kDraws; ++i) share.at(zipfian.next(rng)) += 1.0 / kDraws;
  const double sum = zeta(kItems, 0.99);
  EXPECT_NEAR(share[0], 1 / sum, 0.001);
  EXPECT_NEAR(share[1], std::pow(0.5, 0.99) / sum, 0.001);
  double first_hundred = 0;
  for (size_t rank = 0; rank < 100; ++rank) first_hundred += share[rank];
  EXPECT_NEAR(first_hundred, zeta(100, 0.99) / sum, 0.02);
  EXPECT_GT(share[kItems - 1], 0);
}

// A true zipf(0.99) over a million keys gives the top key 6.5 %.
TEST(Zipfian, Next_TopShareOfAMillion) {
  const Zipfian zipfian(1'000'000, 0.99);
  EXPECT_NEAR(1 / zipfian.zeta_of_items(), 0.065, 0.0005);
}

TEST(Zipfian, GrowTo_ExtendsZetaAndReachesNewRanks) {
  Zipfian grown(1000, 0.99);
  grown.grow_to(2000);
  EXPECT_EQ(grown.items(), 2000U);
  EXPECT_NEAR(grown.zeta_of_items(), zeta(2000, 0.99), 1e-9);
  grown.grow_to(1500);  // never shrinks
  EXPECT_EQ(grown.items(), 2000U);
  EXPECT_GT(grown.rank_of(0.9999), 1000U);
}

TEST(ScrambledZipfian, KeyOfRank_MatchesJavaAndYcsbCpp) {
  const ScrambledZipfian java(0, 1001, KeyHash::kJava);
  EXPECT_EQ(java.key_of_rank(0), 144U);
  EXPECT_EQ(java.key_of_rank(1), 610U);
  EXPECT_EQ(java.key_of_rank(2), 213U);
  const ScrambledZipfian cpp(0, 1000, KeyHash::kCpp);
  EXPECT_EQ(cpp.key_of_rank(0), 405U);
  EXPECT_EQ(cpp.key_of_rank(1), 996U);
  EXPECT_EQ(cpp.key_of_rank(2), 223U);
}

// The hottest key gets 3.78 % and the second 1.90 %, whatever the number of records.
TEST(ScrambledZipfian, Next_HottestSharesDoNotDependOnSize) {
  for (const uint64_t count : std::initializer_list<uint64_t>{1001, 1'000'001}) {
    const ScrambledZipfian zipfian(5, count, KeyHash::kJava);
    Rng rng(2);
    constexpr int kDraws = 1'000'000;
    std::map<uint64_t, double> share;
    for (int i = 0; i < kDraws; ++i) {
      const uint64_t key = zipfian.next(rng);
      ASSERT_GE(key, 5U);
      ASSERT_LT(key, 5 + count);
      share[key] += 1.0 / kDraws;
    }
    const double background = 1.0 / static_cast<double>(count);
    EXPECT_NEAR(share[zipfian.key_of_rank(0)], 0.0378 + 0.5 * background, 0.0015) << count;
    EXPECT_NEAR(share[zipfian.key_of_rank(1)], 0.0190 + 0.5 * background, 0.0015) << count;
  }
}

// For a million keys only 58 % of the draws come from ranks below a million.
TEST(ScrambledZipfian, RanksBeyondTheRecordsAreCommon) {
  const Zipfian ranks(10'000'000'001, 0.99, 26.46902820178302);
  Rng rng(3);
  int below = 0;
  constexpr int kDraws = 200'000;
  for (int i = 0; i < kDraws; ++i) below += ranks.next(rng) < 1'000'000 ? 1 : 0;
  EXPECT_NEAR(static_cast<double>(below) / kDraws, 0.58, 0.01);
}

TEST(ScrambledZipfian, OtherThetaChangesTheSkew) {
  const ScrambledZipfian zipfian(0, 1001, KeyHash::kJava, 0.5);
  Rng rng(4);
  int hottest = 0;
  for (int i = 0; i < 100'000; ++i) hottest += zipfian.next(rng) == 144 ? 1 : 0;
  EXPECT_LT(hottest, 300);  // near uniform: about 100
}

}  // namespace
}  // namespace skua::ycsb
