#include <algorithm>

#include "absl/strings/str_cat.h"
#include "rpc/protocol/association.h"
#include "rpc/protocol/protocol_mutants.h"
#include "rpc/protocol/session.h"

namespace skua::rpc {
namespace {

using enum PacketType;

}  // namespace

void CalleeHalf::open() {
  half_due_ns_ = question_due_ns_ = kTimeNever;
  asked_ns_ = 0;
  slots_.reset();
}

void CalleeHalf::interrupt() {
  for (uint32_t i = 0; slots_ != nullptr && i < context_.terms.window; ++i) slots_[i].forget();
  for (uint32_t i = 0; context_.hot.client != nullptr && i < context_.terms.window; ++i) {
    ServerSlot& small = context_.hot.server()[i];
    if (small.state != ServerSlot::State::kLarge) small.state = ServerSlot::State::kIdle;
    small.response.release();
  }
}

void CalleeHalf::make_ready(Slot& slot) {
  if (!context_.open) return;
  if (!slot.ready_hook.linked()) ready_.push_back(slot);
  context_.host.mark_ready(context_.session);
}

bool CalleeHalf::transmit(PacketSink& sink, TimeNs now) {
  while (!ready_.empty()) {
    if (!transmit_slot(ready_.front(), sink, now)) return true;
    ready_.pop_front();
  }
  return false;
}

size_t CalleeHalf::retained_responses() const {
  size_t count = 0;
  for (uint32_t i = 0; slots_ != nullptr && i < context_.terms.window; ++i) {
    count += (slots_[i].response ? 1 : 0) + (slots_[i].announced ? 1 : 0);
  }
  for (uint32_t i = 0; context_.hot.client != nullptr && i < context_.terms.window; ++i) {
    count += context_.hot.server()[i].response.message != nullptr ? 1 : 0;
  }
  return count;
}

size_t CalleeHalf::retained_requests() const {
  size_t count = 0;
  for (uint32_t i = 0; slots_ != nullptr && i < context_.terms.window; ++i) {
    count += slots_[i].state == Slot::State::kReceiving && slots_[i].request.data != nullptr ? 1 : 0;
  }
  return count;
}

bool CalleeHalf::expects(const PacketHeader& header) const {
  // A repeated request is used too: it asks for its response again.
  if (context_.hot.client == nullptr) return true;
  const uint32_t index = context_.slot_of(header.req_num);
  const ServerSlot& small = context_.hot.server()[index];
  const bool is_here = small.state == ServerSlot::State::kLarge;
  return static_cast<int32_t>(header.req_num - (is_here ? slots_[index].req_num : small.req_num)) >= 0;
}

void CalleeHalf::make_slots() {
  context_.session.make_slots();
  slots_ = std::make_unique<Slot[]>(context_.terms.window);
  for (uint32_t i = 0; i < context_.terms.window; ++i) slots_[i].index = i;
}

void CalleeHalf::take_over(uint32_t index) {
  ServerSlot& small = context_.hot.server()[index];
  Slot& slot = slots_[index];
  slot.forget();
  slot.req_num = small.req_num;
  slot.method = small.method;
  slot.message_bytes = small.request_bytes;
  slot.one_way = false;
  slot.status = slot.response_flags = 0;
  slot.received.reset(1);
  slot.received.insert(0);
  if (small.state == ServerSlot::State::kExecuting) {
    slot.state = Slot::State::kExecuting;
  } else if (small.state == ServerSlot::State::kResponding) {
    slot.state = Slot::State::kResponding;
    slot.response = context_.take_message(small.response, small.few);
    slot.response_pieces = 1;
    slot.wanted.reset(1);
    keep_in_mind(slot, context_.last_heard_ns);
  }
  small.state = ServerSlot::State::kLarge;
}

bool CalleeHalf::yield_slot(uint32_t number) {
  const uint32_t index = context_.slot_of(number);
  Slot& slot = slots_[index];
  const auto age = static_cast<int32_t>(number - slot.req_num);
  if (age <= 0 || slot.state == Slot::State::kFetching) {
    context_.drop(age < 0 ? DropReason::kStaleRequest : age == 0 ? DropReason::kDuplicate : DropReason::kNotReady);
    return false;
  }
  slot.forget();
  ServerSlot& small = context_.hot.server()[index];
  small.req_num = slot.req_num;
  small.state = ServerSlot::State::kIdle;
  return true;
}

void CalleeHalf::on_request(const Arrival& arrival, TimeNs now) {
  const PacketHeader& header = arrival.header;
  if ((header.flags & packet_flags::kByRead) != 0) [[unlikely]] {
    return on_announced_request(arrival, now);
  }
  if (header.message_bytes > context_.terms.message_max_bytes) return context_.drop(DropReason::kTooLarge);
  if (!context_.is_whole_piece(arrival)) return context_.drop(DropReason::kBadLength);
  Slot& slot = slot_for(header);
  const auto age = static_cast<int32_t>(header.req_num - slot.req_num);
  if (age < 0) return context_.drop(DropReason::kStaleRequest);
  if (age > 0) {
    if (slot.state == Slot::State::kFetching) [[unlikely]] {
      return context_.drop(DropReason::kNotReady);
    }
    if (const Association* a = context_.hot.association;
        a != nullptr && !context_.reliable && a->is_stale(header.stamp, now)) [[unlikely]] {
      return context_.drop(DropReason::kStaleBundle);
    }
    begin_request(slot, header);
  } else if (header.message_bytes != slot.message_bytes) {
    return context_.drop(DropReason::kBadLength);
  }
  slot.echo_stamp = header.stamp;
  slot.echo_arrival_ns = now;
  if (slot.state == Slot::State::kReceiving) return accept_request_piece(slot, arrival, now);
  context_.drop(DropReason::kDuplicate);
  if (mutant(Mutant::kRunHandlerTwice) && slot.state == Slot::State::kResponding && slot.received.size() == 1) {
    ArrivedRequest again;
    static_cast<void>(context_.host.keep(arrival, again.request));
    return deliver(slot, header, std::move(again), now);
  }
  on_duplicate_request(slot);
}

void CalleeHalf::begin_request(Slot& slot, const PacketHeader& header) {
  slot.forget();
  slot.req_num = header.req_num;
  slot.message_bytes = header.message_bytes;
  slot.method = header.method;
  slot.one_way = (header.flags & packet_flags::kOneWay) != 0;
  slot.received.reset(context_.pieces_of(header.message_bytes));
  slot.state = Slot::State::kReceiving;
}

void CalleeHalf::accept_request_piece(Slot& slot, const Arrival& arrival, TimeNs now) {
  const PacketHeader& header = arrival.header;
  if (slot.received.size() == 1) {
    ArrivedRequest arrived;
    if (!context_.host.keep(arrival, arrived.request)) return context_.drop(DropReason::kNoMemory);
    slot.received.insert(0);
    return deliver(slot, header, std::move(arrived), now);
  }
  if (slot.request.data == nullptr) {
    std::optional<Assembly> assembly = context_.host.assemble(context_.session, header.message_bytes, true);
    if (!assembly.has_value()) {
      context_.drop(DropReason::kNoMemory);
      // What never fits is not waited for. On a reliable transport nobody sends this piece again.
      if (context_.reliable || header.message_bytes > context_.host.assembly_bytes_max()) refuse_for_memory(slot, now);
      return;
    }
    slot.request = std::move(*assembly);
    slot.deadline_ns = now + context_.options.request_timeout_ns * (1 + header.message_bytes / (10 << 20));
    half_due_ns_ = std::min(half_due_ns_, slot.deadline_ns);
    context_.arm(half_due_ns_);
  }
  PieceRun run;
  if (!begin_run(slot, header.packet_index, run)) {
    slot.ack_due = true;
    make_ready(slot);
    return context_.drop(DropReason::kDuplicate);
  }
  copy_bytes(run.place(0), arrival.payload);
  mark(slot, header, run, 1, now);
}

/// False: the piece came before.
bool CalleeHalf::begin_run(const Slot& slot, uint32_t piece, PieceRun& run) const {
  run = {.first = piece,
         .count_max = slot.received.missing_from(piece),
         .piece_bytes = context_.terms.payload_bytes,
         .message_bytes = slot.message_bytes,
         .message = slot.request.data};
  return run.count_max > 0;
}

bool CalleeHalf::join(const PacketHeader& header, PieceRun& run) const {
  if (slots_ == nullptr || (header.flags & packet_flags::kByRead) != 0) return false;
  const uint32_t index = context_.slot_of(header.req_num);
  const Slot& slot = slots_[index];
  const bool is_coming = context_.hot.server()[index].state == ServerSlot::State::kLarge &&
                         slot.state == Slot::State::kReceiving && slot.request.data != nullptr;
  if (!is_coming || slot.req_num != header.req_num || slot.message_bytes != header.message_bytes) return false;
  return header.packet_index < slot.received.size() && begin_run(slot, header.packet_index, run);
}

void CalleeHalf::take_run(const PacketHeader& header, const PieceRun& run, uint32_t count, TimeNs now) {
  Slot& slot = slots_[context_.slot_of(header.req_num)];
  slot.echo_stamp = header.stamp;
  slot.echo_arrival_ns = now;
  mark(slot, header, run, count, now);
}

/// The run's first `count` pieces are in place: marks them, and delivers the request if they were the last.
void CalleeHalf::mark(Slot& slot, const PacketHeader& header, const PieceRun& run, uint32_t count, TimeNs now) {
  slot.ack_due = true;
  make_ready(slot);
  slot.received.insert_range(run.first, run.first + count);
  context_.host.count_copied(run.bytes_of(count));
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

/// Hands the request to the host. `arrived` has the request's bytes; its other fields are set here.
void CalleeHalf::deliver(Slot& slot, const PacketHeader& header, ArrivedRequest&& arrived, TimeNs now) {
  slot.state = Slot::State::kExecuting;
  arrived.slot = slot.index;
  arrived.req_num = slot.req_num;
  arrived.method = slot.method;
  arrived.one_way = slot.one_way;
  if (header.deadline_ms != kDeadlineUnlimited) arrived.deadline_ns = now + header.deadline_ms * kMillisecond;
  if (slot.one_way) [[unlikely]] {
    if (!context_.host.takes_one_way(slot.method)) {
      return refuse(slot, absl::StatusCode::kFailedPrecondition, "the method answers: it cannot be called one-way",
                    now);
    }
    // Answered before the handler runs: the caller only wants to know that the request was delivered.
    respond(slot.index, slot.req_num, absl::StatusCode::kOk, false, MessagePtr(), now);
  }
  context_.host.deliver(context_.session, std::move(arrived));
}

TimeNs CalleeHalf::run_timers(TimeNs now) {
  return std::min(run_half_timers(now), run_questions(now));
}

/// Ends requests that began and did not go on, because they hold memory. Returns when to run it next.
TimeNs CalleeHalf::run_half_timers(TimeNs now) {
  if (now < half_due_ns_) return half_due_ns_;
  half_due_ns_ = kTimeNever;
  for (uint32_t i = 0; slots_ != nullptr && i < context_.terms.window; ++i) {
    Slot& slot = slots_[i];
    if (slot.state != Slot::State::kReceiving || slot.request.data == nullptr) continue;
    if (slot.deadline_ns > now) {
      half_due_ns_ = std::min(half_due_ns_, slot.deadline_ns);
      continue;
    }
    slot.request = {};
    refuse(slot, absl::StatusCode::kUnavailable, "a part of the request came, and the rest did not", now);
  }
  return half_due_ns_;
}

void CalleeHalf::on_unplaceable(const PacketHeader& header, TimeNs now) {
  Slot& slot = slot_for(header);
  const auto age = static_cast<int32_t>(header.req_num - slot.req_num);
  if (age < 0) return context_.drop(DropReason::kStaleRequest);
  context_.drop(DropReason::kNoMemory);
  if (age == 0) return on_duplicate_request(slot);
  begin_request(slot, header);
  slot.echo_stamp = header.stamp;
  slot.echo_arrival_ns = now;
  refuse_for_memory(slot, now);
}

void CalleeHalf::refuse_for_memory(Slot& slot, TimeNs now) {
  const size_t bytes_max = context_.host.assembly_bytes_max();
  if (slot.message_bytes > bytes_max) {
    return refuse(
        slot, absl::StatusCode::kInvalidArgument,
        absl::StrCat("the request has ", slot.message_bytes, " bytes, and the peer's message memory takes up to ",
                     bytes_max, " at once: send less, or give the peer more message memory"),
        now);
  }
  refuse(slot, absl::StatusCode::kResourceExhausted,
         "the peer has no memory for a request of this size now: try again later", now);
}

/// Answers with the engine's own error; no handler runs.
void CalleeHalf::refuse(Slot& slot, absl::StatusCode code, std::string_view text, TimeNs now) {
  slot.state = Slot::State::kExecuting;
  MessagePtr message = context_.host.make_message();
  message->append_copy(as_byte_span(text));
  respond(slot.index, slot.req_num, code, true, std::move(message), now);
}

void CalleeHalf::on_duplicate_request(Slot& slot) {
  if (slot.state == Slot::State::kExecuting || slot.state == Slot::State::kFetching) {
    slot.ack_due = true;  // "it arrived, wait"
  } else if (slot.state == Slot::State::kResponding) {
    slot.wanted.insert(0);
  } else {
    return;
  }
  make_ready(slot);
}

bool CalleeHalf::respond(uint32_t slot_index, uint32_t req_num, absl::StatusCode code, bool engine_status,
                         MessagePtr&& response, TimeNs now) {
  if (!context_.open || context_.hot.client == nullptr || slot_index >= context_.terms.window) return false;
  Slot& slot = slot_at(slot_index);
  if (slot.req_num != req_num || slot.state != Slot::State::kExecuting) return false;
  if (!response) response = context_.host.make_message();
  if (response->size() > context_.terms.message_max_bytes) [[unlikely]] {
    code = absl::StatusCode::kInternal;
    engine_status = false;
    response = context_.host.make_message();
    response->append_copy(as_byte_span("the handler's answer is larger than this session carries"));
    if (response->size() > context_.terms.message_max_bytes) response = context_.host.make_message();
  }
  slot.state = Slot::State::kResponding;
  slot.status = static_cast<uint16_t>(code);
  slot.response_flags = engine_status ? packet_flags::kEngineStatus : uint8_t{0};
  slot.response = std::move(response);
  slot.response_pieces = context_.pieces_of(slot.response->size());
  if (slot.response_pieces > 1 && !context_.reliable && slot.response->size() > context_.options.read_above_bytes) {
    slot.announced = context_.host.announce(context_.owner_of(false, slot.req_num), slot.response);
    if (slot.announced) slot.response_pieces = 1;
  }
  slot.wanted.reset(slot.response_pieces);
  slot.ack_due = false;
  keep_in_mind(slot, now);
  // As with requests: the first packet leaves at once if nothing holds it back.
  const bool held_back = context_.reliable || !ready_.empty() || slot.announced.pending();
  PacketSink* sink = held_back ? nullptr : context_.host.express(context_.session);
  if (sink != nullptr) {
    emit_response_pieces(slot, 0, 1, *sink, now);
  } else {
    slot.wanted.insert(0);
    make_ready(slot);
  }
  return true;
}

void CalleeHalf::on_pull(const Arrival& arrival, TimeNs now) {
  const PacketHeader& header = arrival.header;
  PacketSet set;
  if (!PacketSet::decode(arrival.payload, set)) return context_.drop(DropReason::kBadLength);
  Slot& slot = slot_for(header);
  if (header.req_num != slot.req_num) return context_.drop(DropReason::kStaleRequest);
  slot.echo_stamp = header.stamp;
  slot.echo_arrival_ns = now;
  if (slot.state == Slot::State::kExecuting || slot.state == Slot::State::kReceiving ||
      slot.state == Slot::State::kFetching) {
    slot.ack_due = true;
    return make_ready(slot);
  }
  if (slot.state != Slot::State::kResponding) return context_.drop(DropReason::kDuplicate);
  if ((header.flags & packet_flags::kByRead) != 0 && slot.announced) respond_in_packets(slot);
  if (set.end() > slot.response_pieces) return context_.drop(DropReason::kBadLength);
  keep_in_mind(slot, now);
  slot.wanted.insert(set);
  make_ready(slot);
}

void CalleeHalf::on_release(const PacketHeader& header) {
  if ((header.flags & packet_flags::kByRead) != 0) return on_read_release(header);
  Slot& slot = slot_for(header);
  if (header.req_num != slot.req_num) return context_.drop(DropReason::kStaleRequest);
  if (slot.state == Slot::State::kFetching) {
    slot.release_wanted = true;
    return;
  }
  slot.forget();  // if a handler still runs, its answer will be stale
}

void CalleeHalf::emit_response_pieces(Slot& slot, uint32_t first, uint32_t count, PacketSink& sink, TimeNs now) {
  if (slot.announced) [[unlikely]] {
    return emit_announced_response(slot, sink, now);
  }
  const PacketHeader header = make_header({.type = kResponse,
                                           .flags = slot.response_flags,
                                           .method = slot.status,
                                           .session_index = context_.address.remote_index,
                                           .session_generation = context_.address.remote_generation,
                                           .req_num = slot.req_num,
                                           .message_bytes = static_cast<uint32_t>(slot.response->size()),
                                           .packet_index = static_cast<uint16_t>(first),
                                           .stamp = slot.echo(now)});
  if (slot.response_pieces > 1)
    return sink.emit_train(context_.session, header, slot.response, context_.terms.payload_bytes, count);
  sink.emit(context_.session, header, slot.response, 0, slot.response->size());
}

bool CalleeHalf::transmit_slot(Slot& slot, PacketSink& sink, TimeNs now) {
  if (slot.released_due && !emit_released(slot, sink)) return false;
  if (slot.state == Slot::State::kResponding) {
    if (slot.announced.pending()) return true;  // on_lent() makes the slot ready again
    while (!slot.wanted.empty()) {
      if (!sink.has_room()) return false;
      const WantedSet::Run run = slot.wanted.pop_lowest(sink.room_packets());
      emit_response_pieces(slot, run.first, run.count, sink, now);
    }
  }
  if (!slot.ack_due) return true;
  if (!sink.has_room()) return false;
  slot.ack_due = false;
  PacketHeader header = context_.header_for(kAck, slot.req_num);
  if (slot.packets_wanted) header.flags = packet_flags::kByRead;
  header.stamp = slot.echo(now);
  MessagePtr extension = context_.host.make_message();
  extension->set_head_size(slot.received.snapshot().encode(extension->head_room().data()));
  sink.emit(context_.session, header, extension, 0, extension->size());
  return true;
}

/// Delivers a request that was read completely.
void CalleeHalf::deliver_fetched(Slot& slot, Lease&& message, TimeNs now) {
  ArrivedRequest arrived;
  arrived.request = std::move(message);
  arrived.deadline_ns = slot.deadline_ns;
  deliver(slot, PacketHeader(), std::move(arrived), now);
}

}  // namespace skua::rpc
