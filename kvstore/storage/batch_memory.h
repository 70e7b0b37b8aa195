// BatchMemory: memory of large batches of effects that are written, for the next large ones.
//
//    shard a:  batch grows ---> written --give--> spare --take--> shard b: its next batch begins in this memory
//
// To give memory back to the kernel and to get it again page by page takes as long as to sort a batch. Shards do not
// keep the memory themselves, because each of a thousand shards that come to rest would keep some.
#ifndef SKUA_KVSTORE_STORAGE_BATCH_MEMORY_H_
#define SKUA_KVSTORE_STORAGE_BATCH_MEMORY_H_

#include <cstddef>
#include <utility>
#include <vector>

#include "kvstore/storage/shard_db.h"

namespace skua::kv {

/// Thread: one.
class BatchMemory {
 public:
  /// A batch keeps memory for up to this many effects; larger memory goes to the spares.
  static constexpr size_t kSmallEffects = 4096;
  static constexpr size_t kSpareMax = 2;

  /// For a batch of about so many effects.
  [[nodiscard]] std::vector<AppliedEffect> take(size_t effects) {
    if (effects <= kSmallEffects || spare_.empty()) return {};
    std::vector<AppliedEffect> memory = std::move(spare_.back());
    spare_.pop_back();
    return memory;
  }

  /// Empties the batch. Memory of which it needed little is freed.
  void give(std::vector<AppliedEffect>& batch) {
    const bool is_spare = spare_.size() < kSpareMax && !is_wasteful(batch);
    batch.clear();
    if (batch.capacity() <= kSmallEffects) return;
    std::vector<AppliedEffect> memory = std::exchange(batch, {});
    if (is_spare) spare_.push_back(std::move(memory));
  }

  /// True: the memory is not little, and the effects need less than a quarter of it.
  [[nodiscard]] static bool is_wasteful(const std::vector<AppliedEffect>& effects) {
    return effects.capacity() > kSmallEffects && effects.size() < effects.capacity() / 4;
  }

 private:
  std::vector<std::vector<AppliedEffect>> spare_;
};

}  // namespace skua::kv

#endif  // SKUA_KVSTORE_STORAGE_BATCH_MEMORY_H_
