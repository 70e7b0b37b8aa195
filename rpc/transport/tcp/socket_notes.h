// SocketNotes: what the kernel says of writes by zero copy, on a socket's error queue, and how it is made to forget
// them.
#ifndef SKUA_RPC_TRANSPORT_TCP_SOCKET_NOTES_H_
#define SKUA_RPC_TRANSPORT_TCP_SOCKET_NOTES_H_

#include <cstdint>
#include <optional>

#include "rpc/base/clock.h"

namespace skua::rpc::tcp {

struct WritesDone {
  /// Numbers of writes with MSG_ZEROCOPY, from 0 on for each socket, modulo 2^32.
  uint32_t first = 0;
  uint32_t last = 0;
  /// The kernel copied after all.
  bool copied = false;
};

/// Lets writes to `fd` have MSG_ZEROCOPY. False: this kernel has none.
[[nodiscard]] bool enable_zero_copy(int fd);
/// The next note, if there is one. Does not wait.
[[nodiscard]] std::optional<WritesDone> read_writes_done(int fd);
/// Waits until there may be another note.
void wait_for_note(int fd, DurationNs timeout_ns);
/// Ends the connection by a reset. What was written and not acknowledged is forgotten; notes of it can be read once the
/// kernel is done with it, at once but for what a device is sending.
void forget_writes(int fd);

}  // namespace skua::rpc::tcp

#endif  // SKUA_RPC_TRANSPORT_TCP_SOCKET_NOTES_H_
