#include "rpc/base/bytes.h"

#include <gtest/gtest.h>

#include <array>
#include <string>

namespace skua {
namespace {

std::array<std::byte, 8> bytes_of(uint64_t value) {
  std::array<std::byte, 8> out;
  for (size_t i = 0; i < 8; ++i) out[i] = static_cast<std::byte>(value >> (8 * i));
  return out;
}

TEST(Bytes, LoadLe_ReadsLowestByteFirst) {
  const auto bytes = bytes_of(0x8877665544332211);
  EXPECT_EQ(load_le<uint8_t>(bytes.data()), 0x11);
  EXPECT_EQ(load_le<uint16_t>(bytes.data()), 0x2211);
  EXPECT_EQ(load_le<uint32_t>(bytes.data()), 0x44332211u);
  EXPECT_EQ(load_le<uint64_t>(bytes.data()), 0x8877665544332211u);
}

TEST(Bytes, LoadLe_AnyAlignment) {
  std::array<std::byte, 16> buffer{};
  for (size_t offset = 0; offset <= 8; ++offset) {
    store_le(buffer.data() + offset, uint64_t{0x0102030405060708});
    EXPECT_EQ(load_le<uint64_t>(buffer.data() + offset), 0x0102030405060708u);
  }
}

TEST(Bytes, StoreLe_WritesExactlyItsSize) {
  std::array<std::byte, 4> buffer;
  buffer.fill(std::byte{0xee});
  store_le(buffer.data() + 1, uint16_t{0xabcd});
  EXPECT_EQ(buffer[0], std::byte{0xee});
  EXPECT_EQ(buffer[1], std::byte{0xcd});
  EXPECT_EQ(buffer[2], std::byte{0xab});
  EXPECT_EQ(buffer[3], std::byte{0xee});
}

TEST(Bytes, AsByteSpan_RoundTripsText) {
  const std::string text("a\0b", 3);
  EXPECT_EQ(as_byte_span(text).size(), 3u);
  EXPECT_EQ(as_string_view(as_byte_span(text)), text);
}

TEST(Bytes, CopyBytes_EmptySpanWithoutAddress) {
  std::byte untouched{7};
  copy_bytes(&untouched, ByteSpan());  // memcpy from null would be undefined, even of 0 bytes
  EXPECT_EQ(untouched, std::byte{7});
}

TEST(ByteReader, Read_SequenceOfSizes) {
  const auto bytes = bytes_of(0x8877665544332211);
  ByteReader reader(bytes);
  EXPECT_EQ(reader.read<uint8_t>(), 0x11);
  EXPECT_EQ(reader.read<uint16_t>(), 0x3322);
  EXPECT_EQ(reader.remaining(), 5u);
  EXPECT_EQ(reader.read<uint32_t>(), 0x77665544u);
  EXPECT_FALSE(reader.complete());
  EXPECT_EQ(reader.read<uint8_t>(), 0x88);
  EXPECT_TRUE(reader.complete());
}

TEST(ByteReader, Read_PastEndYieldsZerosFromThenOn) {
  const auto bytes = bytes_of(UINT64_MAX);
  ByteReader reader(ByteSpan(bytes).first(5));
  EXPECT_EQ(reader.read<uint32_t>(), UINT32_MAX);
  EXPECT_EQ(reader.read<uint16_t>(), 0);
  EXPECT_FALSE(reader.ok());
  // A byte was left, but a record that came up short stays short.
  EXPECT_EQ(reader.read<uint8_t>(), 0);
  EXPECT_FALSE(reader.complete());
  EXPECT_EQ(reader.remaining(), 0u);
}

TEST(ByteReader, ReadBytes_ViewsTheInput) {
  const auto bytes = bytes_of(0);
  ByteReader reader(bytes);
  const ByteSpan taken = reader.read_bytes(3);
  EXPECT_EQ(taken.data(), bytes.data());
  EXPECT_EQ(taken.size(), 3u);
  EXPECT_EQ(reader.read_bytes(0).size(), 0u);
  EXPECT_TRUE(reader.ok());
  EXPECT_TRUE(reader.read_bytes(6).empty());
  EXPECT_FALSE(reader.ok());
}

TEST(ByteReader, ReadPrefixed_LengthThenBytes) {
  const std::string input("\x03\x00xyz!", 6);
  ByteReader reader(as_byte_span(input));
  EXPECT_EQ(as_string_view(reader.read_prefixed<uint16_t>()), "xyz");
  EXPECT_EQ(as_string_view(reader.read_rest()), "!");
  EXPECT_TRUE(reader.complete());
}

TEST(ByteReader, ReadPrefixed_LengthBeyondTheInput) {
  const std::string input("\xff\xff\xff\xff\xff\xff\xff\xffxyz", 11);
  ByteReader reader(as_byte_span(input));
  EXPECT_TRUE(reader.read_prefixed<uint64_t>().empty());
  EXPECT_FALSE(reader.ok());
}

TEST(ByteReader, ReadRest_EmptyInput) {
  ByteReader reader{ByteSpan()};
  EXPECT_TRUE(reader.complete());
  EXPECT_TRUE(reader.read_rest().empty());
  EXPECT_TRUE(reader.ok());
}

TEST(ByteWriter, Write_SequenceRoundTrips) {
  std::array<std::byte, 16> buffer;
  ByteWriter writer(buffer);
  writer.write(uint8_t{7});
  writer.write(uint32_t{0xdeadbeef});
  writer.write_prefixed<uint16_t>(as_byte_span("hello"));
  writer.write_bytes({});
  ASSERT_TRUE(writer.ok());
  EXPECT_EQ(writer.size(), 12u);
  ByteReader reader(writer.written());
  EXPECT_EQ(reader.read<uint8_t>(), 7);
  EXPECT_EQ(reader.read<uint32_t>(), 0xdeadbeef);
  EXPECT_EQ(as_string_view(reader.read_prefixed<uint16_t>()), "hello");
  EXPECT_TRUE(reader.complete());
}

TEST(ByteWriter, Write_NeverPassesTheBuffer) {
  std::array<std::byte, 4> buffer;
  buffer.fill(std::byte{0xee});
  ByteWriter writer(MutableByteSpan(buffer).first(3));
  writer.write(uint16_t{0});
  writer.write(uint32_t{0});
  EXPECT_FALSE(writer.ok());
  writer.write(uint8_t{0});  // would fit, but the record is broken already
  EXPECT_EQ(writer.size(), 2u);
  EXPECT_EQ(buffer[2], std::byte{0xee});
  EXPECT_EQ(buffer[3], std::byte{0xee});
}

TEST(ByteWriter, WriteBytes_ExactlyFull) {
  std::array<std::byte, 3> buffer;
  ByteWriter writer(buffer);
  writer.write_bytes(as_byte_span("abc"));
  EXPECT_TRUE(writer.ok());
  writer.write_bytes({});
  EXPECT_TRUE(writer.ok());
  writer.write_bytes(as_byte_span("d"));
  EXPECT_FALSE(writer.ok());
  EXPECT_EQ(as_string_view(writer.written()), "abc");
}

}  // namespace
}  // namespace skua
