// Large messages that their receiver reads, where the transport can (rpc/transport/one_sided.h).
//
//   caller                                            callee
//   request announced: kRequest + kByRead ----------> fetches: READ, READ, ... from the caller's memory
//     (a ReadList: where the bytes lie)               then the handler runs, as for any request
//   fetches <---------------- kResponse + kByRead     response announced
//     ... kRelease --------------------------------->  its memory may be released
//
// An announcement is a message of one packet, so acknowledgements, retransmission and probes work as for small calls.
// The difference is how long the sender's memory is in use. Announced memory is lent (rpc/loans.h), and an announcement
// waits until its memory is lent. After the end of a loan the memory is safe, whatever a peer does. But a peer that
// READs what was taken back loses its connection, and the same name may be given out again later. So loans last until
// the peer has said that it is done, or until it was cut off (host.sever()).
//
//   request    The loan ends when the response arrives. If the call ends before (deadline, cancel), its slot lingers:
//              it sends kRelease + kByRead, again and again, until kReleased says that nothing is being read. If the
//              request arrives after its release, it is ignored, because the release has used its number.
//   response   The loan ends when kRelease arrives. It is sent when the READs have ended, also if the call has ended
//              meanwhile. In this case the slot lingers until then, so that no newer request takes the response's
//              place.
//
// A READ can fail (the connection under it broke, memory was not registered). Then the same message goes in packets:
// the callee asks for them in an ack, the caller in its pulls, each with kByRead.
#include <algorithm>

#include "rpc/protocol/protocol_mutants.h"
#include "rpc/protocol/session_caller.h"

