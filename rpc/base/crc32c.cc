#include "rpc/base/crc32c.h"

#include <array>

#if defined(__SSE4_2__)
#include <nmmintrin.h>
#endif

namespace skua {
namespace internal {
namespace {

constexpr std::array<uint32_t, 256> make_table() {
  std::array<uint32_t, 256> table{};
  for (uint32_t i = 0; i < 256; ++i) {
    uint32_t crc = i;
    for (int bit = 0; bit < 8; ++bit) crc = (crc >> 1) ^ ((crc & 1) != 0 ? 0x82f63b78U : 0U);
    table[i] = crc;
  }
  return table;
}

constexpr std::array<uint32_t, 256> kTable = make_table();

}  // namespace

uint32_t crc32c_extend_portable(uint32_t crc, ByteSpan bytes) {
  crc = ~crc;
  for (std::byte b : bytes) crc = kTable[(crc ^ static_cast<uint32_t>(b)) & 0xff] ^ (crc >> 8);
  return ~crc;
}

}  // namespace internal

uint32_t crc32c_extend(uint32_t crc, ByteSpan bytes) {
#if defined(__SSE4_2__)
  uint64_t state = ~crc;
  const std::byte* p = bytes.data();
  size_t left = bytes.size();
  for (; left >= 8; p += 8, left -= 8) state = _mm_crc32_u64(state, load_le<uint64_t>(p));
  auto tail = static_cast<uint32_t>(state);
  for (; left > 0; ++p, --left) tail = _mm_crc32_u8(tail, static_cast<uint8_t>(*p));
  return ~tail;
#else
  return internal::crc32c_extend_portable(crc, bytes);
#endif
}

}  // namespace skua
