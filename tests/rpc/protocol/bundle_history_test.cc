#include "rpc/protocol/bundle_history.h"

#include <gtest/gtest.h>

#include <deque>
#include <map>
#include <set>
#include <string>
#include <tuple>
#include <vector>

#include "rpc/base/rng.h"

namespace skua::rpc {
namespace {

using Taken = std::vector<std::tuple<uint32_t, uint32_t, bool>>;

Taken take(SentBundles& sent, uint32_t sequence) {
  Taken out;
  sent.take(sequence,
            [&](uint32_t session, uint32_t number, bool is_answer) { out.emplace_back(session, number, is_answer); });
  return out;
}

TEST(SentBundlesTest, GivesWhatWasInABundle_Once) {
  SentBundles sent;
  sent.add(1, 10, false);
  sent.add(2, 20, true);
  sent.seal(7);
  sent.add(3, 30, false);
  sent.seal(8);
  EXPECT_EQ(take(sent, 7), (Taken{{1, 10, false}, {2, 20, true}}));
  EXPECT_EQ(take(sent, 7), Taken{});
  EXPECT_EQ(take(sent, 8), (Taken{{3, 30, false}}));
}

TEST(SentBundlesTest, KnowsNothingOfOthers) {
  SentBundles sent;
  EXPECT_EQ(take(sent, 0), Taken{});
  sent.add(1, 10, false);
  sent.seal(5);
  EXPECT_EQ(take(sent, 4), Taken{});
  EXPECT_EQ(take(sent, 5 + SentBundles::kBundles), Taken{});
}

TEST(SentBundlesTest, ForgetsTheOldest) {
  SentBundles sent;
  for (uint32_t i = 0; i <= SentBundles::kBundles; ++i) {
    sent.add(0, i, false);
    sent.seal(i);
  }
  EXPECT_EQ(take(sent, 0), Taken{});
  EXPECT_EQ(take(sent, 1), (Taken{{0, 1, false}}));
}

TEST(SentBundlesTest, WhatIsWrittenMeanwhileDoesNotCount) {
  SentBundles sent;
  for (uint32_t i = 0; i < 16; ++i) sent.add(0, i, false);
  sent.seal(0);
  uint32_t seen = 0;
  sent.take(0, [&](uint32_t session, uint32_t number, bool is_answer) {
    ++seen;
    sent.add(session, number, is_answer);
  });
  EXPECT_EQ(seen, 16u);
  sent.seal(1);
  EXPECT_EQ(take(sent, 1).size(), 16u);
}

/// Against a plain list of everything: what is given is right, and the last bundles are all given.
TEST(SentBundlesTest, AgreesWithAList) {
  Rng rng(1);
  SentBundles sent;
  std::map<uint32_t, Taken> all;
  uint32_t sequence = UINT32_MAX - 100;  // sequence numbers wrap
  for (int round = 0; round < 3000; ++round) {
    Taken& bundle = all[sequence];
    for (uint64_t n = 1 + rng.below(16); n > 0; --n) {
      const auto session = static_cast<uint32_t>(rng.below(1u << 20));
      const auto number = static_cast<uint32_t>(rng.next());
      const bool is_answer = rng.chance(0.5);
      sent.add(session, number, is_answer);
      bundle.emplace_back(session, number, is_answer);
    }
    sent.seal(sequence);
    if (rng.chance(0.3)) {
      const auto back = static_cast<uint32_t>(rng.below(100));
      const Taken got = take(sent, sequence - back);
      // 32 bundles of 16 records are remembered in any case.
      if (back < SentBundles::kRecords / 16) {
        EXPECT_EQ(got, all[sequence - back]);
        all[sequence - back].clear();
      } else if (!got.empty()) {
        EXPECT_EQ(got, all[sequence - back]);
        all[sequence - back].clear();
      }
    }
    ++sequence;
  }
}

std::set<uint32_t> told(MissingBundles& missing, DurationNs patience_ns, TimeNs now) {
  std::set<uint32_t> out;
  MissingRecord gap;
  while (missing.take_due(patience_ns, now, gap)) {
    for (uint32_t i = 0; i < gap.count; ++i) out.insert(gap.first + i);
  }
  return out;
}

TEST(MissingBundlesTest, AGapIsTold_OnceItIsOld) {
  MissingBundles missing;
  EXPECT_TRUE(missing.empty());
  missing.on_gap(10, 13, 1000);
  EXPECT_FALSE(missing.empty());
  EXPECT_EQ(told(missing, 100, 1099), (std::set<uint32_t>{}));
  EXPECT_EQ(told(missing, 100, 1100), (std::set<uint32_t>{10, 11, 12}));
  EXPECT_TRUE(missing.empty());
}

TEST(MissingBundlesTest, ALateOneClosesItsGap) {
  for (uint32_t late = 10; late < 13; ++late) {
    MissingBundles missing;
    missing.on_gap(10, 13, 0);
    missing.on_late(late);
    missing.on_late(99);
    std::set<uint32_t> left{10, 11, 12};
    left.erase(late);
    EXPECT_EQ(told(missing, 0, 0), left) << late;
  }
}

TEST(MissingBundlesTest, AllOfAGapMayBeLate) {
  MissingBundles missing;
  missing.on_gap(10, 13, 0);
  for (const uint32_t late : {11u, 10u, 12u}) missing.on_late(late);
  EXPECT_TRUE(missing.empty());
}

TEST(MissingBundlesTest, SequenceNumbersWrap) {
  MissingBundles missing;
  missing.on_gap(UINT32_MAX, 2, 0);
  missing.on_late(0);
  EXPECT_EQ(told(missing, 0, 0), (std::set<uint32_t>{UINT32_MAX, 1}));
}

TEST(MissingBundlesTest, IsBounded) {
  MissingBundles missing;
  missing.on_gap(0, SentBundles::kBundles + 1, 0);
  EXPECT_TRUE(missing.empty()) << "a gap that nobody remembers";
  for (uint32_t i = 0; i < 100; ++i) missing.on_gap(10 * i, 10 * i + 2, 0);
  EXPECT_EQ(told(missing, 0, 0).size(), 2 * MissingBundles::kGapsMax);
}

}  // namespace
}  // namespace skua::rpc
