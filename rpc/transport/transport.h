// Transport: moves packets between endpoints, and knows nothing of requests.
//
// A packet is a 32-byte engine header followed by a payload. The transport never looks into the
// header (a stream transport hands it to the engine to ask where the payload goes). Everything is
// called per burst, on the endpoint's thread, so one virtual call is paid for up to a burst of
// packets. What differs between wires is data (Capabilities), not #ifdef.
//
//               tx_burst(packets)                          rx_burst(packets)
//   engine  ------------------------->  wire  ------------------------------------->  engine
//           <-------------------------                       release(buffer)
//               reap(tokens): the wire                <--------------------------
//               no longer reads the memory              the engine no longer reads it
//
// Ownership, the one rule behind zero copy:
//   TX  The segments of a packet stay readable and unchanged from tx_burst until the packet is `done` on return, or its
//       token comes back from reap(). A transport may copy (then it is done at once) or read later (DMA, a full socket).
//   RX  The bytes of a received packet are lent: they stay valid until release(buffer). Transports lend from a ring; the
//       engine copies out when too much is lent (Capabilities::lendable_count).
//
// Frames. Small calls share packets (rpc/wire/bundle.h). Such a packet is written by the engine where the wire sends it from:
//
//   take_frame(peer) -> room in an mbuf, a registered ring, a staging buffer      the engine writes      send_frames(frames)
//
// A frame is received as any packet is, with the payload right behind the header in memory. A stream finds its end by the length
// that the engine writes into it (stream_bundle_bytes()).
//
// Peers: a PeerId is this transport's small integer for where packets come from and go to. A datagram transport's is an address,
// made by resolve(). A stream transport's is made by resolve(), for an endpoint that is dialled and must answer by the uuid asked
// for, or by an incoming connection, whose word for who it is proves nothing; that one ends with the connection. So two endpoints
// may be joined by two connections, each for the sessions of the side that dialled. Nobody takes another's PeerId by what he says.
//
// A datagram transport may lose, duplicate, reorder or corrupt (Capabilities says which); a stream transport
// reports the loss of a connection by a LinkEvent, after which packets accepted for that peer may
// or may not have arrived: the engine repeats them and the receiving engine drops duplicates.
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

/// Every packet starts with a header of this many bytes; rpc/wire checks that it agrees.
inline constexpr size_t kPacketHeaderBytes = 32;
/// Pieces a payload may be gathered from: an inline head and up to four body spans.
inline constexpr size_t kTxSegmentsMax = 5;
/// Packets handed over in one call.
inline constexpr size_t kBurstMax = 32;

struct Capabilities {
  /// Largest payload of one packet, header not counted. Streams: the largest message.
  uint32_t payload_max_bytes = 0;
  /// Gather segments per packet that are sent without copying; more are coalesced by copying.
  uint32_t segments_max = 1;
  /// Payloads up to this size are copied rather than gathered: cheaper than a second segment. The engine itself writes
  /// pieces of large messages that are no larger into frames, where there are frames.
  uint32_t inline_max_bytes = 0;
  /// Received buffers that may be lent at once before the wire runs dry.
  uint32_t lendable_count = 0;
  /// Packets of an unbroken link arrive exactly once; the engine skips acknowledgements and
  /// retransmission.
  bool reliable = false;
  bool ordered = false;
  /// Peers that dial are known by their connections: no descriptor is needed to answer them, and kDown ends an incoming one's PeerId.
  bool connected = false;
  /// The wire detects corruption itself; otherwise the engine adds a CRC-32C to each packet.
  bool integrity = false;
  /// Segments may be read after tx_burst returned; wait for reap().
  bool tx_completion = false;
  /// Memory must be registered before it is sent without copying.
  bool needs_registration = false;
  /// READ, WRITE and atomics on remote memory.
  bool one_sided = false;
  /// An endpoint can reach itself.
  bool loopback = false;
  /// wait() really sleeps until traffic arrives; otherwise it can only sleep for a fixed time.
  bool wakes_on_receive = false;
  /// rx_burst() that finds nothing is some loads of memory, no system call.
  bool receives_in_memory = false;
  /// take_frame() gives frames, and frames of peers are received.
  bool frames = false;
};

/// Opaque to the transport; handed back by reap(). kNoToken: nobody waits for this packet's
/// completion.
using TxToken = uint64_t;
inline constexpr TxToken kNoToken = 0;

