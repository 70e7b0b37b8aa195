#include "rpc/base/crc32c.h"

#include <isa-l/crc.h>

#include <algorithm>
#include <array>

#include "rpc/base/crc32c_fold.h"

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

uint32_t crc32c_extend_long(uint32_t crc, ByteSpan bytes) {
  return can_fold_crc32c() ? crc32c_extend_folding(crc, bytes) : crc32c_extend_isal(crc, bytes);
}

uint32_t crc32c_extend_isal(uint32_t crc, ByteSpan bytes) {
  // ISA-L counts in int, takes a pointer to mutable bytes that it only reads, and leaves the inversions to the caller.
  constexpr size_t kPieceMax = size_t{1} << 30;
  while (!bytes.empty()) {
    const ByteSpan piece = bytes.first(std::min(bytes.size(), kPieceMax));
    auto* data = const_cast<unsigned char*>(reinterpret_cast<const unsigned char*>(piece.data()));
    crc = ~crc32_iscsi(data, static_cast<int>(piece.size()), ~crc);
    bytes = bytes.subspan(piece.size());
  }
  return crc;
}

}  // namespace internal

uint32_t crc32c_copy(uint32_t crc, ByteSpan from, std::byte* to) {
  if (from.size() >= internal::kCrcLongBytes && internal::can_fold_crc32c()) {
    return internal::crc32c_copy_folding(crc, from, to);
  }
  copy_bytes(to, from);
  return crc32c_extend(crc, from);
}

}  // namespace skua