namespace skua::rpc {

using enum PacketType;

bool CallerHalf::is_announcing() const {
  for (uint32_t i = 0; slots_ != nullptr && i < context_.terms.window; ++i) {
    if (slots_[i].announced) return true;
  }
  return false;
}

void CallerHalf::on_fetched(const MessageOwner& owner, bool ok, Lease&& message, TimeNs now) {
  if (slots_ == nullptr) return;
  Slot& slot = slots_[context_.slot_of(owner.req_num)];
  if (slot.req_num == owner.req_num && slot.fetching) on_response_fetched(slot, ok, std::move(message), now);
}

void CallerHalf::on_lent(const MessageOwner& owner, TimeNs now) {
  if (slots_ == nullptr) return;
  Slot& slot = slots_[context_.slot_of(owner.req_num)];
  if (slot.req_num != owner.req_num || slot.call == nullptr || !slot.announced) return;
  slot.announced.failed() ? send_in_packets(slot, now) : make_ready(slot);
}

// --- Caller: requests ------------------------------------------------------------------------------------------------

void CallerHalf::announce_request(Slot& slot) {
  if (context_.reliable || slot.call->request->size() <= context_.options.read_above_bytes) return;
  slot.announced = context_.host.announce(context_.owner_of(true, slot.req_num), slot.call->request);
  if (slot.announced) slot.request_pieces = 1;
}

void CallerHalf::emit_announced_request(Slot& slot, PacketSink& sink, TimeNs now) {
  Call& call = *slot.call;
  PacketHeader header = context_.header_for(kRequest, slot.req_num);
  header.method = call.method;
  header.flags = packet_flags::kByRead | (call.one_way ? packet_flags::kOneWay : uint8_t{0});
  header.message_bytes = static_cast<uint32_t>(call.request->size());
  header.deadline_ms = deadline_field(call.deadline_ns, now);
  header.stamp = to_ticks(now);
  if (slot.in_flight.empty()) slot.last_progress_ns = now;
  note_sent(call);
  slot.in_flight.on_sent(0, now);
  const MessagePtr& list = slot.announced.list();
  sink.emit(context_.session, header, list, 0, list->size());
}

/// The callee could not read the request, and has stopped reading: sends the request in packets.
void CallerHalf::send_in_packets(Slot& slot, TimeNs now) {
  slot.announced.reset();
  slot.request_pieces = context_.pieces_of(slot.call->request->size());
  slot.settled.reset(slot.request_pieces);
  slot.in_flight.reset();
  slot.lost.clear();
  slot.next_unit = 0;
  slot.probes = 0;
  slot.last_progress_ns = now;
  return_credits(slot, 0);
  make_ready(slot);
}

// --- Caller: responses -----------------------------------------------------------------------------------------------

void CallerHalf::on_announced_response(const Arrival& arrival, TimeNs now) {
  Slot* slot = slot_for(arrival.header);
  if (slot == nullptr) return;
  const PacketHeader& header = arrival.header;
  if (header.message_bytes > context_.terms.message_max_bytes) return context_.drop(DropReason::kTooLarge);
  ReadList list;
  if (header.packet_index != 0 || !ReadList::decode(arrival.payload, list) ||
      list.message_bytes() != header.message_bytes) {
    return context_.drop(DropReason::kBadLength);
  }
  if (slot->fetching || slot->response_pieces != 0) return context_.drop(DropReason::kDuplicate);
  note_rtt(*slot, arrival, now);
  settle_request(*slot);
  slot->announced.reset();  // a peer that answers has read the request
  slot->in_flight.reset();
  slot->lost.clear();
  return_credits(*slot, 1);
  slot->response_flags = header.flags & packet_flags::kEngineStatus;
  slot->response_status = header.method;
  slot->response_bytes = header.message_bytes;
  switch (context_.host.fetch(context_.owner_of(false, slot->req_num), list, header.message_bytes)) {
    case SessionHost::Fetch::kStarted: slot->fetching = true; return;
    case SessionHost::Fetch::kNoMemory: return on_unplaceable(header, now);
    case SessionHost::Fetch::kImpossible: return fetch_in_packets(*slot, now);
  }
}

void CallerHalf::on_response_fetched(Slot& slot, bool ok, Lease&& message, TimeNs now) {
  slot.fetching = false;
  if (slot.call == nullptr) {
    slot.release_due = true;
    slot.release_req_num = slot.req_num;
    make_ready(slot);
    return end_linger(slot, now);
  }
  slot.last_progress_ns = now;
  if (!ok) return fetch_in_packets(slot, now);
  context_.last_heard_ns = std::max(context_.last_heard_ns, now);
  complete_fetched(slot, std::move(message));
}

void CallerHalf::fetch_in_packets(Slot& slot, TimeNs now) {
  std::optional<Assembly> assembly = context_.host.assemble(context_.session, slot.response_bytes, false);
  if (!assembly.has_value()) {
    context_.drop(DropReason::kNoMemory);
    return fail(
        slot,
        local_failure(
            absl::ResourceExhaustedError("no memory for the response; raise the endpoint's memory_limit_bytes"), true),
        now);
  }
  slot.response = std::move(*assembly);
  slot.response_pieces = context_.pieces_of(slot.response_bytes);
  slot.settled.extend(slot.request_pieces + slot.response_pieces);
  slot.next_unit = slot.request_pieces;
  slot.packets_wanted = true;
  slot.probes = 0;
  slot.last_progress_ns = now;
  make_ready(slot);
  context_.arm(slot_timer_ns(slot));
}

// --- Caller: calls that end before their memory is free --------------------------------------------------------------

/// The call is about to leave the slot. Keeps the slot if what it announced or fetches may still be in use.
void CallerHalf::linger(Slot& slot, TimeNs now) {
  const bool peer_is_done = slot.call->outcome.from_peer || !slot.call->sent;
  if (context_.open && slot.announced && !peer_is_done && !mutant(Mutant::kDropLent)) {
    slot.probes = 0;
    slot.release_again_ns = now + rtt_.probe_timeout_ns(context_.options, 0);
    context_.arm(slot.release_again_ns);
  } else {
    slot.announced.reset();
  }
  if (!context_.open) slot.fetching = false;  // the fetch goes on to its end, without an owner
  if (slot.fetching) slot.release_again_ns = kTimeNever;
  if (slot.fetching || slot.announced) ++lingering_count_;
}

void CallerHalf::end_linger(Slot& slot, TimeNs now) {
  slot.announced.reset();
  --lingering_count_;
  context_.hot.free_slot(slot.index);
  if (!backlog_.empty()) start_backlog(now);
}

void CallerHalf::on_linger_timer(Slot& slot, TimeNs now) {
  if (now < slot.release_again_ns) return;
  slot.probes = std::min(slot.probes + 1, 7u);
  slot.release_again_ns = now + rtt_.probe_timeout_ns(context_.options, slot.probes);
  slot.release_due = true;
  slot.release_req_num = slot.req_num;
  context_.host.count_retransmit();
  make_ready(slot);
}

void CallerHalf::on_released(const PacketHeader& header, TimeNs now) {
  if (!context_.open || slots_ == nullptr) return context_.drop(DropReason::kUnexpectedResponse);
  Slot& slot = slots_[context_.slot_of(header.req_num)];
  if (slot.call != nullptr || !slot.announced || slot.req_num != header.req_num) {
    return context_.drop(DropReason::kUnexpectedResponse);
  }
  slot.release_due = false;
  end_linger(slot, now);
}

}  // namespace skua::rpc
