// Frames: the Ethernet, IP and UDP headers around an engine packet. Pure, without DPDK.
//
//   | Ethernet 14 | IPv4 20 or IPv6 40 | UDP 8 | engine header 32 | payload ... |
//
// Only the lengths and the IPv4 checksum differ between packets to one peer, so each peer has a template. The IPv4
// checksum is the template's sum plus the length; no pass over the header is needed. The UDP checksum is 0, also over
// IPv6 (RFC 6936 has the conditions), because the engine's CRC-32C covers more.
#ifndef SKUA_RPC_TRANSPORT_DPDK_FRAME_H_
#define SKUA_RPC_TRANSPORT_DPDK_FRAME_H_

#include <array>
#include <cstddef>
#include <cstdint>
#include <cstring>

#include "rpc/base/bytes.h"
#include "rpc/transport/dpdk/address.h"

namespace skua::rpc::dpdk {

inline constexpr size_t kEthernetBytes = 14;
inline constexpr size_t kUdpBytes = 8;
/// Size of the IP and UDP headers. An MTU minus this is the largest UDP payload.
[[nodiscard]] constexpr size_t ip_udp_bytes(uint8_t family) {
  return (family == 6 ? 40 : 20) + kUdpBytes;
}

inline constexpr size_t kIpv4Frame = kEthernetBytes + ip_udp_bytes(4);
inline constexpr size_t kIpv6Frame = kEthernetBytes + ip_udp_bytes(6);

[[nodiscard]] inline uint16_t load_be16(const std::byte* from) {
  return __builtin_bswap16(load_le<uint16_t>(from));
}
inline void store_be16(std::byte* to, size_t value) {
  store_le(to, __builtin_bswap16(static_cast<uint16_t>(value)));
}

class FrameTemplate {
 public:
  /// write() always stores this many bytes. The caller overwrites the bytes behind size().
  static constexpr size_t kStoredBytes = 64;

  FrameTemplate() = default;
  /// For frames from one of this endpoint's interfaces to the peer's interface of the same family. `next_hop`: the MAC
  /// of the peer or of a gateway.
  FrameTemplate(const InterfaceAddress& from, uint16_t from_port, const InterfaceAddress& to, uint16_t to_port,
                const MacAddress& next_hop);

  /// Bytes of the three headers: 42 or 62.
  [[nodiscard]] size_t size() const { return size_; }
  /// Writes the headers of a datagram that carries `udp_payload_bytes`. `to` has room for kStoredBytes.
  void write(std::byte* to, size_t udp_payload_bytes) const {
    write(to);
    set_length(to, udp_payload_bytes);
  }
  /// The same in two steps: the first can run before the payload is written, the second sets the lengths and touches
  /// only the headers.
  void write(std::byte* to) const { std::memcpy(to, bytes_.data(), kStoredBytes); }
  void set_length(std::byte* headers, size_t udp_payload_bytes) const {
    const size_t udp_bytes = kUdpBytes + udp_payload_bytes;
    const size_t size = size_;  // a copy, because the compiler must assume that byte stores change members
    std::byte* ip = headers + kEthernetBytes;
    store_be16(headers + size - 4, udp_bytes);
    if (size == kIpv4Frame) [[likely]] {
      const auto total = static_cast<uint32_t>(20 + udp_bytes);
      uint32_t sum = ip_sum_ + total;
      store_be16(ip + 2, total);
      sum = (sum & 0xffff) + (sum >> 16);
      sum = (sum & 0xffff) + (sum >> 16);
      store_be16(ip + 10, ~sum & 0xffff);
    } else {
      store_be16(ip + 4, udp_bytes);
    }
  }

 private:
  std::array<std::byte, kStoredBytes> bytes_{};
  uint8_t size_ = 0;
  uint32_t ip_sum_ = 0;  // sum of the 16-bit words of the IPv4 header, without the total length
};

/// The sender of a datagram, for finding the peer.
struct FrameSource {
  /// IPv4: 0 and the address; IPv6: its two halves.
  uint64_t ip_high = 0;
  uint64_t ip_low = 0;
  uint16_t udp_port = 0;

