// Addresses of RDMA endpoints: GIDs, the sender of a received packet, and the encoding of an address in a Descriptor.
//
//   u8 version (1)   u8 network (1 InfiniBand, 2 RoCE v1, 3 RoCE v2)   u16 LID   u16 MTU   u16 zero
//   u32 QP number    u32 QKEY    16 GID
//
// A UD packet arrives with 40 bytes in front of it. The device fills in the part that the network has:
//
//   InfiniBand with GRH, RoCE v1, v2 over IPv6:  | version, class, flow 4 | .. 4 | source GID 16 | destination GID 16 |
//   RoCE v2 over IPv4:                           | unspecified 20 | IPv4 header 20: source at 12, destination at 16  |
//   InfiniBand without GRH:                      | unspecified 40 |, and the source's LID in the completion
#ifndef SKUA_RPC_TRANSPORT_VERBS_ADDRESS_H_
#define SKUA_RPC_TRANSPORT_VERBS_ADDRESS_H_

#include <array>
#include <cstddef>
#include <cstdint>
#include <cstring>
#include <optional>
#include <string>
#include <string_view>

#include "absl/status/statusor.h"
#include "rpc/base/bytes.h"

namespace skua::rpc::verbs {

/// Bytes in front of every UD packet.
inline constexpr size_t kGrhBytes = 40;

enum class Network : uint8_t { kInfiniBand = 1, kRoceV1 = 2, kRoceV2 = 3 };
[[nodiscard]] const char* to_string(Network network);

/// 16 bytes in network order; an IPv4 address a.b.c.d is ::ffff:a.b.c.d.
struct Gid {
  std::array<uint8_t, 16> bytes{};

  bool operator==(const Gid&) const = default;
  [[nodiscard]] bool is_zero() const { return *this == Gid{}; }
  [[nodiscard]] bool is_ipv4() const { return prefix() == 0 && load_le<uint32_t>(as_bytes() + 8) == 0xffff0000; }
  [[nodiscard]] bool is_link_local() const { return bytes[0] == 0xfe && (bytes[1] & 0xc0) == 0x80; }
  /// The half that names the subnet, as it stands in the bytes.
  [[nodiscard]] uint64_t prefix() const { return load_le<uint64_t>(as_bytes()); }
  [[nodiscard]] uint64_t interface() const { return load_le<uint64_t>(as_bytes() + 8); }
  /// "10.77.0.1" or "fe80::1".
  [[nodiscard]] std::string to_string() const;
  /// Parses an IPv4 or IPv6 address; nullopt for any other text.
  static std::optional<Gid> parse(std::string_view ip);

 private:
  [[nodiscard]] const std::byte* as_bytes() const { return reinterpret_cast<const std::byte*>(bytes.data()); }
};

/// The sender of a packet, for finding the peer.
struct Source {
  /// The halves of the GID. InfiniBand without a GRH: 0 and the LID.
  uint64_t high = 0;
  uint64_t low = 0;
  uint32_t qp_number = 0;

  bool operator==(const Source&) const = default;
  [[nodiscard]] uint64_t mix() const { return (high ^ low ^ (uint64_t{qp_number} << 32)) * 0x9e3779b97f4a7c15; }
  template <typename H>
  friend H AbslHashValue(H state, const Source& source) {
    return H::combine(std::move(state), source.high, source.low, source.qp_number);
  }
};

struct EndpointAddress {
  static constexpr size_t kBytes = 32;

  Network network = Network::kRoceV2;
  /// InfiniBand: the number of the port in its subnet; else 0.
  uint16_t lid = 0;
  /// The largest packet that the endpoint receives: 256, 512, 1024, 2048 or 4096 bytes.
  uint16_t mtu_bytes = 0;
  uint32_t qp_number = 0;
  uint32_t qkey = 0;
  Gid gid;

  bool operator==(const EndpointAddress&) const = default;

  [[nodiscard]] std::string encode() const;
  /// INVALID_ARGUMENT for anything that encode() does not produce, and for numbers that no queue pair has.
  static absl::StatusOr<EndpointAddress> decode(ByteSpan bytes);
};

/// True if packets between these two have a GRH: always on Ethernet; on InfiniBand only between subnets.
[[nodiscard]] bool needs_grh(const EndpointAddress& from, const EndpointAddress& to);
/// The Source that packets from `peer` have when they arrive at `self`.
[[nodiscard]] Source source_of(const EndpointAddress& peer, const EndpointAddress& self);

/// The first bytes of a GID that is an IPv4 address.
inline constexpr std::array<uint8_t, 12> kIpv4Prefix = {0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0xff, 0xff};

/// The sender of a packet that arrived with a GRH on a queue pair whose own GID is `self`; `grh` has kGrhBytes.
/// nullopt: packets to this GID do not look like this. Inline, because every packet comes through here.
[[nodiscard]] inline std::optional<Source> parse_grh(ByteSpan grh, uint32_t source_qp, Network network,
                                                     const Gid& self) {
  constexpr size_t kIpv4InGrh = 20;
  constexpr size_t kIpv4SourceAt = 12;
  constexpr size_t kSourceGidAt = 8;
  if (grh.size() < kGrhBytes) return std::nullopt;
  Gid source;
  const bool ipv4 = network == Network::kRoceV2 && self.is_ipv4();
  const std::byte* header = grh.data() + (ipv4 ? kIpv4InGrh : 0);
  const auto version = std::to_integer<uint8_t>(header[0] >> 4);
  if (version != (ipv4 ? 4 : 6)) return std::nullopt;
  if (ipv4) {
    std::memcpy(source.bytes.data(), kIpv4Prefix.data(), kIpv4Prefix.size());
    std::memcpy(source.bytes.data() + kIpv4Prefix.size(), header + kIpv4SourceAt, 4);
  } else {
    std::memcpy(source.bytes.data(), header + kSourceGidAt, source.bytes.size());
  }
  return Source{source.prefix(), source.interface(), source_qp};
}

}  // namespace skua::rpc::verbs

#endif  // SKUA_RPC_TRANSPORT_VERBS_ADDRESS_H_
