#include "rpc/tools/perf_exchange.h"

#include <arpa/inet.h>
#include <fcntl.h>
#include <netdb.h>
#include <poll.h>
#include <sys/socket.h>
#include <unistd.h>

#include <array>
#include <cerrno>
#include <memory>
#include <system_error>
#include <utility>
#include <vector>

#include "absl/strings/str_cat.h"
#include "rpc/base/bytes.h"
#include "rpc/base/printable.h"

namespace skua::rpc::perf {
namespace {

constexpr std::string_view kMagic = "SKUAPERF3\n";
constexpr size_t kMagicNameBytes = 8;
constexpr int kReplyTimeoutMs = 5000;
constexpr size_t kReasonBytesMax = 1000;

std::string errno_text() {
  return std::generic_category().message(errno);
}

absl::Status send_all(const Socket& socket, ByteSpan bytes) {
  while (!bytes.empty()) {
    const ssize_t sent = send(socket.fd(), bytes.data(), bytes.size(), MSG_NOSIGNAL);
    if (sent <= 0) return absl::UnavailableError(absl::StrCat(socket.whom(), " closed the connection: ", errno_text()));
    bytes = bytes.subspan(static_cast<size_t>(sent));
  }
  return absl::OkStatus();
}

absl::Status receive_all(const Socket& socket, MutableByteSpan bytes) {
  while (!bytes.empty()) {
    pollfd waiting{socket.fd(), POLLIN, 0};
    if (poll(&waiting, 1, kReplyTimeoutMs) <= 0) {
      return absl::DeadlineExceededError(
          absl::StrCat(socket.whom(), " says nothing for ", kReplyTimeoutMs / 1000, " s"));
    }
    const ssize_t got = recv(socket.fd(), bytes.data(), bytes.size(), 0);
    if (got <= 0) return absl::UnavailableError(absl::StrCat(socket.whom(), " closed the connection"));
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

std::string bind_remedy(int error) {
  switch (error) {
    case EADDRNOTAVAIL: return "; choose an address of this machine (ip addr shows them)";
    case EACCES: return "; choose a port above 1023";
    default: return "; choose another with --listen HOST:PORT";
  }
}

HostPort numeric(const sockaddr_storage& address) {
  char text[INET6_ADDRSTRLEN] = "";
  if (address.ss_family == AF_INET6) {
    const auto& v6 = reinterpret_cast<const sockaddr_in6&>(address);
    inet_ntop(AF_INET6, &v6.sin6_addr, text, sizeof text);
    return {text, ntohs(v6.sin6_port)};
  }
  const auto& v4 = reinterpret_cast<const sockaddr_in&>(address);
  inet_ntop(AF_INET, &v4.sin_addr, text, sizeof text);
  return {text, ntohs(v4.sin_port)};
}

/// What `begin`, the first bytes of an answer, tells about the program that sent it.
std::string what_answers(std::string_view begin) {
  if (begin.starts_with("SKUAPERF")) return "is a skua-perf server of another version";
  if (begin.starts_with("HTTP/") || begin.starts_with("<")) return "is a web server, not a skua-perf server";
  // HTTP/2 begins with a settings frame: three bytes of length, then the type.
  constexpr char kSettings = 4;
  if (begin[0] == 0 && begin[1] == 0 && begin[3] == kSettings) {
    return "is a gRPC server (a skuad, a skua-control, an etcd?), not a skua-perf server";
  }
  return "is something else than a skua-perf server";
}

absl::Status no_server(const Socket& socket, const std::string& what) {
  return absl::FailedPreconditionError(
      absl::StrCat(socket.whom(), " ", what, ": give the address of one (skua-perf server --listen HOST:PORT)"));
}

/// Waits for connect(), as long as for an answer. An error has the errno's text.
absl::Status finish_connect(const Socket& socket) {
  pollfd waiting{socket.fd(), POLLOUT, 0};
  if (poll(&waiting, 1, kReplyTimeoutMs) <= 0) return absl::UnavailableError("no answer");
  int error = 0;
  socklen_t length = sizeof error;
  getsockopt(socket.fd(), SOL_SOCKET, SO_ERROR, &error, &length);
  if (error != 0) return absl::UnavailableError(std::generic_category().message(error));
  const int flags = fcntl(socket.fd(), F_GETFL);
  fcntl(socket.fd(), F_SETFL, flags & ~O_NONBLOCK);
  return absl::OkStatus();
}

}  // namespace

Socket& Socket::operator=(Socket&& other) noexcept {
  std::swap(fd_, other.fd_);
  std::swap(whom_, other.whom_);
  return *this;
}

Socket::~Socket() {
  if (fd_ >= 0) ::close(fd_);
}

Socket::Peer Socket::peer() const {
  char byte;
  const ssize_t got = recv(fd_, &byte, 1, MSG_DONTWAIT | MSG_PEEK);
  if (got > 0) return Peer::kSpeaks;
  const bool waits = got < 0 && (errno == EAGAIN || errno == EWOULDBLOCK || errno == EINTR);
  return waits ? Peer::kSilent : Peer::kGone;
}

std::string HostPort::to_string() const {
  const bool v6 = host.find(':') != std::string::npos;
  return absl::StrCat(v6 ? "[" : "", host, v6 ? "]:" : ":", port);
}

absl::StatusOr<Socket> listen_on(const HostPort& address) {
  absl::StatusOr<AddressList> list = look_up(address, AI_PASSIVE);
  if (!list.ok()) return list.status();
  Socket socket(::socket((*list)->ai_family, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0));
  const int on = 1;
  setsockopt(socket.fd(), SOL_SOCKET, SO_REUSEADDR, &on, sizeof on);
  if (bind(socket.fd(), (*list)->ai_addr, (*list)->ai_addrlen) != 0 || listen(socket.fd(), 4) != 0) {
    const int error = errno;
    const std::string text =
        absl::StrCat("cannot listen on ", address.to_string(), ": ", errno_text(), bind_remedy(error));
    return error == EADDRINUSE ? absl::AlreadyExistsError(text) : absl::InvalidArgumentError(text);
  }
  return socket;
}

HostPort bound_address(const Socket& socket) {
  sockaddr_storage address{};
  socklen_t length = sizeof address;
  getsockname(socket.fd(), reinterpret_cast<sockaddr*>(&address), &length);
  return numeric(address);
}

absl::StatusOr<Socket> accept_from(const Socket& listener, int timeout_ms) {
  pollfd waiting{listener.fd(), POLLIN, 0};
  if (poll(&waiting, 1, timeout_ms) <= 0) return absl::DeadlineExceededError("no client came");
  sockaddr_storage address{};
  socklen_t length = sizeof address;
  Socket socket(accept4(listener.fd(), reinterpret_cast<sockaddr*>(&address), &length, SOCK_CLOEXEC));
  if (socket.fd() < 0) return absl::UnavailableError(absl::StrCat("accept failed: ", errno_text()));
  socket.set_whom(numeric(address).to_string());
  return socket;
}

absl::StatusOr<Socket> connect_to(const HostPort& address) {
  absl::StatusOr<AddressList> list = look_up(address, 0);
  if (!list.ok()) return list.status();
  const std::string whom = address.to_string();
  absl::Status status;
  // A name may have several addresses, and a server may listen on only one of them: localhost is often ::1 and
  // 127.0.0.1.
  for (const addrinfo* to = list->get(); to != nullptr; to = to->ai_next) {
    Socket socket(::socket(to->ai_family, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0));
    socket.set_whom(whom);
    const bool refused = connect(socket.fd(), to->ai_addr, to->ai_addrlen) != 0 && errno != EINPROGRESS;
    status = refused ? absl::UnavailableError(errno_text()) : finish_connect(socket);
    if (status.ok()) return socket;
  }
  return absl::UnavailableError(absl::StrCat("no skua-perf server at ", whom, ": ", std::string(status.message()),
                                             "; start one with: skua-perf server --listen ", whom));
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
  std::array<std::byte, kMagic.size()> magic;
  if (absl::Status status = receive_all(socket, magic); !status.ok()) return status;
  if (as_string_view(magic) != kMagic) {
    const bool other = as_string_view(magic).starts_with(kMagic.substr(0, kMagicNameBytes));
    return absl::InvalidArgumentError(
        absl::StrCat(socket.whom(), other ? " is a skua-perf of another version" : " is no skua-perf"));
  }
  std::array<std::byte, 9> buffer;
  if (absl::Status status = receive_all(socket, buffer); !status.ok()) return status;
  ByteReader reader(buffer);
  TestPlan plan;
  plan.response_bytes_max = reader.read<uint32_t>();
  plan.busy = reader.read<uint8_t>() != 0;
  plan.memory_bytes = reader.read<uint32_t>();
  return plan;
}

absl::Status send_reply(const Socket& socket, const absl::StatusOr<Descriptor>& reply) {
  const std::string body =
      reply.ok() ? reply->encode() : std::string(reply.status().message()).substr(0, kReasonBytesMax);
  std::vector<std::byte> buffer(kMagic.size() + 3 + body.size());
  ByteWriter writer(buffer);
  writer.write_bytes(as_byte_span(kMagic));
  writer.write(static_cast<uint8_t>(reply.ok() ? 0 : 1));
  writer.write(static_cast<uint16_t>(body.size()));
  writer.write_bytes(as_byte_span(body));
  return send_all(socket, writer.written());
}

absl::StatusOr<Descriptor> receive_reply(const Socket& socket) {
  std::array<std::byte, kMagic.size()> magic;
  if (const absl::Status status = receive_all(socket, magic); absl::IsDeadlineExceeded(status)) {
    return no_server(socket, "does not answer as a skua-perf server does");
  } else if (!status.ok()) {
    return no_server(socket, "closed the connection: it is no skua-perf server, or one of another version");
  }
  if (as_string_view(magic) != kMagic) return no_server(socket, what_answers(as_string_view(magic)));
  std::array<std::byte, 3> head;
  if (absl::Status status = receive_all(socket, head); !status.ok()) return status;
  std::string body(load_le<uint16_t>(head.data() + 1), '\0');
  const MutableByteSpan bytes(reinterpret_cast<std::byte*>(body.data()), body.size());
  if (absl::Status status = receive_all(socket, bytes); !status.ok()) return status;
  if (head[0] == std::byte{0}) return Descriptor::decode(bytes);
  return absl::FailedPreconditionError(
      absl::StrCat("the server at ", socket.whom(), " refuses: ", printable(body, kReasonBytesMax)));
}

absl::Status send_block(const Socket& socket, std::string_view block) {
  std::array<std::byte, 2> length;
  store_le(length.data(), static_cast<uint16_t>(block.size()));
  if (absl::Status status = send_all(socket, length); !status.ok()) return status;
  return send_all(socket, as_byte_span(block));
}

absl::StatusOr<std::string> receive_block(const Socket& socket) {
  std::array<std::byte, 2> length;
  if (absl::Status status = receive_all(socket, length); !status.ok()) return status;
  std::string block(load_le<uint16_t>(length.data()), '\0');
  const MutableByteSpan bytes(reinterpret_cast<std::byte*>(block.data()), block.size());
  if (absl::Status status = receive_all(socket, bytes); !status.ok()) return status;
  return block;
}

absl::Status send_descriptor(const Socket& socket, const Descriptor& descriptor) {
  return send_block(socket, descriptor.encode());
}

absl::StatusOr<Descriptor> receive_descriptor(const Socket& socket) {
  absl::StatusOr<std::string> encoded = receive_block(socket);
  if (!encoded.ok()) return encoded.status();
  return Descriptor::decode(as_byte_span(*encoded));
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
