#include "control/server/connection_door.h"

#include <netdb.h>
#include <netinet/in.h>
#include <netinet/tcp.h>
#include <poll.h>
#include <sys/eventfd.h>
#include <sys/resource.h>
#include <sys/socket.h>
#include <unistd.h>

#include <cerrno>
#include <cstring>
#include <utility>

namespace skua::control {
namespace {

constexpr int kBacklog = 4096;
/// When no descriptor can be had: connections wait in the backlog meanwhile.
constexpr int kPauseMs = 100;
/// How long a connection may take to say its first byte; as long as gRPC gives it for the whole handshake.
constexpr int kFirstByteMs = 10'000;
constexpr size_t kHesitantMax = 256;
/// While somebody hesitates: how often those whose time is up are looked for.
constexpr int kSortEveryMs = 500;
/// Of a record that begins a connection of TLS.
constexpr char kTlsHandshake = 0x16;

struct AddressList {
  ~AddressList() {
    if (first != nullptr) freeaddrinfo(first);
  }
  addrinfo* first = nullptr;
};

bool is_wildcard(const std::string& host) {
  return host == "0.0.0.0" || host == "::";
}

uint16_t port_of(const sockaddr_storage& address) {
  return ntohs(address.ss_family == AF_INET6 ? reinterpret_cast<const sockaddr_in6&>(address).sin6_port
                                             : reinterpret_cast<const sockaddr_in&>(address).sin_port);
}

/// A socket that listens, or -1 and errno.
int listen_at(const addrinfo& at, uint16_t port, bool takes_both_kinds) {
  sockaddr_storage address{};
  std::memcpy(&address, at.ai_addr, at.ai_addrlen);
  if (port != 0) {
    (at.ai_family == AF_INET6 ? reinterpret_cast<sockaddr_in6&>(address).sin6_port
                              : reinterpret_cast<sockaddr_in&>(address).sin_port) = htons(port);
  }
  const int fd = socket(at.ai_family, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0);
  if (fd < 0) return -1;
  const int on = 1;
  const int only_v6 = takes_both_kinds ? 0 : 1;
  // Accepted sockets inherit TCP_NODELAY.
  const bool listens =
      setsockopt(fd, SOL_SOCKET, SO_REUSEADDR, &on, sizeof on) == 0 &&
      setsockopt(fd, IPPROTO_TCP, TCP_NODELAY, &on, sizeof on) == 0 &&
      (at.ai_family != AF_INET6 || setsockopt(fd, IPPROTO_IPV6, IPV6_V6ONLY, &only_v6, sizeof only_v6) == 0) &&
      bind(fd, reinterpret_cast<const sockaddr*>(&address), at.ai_addrlen) == 0 && ::listen(fd, kBacklog) == 0;
  if (listens) return fd;
  const int error = errno;
  close(fd);
  errno = error;
  return -1;
}

}  // namespace

int descriptors_for(DoorFor whom, uint64_t files) {
  if (files > INT32_MAX) return INT32_MAX;
  return static_cast<int>(files / 4 * (whom == DoorFor::kStrangers ? 2 : 3));
}

std::unique_ptr<ConnectionDoor> ConnectionDoor::listen(const std::string& host, const std::string& port,
                                                       Failure& failure) {
  std::unique_ptr<ConnectionDoor> door(new ConnectionDoor);
  addrinfo hints = {};
  hints.ai_socktype = SOCK_STREAM;
  hints.ai_flags = AI_PASSIVE;
  // The wildcard of IPv6 takes both kinds, where there is IPv6; else what was asked for.
  for (const char* name : {is_wildcard(host) ? "::" : host.c_str(), host.c_str()}) {
    AddressList found;
    if (const int error = getaddrinfo(name, port.c_str(), &hints, &found.first); error != 0) {
      failure = {0, gai_strerror(error)};
      continue;
    }
    for (const addrinfo* at = found.first; at != nullptr; at = at->ai_next) {
      const int fd = listen_at(*at, door->port_, is_wildcard(host));
      if (fd < 0) {
        failure = {errno, ""};
        continue;
      }
      door->listeners_.push_back(fd);
      sockaddr_storage bound{};
      socklen_t length = sizeof bound;
      if (getsockname(fd, reinterpret_cast<sockaddr*>(&bound), &length) == 0) door->port_ = port_of(bound);
    }
    if (!door->listeners_.empty()) break;
  }
  if (door->listeners_.empty()) return nullptr;
  door->wake_ = eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK);
  if (door->wake_ >= 0) return door;
  failure = {errno, ""};
  return nullptr;
}

