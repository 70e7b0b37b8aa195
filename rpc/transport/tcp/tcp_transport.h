// TcpTransport: packets over TCP. Works everywhere; the default. docs/transports.md tells the wire
// format and why it is as it is.
//
// One connection per pair of endpoints, made by the first packet to a peer, agreed on by a
// versioned hello, and remade after a loss. A packet is one frame, as large as a whole message: the
// kernel does the segmenting, acknowledging and retransmitting.
//
//   tcp_transport   bursts                             tx_queue     what waits for one peer
//   links           sockets, epoll, handshakes         receiver     stream -> packets
//   peers           uuid <-> PeerId, link events       rx_chunks    memory that is lent
//   hello           pure: what is said                 dialect      frame layout per version
//   frame_pool      memory that frames are written in  zero_copy    bodies that the kernel reads in place
//
// Every packet that tx_burst takes is either written to a standing connection or followed by a
// kDown or kRefused event of its peer. On kDown all that was queued is forgotten (and its tokens
// come back).
#ifndef SKUA_RPC_TRANSPORT_TCP_TCP_TRANSPORT_H_
#define SKUA_RPC_TRANSPORT_TCP_TCP_TRANSPORT_H_

#include <cstdint>
#include <memory>
#include <span>
#include <string>

#include "absl/status/statusor.h"
#include "rpc/base/clock.h"
#include "rpc/transport/tcp/dialect.h"
#include "rpc/transport/transport.h"

namespace skua::rpc {

struct TcpOptions {
  /// Numeric address to listen on; empty: do not listen (others cannot dial this endpoint, it can
  /// dial them).
  std::string listen_ip;
  /// 0: the kernel picks one; local_descriptor() tells.
  uint16_t listen_port = 0;
  /// What the descriptor says instead of listen_ip (NAT, or listening on all addresses). Empty:
  /// listen_ip, or the default route's address if that is 0.0.0.0 or ::.
  std::string advertise_ip;
  /// Who this endpoint is; the uuid must not be zero.
  EndpointIdentity self;

  /// Versions of the wire format to offer; 0: all that this build speaks.
  uint16_t version_min = 0;
  uint16_t version_max = 0;
  /// The formats themselves, ascending by version; empty: the built-in ones.
  std::span<const tcp::Dialect> dialects;

  /// Received bytes are lent from chunks; a chunk is free again when everything in it was released.
  uint32_t rx_chunk_bytes = 64 * 1024;
  uint32_t rx_chunk_count = 256;
  /// Largest payload sent or accepted: a whole message.
  uint32_t payload_max_bytes = 17 * 1024 * 1024;
  /// Larger payloads are read straight to where RxPlacer says.
  uint32_t place_above_bytes = 16 * 1024;
  /// Room of the frames that are sent (Transport::take_frame).
  uint32_t frame_max_bytes = 16 * 1024;
  /// Payloads and segments up to this size are copied on transmit.
  uint32_t inline_max_bytes = 2048;
  /// Larger segments are sent from where they lie (MSG_ZEROCOPY) where the kernel does not copy them anyway;
  /// UINT32_MAX: none.
  uint32_t zero_copy_above_bytes = 64 * 1024;
  /// For tests, over loopback: also where the kernel copies them anyway.
  bool zero_copy_though_copied = false;
  /// Bytes that may wait for one peer before tx_burst takes no more for it; one packet may
  /// overshoot.
  uint32_t tx_queue_max_bytes = 8 * 1024 * 1024;

  /// For a connection and its handshake, on either side.
  DurationNs connect_timeout_ns = 3 * kSecond;
  /// Pause before the next dial after failures in a row; doubles from min to max.
  DurationNs reconnect_min_ns = 10 * kMillisecond;
  DurationNs reconnect_max_ns = 1 * kSecond;
  /// Data that is not acknowledged or not taken, or silence under keep-alive, for this long breaks a
  /// connection.
  DurationNs peer_timeout_ns = 10 * kSecond;

  /// For the rest of a frame whose first bytes have come, and as much again per 10 MiB of it.
  DurationNs frame_timeout_ns = 10 * kSecond;

  /// Peers known at once; callers that left make room for new ones.
  uint32_t peers_max = 65'536;
  /// Of these, callers: connections that others dialled. Each has a file descriptor.
  uint32_t callers_max = 32'768;
  /// Of these, callers at one address.
  uint32_t callers_per_host_max = 16'384;
  /// A caller that no session of the endpoint uses for this long is closed; when half of callers_max stand, after a
  /// tenth of it.
  DurationNs unused_timeout_ns = 30 * kSecond;
  /// Accepted connections that have not said hello; beyond it the oldest is closed.
  uint32_t handshakes_max = 64;

  /// Not owned; null: the system's monotonic clock.
  const Clock* clock = nullptr;
};

/// Thread: as Transport.
class TcpTransport : public Transport {
 public:
  /// Listens (if asked to) on return. INVALID_ARGUMENT: options that contradict each other;
  /// ALREADY_EXISTS: the port is in use; UNAVAILABLE: not an address of this machine;
  /// RESOURCE_EXHAUSTED: no memory for the chunks.
  static absl::StatusOr<std::unique_ptr<TcpTransport>> create(TcpOptions options);

  /// State for `doctor`, tests and metrics.
  struct Stats {
    /// Connections that stand, and those in a handshake (either direction).
    size_t link_count = 0;
    size_t handshake_count = 0;
    /// Holds on receive chunks: packets lent, plus connections with half a packet.
    size_t chunk_refs = 0;
    uint64_t dials = 0;
    uint64_t accepts = 0;
    uint64_t links_lost = 0;
    /// Connections that send by zero copy, and packets whose memory the kernel may still read.
    size_t zero_copy_links = 0;
    size_t zero_copy_waiting = 0;
    /// Frames that were sent to tell what the engine has, and nothing else.
    uint64_t notices = 0;
  };
  [[nodiscard]] virtual Stats stats() const = 0;
};

}  // namespace skua::rpc

#endif  // SKUA_RPC_TRANSPORT_TCP_TCP_TRANSPORT_H_
