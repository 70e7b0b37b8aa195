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
// The handshake reads exactly its own bytes, because the bytes behind it belong to the receiver. The dialling side
// sends nothing until it has the reply. Packets to be sent wait in the peer's TxQueue, not in the connection: they must
// survive a connection that breaks before it stands.
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

/// Reads one hello or reply and never a byte beyond it. Call read() whenever the socket may have bytes.
class HelloReader {
 public:
  enum class Result : uint8_t { kComplete, kWaiting, kEnd, kMalformed, kError };

  explicit HelloReader(HelloKind kind) : kind_(kind) {}
  /// kWaiting: more bytes are needed. kError: see errno.
  Result read(int fd);
  /// The whole record, after kComplete.
  [[nodiscard]] ByteSpan bytes() const { return ByteSpan(buffer_).first(have_); }

 private:
  const HelloKind kind_;
  size_t have_ = 0;
  size_t want_ = kHelloPreambleBytes;
  std::array<std::byte, kHelloBytesMax> buffer_;
};

/// Plain state, driven by Links. Thread: the transport's.
struct Connection {
  enum class State : uint8_t { kConnecting, kHello, kFrames };

  /// Identifies this connection in epoll events. An event of an earlier connection in the same slot has another
  /// generation.
  uint32_t slot = 0;
  uint32_t generation = 0;

  UniqueFd fd;
  State state = State::kHello;
  /// This endpoint dialled.
  bool outgoing = false;
  SocketAddress remote;

  // The handshake.
  std::unique_ptr<HelloReader> hello;
  TimeNs deadline_ns = kTimeNever;
  /// The number of this dial, if outgoing.
  uint64_t dial_number = 0;

  // Known when the connection stands. `peer` of an outgoing connection is known while dialling.
  PeerId peer = kNoPeer;
  EndpointIdentity identity;
  const Dialect* dialect = nullptr;
  TimeNs up_since_ns = 0;
  FrameReceiver receiver;
  /// Packets whose memory the kernel may still read.
  ZeroCopySends sends;
  /// The count of asking packets that was last sent to the peer (zero_copy.h), and whether the connection is on the
  /// list of peers to tell soon (Links::tell_owed()).
  uint32_t told = 0;
  bool owes = false;

  /// Something may be readable: epoll said so, or reading stopped early.
  bool readable = false;
  /// The peer closed its side: keep reading until the end of the stream.
  bool hung_up = false;
  /// The socket is full. epoll reports when it has room again.
  bool tx_blocked = false;
  /// On the list of connections that rx_burst reads.
  bool active = false;
  /// Reads in a row that brought no packet.
  uint32_t idle_reads = 0;
  /// For Links::check_half_frames(). The frame that it last saw unfinished, by its number, and since when; and whether
  /// since its last look all that had arrived was read.
  uint64_t half_frame = 0;
  TimeNs half_since_ns = kTimeNever;
  bool drained = false;
  /// Incoming connections: the time since which no session has used the connection.
  TimeNs unused_since_ns = kTimeNever;
  /// Not OK: the connection is to be closed by the next Links::turn(), for this reason.
  absl::Status broken;
};

/// Writes `pieces` with one system call. Returns how many bytes the socket took, or -1 with errno.
[[nodiscard]] ssize_t write_pieces(int fd, std::span<iovec> pieces, int flags = 0);

enum class WriteOutcome : uint8_t { kEmptied, kBlocked, kError };

/// Writes from `queue` until the queue is empty or the socket is full. Large bodies go by zero copy while `sends`
/// allows it. kError: see errno.
WriteOutcome write_queue(int fd, TxQueue& queue, ZeroCopySends& sends, TxCompletions& completions);

/// Writes a hello or reply, which always fits an empty socket. False: see errno.
[[nodiscard]] bool write_hello(int fd, std::string_view bytes);

}  // namespace skua::rpc::tcp

#endif  // SKUA_RPC_TRANSPORT_TCP_CONNECTION_H_
