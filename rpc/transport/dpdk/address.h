// EndpointAddress: where an endpoint is reached over DPDK, and its encoding in a Descriptor.
//
//   u8 version (1)   u8 interface count (1..16)   u16 UDP port
//   per interface:   u8 family (4 or 6)   u8 prefix length in bits   6 MAC   4 or 16 bytes of IP, network order
//
// The MAC travels with the address, so nothing has to be resolved before the first packet. An endpoint has one
// interface for each port of its process. The UDP port is the same on all of them and identifies the worker.
#ifndef SKUA_RPC_TRANSPORT_DPDK_ADDRESS_H_
#define SKUA_RPC_TRANSPORT_DPDK_ADDRESS_H_

#include <array>
#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "absl/status/statusor.h"
#include "rpc/base/bytes.h"

namespace skua::rpc::dpdk {

using MacAddress = std::array<uint8_t, 6>;

/// Parses "02:00:0a:4d:00:01". INVALID_ARGUMENT for anything else.
absl::StatusOr<MacAddress> parse_mac(std::string_view text);
[[nodiscard]] std::string to_string(const MacAddress& mac);

struct InterfaceAddress {
  MacAddress mac{};
  /// 4 or 6; 0: none.
  uint8_t family = 0;
  uint8_t prefix_bits = 0;
  std::array<uint8_t, 16> ip{};

  bool operator==(const InterfaceAddress&) const = default;

  /// Parses "10.77.0.1/24" or "fd00::1/64". Without a prefix length the address is a network of its own (/32, /128).
  /// The MAC stays zero. INVALID_ARGUMENT says what is expected.
  static absl::StatusOr<InterfaceAddress> parse(std::string_view cidr);
  /// The text that parse() takes.
  [[nodiscard]] std::string to_string() const;
  [[nodiscard]] size_t ip_bytes() const { return family == 6 ? 16 : 4; }
  /// True if `other` is in this interface's network: there is no gateway between them.
  [[nodiscard]] bool on_link(const InterfaceAddress& other) const;
};

struct EndpointAddress {
  static constexpr size_t kInterfacesMax = 16;

  uint16_t udp_port = 0;
  std::vector<InterfaceAddress> interfaces;

  bool operator==(const EndpointAddress&) const = default;

  /// The bytes above. More than kInterfacesMax interfaces fail a check.
  [[nodiscard]] std::string encode() const;
  /// INVALID_ARGUMENT for anything that encode() does not produce.
  static absl::StatusOr<EndpointAddress> decode(ByteSpan bytes);
};

}  // namespace skua::rpc::dpdk

#endif  // SKUA_RPC_TRANSPORT_DPDK_ADDRESS_H_
