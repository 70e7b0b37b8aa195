// CRC-32C (Castagnoli, reflected polynomial 0x82f63b78), the checksum of iSCSI, ext4 and SCTP.
//
// Short pieces (headers, small payloads) use the SSE4.2 instruction, inline. Long pieces are folded (crc32c_fold.h) if
// the processor has the instructions, and go to ISA-L otherwise. Without SSE4.2 a table is used.
#ifndef SKUA_RPC_BASE_CRC32C_H_
#define SKUA_RPC_BASE_CRC32C_H_

#include <cstdint>

#if defined(__SSE4_2__)
#include <nmmintrin.h>
#endif

#include "rpc/base/bytes.h"

namespace skua {

namespace internal {
/// The table-driven form: the fallback, and the reference for tests of the fast form.
[[nodiscard]] uint32_t crc32c_extend_portable(uint32_t crc, ByteSpan bytes);
[[nodiscard]] uint32_t crc32c_extend_long(uint32_t crc, ByteSpan bytes);
[[nodiscard]] uint32_t crc32c_extend_isal(uint32_t crc, ByteSpan bytes);
/// From this size on, the setup for many bytes at a time pays off.
inline constexpr size_t kCrcLongBytes = 256;
}  // namespace internal

/// Extends `crc` (0 for the first piece) over `bytes`: crc32c_extend(crc32c(a), b) == crc32c(a followed by b). Check
/// value: crc32c("123456789") == 0xe3069283.
[[nodiscard, gnu::always_inline]] inline uint32_t crc32c_extend(uint32_t crc, ByteSpan bytes) {
#if defined(__SSE4_2__)
  if (bytes.size() >= internal::kCrcLongBytes) [[unlikely]] {
    return internal::crc32c_extend_long(crc, bytes);
  }
  uint64_t state = static_cast<uint32_t>(~crc);
  const std::byte* p = bytes.data();
  size_t left = bytes.size();
  for (const std::byte* blocks_end = p + (left & ~size_t{31}); p != blocks_end; p += 32) {
    state = _mm_crc32_u64(state, load_le<uint64_t>(p));
    state = _mm_crc32_u64(state, load_le<uint64_t>(p + 8));
    state = _mm_crc32_u64(state, load_le<uint64_t>(p + 16));
    state = _mm_crc32_u64(state, load_le<uint64_t>(p + 24));
  }
  // Each power of two below 32 is a bit of the rest's size, so the rest needs no loop.
  if ((left & 16) != 0) {
    state = _mm_crc32_u64(state, load_le<uint64_t>(p));
    state = _mm_crc32_u64(state, load_le<uint64_t>(p + 8));
    p += 16;
  }
  if ((left & 8) != 0) {
    state = _mm_crc32_u64(state, load_le<uint64_t>(p));
    p += 8;
  }
  auto tail = static_cast<uint32_t>(state);
  if ((left & 7) == 0) return ~tail;
  if ((left & 4) != 0) {
    tail = _mm_crc32_u32(tail, load_le<uint32_t>(p));
    p += 4;
  }
  for (left &= 3; left > 0; ++p, --left) tail = _mm_crc32_u8(tail, static_cast<uint8_t>(*p));
  return ~tail;
#else
  return internal::crc32c_extend_portable(crc, bytes);
#endif
}

[[nodiscard]] inline uint32_t crc32c(ByteSpan bytes) {
  return crc32c_extend(0, bytes);
}

/// Copies `from` to `to`, and returns crc32c_extend(crc, from). `to` must have room and not overlap `from`. Does both
/// in one pass if the processor can.
[[nodiscard]] uint32_t crc32c_copy(uint32_t crc, ByteSpan from, std::byte* to);

}  // namespace skua

#endif  // SKUA_RPC_BASE_CRC32C_H_
