// A region of the arena (arena.h): what is in it, and who still reads it.
//
// Pins are counted in three counters. The owner's thread counts the pins that it takes and those that it returns in
// plain counters. Other threads (a transport's completion) count the pins that they return in an atomic counter on a
// cache line of its own. The region is unpinned when as many pins were returned as were taken.
#ifndef SKUA_KVSTORE_MEMORY_REGION_H_
#define SKUA_KVSTORE_MEMORY_REGION_H_

#include <atomic>
#include <cstddef>
#include <cstdint>

#include "kvstore/types/mutants.h"
#include "rpc/base/thread_mark.h"

namespace skua::kv {

/// Thread: the arena's owner, except for unpin().
struct alignas(64) Region {
  enum class State : uint8_t { kFree, kOpen, kSealed, kScanning, kCondemned, kRunTail };

  uint64_t pins_taken = 0;
  uint64_t pins_returned_here = 0;
  const void* owner_mark = nullptr;
  size_t* pinned_slots = nullptr;  ///< the arena's count of slots with pins
  uint32_t number = 0;             ///< number of the region's (first) slot
  uint32_t slots = 1;              ///< more than one: a run
  uint32_t run_head = 0;           ///< kRunTail: number of the run's first slot; of a claimed slot its own number
  uint32_t used_bytes = 0;
  uint32_t live_items = 0;
  uint32_t dirty_segments = 0;
  State state = State::kFree;
  alignas(64) std::atomic<uint64_t> returned_elsewhere{0};

  /// The item behind the last one, of `bytes` bytes, belongs to the region from now on.
  void add_item(size_t bytes) {
    used_bytes += static_cast<uint32_t>(bytes);
    ++live_items;
  }

  void pin() {
    if (pins_taken++ == pins_returned_here) *pinned_slots += slots;
  }
  /// Returns a pin of the Region that `region_pointer` points to. Thread: any.
  static void unpin(void* region_pointer) {
    auto* region = static_cast<Region*>(region_pointer);
    if (region->owner_mark == this_thread_mark()) {
      if (++region->pins_returned_here == region->pins_taken) *region->pinned_slots -= region->slots;
    } else {
      region->returned_elsewhere.fetch_add(1, std::memory_order_release);
    }
  }
  /// Counts in `pinned_slots` the pins that other threads have returned.
  void count_returns() {
    if (returned_elsewhere.load(std::memory_order_relaxed) == 0) return;
    pins_returned_here += returned_elsewhere.exchange(0, std::memory_order_acquire);
    if (pins_returned_here == pins_taken) *pinned_slots -= slots;
  }
  /// The number of pins. An upper bound, since other threads may be returning pins.
  [[nodiscard]] uint64_t pins() const {
    return pins_taken - pins_returned_here - returned_elsewhere.load(std::memory_order_acquire);
  }
  [[nodiscard]] bool is_unpinned() const { return pins() == 0 || mutant(Mutant::kReuseRegionEarly); }
  /// True: all of its items may leave the index now.
  [[nodiscard]] bool is_evictable() const {
    const bool clean = dirty_segments == 0 || mutant(Mutant::kEvictDirty);
    return state == State::kSealed && clean && is_unpinned();
  }
};

}  // namespace skua::kv

#endif  // SKUA_KVSTORE_MEMORY_REGION_H_
