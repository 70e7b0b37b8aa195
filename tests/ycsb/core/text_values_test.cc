#include "ycsb/core/text_values.h"

#include <gtest/gtest.h>

#include <string>
#include <vector>

namespace skua::ycsb {
namespace {

TEST(TextValues, JavaStringHash_MatchesJava) {
  EXPECT_EQ(java_string_hash(""), 0);
  EXPECT_EQ(java_string_hash("a"), 97);
  EXPECT_EQ(java_string_hash("user6284781860667377211"), -594971599);
  EXPECT_EQ(java_string_hash("user6284781860667377211:field0:"), -56807877);
  EXPECT_EQ(java_string_hash(":field0:", java_string_hash("user6284781860667377211")), -56807877);
}

TEST(TextValues, FillRandomText_PrintableAndWithinItsSlack) {
  Rng rng(1);
  for (size_t length = 0; length < 40; ++length) {
    std::vector<char> buffer(length + 16, '\x7f');
    fill_random_text(buffer.data(), length, rng);
    for (size_t i = 0; i < length; ++i) {
      EXPECT_GE(buffer[i], ' ');
      EXPECT_LE(buffer[i], '\x7f');
    }
    for (size_t i = length + 7; i < buffer.size(); ++i) EXPECT_EQ(buffer[i], '\x7f') << length;
  }
}

// Twin: YCSB's byte-by-byte form on the same random numbers.
TEST(TextValues, FillRandomText_AgreesWithTheByteByByteForm) {
  Rng rng(9);
  Rng same(9);
  std::string text(100 + 8, '\0');
  fill_random_text(text.data(), 100, rng);
  text.resize(100);
  std::string expected;
  while (expected.size() < 100) {
    const uint64_t both = same.next();
    for (const uint64_t r : std::initializer_list<uint64_t>{both & 0xffffffff, both >> 32}) {
      constexpr uint64_t kMasks[] = {31, 63, 95, 31, 63, 95};
      for (int i = 0; i < 6; ++i) expected += static_cast<char>((r >> 5 * i & kMasks[i]) + ' ');
    }
  }
  expected.resize(100);
  EXPECT_EQ(text, expected);
}

TEST(TextValues, FillDeterministicText_MatchesJava) {
  std::string text(100, '\0');
  fill_deterministic_text(text.data(), text.size(), "user6284781860667377211", "field3");
  EXPECT_EQ(text,
            "user6284781860667377211:field3:-56807784:-1874878672:1967282817:-1787301858:"
            "-652319809:-382740913:-6");
}

TEST(TextValues, IsDeterministicText_SeesEveryChange) {
  for (size_t length = 0; length < 60; ++length) {
    std::string text(length, '\0');
    fill_deterministic_text(text.data(), length, "user1", "field0");
    EXPECT_TRUE(is_deterministic_text(text, length, "user1", "field0"));
    EXPECT_FALSE(is_deterministic_text(text + "x", length, "user1", "field0"));
    for (size_t i = 0; i < length; ++i) {
      std::string changed = text;
      changed[i] ^= 1;
      EXPECT_FALSE(is_deterministic_text(changed, length, "user1", "field0")) << length << " " << i;
    }
  }
}

}  // namespace
}  // namespace skua::ycsb
