// Port choice: which RDMA port and which of its GIDs to use. Pure: works on a list of ports.
//
//   wish "mlx5_0" or "mlx5_0:2"   that device, its first active port or port 2
//   wish "10.77.0.1"              the port that has the address as a GID
//   no wish                       the first active port with a GID that can be used
//
// The best GID of a port, in this order: RoCE v2 with an IPv4 address (it can be routed, and tools on both ends show
// it), RoCE v2 with an IPv6 address that is not link-local, any RoCE v2, InfiniBand (its first entry), RoCE v1.
#ifndef SKUA_RPC_TRANSPORT_VERBS_PORT_CHOICE_H_
#define SKUA_RPC_TRANSPORT_VERBS_PORT_CHOICE_H_

#include <cstdint>
#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "rpc/transport/verbs/address.h"

namespace skua::rpc::verbs {

struct GidInfo {
  uint32_t index = 0;
  Network network = Network::kRoceV2;
  Gid gid;
};

struct PortInfo {
  std::string device;
  uint8_t port = 1;
  bool active = false;
  /// "active", "down" and so on, or the error if the port cannot be queried.
  std::string state;
  uint32_t mtu_bytes = 0;
  uint16_t lid = 0;
  std::vector<GidInfo> gids;

  /// "rxe0 port 1 (active, MTU 4096, GIDs 0: fe80::1 RoCE v2, 1: 10.77.0.1 RoCE v2)"
  [[nodiscard]] std::string describe() const;
};

struct PortWish {
  /// The name of a device, optionally with ":PORT", or an IP address; empty: any.
  std::string device;
  /// Index in the port's GID table; -1: the best GID.
  int gid_index = -1;
};

struct PortChoice {
  PortInfo port;
  GidInfo gid;
};

/// Errors name what was looked for, what was found, and a remedy. UNAVAILABLE: what is missing may come by itself while
/// a machine starts: the link, InfiniBand's subnet manager, the interface's address. FAILED_PRECONDITION: there is no
/// such device.
absl::StatusOr<PortChoice> choose_port(const std::vector<PortInfo>& ports, const PortWish& wish);

}  // namespace skua::rpc::verbs

#endif  // SKUA_RPC_TRANSPORT_VERBS_PORT_CHOICE_H_
