// The system calls that make sockets. All other code works on file descriptors made here.
#ifndef SKUA_RPC_TRANSPORT_TCP_SOCKET_H_
#define SKUA_RPC_TRANSPORT_TCP_SOCKET_H_

#include <string>
#include <utility>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "rpc/base/clock.h"
#include "rpc/transport/tcp/address.h"

namespace skua::rpc::tcp {

/// Owns a file descriptor. Move-only.
class UniqueFd {
 public:
  UniqueFd() = default;
  explicit UniqueFd(int fd) : fd_(fd) {}
  UniqueFd(UniqueFd&& other) noexcept : fd_(std::exchange(other.fd_, -1)) {}
  UniqueFd& operator=(UniqueFd&& other) noexcept {
    std::swap(fd_, other.fd_);
    return *this;
  }
  ~UniqueFd() { reset(); }

  [[nodiscard]] int get() const { return fd_; }
  [[nodiscard]] bool is_open() const { return fd_ >= 0; }
  void reset();

 private:
  int fd_ = -1;
};

/// For example "Connection refused" for ECONNREFUSED. Thread: any.
[[nodiscard]] std::string errno_text(int error);

/// A nonblocking listening socket. `bound` is set to its address, with the port that the kernel chose if `at` has port
/// 0. ALREADY_EXISTS: the port is in use. PERMISSION_DENIED. UNAVAILABLE: not an address of this machine, or out of
/// descriptors.
absl::StatusOr<UniqueFd> listen_on(const SocketAddress& at, SocketAddress& bound);

/// A nonblocking socket whose connection is being made (or already stands). UNAVAILABLE names the address and the
/// error.
absl::StatusOr<UniqueFd> start_connect(const SocketAddress& to);

/// Turns off the delay of small packets. Makes the connection break if the peer does not acknowledge for
/// `peer_timeout_ns`.
void tune_connection(int fd, DurationNs peer_timeout_ns);

/// The error that a nonblocking connect ended with; 0: none.
[[nodiscard]] int take_socket_error(int fd);

/// Bytes that were written to the connection, and that the other machine has not acknowledged. 0 if the system does not
/// say.
[[nodiscard]] uint64_t unacknowledged_bytes(int fd);

/// An address of this machine that others can reach, for the descriptor of an endpoint that listens on all addresses:
/// the source address of the default route, else loopback.
[[nodiscard]] SocketAddress reachable_address(uint8_t family, uint16_t port);

}  // namespace skua::rpc::tcp

#endif  // SKUA_RPC_TRANSPORT_TCP_SOCKET_H_
