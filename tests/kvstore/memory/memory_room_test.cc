#include "kvstore/memory/memory_room.h"

#include <gtest/gtest.h>

#include <cstddef>
#include <cstdint>
#include <memory>
#include <string>

#include "rpc/base/bytes.h"

namespace skua::kv {
namespace {

constexpr size_t kRoomRegionBytes = 4096;
constexpr size_t kRegions = 8;

/// An arena of eight regions, of which each takes four items.
class MemoryRoomTest : public testing::Test {
 protected:
  static constexpr size_t kItemBytes = 1024;

  /// Writes an item as the tier does. False: there is no room.
  bool write(uint32_t number, MemoryRoom::Head head = MemoryRoom::kCleanHead, size_t bytes = kItemBytes) {
    const std::string key = "k" + std::to_string(100 + number);
    const ItemKey item_key(shard_, key);
    room_.pace(bytes);
    Region* const region = room_.open(bytes, head);
    if (region == nullptr) return false;
    Item* const item = arena_->item_in(*region, region->used_bytes);
    *item = {.hash = item_key.hash,
             .version = ++version_,
             .shard = shard_,
             .value_bytes = static_cast<uint32_t>(bytes - Item::value_offset(key.size(), false)),
             .key_bytes = static_cast<uint16_t>(key.size()),
             .flags = 0,
             .tag = 0};
    copy_bytes(item->key_start(), as_byte_span(key));
    EXPECT_TRUE(index_.insert(item_key.hash, arena_->place_of(item)));
    region->add_item(bytes);
    if (head == MemoryRoom::kWriteHead) shards_.note_dirty(shard_, *region, version_, bytes);
    room_.close(*region);
    return true;
  }
  Index::Slot* find(uint32_t number) { return index_.find(ItemKey(shard_, "k" + std::to_string(100 + number))); }

  struct alignas(64) IndexMemory {
    std::byte bytes[Index::kBytesMin]{};
  };
  std::unique_ptr<ItemArena> arena_ = *ItemArena::create(
      {.bytes = kRegions * kRoomRegionBytes, .region_bytes = kRoomRegionBytes, .try_huge_pages = false});
  std::unique_ptr<IndexMemory> index_memory_ = std::make_unique<IndexMemory>();
  Index index_{index_memory_->bytes, arena_->base()};
  MemoryShards shards_{*arena_};
  MemoryRoom room_{*arena_, index_, shards_};
  uint32_t shard_ = shards_.add(0);
  uint64_t version_ = 0;
};

TEST_F(MemoryRoomTest, Open_WritesAndCleanItemsLieApart) {
  Region* const write_head = room_.open(100, MemoryRoom::kWriteHead);
  Region* const clean_head = room_.open(100, MemoryRoom::kCleanHead);
  ASSERT_NE(write_head, clean_head);
  room_.close(*write_head);
  EXPECT_EQ(room_.open(100, MemoryRoom::kWriteHead), write_head) << "a head stays open";
  EXPECT_EQ(write_head->state, Region::State::kOpen);
}

TEST_F(MemoryRoomTest, Open_ALargeItemHasRegionsOfItsOwn) {
  Region* const run = room_.open(kRoomRegionBytes + 8, MemoryRoom::kWriteHead);
  ASSERT_NE(run, nullptr);
  EXPECT_EQ(run->slots, 2U);
  EXPECT_EQ(arena_->free_regions(), kRegions - 2);
  room_.close(*run);
  EXPECT_EQ(arena_->free_regions(), kRegions) << "no item was entered";
}

TEST_F(MemoryRoomTest, Open_EvictsWhatWasNotReadAndKeepsWhatWas) {
  for (uint32_t i = 0; i < 4; ++i) ASSERT_TRUE(write(i));
  find(2)->set_used();
  for (uint32_t i = 4; i < 40; ++i) ASSERT_TRUE(write(i));
  EXPECT_EQ(find(1), nullptr);
  EXPECT_GT(room_.counters().evicted_items, 0U);
  EXPECT_GE(room_.counters().forwarded_items, 1U);
  EXPECT_EQ(room_.counters().forwarded_bytes, room_.counters().forwarded_items * kItemBytes);
}

TEST_F(MemoryRoomTest, Open_NothingWhileAllIsDirty) {
  uint32_t written = 0;
  while (write(written, MemoryRoom::kWriteHead)) ++written;
  EXPECT_EQ(written, kRegions * (kRoomRegionBytes / kItemBytes));
  EXPECT_FALSE(room_.evict_one_region());
  EXPECT_FALSE(room_.may_have(2 * kRoomRegionBytes + 1));
  shards_.mark_clean(shard_, version_);
  EXPECT_TRUE(room_.may_have(2 * kRoomRegionBytes + 1));
  EXPECT_TRUE(write(written, MemoryRoom::kWriteHead));
}

TEST_F(MemoryRoomTest, Open_OneFreeRegionIsForWritesOnly) {
  uint32_t written = 0;
  while (arena_->free_regions() > 1) ASSERT_TRUE(write(written++, MemoryRoom::kWriteHead));
  ASSERT_EQ(room_.open(kItemBytes, MemoryRoom::kCleanHead), nullptr);
  EXPECT_NE(room_.open(kItemBytes, MemoryRoom::kWriteHead), nullptr);
}

TEST_F(MemoryRoomTest, Pace_EvictsBeforeRoomIsNeeded) {
  for (uint32_t i = 0; i < 40; ++i) ASSERT_TRUE(write(i));
  EXPECT_GT(arena_->free_regions(), 0U) << "a later write finds a free region";
}

}  // namespace
}  // namespace skua::kv
