#include "kvstore/log/record.h"

#include <gtest/gtest.h>

#include <string>
#include <vector>

#include "rpc/base/crc32c.h"

namespace skua::kv {
namespace {

std::string hex(ByteSpan bytes) {
  static constexpr char kDigits[] = "0123456789abcdef";
  std::string text;
  for (std::byte byte : bytes) {
    text += kDigits[static_cast<unsigned>(byte) >> 4];
    text += kDigits[static_cast<unsigned>(byte) & 15];
  }
  return text;
}

constexpr RecordHeader kHeader{0x0102030405060708,
                               0x1112131415161718,
                               0x2122232425262728,
                               0x3132333435363738,
                               RecordKind::kData,
                               Durability::kSync,
                               0x4142};

std::vector<std::byte> encoded_record(uint32_t seed) {
  std::vector<std::byte> bytes(record_bytes(3));
  encode_record_header(kHeader, 3, bytes.data());
  copy_bytes(bytes.data() + kRecordHeaderBytes, as_byte_span("abc"));
  EXPECT_EQ(seal_record(bytes.data(), seed), bytes.size());
  return bytes;
}

TEST(SealRecord, GoldenBytes) {
  EXPECT_EQ(hex(encoded_record(7)).substr(8),
            "03000000"
            "0807060504030201"
            "1817161514131211"
            "2827262524232221"
            "3837363534333231"
            "01"
            "02"
            "4241"
            "00000000"
            "6162630000000000");
  const std::vector<std::byte> bytes = encoded_record(7);
  EXPECT_EQ(load_le<uint32_t>(bytes.data()), crc32c_extend(7, ByteSpan(bytes).subspan(4, kRecordHeaderBytes - 4 + 3)));
}

TEST(DecodeRecord, TellsWhatWasEncoded) {
  const std::vector<std::byte> bytes = encoded_record(7);
  size_t consumed = 0;
  const auto record = decode_record(bytes, 7, consumed);
  ASSERT_TRUE(record);
  EXPECT_EQ(record->header, kHeader);
  EXPECT_EQ(as_string_view(record->payload), "abc");
  EXPECT_EQ(consumed, bytes.size());
}

TEST(DecodeRecord, RefusesAnotherSeed) {
  size_t consumed = 0;
  EXPECT_FALSE(decode_record(encoded_record(7), 8, consumed));
}

TEST(DecodeRecord, RefusesEveryFlippedBitAndEveryShorterInput) {
  std::vector<std::byte> bytes = encoded_record(7);
  size_t consumed = 0;
  for (size_t bit = 0; bit < (kRecordHeaderBytes + 3) * 8; ++bit) {
    bytes[bit / 8] ^= std::byte{static_cast<uint8_t>(1U << (bit % 8))};
    EXPECT_FALSE(decode_record(bytes, 7, consumed)) << bit;
    bytes[bit / 8] ^= std::byte{static_cast<uint8_t>(1U << (bit % 8))};
  }
  for (size_t size = 0; size < bytes.size(); ++size) {
    EXPECT_FALSE(decode_record(ByteSpan(bytes).first(size), 7, consumed)) << size;
  }
}

TEST(EncodeGroupHeader, GoldenBytes) {
  std::vector<std::byte> bytes(kGroupHeaderBytes);
  const GroupHeader header{120, 1, 0x0102030405060708, 0x0102030405060707, 0x11, 0x22, GroupHeader::kSync};
  encode_group_header(header, 7, bytes.data());
  EXPECT_EQ(hex(bytes).substr(8),
            "53524731"
            "78000000"
            "01000000"
            "0807060504030201"
            "0707060504030201"
            "1100000000000000"
            "2200000000000000"
            "01000000"
            "000000000000000000000000");
  EXPECT_EQ(decode_group_header(bytes, 7), header);
  EXPECT_FALSE(decode_group_header(bytes, 8));
}

TEST(DecodeGroupHeader, RefusesEveryFlippedBit) {
  std::vector<std::byte> bytes(kGroupHeaderBytes);
  encode_group_header({64, 0, 5, 4, 0, 0, 0}, 7, bytes.data());
  for (size_t bit = 0; bit < bytes.size() * 8; ++bit) {
    bytes[bit / 8] ^= std::byte{static_cast<uint8_t>(1U << (bit % 8))};
    EXPECT_FALSE(decode_group_header(bytes, 7)) << bit;
    EXPECT_TRUE(resembles_group(bytes, 7, 5)) << bit;
    bytes[bit / 8] ^= std::byte{static_cast<uint8_t>(1U << (bit % 8))};
  }
}

TEST(ResemblesGroup, NotAnotherGroupNorZeros) {
  std::vector<std::byte> bytes(kGroupHeaderBytes);
  EXPECT_FALSE(resembles_group(bytes, 7, 5));
  encode_group_header({64, 0, 4, 3, 0, 0, 0}, 7, bytes.data());
  EXPECT_FALSE(resembles_group(bytes, 7, 5));
}

}  // namespace
}  // namespace skua::kv
