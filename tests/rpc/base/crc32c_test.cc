#include "rpc/base/crc32c.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <string>
#include <vector>

#include "rpc/base/crc32c_fold.h"
#include "rpc/base/rng.h"

namespace skua {
namespace {

std::vector<std::byte> counting(size_t size, int first, int step) {
  std::vector<std::byte> out(size);
  for (size_t i = 0; i < size; ++i) out[i] = static_cast<std::byte>(first + step * static_cast<int>(i));
  return out;
}

TEST(Crc32c, Crc32c_CheckValue) {
  EXPECT_EQ(crc32c(as_byte_span("123456789")), 0xe3069283u);
  EXPECT_EQ(crc32c({}), 0u);
}

TEST(Crc32c, Crc32c_VectorsOfRfc3720) {
  EXPECT_EQ(crc32c(counting(32, 0, 0)), 0x8a9136aau);
  EXPECT_EQ(crc32c(counting(32, 0xff, 0)), 0x62a8ab43u);
  EXPECT_EQ(crc32c(counting(32, 0, 1)), 0x46dd794eu);
  EXPECT_EQ(crc32c(counting(32, 31, -1)), 0x113fdb5cu);
  std::vector<std::byte> read_command(48);
  for (const auto& [at, value] :
       {std::pair{0, 0x01}, {1, 0xc0}, {16, 0x14}, {22, 0x04}, {27, 0x14}, {31, 0x18}, {32, 0x28}, {40, 0x02}}) {
    read_command[static_cast<size_t>(at)] = static_cast<std::byte>(value);
  }
  EXPECT_EQ(crc32c(read_command), 0xd9963a56u);
}

TEST(Crc32c, Extend_AnySplitGivesTheWhole) {
  const std::vector<std::byte> bytes = counting(100, 3, 7);
  const uint32_t whole = crc32c(bytes);
  for (size_t split = 0; split <= bytes.size(); ++split) {
    const ByteSpan all(bytes);
    EXPECT_EQ(crc32c_extend(crc32c(all.first(split)), all.subspan(split)), whole) << split;
  }
}

TEST(Crc32c, Extend_AgreesWithThePortableForm) {
  Rng rng(1);
  std::vector<std::byte> bytes(4096 + 16);
  for (std::byte& b : bytes) b = static_cast<std::byte>(rng.next());
  for (int round = 0; round < 2000; ++round) {
    const size_t offset = rng.below(16);
    const ByteSpan piece = ByteSpan(bytes).subspan(offset, rng.below(rng.chance(0.1) ? 4097 : 64));
    const auto before = static_cast<uint32_t>(rng.next());
    ASSERT_EQ(crc32c_extend(before, piece), internal::crc32c_extend_portable(before, piece))
        << "offset " << offset << " size " << piece.size();
  }
}

/// Every length around what is done at a time (16, 64, 256 bytes), at every place in a line.
TEST(Crc32c, Extend_TheFormsForLongPiecesAgree) {
  Rng rng(2);
  std::vector<std::byte> bytes(1400 + 64);
  for (std::byte& b : bytes) b = static_cast<std::byte>(rng.next());
  for (size_t size = internal::kCrcLongBytes; size <= 1400; ++size) {
    const ByteSpan piece = ByteSpan(bytes).subspan(size % 64, size);
    const auto before = static_cast<uint32_t>(rng.next());
    const uint32_t expected = internal::crc32c_extend_portable(before, piece);
    ASSERT_EQ(internal::crc32c_extend_isal(before, piece), expected) << size;
    if (internal::can_fold_crc32c()) {
      ASSERT_EQ(internal::crc32c_extend_folding(before, piece), expected) << size;
    }
    // Copying as well, and not a byte further.
    std::vector<std::byte> copy(size + 64, std::byte{0x5a});
    ASSERT_EQ(crc32c_copy(before, piece, copy.data() + size % 3), expected) << size;
    ASSERT_TRUE(std::equal(piece.begin(), piece.end(), copy.begin() + size % 3)) << size;
    ASSERT_TRUE(std::all_of(copy.begin() + static_cast<std::ptrdiff_t>(size % 3 + size), copy.end(), [](std::byte b) {
      return b == std::byte{0x5a};
    })) << size;
  }
  for (size_t size = 0; size < internal::kCrcLongBytes; ++size) {
    const ByteSpan piece = ByteSpan(bytes).subspan(size % 64, size);
    std::vector<std::byte> copy(size);
    ASSERT_EQ(crc32c_copy(7, piece, copy.data()), crc32c_extend(7, piece)) << size;
    ASSERT_TRUE(std::equal(piece.begin(), piece.end(), copy.begin())) << size;
  }
  if (!internal::can_fold_crc32c()) GTEST_SKIP() << "this processor has no VPCLMULQDQ or AVX-512";
}

TEST(Crc32c, Crc32c_SeesEverySingleBit) {
  std::vector<std::byte> bytes = counting(64, 0, 5);
  const uint32_t clean = crc32c(bytes);
  for (size_t bit = 0; bit < bytes.size() * 8; ++bit) {
    bytes[bit / 8] ^= static_cast<std::byte>(1u << (bit % 8));
    EXPECT_NE(crc32c(bytes), clean) << bit;
    bytes[bit / 8] ^= static_cast<std::byte>(1u << (bit % 8));
  }
}

}  // namespace
}  // namespace skua
