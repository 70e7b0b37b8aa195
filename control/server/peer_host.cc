#include "control/server/peer_host.h"

#include <arpa/inet.h>
#include <netinet/in.h>

#include <algorithm>
#include <array>
#include <iterator>

#include "absl/strings/str_cat.h"

namespace skua::control {
namespace {

constexpr std::string_view kV6Begin = "ipv6:%5B";
constexpr std::string_view kV6End = "%5D";
/// Of an address of a link: "fe80::1%25eth0".
constexpr char kScope = '%';
constexpr size_t kNetworkBytes = 8;

}  // namespace

std::string peer_network(std::string_view peer) {
  std::string host = peer_host(peer);
  if (!host.starts_with(kV6Begin) || !host.ends_with(kV6End)) return host;
  std::string text = host.substr(kV6Begin.size(), host.size() - kV6Begin.size() - kV6End.size());
  text = text.substr(0, text.find(kScope));
  in6_addr address{};
  // An IPv4 address in the form of an IPv6 one is a host.
  if (inet_pton(AF_INET6, text.c_str(), &address) != 1 || IN6_IS_ADDR_V4MAPPED(&address)) return host;
  std::fill(std::begin(address.s6_addr) + kNetworkBytes, std::end(address.s6_addr), uint8_t{0});
  std::array<char, INET6_ADDRSTRLEN> network{};
  if (inet_ntop(AF_INET6, &address, network.data(), network.size()) == nullptr) return host;
  return absl::StrCat("ipv6:", network.data(), "/64");
}

}  // namespace skua::control
