// The gateway's file descriptors: a listener that several threads have each, accepted connections, bytes in and out.
#ifndef SKUA_KVSTORE_GATEWAY_GATEWAY_SOCKETS_H_
#define SKUA_KVSTORE_GATEWAY_GATEWAY_SOCKETS_H_

#include <cstdint>
#include <span>
#include <string>
#include <string_view>

#include "absl/status/statusor.h"
#include "rpc/base/owned_fd.h"

namespace skua::kv::gateway {

/// Listens at an address. Several sockets of one process may have the same address (SO_REUSEPORT): the kernel shares
/// out the connections. FAILED_PRECONDITION: another program, or another user's, has it. UNAVAILABLE: the
/// machine does not have the address, or not yet. INVALID_ARGUMENT: any other reason.
[[nodiscard]] absl::StatusOr<OwnedFd> listen_at(const std::string& host, uint16_t port);
/// True if a socket that does not share its address could listen there now: nobody else does.
[[nodiscard]] absl::Status check_free(const std::string& host, uint16_t port);
[[nodiscard]] uint16_t port_of(const OwnedFd& listener);

/// "127.0.0.1:6379" or "[::1]:6379".
[[nodiscard]] std::string address_text(const std::string& host, uint16_t port);

/// A connection that was accepted; it does not block. Not open: there is none, see errno.
[[nodiscard]] OwnedFd accept_one(const OwnedFd& listener);
/// "127.0.0.1:50112" of the other end, or of this one.
[[nodiscard]] std::string remote_address(const OwnedFd& socket);
[[nodiscard]] std::string local_address(const OwnedFd& socket);

/// Adds `fd` to what `epoll` watches for input, and tells by `event`. False: epoll has no memory for it.
[[nodiscard]] bool watch_input(int epoll, int fd, uint64_t event);

/// How far a read or a write came.
struct Transferred {
  size_t bytes = 0;
  bool is_over = false;  ///< the other end has closed, or the connection is broken
};
/// Reads what is there, at most `room`. No bytes and not over: nothing is there now.
[[nodiscard]] Transferred read_some(const OwnedFd& socket, std::span<char> room);
/// Writes as much as the kernel takes of the pieces, of which there are at most kPiecesMax.
inline constexpr size_t kPiecesMax = 64;
[[nodiscard]] Transferred write_some(const OwnedFd& socket, std::span<const std::string_view> pieces);

}  // namespace skua::kv::gateway

#endif  // SKUA_KVSTORE_GATEWAY_GATEWAY_SOCKETS_H_
