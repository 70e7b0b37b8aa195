// The called side of large messages that their receiver reads. session_caller_read.cc explains how.
#include <algorithm>

#include "rpc/protocol/association.h"
#include "rpc/protocol/session_callee.h"

namespace skua::rpc {

using enum PacketType;

bool CalleeHalf::is_announcing() const {
  for (uint32_t i = 0; slots_ != nullptr && i < context_.terms.window; ++i) {
    if (slots_[i].announced) return true;
  }
  return false;
}

void CalleeHalf::on_fetched(const MessageOwner& owner, bool ok, Lease&& message, TimeNs now) {
  if (slots_ == nullptr) return;
  Slot& slot = slots_[context_.slot_of(owner.req_num)];
  if (slot.req_num != owner.req_num || slot.state != Slot::State::kFetching) return;
  on_request_fetched(slot, ok, std::move(message), now);
}

void CalleeHalf::on_lent(const MessageOwner& owner) {
  if (slots_ == nullptr) return;
  Slot& slot = slots_[context_.slot_of(owner.req_num)];
  if (slot.req_num != owner.req_num || slot.state != Slot::State::kResponding || !slot.announced) return;
  if (slot.announced.failed()) {
    respond_in_packets(slot);
    slot.wanted.insert(0);
  }
  make_ready(slot);
}

// --- Callee: requests ------------------------------------------------------------------------------------------------

void CalleeHalf::on_announced_request(const Arrival& arrival, TimeNs now) {
  const PacketHeader& header = arrival.header;
  if (header.message_bytes > context_.terms.message_max_bytes) return context_.drop(DropReason::kTooLarge);
  ReadList list;
  if (header.packet_index != 0 || !ReadList::decode(arrival.payload, list) ||
      list.message_bytes() != header.message_bytes) {
    return context_.drop(DropReason::kBadLength);
  }
  Slot& slot = slot_for(header);
  const auto age = static_cast<int32_t>(header.req_num - slot.req_num);
  if (age < 0) return context_.drop(DropReason::kStaleRequest);
  // A caller that keeps the rules waits for the end of a READ. So a slot has one READ at most, even with other callers.
  if (age > 0 && slot.state == Slot::State::kFetching) return context_.drop(DropReason::kNotReady);
  if (const Association* a = context_.hot.association; age > 0 && a != nullptr && a->is_stale(header.stamp, now)) {
    return context_.drop(DropReason::kStaleBundle);
  }
  slot.echo_stamp = header.stamp;
  slot.echo_arrival_ns = now;
  if (age == 0) {
    context_.drop(DropReason::kDuplicate);
    if (slot.state != Slot::State::kReceiving) return on_duplicate_request(slot);
    slot.ack_due = true;  // the ack that asked for packets was lost
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
  switch (context_.host.fetch(context_.owner_of(true, slot.req_num), list, header.message_bytes)) {
    case SessionHost::Fetch::kStarted: slot.state = Slot::State::kFetching; return;
    case SessionHost::Fetch::kNoMemory: context_.drop(DropReason::kNoMemory); return refuse_for_memory(slot, now);
    case SessionHost::Fetch::kImpossible: return want_packets(slot);
  }
}

void CalleeHalf::on_request_fetched(Slot& slot, bool ok, Lease&& message, TimeNs now) {
  if (slot.release_wanted) {
    slot.forget();
    slot.released_due = true;
    slot.released_req_num = slot.req_num;
    return make_ready(slot);
  }
  if (!ok) return want_packets(slot);
  deliver_fetched(slot, std::move(message), now);
}

void CalleeHalf::want_packets(Slot& slot) {
  slot.state = Slot::State::kReceiving;
  slot.packets_wanted = true;
  slot.received.reset(context_.pieces_of(slot.message_bytes));
  slot.ack_due = true;
  make_ready(slot);
}

/// The caller's call has ended, and it wants its memory back.
void CalleeHalf::on_read_release(const PacketHeader& header) {
  Slot& slot = slot_for(header);
  const auto age = static_cast<int32_t>(header.req_num - slot.req_num);
  if (age >= 0 && slot.state == Slot::State::kFetching) {
    if (age > 0) return context_.drop(DropReason::kNotReady);
    slot.release_wanted = true;
    return;
  }
  if (age >= 0) {
    slot.forget();
    slot.req_num = header.req_num;  // if the request still arrives, it is a duplicate
  }
  slot.released_due = true;
  slot.released_req_num = header.req_num;
  make_ready(slot);
}

bool CalleeHalf::emit_released(Slot& slot, PacketSink& sink) {
  if (!sink.has_room()) return false;
  slot.released_due = false;
  sink.emit(context_.session, context_.header_for(kReleased, slot.released_req_num), MessagePtr(), 0, 0);
  return true;
}

// --- Callee: responses -----------------------------------------------------------------------------------------------

void CalleeHalf::emit_announced_response(Slot& slot, PacketSink& sink, TimeNs now) {
  PacketHeader header = context_.header_for(kResponse, slot.req_num);
  header.method = slot.status;
  header.flags = slot.response_flags | packet_flags::kByRead;
  header.message_bytes = static_cast<uint32_t>(slot.response->size());
  header.stamp = slot.echo(now);
  const MessagePtr& list = slot.announced.list();
  sink.emit(context_.session, header, list, 0, list->size());
}

/// The caller could not read the response, and has stopped reading: sends the response in packets.
void CalleeHalf::respond_in_packets(Slot& slot) {
  slot.announced.reset();
  slot.response_pieces = context_.pieces_of(slot.response->size());
  slot.wanted.reset(slot.response_pieces);
}

}  // namespace skua::rpc
