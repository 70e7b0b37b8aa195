#include "rpc/transport/tcp/socket.h"

#include <linux/sockios.h>
#include <netinet/in.h>
#include <netinet/tcp.h>
#include <sys/ioctl.h>
#include <sys/socket.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <system_error>

#include "absl/strings/str_cat.h"

namespace skua::rpc::tcp {
namespace {

absl::Status listen_error(const SocketAddress& at, int error) {
  const std::string what = absl::StrCat("cannot listen on ", at.to_string(), ": ", errno_text(error));
  switch (error) {
    case EADDRINUSE:
      return absl::AlreadyExistsError(
          absl::StrCat(what, "; stop the process that uses the port, or choose another (port 0 picks one)"));
    case EACCES:
      return absl::PermissionDeniedError(
          absl::StrCat(what, "; ports below 1024 need CAP_NET_BIND_SERVICE, choose a higher one"));
    case EADDRNOTAVAIL:
      return absl::UnavailableError(absl::StrCat(what, "; give an address that `ip addr` lists on this machine"));
    case EMFILE:
    case ENFILE: return absl::UnavailableError(absl::StrCat(what, "; raise the limit (ulimit -n)"));
    default: return absl::UnavailableError(what);
  }
}

void set_option(int fd, int level, int name, int value) {
  // Best effort: a kernel without the option still moves packets.
  (void)setsockopt(fd, level, name, &value, sizeof value);
}

UniqueFd make_socket(const SocketAddress& address) {
  return UniqueFd(socket(address.family == 4 ? AF_INET : AF_INET6, SOCK_STREAM | SOCK_NONBLOCK | SOCK_CLOEXEC, 0));
}

}  // namespace

void UniqueFd::reset() {
  if (fd_ >= 0) close(fd_);
  fd_ = -1;
}

std::string errno_text(int error) {
  return std::generic_category().message(error);
}

absl::StatusOr<UniqueFd> listen_on(const SocketAddress& at, SocketAddress& bound) {
  UniqueFd fd = make_socket(at);
  if (!fd.is_open()) return listen_error(at, errno);
  set_option(fd.get(), SOL_SOCKET, SO_REUSEADDR, 1);
  sockaddr_storage storage;
  socklen_t length = at.to_sockaddr(storage);
  if (bind(fd.get(), reinterpret_cast<sockaddr*>(&storage), length) != 0 || listen(fd.get(), SOMAXCONN) != 0) {
    return listen_error(at, errno);
  }
  length = sizeof storage;
  if (getsockname(fd.get(), reinterpret_cast<sockaddr*>(&storage), &length) != 0) {
    return listen_error(at, errno);
  }
  bound = SocketAddress::from_sockaddr(storage);
  return fd;
}

absl::StatusOr<UniqueFd> start_connect(const SocketAddress& to) {
  UniqueFd fd = make_socket(to);
  sockaddr_storage storage;
  const socklen_t length = to.to_sockaddr(storage);
  if (!fd.is_open() ||
      (connect(fd.get(), reinterpret_cast<sockaddr*>(&storage), length) != 0 && errno != EINPROGRESS)) {
    return absl::UnavailableError(absl::StrCat("cannot connect to ", to.to_string(), ": ", errno_text(errno)));
  }
  return fd;
}

void tune_connection(int fd, DurationNs peer_timeout_ns) {
  set_option(fd, IPPROTO_TCP, TCP_NODELAY, 1);
  const int timeout_ms = static_cast<int>(peer_timeout_ns / kMillisecond);
  const int idle_s = std::max(1, timeout_ms / 2000);
  set_option(fd, SOL_SOCKET, SO_KEEPALIVE, 1);
  set_option(fd, IPPROTO_TCP, TCP_KEEPIDLE, idle_s);
  set_option(fd, IPPROTO_TCP, TCP_KEEPINTVL, std::max(1, idle_s / 3));
  set_option(fd, IPPROTO_TCP, TCP_KEEPCNT, 3);
  set_option(fd, IPPROTO_TCP, TCP_USER_TIMEOUT, timeout_ms);
}

int take_socket_error(int fd) {
  int error = 0;
  socklen_t length = sizeof error;
  if (getsockopt(fd, SOL_SOCKET, SO_ERROR, &error, &length) != 0) return errno;
  return error;
}

uint64_t unacknowledged_bytes(int fd) {
  int bytes = 0;
  return ::ioctl(fd, SIOCOUTQ, &bytes) == 0 ? static_cast<uint64_t>(bytes) : 0;
}

SocketAddress reachable_address(uint8_t family, uint16_t port) {
  // Connecting a datagram socket sends nothing; it only makes the kernel choose a source address.
  // 192.0.2.1 and 2001:db8::1 are documentation addresses: only the default route matches them.
  SocketAddress probe = *SocketAddress::parse(family == 4 ? "192.0.2.1" : "2001:db8::1", 9);
  UniqueFd fd(socket(family == 4 ? AF_INET : AF_INET6, SOCK_DGRAM | SOCK_CLOEXEC, 0));
  sockaddr_storage storage;
  socklen_t length = probe.to_sockaddr(storage);
  if (fd.is_open() && connect(fd.get(), reinterpret_cast<sockaddr*>(&storage), length) == 0) {
    length = sizeof storage;
    if (getsockname(fd.get(), reinterpret_cast<sockaddr*>(&storage), &length) == 0) {
      SocketAddress out = SocketAddress::from_sockaddr(storage);
      out.port = port;
      if (!out.is_none() && !out.is_wildcard()) return out;
    }
  }
  return *SocketAddress::parse(family == 4 ? "127.0.0.1" : "::1", port);
}

}  // namespace skua::rpc::tcp
