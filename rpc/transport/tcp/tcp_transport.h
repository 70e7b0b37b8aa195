// TcpTransport: packets over TCP. It works everywhere and is the default. docs/transports.md describes the wire format
// and the reasons for it.
//
// The first packet to a peer makes a connection; a versioned hello opens it, and it is remade after a loss. Two
// endpoints that dial each other have two connections, one per dialling side. A packet is one frame, as large as a
// whole message: the kernel does the segmenting, acknowledging and retransmitting.
//
//   tcp_transport   bursts                             tx_queue     what waits for one peer
//   links           sockets, epoll, handshakes         receiver     stream -> packets
//   peers           uuid <-> PeerId, link events       rx_chunks    memory that is lent
//   hello           pure: what is said                 dialect      frame layout per version
//   frame_pool      memory that frames are written in  zero_copy    bodies that the kernel reads in place
//
// Every packet that tx_burst takes is written to a standing connection, or is followed by a kDown or kRefused event of
// its peer. On kDown all packets queued for the peer are forgotten, and their tokens come back.
#ifndef SKUA_RPC_TRANSPORT_TCP_TCP_TRANSPORT_H_
#define SKUA_RPC_TRANSPORT_TCP_TCP_TRANSPORT_H_

#include <cstdint>
#include <functional>
#include <memory>
#include <span>
#include <string>

#include "absl/status/statusor.h"
#include "rpc/base/clock.h"
#include "rpc/transport/tcp/dialect.h"
#include "rpc/transport/transport.h"

namespace skua::rpc {

struct TcpOptions {
  /// Numeric address to listen on. Empty: this endpoint does not listen; it can dial others, but nobody can dial it.
  std::string listen_ip;
  /// 0: the kernel chooses a port; local_descriptor() has it.
  uint16_t listen_port = 0;
  /// The IP address for the descriptor instead of listen_ip (for NAT, or if listening on all addresses). Empty:
  /// listen_ip, or the default route's address if listen_ip is 0.0.0.0 or ::.
  std::string advertise_ip;
  /// Who this endpoint is; the uuid must not be zero.
  EndpointIdentity self;

  /// Versions of the wire format to offer; 0: the lowest or highest that `dialects` has.
  uint16_t version_min = 0;
  uint16_t version_max = 0;
  /// The wire formats, ascending by version; empty: the built-in ones. Not owned.
  std::span<const tcp::Dialect> dialects;

  /// Received bytes are lent from chunks. A chunk is free again when everything in it was released.
  uint32_t rx_chunk_bytes = 64 * 1024;
  uint32_t rx_chunk_count = 256;
  /// Largest payload sent or accepted: a whole message.
  uint32_t payload_max_bytes = 17 * 1024 * 1024;
  /// Larger payloads are read directly into the memory that RxPlacer names.
  uint32_t place_above_bytes = 16 * 1024;
  /// Room of a frame to be sent (Transport::take_frame).
  uint32_t frame_max_bytes = 16 * 1024;
  /// On transmit, payloads and segments up to this size are copied.
  uint32_t inline_max_bytes = 2048;
  /// Larger segments are sent by MSG_ZEROCOPY from where they lie, unless the kernel copies them anyway. UINT32_MAX:
  /// never.
  uint32_t zero_copy_above_bytes = 64 * 1024;
  /// For tests over loopback: use MSG_ZEROCOPY even if the kernel copies anyway.
  bool zero_copy_though_copied = false;
  /// Bytes that may wait for one peer before tx_burst takes no more packets for it. One packet may exceed the limit.
  uint32_t tx_queue_max_bytes = 8 * 1024 * 1024;

  /// Time limit for making a connection and its handshake, on either side.
  DurationNs connect_timeout_ns = 3 * kSecond;
  /// Pause before the next dial after failures in a row. It doubles from the minimum to the maximum.
  DurationNs reconnect_min_ns = 10 * kMillisecond;
  DurationNs reconnect_max_ns = 1 * kSecond;
  /// A connection breaks if data stays unacknowledged or is not taken for this long, or if keep-alive is not answered
  /// for this long.
  DurationNs peer_timeout_ns = 10 * kSecond;

  /// Time limit for the rest of a frame whose first bytes have arrived, plus the same again per 10 MiB of its payload.
  DurationNs frame_timeout_ns = 10 * kSecond;

  /// Peers known at once. Entries of callers that left are used again.
  uint32_t peers_max = 65'536;
  /// Callers among these peers: incoming connections. Each needs a file descriptor.
  uint32_t callers_max = 32'768;
  /// Callers from one IP address.
  uint32_t callers_per_host_max = 16'384;
  /// An incoming connection is closed if no session of the endpoint uses it for this long. If half of callers_max
  /// stand, a tenth of this time is enough.
  DurationNs unused_timeout_ns = 30 * kSecond;
  /// Accepted connections that have not said hello. If one more comes, the oldest is closed.
  uint32_t handshakes_max = 64;

  /// Takes a line about connections that were sent away for want of room: one line a second at most. Empty: nobody is
  /// told. Runs on the transport's thread, in rx_burst.
  std::function<void(const std::string& line)> on_sent_away;

  /// Not owned; null: the system's monotonic clock.
  const Clock* clock = nullptr;
};

/// Thread: the endpoint's, as for Transport.
class TcpTransport : public Transport {
 public:
  /// When this returns, the transport listens (if asked to). INVALID_ARGUMENT: options that are out of range or
  /// contradict each other. ALREADY_EXISTS: the port is in use. PERMISSION_DENIED: the port may not be used.
  /// UNAVAILABLE: not an address of this machine, or out of file descriptors. RESOURCE_EXHAUSTED: no memory for the
  /// chunks.
  static absl::StatusOr<std::unique_ptr<TcpTransport>> create(TcpOptions options);

  /// State for `doctor`, tests and metrics.
  struct Stats {
    /// Connections that stand, and those in a handshake (either direction).
    size_t link_count = 0;
    size_t handshake_count = 0;
    /// References on receive chunks: lent packets, and connections with a partly received packet.
    size_t chunk_refs = 0;
    uint64_t dials = 0;
    uint64_t accepts = 0;
    uint64_t links_lost = 0;
    /// Connections that use zero copy, and packets whose memory the kernel may still read.
    size_t zero_copy_links = 0;
    size_t zero_copy_waiting = 0;
    /// Frames sent only to tell a peer how many of its packets the engine has.
    uint64_t notices = 0;
  };
  [[nodiscard]] virtual Stats stats() const = 0;
};

}  // namespace skua::rpc

#endif  // SKUA_RPC_TRANSPORT_TCP_TCP_TRANSPORT_H_
