// Bytes that are going to be copied, fetched into the processor's cache before.
//
//    cache lines   |.......|.......|.......|.......|
//    bytes             ##################                they begin and end anywhere in a line
//
// Lines come side by side: a copy waits for one line that was left out as long as for all of them. The last one counts.
#ifndef SKUA_KVSTORE_MEMORY_PREFETCH_H_
#define SKUA_KVSTORE_MEMORY_PREFETCH_H_

#include <algorithm>
#include <cstddef>
#include <cstdint>

#include "rpc/base/bytes.h"

namespace skua::kv {

inline constexpr size_t kCacheLineBytes = 64;
/// What a longer run has behind, the processor fetches by itself: it sees the line after line.
inline constexpr size_t kPrefetchBytesMax = 2048;

/// Neighbouring lines, the first one's address a multiple of kCacheLineBytes.
struct CacheLines {
  uintptr_t first = 0;
  size_t count = 0;
};

/// Those that the bytes lie in.
[[nodiscard]] inline CacheLines lines_of(ByteSpan bytes) {
  if (bytes.empty()) return {};
  const auto begin = reinterpret_cast<uintptr_t>(bytes.data());
  const uintptr_t first = begin / kCacheLineBytes * kCacheLineBytes;
  return {first, (begin + bytes.size() - 1 - first) / kCacheLineBytes + 1};
}

/// For a function that does nothing but fetch. GCC takes such a function for one without any effect and drops calls of
/// it that it does not inline early; a statement that it does not see into, of no instructions, keeps them.
[[gnu::always_inline]] inline void keep_prefetches() {
  asm volatile("");
}

/// Begins to fetch the bytes, `bytes_max` of them at most. Returns at once; never faults.
inline void prefetch_bytes(ByteSpan bytes, size_t bytes_max = kPrefetchBytesMax) {
  keep_prefetches();
  bytes = bytes.first(std::min(bytes.size(), bytes_max));
  const size_t lines = lines_of(bytes).count;
  if (lines == 0) return;
  // A byte of each; of the last line the last byte, before which a step of a line may end.
  for (size_t i = 0; i + 1 < lines; ++i) __builtin_prefetch(bytes.data() + i * kCacheLineBytes);
  __builtin_prefetch(&bytes.back());
}

}  // namespace skua::kv

#endif  // SKUA_KVSTORE_MEMORY_PREFETCH_H_
