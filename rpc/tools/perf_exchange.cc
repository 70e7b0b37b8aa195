#include "rpc/tools/perf_exchange.h"

#include <arpa/inet.h>
#include <netdb.h>
#include <poll.h>
#include <sys/socket.h>
#include <unistd.h>

#include <array>
#include <cerrno>
#include <memory>
#include <system_error>
#include <utility>

#include "absl/strings/numbers.h"
#include "absl/strings/str_cat.h"
#include "rpc/base/bytes.h"

namespace skua::rpc::perf {
namespace {

constexpr std::string_view kMagic = "SKUAPERF2";
constexpr int kReplyTimeoutMs = 5000;

std::string errno_text() {
  return std::generic_category().message(errno);
}

absl::Status send_all(const Socket& socket, ByteSpan bytes) {
  while (!bytes.empty()) {
    const ssize_t sent = send(socket.fd(), bytes.data(), bytes.size(), MSG_NOSIGNAL);
    if (sent <= 0) return absl::UnavailableError(absl::StrCat("the other end went away: ", errno_text()));
    bytes = bytes.subspan(static_cast<size_t>(sent));
  }
  return absl::OkStatus();
}

absl::Status receive_all(const Socket& socket, MutableByteSpan bytes) {
  while (!bytes.empty()) {
    pollfd waiting{socket.fd(), POLLIN, 0};
    if (poll(&waiting, 1, kReplyTimeoutMs) <= 0) return absl::DeadlineExceededError("the other end does not answer");
    const ssize_t got = recv(socket.fd(), bytes.data(), bytes.size(), 0);
    if (got <= 0) return absl::UnavailableError("the other end closed the connection");
    bytes = bytes.subspan(static_cast<size_t>(got));
  }
  return absl::OkStatus();
}

using AddressList = std::unique_ptr<addrinfo, decltype(&freeaddrinfo)>;

absl::StatusOr<AddressList> look_up(const HostPort& address, int flags) {
  addrinfo hints{};
  hints.ai_socktype = SOCK_STREAM;
  hints.ai_flags = flags | AI_NUMERICSERV;
  addrinfo* found = nullptr;
  const int error = getaddrinfo(address.host.c_str(), absl::StrCat(address.port).c_str(), &hints, &found);
  if (error != 0) {
    return absl::InvalidArgumentError(absl::StrCat("cannot resolve ", address.host, ": ", gai_strerror(error)));
  }
  return AddressList(found, freeaddrinfo);
}

}  // namespace

Socket& Socket::operator=(Socket&& other) noexcept {
  std::swap(fd_, other.fd_);
  return *this;
}

Socket::~Socket() {
  if (fd_ >= 0) ::close(fd_);
}

bool Socket::closed_by_peer() const {
  char byte;
  const ssize_t got = recv(fd_, &byte, 1, MSG_DONTWAIT | MSG_PEEK);
  return got == 0 || (got < 0 && errno != EAGAIN && errno != EWOULDBLOCK && errno != EINTR);
}

absl::StatusOr<HostPort> HostPort::parse(const std::string& text) {
  const size_t colon = text.rfind(':');
  HostPort out;
  uint32_t port = 0;
  if (colon == std::string::npos || colon == 0 || !absl::SimpleAtoi(text.substr(colon + 1), &port) || port > 65535) {
    return absl::InvalidArgumentError(absl::StrCat("\"", text, "\" is not HOST:PORT, for example 127.0.0.1:18520"));
  }
  out.host = text.substr(0, colon);
  if (out.host.front() == '[' && out.host.back() == ']') out.host = out.host.substr(1, out.host.size() - 2);
  out.port = static_cast<uint16_t>(port);
  return out;
}

absl::StatusOr<Socket> listen_on(const HostPort& address) {
  absl::StatusOr<AddressList> list = look_up(address, AI_PASSIVE);
  if (!list.ok()) return list.status();
  Socket socket(::socket((*list)->ai_family, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0));
  const int on = 1;
  setsockopt(socket.fd(), SOL_SOCKET, SO_REUSEADDR, &on, sizeof on);
  if (bind(socket.fd(), (*list)->ai_addr, (*list)->ai_addrlen) != 0 || listen(socket.fd(), 4) != 0) {
    const std::string text = absl::StrCat("cannot listen on ", address.host, ":", address.port, ": ", errno_text(),
                                          "; choose another with --listen HOST:PORT");
    return errno == EADDRINUSE ? absl::AlreadyExistsError(text) : absl::UnavailableError(text);
  }
  return socket;
}

uint16_t bound_port(const Socket& socket) {
  sockaddr_storage address{};
  socklen_t length = sizeof address;
  getsockname(socket.fd(), reinterpret_cast<sockaddr*>(&address), &length);
  return ntohs(address.ss_family == AF_INET6 ? reinterpret_cast<sockaddr_in6*>(&address)->sin6_port
                                             : reinterpret_cast<sockaddr_in*>(&address)->sin_port);
}

absl::StatusOr<Socket> accept_from(const Socket& listener, int timeout_ms) {
  pollfd waiting{listener.fd(), POLLIN, 0};
  if (poll(&waiting, 1, timeout_ms) <= 0) return absl::DeadlineExceededError("no client came");
  Socket socket(accept4(listener.fd(), nullptr, nullptr, SOCK_CLOEXEC));
  if (socket.fd() < 0) return absl::UnavailableError(absl::StrCat("accept failed: ", errno_text()));
  return socket;
}

absl::StatusOr<Socket> connect_to(const HostPort& address) {
  absl::StatusOr<AddressList> list = look_up(address, 0);
  if (!list.ok()) return list.status();
  Socket socket(::socket((*list)->ai_family, SOCK_STREAM | SOCK_CLOEXEC, 0));
  if (connect(socket.fd(), (*list)->ai_addr, (*list)->ai_addrlen) != 0) {
    return absl::UnavailableError(absl::StrCat("no skua-perf server at ", address.host, ":", address.port, ": ",
                                               errno_text(), "; start one with: skua-perf server --listen ",
                                               address.host, ":", address.port));
  }
  return socket;
}

absl::Status send_plan(const Socket& socket, const TestPlan& plan) {
  std::array<std::byte, kMagic.size() + 9> buffer;
  ByteWriter writer(buffer);
  writer.write_bytes(as_byte_span(kMagic));
  writer.write(plan.response_bytes_max);
  writer.write(static_cast<uint8_t>(plan.busy ? 1 : 0));
  writer.write(plan.memory_bytes);
  return send_all(socket, writer.written());
}

absl::StatusOr<TestPlan> receive_plan(const Socket& socket) {
  std::array<std::byte, kMagic.size() + 9> buffer;
  if (absl::Status status = receive_all(socket, buffer); !status.ok()) return status;
  ByteReader reader(buffer);
  if (as_string_view(reader.read_bytes(kMagic.size())) != kMagic) {
    return absl::InvalidArgumentError("the client is not a skua-perf of this version");
  }
  TestPlan plan;
  plan.response_bytes_max = reader.read<uint32_t>();
  plan.busy = reader.read<uint8_t>() != 0;
  plan.memory_bytes = reader.read<uint32_t>();
  return plan;
}

absl::Status send_descriptor(const Socket& socket, const Descriptor& descriptor) {
  const std::string encoded = descriptor.encode();
  std::array<std::byte, 2> length;
  store_le(length.data(), static_cast<uint16_t>(encoded.size()));
  if (absl::Status status = send_all(socket, length); !status.ok()) return status;
  return send_all(socket, as_byte_span(encoded));
}

absl::StatusOr<Descriptor> receive_descriptor(const Socket& socket) {
  std::array<std::byte, 2> length;
  if (absl::Status status = receive_all(socket, length); !status.ok()) return status;
  std::string encoded(load_le<uint16_t>(length.data()), '\0');
  MutableByteSpan bytes(reinterpret_cast<std::byte*>(encoded.data()), encoded.size());
  if (absl::Status status = receive_all(socket, bytes); !status.ok()) return status;
  return Descriptor::decode(bytes);
}

absl::Status send_memory(const Socket& socket, const PerfMemory& memory) {
  std::array<std::byte, 12> bytes;
  ByteWriter writer(bytes);
  writer.write(memory.address);
  writer.write(memory.key);
  return send_all(socket, writer.written());
}

absl::StatusOr<PerfMemory> receive_memory(const Socket& socket) {
  std::array<std::byte, 12> bytes;
  if (absl::Status status = receive_all(socket, bytes); !status.ok()) return status;
  ByteReader reader(bytes);
  PerfMemory memory;
  memory.address = reader.read<uint64_t>();
  memory.key = reader.read<uint32_t>();
  return memory;
}

}  // namespace skua::rpc::perf
