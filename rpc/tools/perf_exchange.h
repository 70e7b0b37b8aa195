// The exchange between the two ends of skua-perf: they find each other over a plain TCP connection, as perftest does.
//
//   client                                   server
//     | ---- "SKUAPERF3\n" + TestPlan --------> |   makes an endpoint for this test
//     | <--- "SKUAPERF3\n" + u8 refused? ------ |
//     |      + u16 length + descriptor or why  |
//     | ---- u16 length + session offer ------> |   only with --packets: for each session, an offer and its answer
//     | <--- u16 length + answer -------------- |
//     |            (the test runs over the transport)
//     | ---- close --------------------------> |   drops the endpoint, waits for the next client
//
// The line break makes a web server answer at once, so the client can tell a web server from a slow server.
#ifndef SKUA_RPC_TOOLS_PERF_EXCHANGE_H_
#define SKUA_RPC_TOOLS_PERF_EXCHANGE_H_

#include <cstdint>
#include <string>
#include <string_view>
#include <utility>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "rpc/transport/descriptor.h"

namespace skua::rpc::perf {

/// What the server must know about a test.
struct TestPlan {
  uint32_t response_bytes_max = 0;
  bool busy = true;
  /// Above 0: the test makes no calls, but operations on this many bytes of the server's memory (perf_memory.h).
  uint32_t memory_bytes = 0;
};

/// Memory of the server, as the server's transport names it.
struct PerfMemory {
  uint64_t address = 0;
  uint32_t key = 0;
};

/// A connected or listening socket; the destructor closes it.
class Socket {
 public:
  explicit Socket(int fd = -1) : fd_(fd) {}
  Socket(Socket&& other) noexcept : fd_(other.fd_), whom_(std::move(other.whom_)) { other.fd_ = -1; }
  Socket& operator=(Socket&& other) noexcept;
  ~Socket();
  [[nodiscard]] int fd() const { return fd_; }
  /// The other side as HOST:PORT, for messages.
  [[nodiscard]] const std::string& whom() const { return whom_; }
  void set_whom(std::string whom) { whom_ = std::move(whom); }
  enum class Peer : uint8_t { kSilent, kSpeaks, kGone };
  /// What the other side does. Never blocks.
  [[nodiscard]] Peer peer() const;

 private:
  int fd_;
  std::string whom_;
};

/// A host name or an IP address (without brackets), and a port.
struct HostPort {
  std::string host;
  uint16_t port = 0;

  /// 127.0.0.1:18520, [::1]:18520.
  [[nodiscard]] std::string to_string() const;
};

/// ALREADY_EXISTS: the port is in use. INVALID_ARGUMENT: not an address of this machine.
absl::StatusOr<Socket> listen_on(const HostPort& address);
/// The address that the listening socket is bound to: IP and port.
HostPort bound_address(const Socket& socket);
/// Waits up to `timeout_ms` for a client. DEADLINE_EXCEEDED: no client came. UNAVAILABLE: another thread took the
/// client.
absl::StatusOr<Socket> accept_from(const Socket& listener, int timeout_ms);
/// UNAVAILABLE: nobody listens there, or nobody answers.
absl::StatusOr<Socket> connect_to(const HostPort& address);

absl::Status send_plan(const Socket& socket, const TestPlan& plan);
/// INVALID_ARGUMENT: the client is not a skua-perf of this version.
absl::StatusOr<TestPlan> receive_plan(const Socket& socket);
/// Answers a plan: the descriptor of the server's endpoint, or the reason why there is none.
absl::Status send_reply(const Socket& socket, const absl::StatusOr<Descriptor>& reply);
/// FAILED_PRECONDITION: the server refused, or the program that listens there is not a skua-perf server; the message
/// then says what the program may be.
absl::StatusOr<Descriptor> receive_reply(const Socket& socket);
/// At most 64 KiB.
absl::Status send_block(const Socket& socket, std::string_view block);
absl::StatusOr<std::string> receive_block(const Socket& socket);
absl::Status send_descriptor(const Socket& socket, const Descriptor& descriptor);
absl::StatusOr<Descriptor> receive_descriptor(const Socket& socket);
absl::Status send_memory(const Socket& socket, const PerfMemory& memory);
absl::StatusOr<PerfMemory> receive_memory(const Socket& socket);

}  // namespace skua::rpc::perf

#endif  // SKUA_RPC_TOOLS_PERF_EXCHANGE_H_
