#include "kvstore/gateway/gateway_sockets.h"

#include <arpa/inet.h>
#include <netdb.h>
#include <netinet/in.h>
#include <netinet/tcp.h>
#include <sys/epoll.h>
#include <sys/socket.h>
#include <sys/uio.h>

#include <array>
#include <cerrno>
#include <cstring>
#include <memory>

#include "absl/strings/str_cat.h"

namespace skua::kv::gateway {
namespace {

constexpr int kBacklog = 1024;

std::string error_text(int error) {
  std::array<char, 128> text{};
  return strerror_r(error, text.data(), text.size());  // GNU's: returns the text
}

void set_option(int fd, int level, int option, int value) {
  // A system without the option does without it.
  (void)setsockopt(fd, level, option, &value, sizeof value);
}

absl::StatusOr<OwnedFd> bind_at(const std::string& host, uint16_t port, bool is_shared) {
  addrinfo hints{};
  hints.ai_socktype = SOCK_STREAM;
  hints.ai_flags = AI_PASSIVE | AI_NUMERICSERV;
  addrinfo* found = nullptr;
  const int error = getaddrinfo(host.c_str(), std::to_string(port).c_str(), &hints, &found);
  if (error != 0) return absl::InvalidArgumentError(absl::StrCat(host, ": ", gai_strerror(error)));
  const std::unique_ptr<addrinfo, decltype(&freeaddrinfo)> address(found, &freeaddrinfo);
  OwnedFd fd(socket(address->ai_family, SOCK_STREAM | SOCK_NONBLOCK | SOCK_CLOEXEC, 0));
  if (!fd.is_open()) return absl::ResourceExhaustedError(absl::StrCat("no socket: ", error_text(errno)));
  set_option(fd.get(), SOL_SOCKET, SO_REUSEADDR, 1);
  if (is_shared) set_option(fd.get(), SOL_SOCKET, SO_REUSEPORT, 1);
  if (bind(fd.get(), address->ai_addr, address->ai_addrlen) != 0 || listen(fd.get(), kBacklog) != 0) {
    const int why = errno;
    const std::string text = absl::StrCat("cannot listen at ", address_text(host, port), ": ", error_text(why));
    if (why == EADDRINUSE) return absl::FailedPreconditionError(absl::StrCat(text, "; choose another port"));
    if (why == EADDRNOTAVAIL)
      return absl::UnavailableError(absl::StrCat(text, " (ip addr shows those of this machine)"));
    return absl::InvalidArgumentError(text);
  }
  return fd;
}

uint16_t port_in(const sockaddr_storage& address) {
  sockaddr_in v4;  // the port is at the same place in both families
  std::memcpy(&v4, &address, sizeof v4);
  return ntohs(v4.sin_port);
}

std::string text_of(const sockaddr_storage& address) {
  std::array<char, INET6_ADDRSTRLEN> text{};
  if (address.ss_family == AF_INET6) {
    sockaddr_in6 v6;
    std::memcpy(&v6, &address, sizeof v6);
    inet_ntop(AF_INET6, &v6.sin6_addr, text.data(), text.size());
  } else {
    sockaddr_in v4;
    std::memcpy(&v4, &address, sizeof v4);
    inet_ntop(AF_INET, &v4.sin_addr, text.data(), text.size());
  }
  return address_text(text.data(), port_in(address));
}

/// `get`: getsockname or getpeername.
sockaddr_storage address_by(int (*get)(int, sockaddr*, socklen_t*), int fd) {
  sockaddr_storage address{};
  socklen_t size = sizeof address;
  (void)get(fd, reinterpret_cast<sockaddr*>(&address), &size);
  return address;
}

Transferred transferred(ssize_t count) {
  if (count >= 0) return {.bytes = static_cast<size_t>(count)};
  return {.is_over = errno != EAGAIN && errno != EWOULDBLOCK && errno != EINTR};
}

}  // namespace

absl::StatusOr<OwnedFd> listen_at(const std::string& host, uint16_t port) {
  return bind_at(host, port, true);
}

absl::Status check_free(const std::string& host, uint16_t port) {
  return port == 0 ? absl::OkStatus() : bind_at(host, port, false).status();
}

uint16_t port_of(const OwnedFd& listener) {
  return port_in(address_by(getsockname, listener.get()));
}

std::string address_text(const std::string& host, uint16_t port) {
  return absl::StrCat(host.find(':') == std::string::npos ? host : "[" + host + "]", ":", port);
}

OwnedFd accept_one(const OwnedFd& listener) {
  OwnedFd socket(accept4(listener.get(), nullptr, nullptr, SOCK_NONBLOCK | SOCK_CLOEXEC));
  if (socket.is_open()) {
    set_option(socket.get(), IPPROTO_TCP, TCP_NODELAY, 1);
    set_option(socket.get(), SOL_SOCKET, SO_KEEPALIVE, 1);
  }
  return socket;
}

bool watch_input(int epoll, int fd, uint64_t event) {
  epoll_event watched{.events = EPOLLIN, .data = {.u64 = event}};
  return epoll_ctl(epoll, EPOLL_CTL_ADD, fd, &watched) == 0;
}

std::string remote_address(const OwnedFd& socket) {
  return text_of(address_by(getpeername, socket.get()));
}

std::string local_address(const OwnedFd& socket) {
  return text_of(address_by(getsockname, socket.get()));
}

Transferred read_some(const OwnedFd& socket, std::span<char> room) {
  const ssize_t count = recv(socket.get(), room.data(), room.size(), MSG_DONTWAIT);
  return count == 0 ? Transferred{.is_over = true} : transferred(count);
}

Transferred write_some(const OwnedFd& socket, std::span<const std::string_view> pieces) {
  std::array<iovec, kPiecesMax> vectors;
  for (size_t i = 0; i < pieces.size(); ++i) {
    vectors[i] = {.iov_base = const_cast<char*>(pieces[i].data()), .iov_len = pieces[i].size()};
  }
  msghdr message{};
  message.msg_iov = vectors.data();
  message.msg_iovlen = pieces.size();
  return transferred(sendmsg(socket.get(), &message, MSG_NOSIGNAL | MSG_DONTWAIT));
}

}  // namespace skua::kv::gateway
