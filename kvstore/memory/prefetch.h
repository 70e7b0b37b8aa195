// Prefetches bytes into the processor's cache before they are copied.
//
//    cache lines   |.......|.......|.......|.......|
//    bytes             ##################                they begin and end anywhere in a line
//
// The lines are fetched in parallel, so a copy waits for a single line that was not prefetched as long as for all of
// them. The last line must not be left out either.
#ifndef SKUA_KVSTORE_MEMORY_PREFETCH_H_
#define SKUA_KVSTORE_MEMORY_PREFETCH_H_

#include <algorithm>
#include <cstddef>
#include <cstdint>

#include "rpc/base/bytes.h"

namespace skua::kv {

inline constexpr size_t kCacheLineBytes = 64;
/// Bytes that are prefetched at most. The processor fetches the rest of a longer run by itself, because it recognizes
/// that lines are read one after the other.
inline constexpr size_t kPrefetchBytesMax = 2048;

/// Neighbouring lines, the first one's address a multiple of kCacheLineBytes.
struct CacheLines {
  uintptr_t first = 0;
  size_t count = 0;
};

/// The cache lines that the bytes lie in.
[[nodiscard]] inline CacheLines lines_of(ByteSpan bytes) {
  if (bytes.empty()) return {};
  const auto begin = reinterpret_cast<uintptr_t>(bytes.data());
  const uintptr_t first = begin / kCacheLineBytes * kCacheLineBytes;
  return {first, (begin + bytes.size() - 1 - first) / kCacheLineBytes + 1};
}

/// To be called in a function that only prefetches. GCC believes that such a function has no effect and drops calls of
/// it that it does not inline early. An asm statement without instructions keeps the calls, because GCC cannot look
/// into it.
[[gnu::always_inline]] inline void keep_prefetches() {
  asm volatile("");
}

/// Begins to fetch the first `bytes_max` bytes at most. Returns at once; never faults.
inline void prefetch_bytes(ByteSpan bytes, size_t bytes_max = kPrefetchBytesMax) {
  keep_prefetches();
  bytes = bytes.first(std::min(bytes.size(), bytes_max));
  const size_t lines = lines_of(bytes).count;
  if (lines == 0) return;
  // One byte of each line. Of the last line the last byte, because a step of kCacheLineBytes may end before the last
  // line.
  for (size_t i = 0; i + 1 < lines; ++i) __builtin_prefetch(bytes.data() + i * kCacheLineBytes);
  __builtin_prefetch(&bytes.back());
}

}  // namespace skua::kv

#endif  // SKUA_KVSTORE_MEMORY_PREFETCH_H_
