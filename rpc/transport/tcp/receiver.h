// FrameReceiver: cuts the byte stream of one connection into packets. An explicit state machine;
// the hello is over when it starts (connection.h draws the whole).
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
//       A frame that is alone ends with its prefix. kFrameHeader has a second half, kPacketHeader: the prefix is known.
//       any state --(malformed frame)--> kClosed        reset(): abandons a placement
//
// Bytes that are received and not yet emitted are the `region`: a stretch of one chunk, held by a
// reference. The next read continues right behind it when it still ends where the pool writes,
// which is always so with one busy connection; else the region is first moved there.
//
// kPayloadPlaced reads with two targets, the rest of the payload in its final memory and then a
// little of the chunk: in a stream of large packets that is one system call per packet.
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

/// What all receivers of a transport share during one rx_burst.
struct RxContext {
  ChunkPool* chunks = nullptr;
  RxPlacer* placer = nullptr;
  TransportCounters* counters = nullptr;
  uint32_t payload_max_bytes = 0;
  /// Payloads above this are placed unless they are complete already.
  uint32_t place_above_bytes = 0;
  std::span<RxPacket> packets;
  size_t count = 0;
  /// Headers of packets that lend nothing; by position in the burst.
  std::array<std::array<std::byte, kPacketHeaderBytes>, kBurstMax> headers;
};

enum class RxOutcome : uint8_t {
  kDrained,    // nothing more to read for now
  kMore,       // stopped early: the burst is full, or the next packet needs the engine's answer
  kStarved,    // no chunk is free
  kEnd,        // the peer closed
  kMalformed,  // not a frame
  kError,      // errno
};

/// Thread: the transport's.
class FrameReceiver {
 public:
  enum class State : uint8_t {
    kFrameHeader,   // what precedes the packet header
    kPacketHeader,  // the prefix is known
    kPayloadInChunk,
    kPayloadPlaced,
    kDiscard,
    kClosed,
  };

  void open(PeerId peer, const Dialect& dialect);

  /// Reads from `fd` and appends packets to the burst. place() is only called when the burst is
  /// empty, so that the engine has seen every packet before the one it is asked about.
  RxOutcome receive(int fd, RxContext& context);

  /// Moves half-received bytes out of the chunks, which then are held by lent packets only.
  void spill(RxContext& context);

  /// Ends a placement under way (the payload's rest is thrown away); the placer is told.
  void cancel_placement(RxPlacer* placer);

  /// To kClosed: gives chunks back and tells the placer.
  void reset(RxContext& context);

  [[nodiscard]] State state() const { return state_; }
  /// Nothing of a frame has come whose rest has not.
  [[nodiscard]] bool is_between_frames() const {
    return state_ == State::kFrameHeader && region_size() == 0 && spilled_.empty();
  }
  /// Of the frame under way, as far as it is known.
  [[nodiscard]] uint32_t payload_bytes() const { return payload_bytes_; }
  /// Packets that asked and are with the engine, or thrown away, modulo kNoticeMask + 1.
  [[nodiscard]] uint32_t asked_count() const { return asked_count_; }
  /// What the peer said of ours (FramePrefix::has).
  [[nodiscard]] uint32_t peer_has() const { return peer_has_; }
  /// Whether receive() can do something while no chunk is free.
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
  /// The last frames were large: read little beyond them, since it would be copied.
  bool expect_large_ = false;

  uint32_t chunk_ = 0;
  uint32_t begin_ = 0;
  uint32_t end_ = 0;
  std::vector<std::byte> spilled_;

  uint32_t asked_count_ = 0;
  uint32_t peer_has_ = 0;

  /// Of the frame under way.
  uint32_t payload_bytes_ = 0;
  bool asks_ = false;
  /// The payload stays behind its header.
  bool stays_in_chunk_ = false;
  /// Of the payload: placed or thrown away so far.
  uint32_t payload_done_ = 0;
  RxPlacer::Placement placement_;
  std::array<std::byte, kPacketHeaderBytes> header_;
};

}  // namespace skua::rpc::tcp

#endif  // SKUA_RPC_TRANSPORT_TCP_RECEIVER_H_
