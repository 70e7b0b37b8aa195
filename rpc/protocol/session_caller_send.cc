// The calling side: what goes out, and when.
#include <algorithm>

#include "absl/strings/str_cat.h"
#include "rpc/protocol/protocol_mutants.h"
#include "rpc/protocol/session.h"

namespace skua::rpc {
namespace {

// Limit for the back-off of probes of a call that the peer acknowledged (first time-out x 2^7): its response may be the
// lost packet.
constexpr uint32_t kAwaitingProbesMax = 7;
// One or two probes in a row without an answer may be an accident, or a handler that takes its time.
constexpr uint32_t kProbesThatMeanTimeout = 3;

}  // namespace

// --- Credits, window, budget -----------------------------------------------------------------------------------------

/// Takes credits for up to `wanted` more units in flight. Returns for how many units it has credits.
uint32_t CallerHalf::take_credits(Slot& slot, uint32_t wanted) {
  if (context_.reliable) return wanted;
  const uint32_t spare = slot.credits_held - std::min(slot.credits_held, slot.outstanding());
  if (spare >= wanted) return wanted;
  const uint32_t taken = std::min(wanted - spare, usable_credits());
  take_credits(taken);
  slot.credits_held += taken;
  return spare + taken;
}

void CallerHalf::return_credits(Slot& slot, uint32_t keep) {
  if (context_.reliable) return;
  if (slot.credits_held > keep) {
    const uint32_t returned = slot.credits_held - keep;
    slot.credits_held = keep;
    const bool loses_one = mutant(Mutant::kLoseCredit) && slot.req_num % 7 == 3;
    const uint32_t whole = returned - (loses_one ? 1 : 0);
    context_.hot.credits =
        static_cast<int16_t>(context_.hot.credits + static_cast<int32_t>(SessionHot::kQuarters * whole));
  }
  wake_waiters();
}

void CallerHalf::wake_waiters() {
  // Wake one waiter for each usable credit, not for each credit returned: a slot that was woken may have ended before
  // it used its own. Wake one in any case, because it may wait for less than a credit. A paced session wakes one,
  // because it sends one packet at a time.
  const uint32_t wake = limits_.paced() ? 1 : std::max(usable_credits(), 1u);
  for (uint32_t i = 0; i < wake && !waiting_.empty(); ++i) make_ready(waiting_.front());
}

/// How many of the `wanted` units may be pulled now. 0: the slot waits.
uint32_t CallerHalf::may_pull(Slot& slot, uint32_t wanted) {
  if (pulled_ >= limits_.window_packets) {
    slot.waits = slot.outstanding() == 0;  // otherwise its own progress makes it ready again
    return 0;
  }
  const uint32_t in_window = std::min(wanted, limits_.window_packets - pulled_);
  if (budget() == nullptr) return in_window;
  const uint32_t count = budget()->may_take(in_window, context_.terms.payload_bytes, pulled_);
  if (count > 0) return count;
  slot.waits = true;
  budget()->wait(*this);
  return 0;
}

void CallerHalf::take_pulls(Slot& slot, uint32_t count) {
  slot.pulled += count;
  pulled_ += count;
  if (budget() != nullptr) budget()->take(count, context_.terms.payload_bytes);
}

void CallerHalf::return_pulls(Slot& slot, uint32_t keep) {
  if (slot.pulled <= keep) return;
  const uint32_t returned = slot.pulled - keep;
  slot.pulled = keep;
  pulled_ -= returned;
  if (budget() != nullptr) budget()->give(returned, context_.terms.payload_bytes);
}

void CallerHalf::on_budget_room() {
  if (!waiting_.empty()) make_ready(waiting_.front());
  tell_busy();
}

/// True: the next packet may leave now. False: the caller's slot has to wait for the session's departure.
bool CallerHalf::may_depart(TimeNs now) {
  if (!limits_.paced() || pacer_.due(now)) return true;
  if (pacer_.departure_ns() < departure_wait_ns_) {
    departure_wait_ns_ = pacer_.departure_ns();
    context_.host.arm_timer(context_.session, departure_wait_ns_);
  }
  return false;
}

void CallerHalf::apply_limits() {
  limits_ = congestion_->limits();
  if (packet_bytes_ != 0) {
    const uint64_t full = context_.terms.payload_bytes + kHeaderBytes;
    const uint64_t window = limits_.window_packets * full / packet_bytes_;
    limits_.window_packets = static_cast<uint32_t>(std::min<uint64_t>(window, UINT32_MAX));
    limits_.packet_gap_ns = limits_.packet_gap_ns * packet_bytes_ / static_cast<DurationNs>(full);
  }
  SessionHot& hot = context_.hot;
  const uint32_t barred = context_.terms.credits - std::min(context_.terms.credits, limits_.window_packets);
  hot.credits_barred = static_cast<int16_t>(SessionHot::kQuarters * barred);
  hot.hinder(SessionHot::kPaced, limits_.paced());
  hot.quiet_from = static_cast<Ticks>(limits_.quiet_from_ns / kTickNs);
  const DurationNs quiet_span = limits_.quiet_until_ns - limits_.quiet_from_ns;
  hot.quiet_span = static_cast<Ticks>(std::min<DurationNs>(quiet_span / kTickNs, UINT32_MAX));
}

// --- Sending ---------------------------------------------------------------------------------------------------------

bool CallerHalf::transmit(PacketSink& sink, TimeNs now) {
  while (!ready_.empty()) {
    Slot& slot = ready_.front();
    if (!transmit_slot(slot, sink, now)) return true;
    slot.ready_hook.unlink();
    if (slot.waits) {
      waiting_.push_back(slot);
    } else if (limits_.paced() && !waiting_.empty()) {
      // A departure wakes one slot. What that slot left over is for the next one. The driver knows that we are ready.
      Slot& next = *waiting_.pop_front();
      next.waits = false;
      ready_.push_back(next);
    }
  }
  return false;
}

bool CallerHalf::transmit_slot(Slot& slot, PacketSink& sink, TimeNs now) {
  if (slot.release_due) {
    if (!sink.has_room()) return false;
    slot.release_due = false;
    PacketHeader header = context_.header_for(PacketType::kRelease, slot.release_req_num);
    if (slot.call == nullptr && slot.announced) header.flags = packet_flags::kByRead;
    sink.emit(context_.session, header, MessagePtr(), 0, 0);
  }
  if (slot.call == nullptr || slot.announced.pending()) return true;
  // Request pieces. Lost ones come first, because they hold credits already.
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
      context_.host.count_retransmit();
      emit_request_pieces(slot, unit, 1, sink, now);
    }
    slot.lost[i] = slot.lost.back();
    slot.lost.pop_back();
  }
  while (slot.next_unit < slot.request_pieces) {
    if (!sink.has_room()) return false;
    const uint32_t left = slot.request_pieces - slot.next_unit;
    const uint32_t wanted = limits_.paced() ? 1 : std::min(left, sink.room_packets());
    const uint32_t count = may_depart(now) ? take_credits(slot, wanted) : 0;
    if (count == 0) {
      slot.waits = true;
      return true;
    }
    emit_request_pieces(slot, slot.next_unit, count, sink, now);
    slot.next_unit += count;
  }
  return emit_pulls(slot, sink, now);
}