  bool operator==(const FrameSource&) const = default;
  [[nodiscard]] uint64_t mix() const { return (ip_high ^ ip_low ^ (uint64_t{udp_port} << 32)) * 0x9e3779b97f4a7c15; }
  template <typename H>
  friend H AbslHashValue(H state, const FrameSource& source) {
    return H::combine(std::move(state), source.ip_high, source.ip_low, source.udp_port);
  }
};

/// The FrameSource that frames sent from this interface and UDP port have.
[[nodiscard]] FrameSource source_of(const InterfaceAddress& from, uint16_t udp_port);

struct ParsedFrame {
  FrameSource source;
  uint16_t to_port = 0;
  uint32_t payload_offset = 0;
  uint32_t payload_bytes = 0;
};

/// The first bytes of the payload of a transport's own datagrams (path_mtu.h). The engine's payloads begin with version
/// and type, which never look like this.
inline constexpr uint64_t kTransportMagic = 0x3150'5544'4b53'00ff;

namespace internal {

/// By value, so that the parsed values of the IPv4 path stay in registers. payload_offset is 0 if the frame is not for
/// us.
[[nodiscard]] ParsedFrame parse_ipv6(ByteSpan frame, size_t payload_bytes_min);

inline bool parse_datagram(ByteSpan frame, size_t payload_bytes_min, ParsedFrame& out) {
  if (frame.size() < kIpv4Frame + payload_bytes_min) return false;
  const std::byte* at = frame.data();
  const std::byte* ip = at + kEthernetBytes;
  // One comparison checks for IPv4 and a header without options. Another checks for no fragment and for UDP. Skua's
  // senders send only such datagrams.
  const bool is_ipv4 = (load_le<uint32_t>(at + 12) & 0x00ff'ffff) == 0x0045'0008;
  if (!is_ipv4) [[unlikely]] {
    out = parse_ipv6(frame, payload_bytes_min);
    return out.payload_offset != 0;
  }
  if ((load_le<uint32_t>(ip + 6) & 0xff00'ff3f) != 0x1100'0000) return false;
  const size_t ip_bytes = load_be16(ip + 2);
  const size_t udp_bytes = load_be16(ip + 24);
  if (ip_bytes > frame.size() - kEthernetBytes || 20 + udp_bytes > ip_bytes) return false;
  if (udp_bytes < kUdpBytes + payload_bytes_min) return false;
  out.source = {0, load_le<uint32_t>(ip + 12), load_be16(ip + 20)};
  out.to_port = load_be16(ip + 22);
  out.payload_offset = kIpv4Frame;
  out.payload_bytes = static_cast<uint32_t>(udp_bytes - kUdpBytes);
  return true;
}

/// The magic lies in the same cache line as the end of the headers, so reading it costs nothing.
inline bool has_transport_magic(ByteSpan frame, const ParsedFrame& parsed) {
  return parsed.payload_bytes >= sizeof(kTransportMagic) &&
         load_le<uint64_t>(frame.data() + parsed.payload_offset) == kTransportMagic;
}

}  // namespace internal

/// True if `frame` holds a whole, unfragmented UDP datagram for the engine with at least `payload_bytes_min` of
/// payload. Padding behind the datagram is cut off. IP addresses are not compared: the device and the UDP port decide
/// whether a datagram is for us.
[[nodiscard]] inline bool parse_frame(ByteSpan frame, size_t payload_bytes_min, ParsedFrame& out) {
  return internal::parse_datagram(frame, payload_bytes_min, out) && !internal::has_transport_magic(frame, out);
}
/// The same for a transport's own datagram, which begins with kTransportMagic.
[[nodiscard]] inline bool parse_transport_frame(ByteSpan frame, size_t payload_bytes_min, ParsedFrame& out) {
  return internal::parse_datagram(frame, payload_bytes_min, out) && internal::has_transport_magic(frame, out);
}
/// The address family of an accepted frame: 4 or 6.
[[nodiscard]] uint8_t address_family(const ParsedFrame& frame);
/// The sender's interface, as far as the IP header shows it. The MAC stays zero.
[[nodiscard]] InterfaceAddress interface_of(const ParsedFrame& frame);

/// Answers an ARP request for `self`: writes the reply (42 bytes) into `to` and returns its size; 0: not such a
/// request. Routers need the answer before they forward anything to us.
size_t answer_arp(ByteSpan frame, const InterfaceAddress& self, MutableByteSpan to);

}  // namespace skua::rpc::dpdk

#endif  // SKUA_RPC_TRANSPORT_DPDK_FRAME_H_
