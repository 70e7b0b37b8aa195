#include "control/server/arrival_limit.h"

#include <arpa/inet.h>
#include <netinet/in.h>

#include <array>
#include <cstring>

namespace skua::control {
namespace {

constexpr size_t kMappedAt = 12;  // where an IPv4 address is in an IPv6 one

}  // namespace

Network network_of(const sockaddr_storage& address) {
  constexpr size_t kNetworkBytes = 8;
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

std::string network_text(const Network& network) {
  std::array<char, INET6_ADDRSTRLEN> text{};
  in6_addr ip{};
  std::memcpy(&ip, network.data(), sizeof ip);
  if (IN6_IS_ADDR_V4MAPPED(&ip)) {
    inet_ntop(AF_INET, network.data() + kMappedAt, text.data(), text.size());
    return text.data();
  }
  inet_ntop(AF_INET6, &ip, text.data(), text.size());
  return std::string(text.data()) + "/64";
}

}  // namespace skua::control
