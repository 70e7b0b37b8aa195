#include "rpc/wire/packet_header.h"

#include <gtest/gtest.h>

#include <vector>

#include "rpc/base/crc32c.h"
#include "rpc/base/rng.h"
#include "tests/rpc/wire/wire_testing.h"

namespace skua::rpc {
namespace {

using testing::to_hex;

using EncodedHeader = std::array<std::byte, kHeaderBytes>;

EncodedHeader encoded(const PacketHeader& header) {
  EncodedHeader out;
  out.fill(std::byte{0xee});
  encode_header(header, out.data());
  return out;
}

PacketHeader sample() {
  PacketHeader header;
  header.type = PacketType::kResponse;
  header.flags = 0xa5;
  header.method = 0x0102;
  header.session_index = 0x03040506;
  header.session_generation = 0x0708090a;
  header.req_num = 0x0b0c0d0e;
  header.message_bytes = 0x0f101112;
  header.packet_index = 0x1314;
  header.deadline_ms = 0x1516;
  header.stamp = 0x1718191a;
  return header;
}

// If this fails the wire format changed: that is a new protocol version, not a new test.
TEST(PacketHeader, Encode_GoldenBytes) {
  EXPECT_EQ(to_hex(encoded(sample())),
            "12a50201"
            "06050403"
            "0a090807"
            "0e0d0c0b"
            "1211100f"
            "14131615"
            "1a191817"
            "00000000");
}

TEST(PacketHeader, Encode_Defaults) {
  EXPECT_EQ(to_hex(encoded(PacketHeader())),
            "11000000"
            "00000000"
            "00000000"
            "00000000"
            "00000000"
            "0000ffff"
            "00000000"
            "00000000");
}

TEST(PacketHeader, Types_KeepTheirNumbers) {
  EXPECT_EQ(static_cast<int>(PacketType::kRequest), 1);
  EXPECT_EQ(static_cast<int>(PacketType::kResponse), 2);
  EXPECT_EQ(static_cast<int>(PacketType::kAck), 3);
  EXPECT_EQ(static_cast<int>(PacketType::kPull), 4);
  EXPECT_EQ(static_cast<int>(PacketType::kRelease), 5);
  EXPECT_EQ(static_cast<int>(PacketType::kPing), 6);
  EXPECT_EQ(static_cast<int>(PacketType::kPong), 7);
  EXPECT_EQ(static_cast<int>(PacketType::kUnknownSession), 8);
  EXPECT_EQ(static_cast<int>(PacketType::kConnect), 9);
  EXPECT_EQ(static_cast<int>(PacketType::kAccept), 10);
  EXPECT_EQ(static_cast<int>(PacketType::kDisconnect), 11);
  EXPECT_EQ(packet_flags::kOneWay, 1);
  EXPECT_EQ(packet_flags::kEngineStatus, 2);
  EXPECT_EQ(kProtocolVersion, 1);
}

TEST(PacketHeader, Decode_RoundTripsSample) {
  const DecodedHeader decoded = decode_header(encoded(sample()));
  ASSERT_TRUE(decoded.ok);
  EXPECT_EQ(decoded.header, sample());
}

TEST(PacketHeader, Decode_EveryFieldAtItsEndsAlone) {
  // One field at a time goes to all ones: fields that overlap would disturb each other.
  const auto check = [](const PacketHeader& header) {
    const DecodedHeader decoded = decode_header(encoded(header));
    ASSERT_TRUE(decoded.ok);
    EXPECT_EQ(decoded.header, header);
  };
  PacketHeader zero;
  zero.deadline_ms = 0;
  check(zero);
  PacketHeader h;
  (h = zero).flags = UINT8_MAX, check(h);
  (h = zero).method = UINT16_MAX, check(h);
  (h = zero).session_index = UINT32_MAX, check(h);
  (h = zero).session_generation = UINT32_MAX, check(h);
  (h = zero).req_num = UINT32_MAX, check(h);
  (h = zero).message_bytes = UINT32_MAX, check(h);
  (h = zero).packet_index = UINT16_MAX, check(h);
  (h = zero).deadline_ms = UINT16_MAX, check(h);
  (h = zero).stamp = UINT32_MAX, check(h);
  for (uint8_t type = 1; type <= kPacketTypeMax; ++type) {
    (h = zero).type = static_cast<PacketType>(type), check(h);
  }
}

TEST(PacketHeader, Decode_RandomRoundTrips) {
  Rng rng(1);
  for (int i = 0; i < 10'000; ++i) {
    PacketHeader header;
    header.type = static_cast<PacketType>(rng.between(1, kPacketTypeMax));
    header.flags = static_cast<uint8_t>(rng.next());
    header.method = static_cast<uint16_t>(rng.next());
    header.session_index = static_cast<uint32_t>(rng.next());
    header.session_generation = static_cast<uint32_t>(rng.next());
    header.req_num = static_cast<uint32_t>(rng.next());
    header.message_bytes = static_cast<uint32_t>(rng.next());
    header.packet_index = static_cast<uint16_t>(rng.next());
    header.deadline_ms = static_cast<uint16_t>(rng.next());
    header.stamp = static_cast<uint32_t>(rng.next());
    const DecodedHeader decoded = decode_header(encoded(header));
    ASSERT_TRUE(decoded.ok);
    ASSERT_EQ(decoded.header, header);
  }
}

TEST(PacketHeader, Decode_TruncatedAtEveryByte) {
  const EncodedHeader bytes = encoded(sample());
  for (size_t size = 0; size < kHeaderBytes; ++size) {
    // A copy of exactly that size, so that the address sanitizer sees a read behind it.
    const std::vector<std::byte> cut(bytes.begin(), bytes.begin() + static_cast<long>(size));
    const DecodedHeader decoded = decode_header(cut);
    EXPECT_FALSE(decoded.ok);
    EXPECT_EQ(decoded.reason, DropReason::kTooShort) << size;
  }
}

TEST(PacketHeader, Decode_EveryVersionAndTypeNibble) {
  EncodedHeader bytes = encoded(sample());
  for (unsigned first = 0; first < 256; ++first) {
    bytes[0] = static_cast<std::byte>(first);
    const DecodedHeader decoded = decode_header(bytes);
    const unsigned type = first & 15;
    if (first >> 4 != kProtocolVersion) {
      EXPECT_FALSE(decoded.ok);
      EXPECT_EQ(decoded.reason, DropReason::kBadVersion) << first;
    } else if (type == 0 || type > kPacketTypeMax) {
      EXPECT_FALSE(decoded.ok);
      EXPECT_EQ(decoded.reason, DropReason::kBadType) << first;
    } else {
      EXPECT_TRUE(decoded.ok) << first;
    }
  }
}

TEST(PacketHeader, Seal_CoversHeaderAndAllPieces) {
  EncodedHeader bytes = encoded(sample());
  const std::string payload = "first second third";
  const ByteSpan all = as_byte_span(payload);
  const std::array<ByteSpan, 3> pieces{all.first(6), all.subspan(6, 7), all.subspan(13)};
  encode_sealed_header(sample(), pieces.data(), pieces.size(), bytes.data());
  EXPECT_TRUE(verify_checksum(bytes, all));
  EXPECT_EQ(load_le<uint32_t>(bytes.data() + 28), crc32c_extend(crc32c(ByteSpan(bytes).first(28)), all));
}

TEST(PacketHeader, Seal_GoldenBytes) {
  EncodedHeader bytes = encoded(sample());
  const ByteSpan payload = as_byte_span("skua");
  encode_sealed_header(sample(), &payload, 1, bytes.data());
  EXPECT_EQ(to_hex(ByteSpan(bytes).subspan(28)), "c76f7665");
}

TEST(PacketHeader, Verify_AnyFlippedBitIsSeen) {
  EncodedHeader bytes = encoded(sample());
  std::string payload = "payload";
  const ByteSpan piece = as_byte_span(payload);
  encode_sealed_header(sample(), &piece, 1, bytes.data());
  for (size_t bit = 0; bit < 8 * (bytes.size() + payload.size()); ++bit) {
    std::byte* target =
        bit / 8 < bytes.size() ? &bytes[bit / 8] : reinterpret_cast<std::byte*>(&payload[bit / 8 - bytes.size()]);
    *target ^= static_cast<std::byte>(1u << (bit % 8));
    EXPECT_FALSE(verify_checksum(bytes, as_byte_span(payload))) << bit;
    *target ^= static_cast<std::byte>(1u << (bit % 8));
  }
  EXPECT_TRUE(verify_checksum(bytes, as_byte_span(payload)));
}

TEST(PacketHeader, Verify_LostOrAddedPayload) {
  EncodedHeader bytes = encoded(sample());
  encode_sealed_header(sample(), nullptr, 0, bytes.data());
  EXPECT_TRUE(verify_checksum(bytes, {}));
  EXPECT_FALSE(verify_checksum(bytes, as_byte_span("x")));
}

TEST(Ticks, ToTicks_UnitsOf64NsAndWrapsAfter275Seconds) {
  EXPECT_EQ(to_ticks(0), 0u);
  EXPECT_EQ(to_ticks(63), 0u);
  EXPECT_EQ(to_ticks(64), 1u);
  EXPECT_EQ(to_ticks(kTickNs * (TimeNs{1} << 32) + 640), 10u);
  // A difference survives the wrap.
  const TimeNs before = kTickNs * (TimeNs{1} << 32) - 6400;
  EXPECT_EQ(to_ticks(before + 12'800) - to_ticks(before), 200u);
}

}  // namespace
}  // namespace skua::rpc
