// The called side of a session: server slots.
#include <algorithm>

#include "rpc/protocol/mutants.h"
#include "rpc/protocol/session.h"

namespace skua::rpc {
namespace {

using enum PacketType;

/// What the response's time stamp says: the request's, later by the time it was held here.
Ticks echoed(Ticks stamp, TimeNs arrival_ns, TimeNs now) {
  return stamp + to_ticks(now - arrival_ns);
}

}  // namespace

Session::ServerSlot* Session::server_slot_for(const PacketHeader& header) {
  if (server_slots_ == nullptr) [[unlikely]] {
    make_server_slots();
  }
  return &server_slots_[slot_of(header.req_num)];
}

void Session::make_server_slots() {
  server_slots_ = std::make_unique<ServerSlot[]>(terms_.window);
  for (uint32_t i = 0; i < terms_.window; ++i) {
    server_slots_[i].index = i;
    server_slots_[i].req_num = i - terms_.window;
  }
}

void Session::on_request(const Arrival& arrival, TimeNs now) {
  const PacketHeader& header = arrival.header;
  if ((header.flags & packet_flags::kByRead) != 0) [[unlikely]] {
    return on_announced_request(arrival, now);
  }
  if (header.message_bytes > terms_.message_max_bytes) return drop(DropReason::kTooLarge);
  if (!is_whole_piece(arrival)) return drop(DropReason::kBadLength);
  ServerSlot& slot = *server_slot_for(header);
  const auto age = static_cast<int32_t>(header.req_num - slot.req_num);
  if (age < 0) return drop(DropReason::kStaleRequest);
  if (age > 0) {
    if (slot.state == ServerSlot::State::kFetching) [[unlikely]] {
      return drop(DropReason::kNotReady);
    }
    begin_request(slot, header);
  } else if (header.message_bytes != slot.message_bytes) {
    return drop(DropReason::kBadLength);
  }
  slot.echo_stamp = header.stamp;
  slot.echo_arrival_ns = now;
  if (slot.state == ServerSlot::State::kReceiving) return accept_request_piece(slot, arrival, now);
  drop(DropReason::kDuplicate);
  if (mutant(Mutant::kRunHandlerTwice) && slot.state == ServerSlot::State::kResponding && slot.received.size() == 1) {
    ArrivedRequest again;
    static_cast<void>(host_.keep(arrival, again.request));
    return deliver(slot, header, std::move(again), now);
  }
  on_duplicate_request(slot);
}

void Session::begin_request(ServerSlot& slot, const PacketHeader& header) {
  slot.forget();
  slot.req_num = header.req_num;
  slot.message_bytes = header.message_bytes;
  slot.method = header.method;
  slot.one_way = (header.flags & packet_flags::kOneWay) != 0;
  slot.received.reset(pieces_of(header.message_bytes));
  slot.state = ServerSlot::State::kReceiving;
}

void Session::accept_request_piece(ServerSlot& slot, const Arrival& arrival, TimeNs now) {
  const PacketHeader& header = arrival.header;
  if (slot.received.size() == 1) {
    ArrivedRequest arrived;
    if (!host_.keep(arrival, arrived.request)) return drop(DropReason::kNoMemory);
    slot.received.insert(0);
    return deliver(slot, header, std::move(arrived), now);
  }
  if (slot.request.data == nullptr) {
    std::optional<Assembly> assembly = host_.assemble(*this, header.message_bytes);
    if (!assembly.has_value()) return drop(DropReason::kNoMemory);
    slot.request = std::move(*assembly);
    slot.deadline_ns = now + options_.request_timeout_ns * (1 + header.message_bytes / (10 << 20));
    half_due_ns_ = std::min(half_due_ns_, slot.deadline_ns);
    arm(half_due_ns_);
  }
  slot.ack_due = true;
  make_ready(slot);
  if (!slot.received.insert(header.packet_index)) return drop(DropReason::kDuplicate);
  copy_bytes(slot.request.data + size_t{header.packet_index} * terms_.payload_bytes, arrival.payload);
  host_.count_copied(arrival.payload.size());
  if (mutant(Mutant::kAckHole) && slot.received.base() + 1 < slot.received.size()) {
    slot.received.insert(slot.received.base());
  }
  if (slot.received.all()) {
    slot.request.data = nullptr;
    ArrivedRequest arrived;
    arrived.request = std::move(slot.request.lease);
    deliver(slot, header, std::move(arrived), now);
  }
}

/// `arrived` holds the request's bytes; the rest is filled in here.
void Session::deliver(ServerSlot& slot, const PacketHeader& header, ArrivedRequest&& arrived, TimeNs now) {
  slot.state = ServerSlot::State::kExecuting;
  arrived.slot = slot.index;
  arrived.req_num = slot.req_num;
  arrived.method = slot.method;
  arrived.one_way = slot.one_way;
  if (header.deadline_ms != kDeadlineUnlimited) arrived.deadline_ns = now + header.deadline_ms * kMillisecond;
  if (slot.one_way) [[unlikely]] {
    if (!host_.takes_one_way(slot.method)) {
      return refuse(slot, absl::StatusCode::kFailedPrecondition, "the method answers: it cannot be called one-way",
                    now);
    }
    // Answered before the handler runs: "delivered" is all the caller wants to know.
    respond(slot.index, slot.req_num, absl::StatusCode::kOk, false, MessagePtr(), now);
  }
  host_.deliver(*this, std::move(arrived));
}

/// Whoever begins a request and does not end it holds memory for it. Returns when to look again.
TimeNs Session::end_half_requests(TimeNs now) {
  TimeNs next = kTimeNever;
  for (uint32_t i = 0; server_slots_ != nullptr && i < terms_.window; ++i) {
    ServerSlot& slot = server_slots_[i];
    if (slot.state != ServerSlot::State::kReceiving || slot.request.data == nullptr) continue;
    if (slot.deadline_ns > now) {
      next = std::min(next, slot.deadline_ns);
      continue;
    }
    slot.request = {};
    refuse(slot, absl::StatusCode::kUnavailable, "a part of the request came, and the rest did not", now);
  }
  return next;
}

void Session::on_unplaceable(const PacketHeader& header, TimeNs now) {
  if (header.type == PacketType::kResponse) {
    ClientSlot* slot = client_slot_for(header);
    if (slot == nullptr) return;
    drop(DropReason::kNoMemory);
    return fail(
        *slot,
        local_failure(
            absl::ResourceExhaustedError("no memory for the response; raise the endpoint's memory_limit_bytes"), true),
        now);
  }
  ServerSlot& slot = *server_slot_for(header);
  const auto age = static_cast<int32_t>(header.req_num - slot.req_num);
  if (age < 0) return drop(DropReason::kStaleRequest);
  drop(DropReason::kNoMemory);
  if (age == 0) return on_duplicate_request(slot);
  begin_request(slot, header);
  slot.echo_stamp = header.stamp;
  slot.echo_arrival_ns = now;
  refuse_for_memory(slot, now);
}

void Session::refuse_for_memory(ServerSlot& slot, TimeNs now) {
  refuse(slot, absl::StatusCode::kResourceExhausted,
         "the peer has no memory for a request of this size now: try again later", now);
}

/// The engine answers; no handler runs.
void Session::refuse(ServerSlot& slot, absl::StatusCode code, std::string_view text, TimeNs now) {
  slot.state = ServerSlot::State::kExecuting;
  MessagePtr message = host_.make_message();
  message->append_copy(as_byte_span(text));
  respond(slot.index, slot.req_num, code, true, std::move(message), now);
}

void Session::on_duplicate_request(ServerSlot& slot) {
  if (slot.state == ServerSlot::State::kExecuting || slot.state == ServerSlot::State::kFetching) {
    slot.ack_due = true;  // "it arrived, wait"
  } else if (slot.state == ServerSlot::State::kResponding) {
    slot.wanted.insert(0);
  } else {
    return;
  }
  make_ready(slot);
}

bool Session::respond(uint32_t slot_index, uint32_t req_num, absl::StatusCode code, bool engine_status,
                      MessagePtr&& response, TimeNs now) {
  if (!open_ || server_slots_ == nullptr || slot_index >= terms_.window) return false;
  ServerSlot& slot = server_slots_[slot_index];
  if (slot.req_num != req_num || slot.state != ServerSlot::State::kExecuting) return false;
  if (!response) response = host_.make_message();
  if (response->size() > terms_.message_max_bytes) [[unlikely]] {
    code = absl::StatusCode::kInternal;
    engine_status = false;
    response = host_.make_message();
    response->append_copy(as_byte_span("the handler's answer is larger than this session carries"));
    if (response->size() > terms_.message_max_bytes) response = host_.make_message();
  }
  slot.state = ServerSlot::State::kResponding;
  slot.status = static_cast<uint16_t>(code);
  slot.response_flags = engine_status ? packet_flags::kEngineStatus : uint8_t{0};
  slot.response = std::move(response);
  slot.response_pieces = pieces_of(slot.response->size());
  if (slot.response_pieces > 1 && !reliable_ && slot.response->size() > options_.read_above_bytes) {
    slot.announced = host_.announce(owner_of(false, slot.req_num), slot.response);
    if (slot.announced) slot.response_pieces = 1;
  }
  slot.wanted.reset(slot.response_pieces);
  slot.ack_due = false;
  // As requests do: the first packet goes out at once where nothing holds it back.
  const bool held_back = reliable_ || !ready_servers_.empty() || slot.announced.pending();
  PacketSink* sink = held_back ? nullptr : host_.express(*this);
  if (sink != nullptr) {
    emit_response_piece(slot, 0, *sink, now);
  } else {
    slot.wanted.insert(0);
    make_ready(slot);
  }
  return true;
}

void Session::on_pull(const Arrival& arrival, TimeNs now) {
  const PacketHeader& header = arrival.header;
  PacketSet set;
  if (!PacketSet::decode(arrival.payload, set)) return drop(DropReason::kBadLength);
  ServerSlot& slot = *server_slot_for(header);
  if (header.req_num != slot.req_num) return drop(DropReason::kStaleRequest);
  slot.echo_stamp = header.stamp;
  slot.echo_arrival_ns = now;
  if (slot.state == ServerSlot::State::kExecuting || slot.state == ServerSlot::State::kReceiving ||
      slot.state == ServerSlot::State::kFetching) {
    slot.ack_due = true;
    return make_ready(slot);
  }
  if (slot.state != ServerSlot::State::kResponding) return drop(DropReason::kDuplicate);
  if ((header.flags & packet_flags::kByRead) != 0 && slot.announced) respond_in_packets(slot);
  if (set.end() > slot.response_pieces) return drop(DropReason::kBadLength);
  set.for_each([&](uint32_t piece) { slot.wanted.insert(piece); });
  make_ready(slot);
}

void Session::on_release(const PacketHeader& header) {
  if ((header.flags & packet_flags::kByRead) != 0) return on_read_release(header);
  ServerSlot& slot = *server_slot_for(header);
  if (header.req_num != slot.req_num) return drop(DropReason::kStaleRequest);
  if (slot.state == ServerSlot::State::kFetching) {
    slot.release_wanted = true;
    return;
  }
  slot.forget();  // a handler that still runs answers into the void
}

void Session::emit_response_piece(ServerSlot& slot, uint32_t piece, PacketSink& sink, TimeNs now) {
  if (slot.announced) [[unlikely]] {
    return emit_announced_response(slot, sink, now);
  }
  const PacketHeader header = make_header({.type = kResponse,
                                           .flags = slot.response_flags,
                                           .method = slot.status,
                                           .session_index = address_.remote_index,
                                           .session_generation = address_.remote_generation,
                                           .req_num = slot.req_num,
                                           .message_bytes = static_cast<uint32_t>(slot.response->size()),
                                           .packet_index = static_cast<uint16_t>(piece),
                                           .stamp = echoed(slot.echo_stamp, slot.echo_arrival_ns, now)});
  sink.emit(*this, header, slot.response, size_t{piece} * terms_.payload_bytes,
            piece_bytes(slot.response->size(), piece));
}

bool Session::transmit_server(ServerSlot& slot, PacketSink& sink, TimeNs now) {
  if (slot.released_due && !emit_released(slot, sink)) return false;
  if (slot.state == ServerSlot::State::kResponding) {
    if (slot.announced.pending()) return true;  // on_lent() comes
    while (!slot.wanted.empty()) {
      if (!sink.has_room()) return false;
      emit_response_piece(slot, slot.wanted.pop_lowest(), sink, now);
    }
    slot.ack_due = false;
    return true;
  }
  if (!slot.ack_due) return true;
  if (!sink.has_room()) return false;
  slot.ack_due = false;
  PacketHeader header = header_for(kAck, slot.req_num);
  if (slot.packets_wanted) header.flags = packet_flags::kByRead;
  header.stamp = echoed(slot.echo_stamp, slot.echo_arrival_ns, now);
  MessagePtr extension = host_.make_message();
  extension->set_head_size(slot.received.snapshot().encode(extension->head_room().data()));
  sink.emit(*this, header, extension, 0, extension->size());
  return true;
}

/// A request that was read as a whole.
void Session::deliver_fetched(ServerSlot& slot, Lease&& message, TimeNs now) {
  ArrivedRequest arrived;
  arrived.request = std::move(message);
  arrived.deadline_ns = slot.deadline_ns;
  deliver(slot, PacketHeader(), std::move(arrived), now);
}

void Session::emit_announced_response(ServerSlot& slot, PacketSink& sink, TimeNs now) {
  PacketHeader header = header_for(kResponse, slot.req_num);
  header.method = slot.status;
  header.flags = slot.response_flags | packet_flags::kByRead;
  header.message_bytes = static_cast<uint32_t>(slot.response->size());
  header.stamp = echoed(slot.echo_stamp, slot.echo_arrival_ns, now);
  const MessagePtr& list = slot.announced.list();
  sink.emit(*this, header, list, 0, list->size());
}

}  // namespace skua::rpc
