#include <algorithm>
#include <cstring>

#include "absl/strings/str_cat.h"
#include "rpc/base/check.h"
#include "rpc/base/status.h"
#include "rpc/protocol/protocol_mutants.h"
#include "rpc/protocol/session.h"

namespace skua::rpc {
namespace {

// Responses above this are worth a packet that tells the server it may free them.
constexpr uint32_t kReleaseAboveBytes = 4096;
// Limit for an error's text. Senders send no more.
constexpr size_t kErrorTextMaxBytes = 1024;

}  // namespace

uint32_t CallerHalf::Slot::outstanding() const {
  if (response_pieces == 0) return next_unit - settled.count();
  const uint32_t arrived = settled.count() - request_pieces;
  return next_unit - request_pieces - arrived;
}

// --- Life ------------------------------------------------------------------------------------------------------------

CallerHalf::~CallerHalf() {
  SKUA_CHECK(active_count_ == 0 && backlog_count_ == 0,
             "a session was destroyed with calls in flight: abort_all() first");
}

void CallerHalf::open(TimeNs now) {
  // A reliable transport needs no credits: this many are always enough.
  const uint32_t credits = context_.reliable ? kCreditsMax : context_.terms.credits;
  context_.hot.credits = static_cast<int16_t>(SessionHot::kQuarters * credits);
  waiting_since_ns_ = now;
  rtt_ = RttEstimator();
  congestion_.reset();
  limits_ = {};
  context_.hot.credits_barred = 0;
  acked_since_loss_ = packet_bytes_ = 0;
  pacer_.reset();
  departure_wait_ns_ = kTimeNever;
  lingering_count_ = 0;
  slots_.reset();
  if (!backlog_.empty()) start_backlog(now);
}

void CallerHalf::interrupt(const absl::Status& sent_status, TimeNs now) {
  lingering_count_ = 0;
  budget_hook.unlink();
  for (uint32_t i = slots_ == nullptr ? 0 : context_.terms.window; i-- > 0;) {
    Slot& slot = slots_[i];
    slot.release_due = false;
    slot.ready_hook.unlink();
    if (slot.call == nullptr) {
      slot.announced.reset();
    } else if (slot.call->sent) {
      fail(slot, local_failure(sent_status, true), now);
    } else {
      Call& unsent = take_out(slot);
      backlog_.push_front(unsent);
      ++backlog_count_;
    }
  }
}

void CallerHalf::abort_backlog(const absl::Status& status) {
  while (Call* call = backlog_.pop_front()) {
    --backlog_count_;
    complete(*call, local_failure(status, false));
  }
}

void CallerHalf::on_link_lost(TimeNs now) {
  if (!context_.open || slots_ == nullptr) return;
  for (uint32_t i = 0; i < context_.terms.window; ++i) {
    Slot& slot = slots_[i];
    if (slot.call == nullptr) continue;
    slot.in_flight.lose_all([&](uint32_t unit) { return slot.settled.contains(unit); },
                            [&](uint32_t unit) { slot.lost.push_back(unit); });
    slot.last_progress_ns = now;
    // Nothing is lost if the peer acknowledged the request; then the response may be what was lost, so ask for it.
    if (slot.call->sent && slot.lost.empty() && slot.response_pieces == 0) slot.lost.push_back(slot.request_pieces);
    make_ready(slot);
  }
}

void CallerHalf::make_ready(Slot& slot) {
  if (!context_.open) return;
  if (slot.waits) {
    slot.waits = false;
    slot.ready_hook.unlink();
  }
  if (!slot.ready_hook.linked()) ready_.push_back(slot);
  context_.host.mark_ready(context_.session);
}

// --- Starting --------------------------------------------------------------------------------------------------------

absl::Status CallerHalf::start(Call& call, TimeNs now) {
  if (context_.open && call.request->size() > context_.terms.message_max_bytes) {
    return absl::InvalidArgumentError(absl::StrCat("request of ", call.request->size(),
                                                   " bytes; this session carries at most ",
                                                   context_.terms.message_max_bytes));
  }
  if (active_count_ == 0) begin_waiting(now);
  // A small call that cannot start now waits for its turn. As a large call it would cost four times the credit.
  const bool waits = may_be_small(call, now) && (!waiting_.empty() || wants_first_credit() || !has_credit_for_small());
  if (context_.open && backlog_.empty() && !waits) {
    if (slots_ == nullptr) make_slots();
    if (context_.hot.has_free_slot()) {
      assign(take_slot(), call, now);
      return absl::OkStatus();
    }
  }
  if (backlog_count_ >= context_.options.backlog_max) {
    return absl::ResourceExhaustedError(absl::StrCat("session backlog is full (", backlog_count_,
                                                     " calls wait for one of ", context_.terms.window,
                                                     " slots): wait for completions, or raise backlog_max"));
  }
  backlog_.push_back(call);
  ++backlog_count_;
  context_.arm(call.deadline_ns);
  // There may be credit enough for a small call and for the one that waits for its first credit.
  if (waits && backlog_count_ == 1 && waiting_.empty()) start_backlog(now);
  return absl::OkStatus();
}

void CallerHalf::make_slots() {
  context_.session.make_slots();
  slots_ = std::make_unique<Slot[]>(context_.terms.window);
  for (uint32_t i = 0; i < context_.terms.window; ++i) slots_[i].index = i;
}

void CallerHalf::start_backlog(TimeNs now) {
  if (slots_ == nullptr) make_slots();
  while (context_.hot.has_free_slot() && !backlog_.empty()) {
    if (Call& next = backlog_.front(); may_be_small(next, now)) {
      if (!has_credit_for_small()) return;
      next.hook.unlink();
      if (context_.host.start_small(context_.session, next)) {
        --backlog_count_;
        continue;
      }
      backlog_.push_front(next);
    }
    Call& call = *backlog_.pop_front();
    --backlog_count_;
    if (call.request->size() > context_.terms.message_max_bytes) {
      complete(call, local_failure(absl::InvalidArgumentError(absl::StrCat("request of ", call.request->size(),
                                                                           " bytes; this session carries at most ",
                                                                           context_.terms.message_max_bytes)),
                                   false));
      continue;
    }
    assign(take_slot(), call, now);
  }
}

void CallerHalf::assign(Slot& slot, Call& call, TimeNs now) {
  slot.call = &call;
  call.slot = slot.index;
  slot.req_num = context_.hot.client[slot.index].req_num;
  slot.request_pieces = context_.pieces_of(call.request->size());
  bool held_back = false;
  if (slot.request_pieces > 1) {
    announce_request(slot);
    held_back = slot.announced.pending();  // on_lent() sends it
  }
  slot.response_pieces = 0;
  slot.response_bytes = 0;
  slot.next_unit = 0;
  slot.credits_held = 0;
  slot.pulled = 0;
  slot.probes = 0;
  slot.release_due = false;  // the new request frees the peer's sslot as well
  slot.last_progress_ns = now;
  slot.settled.reset(slot.request_pieces);
  slot.in_flight.reset();
  slot.lost.clear();
  if (active_count_++ == 0) begin_waiting(now);
  unsent_count_ += call.sent ? 0 : 1;
  if (PacketSink* sink = held_back ? nullptr : express_for(slot); sink != nullptr) {
    emit_request_pieces(slot, slot.next_unit++, 1, *sink, now);
  } else if (!held_back) {
    make_ready(slot);
  }
  arm_for(slot, now);
}

/// Calls that ended without an answer count as a part of the silence. Otherwise a caller that makes short calls one
/// after the other would never notice that the peer is gone.
void CallerHalf::begin_waiting(TimeNs now) {
  if (context_.last_heard_ns < waiting_since_ns_) return;
  waiting_since_ns_ = now;
  context_.pinged_since_ns = 0;
}

/// True: on_timer() runs before the timer of a slot that makes progress now can be due.
bool CallerHalf::is_armed_for(const Slot& slot, TimeNs now) const {
  return context_.due_ns <= std::min(now + context_.options.rto_min_ns, slot.call->deadline_ns);
}

/// Sets the timers of a new call. Mostly a timer of an earlier call is due earlier anyhow.
void CallerHalf::arm_for(const Slot& slot, TimeNs now) {
  if (context_.due_ns <= now + context_.options.ping_after_ns && is_armed_for(slot, now)) return;
  context_.arm(std::min(slot_timer_ns(slot), now + context_.options.ping_after_ns));
}

/// Where a request of one packet can be sent at once, without waiting for transmit(). Null: something holds it back.
/// This is the usual case of small calls.
PacketSink* CallerHalf::express_for(Slot& slot) {
  const bool held_back =
      context_.reliable || slot.request_pieces != 1 || limits_.paced() || !ready_.empty() || !waiting_.empty();
  if (held_back) return nullptr;
  PacketSink* sink = context_.host.express(context_.session);
  if (sink == nullptr || usable_credits() == 0) return nullptr;
  take_credits(1);
  slot.credits_held = 1;
  return sink;
}

// --- Finishing -------------------------------------------------------------------------------------------------------

void CallerHalf::complete(Call& call, CallOutcome&& outcome) {
  call.outcome = std::move(outcome);
  context_.host.complete(call);
}

void CallerHalf::fail(Slot& slot, CallOutcome&& outcome, TimeNs now) {
  slot.call->outcome = std::move(outcome);
  finish(slot, now);
}

/// The call's outcome is known: completes it and frees the slot.
void CallerHalf::finish(Slot& slot, TimeNs now) {
  Call& call = *slot.call;
  if (slot.announced || slot.fetching) [[unlikely]] {
    linger(slot, now);
  }
  vacate(slot);
  // The peer may release an answer that is no longer wanted, or a request that is half there.
  if (!call.outcome.from_peer && context_.open && call.sent && !slot.fetching) {
    slot.release_due = true;
    slot.release_req_num = slot.req_num;
  }
  if (slot.release_due) make_ready(slot);
  context_.host.complete(call);
  if (context_.open && !backlog_.empty()) start_backlog(now);
}

/// Takes the call out of the slot and frees it.
void CallerHalf::vacate(Slot& slot) {
  slot.ready_hook.unlink();
  slot.waits = false;
  unsent_count_ -= slot.call->sent ? 0 : 1;
  slot.call->slot = kNoSlot;
  slot.call = nullptr;
  return_pulls(slot, 0);
  return_credits(slot, 0);
  if (slot.response.data != nullptr) slot.response = {};
  slot.packets_wanted = false;
  --active_count_;
  if (!slot.lingers()) context_.hot.free_slot(slot.index);
}

Call& CallerHalf::take_out(Slot& slot) {
  Call& call = *slot.call;
  slot.announced.reset();
  vacate(slot);
  return call;
}

void CallerHalf::cancel(Call& call, const absl::Status& status, TimeNs now) {
  if (call.is_small) return cancel_small(call.small_number, status, now);
  if (call.slot == kNoSlot) {
    call.hook.unlink();
    --backlog_count_;
    complete(call, local_failure(status, false));
    return;
  }
  const bool sent = call.sent;
  fail(slots_[call.slot], local_failure(status, sent), now);
}

// --- Receiving -------------------------------------------------------------------------------------------------------

/// Takes a sample from a packet that told of `acked_packets`. If several came together, `header` is the newest one's.
void CallerHalf::sample_rtt(const Slot& slot, const PacketHeader& header, size_t payload_bytes, uint32_t acked_packets,
                            TimeNs now) {
  acked_since_loss_ += acked_packets;
  const auto ticks = static_cast<int32_t>(to_ticks(now) - header.stamp);
  if (ticks < 0) return;
  const DurationNs sample = ticks * kTickNs;
  rtt_.add_sample(sample);
  if (sample >= limits_.quiet_from_ns && sample < limits_.quiet_until_ns) return;
  congestion_->on_sample(sample, acked_packets, now);
  observe_packet_size(slot, header, payload_bytes);
  apply_limits();
}

void CallerHalf::observe_packet_size(const Slot& slot, const PacketHeader& header, size_t payload_bytes) {
  const bool first = header.type == PacketType::kAck || header.packet_index == 0;
  const uint32_t request_bytes = first ? context_.piece_bytes(slot.call->request->size(), 0) : 0;
  const uint32_t response_bytes = header.type == PacketType::kAck ? 0 : static_cast<uint32_t>(payload_bytes);
  const uint32_t bytes = std::max(request_bytes, response_bytes) + static_cast<uint32_t>(kHeaderBytes);
  packet_bytes_ = packet_bytes_ == 0 ? bytes : (7 * packet_bytes_ + bytes) / 8;
}

void CallerHalf::on_ack(const Arrival& arrival, TimeNs now) {
  Slot* slot = slot_for(arrival.header);
  if (slot == nullptr) return release_if_over(arrival.header.req_num);
  if ((arrival.header.flags & packet_flags::kByRead) != 0 && slot->announced) return send_in_packets(*slot, now);
  PacketSet set;
  if (!PacketSet::decode(arrival.payload, set) || set.base > std::min(slot->next_unit, slot->request_pieces)) {
    return context_.drop(DropReason::kBadLength);
  }
  if (slot->response_pieces != 0)
    return sample_rtt(*slot, arrival.header, arrival.payload.size(), 0, now);  // the response came before the ack
  // A piece that was never sent cannot have arrived. The peer is wrong, and accepting its word would lose data.
  if (set.end() > std::min(slot->next_unit, slot->request_pieces)) return context_.drop(DropReason::kBadLength);
  const uint32_t settled_before = slot->settled.count();
  settle(*slot, slot->settled.base(), set.base);
  set.for_each([&](uint32_t unit) { settle(*slot, unit, unit + 1); });
  const uint32_t acked = slot->settled.count() - settled_before;
  sample_rtt(*slot, arrival.header, arrival.payload.size(), acked, now);
  if (acked > 0) after_progress(*slot, now);
}

void CallerHalf::on_response(const Arrival& arrival, TimeNs now) {
  if ((arrival.header.flags & packet_flags::kByRead) != 0) [[unlikely]] {
    return on_announced_response(arrival, now);
  }
  Slot* slot = slot_for(arrival.header);
  if (slot == nullptr) return;
  const PacketHeader& header = arrival.header;
  if (slot->fetching) return context_.drop(DropReason::kDuplicate);  // it was announced, and is being read
  if (header.message_bytes > context_.terms.message_max_bytes) return context_.drop(DropReason::kTooLarge);
  if (!context_.is_whole_piece(arrival) ||
      (slot->response_pieces != 0 && slot->response_bytes != header.message_bytes)) {
    return context_.drop(DropReason::kBadLength);
  }
  sample_rtt(*slot, header, arrival.payload.size(), 1, now);
  if (header.message_bytes <= context_.terms.payload_bytes) {
    if (!context_.host.keep(arrival, slot->call->outcome.response)) return on_unplaceable(header, now);
    return complete_with_response(*slot, header);
  }
  accept_response_piece(*slot, arrival, now);
}

void CallerHalf::note_rtt(const Slot& slot, const Arrival& arrival, TimeNs now) {
  sample_rtt(slot, arrival.header, arrival.payload.size(), 1, now);
}

void CallerHalf::complete_fetched(Slot& slot, Lease&& message) {
  slot.call->outcome.response = std::move(message);
  PacketHeader header;
  header.flags = slot.response_flags;
  header.method = slot.response_status;
  header.message_bytes = slot.response_bytes;
  complete_with_response(slot, header);
}

void CallerHalf::accept_response_piece(Slot& slot, const Arrival& arrival, TimeNs now) {
  const PacketHeader& header = arrival.header;
  if (slot.response_pieces == 0) {
    std::optional<Assembly> assembly = context_.host.assemble(context_.session, header.message_bytes, false);
    if (!assembly.has_value()) {
      context_.drop(DropReason::kNoMemory);
      return fail(
          slot,
          local_failure(absl::ResourceExhaustedError(absl::StrCat("no memory for a response of ", header.message_bytes,
                                                                  " bytes; raise the endpoint's memory_limit_bytes")),
                        true),
          now);
    }
    settle_request(slot);
    slot.response = std::move(*assembly);
    slot.response_bytes = header.message_bytes;
    slot.response_pieces = context_.pieces_of(header.message_bytes);
    slot.settled.extend(slot.request_pieces + slot.response_pieces);
    slot.next_unit = slot.request_pieces + 1;
    slot.lost.clear();
    slot.in_flight.reset();
    if (header.packet_index != 0) slot.lost.push_back(slot.request_pieces);
  }
  if (slot.request_pieces + header.packet_index >= slot.next_unit) {
    return context_.drop(DropReason::kUnexpectedResponse);  // it was never pulled
  }
  PieceRun run;
  if (!begin_run(slot, header.packet_index, run)) {
    slot.in_flight.on_arrived(slot.request_pieces + header.packet_index);
    return context_.drop(DropReason::kDuplicate);
  }
  copy_bytes(run.place(0), arrival.payload);
  mark(slot, header, run, 1, now);
}

/// False: the piece came before, or it was never pulled.
bool CallerHalf::begin_run(const Slot& slot, uint32_t piece, PieceRun& run) const {
  const uint32_t unit = slot.request_pieces + piece;
  if (unit >= slot.next_unit) return false;
  run = {.first = piece,
         .count_max = std::min(slot.settled.missing_from(unit), slot.next_unit - unit),
         .piece_bytes = context_.terms.payload_bytes,
         .message_bytes = slot.response_bytes,
         .message = slot.response.data};
  return run.count_max > 0;
}

bool CallerHalf::join(const PacketHeader& header, PieceRun& run) const {
  if (slots_ == nullptr || (header.flags & packet_flags::kByRead) != 0) return false;
  const Slot& slot = slots_[context_.slot_of(header.req_num)];
  const bool is_coming = slot.call != nullptr && slot.response_pieces > 1 && slot.response.data != nullptr;
  if (!is_coming || slot.req_num != header.req_num || slot.response_bytes != header.message_bytes) return false;
  return header.packet_index < slot.response_pieces && begin_run(slot, header.packet_index, run);
}

void CallerHalf::take_run(const PacketHeader& header, const PieceRun& run, uint32_t count, TimeNs now) {
  Slot& slot = slots_[context_.slot_of(header.req_num)];
  sample_rtt(slot, header, run.bytes(0), count, now);
  mark(slot, header, run, count, now);
}

/// The run's first `count` pieces are in place: marks them, and completes the call if they were the last.
void CallerHalf::mark(Slot& slot, const PacketHeader& header, const PieceRun& run, uint32_t count, TimeNs now) {
  settle(slot, slot.request_pieces + run.first, slot.request_pieces + run.first + count);
  context_.host.count_copied(run.bytes_of(count));
  if (slot.settled.all()) {
    slot.call->outcome.response = std::move(slot.response.lease);
    return complete_with_response(slot, header);
  }
  after_progress(slot, now);
}

/// The response's bytes are in the call's outcome: completes the call.
void CallerHalf::complete_with_response(Slot& slot, const PacketHeader& header) {
  CallOutcome& outcome = slot.call->outcome;
  outcome.from_peer = true;
  outcome.may_have_executed = (header.flags & packet_flags::kEngineStatus) == 0;
  if (header.method != static_cast<uint16_t>(absl::StatusCode::kOk)) [[unlikely]] {
    const auto code = static_cast<absl::StatusCode>(std::min<uint16_t>(header.method, 16));
    const ByteSpan text = outcome.response.bytes();
    outcome.status = absl::Status(code, absl_view(text.first(std::min(text.size(), kErrorTextMaxBytes))));
    outcome.response.reset();
  }
  if (header.message_bytes > kReleaseAboveBytes) {
    slot.release_due = true;
    slot.release_req_num = slot.req_num;
  }
  finish(slot, context_.last_heard_ns);
}

/// Units [first, end) are known to have arrived.
void CallerHalf::settle(Slot& slot, uint32_t first, uint32_t end) {
  if (first >= end) return;
  slot.in_flight.on_arrived(first, end);
  slot.settled.insert_range(first, end);
}

void CallerHalf::settle_request(Slot& slot) {
  slot.settled.insert_range(slot.settled.base(), slot.request_pieces);
  slot.next_unit = std::max(slot.next_unit, slot.request_pieces);
}

void CallerHalf::after_progress(Slot& slot, TimeNs now) {
  slot.last_progress_ns = now;
  slot.probes = 0;
  const size_t lost_before = slot.lost.size();
  slot.in_flight.detect(
      rtt_.reorder_window_ns(), [&](uint32_t unit) { return slot.settled.contains(unit); },
      [&](uint32_t unit) { slot.lost.push_back(unit); });
  if (slot.lost.size() > lost_before && congestion_ != nullptr) {
    const auto lost = static_cast<uint32_t>(slot.lost.size() - lost_before);
    congestion_->on_loss(lost, std::exchange(acked_since_loss_, 0), now);
    apply_limits();
  }
  return_pulls(slot, slot.outstanding());
  return_credits(slot, std::max(slot.outstanding(), 1u));
  make_ready(slot);
  if (!is_armed_for(slot, now)) context_.arm(slot_timer_ns(slot));
  // Small calls in the backlog may wait for the credits that came back.
  if (!backlog_.empty()) start_backlog(now);
}

bool CallerHalf::expects(const PacketHeader& header) const {
  if (is_small(header.req_num)) return true;
  if (slots_ == nullptr) return false;
  const Slot& slot = slots_[context_.slot_of(header.req_num)];
  return slot.call != nullptr && slot.req_num == header.req_num;
}

void CallerHalf::on_unplaceable(const PacketHeader& header, TimeNs now) {
  Slot* slot = slot_for(header);
  if (slot == nullptr) return;
  context_.drop(DropReason::kNoMemory);
  fail(*slot,
       local_failure(
           absl::ResourceExhaustedError("no memory for the response; raise the endpoint's memory_limit_bytes"), true),
       now);
}

}  // namespace skua::rpc
