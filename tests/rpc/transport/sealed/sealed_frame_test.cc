#include "rpc/transport/sealed/sealed_frame.h"

#include <gtest/gtest.h>

#include <array>

#include "rpc/base/rng.h"

namespace skua::rpc {
namespace {

TEST(SealedHead, HasTheBytesOfItsPicture) {
  std::array<std::byte, kSealedHeadBytes> bytes{};
  SealedHead{.mode = SealMode::kEncrypt,
             .heard = 1,
             .generation = 0xab,
             .frame_bytes = 0x11223344,
             .channel = 0x55667788,
             .number = 0x99aabbccddee}
      .write(bytes.data());
  const std::array<uint8_t, 16> expected = {0x36, 0xab, 0xaa, 0x99, 0x44, 0x33, 0x22, 0x11,
                                            0x88, 0x77, 0x66, 0x55, 0xee, 0xdd, 0xcc, 0xbb};
  for (size_t i = 0; i < expected.size(); ++i) EXPECT_EQ(static_cast<uint8_t>(bytes[i]), expected[i]) << i;
}

TEST(SealedHead, IsReadAsItWasWritten) {
  Rng rng(3);
  for (int i = 0; i < 10'000; ++i) {
    const SealedHead head{.mode = rng.chance(0.5) ? SealMode::kEncrypt : SealMode::kAuthenticate,
                          .heard = static_cast<uint8_t>(rng.below(4)),
                          .generation = static_cast<uint8_t>(rng.below(256)),
                          .frame_bytes = static_cast<uint32_t>(rng.next()),
                          .channel = static_cast<uint32_t>(rng.next()),
                          .number = rng.below(kFrameNumberEnd)};
    std::array<std::byte, kSealedHeadBytes> bytes{};
    head.write(bytes.data());
    SealedHead read;
    ASSERT_TRUE(SealedHead::read(bytes.data(), read));
    ASSERT_EQ(read, head);
  }
}

TEST(SealedHead, OtherVersionsAndModesAreRefused) {
  std::array<std::byte, kSealedHeadBytes> bytes{};
  SealedHead read;
  for (unsigned first = 0; first < 256; ++first) {
    bytes[0] = static_cast<std::byte>(first);
    const bool is_good = first >> 4 == kSealedVersion && ((first & 3) == 1 || (first & 3) == 2);
    EXPECT_EQ(SealedHead::read(bytes.data(), read), is_good) << first;
  }
}

}  // namespace
}  // namespace skua::rpc
