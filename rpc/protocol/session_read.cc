// Large messages that their receiver reads itself, where the transport can (rpc/transport/one_sided.h).
//
//   caller                                            callee
//   request announced: kRequest + kByRead ----------> fetches: READ, READ, ... from the caller's memory
//     (a ReadList: where the bytes lie)               then the handler runs, as for any request
//   fetches <---------------- kResponse + kByRead     response announced
//     ... kRelease --------------------------------->  its memory may go
//
// An announcement is a message of one packet, so acknowledgements, retransmission and probes work as for small calls. What
// differs is whose memory is in use for how long. Memory that is announced is lent (rpc/loans.h), and an announcement
// waits for the loan. The memory is safe from the end of a loan on, whatever a peer does; but a READ of what is taken
// back costs the peer the connection, and a name may come back in time. So loans last until the peer has said that it
// is done, or has been cut off (host.sever()).
//
//   request    done when the response is here. If the call ends before (deadline, cancel), its slot lingers: it asks with
//              kRelease + kByRead, again and again, until kReleased says that nothing is being read. A request that arrives after
//              its release is ignored, because the release takes its number.
//   response   done when kRelease is here, which is sent when the READs have ended, also if the call ended meanwhile: its slot
//              lingers until then, so that no newer request can take the response's place before.
//
// When a READ fails (the connection under it broke, memory was not registered), the same message goes in packets: the callee says so
// in an ack, the caller in its pulls, each with kByRead.
#include <algorithm>

#include "rpc/protocol/mutants.h"
#include "rpc/protocol/session.h"

