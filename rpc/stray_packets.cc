#include "rpc/stray_packets.h"

#include "rpc/protocol/session.h"

namespace skua::rpc {

/// A sender that waits for an answer is told that the session does not exist here.
void StrayPackets::tell_unknown(const PacketHeader& header, PeerId from) {
  const bool asks =
      header.type == PacketType::kRequest || header.type == PacketType::kPull || header.type == PacketType::kPing;
  if (!asks || from == kNoPeer) return;
  PacketHeader reply;
  reply.type = PacketType::kUnknownSession;
  reply.session_index = header.session_index;
  reply.session_generation = header.session_generation;
  transmits_.send_control(from, reply, {});
}

void StrayPackets::dispatch(const Arrival& arrival, PeerId from) {
  const PacketHeader& header = arrival.header;
  if (header.type == PacketType::kConnect || header.type == PacketType::kAccept ||
      header.type == PacketType::kUnknownSession) {
    return on_handshake(arrival, from);
  }
  SessionEntry* entry = context_.sessions.at(header.session_index);
  const bool known = entry != nullptr && entry->wire_generation == header.session_generation &&
                     (entry->state == SessionEntry::State::kOpen || entry->state == SessionEntry::State::kConnecting ||
                      entry->state == SessionEntry::State::kAwaitingAnswer);
  if (!known) {
    context_.count_drop(entry == nullptr ? DropReason::kUnknownSession : DropReason::kOldGeneration);
    return tell_unknown(header, from);
  }
  if (SessionBinding::is_lost_peer(*entry, from)) {
    if (!binding_.bind_again(*entry, from)) return tell_unknown(header, from);
    if (is_for_session(header.type)) return entry->session->on_packet(arrival, context_.now_ns);
  }
  // Anybody who has seen the session's packets knows its numbers, so they prove nothing here. No answer is sent,
  // because the answer would end the session at its real peer.
  if (entry->peer != from) return context_.count_drop(DropReason::kForeignSender);
  if (entry->state != SessionEntry::State::kOpen) return context_.count_drop(DropReason::kNotReady);
  lives_.end(*entry, absl::UnavailableError("the peer closed the session"));  // only kDisconnect is left
}

void StrayPackets::on_handshake(const Arrival& arrival, PeerId from) {
  const PacketHeader& header = arrival.header;
  // The packet echoes the ids of the peer's session.
  if (header.type == PacketType::kUnknownSession) {
    return lives_.lost_at_peer(from, header.session_index, header.session_generation);
  }
  // What opens a session has to come from somebody whose name is known.
  if (context_.capabilities.keyed) return context_.count_drop(DropReason::kRefusedHandshake);
  if (header.type == PacketType::kConnect) return acceptor_.on_connect(arrival, from);
  dialer_.on_accept(arrival, from);
}

}  // namespace skua::rpc
