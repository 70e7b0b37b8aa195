// What a session needs from its surroundings, and what passes between the two. The endpoint and tests implement it.
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

/// Takes the packets of transmit(). Implemented by the endpoint (a transport burst) and by tests (a recorder).
class PacketSink {
 public:
  /// How many more packets may be emitted now.
  [[nodiscard]] virtual uint32_t room_packets() const = 0;
  [[nodiscard]] bool has_room() const { return room_packets() > 0; }
  /// The sink holds `payload` (may be null) until the transport no longer reads it.
  virtual void emit(const Session& session, const PacketHeader& header, const MessagePtr& payload, size_t offset,
                    size_t length) = 0;
  /// A train: `count` consecutive pieces of a message that is cut into pieces of `piece_bytes`. The header's packet
  /// index names the first one. There must be room for all of them. Equals `count` calls of emit() whose headers differ
  /// only in the packet index.
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

/// Memory in which a multi-packet message is assembled. The lease covers exactly the message.
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

/// What a session needs from its surroundings. Implemented by the endpoint.
class SessionHost {
 public:
  /// The session has something to transmit.
  virtual void mark_ready(Session& session) = 0;
  /// Where the session may put a packet at once, before the next transmit(). Null: the session has to wait its turn.
  virtual PacketSink* express(const Session& session) = 0;
  /// on_timer() shall run at `when`, or at the time asked for before if that is earlier.
  virtual void arm_timer(Session& session, TimeNs when) = 0;
  /// The packet that is being handled is a whole message: keeps its bytes in `lease`, which must be empty. They are
  /// lent, or copied if too much is lent. False: there is no memory for a copy.
  virtual bool keep(const Arrival& arrival, Lease& lease) = 0;
  /// Memory for a message of `bytes` from the session's peer. nullopt: there is none, or none left for this peer.
  /// `is_request`: the peer asks us; otherwise the message answers a call of ours.
  virtual std::optional<Assembly> assemble(const Session& session, size_t bytes, bool is_request) = 0;
  /// As Transport::progress(), for the session's peer.
  [[nodiscard]] virtual uint64_t progress(const Session& /*session*/) const { return 0; }
  /// A message above that finds no memory, whatever others give back.
  [[nodiscard]] virtual size_t assembly_bytes_max() const = 0;
  virtual MessagePtr make_message() = 0;
  /// Lends `message` to the peer, which can then read it. Empty: the message has to go in packets. If the announcement
  /// is pending, the session's on_lent() is called later.
  virtual Announcement announce(const MessageOwner& owner, const MessagePtr& message) = 0;
  /// Starts to read what the peer announced. If kStarted is returned, the session's on_fetched() is called at the end.
  enum class Fetch : uint8_t { kStarted, kNoMemory, kImpossible };
  virtual Fetch fetch(const MessageOwner& owner, const ReadList& list, uint32_t message_bytes) = 0;
  /// Ends the peer's access: when this returns, the peer no longer reads any memory of ours.
  virtual void sever(const Session& session) = 0;
  virtual void deliver(Session& session, ArrivedRequest&& request) = 0;
  /// Whether the method may be called one-way.
  [[nodiscard]] virtual bool takes_one_way(uint16_t method) const = 0;
  /// The session is done with the call, which contains its outcome.
  virtual void complete(Call& call) = 0;
  /// Starts a call that waited as a small call, if this is still possible. Its record stays until it is complete.
  virtual bool start_small(Session& session, Call& call) = 0;
  /// An empty record for a small call of the session that becomes a large one (small_slots.h).
  virtual Call& take_over(Session& session) = 0;
  virtual void count_drop(DropReason reason) = 0;
  virtual void count_retransmit() = 0;
  virtual void count_copied(size_t bytes) = 0;

 protected:
  ~SessionHost() = default;
};

/// How both ends name a session on the wire.
struct SessionAddress {
  uint32_t local_index = 0;
  uint32_t local_generation = 0;
  uint32_t remote_index = 0;
  uint32_t remote_generation = 0;
};

}  // namespace skua::rpc

#endif  // SKUA_RPC_PROTOCOL_SESSION_HOST_H_
