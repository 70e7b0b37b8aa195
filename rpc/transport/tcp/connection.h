// Connection: one TCP connection from its first byte to its last.
//
//        dial                                  accept
//         v                                      v
//    kConnecting --(TCP stands: send hello)--> kHello --(hello judged / reply read)--> kFrames
//         |                                      |                                       |
//         |                                      |                  FrameReceiver: frame header,
//         |                                      |                  payload in chunk, payload
//         placed, |                                      |                  discard v v v
//      closed  <---------- error, end, timeout, refusal, malformed input, replaced -------
//
// The handshake is read byte-exactly (what follows it belongs to the receiver), and only the reply
// lets the dialling side send. What is to be transmitted waits in the peer's TxQueue, not here: it
// must outlive a connection that breaks before it stands.
#ifndef SKUA_RPC_TRANSPORT_TCP_CONNECTION_H_
#define SKUA_RPC_TRANSPORT_TCP_CONNECTION_H_

#include <array>
#include <cstdint>
#include <memory>
#include <string_view>

#include "absl/status/status.h"
#include "rpc/transport/tcp/hello.h"
#include "rpc/transport/tcp/receiver.h"
#include "rpc/transport/tcp/socket.h"
#include "rpc/transport/tcp/tcp_limits.h"
#include "rpc/transport/tcp/tx_queue.h"
#include "rpc/transport/tcp/zero_copy.h"

namespace skua::rpc::tcp {

/// Reads one hello or reply, never a byte more. Fed by whatever the socket has.
class HelloReader {
 public:
  enum class Result : uint8_t { kComplete, kWaiting, kEnd, kMalformed, kError };

  explicit HelloReader(HelloKind kind) : kind_(kind) {}
  /// kError: errno.
  Result read(int fd);
  /// The whole record, after kComplete.
  [[nodiscard]] ByteSpan bytes() const { return ByteSpan(buffer_).first(have_); }

 private:
  const HelloKind kind_;
  size_t have_ = 0;
  size_t want_ = kHelloPreambleBytes;
  std::array<std::byte, kHelloBytesMax> buffer_;
};

/// Thread: the transport's. Plain state; Links drives it.
struct Connection {
  enum class State : uint8_t { kConnecting, kHello, kFrames };

  /// Names this connection in epoll; stale events do not match.
  uint32_t slot = 0;
  uint32_t generation = 0;

  UniqueFd fd;
  State state = State::kHello;
  /// We dialled.
  bool outgoing = false;
  SocketAddress remote;

  // The handshake.
  std::unique_ptr<HelloReader> hello;
  TimeNs deadline_ns = kTimeNever;
  /// Ours if outgoing.
  uint64_t dial_number = 0;

  // Known once it stands (the peer also while dialling).
  PeerId peer = kNoPeer;
  EndpointIdentity identity;
  const Dialect* dialect = nullptr;
  TimeNs up_since_ns = 0;
  FrameReceiver receiver;
  /// Packets whose memory the kernel still reads.
  ZeroCopySends sends;
  /// How many packets that asked the peer was told of, and whether it is to be told of more soon (Links::tell_owed()).
  uint32_t told = 0;
  bool owes = false;

  /// epoll said so, or reading stopped early: there is something to receive.
  bool readable = false;
  /// The peer closed its side: read until the end shows.
  bool hung_up = false;
  /// The socket is full; epoll tells when it is not.
  bool tx_blocked = false;
  /// On the list of connections that rx_burst reads.
  bool active = false;
  /// Fruitless reads in a row.
  uint32_t idle_reads = 0;
  /// A frame was completed since Links::check_half_frames() looked last, and since when it has seen the same half
  /// frame.
  bool produced = false;
  TimeNs half_since_ns = kTimeNever;
  /// A caller: since when no session has used it.
  TimeNs unused_since_ns = kTimeNever;
  /// Not OK: to be closed at the next rx_burst, for this reason.
  absl::Status broken;
};

/// One write of all `pieces`: how much the socket took, or -1: errno.
[[nodiscard]] ssize_t write_pieces(int fd, std::span<iovec> pieces, int flags = 0);

enum class WriteOutcome : uint8_t { kEmptied, kBlocked, kError };

/// Writes from `queue` until it is empty or the socket full; large bodies by zero copy where `sends` says so. kError:
/// errno.
WriteOutcome write_queue(int fd, TxQueue& queue, ZeroCopySends& sends, TxCompletions& completions);

/// Writes a hello or reply, which always fits an empty socket; false: errno.
[[nodiscard]] bool write_hello(int fd, std::string_view bytes);

}  // namespace skua::rpc::tcp

#endif  // SKUA_RPC_TRANSPORT_TCP_CONNECTION_H_