/// For an ack of a call that is over: the callee asks about the response (session_callee_kept.cc), or an ack is late.
/// Sends a release, which does no harm in the second case.
void CallerHalf::release_if_over(uint32_t number) {
  if (!context_.open || context_.hot.client == nullptr) return;
  const ClientSlot& shared = context_.hot.client[context_.slot_of(number)];
  const auto age = static_cast<int32_t>(number - shared.req_num);
  // The number was never used, or its memory is still in use: then the release comes later.
  if (age > 0 || (age == 0 && shared.state != ClientSlot::State::kFree)) return;
  if (slots_ == nullptr) make_slots();
  Slot& slot = slots_[context_.slot_of(number)];
  if (slot.release_due) return;
  slot.release_due = true;
  slot.release_req_num = number;
  make_ready(slot);
}

/// Emits one piece, or a run of pieces if the session is not paced.
void CallerHalf::emit_request_pieces(Slot& slot, uint32_t first, uint32_t count, PacketSink& sink, TimeNs now) {
  const Call& call = *slot.call;
  if (slot.announced) [[unlikely]] {
    return emit_announced_request(slot, sink, now);
  }
  const PacketHeader header = make_header({.type = PacketType::kRequest,
                                           .flags = call.one_way ? packet_flags::kOneWay : uint8_t{0},
                                           .method = call.method,
                                           .session_index = context_.address.remote_index,
                                           .session_generation = context_.address.remote_generation,
                                           .req_num = slot.req_num,
                                           .message_bytes = static_cast<uint32_t>(call.request->size()),
                                           .packet_index = static_cast<uint16_t>(first),
                                           .deadline_ms = deadline_field(call.deadline_ns, now),
                                           .stamp = to_ticks(now)});
  if (slot.in_flight.empty()) slot.last_progress_ns = now;  // the request may have waited long before it left
  note_sent(*slot.call);
  slot.in_flight.on_sent(first, count, now);
  if (limits_.paced()) pacer_.charge(limits_, context_.piece_bytes(call.request->size(), first), now);
  if (slot.request_pieces > 1) {
    return sink.emit_train(context_.session, header, call.request, context_.terms.payload_bytes, count);
  }
  sink.emit(context_.session, header, call.request, 0, call.request->size());
}

