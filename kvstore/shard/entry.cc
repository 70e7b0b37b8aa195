#include "kvstore/shard/entry.h"

#include <utility>

#include "kvstore/shard/engine_limits.h"
#include "kvstore/shard/write_op.h"
#include "rpc/base/check.h"

namespace skua::kv {

void Entry::drop() {
  dropped = true;
  if (!in_log && pins == 0) pool->release(*this);
}

void Entry::leave_log() {
  in_log = false;
  if (dropped && pins == 0) pool->release(*this);
}

void Entry::unpin() {
  SKUA_CHECK(pins > 0, "an entry is unpinned once for each pin");
  if (--pins == 0 && dropped && !in_log) pool->release(*this);
}

Entry& EntryPool::acquire(Shard& shard, uint64_t index, uint64_t epoch, int64_t time_ms, Durability durability) {
  if (free_ == nullptr) {
    free_ = all_.emplace_back(std::make_unique<Entry>()).get();
    free_->pool = this;
  }
  Entry& entry = *std::exchange(free_, free_->next_free);
  entry.shard = &shard;
  entry.index = index;
  entry.epoch = epoch;
  entry.time_ms = time_ms;
  entry.durability = durability;
  return entry;
}

void EntryPool::release(Entry& entry) {
  if (entry.write != nullptr) std::exchange(entry.write, nullptr)->entry = nullptr;
  entry.urgent = entry.abandoned = false;
  entry.in_row = entry.dropped = entry.in_log = false;
  entry.payload.clear();
  if (entry.payload.capacity() > kPayloadBytesKept) std::string().swap(entry.payload);
  entry.next_free = std::exchange(free_, &entry);
}

}  // namespace skua::kv
