#include "kvstore/memory/memory_shards.h"

#include <gtest/gtest.h>

#include <cstdint>
#include <memory>

namespace skua::kv {
namespace {

class MemoryShardsTest : public testing::Test {
 protected:
  Region& sealed_region() {
    Region& region = *arena_->open_region();
    arena_->seal(region);
    return region;
  }

  std::unique_ptr<ItemArena> arena_ =
      *ItemArena::create({.bytes = 64 << 10, .region_bytes = 4096, .try_huge_pages = false});
  MemoryShards shards_{*arena_};
};

TEST_F(MemoryShardsTest, Add_NeverGivesANumberTwice) {
  const uint32_t first = shards_.add(0);
  const uint32_t second = shards_.add(0);
  shards_.drop(first);
  const uint32_t third = shards_.add(0);
  EXPECT_NE(first, second);
  EXPECT_NE(first, third);
  EXPECT_FALSE(shards_.is_live(first));
  EXPECT_TRUE(shards_.is_live(second));
  EXPECT_TRUE(shards_.is_live(third));
  EXPECT_FALSE(shards_.is_live(second + 1)) << "a number that was never given out";
}

TEST_F(MemoryShardsTest, MarkClean_FreesRegionsOfWhichNothingIsLacking) {
  const uint32_t shard = shards_.add(10);
  Region& early = sealed_region();
  Region& late = sealed_region();
  EXPECT_FALSE(shards_.lacks(shard, 10));
  EXPECT_TRUE(shards_.lacks(shard, 11));
  shards_.note_dirty(shard, early, 11, 100);
  shards_.note_dirty(shard, early, 12, 100);
  shards_.note_dirty(shard, late, 13, 50);
  EXPECT_EQ(shards_.dirty_bytes(), 250U);
  EXPECT_EQ(arena_->clean_regions(), 0U);
  shards_.mark_clean(shard, 11);
  EXPECT_FALSE(early.is_evictable()) << "it has write 12";
  shards_.mark_clean(shard, 12);
  EXPECT_TRUE(early.is_evictable());
  EXPECT_FALSE(late.is_evictable());
  EXPECT_EQ(shards_.dirty_bytes(), 50U);
  shards_.mark_clean(shard, 5);
  EXPECT_FALSE(shards_.lacks(shard, 12)) << "what is durable stays durable";
}

TEST_F(MemoryShardsTest, Drop_LeavesNothingDirtyOfTheShardAlone) {
  const uint32_t dropped = shards_.add(0);
  const uint32_t kept = shards_.add(0);
  Region& region = sealed_region();
  shards_.note_dirty(dropped, region, 1, 100);
  shards_.note_dirty(kept, region, 1, 20);
  shards_.drop(dropped);
  EXPECT_EQ(shards_.dirty_bytes(), 20U);
  EXPECT_EQ(region.dirty_segments, 1U);
}

}  // namespace
}  // namespace skua::kv
