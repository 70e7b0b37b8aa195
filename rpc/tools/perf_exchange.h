// How the two ends of skua-perf find each other: a plain TCP connection, as perftest does it.
//
//   client                                   server
//     | ---- "SKUAPERF2" + TestPlan ---------> |   makes an endpoint for this test
//     | <--- u16 length + descriptor --------- |
//     |            (the test runs over the transport)
//     | ---- close --------------------------> |   drops the endpoint, waits for the next client
#ifndef SKUA_RPC_TOOLS_PERF_EXCHANGE_H_
#define SKUA_RPC_TOOLS_PERF_EXCHANGE_H_

#include <cstdint>
#include <string>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "rpc/transport/descriptor.h"

namespace skua::rpc::perf {

/// What the server must know of a test.
struct TestPlan {
  uint32_t response_bytes_max = 0;
  bool busy = true;
  /// Above 0: no calls, but operations on so much of the server's memory (perf_memory.h).
  uint32_t memory_bytes = 0;
};

/// Memory of the server, as its transport names it.
struct PerfMemory {
  uint64_t address = 0;
  uint32_t key = 0;
};

/// A connected or listening socket; closed when destroyed.
class Socket {
 public:
  explicit Socket(int fd = -1) : fd_(fd) {}
  Socket(Socket&& other) noexcept : fd_(other.fd_) { other.fd_ = -1; }
  Socket& operator=(Socket&& other) noexcept;
  ~Socket();
  [[nodiscard]] int fd() const { return fd_; }
  /// The other side closed, or sent what it should not. Never blocks.
  [[nodiscard]] bool closed_by_peer() const;

 private:
  int fd_;
};

/// "127.0.0.1:18520" or "[::1]:18520". INVALID_ARGUMENT says what is expected.
struct HostPort {
  std::string host;
  uint16_t port = 0;
  static absl::StatusOr<HostPort> parse(const std::string& text);
};

/// ALREADY_EXISTS: the port is in use.
absl::StatusOr<Socket> listen_on(const HostPort& address);
/// The port that was bound.
uint16_t bound_port(const Socket& socket);
/// Waits for a client at most `timeout_ms`; DEADLINE_EXCEEDED if none came, UNAVAILABLE if another thread took it.
absl::StatusOr<Socket> accept_from(const Socket& listener, int timeout_ms);
/// UNAVAILABLE: nobody listens there.
absl::StatusOr<Socket> connect_to(const HostPort& address);

absl::Status send_plan(const Socket& socket, const TestPlan& plan);
absl::StatusOr<TestPlan> receive_plan(const Socket& socket);
absl::Status send_descriptor(const Socket& socket, const Descriptor& descriptor);
absl::StatusOr<Descriptor> receive_descriptor(const Socket& socket);
absl::Status send_memory(const Socket& socket, const PerfMemory& memory);
absl::StatusOr<PerfMemory> receive_memory(const Socket& socket);

}  // namespace skua::rpc::perf

#endif  // SKUA_RPC_TOOLS_PERF_EXCHANGE_H_