ConnectionDoor::~ConnectionDoor() {
  if (thread_.joinable()) {
    const uint64_t one = 1;
    (void)!write(wake_, &one, sizeof one);
    thread_.join();
  }
  for (const int listener : listeners_) close(listener);
  for (const Hesitant& one : hesitant_) close(one.fd);
  if (wake_ >= 0) close(wake_);
}

void ConnectionDoor::open(std::unique_ptr<grpc::experimental::ExternalConnectionAcceptor> inside,
                          std::unique_ptr<grpc::experimental::ExternalConnectionAcceptor> without_tls, DoorFor whom) {
  inside_ = std::move(inside);
  without_tls_ = std::move(without_tls);
  rlimit limit{};
  descriptors_max_ = getrlimit(RLIMIT_NOFILE, &limit) == 0 ? descriptors_for(whom, limit.rlim_cur) : INT32_MAX;
  thread_ = std::thread([this] { run(); });
}

void ConnectionDoor::run() {
  std::vector<pollfd> watched = {{.fd = wake_, .events = POLLIN, .revents = 0}};
  for (const int listener : listeners_) watched.push_back({.fd = listener, .events = POLLIN, .revents = 0});
  const size_t first_hesitant = watched.size();
  while (watched[0].revents == 0) {
    watched.resize(first_hesitant);
    for (const Hesitant& one : hesitant_) watched.push_back({.fd = one.fd, .events = POLLIN, .revents = 0});
    poll(watched.data(), watched.size(), hesitant_.empty() ? -1 : kSortEveryMs);
    sort_hesitant();
    for (size_t i = 1; i < first_hesitant; ++i) {
      if (watched[i].revents == 0 || take_one(watched[i].fd)) continue;
      // Level-triggered: whoever waits shows again.
      if (errno != EAGAIN) poll(watched.data(), 1, kPauseMs);
    }
  }
}

bool ConnectionDoor::take_one(int listener) {
  sockaddr_storage from{};
  socklen_t size = sizeof from;
  const int fd = accept4(listener, reinterpret_cast<sockaddr*>(&from), &size, SOCK_NONBLOCK | SOCK_CLOEXEC);
  if (fd < 0) return errno == EINTR || errno == ECONNABORTED;
  if (fd >= descriptors_max_ || !arrivals_.admit(network_of(from), clock_.now_ns())) {
    close(fd);
    return true;
  }
  if (without_tls_ == nullptr) {
    hand_over(*inside_, listener, fd);
    return true;
  }
  if (hesitant_.size() >= kHesitantMax) {
    close(hesitant_.front().fd);
    hesitant_.pop_front();
  }
  hesitant_.push_back({listener, fd, clock_.now_ns() + kFirstByteMs * kMillisecond});
  return true;
}

void ConnectionDoor::hand_over(grpc::experimental::ExternalConnectionAcceptor& to, int listener, int fd) {
  grpc::experimental::ExternalConnectionAcceptor::NewConnectionParameters connection;
  connection.listener_fd = listener;
  connection.fd = fd;
  to.HandleNewConnection(&connection);
}

void ConnectionDoor::sort_hesitant() {
  const TimeNs now = clock_.now_ns();
  std::erase_if(hesitant_, [&](const Hesitant& one) {
    char first = 0;
    const ssize_t bytes = recv(one.fd, &first, 1, MSG_PEEK | MSG_DONTWAIT);
    const bool waits = bytes < 0 && (errno == EAGAIN || errno == EINTR);
    if (waits && now < one.until_ns) return false;
    if (bytes == 1) {
      hand_over(first == kTlsHandshake ? *inside_ : *without_tls_, one.listener, one.fd);
    } else {
      close(one.fd);
    }
    return true;
  });
}

}  // namespace skua::control