struct TxPacket {
  PeerId peer = kNoPeer;
  /// Out: set by tx_burst when the transport needs the segments no longer.
  bool done = false;
  uint8_t segment_count = 0;
  /// Sum of the segments' sizes.
  uint32_t payload_bytes = 0;
  TxToken token = kNoToken;
  /// Copied by tx_burst; the caller may reuse it at once.
  std::array<std::byte, kPacketHeaderBytes> header;
  std::array<ByteSpan, kTxSegmentsMax> segments;
};

/// A packet that the engine writes in the wire's own memory. The transport's again after send_frames().
struct TxFrame {
  PeerId peer = kNoPeer;
  /// What the engine wrote, at least kPacketHeaderBytes; 0: nothing, the frame is given back.
  uint32_t size = 0;
  /// Where to write; null: there is no frame now.
  std::byte* bytes = nullptr;
  /// Bytes that may be written, on the path to that peer: at least kFrameRoomMin. kFrameSlack more may be scribbled over.
  uint32_t room = 0;
  /// The transport's own.
  uint64_t cookie = 0;
};
inline constexpr uint32_t kFrameRoomMin = 256;
/// Copies in whole vector registers end up to this many bytes behind what they mean to copy.
inline constexpr uint32_t kFrameSlack = 64;

/// Names lent receive memory; meaningful to the transport that lent it.
using RxBufferId = uint64_t;
inline constexpr RxBufferId kNoBuffer = UINT64_MAX;

struct RxPacket {
  PeerId from = kNoPeer;
  /// True: the payload lies in memory that RxPlacer::place() named, and `placement` is its cookie;
  /// nothing is lent.
  bool placed = false;
  ByteSpan header;   // kPacketHeaderBytes; valid until the next rx_burst, also for placed packets
  ByteSpan payload;  // valid until release(buffer)
  /// To be given back exactly once by release(), or kNoBuffer.
  RxBufferId buffer = kNoBuffer;
  uint64_t placement = 0;
};

/// How a stream transport asks where a payload goes, once it has the header. Implemented by the
/// engine.
class RxPlacer {
 public:
  struct Placement {
    /// Where to put the payload, or nullptr: read it and throw it away.
    std::byte* to = nullptr;
    uint64_t cookie = 0;
  };

  virtual ~RxPlacer() = default;
  /// Thread: the endpoint's, from inside rx_burst.
  virtual Placement place(PeerId from, ByteSpan header, size_t payload_bytes) = 0;
  /// The connection broke before the payload was complete: the memory is the engine's again.
  virtual void abandon(uint64_t cookie) = 0;
};

/// Which peers the engine's sessions use. Implemented by the engine.
class PeerUse {
 public:
  virtual ~PeerUse() = default;
  /// A session of this endpoint leads there: its own, or an accepted one that is bound to the peer. Sessions of offers
  /// that no packet followed do not count. Thread: the endpoint's, from inside resolve() and resolve_claimed().
  [[nodiscard]] virtual bool is_used(PeerId peer) const = 0;
};

struct LinkEvent {
  enum class Kind : uint8_t {
    kUp,       // a connection stands; `identity` is who answered
    kDown,     // it broke; packets in flight may be lost; a later tx_burst to the peer reconnects
    kRefused,  // the peer (or the handshake) says no for a reason that a retry alone does not cure
  };
  PeerId peer = kNoPeer;
  Kind kind = Kind::kDown;
  EndpointIdentity identity;
  absl::Status why;
};

/// Counters every transport keeps; monotonic, read on the endpoint's thread.
struct TransportCounters {
  uint64_t tx_packets = 0;
  uint64_t tx_bytes = 0;
  uint64_t rx_packets = 0;
  uint64_t rx_bytes = 0;
  /// Payload bytes the transport itself copied between buffers (the kernel's own copies are not
  /// counted).
  uint64_t tx_copied_bytes = 0;
  uint64_t rx_copied_bytes = 0;
  /// Payload bytes handed to or taken from the wire in place.
  uint64_t tx_zero_copy_bytes = 0;
  uint64_t rx_zero_copy_bytes = 0;
  /// Malformed or foreign input thrown away.
  uint64_t rx_dropped = 0;
  /// Times tx_burst took fewer packets than offered.
  uint64_t tx_full = 0;
};

class OneSided;

/// Thread: all calls on the endpoint's thread, but for wake(). An implementation is made before its
/// endpoint and destroyed after it.
class Transport {
 public:
  virtual ~Transport() = default;

  [[nodiscard]] virtual const Capabilities& capabilities() const = 0;
  [[nodiscard]] virtual const TransportCounters& counters() const = 0;
  /// What a peer needs to resolve() us.
  [[nodiscard]] virtual Descriptor local_descriptor() const = 0;

