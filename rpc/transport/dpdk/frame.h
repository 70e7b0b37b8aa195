// Frames: the Ethernet, IP and UDP headers around an engine packet. Pure; knows nothing of DPDK.
//
//   | Ethernet 14 | IPv4 20 or IPv6 40 | UDP 8 | engine header 32 | payload ... |
//
// All of it but the lengths is the same for every packet to one peer, so each peer has a template. The IPv4 checksum is the
// template's sum with the length added: no pass over the header. The UDP checksum is 0, also over IPv6 (RFC 6936 has the
// conditions): the engine's CRC-32C covers more.
#ifndef SKUA_RPC_TRANSPORT_DPDK_FRAME_H_
#define SKUA_RPC_TRANSPORT_DPDK_FRAME_H_

#include <array>
#include <cstdint>
#include <cstring>

#include "rpc/base/bytes.h"
#include "rpc/transport/dpdk/address.h"

namespace skua::rpc::dpdk {

inline constexpr size_t kEthernetBytes = 14;
inline constexpr size_t kUdpBytes = 8;
/// IP and UDP headers: what an MTU loses to them.
[[nodiscard]] constexpr size_t ip_udp_bytes(uint8_t family) {
  return (family == 6 ? 40 : 20) + kUdpBytes;
}

class FrameTemplate {
 public:
  /// write() stores this many bytes, of which the caller overwrites those behind size().
  static constexpr size_t kStoredBytes = 64;

  FrameTemplate() = default;
  /// Frames from one of our interfaces to the peer's interface of the same family; `next_hop` is its MAC or a gateway's.
  FrameTemplate(const InterfaceAddress& from, uint16_t from_port, const InterfaceAddress& to, uint16_t to_port,
                const MacAddress& next_hop);

  /// Bytes of the three headers: 42 or 62.
  [[nodiscard]] size_t size() const { return size_; }
  /// The headers of a datagram that carries `udp_payload_bytes`. `to` has room for kStoredBytes.
  void write(std::byte* to, size_t udp_payload_bytes) const {
    write(to);
    set_length(to, udp_payload_bytes);
  }
  /// The same in two steps: what is known before the payload is there, and what is not. The second touches the headers only.
  void write(std::byte* to) const { std::memcpy(to, bytes_.data(), kStoredBytes); }
  void set_length(std::byte* headers, size_t udp_payload_bytes) const;

 private:
  std::array<std::byte, kStoredBytes> bytes_{};
  uint8_t size_ = 0;
  uint32_t ip_sum_ = 0;  // of the 16-bit words of the IPv4 header, without the total length
};

/// Who sent a datagram: enough to find the peer.
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

/// The source that frames of this endpoint will have.
[[nodiscard]] FrameSource source_of(const InterfaceAddress& from, uint16_t udp_port);

struct ParsedFrame {
  FrameSource source;
  uint16_t to_port = 0;
  uint32_t payload_offset = 0;
  uint32_t payload_bytes = 0;
};

/// What the payload of a transport's own datagrams (path_mtu.h) begins with. The engine's begin with their version and type,
/// which these bytes are none of.
inline constexpr uint64_t kTransportMagic = 0x3150'5544'4b53'00ff;

/// True for a whole, unfragmented UDP datagram for the engine with at least `payload_bytes_min` of payload that fits the frame. Padding behind
/// it is cut off. Addresses are not compared: the device and the UDP port decide what is ours.
[[nodiscard]] bool parse_frame(ByteSpan frame, size_t payload_bytes_min, ParsedFrame& out);
/// The same for a datagram that begins with kTransportMagic.
[[nodiscard]] bool parse_transport_frame(ByteSpan frame, size_t payload_bytes_min, ParsedFrame& out);
/// 4 or 6.
[[nodiscard]] uint8_t address_family(const ParsedFrame& frame);
/// Who sent it, as far as its IP header tells.
[[nodiscard]] InterfaceAddress interface_of(const ParsedFrame& frame);

/// Answers an ARP request for `self`: writes the reply (42 bytes) into `to` and returns its size, else 0. Routers ask before
/// they forward anything to us.
size_t answer_arp(ByteSpan frame, const InterfaceAddress& self, MutableByteSpan to);

}  // namespace skua::rpc::dpdk

#endif  // SKUA_RPC_TRANSPORT_DPDK_FRAME_H_
