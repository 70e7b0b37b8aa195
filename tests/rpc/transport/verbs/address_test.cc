#include "rpc/transport/verbs/address.h"

#include <gtest/gtest.h>

#include <array>
#include <string>

namespace skua::rpc::verbs {
namespace {

Gid gid(const char* text) {
  return Gid::parse(text).value();
}

EndpointAddress roce(const char* ip = "10.77.0.1", uint32_t qp_number = 0x11) {
  EndpointAddress out;
  out.network = Network::kRoceV2;
  out.mtu_bytes = 4096;
  out.qp_number = qp_number;
  out.qkey = 0x12345678;
  out.gid = gid(ip);
  return out;
}

EndpointAddress infiniband(const char* ip, uint16_t lid) {
  EndpointAddress out = roce(ip);
  out.network = Network::kInfiniBand;
  out.lid = lid;
  return out;
}

TEST(VerbsGid, Parse_AndBack) {
  for (const char* text : {"10.77.0.1", "0.0.0.0", "fe80::1", "fd00::2:3", "::1"}) {
    EXPECT_EQ(gid(text).to_string(), text);
  }
  for (const char* text : {"", "mlx5_0", "10.77.0", "10.77.0.1/24", "fe80::1%eth0", "256.0.0.1"}) {
    EXPECT_FALSE(Gid::parse(text).has_value()) << text;
  }
}

TEST(VerbsGid, Kinds) {
  EXPECT_TRUE(gid("10.77.0.1").is_ipv4());
  EXPECT_FALSE(gid("::1").is_ipv4());
  EXPECT_TRUE(gid("fe80::1").is_link_local());
  EXPECT_TRUE(gid("febf::1").is_link_local());
  EXPECT_FALSE(gid("fec0::1").is_link_local());
  EXPECT_FALSE(gid("10.77.0.1").is_link_local());
}

TEST(VerbsAddress, Encode_GoldenBytes) {
  const std::string expected(
      "\x01\x03\x00\x00\x00\x10\x00\x00\x11\x00\x00\x00\x78\x56\x34\x12"
      "\x00\x00\x00\x00\x00\x00\x00\x00\x00\x00\xff\xff\x0a\x4d\x00\x01",
      32);
  EXPECT_EQ(roce().encode(), expected);
}

TEST(VerbsAddress, Decode_ReturnsWhatWasEncoded) {
  for (const EndpointAddress& address : {roce(), roce("fd00::7", 0xfffffe), infiniband("fe80::1:2", 0xbfff)}) {
    const auto decoded = EndpointAddress::decode(as_byte_span(address.encode()));
    ASSERT_TRUE(decoded.ok());
    EXPECT_EQ(*decoded, address);
  }
}

TEST(VerbsAddress, Decode_RefusesEveryTruncationAndDamage) {
  const std::string good = roce().encode();
  for (size_t length = 0; length < good.size(); ++length) {
    EXPECT_FALSE(EndpointAddress::decode(as_byte_span(good.substr(0, length))).ok()) << length;
  }
  EXPECT_FALSE(EndpointAddress::decode(as_byte_span(good + "x")).ok());
  // Version, networks, a LID on Ethernet, MTUs, reserved bytes, a QP number of 25 bits, a privileged key.
  for (const auto& [at, value] :
       {std::pair{0, 0}, {0, 2}, {1, 0}, {1, 4}, {2, 1}, {5, 0}, {5, 0x20}, {4, 1}, {6, 1}, {11, 1}, {15, 0x92}}) {
    std::string bad = good;
    bad[static_cast<size_t>(at)] = static_cast<char>(value);
    EXPECT_FALSE(EndpointAddress::decode(as_byte_span(bad)).ok()) << at << " " << value;
  }
}

TEST(VerbsAddress, Decode_RefusesNumbersThatNoEndpointHas) {
  const auto refused = [](auto change) {
    EndpointAddress address = roce();
    change(address);
    return !EndpointAddress::decode(as_byte_span(address.encode())).ok();
  };
  EXPECT_TRUE(refused([](EndpointAddress& a) { a.qp_number = 1; })) << "the subnet manager's";
  EXPECT_TRUE(refused([](EndpointAddress& a) { a.qp_number = 0xffffff; })) << "multicast's";
  EXPECT_TRUE(refused([](EndpointAddress& a) { a.gid = Gid(); }));
  EXPECT_TRUE(refused([](EndpointAddress& a) { a.network = Network::kInfiniBand; })) << "without a LID";
}

TEST(VerbsAddress, NeedsGrh_OnEthernetAndAcrossSubnets) {
  EXPECT_TRUE(needs_grh(roce("10.77.0.1"), roce("10.77.0.2")));
  EXPECT_FALSE(needs_grh(infiniband("fe80::1", 1), infiniband("fe80::2", 2)));
  EXPECT_TRUE(needs_grh(infiniband("fe80::1", 1), infiniband("fec0::2", 2)));
}

TEST(VerbsAddress, ParseGrh_FindsTheSourceOfIpv4) {
  std::array<std::byte, kGrhBytes> grh;
  grh.fill(std::byte{0x66});  // the first half is unspecified, and may look like IPv6
  grh[20] = std::byte{0x45};
  const uint8_t source[] = {10, 77, 0, 9};
  std::memcpy(&grh[32], source, sizeof source);
  const auto parsed = parse_grh(grh, 0x42, Network::kRoceV2, gid("10.77.0.1"));
  ASSERT_TRUE(parsed.has_value());
  EXPECT_EQ(*parsed, source_of(roce("10.77.0.9", 0x42), roce()));
  EXPECT_NE(*parsed, source_of(roce("10.77.0.9", 0x43), roce()));
}

TEST(VerbsAddress, ParseGrh_FindsTheSourceOfIpv6AndInfiniBand) {
  std::array<std::byte, kGrhBytes> grh{};
  grh[0] = std::byte{0x60};
  const Gid source = gid("fd00::9");
  std::memcpy(&grh[8], source.bytes.data(), source.bytes.size());
  for (const Network network : {Network::kRoceV2, Network::kRoceV1, Network::kInfiniBand}) {
    const auto parsed = parse_grh(grh, 0x42, network, gid("fd00::1"));
    ASSERT_TRUE(parsed.has_value());
    EXPECT_EQ(*parsed, source_of(roce("fd00::9", 0x42), roce("fd00::1")));
  }
}

TEST(VerbsAddress, ParseGrh_RefusesWhatIsNotSentToThisGid) {
  std::array<std::byte, kGrhBytes> grh{};
  EXPECT_FALSE(parse_grh(grh, 2, Network::kRoceV2, gid("10.77.0.1")).has_value());
  EXPECT_FALSE(parse_grh(grh, 2, Network::kRoceV2, gid("fd00::1")).has_value());
  grh[0] = std::byte{0x60};
  EXPECT_FALSE(parse_grh(grh, 2, Network::kRoceV2, gid("10.77.0.1")).has_value()) << "IPv6 for an IPv4 GID";
  EXPECT_FALSE(parse_grh(ByteSpan(grh).first(kGrhBytes - 1), 2, Network::kRoceV2, gid("fd00::1")).has_value());
}

TEST(VerbsAddress, SourceOf_InfiniBandWithoutGrhGoesByLid) {
  const Source source = source_of(infiniband("fe80::2", 7), infiniband("fe80::1", 1));
  EXPECT_EQ(source, (Source{0, 7, 0x11}));
}

}  // namespace
}  // namespace skua::rpc::verbs
