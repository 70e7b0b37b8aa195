#include "kvstore/codec/key_hash.h"

#include <gtest/gtest.h>

#include <array>
#include <cstdint>
#include <set>
#include <string>
#include <string_view>
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

TEST(KeyHashTest, KeyHasher_WithoutASeedItIsKeyHash) {
  for (const std::string_view key : {"", "a", "user6284781860667377211"})
    EXPECT_EQ(KeyHasher().hash(key), key_hash(key));
}

TEST(KeyHashTest, KeyHasher_KeysThatCollideWithoutASeedDoNotCollideWithOne) {
  // For keys of 9 to 16 bytes, XXH3 without a seed is an equation that can be solved bit by bit.
  constexpr std::array<std::array<uint64_t, 2>, 8> kHostile = {{{0x6782737bea4239bf, 0xc38dd18dd2fbef87},
                                                                {0x6782737bea4239ab, 0xa3d0009aa6be3c69},
                                                                {0x6782737bea4239ad, 0x32d0a45a8f8e31eb},
                                                                {0x6782737bea4239af, 0x8f39f1d2b4a1fb37},
                                                                {0x6782737bea4239a3, 0x06e299d600ed1612},
                                                                {0x6782737bea4239a5, 0xa88a0cb6345d5847},
                                                                {0x6782737bea4239a7, 0x7156bc3b099653b7},
                                                                {0x6782737bea42399b, 0xbbae13b1f139de63}}};
  std::set<uint64_t> known;
  std::set<uint64_t> seeded;
  for (const std::array<uint64_t, 2>& words : kHostile) {
    const std::string_view key(reinterpret_cast<const char*>(words.data()), sizeof words);
    known.insert(key_hash(key));
    seeded.insert(KeyHasher(1).hash(key));
  }
  EXPECT_EQ(known.size(), 1u);
  EXPECT_EQ(seeded.size(), kHostile.size());
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
