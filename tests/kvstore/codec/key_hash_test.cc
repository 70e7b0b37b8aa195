#include "kvstore/codec/key_hash.h"

#include <gtest/gtest.h>

#include <string>
#include <vector>

namespace skua::kv {
namespace {

TEST(KeyHashTest, KeyHash_GoldenValues) {
  // Pinned for ever: a change would send every key of an existing table to another shard.
  EXPECT_EQ(key_hash(""), 0xe4bacea5c4b9b499ULL);
  EXPECT_EQ(key_hash("a"), 0x24b9abefa5c0d4ebULL);
  EXPECT_EQ(key_hash("user6284781860667377211"), 0x0427850b93a56086ULL);
  EXPECT_EQ(key_hash(std::string(1024, 'k')), 0x1e3bce71aad471b8ULL);
}

TEST(KeyHashTest, KeyHash_TrailingZerosCount) {
  EXPECT_NE(key_hash(std::string_view("k\0", 2)), key_hash("k"));
  EXPECT_NE(key_hash(std::string(8, '\0')), key_hash(std::string(16, '\0')));
}

TEST(KeyHashTest, ShardOfKey_GoldenValues) {
  EXPECT_EQ(shard_of_key("user6284781860667377211", 1), 0U);
  EXPECT_EQ(shard_of_key("user6284781860667377211", 12), 0U);
  EXPECT_EQ(shard_of_key("user6284781860667377211", 1000), 16U);
}

TEST(KeyHashTest, ShardOfKey_SpreadsSequentialKeys) {
  constexpr uint32_t kShards = 48;
  constexpr uint32_t kKeys = 48'000;
  std::vector<uint32_t> counts(kShards);
  for (uint32_t i = 0; i < kKeys; ++i) ++counts[shard_of_key("user" + std::to_string(i), kShards)];
  // 1,000 a shard with a standard deviation of 32: six of them.
  for (uint32_t count : counts) EXPECT_NEAR(count, 1000, 190);
}

}  // namespace
}  // namespace skua::kv
