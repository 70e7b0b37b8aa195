// The shards whose items are in a memory tier: their numbers, and which of their writes the durable tier lacks.
//
//    number of a shard    [ how many shards had this place before : 20 | place in the table : 12 ]
//
// No number is given out twice. So when a shard is dropped, no get finds its items any more, though they are still in
// the arena. They go when their regions are evicted.
#ifndef SKUA_KVSTORE_MEMORY_MEMORY_SHARDS_H_
#define SKUA_KVSTORE_MEMORY_MEMORY_SHARDS_H_

#include <cstddef>
#include <cstdint>
#include <vector>

#include "kvstore/memory/arena.h"
#include "kvstore/memory/dirty_list.h"
#include "kvstore/memory/region.h"

namespace skua::kv {

/// Thread: the memory tier's. `shard` arguments are numbers that add() returned; unless said otherwise they must not
/// have been dropped (checked).
class MemoryShards {
 public:
  /// `arena` outlives the object. It is told which regions have dirty writes.
  explicit MemoryShards(ItemArena& arena) : arena_(arena) {}

  /// How many live shards there may be. The lower bits of a number are a place among so many.
  static constexpr size_t kShardsMax = 4096;

  /// Returns the number of a new shard. The durable tier has all of its writes up to `applied_index`. There must be
  /// fewer than kShardsMax live shards (checked).
  [[nodiscard]] uint32_t add(uint64_t applied_index);
  /// Forgets the shard with its dirty writes.
  void drop(uint32_t shard);
  /// Any number may be asked for.
  [[nodiscard]] bool is_live(uint32_t shard) const;

  /// True: the durable tier does not have the write of this index.
  [[nodiscard]] bool lacks(uint32_t shard, uint64_t index) { return index > at(shard).clean_index; }
  /// The shard has written `bytes` to the region, and the durable tier lacks this write.
  void note_dirty(uint32_t shard, Region& region, uint64_t index, size_t bytes);
  /// The durable tier has all writes of the shard up to `index`.
  void mark_clean(uint32_t shard, uint64_t index);
  /// Of all shards.
  [[nodiscard]] size_t dirty_bytes() const { return segments_.bytes(); }

 private:
  struct Shard {
    uint32_t number = 0;
    bool live = false;
    uint64_t clean_index = 0;
    DirtyList dirty{};
  };

  [[nodiscard]] Shard& at(uint32_t number);

  ItemArena& arena_;
  std::vector<Shard> shards_;  // indexed by the lower bits of the shards' numbers
  DirtySegments segments_;
};

}  // namespace skua::kv

#endif  // SKUA_KVSTORE_MEMORY_MEMORY_SHARDS_H_
