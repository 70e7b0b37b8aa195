// SessionContext: what the two halves of a session share: the session's addresses, what was agreed, and how its packets
// are made.
#ifndef SKUA_RPC_PROTOCOL_SESSION_CONTEXT_H_
#define SKUA_RPC_PROTOCOL_SESSION_CONTEXT_H_

#include <algorithm>
#include <cstdint>

#include "rpc/base/clock.h"
#include "rpc/protocol/announcement.h"
#include "rpc/protocol/options.h"
#include "rpc/protocol/session_host.h"
#include "rpc/protocol/small_slots.h"
#include "rpc/wire/handshake.h"
#include "rpc/wire/packet_header.h"

namespace skua::rpc {

/// Thread: the endpoint's. The session owns it; both halves refer to it.
struct SessionContext {
  SessionContext(SessionHost& its_host, const ProtocolOptions& its_options, Session& its_session, SessionHot& its_hot)
      : host(its_host), options(its_options), session(its_session), hot(its_hot) {}

  SessionHost& host;
  const ProtocolOptions& options;
  /// Passed to the host, to name the session.
  Session& session;
  /// What both halves share with the small calls.
  SessionHot& hot;
  SmallSlots small_slots;
  SessionAddress address;
  SessionTerms terms;
  bool open = false;
  bool reliable = false;
  TimeNs last_heard_ns = 0;
  /// When the first unanswered ping left. 0: all were answered.
  TimeNs pinged_since_ns = 0;
  /// When on_timer() has work next, not counting departures.
  TimeNs due_ns = kTimeNever;

  /// on_timer() will run at `when` or earlier.
  void arm(TimeNs when) {
    if (when >= due_ns) return;  // the host will come by then
    due_ns = when;
    host.arm_timer(session, when);
  }
  /// As arm(), for a small call.
  void arm_small(Ticks when, TimeNs now) {
    arm(now + static_cast<int32_t>(when - to_ticks(now)) * kTickNs);
    tell_due(now);
  }
  /// Tells small calls when on_timer() runs. They use 32-bit ticks, so only a time that is near can be told.
  void tell_due(TimeNs now) {
    const bool is_near = due_ns != kTimeNever && due_ns - now <= 60 * kSecond;
    if (is_near) hot.due = to_ticks(due_ns);
    hot.hinder(SessionHot::kUnarmed, !is_near);
  }
  void drop(DropReason reason) const { host.count_drop(reason); }

  /// Makes a message of what an sslot kept of a small call: the message that it held, or a copy of its bytes.
  [[nodiscard]] MessagePtr take_message(Kept& kept, const FewBytes& few) const {
    if (kept.message != nullptr) return MessagePtr::adopt(std::exchange(kept.message, nullptr));
    MessagePtr message = host.make_message();
    message->append_copy(ByteSpan(few.at).first(kept.few_count));
    return message;
  }
  [[nodiscard]] uint32_t pieces_of(size_t bytes) const {
    if (bytes <= terms.payload_bytes) return 1;
    return static_cast<uint32_t>((bytes + terms.payload_bytes - 1) / terms.payload_bytes);
  }
  [[nodiscard]] uint32_t piece_bytes(size_t message_bytes, uint32_t index) const {
    const size_t offset = size_t{index} * terms.payload_bytes;
    return static_cast<uint32_t>(std::min<size_t>(terms.payload_bytes, message_bytes - offset));
  }
  /// True: the payload has exactly the size of this piece of its message.
  [[nodiscard]] bool is_whole_piece(const Arrival& arrival) const {
    const PacketHeader& header = arrival.header;
    if (header.message_bytes <= terms.payload_bytes) {
      return header.packet_index == 0 && arrival.payload.size() == header.message_bytes;
    }
    return header.packet_index < pieces_of(header.message_bytes) &&
           arrival.payload.size() == piece_bytes(header.message_bytes, header.packet_index);
  }
  [[nodiscard]] PacketHeader header_for(PacketType type, uint32_t req_num) const {
    PacketHeader header;
    header.type = type;
    header.session_index = address.remote_index;
    header.session_generation = address.remote_generation;
    header.req_num = req_num;
    return header;
  }
  /// Windows are powers of two.
  [[nodiscard]] uint32_t slot_of(uint32_t req_num) const { return req_num & (terms.window - 1u); }
  [[nodiscard]] MessageOwner owner_of(bool is_request, uint32_t req_num) const {
    return {address.local_index, address.local_generation, is_request, req_num};
  }
  /// True: the owner is of this life of the session.
  [[nodiscard]] bool is_owner(const MessageOwner& owner) const {
    return open && owner.session_generation == address.local_generation;
  }
};

}  // namespace skua::rpc

#endif  // SKUA_RPC_PROTOCOL_SESSION_CONTEXT_H_
