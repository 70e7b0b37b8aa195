// Transport: moves packets between endpoints, and knows nothing of requests.
//
// A packet is a 32-byte engine header followed by a payload. The transport treats the header as opaque bytes. (A stream
// transport hands the header to the engine to ask where the payload goes.) Every call handles a burst of packets on the
// endpoint's thread, so the cost of one virtual call is spread over up to a burst of packets. Differences between wires
// are data (Capabilities), not #ifdef.
//
//               tx_burst(packets)                          rx_burst(packets)
//   engine  ------------------------->  wire  ------------------------------------->  engine
//           <-------------------------                       release(buffer)
//               reap(tokens): the wire                <--------------------------
//               no longer reads the memory              the engine no longer reads it
//
// Ownership. This rule makes zero copy possible:
//   TX  The segments of a packet stay readable and unchanged until tx_burst returns with the packet `done`, or until
//       reap() returns its token. A transport may copy the segments in tx_burst (the packet is then `done` at once), or
//       read them later (DMA, a full socket).
//   RX  The bytes of a received packet are lent: they stay valid until release(buffer). A transport lends from a ring
//       of limited size, so the engine copies out when too much is lent (Capabilities::lendable_count).
//
// Frames. Small calls share packets (rpc/wire/bundle.h). The engine writes such a packet directly into memory that the
// wire sends from:
//
//   take_frame(peer) -> room in an mbuf, a registered ring, a staging buffer   the engine writes   send_frames(frames)
//
// A frame is received like any packet, with the payload right behind the header in memory. A stream transport finds the
// end of a frame by the length that the engine wrote into the frame (stream_bundle_bytes()).
//
// Peers. A PeerId is a small integer of this transport. It names a remote endpoint that packets come from and go to. In
// a datagram transport a PeerId stands for an address and is made by resolve(). A stream transport makes PeerIds in two
// ways. resolve() makes one for an endpoint to dial; that endpoint must answer with the uuid that was asked for. An
// incoming connection also gets a PeerId, which ends with the connection; what the caller says about its identity
// proves nothing. So two endpoints may be joined by two connections, one for the sessions of each side that dialled. No
// peer can take over another peer's PeerId by claiming an identity.
//
// A datagram transport may lose, duplicate, reorder or corrupt packets (Capabilities says which). A stream transport
// reports the loss of a connection by a LinkEvent. Packets accepted for that peer before the loss may or may not have
// arrived: the engine repeats them, and the receiving engine drops duplicates.
#ifndef SKUA_RPC_TRANSPORT_TRANSPORT_H_
#define SKUA_RPC_TRANSPORT_TRANSPORT_H_

#include <array>
#include <cstddef>
#include <cstdint>
#include <span>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "rpc/base/bytes.h"
#include "rpc/base/clock.h"
#include "rpc/transport/descriptor.h"

