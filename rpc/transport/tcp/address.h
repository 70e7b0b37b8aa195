// SocketAddress: an IP address and a port as a value, and its encoding in a Descriptor.
//
//   u8 family (4 or 6)   4 or 16 bytes of IP, network order   u16 port, little endian
//
// An endpoint that does not listen has an empty encoding: it can dial others, but nobody can dial it.
#ifndef SKUA_RPC_TRANSPORT_TCP_ADDRESS_H_
#define SKUA_RPC_TRANSPORT_TCP_ADDRESS_H_

#include <sys/socket.h>

#include <array>
#include <cstdint>
#include <string>
#include <string_view>

#include "absl/status/statusor.h"
#include "rpc/base/bytes.h"

namespace skua::rpc::tcp {

struct SocketAddress {
  /// 4, 6, or 0: none.
  uint8_t family = 0;
  std::array<uint8_t, 16> ip{};
  uint16_t port = 0;

  bool operator==(const SocketAddress&) const = default;
  [[nodiscard]] bool is_none() const { return family == 0; }
  /// 0.0.0.0 or ::
  [[nodiscard]] bool is_wildcard() const { return !is_none() && ip == std::array<uint8_t, 16>{}; }

  /// INVALID_ARGUMENT unless `ip` is a numeric IPv4 or IPv6 address (no names, no scope).
  static absl::StatusOr<SocketAddress> parse(std::string_view ip, uint16_t port);

  /// The bytes above; empty if is_none().
  [[nodiscard]] std::string encode() const;
  /// INVALID_ARGUMENT for anything that encode() does not produce.
  static absl::StatusOr<SocketAddress> decode(ByteSpan bytes);

  /// "127.0.0.1:7000", "[::1]:7000" or "no address".
  [[nodiscard]] std::string to_string() const;

  /// Fills `out` and returns its length.
  socklen_t to_sockaddr(sockaddr_storage& out) const;
  /// Returns no address (is_none()) if `from` is neither IPv4 nor IPv6.
  static SocketAddress from_sockaddr(const sockaddr_storage& from);
};

}  // namespace skua::rpc::tcp

#endif  // SKUA_RPC_TRANSPORT_TCP_ADDRESS_H_
