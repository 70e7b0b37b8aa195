#include "control/server/arrival_limit.h"

#include <netinet/in.h>

#include <cstring>

namespace skua::control {

Network network_of(const sockaddr_storage& address) {
  constexpr size_t kNetworkBytes = 8;
  constexpr size_t kMappedAt = 12;
  Network network{};
  if (address.ss_family == AF_INET) {
    network[kMappedAt - 2] = network[kMappedAt - 1] = 0xff;
    std::memcpy(network.data() + kMappedAt, &reinterpret_cast<const sockaddr_in&>(address).sin_addr, sizeof(in_addr));
  } else if (address.ss_family == AF_INET6) {
    const in6_addr& ip = reinterpret_cast<const sockaddr_in6&>(address).sin6_addr;
    std::memcpy(network.data(), &ip, IN6_IS_ADDR_V4MAPPED(&ip) ? sizeof ip : kNetworkBytes);
  }
  return network;
}

}  // namespace skua::control