bool CallerHalf::emit_pulls(Slot& slot, PacketSink& sink, TimeNs now) {
  const uint32_t end = slot.response_pieces == 0 ? 0 : slot.request_pieces + slot.response_pieces;
  if (slot.lost.empty() && slot.next_unit >= end) return true;
  if (!sink.has_room()) return false;
  std::sort(slot.lost.begin(), slot.lost.end());
  PacketSet set;
  bool room = true;
  size_t lost_taken = 0;
  while (room && lost_taken < slot.lost.size()) {
    if (!may_depart(now)) {
      slot.waits = true;
      break;
    }
    context_.host.count_retransmit();
    room = add_pulls(slot, set, slot.lost[lost_taken], 1, sink, now) > 0;
    if (!room) break;
    ++lost_taken;
    // A time-out had returned this unit to the receive budget.
    if (slot.response_pieces != 0 && slot.pulled < slot.outstanding()) take_pulls(slot, 1);
  }
  slot.lost.erase(slot.lost.begin(), slot.lost.begin() + static_cast<std::ptrdiff_t>(lost_taken));
  while (room && !slot.waits && slot.next_unit < end) {
    if (!may_depart(now)) {
      slot.waits = true;
      break;
    }
    const uint32_t allowed = may_pull(slot, limits_.paced() ? 1 : end - slot.next_unit);
    if (allowed == 0) break;
    const uint32_t paid = take_credits(slot, allowed);
    if (paid == 0) {
      slot.waits = slot.outstanding() == 0;
      break;
    }
    const uint32_t count = add_pulls(slot, set, slot.next_unit, paid, sink, now);
    room = count > 0;
    slot.next_unit += count;
    take_pulls(slot, count);
  }
  if (set.word_count > 0) emit_pull(slot, set, sink, now);
  return room;
}

/// Adds up to `count` units from `first` on to the set. If the first one is out of the set's reach, the set is emitted,
/// and a new one begins. Returns how many were added; 0: there is no room for another packet.
uint32_t CallerHalf::add_pulls(Slot& slot, PacketSet& set, uint32_t first, uint32_t count, PacketSink& sink,
                               TimeNs now) {
  constexpr uint32_t kReach = 64 * PacketSet::kWordsMax;
  const uint32_t piece = first - slot.request_pieces;
  if (set.word_count > 0 && piece - set.base >= kReach) {
    emit_pull(slot, std::exchange(set, {}), sink, now);
    if (!sink.has_room()) return 0;  // a set is begun only where there is room to emit it
  }
  if (set.word_count == 0) set.base = static_cast<uint16_t>(piece);
  const uint32_t bit = piece - set.base;
  count = std::min(count, kReach - bit);
  set.add(bit, count);
  if (slot.in_flight.empty()) slot.last_progress_ns = now;
  slot.in_flight.on_sent(first, count, now);
  if (limits_.paced()) pacer_.charge(limits_, context_.terms.payload_bytes, now);
  return count;
}

void CallerHalf::emit_pull(Slot& slot, const PacketSet& set, PacketSink& sink, TimeNs now) {
  PacketHeader header = context_.header_for(PacketType::kPull, slot.req_num);
  if (slot.packets_wanted) header.flags = packet_flags::kByRead;
  header.stamp = to_ticks(now);
  MessagePtr extension = context_.host.make_message();
  extension->set_head_size(set.encode(extension->head_room().data()));
  sink.emit(context_.session, header, extension, 0, extension->size());
}

