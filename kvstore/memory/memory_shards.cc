#include "kvstore/memory/memory_shards.h"

#include <algorithm>

#include "kvstore/types/mutants.h"
#include "rpc/base/check.h"

namespace skua::kv {
namespace {

constexpr uint32_t kShardSlotMask = MemoryShards::kShardsMax - 1;
static_assert((MemoryShards::kShardsMax & kShardSlotMask) == 0, "a mask takes the place out of a number");

}  // namespace

uint32_t MemoryShards::add(uint64_t applied_index) {
  size_t slot = 0;
  while (slot < shards_.size() && shards_[slot].live) ++slot;
  if (slot == shards_.size()) {
    SKUA_CHECK(slot <= kShardSlotMask, "more shards on one worker than their numbers have room for");
    shards_.push_back({.number = static_cast<uint32_t>(slot)});
  } else if (!mutant(Mutant::kKeepDroppedShard)) {
    shards_[slot].number += kShardSlotMask + 1;
    SKUA_CHECK(shards_[slot].number > kShardSlotMask, "shards were dropped too often to tell them apart");
  }
  shards_[slot].live = true;
  shards_[slot].clean_index = applied_index;
  return shards_[slot].number;
}

void MemoryShards::drop(uint32_t shard) {
  mark_clean(shard, UINT64_MAX);
  shards_[shard & kShardSlotMask].live = false;
}

bool MemoryShards::is_live(uint32_t shard) const {
  const size_t slot = shard & kShardSlotMask;
  return slot < shards_.size() && shards_[slot].live && shards_[slot].number == shard;
}

void MemoryShards::note_dirty(uint32_t shard, Region& region, uint64_t index, size_t bytes) {
  if (segments_.add(at(shard).dirty, region.number, index, bytes)) arena_.add_dirty_segment(region);
}

void MemoryShards::mark_clean(uint32_t shard, uint64_t index) {
  Shard& cleaned = at(shard);
  cleaned.clean_index = std::max(cleaned.clean_index, index);
  while (!segments_.empty(cleaned.dirty)) {
    const DirtySegment& segment = segments_.oldest(cleaned.dirty);
    const bool first_counts = mutant(Mutant::kMarkCleanTooFar);
    if ((first_counts ? segment.first_version : segment.last_version) > cleaned.clean_index) return;
    arena_.remove_dirty_segment(arena_.region(segment.region));
    segments_.pop_oldest(cleaned.dirty);
  }
}

MemoryShards::Shard& MemoryShards::at(uint32_t number) {
  SKUA_CHECK(is_live(number), "no such shard, or it was dropped");
  return shards_[number & kShardSlotMask];
}

}  // namespace skua::kv
