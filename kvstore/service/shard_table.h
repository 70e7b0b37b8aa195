// The shards of a worker by (table, shard). Each request looks its shard up once.
//
// The table uses open addressing with linear probing over 16-byte slots and is at most half full. So a lookup is one
// multiplication and nearly always one cache line. Removal rebuilds the table, because shards come and go only with
// changes of the shard map.
#ifndef SKUA_KVSTORE_SERVICE_SHARD_TABLE_H_
#define SKUA_KVSTORE_SERVICE_SHARD_TABLE_H_

#include <bit>
#include <cstddef>
#include <cstdint>
#include <utility>
#include <vector>

#include "kvstore/types/mutation.h"

namespace skua::kv {

/// Holds pointers to shards; it does not own the shards. Thread: one.
template <typename Shard>
class ShardTable {
 public:
  ShardTable() : slots_(kSlotsMin) {}

  /// The shard, or null.
  [[nodiscard]] Shard* find(ShardId id) const {
    const uint64_t key = key_of(id);
    for (size_t i = place_of(key);; i = (i + 1) & mask()) {
      const Slot& slot = slots_[i];
      if (slot.shard == nullptr || slot.key == key) return slot.shard;
    }
  }

  /// False: a shard with this id is here already; nothing was changed.
  bool insert(ShardId id, Shard* shard) {
    if (find(id) != nullptr) return false;
    if (2 * (count_ + 1) > slots_.size()) resize(2 * slots_.size());
    place({key_of(id), shard});
    ++count_;
    return true;
  }

  /// Returns the shard that was removed, or null.
  Shard* remove(ShardId id) {
    Shard* const removed = find(id);
    if (removed == nullptr) return nullptr;
    for (Slot& slot : slots_) {
      if (slot.shard == removed) slot = {};
    }
    --count_;
    resize(slots_.size());
    return removed;
  }

  /// Visits all shards, in no particular order.
  template <typename Visit>
  void for_each(Visit visit) const {
    for (const Slot& slot : slots_) {
      if (slot.shard != nullptr) visit(*slot.shard);
    }
  }

  [[nodiscard]] size_t size() const { return count_; }

 private:
  static constexpr size_t kSlotsMin = 16;
  struct Slot {
    uint64_t key = 0;
    Shard* shard = nullptr;
  };

  static uint64_t key_of(ShardId id) { return uint64_t{id.table_id} << 32 | id.shard; }
  [[nodiscard]] size_t mask() const { return slots_.size() - 1; }
  /// Fibonacci hashing: neighbouring shards spread over the table's upper bits.
  [[nodiscard]] size_t place_of(uint64_t key) const {
    // There are at least kSlotsMin slots, so the shift is below 64. The & says so to the static analyzer.
    return (key * 0x9E3779B97F4A7C15u) >> (std::countl_zero(mask()) & 63);
  }

  void place(Slot filled) {
    size_t i = place_of(filled.key);
    while (slots_[i].shard != nullptr) i = (i + 1) & mask();
    slots_[i] = filled;
  }

  void resize(size_t slot_count) {
    std::vector<Slot> old(slot_count);
    old.swap(slots_);
    for (const Slot& slot : old) {
      if (slot.shard != nullptr) place(slot);
    }
  }

  std::vector<Slot> slots_;
  size_t count_ = 0;
};

}  // namespace skua::kv

#endif  // SKUA_KVSTORE_SERVICE_SHARD_TABLE_H_
