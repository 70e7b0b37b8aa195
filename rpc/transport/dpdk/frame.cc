#include "rpc/transport/dpdk/frame.h"

#include <algorithm>
#include <bit>

namespace skua::rpc::dpdk {
namespace {

constexpr uint16_t kEtherTypeIpv4 = 0x0800;
constexpr uint16_t kEtherTypeArp = 0x0806;
constexpr uint16_t kEtherTypeIpv6 = 0x86dd;
constexpr uint8_t kProtocolUdp = 17;
constexpr uint8_t kHopLimit = 64;
constexpr size_t kArpFrameBytes = 42;

void put(std::byte* to, std::span<const uint8_t> bytes) {
  std::memcpy(to, bytes.data(), bytes.size());
}

}  // namespace

FrameTemplate::FrameTemplate(const InterfaceAddress& from, uint16_t from_port, const InterfaceAddress& to,
                             uint16_t to_port, const MacAddress& next_hop) {
  std::byte* at = bytes_.data();
  put(at, next_hop);
  put(at + 6, from.mac);
  store_be16(at + 12, from.family == 4 ? kEtherTypeIpv4 : kEtherTypeIpv6);
  std::byte* ip = at + kEthernetBytes;
  if (from.family == 4) {
    ip[0] = std::byte{0x45};
    store_be16(ip + 6, 0x4000);  // don't fragment
    ip[8] = std::byte{kHopLimit};
    ip[9] = std::byte{kProtocolUdp};
    put(ip + 12, std::span(from.ip).first(4));
    put(ip + 16, std::span(to.ip).first(4));
    for (size_t i = 0; i < 20; i += 2) ip_sum_ += load_be16(ip + i);
  } else {
    ip[0] = std::byte{0x60};
    ip[6] = std::byte{kProtocolUdp};
    ip[7] = std::byte{kHopLimit};
    put(ip + 8, from.ip);
    put(ip + 24, to.ip);
  }
  size_ = static_cast<uint8_t>(kEthernetBytes + ip_udp_bytes(from.family));
  std::byte* udp = at + size_ - kUdpBytes;
  store_be16(udp, from_port);
  store_be16(udp + 2, to_port);
}

FrameSource source_of(const InterfaceAddress& from, uint16_t udp_port) {
  FrameSource out;
  const auto* ip = reinterpret_cast<const std::byte*>(from.ip.data());
  if (from.family == 4) {
    out.ip_low = load_le<uint32_t>(ip);
  } else {
    out.ip_high = load_le<uint64_t>(ip);
    out.ip_low = load_le<uint64_t>(ip + 8);
  }
  out.udp_port = udp_port;
  return out;
}

ParsedFrame internal::parse_ipv6(ByteSpan frame, size_t payload_bytes_min) {
  const std::byte* at = frame.data();
  const std::byte* ip = at + kEthernetBytes;
  if (frame.size() < kIpv6Frame + payload_bytes_min || load_be16(at + 12) != kEtherTypeIpv6) return {};
  if ((ip[0] >> 4) != std::byte{6} || ip[6] != std::byte{kProtocolUdp}) return {};
  const size_t ip_payload = load_be16(ip + 4);
  const size_t udp_bytes = load_be16(ip + 44);
  if (ip_payload > frame.size() - kEthernetBytes - 40 || udp_bytes > ip_payload) return {};
  if (udp_bytes < kUdpBytes + payload_bytes_min) return {};
  ParsedFrame out;
  out.source = {load_le<uint64_t>(ip + 8), load_le<uint64_t>(ip + 16), load_be16(ip + 40)};
  out.to_port = load_be16(ip + 42);
  out.payload_offset = kIpv6Frame;
  out.payload_bytes = static_cast<uint32_t>(udp_bytes - kUdpBytes);
  return out;
}

uint8_t address_family(const ParsedFrame& frame) {
  return frame.payload_offset == kIpv6Frame ? 6 : 4;
}

InterfaceAddress interface_of(const ParsedFrame& frame) {
  InterfaceAddress out;
  out.family = address_family(frame);
  out.prefix_bits = static_cast<uint8_t>(8 * out.ip_bytes());
  auto* ip = reinterpret_cast<std::byte*>(out.ip.data());
  if (out.family == 4) {
    store_le(ip, static_cast<uint32_t>(frame.source.ip_low));
  } else {
    store_le(ip, frame.source.ip_high);
    store_le(ip + 8, frame.source.ip_low);
  }
  return out;
}

size_t answer_arp(ByteSpan frame, const InterfaceAddress& self, MutableByteSpan to) {
  if (frame.size() < kArpFrameBytes || to.size() < kArpFrameBytes || self.family != 4) return 0;
  const std::byte* at = frame.data();
  const std::byte* arp = at + kEthernetBytes;
  const auto self_ip = std::as_bytes(std::span(self.ip)).first(4);
  const bool asks = load_be16(at + 12) == kEtherTypeArp && load_be16(arp) == 1 &&
                    load_be16(arp + 2) == kEtherTypeIpv4 && arp[4] == std::byte{6} && arp[5] == std::byte{4} &&
                    load_be16(arp + 6) == 1 && std::equal(self_ip.begin(), self_ip.end(), arp + 24);
  if (!asks) return 0;
  std::byte* out = to.data();
  std::memcpy(out, arp + 8, 6);  // to the machine that asked
  put(out + 6, self.mac);
  std::memcpy(out + 12, at + 12, 8);  // types and sizes as in the request
  store_be16(out + kEthernetBytes + 6, 2);
  put(out + kEthernetBytes + 8, self.mac);
  std::memcpy(out + kEthernetBytes + 14, self_ip.data(), 4);
  std::memcpy(out + kEthernetBytes + 18, arp + 8, 10);
  return kArpFrameBytes;
}

}  // namespace skua::rpc::dpdk
