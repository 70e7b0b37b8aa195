#include "kvstore/memory/memory_room.h"

#include <algorithm>
#include <array>
#include <optional>

#include "kvstore/types/mutants.h"
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
/// The largest item takes at most this share of the arena.
constexpr size_t kRunShare = 4;
/// One free region for writes only, one for items that are copied forward, and one so that eviction begins in time.
constexpr size_t kFreeRegionsWantedMin = 3;
constexpr size_t kFreeRegionsWantedMax = 8;

}  // namespace

MemoryRoom::MemoryRoom(ItemArena& arena, Index& index, const MemoryShards& shards)
    : arena_(arena),
      index_(index),
      shards_(shards),
      run_slots_max_(std::max<size_t>(1, arena.region_count() / kRunShare)),
      free_regions_wanted_(std::clamp(arena.region_count() / 16, kFreeRegionsWantedMin, kFreeRegionsWantedMax)) {}

/// A new region for the head, whose present one has no room.
Region* MemoryRoom::open_next(Head head) {
  if (head == kWriteHead) seal_head(head);  // before eviction: it may be the only region that can be evicted
  Region* fresh = fresh_region(head);
  if (fresh == nullptr) return nullptr;
  seal_head(head);
  heads_[head] = fresh;
  return fresh;
}

void MemoryRoom::seal_head(Head head) {
  if (heads_[head] != nullptr) arena_.seal(*heads_[head]);
  heads_[head] = nullptr;
}

/// Opens a free region, and evicts until there is one. Null: everything is dirty or pinned. While a victim is scanned
/// nothing more is evicted; null then only means that no region is free.
Region* MemoryRoom::fresh_region(Head head) {
  const size_t left_alone = head == kCleanHead ? kRegionsForWrites : 0;
  for (;;) {
    arena_.collect_condemned();
    if (arena_.free_regions() > left_alone) return arena_.open_region();
    if (scanning_) return nullptr;
    if (evict_one_region()) continue;
    if (head != kWriteHead || heads_[kCleanHead] == nullptr) return nullptr;
    seal_head(kCleanHead);  // so that it can be evicted: room for writes is more important than the cache
  }
}

// ---- Large items

Region* MemoryRoom::open_run(size_t bytes) {
  const size_t slots = (bytes + arena_.region_bytes() - 1) / arena_.region_bytes();
  arena_.collect_condemned();
  if (Region* run = arena_.open_run(slots)) return run;
  retire_victim();
  if (Region* run = evict_run(slots)) return run;
  seal_head(kWriteHead);  // an open region may lie in the middle of the only possible run
  seal_head(kCleanHead);
  return evict_run(slots);
}

/// Evicts neighbouring regions. The free slots among them are claimed first, so that items which are copied forward
/// meanwhile do not go there.
Region* MemoryRoom::evict_run(size_t slots) {
  const std::optional<size_t> first = arena_.find_evictable_run(slots);
  if (!first) return nullptr;
  arena_.claim(*first, slots);
  for (size_t i = *first; i < *first + slots; ++i) {
    Region* region = &arena_.region(i);
    if (region->state == Region::State::kRunTail && region->run_head != i) region = &arena_.region(region->run_head);
    if (region->state != Region::State::kSealed) continue;
    arena_.begin_scan(*region);
    begin_victim(*region);
    retire_victim();
    arena_.claim(*first, slots);
  }
  return arena_.open_claimed_run(*first, slots);
}

/// Seals a region that was opened for one item. If the item was not entered, frees the region.
void MemoryRoom::close_run(Region& region) {
  arena_.seal(region);
  if (region.live_items > 0) return;
  arena_.begin_scan(region);
  arena_.retire(region);
}

// ---- Eviction

/// Evicts in proportion to `bytes`.
void MemoryRoom::evict_for(size_t bytes) {
  scan_debt_bytes_ += kScanRate * static_cast<int64_t>(bytes);
  while (scan_debt_bytes_ >= kScanDebtMin) {
    const size_t looked_at = scan_group();
    scan_debt_bytes_ -= static_cast<int64_t>(looked_at);
    if (looked_at == 0) scan_debt_bytes_ = 0;
  }
}

bool MemoryRoom::evict_one_region() {
  if (!find_victim(arena_.region_count())) return false;
  retire_victim();
  return true;
}

/// Looks for a victim in up to `hand_steps_max` slots if there is none. False: none was found.
bool MemoryRoom::find_victim(size_t hand_steps_max) {
  if (victim_ != nullptr) return true;
  Region* next = arena_.next_victim(hand_steps_max);
  if (next == nullptr) return false;
  begin_victim(*next);
  return true;
}

void MemoryRoom::begin_victim(Region& region) {
  victim_ = &region;
  victim_offset_ = 0;
  victim_forwarded_bytes_ = 0;
}

/// Finishes the victim, if there is one.
void MemoryRoom::retire_victim() {
  while (victim_ != nullptr) static_cast<void>(scan_group());
}

/// Looks at the victim's next items; takes a new victim first if there is none. Returns how many bytes it looked at; 0:
/// there is no victim.
size_t MemoryRoom::scan_group() {
  if (!find_victim(kHandStepsMax)) return 0;
  std::array<Item*, kScanGroup> group;
  size_t count = 0;
  const size_t begin = victim_offset_;
  while (count < kScanGroup && victim_offset_ < victim_->used_bytes) {
    Item* const item = arena_.item_in(*victim_, victim_offset_);
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
    arena_.retire(*victim_);
    ++counters_.evicted_regions;
    victim_ = nullptr;
  }
  return looked_at;
}

void MemoryRoom::evict_or_forward(Item& item) {
  Index::Slot* slot = index_.find_place(item.hash, arena_.place_of(&item));
  SKUA_CHECK(slot != nullptr, "an item that is not marked dead is not in the index");
  if (!slot->used() || !shards_.is_live(item.shard) || !forward(item, *slot)) {
    index_.erase(item.hash, slot);
    ++counters_.evicted_items;
  }
  arena_.mark_dead(item);
}

bool MemoryRoom::forward(const Item& item, Index::Slot& slot) {
  const size_t bytes = item.bytes();
  if (victim_forwarded_bytes_ + bytes > arena_.region_bytes() / 2) return false;
  Region* head = open_head(bytes, kCleanHead);
  if (head == nullptr) return false;
  Item* const copy = arena_.item_in(*head, head->used_bytes);
  copy_bytes(copy->start(), {item.start(), bytes});
  if (mutant(Mutant::kForwardDropsExpiry) && copy->is(Item::kHasExpiry)) copy->set_expiry(UINT64_MAX);
  head->add_item(bytes);
  slot.set_place(arena_.place_of(copy));
  slot.clear_used();
  victim_forwarded_bytes_ += bytes;
  ++counters_.forwarded_items;
  counters_.forwarded_bytes += bytes;
  return true;
}

}  // namespace skua::kv
