#include "app/http_listener.h"

#include <netdb.h>
#include <netinet/in.h>
#include <sys/socket.h>

#include <cerrno>
#include <cstring>
#include <memory>
#include <string>
#include <system_error>
#include <utility>

#include "absl/strings/str_cat.h"

namespace skua::app {
namespace {

constexpr int kBacklog = 128;

absl::Status cannot_listen(const Address& address, const std::string& why, const char* way_out) {
  return absl::UnavailableError(absl::StrCat("cannot listen for HTTP on ", shown(address), ": ", why, "; ", way_out));
}

absl::Status error_of(const Address& address, int error) {
  const absl::Status status =
      cannot_listen(address, std::generic_category().message(error),
                    error == EADDRINUSE      ? "give another address or port, or stop who has it (ss -ltnp)"
                    : error == EADDRNOTAVAIL ? "the machine does not have this address (ip address)"
                                             : "give another address or port");
  return error == EADDRINUSE ? absl::AlreadyExistsError(status.message()) : status;
}

void set_option(const OwnedFd& socket, int level, int option, int value) {
  // A system without the option does without it.
  static_cast<void>(::setsockopt(socket.get(), level, option, &value, sizeof value));
}

sockaddr_storage bound_address(const OwnedFd& socket) {
  sockaddr_storage address{};
  socklen_t size = sizeof address;
  static_cast<void>(::getsockname(socket.get(), reinterpret_cast<sockaddr*>(&address), &size));
  return address;
}

uint16_t port_of(const sockaddr_storage& address) {
  sockaddr_in v4;  // the port is at the same place in both families
  std::memcpy(&v4, &address, sizeof v4);
  return ntohs(v4.sin_port);
}

bool is_on_loopback(const sockaddr_storage& address) {
  if (address.ss_family == AF_INET6) {
    sockaddr_in6 v6;
    std::memcpy(&v6, &address, sizeof v6);
    const bool is_mapped = IN6_IS_ADDR_V4MAPPED(&v6.sin6_addr);  // ::ffff:127.0.0.1
    return IN6_IS_ADDR_LOOPBACK(&v6.sin6_addr) || (is_mapped && v6.sin6_addr.s6_addr[12] == 127);
  }
  sockaddr_in v4;
  std::memcpy(&v4, &address, sizeof v4);
  return ntohl(v4.sin_addr.s_addr) >> 24 == 127;
}

}  // namespace

std::string shown(const Address& address) {
  return address.host.find(':') == std::string::npos ? absl::StrCat(address.host, ":", address.port)
                                                     : absl::StrCat("[", address.host, "]:", address.port);
}

absl::StatusOr<HttpListener> listen_for_http(const Address& address) {
  addrinfo hints{};
  hints.ai_socktype = SOCK_STREAM;
  hints.ai_flags = AI_PASSIVE | AI_NUMERICSERV;
  addrinfo* list = nullptr;
  const int unknown = ::getaddrinfo(address.host.c_str(), std::to_string(address.port).c_str(), &hints, &list);
  if (unknown != 0) return cannot_listen(address, ::gai_strerror(unknown), "give an address of this machine");
  const std::unique_ptr<addrinfo, decltype(&::freeaddrinfo)> found(list, &::freeaddrinfo);
  // A name may have several addresses, as localhost has: the first that works is taken.
  absl::Status status;
  for (const addrinfo* at = found.get(); at != nullptr; at = at->ai_next) {
    OwnedFd socket(::socket(at->ai_family, SOCK_STREAM | SOCK_NONBLOCK | SOCK_CLOEXEC, 0));
    if (!socket.is_open()) {
      if (status.ok()) status = error_of(address, errno);
      continue;
    }
    // Not SO_REUSEPORT: two programs would share a port, unnoticed.
    set_option(socket, SOL_SOCKET, SO_REUSEADDR, 1);
    if (at->ai_family == AF_INET6) set_option(socket, IPPROTO_IPV6, IPV6_V6ONLY, 0);  // [::] is IPv4, too
    if (::bind(socket.get(), at->ai_addr, at->ai_addrlen) == 0 && ::listen(socket.get(), kBacklog) == 0) {
      const sockaddr_storage bound = bound_address(socket);
      return HttpListener{.socket = std::move(socket),
                          .address = {.host = address.host, .port = port_of(bound)},
                          .is_loopback = is_on_loopback(bound)};
    }
    const int error = errno;
    if (status.ok()) status = error_of(address, error);
  }
  return status;
}

}  // namespace skua::app
