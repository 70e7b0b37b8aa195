#include "control/security/first_words.h"

#include <poll.h>
#include <sys/socket.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <chrono>
#include <cstdint>

namespace skua::control {
namespace {

using Clock = std::chrono::steady_clock;

class Socket {
 public:
  Socket(int family, int protocol) : fd_(socket(family, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, protocol)) {}
  ~Socket() {
    if (fd_ >= 0) close(fd_);
  }
  Socket(const Socket&) = delete;
  Socket& operator=(const Socket&) = delete;

  [[nodiscard]] int fd() const { return fd_; }

  /// Whether it is ready for `events` by then.
  [[nodiscard]] bool wait(int16_t events, Clock::time_point deadline) const {
    const auto left = std::chrono::duration_cast<std::chrono::milliseconds>(deadline - Clock::now()).count();
    pollfd entry{fd_, events, 0};
    return poll(&entry, 1, static_cast<int>(std::max<int64_t>(left, 0))) > 0;
  }

 private:
  const int fd_;
};

}  // namespace

Addresses look_up(const std::string& address) {
  const size_t colon = address.rfind(':');
  if (colon == std::string::npos) return nullptr;
  std::string host = address.substr(0, colon);
  if (host.size() >= 2 && host.front() == '[' && host.back() == ']') host = host.substr(1, host.size() - 2);
  addrinfo hints = {};
  hints.ai_socktype = SOCK_STREAM;
  addrinfo* found = nullptr;
  if (getaddrinfo(host.c_str(), address.substr(colon + 1).c_str(), &hints, &found) != 0) return nullptr;
  return Addresses(found);
}

Words talk(const addrinfo& to, std::string_view greeting, DurationNs timeout_ns) {
  const auto deadline = Clock::now() + std::chrono::nanoseconds(timeout_ns);
  Words words;
  const Socket socket(to.ai_family, to.ai_protocol);
  if (socket.fd() < 0) return words;
  (void)connect(socket.fd(), to.ai_addr, to.ai_addrlen);
  int error = 0;
  socklen_t size = sizeof error;
  if (!socket.wait(POLLOUT, deadline) || getsockopt(socket.fd(), SOL_SOCKET, SO_ERROR, &error, &size) != 0 ||
      error != 0) {
    return words;
  }
  words.connected = true;
  if (send(socket.fd(), greeting.data(), greeting.size(), MSG_NOSIGNAL) < 0) words.ended = true;
  constexpr size_t kEnough = 9;  // a frame's head of HTTP/2
  std::array<char, 512> buffer;
  while (!words.ended && words.text.size() < kEnough && socket.wait(POLLIN, deadline)) {
    const ssize_t got = recv(socket.fd(), buffer.data(), buffer.size(), 0);
    if (got <= 0) {
      words.ended = true;
    } else {
      words.text.append(buffer.data(), static_cast<size_t>(got));
    }
  }
  return words;
}

std::string tls_hello() {
  using namespace std::string_view_literals;
  std::string hello = "\3\3" + std::string(32, 'S') + std::string("\0\0\2\x13\1\1\0"sv);  // suite: AES-128-GCM
  const std::string extensions(
      "\0\x2b\0\3\2\3\4"            // versions: 1.3
      "\0\x0a\0\6\0\4\0\x17\0\x1d"  // groups: P-256, X25519
      "\0\x0d\0\6\0\4\4\3\x08\x04"  // signatures: ECDSA, RSA
      "\0\x33\0\2\0\0"sv);          // no key
  const auto size = [](size_t bytes) {
    return std::string({static_cast<char>(bytes >> 8), static_cast<char>(bytes & 0xff)});
  };
  hello += size(extensions.size()) + extensions;
  const std::string message = std::string("\1\0", 2) + size(hello.size()) + hello;
  return std::string("\x16\3\1") + size(message.size()) + message;
}

bool is_http2(std::string_view text) {
  return text.size() >= 9 && text[3] == 4 && text.substr(5, 4) == std::string_view("\0\0\0\0", 4);
}

bool speaks_no_tls(const std::string& address, DurationNs timeout_ns) {
  const auto deadline = Clock::now() + std::chrono::nanoseconds(timeout_ns);
  const Addresses found = look_up(address);
  int64_t untried = 0;
  for (const addrinfo* to = found.get(); to != nullptr; to = to->ai_next) ++untried;
  // One that takes no connection leaves the others their time.
  for (const addrinfo* to = found.get(); to != nullptr; to = to->ai_next) {
    const DurationNs left_ns = std::chrono::nanoseconds(deadline - Clock::now()).count();
    if (left_ns <= 0) return false;
    const Words words = talk(*to, tls_hello(), left_ns / untried--);
    if (words.connected) return is_http2(words.text);
  }
  return false;
}

}  // namespace skua::control