namespace skua::rpc {

using PeerId = uint32_t;
inline constexpr PeerId kNoPeer = UINT32_MAX;

/// Every packet starts with a header of this many bytes; rpc/wire checks that its header has this size.
inline constexpr size_t kPacketHeaderBytes = 32;
/// The most segments of a payload: an inline head and up to four body spans.
inline constexpr size_t kTxSegmentsMax = 5;
/// The most packets handed over in one call.
inline constexpr size_t kBurstMax = 32;

struct Capabilities {
  /// Largest payload of one packet, without the header. For a stream: the largest message.
  uint32_t payload_max_bytes = 0;
  /// Segments per packet that can be sent without copying. If a packet has more, the transport copies some of them
  /// together.
  uint32_t segments_max = 1;
  /// Payloads up to this size are copied, because copying is cheaper than a second segment. If the transport has
  /// frames, the engine writes pieces of large messages up to this size into frames.
  uint32_t inline_max_bytes = 0;
  /// Received buffers that may be lent at once before the transport can receive no more.
  uint32_t lendable_count = 0;
  /// While the connection holds, packets arrive exactly once; the engine then skips acknowledgements and
  /// retransmission.
  bool reliable = false;
  /// Packets to one peer arrive in the order in which they were sent.
  bool ordered = false;
  /// Peers are known by their connections: no descriptor is needed to answer a peer that dialled, and kDown ends the
  /// PeerId of an incoming connection.
  bool connected = false;
  /// The wire detects corruption itself. If not, the engine adds a CRC-32C to each packet.
  bool integrity = false;
  /// Segments may be read after tx_burst has returned; the engine waits for reap().
  bool tx_completion = false;
  /// Memory must be registered (register_region()) before it can be sent without copying.
  bool needs_registration = false;
  /// The transport has READ, WRITE and atomics on a peer's memory (one_sided()).
  bool one_sided = false;
  /// An endpoint can reach itself.
  bool loopback = false;
  /// wait() sleeps until traffic arrives. If false, wait() can only sleep for a fixed time.
  bool wakes_on_receive = false;
  /// An rx_burst() that finds nothing costs only some loads from memory, no system call.
  bool receives_in_memory = false;
  /// take_frame() gives frames, and this transport receives frames of peers.
  bool frames = false;
  /// No frame is larger than this.
  uint32_t frame_max_bytes = UINT32_MAX;
  /// Peers are channels (channels()), which last longer than connections. Sessions are opened by offers that another
  /// channel carries, not by packets.
  bool keyed = false;
};

/// Opaque to the transport; reap() returns it. kNoToken: the engine does not wait for this packet's completion.
using TxToken = uint64_t;
inline constexpr TxToken kNoToken = 0;

struct TxPacket {
  PeerId peer = kNoPeer;
  /// Output: tx_burst sets it if the transport no longer needs the segments.
  bool done = false;
  uint8_t segment_count = 0;
  /// Sum of the segments' sizes.
  uint32_t payload_bytes = 0;
  TxToken token = kNoToken;
  /// tx_burst copies the header; the caller may reuse it when tx_burst returns.
  std::array<std::byte, kPacketHeaderBytes> header;
  std::array<ByteSpan, kTxSegmentsMax> segments;
};

/// A packet that the engine writes in the transport's own memory. send_frames() gives the memory back to the transport.
struct TxFrame {
  PeerId peer = kNoPeer;
  /// Bytes that the engine wrote: at least kPacketHeaderBytes, or 0 to give the frame back unsent.
  uint32_t size = 0;
  /// Where to write. Null: no frame is available now.
  std::byte* bytes = nullptr;
  /// Bytes that may be written for the path to that peer: at least kFrameRoomMin. The engine may overwrite kFrameSlack
  /// bytes beyond them; these bytes are not sent.
  uint32_t room = 0;
  /// For the transport's own use.
  uint64_t cookie = 0;
};
inline constexpr uint32_t kFrameRoomMin = 256;
/// The engine copies in whole vector registers, so a copy may write up to this many bytes beyond its end.
inline constexpr uint32_t kFrameSlack = 64;

/// Names received memory that is lent; only the transport that lent it knows the meaning.
using RxBufferId = uint64_t;
inline constexpr RxBufferId kNoBuffer = UINT64_MAX;

struct RxPacket {
  PeerId from = kNoPeer;
  /// True: the payload lies in the memory that RxPlacer::place() named, `placement` is the cookie of that Placement,
  /// and nothing is lent.
  bool placed = false;
  ByteSpan header;   // kPacketHeaderBytes; valid until the next rx_burst, also for placed packets
  ByteSpan payload;  // valid until release(buffer)
  /// The engine gives it back exactly once by release(). kNoBuffer: there is nothing to give back.
  RxBufferId buffer = kNoBuffer;
  uint64_t placement = 0;
};

/// A stream transport has read a packet's header and asks where to put the payload. Implemented by the engine.
class RxPlacer {
 public:
  struct Placement {
    /// Where to put the payload. Null: the transport reads the payload and throws it away.
    std::byte* to = nullptr;
    uint64_t cookie = 0;
  };

