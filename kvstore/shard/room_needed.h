// How much room a record's effects need in memory. A record that memory could never take must not be committed.
#ifndef SKUA_KVSTORE_SHARD_ROOM_NEEDED_H_
#define SKUA_KVSTORE_SHARD_ROOM_NEEDED_H_

#include <cstddef>

#include "kvstore/codec/effect.h"
#include "kvstore/memory/memory_tier.h"

namespace skua::kv {

class RoomNeeded {
 public:
  /// `memory` outlives this.
  explicit RoomNeeded(const MemoryTier& memory)
      : memory_(memory), item_bytes_max_(memory.item_bytes_max()), batch_bytes_max_(memory.batch_bytes_max()) {}

  /// One more effect of the record. False: the effect, or the record with it, is too large for this memory.
  [[nodiscard]] bool add(const Effect& effect) {
    const size_t bytes =
        Item::bytes_for(effect.key.size(), effect.value ? effect.value->size() : 0, effect.expires_at != 0);
    if (bytes > item_bytes_max_) return false;
    cost_ += memory_.cost_in_batch(bytes);
    // One effect alone needs no room for a batch.
    return ++effects_ == 1 || cost_ <= batch_bytes_max_;
  }

 private:
  const MemoryTier& memory_;
  const size_t item_bytes_max_;
  const size_t batch_bytes_max_;
  size_t cost_ = 0;
  size_t effects_ = 0;
};

}  // namespace skua::kv

#endif  // SKUA_KVSTORE_SHARD_ROOM_NEEDED_H_
