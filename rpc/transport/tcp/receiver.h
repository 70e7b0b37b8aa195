// FrameReceiver: cuts the byte stream of one connection into packets. It is an explicit state machine that starts after
// the hello (connection.h shows all states of a connection).
//
//              +--------------------------------------------------------------------+
//              v                                                                    |
//       kFrameHeader --(all of it in the chunk)--> lend the packet -----------------+
//         |      |                                     ^                            |
//         |      +--(small or a bundle)--> kPayloadInChunk (once complete)          |
//         |                                                                         |
//         +--(payload large)--> RxPlacer::place()                                   |
//                                 |       |                                         |
//                                 |       +--(nullptr)--> kDiscard ----------(done)-+
//                                 +--(memory)--> kPayloadPlaced --(complete: emit)--+
//
//       A frame that is alone (no packet follows) ends with its prefix. Between kFrameHeader and the decision about the
//       payload is kPacketHeader: the prefix is known, the packet header is not.
//       any state --(malformed frame)--> kClosed        reset(): abandons a placement
//
// Bytes that were received but not yet emitted form the `region`: a range of one chunk, kept alive by a reference. The
// next read continues right behind the region if the region ends at the pool's write position. With one busy connection
// that is always the case. Otherwise the region is first moved to the write position.
//
// kPayloadPlaced reads into two targets: the rest of the payload in its final memory, and a little of the chunk behind
// it. In a stream of large packets that makes one system call per packet.
#ifndef SKUA_RPC_TRANSPORT_TCP_RECEIVER_H_
#define SKUA_RPC_TRANSPORT_TCP_RECEIVER_H_

#include <array>
#include <cstdint>
#include <span>
#include <vector>

#include "rpc/transport/tcp/dialect.h"
#include "rpc/transport/tcp/rx_chunks.h"
#include "rpc/transport/transport.h"

namespace skua::rpc::tcp {

/// Shared by all receivers of a transport during one rx_burst.
struct RxContext {
  ChunkPool* chunks = nullptr;
  RxPlacer* placer = nullptr;
  TransportCounters* counters = nullptr;
  uint32_t payload_max_bytes = 0;
  /// Payloads above this size are placed, unless they have already arrived completely.
  uint32_t place_above_bytes = 0;
  std::span<RxPacket> packets;
  size_t count = 0;
  /// Copies of the headers of packets that lend nothing, by position in the burst.
  std::array<std::array<std::byte, kPacketHeaderBytes>, kBurstMax> headers;
};

enum class RxOutcome : uint8_t {
  kDrained,    // nothing more to read for now
  kMore,       // stopped early: the burst is full, the engine has packets to see first, or too many reads
  kStarved,    // no chunk is free
  kEnd,        // the peer closed
  kMalformed,  // not a frame
  kError,      // errno
};

/// Thread: the transport's.
class FrameReceiver {
 public:
  enum class State : uint8_t {
    kFrameHeader,   // waiting for the frame prefix
    kPacketHeader,  // the prefix is known
    kPayloadInChunk,
    kPayloadPlaced,
    kDiscard,
    kClosed,
  };

  void open(PeerId peer, const Dialect& dialect);

  /// Reads from `fd` and appends packets to the burst. Calls place() only while the burst is empty, so that the engine
  /// has seen all earlier packets of the stream before it is asked.
  RxOutcome receive(int fd, RxContext& context);

  /// Moves half-received bytes out of the chunks. After that only lent packets hold chunks.
  void spill(RxContext& context);

  /// Ends a placement under way: tells the placer, and throws the rest of the payload away.
  void cancel_placement(RxPlacer* placer);

  /// Goes to kClosed: gives chunks back and ends a placement.
  void reset(RxContext& context);

  [[nodiscard]] State state() const { return state_; }
  /// No frame has arrived in part.
  [[nodiscard]] bool is_between_frames() const {
    return state_ == State::kFrameHeader && region_size() == 0 && spilled_.empty();
  }
  /// Payload bytes of the latest frame whose prefix is known.
  [[nodiscard]] uint32_t payload_bytes() const { return payload_bytes_; }
  /// Changes while the payload of a large frame comes; 0: none is under way.
  [[nodiscard]] uint64_t progress() const {
    const bool is_under_way = state_ == State::kPayloadPlaced || state_ == State::kDiscard;
    return is_under_way ? 1 + uint64_t{payload_done_} : 0;
  }
  /// Frames that have ended.
  [[nodiscard]] uint64_t frame_count() const { return frame_count_; }
  /// Asking packets that were given to the engine or thrown away, modulo kNoticeMask + 1.
  [[nodiscard]] uint32_t asked_count() const { return asked_count_; }
  /// The peer's count of this side's asking packets (FramePrefix::has).
  [[nodiscard]] uint32_t peer_has() const { return peer_has_; }
  /// True if receive() can do something while no chunk is free.
  [[nodiscard]] bool reads_without_chunk() const {
    return state_ == State::kPayloadPlaced || state_ == State::kDiscard;
  }

 private:
  enum class Parse : uint8_t { kNeedBytes, kStop, kStarved, kMalformed };
  enum class Read : uint8_t { kFull, kShort, kStarved, kEnd, kError };

  Parse parse(RxContext& context);
  enum class Prefix : uint8_t { kPacket, kAlone, kMalformed };
  Prefix parse_prefix(const RxContext& context, const std::byte* frame);
  bool check_bundle(const RxContext& context, const std::byte* header);
  void end_packet();
  void emit_lent(RxContext& context, const std::byte* frame);
  bool begin_placement(RxContext& context, const std::byte* frame);
  void emit_placed(RxContext& context);

  Read read_chunk(int fd, RxContext& context);
  Read read_placed(int fd, RxContext& context);
  Read read_discard(int fd);

  [[nodiscard]] uint32_t region_size() const { return end_ - begin_; }
  [[nodiscard]] uint32_t prefix_bytes() const { return dialect_->frame_bytes + kPacketHeaderBytes; }
  bool make_room(RxContext& context, uint32_t bytes);
  bool unspill(RxContext& context);
  void extend_region(RxContext& context, uint32_t bytes);
  void shrink_region(RxContext& context, uint32_t bytes);

  PeerId peer_ = kNoPeer;
  const Dialect* dialect_ = nullptr;
  State state_ = State::kClosed;
  /// The last frame was large: read little beyond it, because those bytes would be copied.
  bool expect_large_ = false;

  uint32_t chunk_ = 0;
  uint32_t begin_ = 0;
  uint32_t end_ = 0;
  std::vector<std::byte> spilled_;

  uint64_t frame_count_ = 0;
  uint32_t asked_count_ = 0;
  uint32_t peer_has_ = 0;

  /// Of the frame under way:
  uint32_t payload_bytes_ = 0;
  bool asks_ = false;
  /// The payload is received behind its header, not placed.
  bool stays_in_chunk_ = false;
  /// Payload bytes placed or thrown away so far.
  uint32_t payload_done_ = 0;
  RxPlacer::Placement placement_;
  std::array<std::byte, kPacketHeaderBytes> header_;
};

}  // namespace skua::rpc::tcp

#endif  // SKUA_RPC_TRANSPORT_TCP_RECEIVER_H_
