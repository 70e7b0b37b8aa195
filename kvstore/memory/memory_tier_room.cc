// Room for the next item: heads, regions of large items, and the eviction that makes room for both.
#include <algorithm>
#include <array>
#include <optional>

#include "kvstore/memory/memory_mutants.h"
#include "kvstore/memory/memory_tier.h"
#include "rpc/base/check.h"

namespace skua::kv {
namespace {

/// Bytes that eviction looks at for each byte that is taken. Eviction frees at least half of the bytes that it looks
/// at, so two would be enough on average; but not all freed bytes are contiguous.
constexpr int64_t kScanRate = 3;
/// Number of items that are looked at together, so that their buckets' cache misses overlap.
constexpr size_t kScanGroup = 16;
/// Eviction looks at the next group of items when it is this many bytes behind.
constexpr int64_t kScanDebtMin = 2048;
/// The most slots that the clock's hand passes over in one paced step.
constexpr size_t kHandStepsMax = 64;
/// Number of free regions that fills and copying forward leave to writes.
constexpr size_t kRegionsForWrites = 1;

}  // namespace

MemoryTier::Region* MemoryTier::room_for(size_t bytes, HeadKind kind) {
  return bytes > arena_->region_bytes() / 2 ? room_for_run(bytes) : room_in_head(bytes, kind);
}

MemoryTier::Region* MemoryTier::room_in_head(size_t bytes, HeadKind kind) {
  Region* head = heads_[kind];
  if (head != nullptr && arena_->region_bytes() - head->used_bytes >= bytes) return head;
  if (kind == kWriteHead) seal_head(kind);  // before eviction: it may be the only region that can be evicted
  Region* fresh = fresh_region(kind);
  if (fresh == nullptr) return nullptr;
  seal_head(kind);
  heads_[kind] = fresh;
  return fresh;
}

void MemoryTier::seal_head(HeadKind kind) {
  if (heads_[kind] != nullptr) arena_->seal(*heads_[kind]);
  heads_[kind] = nullptr;
}

/// Opens a free region, and evicts until there is one. Null: everything is dirty or pinned. While a victim is scanned
/// nothing more is evicted; null then only means that no region is free.
MemoryTier::Region* MemoryTier::fresh_region(HeadKind kind) {
  const size_t left_alone = kind == kCleanHead ? kRegionsForWrites : 0;
  for (;;) {
    arena_->collect_condemned();
    if (arena_->free_regions() > left_alone) return arena_->open_region();
    if (scanning_) return nullptr;
    if (evict_one_region()) continue;
    if (kind != kWriteHead || heads_[kCleanHead] == nullptr) return nullptr;
    seal_head(kCleanHead);  // so that it can be evicted: room for writes is more important than the cache
  }
}

// ---- Large items

MemoryTier::Region* MemoryTier::room_for_run(size_t bytes) {
  const size_t slots = (bytes + arena_->region_bytes() - 1) / arena_->region_bytes();
  arena_->collect_condemned();
  if (Region* run = arena_->open_run(slots)) return run;
  retire_victim();
  if (Region* run = evict_run(slots)) return run;
  seal_head(kWriteHead);  // an open region may lie in the middle of the only possible run
  seal_head(kCleanHead);
  return evict_run(slots);
}

/// Evicts neighbouring regions. The free slots among them are claimed first, so that items which are copied forward
/// meanwhile do not go there.
MemoryTier::Region* MemoryTier::evict_run(size_t slots) {
  const std::optional<size_t> first = arena_->find_evictable_run(slots);
  if (!first) return nullptr;
  arena_->claim(*first, slots);
  for (size_t i = *first; i < *first + slots; ++i) {
    Region* region = &arena_->region(i);
    if (region->state == ItemArena::State::kRunTail && region->run_head != i)
      region = &arena_->region(region->run_head);
    if (region->state != ItemArena::State::kSealed) continue;
    arena_->begin_scan(*region);
    begin_victim(*region);
    retire_victim();
    arena_->claim(*first, slots);
  }
  return arena_->open_claimed_run(*first, slots);
}

/// Seals a region that was opened for one item. If the item was not entered, frees the region.
void MemoryTier::finish_run(Region& region) {
  arena_->seal(region);
  if (region.live_items > 0) return;
  arena_->begin_scan(region);
  arena_->retire(region);
}

// ---- Eviction

bool MemoryTier::wants_eviction() const {
  return arena_->free_regions() < free_regions_wanted_ || index_.crowded();
}

/// Called before an item of `bytes` bytes is written: evicts in proportion to `bytes`.
void MemoryTier::pace_eviction(size_t bytes) {
  if (!wants_eviction()) {
    scan_debt_bytes_ = 0;
    return;
  }
  scan_debt_bytes_ += kScanRate * static_cast<int64_t>(bytes);
  while (scan_debt_bytes_ >= kScanDebtMin) {
    const size_t looked_at = scan_group();
    scan_debt_bytes_ -= static_cast<int64_t>(looked_at);
    if (looked_at == 0) scan_debt_bytes_ = 0;
  }
}

bool MemoryTier::maintain(size_t items) {
  for (size_t done = 0; done < items; done += kScanGroup) {
    arena_->collect_condemned();
    if (!wants_eviction() || scan_group() == 0) return false;
  }
  return true;
}

/// False: there is no region to evict. True: one region's items left the index, and the region is free unless it is
/// pinned.
bool MemoryTier::evict_one_region() {
  if (victim_ == nullptr) {
    Region* next = arena_->next_victim(arena_->region_count());
    if (next == nullptr) return false;
    begin_victim(*next);
  }
  retire_victim();
  return true;
}

void MemoryTier::begin_victim(Region& region) {
  victim_ = &region;
  victim_offset_ = 0;
  victim_forwarded_bytes_ = 0;
}

/// Finishes the victim, if there is one.
void MemoryTier::retire_victim() {
  while (victim_ != nullptr) static_cast<void>(scan_group());
}

/// Looks at the victim's next items; takes a new victim first if there is none. Returns how many bytes it looked at; 0:
/// there is no victim.
size_t MemoryTier::scan_group() {
  if (victim_ == nullptr) {
    Region* next = arena_->next_victim(kHandStepsMax);
    if (next == nullptr) return 0;
    begin_victim(*next);
  }
  std::array<Item*, kScanGroup> group;
  size_t count = 0;
  const size_t begin = victim_offset_;
  std::byte* const start = arena_->start_of(*victim_);
  while (count < kScanGroup && victim_offset_ < victim_->used_bytes) {
    auto* item = reinterpret_cast<Item*>(start + victim_offset_);
    victim_offset_ += item->bytes();
    if (!item->is(Item::kDead)) index_.prefetch(item->hash);
    group[count++] = item;
  }
  scanning_ = true;
  for (size_t i = 0; i < count; ++i) {
    if (!group[i]->is(Item::kDead)) evict_or_forward(*group[i]);
  }
  scanning_ = false;
  const size_t looked_at = std::max<size_t>(victim_offset_ - begin, 1);
  if (victim_->live_items == 0) {
    arena_->retire(*victim_);
    ++counters_.evicted_regions;
    victim_ = nullptr;
  }
  return looked_at;
}

void MemoryTier::evict_or_forward(Item& item) {
  Index::Slot* slot = index_.find_place(item.hash, arena_->place_of(&item));
  SKUA_CHECK(slot != nullptr, "an item that is not marked dead is not in the index");
  if (slot->used() && shard_is_live(item.shard) && forward(item, *slot)) {
    leave_region(item);
    return;
  }
  leave_region(item);
  index_.erase(item.hash, slot);
  ++counters_.evicted_items;
}

bool MemoryTier::forward(const Item& item, Index::Slot& slot) {
  const size_t bytes = item.bytes();
  if (victim_forwarded_bytes_ + bytes > arena_->region_bytes() / 2) return false;
  Region* head = room_in_head(bytes, kCleanHead);
  if (head == nullptr) return false;
  auto* copy = reinterpret_cast<Item*>(arena_->start_of(*head) + head->used_bytes);
  copy_bytes(copy->start(), {item.start(), bytes});
  if (mutant(MemoryMutant::kForwardDropsExpiry) && copy->is(Item::kHasExpiry)) copy->set_expiry(UINT64_MAX);
  head->used_bytes += static_cast<uint32_t>(bytes);
  ++head->live_items;
  slot.set_place(arena_->place_of(copy));
  slot.clear_used();
  victim_forwarded_bytes_ += bytes;
  ++counters_.forwarded_items;
  counters_.forwarded_bytes += bytes;
  return true;
}

}  // namespace skua::kv