  virtual ~RxPlacer() = default;
  /// Thread: the endpoint's, from inside rx_burst.
  virtual Placement place(PeerId from, ByteSpan header, size_t payload_bytes) = 0;
  /// The connection broke before the payload was complete: the transport no longer writes the memory.
  virtual void abandon(uint64_t cookie) = 0;
};

/// Says which peers the engine's sessions use. Implemented by the engine.
class PeerUse {
 public:
  virtual ~PeerUse() = default;
  /// True if a session of this endpoint uses the peer: a session that this endpoint opened, or an accepted one that is
  /// bound to the peer. An offer's session does not count before a packet has followed the offer. Thread: the
  /// endpoint's, from inside the transport's calls, for example resolve() and resolve_claimed().
  [[nodiscard]] virtual bool is_used(PeerId peer) const = 0;
  /// True if an accepted session waits for a packet of the peer that binds it: none has come yet, or its connection
  /// broke. The session's offer named the peer, or came for its channel. Thread: as is_used().
  [[nodiscard]] virtual bool is_awaited(PeerId /*peer*/) const { return false; }
};

struct LinkEvent {
  enum class Kind : uint8_t {
    kUp,       // a connection stands; `identity` is the endpoint that answered
    kDown,     // the connection broke; packets in flight may be lost; a later tx_burst to the peer reconnects
    kRefused,  // the peer (or the handshake) refused; a retry alone will not help
  };
  PeerId peer = kNoPeer;
  Kind kind = Kind::kDown;
  EndpointIdentity identity;
  absl::Status why;
};

/// Counters that every transport keeps. They only grow. Thread: the endpoint's.
struct TransportCounters {
  uint64_t tx_packets = 0;
  uint64_t tx_bytes = 0;
  uint64_t rx_packets = 0;
  uint64_t rx_bytes = 0;
  /// Payload bytes that the transport itself copied between buffers. Copies by the kernel are not counted.
  uint64_t tx_copied_bytes = 0;
  uint64_t rx_copied_bytes = 0;
  /// Payload bytes that were sent from, or received into, their final memory without a copy.
  uint64_t tx_zero_copy_bytes = 0;
  uint64_t rx_zero_copy_bytes = 0;
  /// Received input that was malformed or not meant for this transport, and was thrown away.
  uint64_t rx_dropped = 0;
  /// Times that tx_burst took fewer packets than it was offered.
  uint64_t tx_full = 0;
};

class Channels;
class OneSided;

/// Thread: the endpoint's for all calls except wake(). A transport is made before its endpoint and destroyed after it.
class Transport {
 public:
  virtual ~Transport() = default;

  [[nodiscard]] virtual const Capabilities& capabilities() const = 0;
  [[nodiscard]] virtual const TransportCounters& counters() const = 0;
  /// What a peer needs to resolve() this endpoint.
  [[nodiscard]] virtual Descriptor local_descriptor() const = 0;

  /// A stream transport needs the placer before the first rx_burst; a datagram transport ignores it. Not owned.
  virtual void set_placer(RxPlacer* /*placer*/) {}

  /// The transport asks `use` before it gives a PeerId to another address. Stream transports also close incoming
  /// connections that no session uses. Not owned; must outlive its use here. Null: a datagram transport treats no peer
  /// as used, a stream transport treats every peer as used.
  virtual void set_peer_use(const PeerUse* /*use*/) {}

  /// The PeerId to send to the described endpoint; no I/O happens yet. For dials of this endpoint: the descriptor comes
  /// from a source that this endpoint asked, so it replaces what was known of the address. INVALID_ARGUMENT: the
  /// descriptor is not one of this transport. FAILED_PRECONDITION: the peer belongs to another cluster.
  /// RESOURCE_EXHAUSTED: too many peers.
  virtual absl::StatusOr<PeerId> resolve(const Descriptor& peer) = 0;
  /// As resolve(), for a descriptor that a peer sent about itself. Such a claim changes nothing of a peer that sessions
  /// use. Also UNAVAILABLE: another endpoint has the address now.
  virtual absl::StatusOr<PeerId> resolve_claimed(const Descriptor& peer) { return resolve(peer); }

  /// Largest payload of a packet that is believed to reach `peer`; at most Capabilities::payload_max_bytes. Devices may
  /// carry larger packets than a switch between them. If a transport finds a path narrower than it believed, it reports
  /// a LinkEvent of kind kRefused whose status is OUT_OF_RANGE. Sessions whose packets still fit go on; the others are
  /// opened anew with the new limit. The endpoint asks when sessions are made, never per packet.
  [[nodiscard]] virtual uint32_t payload_max_bytes(PeerId /*peer*/) const { return capabilities().payload_max_bytes; }

  /// A number that all peers at one host have in common, as far as the transport can tell. Used for limits per host.
  [[nodiscard]] virtual uint64_t host_of(PeerId peer) const { return peer; }

