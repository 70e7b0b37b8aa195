// Writes that become visible together.
//
//    1  all items are written into regions, which are pinned, once    if there is no room: the items are marked dead
//       for consecutive items in one region
//    2  the index is made to refer to them, one after the other       if it is full: restore it, evict a region,
//                                                                     and begin step 2 again
//    3  the items that they replace are marked dead, the new items become dirty, the pins are returned
//
// A reader sees the state before 1 or after 3, because all steps are in one call on the owner's thread.
#include "kvstore/memory/memory_tier.h"
#include "rpc/base/check.h"

namespace skua::kv {
namespace {

/// The items of so many writes are fetched ahead, while the index is made to refer to other ones.
constexpr size_t kAhead = 4;

}  // namespace

size_t MemoryTier::cost_in_batch(size_t item_bytes) const {
  const size_t region = arena_->region_bytes();
  return item_bytes > region / 2 ? (item_bytes + region - 1) / region * region : 2 * item_bytes;
}

MemoryTier::Put MemoryTier::put_all(std::span<BatchWrite> writes, uint64_t index) {
  counters_.puts += writes.size();
  size_t bytes = 0;
  if (!size_up(writes, index, bytes)) return Put::kTooLarge;
  // A batch that waits for room is tried again and again: this test avoids copying its bytes when they cannot fit.
  if (!room_.may_have(bytes) || !write_items(writes, index) || !enter_all(writes)) {
    ++counters_.puts_refused;
    return Put::kBackPressure;
  }
  settle_items(writes, index);
  unpin_regions(writes);
  return Put::kDone;
}

/// Works out how large the items are. False: one of them is too large.
bool MemoryTier::size_up(std::span<BatchWrite> writes, uint64_t index, size_t& bytes) {
  for (size_t i = 0; i < writes.size(); ++i) {
    BatchWrite& write = writes[i];
    if (i == 0 || write.key.shard != writes[i - 1].key.shard) {
      SKUA_CHECK(shards_.lacks(write.key.shard, index), "what is applied already cannot be written anew");
    }
    write.bytes = write.item_bytes();
    if (write.bytes > item_bytes_max()) return false;
    bytes += write.bytes;
  }
  return true;
}

/// The index refers to all items: what they replace is dead, and they are dirty.
void MemoryTier::settle_items(std::span<const BatchWrite> writes, uint64_t index) {
  size_t bytes = 0;  // of the last writes of one shard that lie in one region
  for (size_t i = 0; i < writes.size(); ++i) {
    const BatchWrite& write = writes[i];
    if (write.before != 0) arena_->mark_dead(*arena_->item_at(write.before));
    index_.count_write(write.key.hash);
    bytes += write.bytes;
    Region& region = region_of(write);
    const bool is_last =
        i + 1 == writes.size() || &region_of(writes[i + 1]) != &region || writes[i + 1].key.shard != write.key.shard;
    if (!is_last) continue;
    shards_.note_dirty(write.key.shard, region, index, bytes);
    bytes = 0;
  }
}

/// Returns the pins that write_items() took.
void MemoryTier::unpin_regions(std::span<const BatchWrite> writes) {
  Region* last = nullptr;
  for (const BatchWrite& write : writes) {
    Region* const region = &region_of(write);
    if (region != last) Region::unpin(region);
    last = region;
  }
}

bool MemoryTier::write_items(std::span<BatchWrite> writes, uint64_t index) {
  Region* last = nullptr;
  for (size_t i = 0; i < writes.size(); ++i) {
    BatchWrite& write = writes[i];
    const size_t bytes = write.bytes;
    index_.prefetch(write.key.hash);
    room_.pace(bytes);
    Region* const region = room_.open(bytes, MemoryRoom::kWriteHead);
    if (region == nullptr) {
      abandon_items(writes.first(i));
      return false;
    }
    write.item = write_item(*region, write.value ? draft_of(write.key, *write.value, index, write.expiry, write.mark)
                                                 : tombstone_of(write.key, index));
    region->add_item(bytes);
    if (region != last) region->pin();
    last = region;
    room_.close(*region);
  }
  return true;
}

void MemoryTier::abandon_items(std::span<BatchWrite> writes) {
  for (const BatchWrite& write : writes) arena_->mark_dead(*arena_->item_at(arena_->place_of(write.item)));
  unpin_regions(writes);
}

bool MemoryTier::enter_all(std::span<BatchWrite> writes) {
  for (;;) {
    size_t entered = 0;
    for (; entered < writes.size(); ++entered) {
      BatchWrite& write = writes[entered];
      if (entered + kAhead < writes.size()) index_.prefetch_items(writes[entered + kAhead].key.hash);
      Index::Slot* slot = index_.find(write.key);
      write.before = slot == nullptr ? 0 : slot->place();
      const ItemPlace place = arena_->place_of(write.item);
      if (slot != nullptr) {
        slot->set_place(place);
      } else if (!index_.insert(write.key.hash, place)) {
        break;
      }
    }
    if (entered == writes.size()) return true;
    leave_index(writes.first(entered));
    if (room_.evict_one_region()) continue;
    abandon_items(writes);
    return false;
  }
}

/// Restores the index to the state before enter_all().
void MemoryTier::leave_index(std::span<BatchWrite> writes) {
  for (const BatchWrite& write : writes) {
    Index::Slot* slot = index_.find_place(write.key.hash, arena_->place_of(write.item));
    if (write.before != 0) {
      slot->set_place(write.before);
    } else {
      index_.erase(write.key.hash, slot);
    }
  }
}

}  // namespace skua::kv
