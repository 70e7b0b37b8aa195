#include "kvstore/codec/key_hash.h"

#include <gtest/gtest.h>

#include <string>
#include <vector>

namespace skua::kv {
namespace {

TEST(KeyHashTest, KeyHash_GoldenValues) {
  // Pinned for ever: a change would send every key of an existing table to another shard.
  EXPECT_EQ(key_hash(""), 0x2d06800538d394c2ULL);
  EXPECT_EQ(key_hash("a"), 0xe6c632b61e964e1fULL);
  EXPECT_EQ(key_hash("user6284781860667377211"), 0x5c8c12554f88eabcULL);
  EXPECT_EQ(key_hash(std::string(1024, 'k')), 0x686d3de82e988280ULL);
}

TEST(KeyHashTest, KeyHash_TrailingZerosCount) {
  EXPECT_NE(key_hash(std::string_view("k\0", 2)), key_hash("k"));
  EXPECT_NE(key_hash(std::string(8, '\0')), key_hash(std::string(16, '\0')));
}

TEST(KeyHashTest, ShardOfKey_GoldenValues) {
  EXPECT_EQ(KeyPlacement{1}.shard_of("user6284781860667377211"), 0U);
  EXPECT_EQ(KeyPlacement{12}.shard_of("user6284781860667377211"), 4U);
  EXPECT_EQ(KeyPlacement{1000}.shard_of("user6284781860667377211"), 361U);
}

TEST(KeyHashTest, ShardOfKey_SpreadsSequentialKeys) {
  constexpr uint32_t kShards = 48;
  constexpr uint32_t kKeys = 48'000;
  std::vector<uint32_t> counts(kShards);
  for (uint32_t i = 0; i < kKeys; ++i) ++counts[KeyPlacement{kShards}.shard_of("user" + std::to_string(i))];
  // 1,000 a shard with a standard deviation of 32: six of them.
  for (uint32_t count : counts) EXPECT_NEAR(count, 1000, 190);
}

TEST(KeyHashTest, HashTagOf_IsWhatStandsInTheFirstBraces) {
  // The examples of Redis Cluster's specification, and others.
  EXPECT_EQ(hash_tag_of("{user1000}.following"), "user1000");
  EXPECT_EQ(hash_tag_of("foo{}{bar}"), "foo{}{bar}");
  EXPECT_EQ(hash_tag_of("foo{{bar}}zap"), "{bar");
  EXPECT_EQ(hash_tag_of("foo{bar}{zap}"), "bar");
  EXPECT_EQ(hash_tag_of("}a{b}"), "b");
  for (const char* whole : {"", "a", "{", "}", "{}", "{a", "a}", "}{"}) EXPECT_EQ(hash_tag_of(whole), whole);
  EXPECT_EQ(hash_tag_of(std::string_view("{\0}", 3)), std::string_view("\0", 1));
}

TEST(KeyHashTest, KeyPlacement_TagsCountOnlyWhereTheyAreWanted) {
  const KeyPlacement tags{1000, true};
  EXPECT_EQ(tags.shard_of("a{user6284781860667377211}b"), 361U);
  EXPECT_EQ(tags.shard_of("user6284781860667377211"), 361U);
  EXPECT_NE(KeyPlacement{1000}.shard_of("a{user6284781860667377211}b"), 361U);
}

}  // namespace
}  // namespace skua::kv