// --- Timers ----------------------------------------------------------------------------------------------------------

void CallerHalf::depart(TimeNs now) {
  if (now < departure_wait_ns_) return;
  departure_wait_ns_ = kTimeNever;
  if (!waiting_.empty()) make_ready(waiting_.front());
}

TimeNs CallerHalf::run_timers(TimeNs now) {
  TimeNs next = std::min(run_backlog_timers(now), run_small_timers(now));
  if (!context_.open || slots_ == nullptr || !is_waiting()) return next;
  for (uint32_t i = 0; i < context_.terms.window; ++i) {
    Slot& slot = slots_[i];
    if (slot.lingers()) on_linger_timer(slot, now);
    if (slot.call != nullptr) on_slot_timer(slot, now);
    if (slot.call != nullptr) next = std::min(next, slot_timer_ns(slot));
    if (slot.lingers()) next = std::min(next, slot.release_again_ns);
  }
  return next;
}

/// Calls that wait for a connection or a slot have only deadlines.
TimeNs CallerHalf::run_backlog_timers(TimeNs now) {
  TimeNs next = kTimeNever;
  for (Call* call = backlog_.empty() ? nullptr : &backlog_.front(); call != nullptr;) {
    Call* following = backlog_.next(*call);
    if (call->deadline_ns <= now && !mutant(Mutant::kIgnoreDeadline)) {
      call->hook.unlink();
      --backlog_count_;
      complete(*call, local_failure(absl::DeadlineExceededError(
                                        context_.open ? "deadline exceeded while waiting for a free slot in the session"
                                                      : "deadline exceeded while waiting for the session to connect"),
                                    false));
    } else if (call->deadline_ns > now) {
      next = std::min(next, call->deadline_ns);
    }
    call = following;
  }
  return next;
}

TimeNs CallerHalf::slot_timer_ns(const Slot& slot) const {
  const TimeNs deadline = mutant(Mutant::kIgnoreDeadline) ? kTimeNever : slot.call->deadline_ns;
  if (context_.reliable || slot.fetching) return deadline;
  return std::min(deadline, slot.last_progress_ns + rtt_.probe_timeout_ns(context_.options, slot.probes));
}

void CallerHalf::on_slot_timer(Slot& slot, TimeNs now) {
  if (now >= slot.call->deadline_ns && !mutant(Mutant::kIgnoreDeadline)) {
    const bool sent = slot.call->sent;
    fail(slot,
         local_failure(
             absl::DeadlineExceededError(sent ? absl::StrCat("deadline exceeded; the peer was last heard ",
                                                             (now - context_.last_heard_ns) / kMillisecond, " ms ago")
                                              : "deadline exceeded before the request could be sent"),
             sent),
         now);
    return;
  }
  if (context_.reliable || slot.fetching) return;
  if (!slot.call->sent) {
    slot.last_progress_ns = now;
    return;
  }
  if (now < slot.last_progress_ns + rtt_.probe_timeout_ns(context_.options, slot.probes)) return;
  slot.last_progress_ns = now;
  uint32_t unit;
  if (slot.in_flight.take_probe([&](uint32_t u) { return slot.settled.contains(u); }, unit)) {
    slot.lost.push_back(unit);
    // Only the response is missing: it may be the lost packet, so keep asking for it.
    const bool awaiting = unit == slot.request_pieces;
    slot.probes = awaiting ? std::min(slot.probes + 1, kAwaitingProbesMax) : slot.probes + 1;
    if (!awaiting && slot.probes >= kProbesThatMeanTimeout && congestion_ != nullptr) {
      congestion_->on_timeout(now);
      apply_limits();
    }
    if (slot.pulled > 0) {
      // What did not come in all this time is not on its way; other slots may use its part of the budget.
      return_pulls(slot, 0);
      wake_waiters();
    }
  } else if (slot.response_pieces == 0 && slot.settled.all()) {
    // The peer has the whole request: ask for the first response piece. The handler is still running, or its answer was
    // lost.
    slot.lost.push_back(slot.request_pieces);
    slot.probes = std::min(slot.probes + 1, kAwaitingProbesMax);
  }
  make_ready(slot);
}

}  // namespace skua::rpc