  /// Must be set before the first rx_burst if the transport is a stream; datagram transports ignore
  /// it.
  virtual void set_placer(RxPlacer* /*placer*/) {}

  /// Whom the transport asks before it gives a PeerId to another address; must outlive its use here. Null: nobody, and
  /// no peer is used. Streams close callers that no session uses.
  virtual void set_peer_use(const PeerUse* /*use*/) {}

  /// The PeerId of the described endpoint, to send to; no I/O happens yet. For our own dials, whose descriptors come
  /// from where we asked: what they say replaces what was known of the address. INVALID_ARGUMENT: not this transport's
  /// descriptor; FAILED_PRECONDITION: another cluster; RESOURCE_EXHAUSTED: too many peers.
  virtual absl::StatusOr<PeerId> resolve(const Descriptor& peer) = 0;
  /// The same for what somebody says of itself: it changes nothing of a peer that sessions use. Also UNAVAILABLE: the
  /// address is another endpoint's now.
  virtual absl::StatusOr<PeerId> resolve_claimed(const Descriptor& peer) { return resolve(peer); }

  /// Largest payload of a packet that is believed to reach `peer`; at most the capabilities'. Devices may carry larger packets
  /// than a switch between them: a transport that finds a path narrower than it believed says so by a LinkEvent of kind
  /// kRefused whose status is OUT_OF_RANGE. Sessions whose packets fit all the same go on; the others are opened anew, with what
  /// this says then. The endpoint asks when sessions are made, never per packet.
  [[nodiscard]] virtual uint32_t payload_max_bytes(PeerId /*peer*/) const { return capabilities().payload_max_bytes; }

  /// What all peers at one host have in common, as far as the transport can tell; for bounds.
  [[nodiscard]] virtual uint64_t host_of(PeerId peer) const { return peer; }

  /// Takes a prefix of `packets` (in order) and returns how many. Those not taken are the caller's
  /// to offer again. Packets for a peer that cannot be reached are taken and dropped; a LinkEvent
  /// tells.
  virtual size_t tx_burst(std::span<TxPacket> packets) = 0;
  /// False: the peer takes no more for now, and a packet for it might hold up the rest of a burst. The engine serves others
  /// until this turns true; wait() ends when it may have.
  virtual bool has_room(PeerId /*peer*/) { return true; }
  /// A frame to write a packet for `peer` into; none (bytes are null) while has_room() is false, where Capabilities::frames is, or
  /// when the peer's connection is gone. All that were taken go back by send_frames() before the transport's end, in any order.
  virtual TxFrame take_frame(PeerId /*peer*/) { return {}; }
  /// Sends the frames, in order, behind all that was sent before. Each is handed to the wire or lost with its connection; a
  /// transport that may lose packets may also drop one for want of room.
  virtual void send_frames(std::span<const TxFrame> /*frames*/) {}
  /// Fills a prefix of `packets` and returns how many.
  virtual size_t rx_burst(std::span<RxPacket> packets) = 0;
  /// Gives lent memory back, in any order.
  virtual void release(std::span<const RxBufferId> buffers) = 0;
  /// Tokens of packets whose memory is no longer read; returns how many were written.
  virtual size_t reap(std::span<TxToken> /*tokens*/) { return 0; }
  /// The endpoint ends: stop reading the memory of every packet accepted so far, breaking
  /// connections if need be. All outstanding tokens can be reaped afterwards. Packets of at most a
  /// few milliseconds' worth may be flushed first.
  virtual void abandon_tx() {}
  /// Connections that came or went since the last call; returns how many were written.
  virtual size_t poll_links(std::span<LinkEvent> /*events*/) { return 0; }

  /// Makes [region] known to the wire so that it can be sent without copying; it must outlive the
  /// transport or be unregistered. RESOURCE_EXHAUSTED names the limit (for example memlock) and how
  /// to raise it.
  virtual absl::Status register_region(MutableByteSpan /*region*/) { return absl::OkStatus(); }
  virtual void unregister_region(MutableByteSpan /*region*/) {}

  /// Operations on memory of peers, where Capabilities::one_sided says so (rpc/transport/one_sided.h); else null. Their completions
  /// end wait() as packets do.
  [[nodiscard]] virtual OneSided* one_sided() { return nullptr; }

  /// Sleeps until something may be received, a socket can take more, wake() is called, or
  /// `timeout_ns` passed.
  virtual void wait(DurationNs timeout_ns) = 0;
  /// Ends the current or next wait(). Thread: any.
  virtual void wake() = 0;
};

}  // namespace skua::rpc

#endif  // SKUA_RPC_TRANSPORT_TRANSPORT_H_
