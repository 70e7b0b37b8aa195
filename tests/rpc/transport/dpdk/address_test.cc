#include "rpc/transport/dpdk/address.h"

#include <gtest/gtest.h>

#include <string>

namespace skua::rpc::dpdk {
namespace {

InterfaceAddress interface(const char* cidr, uint8_t last_mac_byte = 1) {
  InterfaceAddress out = InterfaceAddress::parse(cidr).value();
  out.mac = {2, 0, 0, 0, 0, last_mac_byte};
  return out;
}

TEST(DpdkAddress, ParseMac_AndBack) {
  for (const char* text : {"02:00:0a:4d:00:01", "ff:ff:ff:ff:ff:ff", "00:00:00:00:00:00"}) {
    EXPECT_EQ(to_string(parse_mac(text).value()), text);
  }
}

TEST(DpdkAddress, ParseMac_RefusesOthers) {
  for (const char* text :
       {"", "02:00:0a:4d:00", "02:00:0a:4d:00:01:", "02-00-0a-4d-00-01", "02:00:0a:4d:00:0g", "2:0:a:4d:0:1:1"}) {
    EXPECT_EQ(parse_mac(text).status().code(), absl::StatusCode::kInvalidArgument) << text;
  }
}

TEST(DpdkAddress, Parse_AndBack) {
  for (const char* text : {"10.77.0.1/24", "10.77.0.1/32", "0.0.0.0/0", "fd00::1/64", "::1/128"}) {
    EXPECT_EQ(InterfaceAddress::parse(text).value().to_string(), text);
  }
  EXPECT_EQ(InterfaceAddress::parse("10.77.0.1").value().prefix_bits, 32);
  EXPECT_EQ(InterfaceAddress::parse("fd00::1").value().prefix_bits, 128);
}

TEST(DpdkAddress, Parse_RefusesOthers) {
  for (const char* text :
       {"", "host/24", "10.77.0.1/", "10.77.0.1/33", "10.77.0/24", "fd00::1/129", "10.77.0.1/2x", "10.77.0.1/-1"}) {
    EXPECT_EQ(InterfaceAddress::parse(text).status().code(), absl::StatusCode::kInvalidArgument) << text;
  }
}

TEST(DpdkAddress, OnLink_ComparesThePrefix) {
  EXPECT_TRUE(interface("10.77.0.1/24").on_link(interface("10.77.0.200/24")));
  EXPECT_FALSE(interface("10.77.0.1/24").on_link(interface("10.77.1.2/24")));
  EXPECT_TRUE(interface("10.77.0.1/23").on_link(interface("10.77.1.2/24")));
  EXPECT_TRUE(interface("10.77.0.1/0").on_link(interface("192.168.1.1/24")));
  EXPECT_FALSE(interface("10.77.0.1/32").on_link(interface("10.77.0.2/32")));
  EXPECT_TRUE(interface("fd00::1/64").on_link(interface("fd00::ffff/64")));
  EXPECT_FALSE(interface("fd00::1/64").on_link(interface("fd00:0:0:1::1/64")));
  EXPECT_FALSE(interface("0.0.0.0/0").on_link(interface("::/0")));
}

TEST(DpdkAddress, Encode_GoldenBytes) {
  const EndpointAddress address{18'600, {interface("10.77.0.1/24", 7)}};
  const std::string expected("\x01\x01\xa8\x48\x04\x18\x02\x00\x00\x00\x00\x07\x0a\x4d\x00\x01", 16);
  EXPECT_EQ(address.encode(), expected);
}

TEST(DpdkAddress, Decode_ReturnsWhatWasEncoded) {
  EndpointAddress address{1, {}};
  while (address.interfaces.size() < EndpointAddress::kInterfacesMax) {
    address.interfaces.push_back(interface(address.interfaces.size() % 2 == 0 ? "10.1.2.3/16" : "fd00::7/64"));
    const auto decoded = EndpointAddress::decode(as_byte_span(address.encode()));
    ASSERT_TRUE(decoded.ok());
    EXPECT_EQ(*decoded, address);
  }
}

TEST(DpdkAddress, Decode_RefusesEveryTruncationAndDamage) {
  const std::string good = EndpointAddress{18'600, {interface("10.77.0.1/24"), interface("fd00::1/64")}}.encode();
  for (size_t length = 0; length < good.size(); ++length) {
    EXPECT_FALSE(EndpointAddress::decode(as_byte_span(good.substr(0, length))).ok()) << length;
  }
  EXPECT_FALSE(EndpointAddress::decode(as_byte_span(good + "x")).ok());
  for (const auto& [at, value] : {std::pair{0, 2}, {1, 0}, {1, 17}, {4, 5}, {5, 33}}) {
    std::string bad = good;
    bad[static_cast<size_t>(at)] = static_cast<char>(value);
    EXPECT_FALSE(EndpointAddress::decode(as_byte_span(bad)).ok()) << at;
  }
}

}  // namespace
}  // namespace skua::rpc::dpdk
