// Beside a dumb twin: a list that is searched from its front.
#include "kvstore/shard/key_places.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <cstdint>
#include <utility>
#include <vector>

#include "rpc/base/rng.h"

namespace skua::kv {
namespace {

/// Keys are numbers. `hashes`: so many different hashes they have.
class KeyPlacesTest : public ::testing::TestWithParam<uint64_t> {
 protected:
  struct Entry {
    uint32_t key = 0;
    uint32_t number = 0;
  };
  [[nodiscard]] static uint64_t hash_of(uint32_t key) { return mix64(key % GetParam()); }
  static auto is(uint32_t key) {
    return [key](const Entry& entry) { return entry.key == key; };
  }

  void add(uint32_t key) {
    const auto found = std::ranges::find_if(twin_, is(key));
    const Entry entry{key, ++number_};
    const auto [place, is_new] = places_.try_add(hash_of(key), entry, is(key));
    ASSERT_EQ(is_new, found == twin_.end());
    if (is_new) {
      twin_.push_back(entry);
    } else {
      ASSERT_EQ(place->number, found->number) << "what is there stays";
      place->number = found->number = number_;
    }
  }

  void remove(uint32_t key) { ASSERT_EQ(places_.remove(hash_of(key), is(key)), std::erase_if(twin_, is(key)) == 1); }

  void compare() {
    ASSERT_EQ(places_.size(), twin_.size());
    ASSERT_EQ(places_.empty(), twin_.empty());
    for (uint32_t key = 0; key < kKeys; ++key) {
      const auto found = std::ranges::find_if(twin_, is(key));
      const Entry* const place = std::as_const(places_).find(hash_of(key), is(key));
      ASSERT_EQ(place != nullptr, found != twin_.end()) << key;
      if (place != nullptr) {
        ASSERT_EQ(place->number, found->number) << key;
      }
    }
  }

  static constexpr uint32_t kKeys = 60;
  KeyPlaces<Entry> places_;
  std::vector<Entry> twin_;
  uint32_t number_ = 0;
};

TEST_P(KeyPlacesTest, BehaveLikeTheirDumbTwin) {
  Rng rng(GetParam());
  for (int round = 0; round < 20'000; ++round) {
    // Half of the time there are more and more, and half of the time fewer.
    const bool fills = round / 500 % 2 == 0;
    const auto key = static_cast<uint32_t>(rng.below(kKeys));
    if (rng.chance(0.002)) {
      places_.reset(rng.below(100));
      twin_.clear();
    } else if (rng.chance(fills ? 0.7 : 0.3)) {
      add(key);
    } else {
      remove(key);
    }
    compare();
    if (HasFatalFailure()) return;
  }
}

INSTANTIATE_TEST_SUITE_P(Hashes, KeyPlacesTest, ::testing::Values(1, 3, 17, 60));

TEST(KeyPlacesLargeTest, FindsAllAfterGrowing) {
  KeyPlaces<uint32_t> places;
  EXPECT_EQ(places.find(1, [](uint32_t) { return true; }), nullptr);
  EXPECT_FALSE(places.remove(1, [](uint32_t) { return true; }));
  for (uint32_t i = 0; i < 10'000; ++i) {
    ASSERT_TRUE(places.try_add(i, i, [](uint32_t) { return true; }).second) << "each has a hash of its own";
  }
  for (uint32_t i = 0; i < 10'000; i += 2) ASSERT_TRUE(places.remove(i, [i](uint32_t place) { return place == i; }));
  for (uint32_t i = 0; i < 10'000; ++i) {
    const uint32_t* const place = places.find(i, [](uint32_t) { return true; });
    ASSERT_EQ(place != nullptr, i % 2 == 1);
    if (place != nullptr) {
      ASSERT_EQ(*place, i);
    }
  }
  places.reset(1);
  EXPECT_TRUE(places.empty());
  for (uint32_t i = 0; i < 10'000; ++i) ASSERT_EQ(places.find(i, [](uint32_t) { return true; }), nullptr);
}

}  // namespace
}  // namespace skua::kv
