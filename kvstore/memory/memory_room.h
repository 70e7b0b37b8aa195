// Room for the next item of a memory tier: where it goes, and which items leave for it.
//
// Eviction goes round the regions like the hand of a clock (CLOCK algorithm). It takes regions that are clean and
// unpinned. Items that were read since the hand passed last are copied forward, up to half a region's bytes. The other
// items leave the index.
//
//    hand --> [ clean ] [ dirty: passed over ] [ pinned: passed over ] [ clean ] ...
//               | read since? copy to the clean head : drop
//
// Two regions are open at a time: the write head takes dirty items, the clean head takes fills and items that are
// copied forward. An item of more than half a region has regions of its own, a run.
//
// Work per call is bounded: for each byte that is taken, eviction looks at about three bytes. Only a call that finds no
// free region evicts a whole region at once, and a call for a large item evicts as many regions as the item needs.
#ifndef SKUA_KVSTORE_MEMORY_MEMORY_ROOM_H_
#define SKUA_KVSTORE_MEMORY_MEMORY_ROOM_H_

#include <array>
#include <cstddef>
#include <cstdint>

#include "kvstore/memory/arena.h"
#include "kvstore/memory/index.h"
#include "kvstore/memory/item.h"
#include "kvstore/memory/memory_shards.h"
#include "kvstore/memory/region.h"

namespace skua::kv {

/// Thread: the memory tier's.
class MemoryRoom {
 public:
  enum Head : uint8_t { kWriteHead, kCleanHead, kHeads };

  struct Counters {
    uint64_t evicted_items = 0;
    uint64_t evicted_regions = 0;
    uint64_t forwarded_items = 0;
    uint64_t forwarded_bytes = 0;
  };

  /// All outlive the room. Items of shards that are not live are not copied forward.
  MemoryRoom(ItemArena& arena, Index& index, const MemoryShards& shards);

  /// To be called before an item of `bytes` bytes is written: evicts in proportion to `bytes`.
  void pace(size_t bytes) {
    if (arena_.free_regions() >= free_regions_wanted_ && !index_.crowded()) [[likely]] {
      scan_debt_bytes_ = 0;
    } else {
      evict_for(bytes);
    }
  }
  /// A region with room for an item of `bytes` bytes, to be given back with close(). Null: everything is dirty or
  /// pinned. May change the index.
  [[nodiscard]] Region* open(size_t bytes, Head head) {
    if (bytes > arena_.region_bytes() / 2) [[unlikely]] {
      return open_run(bytes);
    }
    return open_head(bytes, head);
  }
  /// The same for an item that needs no region of its own.
  [[nodiscard]] Region* open_head(size_t bytes, Head head) {
    Region* const present = heads_[head];
    if (present != nullptr && arena_.region_bytes() - present->used_bytes >= bytes) [[likely]] {
      return present;
    }
    return open_next(head);
  }
  /// The item is written to the region that open() returned, or will not be.
  void close(Region& region) {
    if (&region != heads_[kWriteHead] && &region != heads_[kCleanHead]) close_run(region);
  }
  /// False: there is no region to evict. True: one region's items left the index, and the region is free unless it is
  /// pinned.
  [[nodiscard]] bool evict_one_region();

  [[nodiscard]] size_t item_bytes_max() const { return run_slots_max_ * arena_.region_bytes(); }
  /// False: there is no room for so many bytes of items, whatever is evicted.
  [[nodiscard]] bool may_have(size_t bytes) const {
    return (arena_.free_regions() + arena_.clean_regions() + kHeads) * arena_.region_bytes() >= bytes;
  }
  [[nodiscard]] const Counters& counters() const { return counters_; }

 private:
  void evict_for(size_t bytes);
  [[nodiscard]] Region* open_next(Head head);
  [[nodiscard]] Region* fresh_region(Head head);
  void seal_head(Head head);
  [[nodiscard]] Region* open_run(size_t bytes);
  [[nodiscard]] Region* evict_run(size_t slots);
  void close_run(Region& region);
  [[nodiscard]] bool find_victim(size_t hand_steps_max);
  void begin_victim(Region& region);
  void retire_victim();
  size_t scan_group();
  void evict_or_forward(Item& item);
  [[nodiscard]] bool forward(const Item& item, Index::Slot& slot);

  ItemArena& arena_;
  Index& index_;
  const MemoryShards& shards_;
  const size_t run_slots_max_;
  const size_t free_regions_wanted_;

  std::array<Region*, kHeads> heads_{};
  Region* victim_ = nullptr;
  size_t victim_offset_ = 0;
  size_t victim_forwarded_bytes_ = 0;
  bool scanning_ = false;
  int64_t scan_debt_bytes_ = 0;
  Counters counters_;
};

}  // namespace skua::kv

#endif  // SKUA_KVSTORE_MEMORY_MEMORY_ROOM_H_
