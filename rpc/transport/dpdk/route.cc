#include "rpc/transport/dpdk/route.h"

namespace skua::rpc::dpdk {

std::optional<Route> route_to(std::span<const LocalInterface> ours, std::span<const InterfaceAddress> peers) {
  for (size_t i = 0; i < ours.size(); ++i) {
    for (const InterfaceAddress& to : peers) {
      if (ours[i].address.on_link(to)) return Route{i, to, to.mac};
    }
  }
  for (size_t i = 0; i < ours.size(); ++i) {
    for (const InterfaceAddress& to : peers) {
      if (ours[i].gateway.has_value() && ours[i].address.family == to.family) return Route{i, to, *ours[i].gateway};
    }
  }
  return std::nullopt;
}

}  // namespace skua::rpc::dpdk
