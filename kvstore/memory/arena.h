// The memory that holds the items: one slab, registered with the transports once and divided into regions.
//
//    slot      0         1         2         3         4         5         6         7
//          +---------+---------+---------+---------+---------+---------+---------+---------+
//          | sealed  | open    | free    | sealed  | free    | run of three slots: one     |  2 MiB each
//          | items.. | items.. |         | items.. |         | large item                  |
//          +---------+---------+---------+---------+---------+---------+---------+---------+
//
// A region's life:
//
//    free --open--> open --seal--> sealed --victim--> scanning --retire--> condemned --pins gone--> free
//                   appended to    full               its items leave the   only if somebody still reads it
//                                                     index one by one
//
// Only a sealed region without pins and without dirty segments (writes that the durable tier does not have) becomes a
// victim. A region that is pinned while it is scanned becomes condemned, and is not free before its pins are gone. So
// nothing is overwritten that a reader holds.
//
// Single regions are taken from the lowest free slot, runs from the highest free slots, so that long runs stay
// possible.
#ifndef SKUA_KVSTORE_MEMORY_ARENA_H_
#define SKUA_KVSTORE_MEMORY_ARENA_H_

#include <cstddef>
#include <cstdint>
#include <memory>
#include <optional>
#include <vector>

#include "absl/status/statusor.h"
#include "kvstore/memory/item.h"
#include "kvstore/memory/region.h"
#include "rpc/base/bytes.h"
#include "rpc/memory/arena.h"

namespace skua::kv {

/// Thread: one, except that pins may be returned on any thread.
class ItemArena {
 public:
  struct Options {
    /// Rounded down to whole regions; must hold at least kRegionsMin of them.
    size_t bytes = 0;
    /// A power of two.
    size_t region_bytes = size_t{2} << 20;
    bool try_huge_pages = true;
    /// Called once each, for the whole slab; see rpc/memory/arena.h.
    rpc::Arena::OnMap on_map = nullptr;
    rpc::Arena::OnUnmap on_unmap = nullptr;
  };

  static constexpr size_t kRegionsMin = 4;

  /// Errors: INVALID_ARGUMENT for too few regions; RESOURCE_EXHAUSTED if the memory cannot be mapped; on_map's errors.
  static absl::StatusOr<std::unique_ptr<ItemArena>> create(Options options);
  /// All pins must have been returned (checked).
  ~ItemArena();
  ItemArena(const ItemArena&) = delete;
  ItemArena& operator=(const ItemArena&) = delete;

  /// Makes this thread the owner's: pins that it returns cost no atomic operation. Call it before the first pin.
  void bind_to_this_thread();

  // -- Items

  [[nodiscard]] std::byte* base() const { return base_; }
  [[nodiscard]] Item* item_at(ItemPlace place) const {
    return reinterpret_cast<Item*>(base_ + (place - 1) * kItemAlignment);
  }
  [[nodiscard]] ItemPlace place_of(const Item* item) const {
    return static_cast<size_t>(item->start() - base_) / kItemAlignment + 1;
  }
  /// The region of the item that begins at `place`.
  [[nodiscard]] Region& region_of(ItemPlace place) const {
    return regions_[((place - 1) * kItemAlignment) >> region_shift_];
  }
  /// The item that begins at this offset in the region.
  [[nodiscard]] Item* item_in(const Region& region, size_t offset) const {
    return reinterpret_cast<Item*>(base_ + (static_cast<size_t>(region.number) << region_shift_) + offset);
  }
  /// The index no longer refers to this item.
  void mark_dead(Item& item) {
    item.flags |= Item::kDead;
    --region_of(place_of(&item)).live_items;
  }

  // -- Regions

  [[nodiscard]] size_t region_bytes() const { return size_t{1} << region_shift_; }
  [[nodiscard]] size_t region_count() const { return region_count_; }
  [[nodiscard]] size_t free_regions() const { return free_count_; }
  [[nodiscard]] Region& region(size_t number) const { return regions_[number]; }
  /// Sealed regions without dirty segments; they may be pinned.
  [[nodiscard]] size_t clean_regions() const { return clean_count_; }
  /// Bytes of all slots that were ever taken from the free ones.
  [[nodiscard]] size_t touched_bytes() const { return touched_count_ << region_shift_; }

  /// Opens the lowest free region. Null if no slot is free.
  [[nodiscard]] Region* open_region();
  /// Opens a run of `slots` free neighbouring slots. Null if there is none.
  [[nodiscard]] Region* open_run(size_t slots);
  /// Opens a run of slots that are all claimed (checked).
  [[nodiscard]] Region* open_claimed_run(size_t first, size_t slots);
  /// The highest run of `slots` neighbouring slots that are free or can be evicted now: its first slot.
  [[nodiscard]] std::optional<size_t> find_evictable_run(size_t slots) const;
  /// Takes those of these slots that are free, so that no other call opens them.
  void claim(size_t first, size_t slots);

  void seal(Region& region);
  void add_dirty_segment(Region& region);
  void remove_dirty_segment(Region& region);

  /// Finds the next region that may be evicted, as the CLOCK algorithm does, and makes it kScanning. Looks at up to
  /// `steps_max` slots. Null if none of them may be evicted.
  [[nodiscard]] Region* next_victim(size_t steps_max);
  /// Makes a region kScanning that may be evicted.
  void begin_scan(Region& region);
  /// A scanned region has no live item any more. It becomes free: at once, or when its pins are gone and
  /// collect_condemned() is called.
  void retire(Region& region);
  /// Frees the condemned regions whose pins are gone.
  void collect_condemned();

  // -- Pins

  /// More than half of all slots are pinned. Callers that would hold a pin for long, above all for a peer, must then
  /// copy the value instead: pinned regions cannot be evicted, and writes would wait for room.
  [[nodiscard]] bool is_pinned_much() {
    if (pinned_slots_ <= region_count_ / 2) [[likely]]
      return false;
    if (asked_while_pinned_++ % kAsksPerCount == 0) {
      for (size_t i = 0; i < region_count_; ++i) regions_[i].count_returns();
    }
    return pinned_slots_ > region_count_ / 2;
  }

 private:
  using State = Region::State;
  /// While much is pinned, is_pinned_much() counts the pins that other threads returned once in this many calls.
  static constexpr uint32_t kAsksPerCount = 256;

  explicit ItemArena(Options options);
  void take_free(Region& region);
  void make_free(Region& region);

  const unsigned region_shift_;
  const size_t region_count_;
  rpc::Arena slab_;
  std::byte* base_ = nullptr;
  std::unique_ptr<Region[]> regions_;
  size_t free_count_ = 0;
  size_t clean_count_ = 0;
  size_t touched_count_ = 0;
  /// Slots of regions with pins. Pins that other threads returned count as taken until Region::count_returns().
  size_t pinned_slots_ = 0;
  uint32_t asked_while_pinned_ = 0;
  size_t lowest_free_hint_ = 0;
  size_t hand_ = 0;
  std::vector<uint32_t> condemned_;
  std::vector<bool> touched_;
};

}  // namespace skua::kv

#endif  // SKUA_KVSTORE_MEMORY_ARENA_H_
