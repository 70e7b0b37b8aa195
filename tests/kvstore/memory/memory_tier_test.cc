#include "kvstore/memory/memory_tier.h"

#include <gtest/gtest.h>

#include <memory>
#include <string>
#include <thread>
#include <utility>
#include <vector>

namespace skua::kv {
namespace {

using Put = MemoryTier::Put;
using Found = MemoryTier::Found;

constexpr size_t kRegionBytes = 4096;

MemoryTier::Options small_options(size_t budget_bytes = 128 << 10) {
  return {.budget_bytes = budget_bytes, .region_bytes = kRegionBytes, .try_huge_pages = false};
}

std::unique_ptr<MemoryTier> make_tier(const MemoryTier::Options& options = small_options()) {
  auto tier = MemoryTier::create(options);
  EXPECT_TRUE(tier.ok()) << tier.status();
  return *std::move(tier);
}

std::string text_of(const MemoryTier::Lookup& lookup) {
  if (lookup.found == Found::kMiss) return "(miss)";
  if (lookup.found == Found::kAbsent) return "(absent)";
  return std::string(as_string_view(lookup.value.bytes()));
}

Put put(MemoryTier& tier, uint32_t shard, std::string_view key, std::string_view value, uint64_t index) {
  return tier.put(ItemKey(shard, key), as_byte_span(value), {.index = index});
}

std::string get(MemoryTier& tier, uint32_t shard, std::string_view key, uint64_t now = 0) {
  return text_of(tier.get(ItemKey(shard, key), now));
}

/// Dirty puts of other keys until one is refused; returns how many went in. Their versions rise from `index`.
size_t fill_up(MemoryTier& tier, uint32_t shard, uint64_t index) {
  const std::string value(200, 'x');
  size_t done = 0;
  while (put(tier, shard, "filler" + std::to_string(done), value, index + done) == Put::kDone) ++done;
  return done;
}

TEST(MemoryTierTest, Create_RefusesABudgetOfTooFewRegions) {
  EXPECT_EQ(MemoryTier::create(small_options(3 * kRegionBytes)).status().code(), absl::StatusCode::kInvalidArgument);
}

TEST(MemoryTierTest, Create_RegistersItsMemoryOnceAndTakesItBack) {
  std::vector<MutableByteSpan> mapped;
  size_t unmapped = 0;
  MemoryTier::Options options = small_options();
  options.on_map = [&](MutableByteSpan memory) {
    mapped.push_back(memory);
    return absl::OkStatus();
  };
  options.on_unmap = [&](MutableByteSpan) { ++unmapped; };
  {
    auto tier = make_tier(options);
    ASSERT_EQ(mapped.size(), 1U);
    const uint32_t shard = tier->add_shard(0);
    ASSERT_EQ(put(*tier, shard, "key", "value", 1), Put::kDone);
    const auto hit = tier->get(ItemKey(shard, "key"), 0);
    EXPECT_GE(hit.value.bytes().data(), mapped[0].data());
    EXPECT_LT(hit.value.bytes().data(), mapped[0].data() + mapped[0].size());
  }
  EXPECT_EQ(unmapped, 1U);
}

TEST(MemoryTierTest, Put_TheNewestVersionIsFound) {
  auto tier = make_tier();
  const uint32_t shard = tier->add_shard(0);
  EXPECT_EQ(get(*tier, shard, "key"), "(miss)");
  EXPECT_EQ(put(*tier, shard, "key", "one", 1), Put::kDone);
  EXPECT_EQ(put(*tier, shard, "key", "three", 3), Put::kDone);
  EXPECT_EQ(put(*tier, shard, "key", "two", 2), Put::kStale);
  const auto hit = tier->get(ItemKey(shard, "key"), 0);
  EXPECT_EQ(text_of(hit), "three");
  EXPECT_EQ(hit.value.version(), 3U);
  EXPECT_EQ(reinterpret_cast<uintptr_t>(hit.value.bytes().data()) % 8, 0U);
}

TEST(MemoryTierTest, Put_AValueIsCopiedOnceAndNotByGets) {
  auto tier = make_tier();
  const uint32_t shard = tier->add_shard(0);
  ASSERT_EQ(put(*tier, shard, "key", std::string(100, 'v'), 1), Put::kDone);
  EXPECT_EQ(tier->counters().value_bytes_copied, 100U);
  for (int i = 0; i < 10; ++i) EXPECT_EQ(get(*tier, shard, "key"), std::string(100, 'v'));
  EXPECT_EQ(tier->counters().value_bytes_copied, 100U);
  EXPECT_EQ(tier->counters().hits, 10U);
}

TEST(MemoryTierTest, Put_EmptyAndLargeValues) {
  auto tier = make_tier();
  const uint32_t shard = tier->add_shard(0);
  EXPECT_EQ(put(*tier, shard, "empty", "", 1), Put::kDone);
  EXPECT_EQ(get(*tier, shard, "empty"), "");
  const std::string large(3 * kRegionBytes, 'L');
  EXPECT_EQ(put(*tier, shard, "large", large, 2), Put::kDone);
  EXPECT_EQ(get(*tier, shard, "large"), large);
  EXPECT_EQ(put(*tier, shard, "larger", std::string(tier->item_bytes_max(), 'x'), 3), Put::kTooLarge);
  EXPECT_EQ(get(*tier, shard, "larger"), "(miss)");
}

TEST(MemoryTierTest, Put_AStaleLargeValueTakesNothing) {
  auto tier = make_tier();
  const uint32_t shard = tier->add_shard(0);
  EXPECT_EQ(put(*tier, shard, "key", "value", 2), Put::kDone);
  const uint64_t free_regions = tier->counters().free_regions;
  EXPECT_EQ(put(*tier, shard, "key", std::string(3 * kRegionBytes, 'L'), 1), Put::kStale);
  EXPECT_EQ(tier->counters().free_regions, free_regions);
  EXPECT_EQ(get(*tier, shard, "key"), "value");
}

TEST(MemoryTierTest, Put_ALargeValueEvictsNeighbours) {
  auto tier = make_tier();
  const uint32_t shard = tier->add_shard(0);
  const size_t fillers = fill_up(*tier, shard, 1);
  const std::string large(4 * kRegionBytes, 'L');
  EXPECT_EQ(put(*tier, shard, "large", large, fillers + 1), Put::kBackPressure);
  tier->mark_clean(shard, fillers);
  EXPECT_EQ(put(*tier, shard, "large", large, fillers + 1), Put::kDone);
  EXPECT_EQ(get(*tier, shard, "large"), large);
}

TEST(MemoryTierTest, Put_BackPressureWhenAllIsDirtyEndsWithMarkClean) {
  auto tier = make_tier();
  const uint32_t shard = tier->add_shard(0);
  ASSERT_EQ(put(*tier, shard, "key", "value", 1), Put::kDone);
  const size_t fillers = fill_up(*tier, shard, 2);
  EXPECT_GT(fillers, 100U);
  EXPECT_EQ(get(*tier, shard, "key"), "value") << "dirty items stay";
  EXPECT_GT(tier->counters().dirty_bytes, fillers * 200);
  EXPECT_EQ(tier->counters().puts_refused, 1U);
  tier->mark_clean(shard, 1 + fillers);
  EXPECT_EQ(tier->counters().dirty_bytes, 0U);
  EXPECT_EQ(put(*tier, shard, "more", std::string(200, 'y'), 2 + fillers), Put::kDone);
}

TEST(MemoryTierTest, Put_BackPressureWhenAllIsPinnedEndsWithTheRelease) {
  auto tier = make_tier();
  const uint32_t shard = tier->add_shard(0);
  const size_t fillers = fill_up(*tier, shard, 1);
  std::vector<PinnedValue> pins;
  for (size_t i = 0; i < fillers; ++i) {
    auto hit = tier->get(ItemKey(shard, "filler" + std::to_string(i)), 0);
    ASSERT_EQ(hit.found, Found::kHit);
    pins.push_back(std::move(hit.value));
  }
  EXPECT_GE(tier->counters().pinned_regions, 20U);
  tier->mark_clean(shard, fillers);
  const std::string value(1500, 'y');
  EXPECT_EQ(put(*tier, shard, "more", value, fillers + 1), Put::kBackPressure);
  for (const PinnedValue& pin : pins) EXPECT_EQ(as_string_view(pin.bytes()), std::string(200, 'x'));
  pins.clear();
  EXPECT_EQ(tier->counters().pinned_regions, 0U);
  EXPECT_EQ(put(*tier, shard, "more", value, fillers + 1), Put::kDone);
}

TEST(MemoryTierTest, Pins_ManyAreTold) {
  auto tier = make_tier();
  tier->bind_to_this_thread();
  const uint32_t shard = tier->add_shard(0);
  const size_t fillers = fill_up(*tier, shard, 1);
  const auto pin_all = [&] {
    std::vector<PinnedValue> pins;
    for (size_t i = 0; i < fillers; ++i)
      pins.push_back(tier->get(ItemKey(shard, "filler" + std::to_string(i)), 0).value);
    return pins;
  };
  const auto comes_to_an_end = [&] {
    for (int i = 0; i < 1000; ++i) {
      if (!tier->is_pinned_much()) return true;
    }
    return false;
  };
  EXPECT_FALSE(tier->is_pinned_much());
  for (int round = 0; round < 3; ++round) {
    std::vector<PinnedValue> pins = pin_all();
    EXPECT_TRUE(tier->is_pinned_much());
    pins.clear();
    EXPECT_FALSE(tier->is_pinned_much());
    pins = pin_all();
    std::thread([&] { pins.clear(); }).join();
    EXPECT_TRUE(comes_to_an_end()) << "given back on another thread";
  }
  std::vector<PinnedValue> one;
  for (int i = 0; i < 10'000; ++i) one.push_back(tier->get(ItemKey(shard, "filler0"), 0).value);
  EXPECT_FALSE(tier->is_pinned_much()) << "many pins of one place keep no other";
}

TEST(MemoryTierTest, Erase_ATombstoneWhileDirty) {
  auto tier = make_tier();
  const uint32_t shard = tier->add_shard(0);
  EXPECT_EQ(tier->erase(ItemKey(shard, "key"), {.index = 1}), Put::kDone);
  EXPECT_EQ(get(*tier, shard, "key"), "(absent)") << "the durable tier may have an older value";
  EXPECT_EQ(put(*tier, shard, "key", "value", 2), Put::kDone);
  EXPECT_EQ(get(*tier, shard, "key"), "value");
  EXPECT_EQ(tier->erase(ItemKey(shard, "key"), {.index = 1}), Put::kStale);
  EXPECT_EQ(tier->erase(ItemKey(shard, "key"), {.index = 3, .dirty = false}), Put::kDone);
  EXPECT_EQ(get(*tier, shard, "key"), "(miss)");
}

TEST(MemoryTierTest, Get_ExpiredItemsAreAbsent) {
  auto tier = make_tier();
  const uint32_t shard = tier->add_shard(0);
  const ItemKey key(shard, "key");
  ASSERT_EQ(tier->put(key, as_byte_span("value"), {.index = 1, .expiry = 100}), Put::kDone);
  EXPECT_EQ(get(*tier, shard, "key", 99), "value");
  EXPECT_EQ(tier->get(key, 99).expiry, 100U);
  EXPECT_EQ(get(*tier, shard, "key", 100), "(absent)");
}

TEST(MemoryTierTest, Get_HasTheMark) {
  auto tier = make_tier();
  const uint32_t shard = tier->add_shard(0);
  const RecordMark mark = {0xfeedf00d, true};
  const ItemKey put_key(shard, "put");
  ASSERT_EQ(tier->put(put_key, as_byte_span("v"), {.index = 1, .expiry = 9, .mark = mark}), Put::kDone);
  const ItemKey filled_key(shard, "filled");
  ASSERT_TRUE(tier->fill_from_disk(filled_key, as_byte_span("v"), {.index = 1, .mark = {1, false}},
                                   tier->get(filled_key, 0).ticket));
  std::vector<MemoryTier::BatchWrite> writes(2);
  writes[0] = {.key = ItemKey(shard, "batched"), .value = as_byte_span("v"), .mark = {0, true}};
  writes[1] = {.key = ItemKey(shard, "plain"), .value = as_byte_span("v")};
  ASSERT_EQ(tier->put_all(writes, 2), Put::kDone);
  EXPECT_EQ(tier->get(put_key, 0).value.mark(), mark);
  EXPECT_EQ(tier->get(put_key, 0).value.copied().mark(), mark);
  EXPECT_EQ(tier->get(filled_key, 0).value.mark(), (RecordMark{1, false}));
  EXPECT_EQ(tier->get(ItemKey(shard, "batched"), 0).value.mark(), (RecordMark{0, true}));
  EXPECT_EQ(tier->get(ItemKey(shard, "plain"), 0).value.mark(), RecordMark());
}

TEST(MemoryTierTest, GetBatch_AnswersLikeGet) {
  auto tier = make_tier();
  const uint32_t shard = tier->add_shard(0);
  std::vector<std::string> names;
  for (int i = 0; i < 40; ++i) names.push_back("key" + std::to_string(i));
  std::vector<ItemKey> keys;
  for (size_t i = 0; i < names.size(); ++i) {
    keys.emplace_back(shard, names[i]);
    if (i % 3 == 0) {
      ASSERT_EQ(put(*tier, shard, names[i], names[i] + "!", i + 1), Put::kDone);
    }
    if (i % 3 == 1) {
      ASSERT_EQ(tier->erase(keys[i], {.index = i + 1}), Put::kDone);
    }
  }
  std::vector<MemoryTier::Lookup> found(keys.size());
  for (int round = 0; round < 2; ++round) {  // the second time over results that hold pins
    tier->get_batch(keys, 0, found);
    for (size_t i = 0; i < keys.size(); ++i) EXPECT_EQ(text_of(found[i]), get(*tier, shard, names[i]));
  }
  found.clear();
  EXPECT_EQ(tier->counters().pinned_regions, 0U);
}

TEST(MemoryTierTest, Fill_AfterAMissIsAHit) {
  auto tier = make_tier();
  const uint32_t shard = tier->add_shard(0);
  const ItemKey key(shard, "key");
  const auto miss = tier->get(key, 0);
  EXPECT_TRUE(tier->fill_from_disk(key, as_byte_span("disk"), {.index = 5}, miss.ticket));
  EXPECT_EQ(get(*tier, shard, "key"), "disk");
  EXPECT_FALSE(tier->fill_from_disk(key, as_byte_span("disk"), {.index = 5}, miss.ticket)) << "it is there";
  EXPECT_EQ(tier->counters().fills, 1U);
  EXPECT_EQ(tier->counters().fills_refused, 1U);
}

TEST(MemoryTierTest, Fill_ARacingPutWinsEvenIfItIsGoneAgain) {
  auto tier = make_tier();
  const uint32_t shard = tier->add_shard(0);
  const ItemKey key(shard, "key");
  const auto miss = tier->get(key, 0);
  ASSERT_EQ(put(*tier, shard, "key", "new", 6), Put::kDone);
  EXPECT_FALSE(tier->fill_from_disk(key, as_byte_span("old"), {.index = 5}, miss.ticket));
  EXPECT_EQ(get(*tier, shard, "key"), "new");
  ASSERT_EQ(tier->erase(key, {.index = 7, .dirty = false}), Put::kDone);
  EXPECT_FALSE(tier->fill_from_disk(key, as_byte_span("old"), {.index = 5}, miss.ticket));
  EXPECT_EQ(get(*tier, shard, "key"), "(miss)");
}

TEST(MemoryTierTest, Eviction_KeepsWhatIsRead) {
  auto tier = make_tier();
  const uint32_t shard = tier->add_shard(0);
  uint64_t index = 0;
  ASSERT_EQ(put(*tier, shard, "hot", "value", ++index), Put::kDone);
  ASSERT_EQ(put(*tier, shard, "cold", "value", ++index), Put::kDone);
  for (int i = 0; i < 5000; ++i) {
    ASSERT_EQ(put(*tier, shard, "filler" + std::to_string(i), std::string(200, 'x'), ++index), Put::kDone);
    tier->mark_clean(shard, index);
    ASSERT_EQ(get(*tier, shard, "hot"), "value");
  }
  EXPECT_EQ(get(*tier, shard, "cold"), "(miss)");
  const MemoryTier::Counters counters = tier->counters();
  EXPECT_GT(counters.evicted_regions, 100U);
  EXPECT_GT(counters.forwarded_bytes, 0U);
  EXPECT_GE(counters.free_regions, 1U);
  EXPECT_LE(counters.resident_bytes, size_t{128} << 10);
}

TEST(MemoryTierTest, Eviction_ItemsSmallerThanExpectedFillTheIndexFirst) {
  MemoryTier::Options options = small_options();
  options.expected_item_bytes = 1024;
  auto tier = make_tier(options);
  const uint32_t shard = tier->add_shard(0);
  for (uint64_t i = 1; i < 5000; ++i) {
    ASSERT_EQ(put(*tier, shard, "key" + std::to_string(i), "v", i), Put::kDone);
    tier->mark_clean(shard, i);
  }
  EXPECT_GT(tier->counters().evicted_items, 3000U);
}

TEST(MemoryTierTest, DropShard_ForgetsItsItemsAndFreesTheirRegions) {
  auto tier = make_tier();
  const uint32_t dropped = tier->add_shard(0);
  const uint32_t kept = tier->add_shard(0);
  const ItemKey key(dropped, "key");
  const auto miss = tier->get(key, 0);
  ASSERT_EQ(put(*tier, kept, "key", "kept", 1), Put::kDone);
  fill_up(*tier, dropped, 1);
  tier->drop_shard(dropped);
  EXPECT_EQ(tier->counters().dirty_bytes, Item::bytes_for(3, 4, false));
  const uint32_t next = tier->add_shard(0);
  EXPECT_NE(next, dropped);
  EXPECT_EQ(get(*tier, next, "filler1"), "(miss)");
  EXPECT_EQ(get(*tier, kept, "key"), "kept");
  EXPECT_FALSE(tier->fill_from_disk(key, as_byte_span("late"), {.index = 1}, miss.ticket));
  EXPECT_GT(fill_up(*tier, next, 1), 100U);
}

TEST(MemoryTierTest, Release_OnOtherThreads) {
  auto tier = make_tier();
  tier->bind_to_this_thread();
  const uint32_t shard = tier->add_shard(0);
  uint64_t index = 0;
  for (int round = 0; round < 50; ++round) {
    std::vector<PinnedValue> pins;
    for (int i = 0; i < 40; ++i) {
      const std::string name = "key" + std::to_string(i);
      ASSERT_EQ(put(*tier, shard, name, name + std::string(200, 'x'), ++index), Put::kDone);
      pins.push_back(std::move(tier->get(ItemKey(shard, name), 0).value));
    }
    tier->mark_clean(shard, index);
    std::thread reader([&pins] {
      for (size_t i = 0; i < pins.size(); ++i) {
        EXPECT_EQ(as_string_view(pins[i].bytes()), "key" + std::to_string(i) + std::string(200, 'x'));
        pins[i].reset();
      }
    });
    for (int i = 0; i < 20; ++i) {
      if (put(*tier, shard, "other" + std::to_string(i), std::string(300, 'y'), index + 1) == Put::kDone) ++index;
    }
    reader.join();
  }
  tier->mark_clean(shard, index);
  EXPECT_EQ(tier->counters().pinned_regions, 0U);
}

Put put_all(MemoryTier& tier, uint32_t shard, const std::vector<std::pair<std::string, std::string>>& rows,
            uint64_t index) {
  std::vector<MemoryTier::BatchWrite> writes;
  for (const auto& [key, value] : rows) {
    writes.push_back({.key = ItemKey(shard, key)});
    if (value != "(erased)") writes.back().value = as_byte_span(value);
  }
  const Put put = tier.put_all(writes, index);
  EXPECT_EQ(tier.counters().pinned_regions, 0U);
  if (put != Put::kDone) return put;
  for (size_t i = 0; i < rows.size(); ++i) {
    EXPECT_EQ(writes[i].written().key, rows[i].first);
    EXPECT_EQ(as_string_view(writes[i].written().value), writes[i].value ? rows[i].second : "");
  }
  return put;
}

TEST(MemoryTierTest, PutAll_WritesReplacesAndErases) {
  auto tier = make_tier();
  const uint32_t shard = tier->add_shard(0);
  ASSERT_EQ(put(*tier, shard, "a", "old", 1), Put::kDone);
  ASSERT_EQ(put(*tier, shard, "b", "old", 2), Put::kDone);
  ASSERT_EQ(put_all(*tier, shard, {{"a", "new"}, {"b", "(erased)"}, {"c", std::string(3000, 'c')}}, 3), Put::kDone);
  EXPECT_EQ(get(*tier, shard, "a"), "new");
  EXPECT_EQ(get(*tier, shard, "b"), "(absent)");
  EXPECT_EQ(get(*tier, shard, "c"), std::string(3000, 'c'));
  tier->mark_clean(shard, 3);
  EXPECT_EQ(tier->counters().dirty_bytes, 0u);
  EXPECT_EQ(put_all(*tier, shard, {{"a", std::string(tier->item_bytes_max(), 'x')}}, 4), Put::kTooLarge);
}

TEST(MemoryTierTest, PutAll_CountsTheDirtyBytesOfEachShardAndRegion) {
  auto tier = make_tier();
  const std::vector<uint32_t> shards = {tier->add_shard(0), tier->add_shard(0)};
  // Small items, items that fill a region, and items that have a region of their own, of both shards.
  std::vector<std::string> keys;
  std::vector<std::string> values;
  for (size_t i = 0; i < 40; ++i) {
    keys.push_back("key" + std::to_string(i));
    values.emplace_back(i % 7 == 0 ? 3000 : i % 3 == 0 ? 900 : 10, 'v');
  }
  std::vector<size_t> bytes(2);
  std::vector<MemoryTier::BatchWrite> writes;
  for (size_t i = 0; i < keys.size(); ++i) {
    const size_t which = i / 4 % 2;
    writes.push_back({.key = ItemKey(shards[which], keys[i]), .value = as_byte_span(values[i])});
    bytes[which] += writes.back().item_bytes();
  }
  ASSERT_EQ(tier->put_all(writes, 1), Put::kDone);
  EXPECT_EQ(tier->counters().pinned_regions, 0U);
  EXPECT_EQ(tier->counters().dirty_bytes, bytes[0] + bytes[1]);
  tier->mark_clean(shards[1], 1);
  EXPECT_EQ(tier->counters().dirty_bytes, bytes[0]);
  tier->mark_clean(shards[0], 1);
  EXPECT_EQ(tier->counters().dirty_bytes, 0U);
  for (size_t i = 0; i < keys.size(); ++i) EXPECT_EQ(get(*tier, shards[i / 4 % 2], keys[i]), values[i]);
  fill_up(*tier, shards[0], 2);  // what is clean can be evicted
  tier->mark_clean(shards[0], UINT64_MAX);
  EXPECT_EQ(tier->counters().dirty_bytes, 0U);
}

TEST(MemoryTierTest, PutAll_WithoutRoomNothingHappensAndLaterAll) {
  auto tier = make_tier();
  const uint32_t shard = tier->add_shard(0);
  ASSERT_EQ(put(*tier, shard, "a", "old", 1), Put::kDone);
  const size_t filled = fill_up(*tier, shard, 2);
  const std::vector<std::pair<std::string, std::string>> rows = {
      {"a", "new"}, {"large", std::string(3500, 'l')}, {"b", std::string(1500, 'b')}, {"c", std::string(1500, 'c')}};
  for (int i = 0; i < 100; ++i) ASSERT_EQ(put_all(*tier, shard, rows, filled + 2), Put::kBackPressure);
  EXPECT_EQ(get(*tier, shard, "a"), "old");
  EXPECT_EQ(get(*tier, shard, "b"), "(miss)");
  EXPECT_EQ(get(*tier, shard, "filler0"), std::string(200, 'x'));
  tier->mark_clean(shard, filled + 1);
  ASSERT_EQ(put_all(*tier, shard, rows, filled + 2), Put::kDone);
  for (const auto& [key, value] : rows) EXPECT_EQ(get(*tier, shard, key), value);
}

TEST(MemoryTierTest, PutAll_OfTheGreatestCostFitsWhenAllIsClean) {
  auto tier = make_tier();
  const uint32_t shard = tier->add_shard(0);
  uint64_t index = 1;
  for (int round = 0; round < 30; ++round) {
    std::vector<std::pair<std::string, std::string>> rows;
    size_t cost = 0;
    for (size_t size = 40 + static_cast<size_t>(round);; size = size * 7 % 3900) {
      cost += tier->cost_in_batch(Item::bytes_for(6, size, false));
      if (cost > tier->batch_bytes_max()) break;
      rows.emplace_back("key" + std::to_string(100 + rows.size()), std::string(size, 'v'));
    }
    ASSERT_EQ(put_all(*tier, shard, rows, index), Put::kDone) << round;
    for (const auto& [key, value] : rows) ASSERT_EQ(get(*tier, shard, key), value);
    tier->mark_clean(shard, index++);
  }
}

}  // namespace
}  // namespace skua::kv
