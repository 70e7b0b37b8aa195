// Which RDMA port and which of its GIDs to use. Pure: works on a list of what is there.
//
//   wish "mlx5_0" or "mlx5_0:2"   that device, its first active port or port 2
//   wish "10.77.0.1"              the port that has the address as a GID
//   no wish                       the first active port with a GID that can be used
//
// Of a port's GIDs the best is, in this order: RoCE v2 of an IPv4 address (routed, and what both ends' tools show), RoCE v2 of an
// IPv6 address that is not link-local, RoCE v2, InfiniBand (the first entry), RoCE v1.
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
  /// As the device says it: "active", "down", or why it cannot be asked.
  std::string state;
  uint32_t mtu_bytes = 0;
  uint16_t lid = 0;
  std::vector<GidInfo> gids;

  /// "rxe0 port 1 (active, MTU 4096, GIDs 0: fe80::1 RoCE v2, 1: 10.77.0.1 RoCE v2)"
  [[nodiscard]] std::string describe() const;
};

struct PortWish {
  /// A device's name, with ":PORT" if need be, or an IP address; empty: any.
  std::string device;
  /// The GID's index in the port's table; -1: the best.
  int gid_index = -1;
};

struct PortChoice {
  PortInfo port;
  GidInfo gid;
};

/// FAILED_PRECONDITION says what was looked for, what was found, and the way out.
absl::StatusOr<PortChoice> choose_port(const std::vector<PortInfo>& ports, const PortWish& wish);

}  // namespace skua::rpc::verbs

#endif  // SKUA_RPC_TRANSPORT_VERBS_PORT_CHOICE_H_
