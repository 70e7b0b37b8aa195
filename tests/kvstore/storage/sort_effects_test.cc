#include "kvstore/storage/sort_effects.h"

#include <gtest/gtest.h>

#include <deque>
#include <map>
#include <string>

#include "rpc/base/rng.h"

namespace skua::kv {
namespace {

/// The dumb twin is a map.
void expect_sorted(const std::deque<std::string>& keys) {
  std::vector<AppliedEffect> effects;
  std::map<std::string_view, uint64_t> expected;
  for (const std::string& key : keys) {
    const uint64_t version = effects.size() + 1;
    effects.push_back({.key = key, .value = std::nullopt, .version = version});
    expected[key] = version;
  }
  std::vector<AppliedEffect> sorted(3);  // of before
  sort_last_of_key(effects, sorted);
  ASSERT_EQ(sorted.size(), expected.size());
  auto next = expected.begin();
  for (const AppliedEffect& effect : sorted) {
    EXPECT_EQ(effect.key, next->first);
    EXPECT_EQ(effect.version, next->second);
    ++next;
  }
}

TEST(SortEffects, SortLastOfKey_EdgesOfPrefixes) {
  expect_sorted({});
  expect_sorted({"a"});
  expect_sorted({"a", "a", "a"});
  // One key is another's beginning, zeros behind its end, the eight bytes and their end, bytes above 127.
  expect_sorted({"user1", "user", std::string("user\0", 5), std::string("user\0\0", 6), "user\xff", "user12345678",
                 "user123456789", "user1234567", "user", "user123456781"});
  expect_sorted({"b", "a"});
}

TEST(SortEffects, SortLastOfKey_AgreesWithAMap) {
  Rng rng(7);
  for (int round = 0; round < 200; ++round) {
    std::deque<std::string> keys;
    const std::string prefix(rng.below(4), 'p');
    for (uint64_t n = rng.below(round % 10 == 0 ? 3000 : 200); n > 0; --n) {  // many are sorted in another way
      std::string key = prefix;
      for (uint64_t length = rng.between(1, 12); length > 0; --length) key += static_cast<char>(rng.below(3) * 127);
      keys.push_back(key);
    }
    expect_sorted(keys);
  }
}

TEST(SortEffects, SortLastOfKey_ManyNumbersWithOneBeginning) {
  // 1, 2 and 3 bytes differ among the numbers.
  for (const uint64_t numbers : {uint64_t{100}, uint64_t{10'000}, uint64_t{1'000'000}}) {
    Rng rng(numbers);
    std::deque<std::string> keys;
    for (int i = 0; i < 2000; ++i) keys.push_back("user:" + std::to_string(10'000'000 + rng.below(numbers)));
    expect_sorted(keys);
  }
}

}  // namespace
}  // namespace skua::kv
