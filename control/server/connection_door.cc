#include "control/server/connection_door.h"

#include <netdb.h>
#include <netinet/in.h>
#include <netinet/tcp.h>
#include <poll.h>
#include <sys/epoll.h>
#include <sys/eventfd.h>
#include <sys/resource.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <cerrno>
#include <cstring>
#include <utility>

#include "absl/strings/str_cat.h"

namespace skua::control {
namespace {

constexpr int kBacklog = 4096;
/// When no descriptor can be had: connections wait in the backlog meanwhile.
constexpr int kPauseMs = 100;
/// Connections that are taken in a row, before those that were taken are heard.
constexpr int kAcceptsInARow = 64;
constexpr size_t kEventsMax = 64;
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

/// The kernel numbers sockets. It does not give a number again until it has given four billion others.
uint64_t socket_of(int fd) {
  struct stat info {};
  return fstat(fd, &info) == 0 && S_ISSOCK(info.st_mode) ? static_cast<uint64_t>(info.st_ino) : 0;
}

bool watch(int epoll, int fd) {
  epoll_event event{.events = EPOLLIN | EPOLLRDHUP, .data = {.fd = fd}};
  return epoll_ctl(epoll, EPOLL_CTL_ADD, fd, &event) == 0;
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
  door->epoll_ = epoll_create1(EPOLL_CLOEXEC);
  bool works = door->wake_ >= 0 && door->epoll_ >= 0 && watch(door->epoll_, door->wake_);
  for (const int listener : door->listeners_) works = works && watch(door->epoll_, listener);
  if (works) return door;
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
  while (silent_.has_value() && silent_->size() > 0) close(silent_->take_late(kTimeNever)->fd);
  for (const int fd : {wake_, epoll_}) {
    if (fd >= 0) close(fd);
  }
}

void ConnectionDoor::open(std::unique_ptr<grpc::experimental::ExternalConnectionAcceptor> inside,
                          std::unique_ptr<grpc::experimental::ExternalConnectionAcceptor> without_tls, DoorFor whom,
                          DoorLog log) {
  inside_ = std::move(inside);
  without_tls_ = std::move(without_tls);
  log_ = std::move(log);
  rlimit limit{};
  descriptors_max_ = getrlimit(RLIMIT_NOFILE, &limit) == 0 ? descriptors_for(whom, limit.rlim_cur) : INT32_MAX;
  shares_.emplace(descriptors_max_, socket_of);
  silent_.emplace(descriptors_max_);
  thread_ = std::thread([this] { run(); });
}

void ConnectionDoor::run() {
  std::array<epoll_event, kEventsMax> events;
  while (true) {
    const int count = epoll_wait(epoll_, events.data(), kEventsMax, sleep_ms());
    for (int i = 0; i < count; ++i) {
      const int fd = events[static_cast<size_t>(i)].data.fd;
      if (fd == wake_) return;
      if (std::find(listeners_.begin(), listeners_.end(), fd) == listeners_.end()) {
        hear(fd);
      } else if (!take_some(fd)) {
        // Level-triggered: whoever waits shows again.
        pollfd wake{.fd = wake_, .events = POLLIN, .revents = 0};
        poll(&wake, 1, kPauseMs);
      }
    }
    const TimeNs now = clock_.now_ns();
    while (const std::optional<SilentConnection> late = silent_->take_late(now)) {
      send_away(late->fd, late->from, "they said nothing");
    }
    tell(sent_away_.take(now));
  }
}

int ConnectionDoor::sleep_ms() const {
  const TimeNs next = std::min(silent_->next_ns(), log_ ? sent_away_.due_ns() : kTimeNever);
  if (next == kTimeNever) return -1;
  const DurationNs left = std::max<DurationNs>(next - clock_.now_ns(), 0);
  return static_cast<int>((left + kMillisecond - 1) / kMillisecond);
}

bool ConnectionDoor::take_some(int listener) {
  for (int i = 0; i < kAcceptsInARow; ++i) {
    sockaddr_storage from{};
    socklen_t size = sizeof from;
    const int fd = accept4(listener, reinterpret_cast<sockaddr*>(&from), &size, SOCK_NONBLOCK | SOCK_CLOEXEC);
    if (fd >= 0) {
      receive(fd, listener, network_of(from));
    } else if (errno != EINTR && errno != ECONNABORTED) {
      return errno == EAGAIN;
    }
  }
  return true;
}

void ConnectionDoor::receive(int fd, int listener, const Network& from) {
  const TimeNs now = clock_.now_ns();
  if (const char* why = why_not(fd, from, now); why != nullptr) return send_away(fd, from, why);
  // A client's first bytes are often here by now.
  char first = 0;
  if (recv(fd, &first, 1, MSG_PEEK | MSG_DONTWAIT) == 1) return hand_over(first, listener, fd);
  if (!watch(epoll_, fd)) return send_away(fd, from, "no memory is left");
  if (const auto gone = silent_->add(fd, listener, from, now)) {
    send_away(gone->fd, gone->from, "too many have said nothing yet");
  }
}

const char* ConnectionDoor::why_not(int fd, const Network& from, TimeNs now) {
  if (fd >= descriptors_max_) return "too many of the files that this process may open are in use (ulimit -n)";
  if (!arrivals_.admit(from, now)) return "their address begins too many";
  if (!shares_->admit(fd, from, now)) return "their address has as many as one may have";
  return nullptr;
}

void ConnectionDoor::hear(int fd) {
  // It may have gone to make room, while an event of it was there already.
  if (!silent_->contains(fd)) return;
  char first = 0;
  const ssize_t bytes = recv(fd, &first, 1, MSG_PEEK | MSG_DONTWAIT);
  if (bytes < 0 && (errno == EAGAIN || errno == EINTR)) return;
  const std::optional<SilentConnection> heard = silent_->take(fd);
  if (bytes != 1) {
    close(fd);
    return;
  }
  epoll_ctl(epoll_, EPOLL_CTL_DEL, fd, nullptr);
  hand_over(first, heard->listener, fd);
}

void ConnectionDoor::hand_over(char first, int listener, int fd) {
  grpc::experimental::ExternalConnectionAcceptor::NewConnectionParameters connection;
  connection.listener_fd = listener;
  connection.fd = fd;
  const bool is_tls = without_tls_ == nullptr || first == kTlsHandshake;
  (is_tls ? inside_ : without_tls_)->HandleNewConnection(&connection);
}

void ConnectionDoor::send_away(int fd, const Network& from, const char* why) {
  close(fd);
  sent_away_from_ = from;
  sent_away_why_ = why;
  tell(sent_away_.note(clock_.now_ns()));
}

void ConnectionDoor::tell(std::optional<uint64_t> count) {
  if (!count.has_value() || !log_) return;
  log_(absl::StrCat("connections were sent away count=", *count, " latest_from=", network_text(sent_away_from_),
                    " port=", port_, ": ", sent_away_why_));
}

}  // namespace skua::control
