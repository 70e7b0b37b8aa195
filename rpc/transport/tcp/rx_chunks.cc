#include "rpc/transport/tcp/rx_chunks.h"

#include <numeric>

namespace skua::rpc::tcp {

ChunkPool::ChunkPool(uint32_t chunk_bytes, uint32_t chunk_count)
    : chunk_bytes_(chunk_bytes),
      arena_({.limit_bytes = SIZE_MAX, .try_huge_pages = true, .on_map = {}, .on_unmap = {}}),
      refs_(chunk_count, 0) {
  free_.reserve(chunk_count);
  for (uint32_t chunk = chunk_count - 1; chunk > 0; --chunk) free_.push_back(chunk);
}

absl::StatusOr<std::unique_ptr<ChunkPool>> ChunkPool::create(uint32_t chunk_bytes, uint32_t chunk_count) {
  SKUA_CHECK(chunk_bytes > 0 && chunk_count > 0, "a chunk pool needs chunks");
  std::unique_ptr<ChunkPool> pool(new ChunkPool(chunk_bytes, chunk_count));
  absl::StatusOr<MutableByteSpan> memory = pool->arena_.map(size_t{chunk_bytes} * chunk_count);
  if (!memory.ok()) return memory.status();
  pool->base_ = memory->data();
  return pool;
}

bool ChunkPool::next_chunk() {
  if (free_.empty()) return false;
  // The current chunk has references (else ensure_room would have started it over), so the last drop_ref() frees it.
  current_ = free_.back();
  free_.pop_back();
  write_ = 0;
  return true;
}

size_t ChunkPool::ref_count() const {
  return std::accumulate(refs_.begin(), refs_.end(), size_t{0});
}

}  // namespace skua::rpc::tcp
