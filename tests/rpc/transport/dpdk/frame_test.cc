#include "rpc/transport/dpdk/frame.h"

#include <gtest/gtest.h>

#include <random>
#include <string>
#include <vector>

namespace skua::rpc::dpdk {
namespace {

InterfaceAddress interface(const char* cidr, uint8_t last_mac_byte) {
  InterfaceAddress out = InterfaceAddress::parse(cidr).value();
  out.mac = {2, 0, 0, 0, 0, last_mac_byte};
  return out;
}

/// RFC 1071, word by word: the template's dumb twin.
uint16_t internet_checksum(ByteSpan bytes) {
  uint32_t sum = 0;
  for (size_t i = 0; i + 1 < bytes.size(); i += 2) {
    sum += std::to_integer<uint32_t>(bytes[i]) << 8 | std::to_integer<uint32_t>(bytes[i + 1]);
  }
  while (sum >> 16 != 0) sum = (sum & 0xffff) + (sum >> 16);
  return static_cast<uint16_t>(~sum);
}

std::vector<std::byte> frame_of(const FrameTemplate& headers, size_t payload) {
  std::vector<std::byte> out(std::max(headers.size() + payload, FrameTemplate::kStoredBytes));
  headers.write(out.data(), payload);
  out.resize(headers.size() + payload);
  return out;
}

const FrameTemplate kIpv4(interface("10.77.0.1/24", 1), 18'600, interface("10.77.0.2/24", 2), 18'601,
                          {2, 0, 0, 0, 0, 9});
const FrameTemplate kIpv6(interface("fd00::1/64", 1), 18'600, interface("fd00::2/64", 2), 18'601, {2, 0, 0, 0, 0, 9});

TEST(DpdkFrame, Write_GoldenIpv4) {
  const std::vector<std::byte> frame = frame_of(kIpv4, 32);
  const std::string expected(
      "\x02\x00\x00\x00\x00\x09\x02\x00\x00\x00\x00\x01\x08\x00"
      "\x45\x00\x00\x3c\x00\x00\x40\x00\x40\x11\x26\x15\x0a\x4d\x00\x01\x0a\x4d\x00\x02"
      "\x48\xa8\x48\xa9\x00\x28\x00\x00",
      42);
  EXPECT_EQ(as_string_view(ByteSpan(frame).first(42)), expected);
}

TEST(DpdkFrame, Write_ChecksumIsRightForEveryLength) {
  for (size_t payload = 32; payload < 9000; payload += 7) {
    const std::vector<std::byte> frame = frame_of(kIpv4, payload);
    EXPECT_EQ(internet_checksum(ByteSpan(frame).subspan(kEthernetBytes, 20)), 0) << payload;
  }
}

TEST(DpdkFrame, SetLength_TouchesTheHeadersOnly) {
  for (const FrameTemplate* headers : {&kIpv4, &kIpv6}) {
    std::vector<std::byte> in_steps(200);
    headers->write(in_steps.data());
    const std::string payload(100, 'p');
    std::memcpy(in_steps.data() + headers->size(), payload.data(), payload.size());
    headers->set_length(in_steps.data(), payload.size());
    EXPECT_EQ(as_string_view(ByteSpan(in_steps).subspan(headers->size(), payload.size())), payload);
    EXPECT_EQ(as_string_view(ByteSpan(in_steps).first(headers->size())),
              as_string_view(ByteSpan(frame_of(*headers, payload.size())).first(headers->size())));
  }
}

TEST(DpdkFrame, Parse_ReturnsWhatWasWritten) {
  for (const FrameTemplate* headers : {&kIpv4, &kIpv6}) {
    for (const size_t payload : std::initializer_list<size_t>{32, 33, 1000, 8900}) {
      ParsedFrame parsed;
      const std::vector<std::byte> frame = frame_of(*headers, payload);
      ASSERT_TRUE(parse_frame(frame, 32, parsed));
      EXPECT_EQ(parsed.payload_bytes, payload);
      EXPECT_EQ(parsed.payload_offset, headers->size());
      EXPECT_EQ(parsed.to_port, 18'601);
      EXPECT_EQ(parsed.source,
                source_of(headers == &kIpv4 ? interface("10.77.0.1", 1) : interface("fd00::1", 1), 18'600));
    }
  }
}

TEST(DpdkFrame, Parse_CutsPaddingOff) {
  std::vector<std::byte> frame = frame_of(kIpv4, 32);
  frame.resize(frame.size() + 20);
  ParsedFrame parsed;
  ASSERT_TRUE(parse_frame(frame, 32, parsed));
  EXPECT_EQ(parsed.payload_bytes, 32U);
}

TEST(DpdkFrame, Parse_RefusesEveryTruncation) {
  for (const FrameTemplate* headers : {&kIpv4, &kIpv6}) {
    const std::vector<std::byte> frame = frame_of(*headers, 40);
    ParsedFrame parsed;
    for (size_t length = 0; length < frame.size(); ++length) {
      EXPECT_FALSE(parse_frame(ByteSpan(frame).first(length), 32, parsed)) << length;
    }
  }
}

TEST(DpdkFrame, Parse_RefusesForeignFrames) {
  struct Change {
    size_t at;
    uint8_t value;
  };
  // EtherType, IP options, more fragments, fragment offset, protocol TCP, a UDP length beyond IP's.
  for (const Change change : {Change{12, 0x86}, {14, 0x46}, {20, 0x20}, {21, 0x01}, {23, 6}, {38, 0x7f}}) {
    std::vector<std::byte> frame = frame_of(kIpv4, 40);
    frame[change.at] = std::byte{change.value};
    ParsedFrame parsed;
    EXPECT_FALSE(parse_frame(frame, 32, parsed)) << change.at;
  }
  ParsedFrame parsed;
  EXPECT_FALSE(parse_frame(frame_of(kIpv4, 31), 32, parsed)) << "shorter than an engine header";
}

/// Field by field: the parser's dumb twin, for IPv4.
bool is_whole_ipv4_datagram(ByteSpan frame, size_t payload_bytes_min) {
  const auto at = [&](size_t i) { return std::to_integer<uint32_t>(frame[i]); };
  const auto be16 = [&](size_t i) { return at(i) << 8 | at(i + 1); };
  if (frame.size() < 42 + payload_bytes_min || be16(12) != 0x0800) return false;
  if (at(14) >> 4 != 4 || (at(14) & 15) * 4 != 20) return false;
  const bool more_fragments = (at(20) & 0x20) != 0;
  const uint32_t fragment_offset = be16(20) & 0x1fff;
  if (more_fragments || fragment_offset != 0 || at(23) != 17) return false;
  if (14 + be16(16) > frame.size() || be16(38) + 20 > be16(16)) return false;
  return be16(38) >= 8 + payload_bytes_min;
}

TEST(DpdkFrame, Parse_AgreesWithItsTwin) {
  std::mt19937 random(2);
  int accepted = 0;
  for (int round = 0; round < 100'000; ++round) {
    std::vector<std::byte> frame = frame_of(kIpv4, 32 + random() % 64);
    const size_t changed = 12 + random() % 30;
    if (round % 4 != 0) frame[changed] ^= static_cast<std::byte>(1u << random() % 8);
    frame.resize(frame.size() - random() % 4 / 3);
    ParsedFrame parsed;
    const bool is_accepted = parse_frame(frame, 32, parsed);
    ASSERT_EQ(is_accepted, is_whole_ipv4_datagram(frame, 32)) << changed;
    accepted += is_accepted ? 1 : 0;
  }
  EXPECT_GT(accepted, 10'000);
  EXPECT_LT(accepted, 90'000);
}

TEST(DpdkFrame, Parse_RandomBytesNeverReachOutside) {
  std::mt19937 random(1);
  for (int round = 0; round < 20'000; ++round) {
    std::vector<std::byte> frame = frame_of(round % 2 == 0 ? kIpv4 : kIpv6, 32 + random() % 64);
    for (int i = 0; i < 3; ++i) frame[random() % 62] = static_cast<std::byte>(random());
    frame.resize(random() % (frame.size() + 1));
    ParsedFrame parsed;
    if (!parse_frame(frame, 32, parsed)) continue;
    EXPECT_GE(parsed.payload_bytes, 32U);
    EXPECT_LE(parsed.payload_offset + parsed.payload_bytes, frame.size());
  }
}

TEST(DpdkFrame, AnswerArp_OnlyForOurAddress) {
  const InterfaceAddress self = interface("10.77.0.1/24", 1);
  const std::string request(
      "\xff\xff\xff\xff\xff\xff\x02\x00\x00\x00\x00\x05\x08\x06"
      "\x00\x01\x08\x00\x06\x04\x00\x01\x02\x00\x00\x00\x00\x05\x0a\x4d\x00\xfe\x00\x00\x00\x00\x00\x00\x0a\x4d\x00"
      "\x01",
      42);
  const std::string expected(
      "\x02\x00\x00\x00\x00\x05\x02\x00\x00\x00\x00\x01\x08\x06"
      "\x00\x01\x08\x00\x06\x04\x00\x02\x02\x00\x00\x00\x00\x01\x0a\x4d\x00\x01\x02\x00\x00\x00\x00\x05\x0a\x4d\x00"
      "\xfe",
      42);
  std::array<std::byte, 64> reply;
  ASSERT_EQ(answer_arp(as_byte_span(request), self, reply), 42U);
  EXPECT_EQ(as_string_view(ByteSpan(reply).first(42)), expected);
  EXPECT_EQ(answer_arp(as_byte_span(request), interface("10.77.0.3/24", 3), reply), 0U);
  EXPECT_EQ(answer_arp(as_byte_span(expected), self, reply), 0U) << "a reply is not a request";
  EXPECT_EQ(answer_arp(as_byte_span(request.substr(0, 41)), self, reply), 0U);
}

}  // namespace
}  // namespace skua::rpc::dpdk
