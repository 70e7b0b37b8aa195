// The calling side of a session: client slots.
#include <algorithm>
#include <cstring>

#include "absl/strings/str_cat.h"
#include "rpc/base/check.h"
#include "rpc/base/status.h"
#include "rpc/protocol/mutants.h"
#include "rpc/protocol/session.h"

namespace skua::rpc {
namespace {

// Probes of a call that the peer acknowledged back off only this far (first time-out x 2^7): its
// response may be the lost packet.
constexpr uint32_t kAwaitingProbesMax = 7;
// Responses above this are worth a packet that tells the server it may free them.
constexpr uint32_t kReleaseAboveBytes = 4096;
// Of an error's text; what senders send at most.
constexpr size_t kErrorTextMaxBytes = 1024;
// One or two unanswered probes in a row are an accident, or a handler that takes its time.
constexpr uint32_t kProbesThatMeanTimeout = 3;

}  // namespace

uint32_t Session::ClientSlot::outstanding() const {
  if (response_pieces == 0) return next_unit - settled.count();
  const uint32_t arrived = settled.count() - request_pieces;
  return next_unit - request_pieces - arrived;
}

// --- Starting --------------------------------------------------------------------------------------------------------

absl::Status Session::start(Call& call, TimeNs now) {
  if (open_ && call.request->size() > terms_.message_max_bytes) {
    return absl::InvalidArgumentError(absl::StrCat("request of ", call.request->size(),
                                                   " bytes; this session carries at most ", terms_.message_max_bytes));
  }
  if (active_count_ == 0) waiting_since_ns_ = now;
  if (open_ && backlog_.empty()) {
    if (client_slots_ == nullptr) start_backlog(now);
    if (!free_slots_.empty()) {
      ClientSlot& slot = client_slots_[free_slots_.back()];
      free_slots_.pop_back();
      assign(slot, call, now);
      return absl::OkStatus();
    }
  }
  if (backlog_count_ >= options_.backlog_max) {
    return absl::ResourceExhaustedError(absl::StrCat("session backlog is full (", backlog_count_,
                                                     " calls wait for one of ", terms_.window,
                                                     " slots): wait for completions, or raise backlog_max"));
  }
  backlog_.push_back(call);
  ++backlog_count_;
  arm(call.deadline_ns);
  return absl::OkStatus();
}

void Session::start_backlog(TimeNs now) {
  if (client_slots_ == nullptr) {
    client_slots_ = std::make_unique<ClientSlot[]>(terms_.window);
    free_slots_.reserve(terms_.window);
    for (uint32_t i = terms_.window; i-- > 0;) {
      client_slots_[i].index = i;
      client_slots_[i].req_num = i - terms_.window;
      free_slots_.push_back(i);
    }
    if (!reliable_) congestion_ = make_congestion_policy(options_, terms_.credits);
    if (congestion_ != nullptr) apply_limits();
  }
  while (!free_slots_.empty() && !backlog_.empty()) {
    Call& call = *backlog_.pop_front();
    --backlog_count_;
    if (call.request->size() > terms_.message_max_bytes) {
      complete(call, local_failure(absl::InvalidArgumentError(absl::StrCat("request of ", call.request->size(),
                                                                           " bytes; this session carries at most ",
                                                                           terms_.message_max_bytes)),
                                   false));
      continue;
    }
    ClientSlot& slot = client_slots_[free_slots_.back()];
    free_slots_.pop_back();
    assign(slot, call, now);
  }
}

void Session::assign(ClientSlot& slot, Call& call, TimeNs now) {
  slot.call = &call;
  call.slot = slot.index;
  slot.req_num += terms_.window;
  slot.request_pieces = pieces_of(call.request->size());
  bool held_back = false;
  if (slot.request_pieces > 1) {
    announce_request(slot);
    held_back = slot.announced.pending();  // until on_lent()
  }
  slot.response_pieces = 0;
  slot.response_bytes = 0;
  slot.next_unit = 0;
  slot.credits_held = 0;
  slot.pulled = 0;
  slot.probes = 0;
  slot.release_due = false;  // the new request says the same
  slot.last_progress_ns = now;
  slot.settled.reset(slot.request_pieces);
  slot.in_flight.reset();
  slot.lost.clear();
  if (active_count_++ == 0) {
    waiting_since_ns_ = now;
    pinged_since_ns_ = 0;
  }
  if (PacketSink* sink = held_back ? nullptr : express_for(slot); sink != nullptr) {
    emit_request_piece(slot, slot.next_unit++, *sink, now);
  } else if (!held_back) {
    make_ready(slot);
  }
  arm_for(slot, now);
}

/// on_timer() comes before a timer of a slot that made progress now can be due.
bool Session::is_armed_for(const ClientSlot& slot, TimeNs now) const {
  return due_ns_ <= std::min(now + options_.rto_min_ns, slot.call->deadline_ns);
}

/// A new call's timers. Usually those of calls before it are due earlier than any of this one's can be.
void Session::arm_for(const ClientSlot& slot, TimeNs now) {
  if (due_ns_ <= now + options_.ping_after_ns && is_armed_for(slot, now)) return;
  arm(std::min(slot_timer_ns(slot), now + options_.ping_after_ns));
}

/// A request of one packet that nothing holds back goes out without waiting for transmit(): the usual case of small calls.
PacketSink* Session::express_for(ClientSlot& slot) {
  const bool held_back =
      reliable_ || slot.request_pieces != 1 || limits_.paced() || !ready_clients_.empty() || !waiting_clients_.empty();
  if (held_back) return nullptr;
  PacketSink* sink = host_.express(*this);
  if (sink == nullptr || credits_ <= credits_barred_) return nullptr;
  --credits_;
  slot.credits_held = 1;
  return sink;
}

// --- Finishing -------------------------------------------------------------------------------------------------------

void Session::complete(Call& call, CallOutcome&& outcome) {
  call.outcome = std::move(outcome);
  host_.complete(call);
}

void Session::fail(ClientSlot& slot, CallOutcome&& outcome, TimeNs now) {
  slot.call->outcome = std::move(outcome);
  finish(slot, now);
}

/// The call's outcome is known.
void Session::finish(ClientSlot& slot, TimeNs now) {
  Call& call = *slot.call;
  if (slot.announced || slot.fetching) [[unlikely]] {
    linger(slot, now);
  }
  vacate(slot);
  // An answer that is no longer wanted, or a request that is half there: the server may let go of it.
  if (!call.outcome.from_peer && open_ && call.sent && !slot.fetching) {
    slot.release_due = true;
    slot.release_req_num = slot.req_num;
  }
  if (slot.release_due) make_ready(slot);
  host_.complete(call);
  if (open_ && !backlog_.empty()) start_backlog(now);
}

/// Takes the call out of the slot and frees it.
void Session::vacate(ClientSlot& slot) {
  slot.ready_hook.unlink();
  slot.waits = false;
  slot.call->slot = kNoSlot;
  slot.call = nullptr;
  return_pulls(slot, 0);
  return_credits(slot, 0);
  if (slot.response.data != nullptr) slot.response = {};
  slot.packets_wanted = false;
  --active_count_;
  if (!slot.lingers()) free_slots_.push_back(slot.index);
}

Call& Session::take_out(ClientSlot& slot) {
  Call& call = *slot.call;
  slot.announced.reset();
  vacate(slot);
  return call;
}

void Session::cancel(Call& call, const absl::Status& status, TimeNs now) {
  if (call.slot == kNoSlot) {
    call.hook.unlink();
    --backlog_count_;
    complete(call, local_failure(status, false));
    return;
  }
  const bool sent = call.sent;
  fail(client_slots_[call.slot], local_failure(status, sent), now);
}

// --- Credits, window, budget -----------------------------------------------------------------------------------------

bool Session::take_credit(ClientSlot& slot) {
  if (reliable_) return true;
  if (slot.outstanding() < slot.credits_held) return true;
  if (credits_ <= credits_barred_) return false;
  --credits_;
  ++slot.credits_held;
  return true;
}

void Session::return_credits(ClientSlot& slot, uint32_t keep) {
  if (reliable_) return;
  if (slot.credits_held > keep) {
    const uint32_t returned = slot.credits_held - keep;
    slot.credits_held = keep;
    credits_ += mutant(Mutant::kLoseCredit) && slot.req_num % 7 == 3 ? returned - 1 : returned;
  }
  if (!waiting_clients_.empty()) wake_waiters();
}

void Session::wake_waiters() {
  // One waiter per credit there is, not per credit returned: a slot that was woken may have ended before it used its own. And
  // one in any case: it may wait for less than a credit. Paced sessions send one packet at a time.
  const uint32_t usable = credits_ > credits_barred_ ? credits_ - credits_barred_ : 0;
  const uint32_t wake = limits_.paced() ? 1 : std::max(usable, 1u);
  for (uint32_t i = 0; i < wake && !waiting_clients_.empty(); ++i) make_ready(waiting_clients_.front());
}

/// One more unit may be pulled; else the slot waits.
bool Session::may_pull(ClientSlot& slot) {
  if (pulled_ >= limits_.window_packets) {
    slot.waits = slot.outstanding() == 0;  // else its own progress brings it back
    return false;
  }
  if (budget_ == nullptr || budget_->may_take(pulled_)) return true;
  slot.waits = true;
  budget_->wait(*this);
  return false;
}

void Session::take_pull(ClientSlot& slot) {
  ++slot.pulled;
  ++pulled_;
  if (budget_ != nullptr) budget_->take(terms_.payload_bytes);
}

void Session::return_pulls(ClientSlot& slot, uint32_t keep) {
  if (slot.pulled <= keep) return;
  const uint32_t returned = slot.pulled - keep;
  slot.pulled = keep;
  pulled_ -= returned;
  if (budget_ != nullptr) budget_->give(returned, terms_.payload_bytes);
}

void Session::on_budget_room() {
  if (!waiting_clients_.empty()) make_ready(waiting_clients_.front());
}

/// The next packet may leave now; else the caller's slot waits for the session's departure.
bool Session::may_depart(TimeNs now) {
  if (!limits_.paced() || pacer_.due(now)) return true;
  if (pacer_.departure_ns() < departure_wait_ns_) {
    departure_wait_ns_ = pacer_.departure_ns();
    host_.arm_timer(*this, departure_wait_ns_);
  }
  return false;
}

void Session::apply_limits() {
  limits_ = congestion_->limits();
  if (packet_bytes_ != 0) {
    const uint64_t full = terms_.payload_bytes + kHeaderBytes;
    const uint64_t window = limits_.window_packets * full / packet_bytes_;
    limits_.window_packets = static_cast<uint32_t>(std::min<uint64_t>(window, UINT32_MAX));
    limits_.packet_gap_ns = limits_.packet_gap_ns * packet_bytes_ / static_cast<DurationNs>(full);
  }
  credits_barred_ = terms_.credits - std::min(terms_.credits, limits_.window_packets);
}

// --- Receiving -------------------------------------------------------------------------------------------------------

void Session::sample_rtt(const ClientSlot& slot, const Arrival& arrival, uint32_t acked_packets, TimeNs now) {
  acked_since_loss_ += acked_packets;
  const auto ticks = static_cast<int32_t>(to_ticks(now) - arrival.header.stamp);
  if (ticks < 0) return;
  const DurationNs sample = ticks * kTickNs;
  rtt_.add_sample(sample);
  if (sample >= limits_.quiet_from_ns && sample < limits_.quiet_until_ns) return;
  tell_congestion(slot, arrival, sample, acked_packets, now);
}

void Session::tell_congestion(const ClientSlot& slot, const Arrival& arrival, DurationNs sample, uint32_t acked,
                              TimeNs now) {
  congestion_->on_sample(sample, acked, now);
  observe_packet_size(slot, arrival);
  apply_limits();
}

void Session::observe_packet_size(const ClientSlot& slot, const Arrival& arrival) {
  const bool first = arrival.header.type == PacketType::kAck || arrival.header.packet_index == 0;
  const uint32_t request_bytes = first ? piece_bytes(slot.call->request->size(), 0) : 0;
  const uint32_t response_bytes =
      arrival.header.type == PacketType::kAck ? 0 : static_cast<uint32_t>(arrival.payload.size());
  const uint32_t bytes = std::max(request_bytes, response_bytes) + static_cast<uint32_t>(kHeaderBytes);
  packet_bytes_ = packet_bytes_ == 0 ? bytes : (7 * packet_bytes_ + bytes) / 8;
}

void Session::on_ack(const Arrival& arrival, TimeNs now) {
  ClientSlot* slot = client_slot_for(arrival.header);
  if (slot == nullptr) return;
  if ((arrival.header.flags & packet_flags::kByRead) != 0 && slot->announced) return send_in_packets(*slot, now);
  PacketSet set;
  if (!PacketSet::decode(arrival.payload, set) || set.base > std::min(slot->next_unit, slot->request_pieces)) {
    return drop(DropReason::kBadLength);
  }
  if (slot->response_pieces != 0) return sample_rtt(*slot, arrival, 0, now);  // the response overtook it
  // A piece that was never sent cannot have arrived: the peer is wrong, and believing it would lose data.
  if (set.end() > std::min(slot->next_unit, slot->request_pieces)) return drop(DropReason::kBadLength);
  const uint32_t settled_before = slot->settled.count();
  for (uint32_t unit = slot->settled.base(); unit < set.base; ++unit) settle(*slot, unit);
  set.for_each([&](uint32_t unit) { settle(*slot, unit); });
  const uint32_t acked = slot->settled.count() - settled_before;
  sample_rtt(*slot, arrival, acked, now);
  if (acked > 0) after_progress(*slot, now);
}

void Session::on_response(const Arrival& arrival, TimeNs now) {
  if ((arrival.header.flags & packet_flags::kByRead) != 0) [[unlikely]] {
    return on_announced_response(arrival, now);
  }
  ClientSlot* slot = client_slot_for(arrival.header);
  if (slot == nullptr) return;
  const PacketHeader& header = arrival.header;
  if (header.message_bytes > terms_.message_max_bytes) return drop(DropReason::kTooLarge);
  if (!is_whole_piece(arrival) || (slot->response_pieces != 0 && slot->response_bytes != header.message_bytes)) {
    return drop(DropReason::kBadLength);
  }
  sample_rtt(*slot, arrival, 1, now);
  if (header.message_bytes <= terms_.payload_bytes) {
    if (!host_.keep(arrival, slot->call->outcome.response)) return on_unplaceable(header, now);
    return complete_with_response(*slot, header);
  }
  accept_response_piece(*slot, arrival, now);
}

void Session::note_rtt(const ClientSlot& slot, const Arrival& arrival, TimeNs now) {
  sample_rtt(slot, arrival, 1, now);
}

void Session::complete_fetched(ClientSlot& slot, Lease&& message) {
  slot.call->outcome.response = std::move(message);
  PacketHeader header;
  header.flags = slot.response_flags;
  header.method = slot.response_status;
  header.message_bytes = slot.response_bytes;
  complete_with_response(slot, header);
}

void Session::accept_response_piece(ClientSlot& slot, const Arrival& arrival, TimeNs now) {
  const PacketHeader& header = arrival.header;
  if (slot.response_pieces == 0) {
    std::optional<Assembly> assembly = host_.assemble(*this, header.message_bytes);
    if (!assembly.has_value()) {
      drop(DropReason::kNoMemory);
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
    slot.response_pieces = pieces_of(header.message_bytes);
    slot.settled.extend(slot.request_pieces + slot.response_pieces);
    slot.next_unit = slot.request_pieces + 1;
    slot.lost.clear();
    slot.in_flight.reset();
    if (header.packet_index != 0) slot.lost.push_back(slot.request_pieces);
  }
  const uint32_t unit = slot.request_pieces + header.packet_index;
  if (unit >= slot.next_unit) return drop(DropReason::kUnexpectedResponse);  // never pulled
  if (!settle(slot, unit)) return drop(DropReason::kDuplicate);
  copy_bytes(slot.response.data + size_t{header.packet_index} * terms_.payload_bytes, arrival.payload);
  host_.count_copied(arrival.payload.size());
  if (slot.settled.all()) {
    slot.call->outcome.response = std::move(slot.response.lease);
    return complete_with_response(slot, header);
  }
  after_progress(slot, now);
}

/// The response's bytes are in the call's outcome.
void Session::complete_with_response(ClientSlot& slot, const PacketHeader& header) {
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
  finish(slot, last_heard_ns_);
}

bool Session::settle(ClientSlot& slot, uint32_t unit) {
  slot.in_flight.on_arrived(unit);
  return slot.settled.insert(unit);
}

void Session::settle_request(ClientSlot& slot) {
  for (uint32_t unit = slot.settled.base(); unit < slot.request_pieces; ++unit) slot.settled.insert(unit);
  slot.next_unit = std::max(slot.next_unit, slot.request_pieces);
}

void Session::after_progress(ClientSlot& slot, TimeNs now) {
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
  if (!is_armed_for(slot, now)) arm(slot_timer_ns(slot));
}

// --- Sending ---------------------------------------------------------------------------------------------------------

bool Session::transmit_client(ClientSlot& slot, PacketSink& sink, TimeNs now) {
  if (slot.release_due) {
    if (!sink.has_room()) return false;
    slot.release_due = false;
    PacketHeader header = header_for(PacketType::kRelease, slot.release_req_num);
    if (slot.call == nullptr && slot.announced) header.flags = packet_flags::kByRead;
    sink.emit(*this, header, MessagePtr(), 0, 0);
  }
  if (slot.call == nullptr || slot.announced.pending()) return true;
  // Request pieces: lost ones first, they hold their credits already.
  for (size_t i = 0; i < slot.lost.size();) {
    const uint32_t unit = slot.lost[i];
    const bool gone = slot.settled.size() > unit && slot.settled.contains(unit);
    if (unit >= slot.request_pieces && !gone) {
      ++i;
      continue;
    }
    if (!gone) {
      if (!sink.has_room()) return false;
      if (!may_depart(now)) {
        slot.waits = true;
        return true;
      }
      host_.count_retransmit();
      emit_request_piece(slot, unit, sink, now);
    }
    slot.lost[i] = slot.lost.back();
    slot.lost.pop_back();
  }
  while (slot.next_unit < slot.request_pieces) {
    if (!sink.has_room()) return false;
    if (!may_depart(now) || !take_credit(slot)) {
      slot.waits = true;
      return true;
    }
    emit_request_piece(slot, slot.next_unit++, sink, now);
  }
  return emit_pulls(slot, sink, now);
}

void Session::emit_request_piece(ClientSlot& slot, uint32_t piece, PacketSink& sink, TimeNs now) {
  const Call& call = *slot.call;
  if (slot.announced) [[unlikely]] {
    return emit_announced_request(slot, sink, now);
  }
  const PacketHeader header = make_header({.type = PacketType::kRequest,
                                           .flags = call.one_way ? packet_flags::kOneWay : uint8_t{0},
                                           .method = call.method,
                                           .session_index = address_.remote_index,
                                           .session_generation = address_.remote_generation,
                                           .req_num = slot.req_num,
                                           .message_bytes = static_cast<uint32_t>(call.request->size()),
                                           .packet_index = static_cast<uint16_t>(piece),
                                           .deadline_ms = deadline_field(call.deadline_ns, now),
                                           .stamp = to_ticks(now)});
  if (slot.in_flight.empty()) slot.last_progress_ns = now;  // it may have waited long to leave
  slot.call->sent = true;
  slot.in_flight.on_sent(piece, now);
  const uint32_t bytes = piece_bytes(call.request->size(), piece);
  if (limits_.paced()) pacer_.charge(limits_, bytes, now);
  sink.emit(*this, header, call.request, size_t{piece} * terms_.payload_bytes, bytes);
}

bool Session::emit_pulls(ClientSlot& slot, PacketSink& sink, TimeNs now) {
  const uint32_t first = slot.request_pieces;
  const uint32_t end = slot.response_pieces == 0 ? 0 : first + slot.response_pieces;
  if (slot.lost.empty() && slot.next_unit >= end) return true;
  std::sort(slot.lost.begin(), slot.lost.end());
  PacketSet set;
  size_t lost_taken = 0;
  auto add = [&](uint32_t unit) {
    const uint32_t piece = unit - first;
    if (set.word_count > 0 && piece - set.base >= 64 * PacketSet::kWordsMax) {
      emit_pull(slot, std::exchange(set, {}), sink, now);
      if (!sink.has_room()) return false;  // a set is begun only where there is room to emit it
    }
    if (set.word_count == 0) set.base = static_cast<uint16_t>(piece);
    const uint32_t bit = piece - set.base;
    set.words[bit / 64] |= uint64_t{1} << (bit % 64);
    set.word_count = static_cast<uint16_t>(std::max<uint32_t>(set.word_count, bit / 64 + 1));
    if (slot.in_flight.empty()) slot.last_progress_ns = now;
    slot.in_flight.on_sent(unit, now);
    if (limits_.paced()) pacer_.charge(limits_, terms_.payload_bytes, now);
    return true;
  };
  if (!sink.has_room()) return false;
  bool room = true;
  while (room && lost_taken < slot.lost.size()) {
    if (!may_depart(now)) {
      slot.waits = true;
      break;
    }
    host_.count_retransmit();
    room = add(slot.lost[lost_taken]);
    if (!room) break;
    ++lost_taken;
    // A time-out gave it back.
    if (slot.response_pieces != 0 && slot.pulled < slot.outstanding()) take_pull(slot);
  }
  slot.lost.erase(slot.lost.begin(), slot.lost.begin() + static_cast<std::ptrdiff_t>(lost_taken));
  while (room && !slot.waits && slot.next_unit < end) {
    if (!may_depart(now)) {
      slot.waits = true;
      break;
    }
    if (!may_pull(slot)) break;
    if (!take_credit(slot)) {
      slot.waits = slot.outstanding() == 0;
      break;
    }
    room = add(slot.next_unit);
    if (!room) break;
    ++slot.next_unit;
    take_pull(slot);
  }
  if (set.word_count > 0) emit_pull(slot, set, sink, now);
  return room;
}

void Session::emit_pull(ClientSlot& slot, const PacketSet& set, PacketSink& sink, TimeNs now) {
  PacketHeader header = header_for(PacketType::kPull, slot.req_num);
  if (slot.packets_wanted) header.flags = packet_flags::kByRead;
  header.stamp = to_ticks(now);
  MessagePtr extension = host_.make_message();
  extension->set_head_size(set.encode(extension->head_room().data()));
  sink.emit(*this, header, extension, 0, extension->size());
}

// --- Timers ----------------------------------------------------------------------------------------------------------

TimeNs Session::slot_timer_ns(const ClientSlot& slot) const {
  const TimeNs deadline = mutant(Mutant::kIgnoreDeadline) ? kTimeNever : slot.call->deadline_ns;
  if (reliable_ || slot.fetching) return deadline;
  return std::min(deadline, slot.last_progress_ns + rtt_.probe_timeout_ns(options_, slot.probes));
}

void Session::on_slot_timer(ClientSlot& slot, TimeNs now) {
  if (now >= slot.call->deadline_ns && !mutant(Mutant::kIgnoreDeadline)) {
    const bool sent = slot.call->sent;
    fail(slot,
         local_failure(absl::DeadlineExceededError(sent ? absl::StrCat("deadline exceeded; the peer was last heard ",
                                                                       (now - last_heard_ns_) / kMillisecond, " ms ago")
                                                        : "deadline exceeded before the request could be sent"),
                       sent),
         now);
    return;
  }
  if (reliable_ || slot.fetching) return;
  if (!slot.call->sent) {
    slot.last_progress_ns = now;
    return;
  }
  if (now < slot.last_progress_ns + rtt_.probe_timeout_ns(options_, slot.probes)) return;
  slot.last_progress_ns = now;
  uint32_t unit;
  if (slot.in_flight.take_probe([&](uint32_t u) { return slot.settled.contains(u); }, unit)) {
    slot.lost.push_back(unit);
    // Waiting for the response alone: it may be the lost packet, so keep asking.
    const bool awaiting = unit == slot.request_pieces;
    slot.probes = awaiting ? std::min(slot.probes + 1, kAwaitingProbesMax) : slot.probes + 1;
    if (!awaiting && slot.probes >= kProbesThatMeanTimeout && congestion_ != nullptr) {
      congestion_->on_timeout(now);
      apply_limits();
    }
    if (slot.pulled > 0) {
      // What did not come in all this time is not on its way to us; others may use its place.
      return_pulls(slot, 0);
      wake_waiters();
    }
  } else if (slot.response_pieces == 0 && slot.settled.all()) {
    // Everything arrived there: ask for the first response piece. It is still running, or its
    // answer was lost.
    slot.lost.push_back(slot.request_pieces);
    slot.probes = std::min(slot.probes + 1, kAwaitingProbesMax);
  }
  make_ready(slot);
}

}  // namespace skua::rpc
