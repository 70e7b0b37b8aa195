// Which host a call came from, and for whom bounds count that one host must not use up.
#ifndef SKUA_CONTROL_SERVER_PEER_HOST_H_
#define SKUA_CONTROL_SERVER_PEER_HOST_H_

#include <string>
#include <string_view>

namespace skua::control {

/// Of gRPC's name of a peer ("ipv4:10.0.0.7:51234", "ipv6:%5B::1%5D:51234") without its port; other names as they are.
[[nodiscard]] inline std::string peer_host(std::string_view peer) {
  const size_t colon =
      peer.starts_with("ipv4:") || peer.starts_with("ipv6:") ? peer.rfind(':') : std::string_view::npos;
  return std::string(peer.substr(0, colon));
}

/// Whom a bound for one host counts. Who has an IPv6 address has a whole network of them, of 64 bits at least, so these
/// count as one: "ipv6:2001:db8:0:1::/64". Other hosts are peer_host().
[[nodiscard]] std::string peer_network(std::string_view peer);

}  // namespace skua::control

#endif  // SKUA_CONTROL_SERVER_PEER_HOST_H_
