#include "control/core/partition.h"

#include <gtest/gtest.h>

#include <string>
#include <vector>

namespace skua::control {
namespace {

// The data of every table depends on these values. If this test fails, the code is wrong, not the
// vectors.
TEST(KeyHash, GoldenVectors) {
  const std::string hundred(100, 'k');
  const std::string thousand(1000, 'k');
  EXPECT_EQ(key_hash({}), 0x2d06800538d394c2u);
  EXPECT_EQ(key_hash(as_byte_span("a")), 0xe6c632b61e964e1fu);
  EXPECT_EQ(key_hash(as_byte_span("user1")), 0xeff89d018b2aae9cu);
  EXPECT_EQ(key_hash(as_byte_span("user6284781860667377211")), 0x5c8c12554f88eabcu);
  EXPECT_EQ(key_hash(as_byte_span(hundred)), 0xe57acbcb82758df2u);
  EXPECT_EQ(key_hash(as_byte_span(thousand)), 0x308ce2f421066779u);
}

TEST(KeyHash, TakesAnyBytes) {
  const std::string zeros(3, '\0');
  EXPECT_NE(key_hash(as_byte_span(zeros)), key_hash({}));
}

TEST(ShardOfKey, GoldenVectors) {
  EXPECT_EQ(shard_of_key(as_byte_span("user1"), 1), 0u);
  EXPECT_EQ(shard_of_key(as_byte_span("user1"), 16), 12u);
  EXPECT_EQ(shard_of_key(as_byte_span("user1"), 4096), 3740u);
}

TEST(ShardOfKey, SpreadsSimilarKeysEvenly) {
  constexpr uint32_t kShards = 12;
  constexpr int kKeys = 120'000;
  std::vector<int> counts(kShards);
  for (int i = 0; i < kKeys; ++i) {
    ++counts[shard_of_key(as_byte_span("user" + std::to_string(i)), kShards)];
  }
  for (const int count : counts) EXPECT_NEAR(count, kKeys / kShards, kKeys / kShards / 10);
}

}  // namespace
}  // namespace skua::control
