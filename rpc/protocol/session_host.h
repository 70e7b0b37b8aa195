// What a session needs from around it, and what goes between the two. The endpoint implements it, and so do tests.
#ifndef SKUA_RPC_PROTOCOL_SESSION_HOST_H_
#define SKUA_RPC_PROTOCOL_SESSION_HOST_H_

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <optional>

#include "rpc/base/clock.h"
#include "rpc/base/lease.h"
#include "rpc/base/message.h"
#include "rpc/protocol/announcement.h"
#include "rpc/protocol/call.h"
#include "rpc/wire/packet_header.h"
#include "rpc/wire/read_list.h"

namespace skua::rpc {

class Session;

/// Where transmit() puts packets. Implemented by the endpoint (a transport burst) and by tests (a
/// recorder).
class PacketSink {
 public:
  /// Packets that may still be emitted now.
  [[nodiscard]] virtual uint32_t room_packets() const = 0;
  [[nodiscard]] bool has_room() const { return room_packets() > 0; }
  /// `payload` (may be null) is held by the sink until the transport no longer reads it.
  virtual void emit(const Session& session, const PacketHeader& header, const MessagePtr& payload, size_t offset,
                    size_t length) = 0;
  /// A train: `count` pieces in a row of a message that is cut into pieces of `piece_bytes`, the first being the
  /// header's packet index; there is room for all of them. As so many calls of emit() whose headers differ in the
  /// packet index only.
  virtual void emit_train(const Session& session, const PacketHeader& header, const MessagePtr& message,
                          uint32_t piece_bytes, uint32_t count) {
    PacketHeader piece = header;
    for (uint32_t i = 0; i < count; ++i, ++piece.packet_index) {
      const size_t offset = size_t{piece.packet_index} * piece_bytes;
      emit(session, piece, message, offset, std::min<size_t>(piece_bytes, message->size() - offset));
    }
  }

 protected:
  ~PacketSink() = default;
};

/// A received packet, header decoded and checksum verified.
struct Arrival {
  PacketHeader header;
  ByteSpan payload;
};

/// Memory to put a multi-packet message together in; the lease covers exactly the message.
struct Assembly {
  std::byte* data = nullptr;
  Lease lease;
};

/// A complete request, for the endpoint to hand to a handler.
struct ArrivedRequest {
  uint32_t slot = 0;
  uint32_t req_num = 0;
  uint16_t method = 0;
  bool one_way = false;
  TimeNs deadline_ns = kTimeNever;
  Lease request;
};

/// What a session needs from around it. Implemented by the endpoint.
class SessionHost {
 public:
  /// The session has something to transmit.
  virtual void mark_ready(Session& session) = 0;
  /// Where the session may put a packet right now, ahead of the next transmit(); nullptr: it waits its turn.
  virtual PacketSink* express(const Session& session) = 0;
  /// on_timer() wants to run at `when` (or earlier than what was asked for before).
  virtual void arm_timer(Session& session, TimeNs when) = 0;
  /// The packet now being handled is a whole message: keep its bytes (lent, or copied out under pressure) by `lease`,
  /// which is empty before. False if there is no memory to copy them to.
  virtual bool keep(const Arrival& arrival, Lease& lease) = 0;
  /// Memory for a message of `bytes` from the session's peer, or nothing if there is none, or none for that peer.
  virtual std::optional<Assembly> assemble(const Session& session, size_t bytes) = 0;
  virtual MessagePtr make_message() = 0;
  /// Lends `message` to the peer, which can read the message itself then; empty: it has to go in packets. If the
  /// announcement is pending, on_lent() comes.
  virtual Announcement announce(const MessageOwner& owner, const MessagePtr& message) = 0;
  /// Reads what the peer announced. The session hears of the end by on_fetched(), if it is kStarted.
  enum class Fetch : uint8_t { kStarted, kNoMemory, kImpossible };
  virtual Fetch fetch(const MessageOwner& owner, const ReadList& list, uint32_t message_bytes) = 0;
  /// When this returns the peer reads no memory of ours any more, whatever it was told.
  virtual void sever(const Session& session) = 0;
  virtual void deliver(Session& session, ArrivedRequest&& request) = 0;
  /// May the method be called one-way?
  [[nodiscard]] virtual bool takes_one_way(uint16_t method) const = 0;
  /// The call left the session for good; its outcome is in it.
  virtual void complete(Call& call) = 0;
  /// Starts a call that waited as a small one, if it still can be; its record stays until it is complete.
  virtual bool start_small(Session& session, Call& call) = 0;
  /// An empty record for a small call of the session that goes on as a large one (small_slots.h).
  virtual Call& take_over(Session& session) = 0;
  virtual void count_drop(DropReason reason) = 0;
  virtual void count_retransmit() = 0;
  virtual void count_copied(size_t bytes) = 0;

 protected:
  ~SessionHost() = default;
};

/// Who a session is on the wire.
struct SessionAddress {
  uint32_t local_index = 0;
  uint32_t local_generation = 0;
  uint32_t remote_index = 0;
  uint32_t remote_generation = 0;
};

}  // namespace skua::rpc

#endif  // SKUA_RPC_PROTOCOL_SESSION_HOST_H_
