#include "ycsb/core/key_choosers.h"

#include <gtest/gtest.h>

#include <map>
#include <vector>

namespace skua::ycsb {
namespace {

constexpr int kDraws = 400'000;

template <typename Chooser>
std::map<uint64_t, double> shares(Chooser chooser, uint64_t last) {
  Rng rng(11);
  std::map<uint64_t, double> share;
  for (int i = 0; i < kDraws; ++i) share[chooser.next(rng, last)] += 1.0 / kDraws;
  return share;
}

double share_between(const std::map<uint64_t, double>& share, uint64_t low, uint64_t high) {
  double sum = 0;
  for (auto it = share.lower_bound(low); it != share.end() && it->first <= high; ++it) sum += it->second;
  return sum;
}

TEST(UniformChooser, Next_AllKeysAlike) {
  const auto share = shares(UniformChooser{10, 100}, 1000);
  ASSERT_EQ(share.size(), 100U);
  EXPECT_EQ(share.begin()->first, 10U);
  for (const auto& [key, part] : share) EXPECT_NEAR(part, 0.01, 0.001) << key;
}

TEST(ExactZipfianChooser, Next_TopKeyHasItsTrueShare) {
  const auto share = shares(ExactZipfianChooser{7, Zipfian(10'000, 0.99)}, 100'000);
  EXPECT_EQ(share.begin()->first, 7U);
  EXPECT_NEAR(share.begin()->second, 1 / zeta(10'000, 0.99), 0.002);
  EXPECT_LE(share.rbegin()->first, 10'006U);
}

TEST(LatestChooser, Next_NewestIsHottest) {
  const auto share = shares(LatestChooser{Zipfian(999, 0.99)}, 999);
  EXPECT_NEAR(share.at(999), 1 / zeta(999, 0.99), 0.003);
  EXPECT_NEAR(share.at(998), 0.5035 / zeta(999, 0.99), 0.003);
  EXPECT_GE(share.begin()->first, 1U);
  EXPECT_EQ(share.rbegin()->first, 999U);
}

TEST(LatestChooser, Next_FollowsGrowth) {
  LatestChooser chooser{Zipfian(999, 0.99)};
  Rng rng(1);
  uint64_t highest = 0;
  for (int i = 0; i < 1000; ++i) highest = std::max(highest, chooser.next(rng, 1500));
  EXPECT_EQ(highest, 1500U);
  EXPECT_EQ(LatestChooser{Zipfian(1, 0.99)}.next(rng, 0), 0U);
}

TEST(HotspotChooser, Next_SharesOfBothSets) {
  const auto share = shares(HotspotChooser{100, 20, 80, 0.8}, 1000);
  ASSERT_EQ(share.size(), 100U);
  EXPECT_NEAR(share_between(share, 100, 119), 0.8, 0.005);
  EXPECT_NEAR(share_between(share, 120, 199), 0.2, 0.005);
  EXPECT_NEAR(share.at(100), 0.04, 0.002);
  EXPECT_NEAR(share.at(199), 0.0025, 0.0006);
}

TEST(HotspotChooser, Next_EmptySetsAreNeverDrawnFrom) {
  EXPECT_EQ(shares(HotspotChooser{0, 0, 10, 0.8}, 100).size(), 10U);
  EXPECT_EQ(shares(HotspotChooser{0, 10, 0, 0.8}, 100).size(), 10U);
}

// With percentile 95 and range 200, 95 % of the draws lie within 200 of the last insert.
TEST(ExponentialChooser, Next_PercentileWithinRange) {
  const auto share = shares(ExponentialChooser(95, 200), 100'000);
  EXPECT_NEAR(share_between(share, 100'000 - 199, 100'000), 0.95, 0.003);
  EXPECT_EQ(share.rbegin()->first, 100'000U);
}

TEST(ExponentialChooser, Next_RedrawsBelowZero) {
  const auto share = shares(ExponentialChooser(95, 1000), 9);
  EXPECT_EQ(share.size(), 10U);
}

TEST(SequentialChooser, Next_WalksRoundAndIsShared) {
  SequentialChooser one{5, 3, std::make_shared<std::atomic<uint64_t>>(0)};
  SequentialChooser other = one;
  Rng rng(1);
  EXPECT_EQ(one.next(rng, 0), 5U);
  EXPECT_EQ(other.next(rng, 0), 6U);
  EXPECT_EQ(one.next(rng, 0), 7U);
  EXPECT_EQ(other.next(rng, 0), 5U);
}

TEST(KindChooser, KindOf_NormalisesWeightsInOrder) {
  const KindChooser chooser({2, 1, 0, 0, 1});
  EXPECT_EQ(chooser.kind_of(0), OpKind::kRead);
  EXPECT_EQ(chooser.kind_of(0.499), OpKind::kRead);
  EXPECT_EQ(chooser.kind_of(0.5), OpKind::kUpdate);
  EXPECT_EQ(chooser.kind_of(0.749), OpKind::kUpdate);
  EXPECT_EQ(chooser.kind_of(0.75), OpKind::kReadModifyWrite);
  EXPECT_EQ(chooser.kind_of(0.9999999), OpKind::kReadModifyWrite);
}

TEST(KindChooser, KindOf_NeverPicksAZeroWeight) {
  const KindChooser scans({0, 0, 0, 0.1, 0});
  Rng rng(5);
  for (int i = 0; i < 10'000; ++i) ASSERT_EQ(scans.next(rng), OpKind::kScan);
}

}  // namespace
}  // namespace skua::ycsb
