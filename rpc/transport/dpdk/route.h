// Route: which local interface leads to a peer, and the next hop. Pure.
#ifndef SKUA_RPC_TRANSPORT_DPDK_ROUTE_H_
#define SKUA_RPC_TRANSPORT_DPDK_ROUTE_H_

#include <cstddef>
#include <optional>
#include <span>

#include "rpc/transport/dpdk/address.h"

namespace skua::rpc::dpdk {

struct LocalInterface {
  InterfaceAddress address;
  /// The router's MAC, for peers outside the interface's network.
  std::optional<MacAddress> gateway;
};

struct Route {
  /// Index of the local interface.
  size_t from = 0;
  /// The peer's interface.
  InterfaceAddress to;
  MacAddress next_hop{};
};

/// Chooses the first local interface that is in one network with an interface of the peer; else the first one that has
/// a gateway and the family of one of the peer's interfaces; else none.
[[nodiscard]] std::optional<Route> route_to(std::span<const LocalInterface> ours,
                                            std::span<const InterfaceAddress> peers);

}  // namespace skua::rpc::dpdk

#endif  // SKUA_RPC_TRANSPORT_DPDK_ROUTE_H_
