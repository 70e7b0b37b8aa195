#include "kvstore/memory/prefetch.h"

#include <gtest/gtest.h>

#include <array>
#include <cstdint>
#include <set>
#include <vector>

namespace skua::kv {
namespace {

/// Byte by byte.
std::set<uintptr_t> lines_by_hand(ByteSpan bytes) {
  std::set<uintptr_t> lines;
  for (const std::byte& byte : bytes) lines.insert(reinterpret_cast<uintptr_t>(&byte) & ~uintptr_t{63});
  return lines;
}

std::set<uintptr_t> lines_found(ByteSpan bytes) {
  const CacheLines found = lines_of(bytes);
  std::set<uintptr_t> lines;
  for (size_t i = 0; i < found.count; ++i) lines.insert(found.first + i * kCacheLineBytes);
  return lines;
}

TEST(Prefetch, AllLinesThatBytesLieInWhereverTheyBegin) {
  alignas(kCacheLineBytes) const std::array<std::byte, 512> memory{};
  for (size_t begin = 0; begin < 2 * kCacheLineBytes; ++begin) {
    for (size_t size = 0; size <= 300; ++size) {
      const ByteSpan bytes = ByteSpan(memory).subspan(begin, size);
      ASSERT_EQ(lines_found(bytes), lines_by_hand(bytes)) << size << " bytes at " << begin;
    }
  }
}

TEST(Prefetch, AKilobyteThatIsNotAlignedHasSeventeenLines) {
  alignas(kCacheLineBytes) const std::array<std::byte, 2048> memory{};
  EXPECT_EQ(lines_of(ByteSpan(memory).subspan(48, 1024)).count, 17u);
  EXPECT_EQ(lines_of(ByteSpan(memory).first(1024)).count, 16u);
}

TEST(Prefetch, NoBytesAreNoLinesAndTheBytesStayAsTheyAre) {
  EXPECT_EQ(lines_of({}).count, 0u);
  prefetch_bytes({});
  const std::vector<std::byte> bytes(3 * kPrefetchBytesMax, std::byte{7});
  prefetch_bytes(bytes);
  prefetch_bytes(bytes, 1);
  prefetch_bytes(bytes, SIZE_MAX);
  EXPECT_EQ(bytes, std::vector<std::byte>(3 * kPrefetchBytesMax, std::byte{7}));
}

}  // namespace
}  // namespace skua::kv
