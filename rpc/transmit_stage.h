// TransmitStage: the packets of a burst, between the sessions that emit them and the transport that sends them.
//
//      sessions: emit()       +---- staged: up to a burst ----+  flush()      done on return: its hold ends
//      control packets   ---> | TxPacket, TxPacket, ...       | --------->  /
//                             |                               |             \  else in the wire, until reap()
//      sessions: emit_train() +---- pieces: up to a burst ----+  flush()
//      where the wire copies  | TxFrame, TxFrame, ...         | --------->  the transport's again
//                             +-------------------------------+
//
// A staged packet holds its message; the packet's token is the hold. Packets that the transport does not take stay
// staged, in order. Where the wire copies anyhow, a piece of a large message is written into a frame of the
// transport's: no message is held and no token comes back. Pieces leave before staged packets.
//
// The stage knows the peer of a session, and whether its packets have checksums. The endpoint decides which session is
// next, and keeps the sessions whose peers have no room.
#ifndef SKUA_RPC_TRANSMIT_STAGE_H_
#define SKUA_RPC_TRANSMIT_STAGE_H_

#include <array>
#include <cstddef>
#include <cstdint>
#include <span>

#include "rpc/base/message.h"
#include "rpc/endpoint.h"
#include "rpc/protocol/session_host.h"
#include "rpc/transport/transport.h"
#include "rpc/wire/packet_header.h"

namespace skua::rpc {

/// Thread: the endpoint's, which owns the stage. `transport` and `counters` must outlive it.
class TransmitStage final : public PacketSink {
 public:
  TransmitStage(Transport& transport, EndpointCounters& counters)
      : transport_(transport), capabilities_(transport.capabilities()), counters_(counters) {}
  TransmitStage(const TransmitStage&) = delete;
  TransmitStage& operator=(const TransmitStage&) = delete;

  // --- PacketSink
  [[nodiscard]] uint32_t room_packets() const override { return static_cast<uint32_t>(kBurstMax - staged_count_); }
  void emit(const Session& session, const PacketHeader& header, const MessagePtr& payload, size_t offset,
            size_t length) override;
  void emit_train(const Session& session, const PacketHeader& header, const MessagePtr& message, uint32_t piece_bytes,
                  uint32_t count) override;

  /// Stages a packet of the endpoint's own. Its payload is all of `message`. There must be room.
  void stage_control(PeerId peer, const PacketHeader& header, const MessagePtr& message);

  /// False: the peer takes no packet now, or is kNoPeer. A packet for such a peer would hold up the burst.
  [[nodiscard]] bool takes(PeerId peer) { return peer != kNoPeer && transport_.has_room(peer); }
  /// True: the peer takes a packet, and the stage has room for one. Sends what is staged if that makes the room.
  [[nodiscard]] bool make_room_for(PeerId peer) { return takes(peer) && (has_room() || flush() > 0); }

  /// Gives everything to the transport. Returns how many staged packets the transport took; pieces do not count.
  size_t flush() { return nothing_staged() || is_flushing_ ? 0 : flush_all(); }
  /// Ends the holds of packets that the transport has read.
  void reap() {
    if (in_wire_count_ > 0) reap_tokens();
  }
  /// Ends the stage with the endpoint: staged packets are thrown away, and the transport lets go of all that it was
  /// given. Frames that others took from the transport must have been sent before.
  void end();

  /// True inside flush(), which may release a message's body, whose release may call the endpoint.
  [[nodiscard]] bool is_flushing() const { return is_flushing_; }
  [[nodiscard]] bool nothing_staged() const { return staged_count_ == 0 && piece_count_ == 0; }
  /// The number of packets whose hold ends in reap().
  [[nodiscard]] size_t in_wire_count() const { return in_wire_count_; }

 private:
  /// `rest` starts at the payload.
  [[gnu::always_inline]] inline void stage(PeerId peer, const internal::HeaderWords& header, const MessagePtr& payload,
                                           std::span<const ByteSpan> rest, size_t length, bool sealed);
  /// True: packets of the session have checksums.
  [[nodiscard]] bool seals(const Session& session) const;
  [[nodiscard]] bool write_piece(PeerId peer, const internal::HeaderWords& header, std::span<const ByteSpan> rest,
                                 size_t length, bool sealed);
  size_t flush_all();
  void flush_pieces();
  void reap_tokens();
  /// Ends a packet's hold on its message.
  static void let_go(TxToken token) {
    if (token == kNoToken) return;
    MessagePtr::adopt(reinterpret_cast<Message*>(token)).reset();  // NOLINT(performance-no-int-to-ptr)
  }

  Transport& transport_;
  /// The transport's capabilities, copied because each packet needs them.
  const Capabilities capabilities_;
  EndpointCounters& counters_;
  std::array<TxPacket, kBurstMax> staged_;
  size_t staged_count_ = 0;
  std::array<TxFrame, kBurstMax> pieces_;
  size_t piece_count_ = 0;
  bool is_flushing_ = false;
  size_t in_wire_count_ = 0;
};

}  // namespace skua::rpc

#endif  // SKUA_RPC_TRANSMIT_STAGE_H_
