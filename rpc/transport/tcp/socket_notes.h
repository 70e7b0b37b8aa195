// SocketNotes: the kernel's notes about zero-copy writes, read from a socket's error queue; and how to make the kernel
// forget such writes.
#ifndef SKUA_RPC_TRANSPORT_TCP_SOCKET_NOTES_H_
#define SKUA_RPC_TRANSPORT_TCP_SOCKET_NOTES_H_

#include <cstdint>
#include <optional>

#include "rpc/base/clock.h"

namespace skua::rpc::tcp {

struct WritesDone {
  /// The range of finished MSG_ZEROCOPY writes. Each socket numbers its writes from 0, modulo 2^32.
  uint32_t first = 0;
  uint32_t last = 0;
  /// The kernel copied the bytes after all.
  bool copied = false;
};

/// Enables MSG_ZEROCOPY on `fd`. False: the kernel does not have it.
[[nodiscard]] bool enable_zero_copy(int fd);
/// The next note; nullopt: none is there. Does not wait.
[[nodiscard]] std::optional<WritesDone> read_writes_done(int fd);
/// Waits until there may be another note.
void wait_for_note(int fd, DurationNs timeout_ns);
/// Ends the connection by a reset. The kernel forgets the bytes that were written and not acknowledged. Notes about
/// them can be read when the kernel is done with them: at once, except for bytes that a device is sending.
void forget_writes(int fd);

}  // namespace skua::rpc::tcp

#endif  // SKUA_RPC_TRANSPORT_TCP_SOCKET_NOTES_H_
