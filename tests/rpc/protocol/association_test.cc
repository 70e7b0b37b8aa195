#include "rpc/protocol/association.h"

#include <gtest/gtest.h>

#include <map>
#include <optional>
#include <set>
#include <tuple>
#include <vector>

#include "rpc/base/rng.h"

namespace skua::rpc {
namespace {

constexpr Ticks kStaleTicks = Association::kStaleAfter / kTickNs;

// --- What is believed ------------------------------------------------------------------------------------------------

/// Stamps around the places where 32 bits wrap.
class AssociationStampsTest : public ::testing::TestWithParam<Ticks> {
 protected:
  Association association_;
};

TEST_P(AssociationStampsTest, Hears_WhatIsNoMoreThanStaleAfterBehind) {
  const Ticks newest = GetParam();
  ASSERT_TRUE(association_.hears(newest, 0, kSecond));
  EXPECT_TRUE(association_.hears(newest - kStaleTicks, 1, kSecond)) << "just not stale";
  EXPECT_FALSE(association_.hears(newest - kStaleTicks - 1, 2, kSecond));
  EXPECT_FALSE(association_.hears(newest - INT32_MAX, 3, kSecond)) << "as old as a stamp can be told to be";
  EXPECT_TRUE(association_.hears(newest, 4, kSecond)) << "the same again is not stale";
}

TEST_P(AssociationStampsTest, Hears_OlderStampsDoNotMoveTheNewest) {
  const Ticks newest = GetParam();
  ASSERT_TRUE(association_.hears(newest, 0, kSecond));
  ASSERT_TRUE(association_.hears(newest - 1000, 1, kSecond));
  EXPECT_EQ(association_.newest, newest);
  ASSERT_TRUE(association_.hears(newest + 1000, 2, kSecond));
  EXPECT_EQ(association_.newest, newest + 1000);
  EXPECT_FALSE(association_.hears(newest + 999 - kStaleTicks, 3, kSecond));
}

TEST_P(AssociationStampsTest, Hears_ARefusedBundleChangesNothing) {
  ASSERT_TRUE(association_.hears(GetParam(), 7, kSecond));
  ASSERT_FALSE(association_.hears(GetParam() - kStaleTicks - 1, 900, 2 * kSecond));
  EXPECT_EQ(association_.newest, GetParam());
  EXPECT_EQ(association_.heard_ns, kSecond) << "or a flood of old bundles would keep the reference alive";
  EXPECT_EQ(association_.expected_sequence, 8u);
}

TEST_P(AssociationStampsTest, Hears_AfterLongSilenceWhateverComes) {
  const Ticks newest = GetParam();
  ASSERT_TRUE(association_.hears(newest, 0, kSecond));
  const TimeNs later = kSecond + Association::kUnheardFor;
  EXPECT_FALSE(association_.hears(newest - kStaleTicks - 1, 1, later - 1));
  // 60 s are a quarter of the circle: behind or ahead, the next one is the reference.
  EXPECT_TRUE(association_.hears(newest - kStaleTicks - 1, 1, later));
  EXPECT_EQ(association_.newest, newest - kStaleTicks - 1);
  EXPECT_FALSE(association_.hears(newest - 2 * kStaleTicks - 3, 2, later));
}

TEST_P(AssociationStampsTest, IsStale_AsHearsWithoutChangingAnything) {
  const Ticks newest = GetParam();
  EXPECT_FALSE(association_.is_stale(newest, kSecond)) << "nothing was heard";
  ASSERT_TRUE(association_.hears(newest, 0, kSecond));
  EXPECT_FALSE(association_.is_stale(newest - kStaleTicks, kSecond));
  EXPECT_TRUE(association_.is_stale(newest - kStaleTicks - 1, kSecond));
  EXPECT_FALSE(association_.is_stale(newest + 5, kSecond));
  EXPECT_TRUE(association_.is_stale(newest - kStaleTicks - 1, kSecond + Association::kUnheardFor - 1));
  EXPECT_FALSE(association_.is_stale(newest - kStaleTicks - 1, kSecond + Association::kUnheardFor));
}

/// What the receiver of the echo sees: the way there and back, however long it was held here.
TEST_P(AssociationStampsTest, Echo_IsTheNewestStampLaterByTheTimeItWasHeld) {
  const Ticks sent = GetParam();
  const TimeNs came = 5 * kSecond;
  ASSERT_TRUE(association_.hears(sent, 0, came));
  EXPECT_EQ(association_.echo(to_ticks(came)), sent);
  for (const DurationNs held : {DurationNs{0}, kMillisecond, 100 * kSecond, 300 * kSecond}) {
    EXPECT_EQ(association_.echo(to_ticks(came + held)), sent + to_ticks(held)) << held;
  }
  // An older one came late: its echo would make the network look slower than it is.
  ASSERT_TRUE(association_.hears(sent - 100, 1, came + kMillisecond));
  EXPECT_EQ(association_.echo(to_ticks(came + kMillisecond)), sent + to_ticks(kMillisecond));
}

INSTANTIATE_TEST_SUITE_P(AroundWraps, AssociationStampsTest,
                         ::testing::Values(Ticks{0}, Ticks{1}, Ticks{1000}, kStaleTicks, Ticks{1} << 31,
                                           (Ticks{1} << 31) - 1, UINT32_MAX, UINT32_MAX - kStaleTicks));

TEST(Association, Hears_CountsTheSequence) {
  Association association;
  ASSERT_TRUE(association.hears(10, UINT32_MAX - 1, kSecond));
  EXPECT_EQ(association.expected_sequence, 0u);
  EXPECT_TRUE(association.missing.empty()) << "nobody knows what was before the first";
  association.expected_sequence = UINT32_MAX;
  ASSERT_TRUE(association.hears(10, UINT32_MAX, kSecond));
  EXPECT_EQ(association.expected_sequence, 0u);
  ASSERT_TRUE(association.hears(10, 5, kSecond));
  ASSERT_TRUE(association.hears(10, 3, kSecond));
  EXPECT_EQ(association.expected_sequence, 6u) << "one that comes late";
}

/// The twin keeps 64-bit times, in which nothing wraps: what was sent more than kStaleAfter before the newest is not
/// heard.
TEST(Association, Hears_AsATwinThatDoesNotWrap) {
  Rng rng(5);
  Association association;
  TimeNs sender_ahead = static_cast<TimeNs>(rng.below(1000)) * kSecond;
  TimeNs now = kSecond;
  std::optional<TimeNs> newest;
  TimeNs heard = 0;
  int refused = 0;
  for (int i = 0; i < 200'000; ++i) {
    now += static_cast<DurationNs>(rng.below(rng.chance(0.001) ? 80 * kSecond : kMillisecond));
    if (newest.has_value() && now - heard >= Association::kUnheardFor) newest.reset();
    const TimeNs sent = now - static_cast<DurationNs>(rng.below(rng.chance(0.1) ? 2 * kSecond : 10 * kMillisecond));
    const int64_t behind = newest.has_value() ? (*newest >> 6) - ((sent + sender_ahead) >> 6) : 0;
    const bool expected = behind <= int64_t{kStaleTicks};
    ASSERT_EQ(association.hears(to_ticks(sent + sender_ahead), static_cast<uint32_t>(i), now), expected) << i;
    refused += expected ? 0 : 1;
    if (!expected) continue;
    newest = std::max(newest.value_or(sent + sender_ahead), sent + sender_ahead);
    heard = now;
  }
  EXPECT_GT(refused, 100);
}

// --- All of them -----------------------------------------------------------------------------------------------------

TEST(Associations, Find_OnlyByIndexEpochAndPeer) {
  Associations all;
  const Association& ours = all.make_own(7, 1234);
  EXPECT_EQ(all.find(ours.index, 1234, 7), &ours);
  EXPECT_EQ(all.find(ours.index, 1235, 7), nullptr);
  EXPECT_EQ(all.find(ours.index, 1234, 8), nullptr);
  EXPECT_EQ(all.find(ours.index + 1, 1234, 7), nullptr);
  EXPECT_EQ(all.find(kNoAssociation, 1234, 7), nullptr);
  EXPECT_TRUE(ours.is_ours);
  EXPECT_EQ(ours.remote_index, kNoAssociation);
}

TEST(Associations, OfBothDirections_AreTwo) {
  Associations all;
  const Association& ours = all.make_own(7, 1);
  const Association& theirs = all.make_accepted(7, 3, 33, 2);
  EXPECT_NE(&ours, &theirs);
  EXPECT_EQ(all.to(7), &ours);
  EXPECT_EQ(all.of(7, 3, 33), &theirs);
  EXPECT_FALSE(theirs.is_ours);
  EXPECT_EQ(theirs.remote_index, 3u);
  EXPECT_EQ(theirs.remote_epoch, 33u);
  EXPECT_EQ(all.of(7, 3, 34), nullptr);
  EXPECT_EQ(all.of(8, 3, 33), nullptr);
  EXPECT_EQ(all.to(8), nullptr);
  EXPECT_EQ(all.size(), 2u);
}

TEST(Associations, End_ForgetsEverythingOfIt) {
  Associations all;
  Association& ours = all.make_own(7, 1);
  Association& theirs = all.make_accepted(7, 3, 33, 2);
  const uint32_t index = ours.index;
  all.end(ours);
  EXPECT_EQ(all.to(7), nullptr);
  EXPECT_EQ(all.find(index, 1, 7), nullptr);
  EXPECT_EQ(all.of(7, 3, 33), &theirs);
  all.end(theirs);
  EXPECT_EQ(all.of(7, 3, 33), nullptr);
  EXPECT_EQ(all.size(), 0u);
}

TEST(Associations, AnIndex_IsUsedAgainAfterOthers) {
  Associations all;
  std::vector<Association*> made;
  for (uint32_t i = 0; i < 5; ++i) made.push_back(&all.make_own(i, i));
  const uint32_t first = made[1]->index;
  const uint32_t second = made[3]->index;
  all.end(*made[1]);
  all.end(*made[3]);
  const uint32_t next = all.make_own(20, 20).index;
  EXPECT_NE(next, second) << "the one that was free for the longest time is first";
  std::set<uint32_t> used = {next};
  for (uint32_t i = 21; i < 24; ++i) used.insert(all.make_own(i, i).index);
  EXPECT_TRUE(used.contains(first) || used.contains(second)) << "indices are used again, or their array grows for ever";
}

TEST(Associations, OneAfterTheOther_TakeLittleRoomAndNeverTheLastIndex) {
  Associations all;
  uint32_t last = UINT32_MAX;
  uint32_t highest = 0;
  for (uint32_t i = 0; i < 1000; ++i) {
    Association& made = all.make_own(7, i);
    EXPECT_NE(made.index, last);
    last = made.index;
    highest = std::max(highest, last);
    all.end(made);
  }
  EXPECT_LT(highest, 10u);
}

TEST(Associations, Retire_OthersMakeTheirOwn) {
  Associations all;
  Association& old = all.make_own(7, 1);
  all.retire(old);
  EXPECT_EQ(all.to(7), nullptr);
  EXPECT_EQ(all.find(old.index, 1, 7), &old) << "those that are in it stay";
  Association& next = all.make_own(7, 2);
  EXPECT_EQ(all.to(7), &next);
  all.end(old);
  EXPECT_EQ(all.to(7), &next) << "the old one's end is not the new one's";
  all.end(next);
  EXPECT_EQ(all.size(), 0u);
}

/// Random use, against plain maps.
TEST(Associations, AsATwin) {
  using Key = std::tuple<uint32_t, uint32_t, uint32_t>;
  Rng rng(11);
  Associations all;
  std::map<uint32_t, Association*> own;
  std::map<Key, Association*> accepted;
  std::set<Association*> living;
  for (int i = 0; i < 20'000; ++i) {
    const auto peer = static_cast<uint32_t>(rng.below(6));
    const Key key = {peer, static_cast<uint32_t>(rng.below(3)), static_cast<uint32_t>(rng.below(2))};
    const auto epoch = static_cast<uint32_t>(rng.next());
    switch (rng.below(4)) {
      case 0:
        if (own.contains(peer)) break;
        living.insert(own[peer] = &all.make_own(peer, epoch));
        break;
      case 1:
        if (accepted.contains(key)) break;
        living.insert(accepted[key] = &all.make_accepted(peer, std::get<1>(key), std::get<2>(key), epoch));
        break;
      case 2:
        if (const auto found = own.find(peer); found != own.end()) {
          all.retire(*found->second);
          own.erase(found);
        }
        break;
      default: {
        if (living.empty()) break;
        auto ended = living.begin();
        std::advance(ended, rng.below(living.size()));
        std::erase_if(own, [&](const auto& one) { return one.second == *ended; });
        std::erase_if(accepted, [&](const auto& one) { return one.second == *ended; });
        all.end(**ended);
        living.erase(ended);
      }
    }
    ASSERT_EQ(all.size(), living.size());
    for (uint32_t p = 0; p < 6; ++p) ASSERT_EQ(all.to(p), own.contains(p) ? own[p] : nullptr);
    ASSERT_EQ(all.of(peer, std::get<1>(key), std::get<2>(key)), accepted.contains(key) ? accepted[key] : nullptr);
    for (const Association* one : living) ASSERT_EQ(all.find(one->index, one->epoch, one->peer), one);
  }
}

/// A bundle is compared with its association after others' code ran.
TEST(Associations, TheAddressOfOneThatEnded_IsNobodysUntilBury) {
  Associations all;
  const Association* ended = &all.make_own(1, 10);
  all.end(*all.to(1));
  for (uint32_t peer = 2; peer < 50; ++peer) EXPECT_NE(&all.make_own(peer, peer), ended);
  EXPECT_EQ(all.find(0, 10, 1), nullptr);
  all.bury();
  EXPECT_EQ(all.size(), 48u);
}

}  // namespace
}  // namespace skua::rpc
