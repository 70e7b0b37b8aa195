// Route: which of our interfaces leads to a peer, and the next hop. Pure.
#ifndef SKUA_RPC_TRANSPORT_DPDK_ROUTE_H_
#define SKUA_RPC_TRANSPORT_DPDK_ROUTE_H_

#include <cstddef>
#include <optional>
#include <span>

#include "rpc/transport/dpdk/address.h"

namespace skua::rpc::dpdk {

struct LocalInterface {
  InterfaceAddress address;
  /// The router's MAC, for peers outside our network.
  std::optional<MacAddress> gateway;
};

struct Route {
  /// Index of ours.
  size_t from = 0;
  /// The peer's interface.
  InterfaceAddress to;
  MacAddress next_hop{};
};

/// The first of our interfaces that is in a network with one of the peer's; else the first that has a gateway for an address of
/// its family; else none.
[[nodiscard]] std::optional<Route> route_to(std::span<const LocalInterface> ours,
                                            std::span<const InterfaceAddress> peers);

}  // namespace skua::rpc::dpdk

#endif  // SKUA_RPC_TRANSPORT_DPDK_ROUTE_H_
