#include "kvstore/ctl/key_range.h"

#include <gtest/gtest.h>

#include <string>

#include "rpc/base/rng.h"

namespace skua::kv::ctl {
namespace {

TEST(KeyRange, OfAPrefix) {
  EXPECT_EQ(range_of_prefix("user:"), (KeyRange{"user:", "user;"}));
  EXPECT_EQ(range_of_prefix("a\xff\xff"), (KeyRange{"a\xff\xff", "b"}));
  EXPECT_EQ(range_of_prefix("\x7f"), (KeyRange{"\x7f", "\x80"}));
  EXPECT_EQ(range_of_prefix(std::string(1, '\0')), (KeyRange{std::string(1, '\0'), "\x01"}));
  EXPECT_EQ(range_of_prefix("\xff\xff"), (KeyRange{"\xff\xff", ""})) << "nothing is above";
  EXPECT_EQ(range_of_prefix(""), KeyRange());
}

// Of few different bytes, so that many keys begin with the prefix.
std::string any_text(Rng& rng) {
  constexpr char kBytes[] = {'\0', 'a', '\x7f', '\xfe', '\xff'};
  std::string text;
  for (uint64_t left = rng.below(4); left > 0; --left) text.push_back(kBytes[rng.below(sizeof kBytes)]);
  return text;
}

TEST(KeyRange, HoldsExactlyTheKeysThatBeginWithThePrefix) {
  Rng rng(7);
  for (int i = 0; i < 20'000; ++i) {
    const std::string prefix = any_text(rng);
    const std::string key = any_text(rng);
    const KeyRange range = range_of_prefix(prefix);
    const bool is_in = key >= range.start && (range.end.empty() || key < range.end);
    ASSERT_EQ(is_in, key.starts_with(prefix));
  }
}

}  // namespace
}  // namespace skua::kv::ctl