  /// Takes the first packets of `packets`, in order, and returns how many it took. The caller offers the others again
  /// later. Packets for a peer that cannot be reached are taken and dropped; a LinkEvent reports that.
  virtual size_t tx_burst(std::span<TxPacket> packets) = 0;
  /// False: the peer takes no more for now, and a packet for it might hold up the rest of a burst. The engine serves
  /// other peers until this turns true. wait() ends when it may have turned true.
  virtual bool has_room(PeerId /*peer*/) { return true; }
  /// Changes while a packet of this peer comes or goes in parts, and 0 if none does. A large packet may take longer
  /// than a peer may be silent, and answers to pings wait behind it. So a peer whose number changes is not silent.
  [[nodiscard]] virtual uint64_t progress(PeerId /*peer*/) const { return 0; }
  /// A frame to write a packet for `peer` into. `bytes` is null if has_room() is false, if Capabilities::frames is
  /// false, or if the peer's connection is gone. Every frame that was taken goes back by send_frames() before the
  /// transport is destroyed, in any order.
  virtual TxFrame take_frame(PeerId /*peer*/) { return {}; }
  /// Sends the frames in order, after everything that was sent before. Each frame is handed to the wire, or lost with
  /// its connection. A transport that may lose packets may also drop a frame for lack of room.
  virtual void send_frames(std::span<const TxFrame> /*frames*/) {}
  /// Fills the first entries of `packets` and returns how many.
  virtual size_t rx_burst(std::span<RxPacket> packets) = 0;
  /// Gives lent memory back, in any order.
  virtual void release(std::span<const RxBufferId> buffers) = 0;
  /// Writes the tokens of packets whose memory the transport no longer reads; returns how many.
  virtual size_t reap(std::span<TxToken> /*tokens*/) { return 0; }
  /// The endpoint ends. Stops reading the memory of every packet accepted so far, and breaks connections if that is
  /// necessary. All outstanding tokens can be reaped afterwards. The transport may first flush packets for at most a
  /// few milliseconds.
  virtual void abandon_tx() {}
  /// What came from the peer cannot be believed: breaks the peer's connection, if there is one. A LinkEvent tells of
  /// that. Transports without connections do nothing.
  virtual void reject(PeerId /*peer*/, const absl::Status& /*why*/) {}
  /// Writes events of connections that came or went since the last call; returns how many.
  virtual size_t poll_links(std::span<LinkEvent> /*events*/) { return 0; }

  /// Makes [region] known to the wire so that it can be sent without copying. The region must outlive the transport or
  /// be unregistered. RESOURCE_EXHAUSTED names the limit (for example memlock) and how to raise it.
  virtual absl::Status register_region(MutableByteSpan /*region*/) { return absl::OkStatus(); }
  virtual void unregister_region(MutableByteSpan /*region*/) {}

  /// Operations on peers' memory (rpc/transport/one_sided.h) if Capabilities::one_sided is true, else null. Owned by
  /// the transport. Their completions end wait(), as packets do.
  [[nodiscard]] virtual OneSided* one_sided() { return nullptr; }

  /// How peers agree on keys, if Capabilities::keyed is true, else null. Owned by the transport.
  [[nodiscard]] virtual Channels* channels() { return nullptr; }

  /// Sleeps until something may have been received, a socket can take more, wake() is called, or `timeout_ns` has
  /// passed.
  virtual void wait(DurationNs timeout_ns) = 0;
  /// Ends the current or next wait(). Thread: any.
  virtual void wake() = 0;

  // wait() in three steps, for an event loop of somebody else's:
  //
  //   begin_wait(timeout) > 0 --> the loop sleeps until wait_fd() is readable, or for that long --> end_wait()
  //
  // Between begin_wait() and end_wait() only wake() may be called.

  /// Becomes readable when something ends a wait(). -1: the transport has no such descriptor, and the caller has to use
  /// wait(). The same for the transport's whole life. Owned by the transport; others must not read it.
  [[nodiscard]] virtual int wait_fd() const { return -1; }
  /// 0: there is work, and end_wait() is not called. Otherwise how long the loop may sleep, at most `timeout_ns`.
  [[nodiscard]] virtual DurationNs begin_wait(DurationNs timeout_ns) { return timeout_ns; }
  /// Takes what made wait_fd() readable.
  virtual void end_wait() {}
};

}  // namespace skua::rpc

#endif  // SKUA_RPC_TRANSPORT_TRANSPORT_H_