namespace skua::rpc {

using enum PacketType;

/// Some memory of ours may be being read.
bool Session::peer_may_read() const {
  if (!open_) return false;
  for (uint32_t i = 0; client_slots_ != nullptr && i < terms_.window; ++i) {
    if (client_slots_[i].announced) return true;
  }
  for (uint32_t i = 0; server_slots_ != nullptr && i < terms_.window; ++i) {
    if (server_slots_[i].announced) return true;
  }
  return false;
}

void Session::on_fetched(const MessageOwner& owner, bool ok, Lease&& message, TimeNs now) {
  if (!open_ || owner.session_generation != address_.local_generation) return;
  if (owner.is_request) {
    if (server_slots_ == nullptr) return;
    ServerSlot& slot = server_slots_[slot_of(owner.req_num)];
    if (slot.req_num != owner.req_num || slot.state != ServerSlot::State::kFetching) return;
    return on_request_fetched(slot, ok, std::move(message), now);
  }
  if (client_slots_ == nullptr) return;
  ClientSlot& slot = client_slots_[slot_of(owner.req_num)];
  if (slot.req_num == owner.req_num && slot.fetching) on_response_fetched(slot, ok, std::move(message), now);
}

void Session::on_lent(const MessageOwner& owner, TimeNs now) {
  if (!open_ || owner.session_generation != address_.local_generation) return;
  if (owner.is_request) {
    if (client_slots_ == nullptr) return;
    ClientSlot& slot = client_slots_[slot_of(owner.req_num)];
    if (slot.req_num != owner.req_num || slot.call == nullptr || !slot.announced) return;
    return slot.announced.failed() ? send_in_packets(slot, now) : make_ready(slot);
  }
  if (server_slots_ == nullptr) return;
  ServerSlot& slot = server_slots_[slot_of(owner.req_num)];
  if (slot.req_num != owner.req_num || slot.state != ServerSlot::State::kResponding || !slot.announced) return;
  if (slot.announced.failed()) {
    respond_in_packets(slot);
    slot.wanted.insert(0);
  }
  make_ready(slot);
}

// --- Caller: requests ------------------------------------------------------------------------------------------------

void Session::announce_request(ClientSlot& slot) {
  if (reliable_ || slot.call->request->size() <= options_.read_above_bytes) return;
  slot.announced = host_.announce(owner_of(true, slot.req_num), slot.call->request);
  if (slot.announced) slot.request_pieces = 1;
}

void Session::emit_announced_request(ClientSlot& slot, PacketSink& sink, TimeNs now) {
  Call& call = *slot.call;
  PacketHeader header = header_for(kRequest, slot.req_num);
  header.method = call.method;
  header.flags = packet_flags::kByRead | (call.one_way ? packet_flags::kOneWay : uint8_t{0});
  header.message_bytes = static_cast<uint32_t>(call.request->size());
  header.deadline_ms = deadline_field(call.deadline_ns, now);
  header.stamp = to_ticks(now);
  if (slot.in_flight.empty()) slot.last_progress_ns = now;
  call.sent = true;
  slot.in_flight.on_sent(0, now);
  const MessagePtr& list = slot.announced.list();
  sink.emit(*this, header, list, 0, list->size());
}

/// The callee could not read the request, and is not reading it any more.
void Session::send_in_packets(ClientSlot& slot, TimeNs now) {
  slot.announced.reset();
  slot.request_pieces = pieces_of(slot.call->request->size());
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

void Session::on_announced_response(const Arrival& arrival, TimeNs now) {
  ClientSlot* slot = client_slot_for(arrival.header);
  if (slot == nullptr) return;
  const PacketHeader& header = arrival.header;
  if (header.message_bytes > terms_.message_max_bytes) return drop(DropReason::kTooLarge);
  ReadList list;
  if (header.packet_index != 0 || !ReadList::decode(arrival.payload, list) ||
      list.message_bytes() != header.message_bytes) {
    return drop(DropReason::kBadLength);
  }
  if (slot->fetching || slot->response_pieces != 0) return drop(DropReason::kDuplicate);
  note_rtt(*slot, arrival, now);
  settle_request(*slot);
  slot->announced.reset();  // who answers has read the request
  slot->in_flight.reset();
  slot->lost.clear();
  return_credits(*slot, 1);
  slot->response_flags = header.flags & packet_flags::kEngineStatus;
  slot->response_status = header.method;
  slot->response_bytes = header.message_bytes;
  switch (host_.fetch(owner_of(false, slot->req_num), list, header.message_bytes)) {
    case SessionHost::Fetch::kStarted: slot->fetching = true; return;
    case SessionHost::Fetch::kNoMemory: return on_unplaceable(header, now);
    case SessionHost::Fetch::kImpossible: return fetch_in_packets(*slot, now);
  }
}

void Session::on_response_fetched(ClientSlot& slot, bool ok, Lease&& message, TimeNs now) {
  slot.fetching = false;
  if (slot.call == nullptr) {
    slot.release_due = true;
    slot.release_req_num = slot.req_num;
    make_ready(slot);
    return end_linger(slot, now);
  }
  slot.last_progress_ns = now;
  if (!ok) return fetch_in_packets(slot, now);
  last_heard_ns_ = std::max(last_heard_ns_, now);
  complete_fetched(slot, std::move(message));
}

void Session::fetch_in_packets(ClientSlot& slot, TimeNs now) {
  std::optional<Assembly> assembly = host_.assemble(*this, slot.response_bytes);
  if (!assembly.has_value()) {
    drop(DropReason::kNoMemory);
    return fail(
        slot,
        local_failure(
            absl::ResourceExhaustedError("no memory for the response; raise the endpoint's memory_limit_bytes"), true),
        now);
  }
  slot.response = std::move(*assembly);
  slot.response_pieces = pieces_of(slot.response_bytes);
  slot.settled.extend(slot.request_pieces + slot.response_pieces);
  slot.next_unit = slot.request_pieces;
  slot.packets_wanted = true;
  slot.probes = 0;
  slot.last_progress_ns = now;
  make_ready(slot);
  arm(slot_timer_ns(slot));
}

// --- Caller: calls that end before their memory is free --------------------------------------------------------------

/// The call is about to leave the slot, and what it announced or fetches may be in use still.
void Session::linger(ClientSlot& slot, TimeNs now) {
  const bool peer_is_done = slot.call->outcome.from_peer || !slot.call->sent;
  if (open_ && slot.announced && !peer_is_done && !mutant(Mutant::kDropLent)) {
    slot.probes = 0;
    slot.release_again_ns = now + rtt_.probe_timeout_ns(options_, 0);
    arm(slot.release_again_ns);
  } else {
    slot.announced.reset();
  }
  if (!open_) slot.fetching = false;  // the fetch ends by itself, and is nobody's
  if (slot.fetching) slot.release_again_ns = kTimeNever;
  if (slot.fetching || slot.announced) ++lingering_count_;
}

void Session::end_linger(ClientSlot& slot, TimeNs now) {
  slot.announced.reset();
  --lingering_count_;
  free_slots_.push_back(slot.index);
  if (!backlog_.empty()) start_backlog(now);
}

void Session::on_linger_timer(ClientSlot& slot, TimeNs now) {
  if (now < slot.release_again_ns) return;
  slot.probes = std::min(slot.probes + 1, 7u);
  slot.release_again_ns = now + rtt_.probe_timeout_ns(options_, slot.probes);
  slot.release_due = true;
  slot.release_req_num = slot.req_num;
  host_.count_retransmit();
  make_ready(slot);
}

void Session::on_released(const PacketHeader& header, TimeNs now) {
  if (!open_ || client_slots_ == nullptr) return drop(DropReason::kUnexpectedResponse);
  ClientSlot& slot = client_slots_[slot_of(header.req_num)];
  if (slot.call != nullptr || !slot.announced || slot.req_num != header.req_num) {
    return drop(DropReason::kUnexpectedResponse);
  }
  slot.release_due = false;
  end_linger(slot, now);
}

// --- Callee: requests ------------------------------------------------------------------------------------------------

void Session::on_announced_request(const Arrival& arrival, TimeNs now) {
  const PacketHeader& header = arrival.header;
  if (header.message_bytes > terms_.message_max_bytes) return drop(DropReason::kTooLarge);
  ReadList list;
  if (header.packet_index != 0 || !ReadList::decode(arrival.payload, list) ||
      list.message_bytes() != header.message_bytes) {
    return drop(DropReason::kBadLength);
  }
  if (server_slots_ == nullptr) make_server_slots();
  ServerSlot& slot = server_slots_[slot_of(header.req_num)];
  const auto age = static_cast<int32_t>(header.req_num - slot.req_num);
  if (age < 0) return drop(DropReason::kStaleRequest);
  // A caller that keeps to the rules waits for the end of a READ: so a slot has one at most, whatever comes.
  if (age > 0 && slot.state == ServerSlot::State::kFetching) return drop(DropReason::kNotReady);
  slot.echo_stamp = header.stamp;
  slot.echo_arrival_ns = now;
  if (age == 0) {
    drop(DropReason::kDuplicate);
    if (slot.state != ServerSlot::State::kReceiving) return on_duplicate_request(slot);
    slot.ack_due = true;  // packets are wanted: the ack that said so was lost
    return make_ready(slot);
  }
  slot.forget();
  slot.req_num = header.req_num;
  slot.message_bytes = header.message_bytes;
  slot.method = header.method;
  slot.one_way = (header.flags & packet_flags::kOneWay) != 0;
  slot.deadline_ns = header.deadline_ms == kDeadlineUnlimited ? kTimeNever : now + header.deadline_ms * kMillisecond;
  slot.received.reset(1);
  slot.received.insert(0);
  switch (host_.fetch(owner_of(true, slot.req_num), list, header.message_bytes)) {
    case SessionHost::Fetch::kStarted: slot.state = ServerSlot::State::kFetching; return;
    case SessionHost::Fetch::kNoMemory: drop(DropReason::kNoMemory); return refuse_for_memory(slot, now);
    case SessionHost::Fetch::kImpossible: return want_packets(slot);
  }
}

void Session::on_request_fetched(ServerSlot& slot, bool ok, Lease&& message, TimeNs now) {
  if (slot.release_wanted) {
    slot.forget();
    slot.released_due = true;
    slot.released_req_num = slot.req_num;
    return make_ready(slot);
  }
  if (!ok) return want_packets(slot);
  deliver_fetched(slot, std::move(message), now);
}

void Session::want_packets(ServerSlot& slot) {
  slot.state = ServerSlot::State::kReceiving;
  slot.packets_wanted = true;
  slot.received.reset(pieces_of(slot.message_bytes));
  slot.ack_due = true;
  make_ready(slot);
}

/// The caller is gone and wants its memory back.
void Session::on_read_release(const PacketHeader& header) {
  if (server_slots_ == nullptr) make_server_slots();
  ServerSlot& slot = server_slots_[slot_of(header.req_num)];
  const auto age = static_cast<int32_t>(header.req_num - slot.req_num);
  if (age >= 0 && slot.state == ServerSlot::State::kFetching) {
    if (age > 0) return drop(DropReason::kNotReady);
    slot.release_wanted = true;
    return;
  }
  if (age >= 0) {
    slot.forget();
    slot.req_num = header.req_num;  // should the request come yet, it is a duplicate
  }
  slot.released_due = true;
  slot.released_req_num = header.req_num;
  make_ready(slot);
}

bool Session::emit_released(ServerSlot& slot, PacketSink& sink) {
  if (!sink.has_room()) return false;
  slot.released_due = false;
  sink.emit(*this, header_for(kReleased, slot.released_req_num), MessagePtr(), 0, 0);
  return true;
}

// --- Callee: responses -----------------------------------------------------------------------------------------------

/// The caller could not read the response, and is not reading it any more.
void Session::respond_in_packets(ServerSlot& slot) {
  slot.announced.reset();
  slot.response_pieces = pieces_of(slot.response->size());
  slot.wanted.reset(slot.response_pieces);
}

}  // namespace skua::rpc
