#include "kvstore/node/listening.h"

#include <arpa/inet.h>
#include <netdb.h>
#include <netinet/in.h>
#include <sys/socket.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cstring>
#include <memory>
#include <system_error>
#include <utility>
#include <vector>

#include "absl/cleanup/cleanup.h"
#include "absl/strings/str_cat.h"
#include "control/security/exposure.h"

namespace skua::kv {
namespace {

using control::is_loopback;

constexpr uint32_t kPortMax = 65'535;

using Addresses = std::unique_ptr<addrinfo, decltype([](addrinfo* found) { freeaddrinfo(found); })>;

/// Resolves a host. `error` becomes the error code of getaddrinfo(); 0: found.
Addresses look_up(const std::string& host, const std::string& port, int flags, int family, int& error) {
  addrinfo hints = {};
  hints.ai_family = family;
  hints.ai_socktype = SOCK_STREAM;
  hints.ai_flags = flags;
  addrinfo* found = nullptr;
  error = getaddrinfo(host.c_str(), port.empty() ? nullptr : port.c_str(), &hints, &found);
  return Addresses(error == 0 ? found : nullptr);
}

std::string ip_text(const sockaddr& address) {
  char text[INET6_ADDRSTRLEN] = {};
  if (address.sa_family == AF_INET) {
    inet_ntop(AF_INET, &reinterpret_cast<const sockaddr_in&>(address).sin_addr, text, sizeof text);
  } else {
    inet_ntop(AF_INET6, &reinterpret_cast<const sockaddr_in6&>(address).sin6_addr, text, sizeof text);
  }
  return text;
}

bool is_v6(const std::string& host) {
  return host.find(':') != std::string::npos;
}

bool is_any(const std::string& host) {
  in6_addr v6{};
  if (is_v6(host)) return inet_pton(AF_INET6, host.c_str(), &v6) == 1 && IN6_IS_ADDR_UNSPECIFIED(&v6);
  return host == "0.0.0.0";
}

std::string with_port(const std::string& host, uint32_t port) {
  return is_v6(host) ? absl::StrCat("[", host, "]:", port) : absl::StrCat(host, ":", port);
}

absl::Status wrong(const std::string& text) {
  return absl::InvalidArgumentError(text);
}

std::string grpc_text(const Listening& wanted) {
  return absl::StrCat("--grpc-address ", with_port(wanted.grpc_host, wanted.grpc_port));
}
std::string data_text(const Listening& wanted) {
  return absl::StrCat("--data-address ", with_port(wanted.data_host, wanted.data_port));
}

absl::Status check_reachable(const Listening& wanted) {
  if (!wanted.advertise_host.empty()) return absl::OkStatus();
  const bool grpc = is_any(wanted.grpc_host);
  if (!grpc && !is_any(wanted.data_host)) return absl::OkStatus();
  return wrong(
      absl::StrCat(grpc ? grpc_text(wanted) : data_text(wanted),
                   " listens on every address of this machine, and others must be told one: add --advertise-host with "
                   "the address or name of this machine under which they reach it"));
}

absl::Status bind_error(const char* option, const std::string& host, uint32_t port, int error) {
  const std::string what = absl::StrCat(option, ": cannot listen on ", with_port(host, port), ": ",
                                        std::error_code(error, std::generic_category()).message());
  switch (error) {
    case EADDRINUSE:
      return absl::AlreadyExistsError(absl::StrCat(what, "; stop the process that has the port (ss -ltnp 'sport = :",
                                                   port, "' names it), or give another port"));
    case EACCES: return absl::PermissionDeniedError(absl::StrCat(what, "; give a port above 1023"));
    case EINVAL:  // a link-local IPv6 address without its interface
    case EAFNOSUPPORT: return wrong(absl::StrCat(what, "; give an address of this machine (ip addr shows them)"));
    case EADDRNOTAVAIL:  // The interface may come up later.
      return absl::UnavailableError(absl::StrCat(what, "; give an address of this machine (ip addr shows them)"));
    default: return absl::UnavailableError(what);
  }
}

/// Why a host is not found. A name server that does not answer may do so when the machine has started.
absl::Status not_found(const std::string& what, int error, const char* way_out) {
  const std::string text = absl::StrCat(what, ": ", gai_strerror(error), "; ");
  if (error == EAI_AGAIN) return absl::UnavailableError(absl::StrCat(text, "try again, or give an IP address"));
  return wrong(absl::StrCat(text, way_out));
}

/// Binds and listens. Leaves the socket in `bound` open, so that binding the same port again fails.
absl::Status bind_one(const char* option, const std::string& host, uint32_t port, std::vector<int>& bound) {
  int error = 0;
  const Addresses found = look_up(host, absl::StrCat(port), AI_PASSIVE, AF_UNSPEC, error);
  if (error != 0) {
    return not_found(absl::StrCat(option, ": ", host, " is not a host"), error,
                     "give an address of this machine (ip addr shows them)");
  }
  const int socket = ::socket(found->ai_family, SOCK_STREAM | SOCK_CLOEXEC, 0);
  if (socket < 0) return bind_error(option, host, port, errno);
  bound.push_back(socket);
  const int on = 1;
  if (setsockopt(socket, SOL_SOCKET, SO_REUSEADDR, &on, sizeof on) != 0 ||
      ::bind(socket, found->ai_addr, found->ai_addrlen) != 0 || ::listen(socket, 1) != 0) {
    return bind_error(option, host, port, errno);
  }
  return absl::OkStatus();
}

}  // namespace

absl::Status check_listening(const Listening& wanted) {
  const bool tcp = !wanted.data_host.empty();
  const uint32_t last = uint32_t{wanted.data_port} + wanted.workers - 1;
  if (tcp && wanted.data_port != 0 && last > kPortMax) {
    return wrong(absl::StrCat("--data-address: worker ", wanted.workers - 1, " would listen on port ", last,
                              "; the highest port is ", kPortMax, ": give a lower one"));
  }
  const bool same_host = wanted.grpc_host == wanted.data_host || is_any(wanted.grpc_host) || is_any(wanted.data_host);
  const bool among = wanted.grpc_port != 0 && wanted.data_port != 0 && wanted.grpc_port >= wanted.data_port &&
                     wanted.grpc_port <= last;
  if (tcp && same_host && among) {
    return wrong(absl::StrCat(grpc_text(wanted), " is also where worker ", wanted.grpc_port - wanted.data_port,
                              " listens for sessions (", data_text(wanted), "): give them different ports"));
  }
  return check_reachable(wanted);
}

absl::StatusOr<std::string> resolve_advertise_host(const Listening& wanted) {
  const std::string& host = wanted.advertise_host;
  if (host.empty()) return std::string();
  int error = 0;
  const Addresses found = look_up(host, "", 0, AF_UNSPEC, error);
  if (error != 0) {
    return not_found(absl::StrCat("--advertise-host ", host, " does not resolve"), error,
                     "write the name as DNS or /etc/hosts has it, or give an IP address");
  }
  // A socket on [::] accepts IPv4 connections too.
  const bool v4 = wanted.data_host.empty() || !is_v6(wanted.data_host) || is_any(wanted.data_host);
  const bool v6 = wanted.data_host.empty() || is_v6(wanted.data_host);
  std::string best;
  for (const addrinfo* one = found.get(); one != nullptr; one = one->ai_next) {
    if (!(one->ai_family == AF_INET ? v4 : v6)) continue;
    const std::string ip = ip_text(*one->ai_addr);
    if (best.empty() || (is_loopback(best) && !is_loopback(ip))) best = ip;
  }
  if (!best.empty()) return best;
  return wrong(
      absl::StrCat("--advertise-host ", host, " has no ", v4 ? "IPv4" : "IPv6", " address, but ", data_text(wanted),
                   " listens on that: ",
                   v4 ? "listen on an IPv6 address, such as [::]" : "listen on an IPv4 address, such as 0.0.0.0"));
}

std::string loopback_warning(const Listening& wanted, const std::string& advertise_ip) {
  if (advertise_ip.empty()) return {};
  if (is_loopback(advertise_ip)) {
    if (is_loopback(wanted.grpc_host) && is_loopback(wanted.data_host)) return {};
    return absl::StrCat("other machines cannot reach this node: --advertise-host ", wanted.advertise_host, " is ",
                        advertise_ip, " here, this machine's loopback");
  }
  const bool grpc = is_loopback(wanted.grpc_host);
  if (!grpc && !is_loopback(wanted.data_host)) return {};
  return absl::StrCat("other machines cannot reach this node unless something here passes their connections on: ",
                      grpc ? grpc_text(wanted) : data_text(wanted),
                      " listens on this machine's loopback; write 0.0.0.0 there");
}

absl::Status probe_listening(const Listening& wanted) {
  std::vector<int> bound;
  const absl::Cleanup close_all = [&bound] { std::ranges::for_each(bound, ::close); };
  absl::Status status = bind_one("--grpc-address", wanted.grpc_host, wanted.grpc_port, bound);
  for (uint32_t i = 0; status.ok() && !wanted.data_host.empty() && i < wanted.workers; ++i) {
    const uint32_t port = wanted.data_port == 0 ? 0 : wanted.data_port + i;
    status = bind_one("--data-address", wanted.data_host, port, bound);
  }
  return status;
}

}  // namespace skua::kv
