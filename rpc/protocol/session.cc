#include "rpc/protocol/session.h"

#include <algorithm>

#include "rpc/protocol/protocol_mutants.h"

namespace skua::rpc {

void Session::open(const SessionAddress& address, const SessionTerms& terms, bool reliable, TimeNs now) {
  context_.address = address;
  context_.terms = terms;
  context_.reliable = reliable;
  context_.open = true;
  context_.last_heard_ns = now;
  ping_due_ = pong_due_ = quiet_ = false;
  context_.small_slots.clear();
  hot_.mask = static_cast<uint16_t>(terms.window - 1);
  hot_.wire_generation = address.local_generation;
  hot_.hinder(SessionHot::kClosed, false);
  hot_.hinder(SessionHot::kQuiet, false);
  hot_.hinder(SessionHot::kUnarmed, true);
  charge_for(0);
  callee_.open();
  caller_.open(now);
  caller_.tell_busy();
}

void Session::make_slots() {
  if (context_.small_slots.exists()) return;
  context_.small_slots.make(hot_);
  caller_.on_slots_made();
}

void Session::charge_for(uint32_t bytes) {
  const uint32_t quarter = std::max(context_.terms.payload_bytes / SessionHot::kQuarters, 1u);
  const uint32_t charge = std::clamp<uint32_t>((bytes + quarter - 1) / quarter, 1, SessionHot::kQuarters);
  hot_.charge = static_cast<uint8_t>(context_.reliable ? 1 : charge);
  const bool is_most = context_.reliable || charge == SessionHot::kQuarters;
  hot_.charge_bytes = static_cast<uint16_t>(is_most ? UINT16_MAX : std::min<uint32_t>(charge * quarter, UINT16_MAX));
}

void Session::on_slot_freed(TimeNs now) {
  caller_.on_slot_freed(now);
  caller_.tell_busy();
}

/// Packets of small calls count as heard, too.
void Session::hear_small(TimeNs now) {
  if (hot_.heard == heard_small_) return;
  heard_small_ = hot_.heard;
  const TimeNs heard_ns = now - static_cast<Ticks>(to_ticks(now) - hot_.heard) * kTickNs;
  context_.last_heard_ns = std::max(context_.last_heard_ns, heard_ns);
  context_.pinged_since_ns = 0;
}

void Session::interrupt(const absl::Status& sent_status, TimeNs now) {
  // End the peer's access before the memory is released.
  if (context_.open && (caller_.is_announcing() || callee_.is_announcing())) context_.host.sever(*this);
  caller_.take_over_all(now);
  context_.open = false;
  hot_.hinder(SessionHot::kClosed, true);
  ping_due_ = pong_due_ = quiet_ = false;
  context_.pinged_since_ns = 0;
  caller_.interrupt(sent_status, now);
  callee_.interrupt();
  caller_.tell_busy();
}

void Session::abort_all(const absl::Status& status, TimeNs now) {
  interrupt(status, now);
  caller_.abort_backlog(status);
}

void Session::on_link_lost(TimeNs now) {
  caller_.take_over_all(now);
  caller_.on_link_lost(now);
}

/// The peer answers over the new connection: what was in flight over the old one is repeated.
void Session::end_quiet(TimeNs now) {
  if (!std::exchange(quiet_, false)) return;
  hot_.hinder(SessionHot::kQuiet, false);
  if (!mutant(Mutant::kForgetLost)) on_link_lost(now);
  context_.host.mark_ready(*this);
}

void Session::send_ping() {
  if (!context_.open) return;
  ping_due_ = true;
  context_.host.mark_ready(*this);
}

void Session::on_other_packet(const Arrival& arrival, TimeNs now) {
  switch (arrival.header.type) {
    case PacketType::kAck: return caller_.on_ack(arrival, now);
    case PacketType::kPull: return callee_.on_pull(arrival, now);
    case PacketType::kRelease: return callee_.on_release(arrival.header);
    case PacketType::kPing: pong_due_ = true; return context_.host.mark_ready(*this);
    case PacketType::kPong: return end_quiet(now);
    case PacketType::kReleased: return caller_.on_released(arrival.header, now);
    default: return context_.drop(DropReason::kBadType);
  }
}

void Session::on_fetched(const MessageOwner& owner, bool ok, Lease&& message, TimeNs now) {
  if (!context_.is_owner(owner)) return;
  if (owner.is_request) return callee_.on_fetched(owner, ok, std::move(message), now);
  caller_.on_fetched(owner, ok, std::move(message), now);
  caller_.tell_busy();
}

void Session::on_lent(const MessageOwner& owner, TimeNs now) {
  if (!context_.is_owner(owner)) return;
  owner.is_request ? caller_.on_lent(owner, now) : callee_.on_lent(owner);
}

bool Session::expects(const PacketHeader& header) const {
  if (!context_.open || header.message_bytes > context_.terms.message_max_bytes) return false;
  if (header.type == PacketType::kResponse) return caller_.expects(header);
  return header.type == PacketType::kRequest && callee_.expects(header);
}

void Session::on_unplaceable(const PacketHeader& header, TimeNs now) {
  if (header.type != PacketType::kResponse) return callee_.on_unplaceable(header, now);
  caller_.on_unplaceable(header, now);
  caller_.tell_busy();
}

bool Session::transmit(PacketSink& sink, TimeNs now) {
  if (!context_.open) return false;
  for (bool* due : {&pong_due_, &ping_due_}) {
    if (!*due) continue;
    if (!sink.has_room()) return true;
    *due = false;
    const PacketType type = due == &pong_due_ ? PacketType::kPong : PacketType::kPing;
    sink.emit(*this, context_.header_for(type, 0), MessagePtr(), 0, 0);
  }
  if (quiet_) [[unlikely]]
    return false;
  const bool is_left = callee_.transmit(sink, now) || caller_.transmit(sink, now);
  caller_.tell_busy();
  return is_left;
}

TimeNs Session::on_timer(TimeNs now) {
  hear_small(now);
  caller_.depart(now);
  if (now >= context_.due_ns) {
    context_.due_ns = kTimeNever;
    // A small call that starts meanwhile must not take the time that has passed for one that is still to come.
    hot_.hinder(SessionHot::kUnarmed, true);
    context_.due_ns = std::min(run_due_timers(now), context_.due_ns);
  }
  context_.tell_due(now);
  caller_.tell_busy();
  // The charge for larger answers goes down step by step. The next larger answer raises it again.
  if (hot_.charge > 1) charge_for((hot_.charge - 1u) * context_.terms.payload_bytes / SessionHot::kQuarters);
  return std::min(context_.due_ns, caller_.departure_ns());
}

TimeNs Session::run_due_timers(TimeNs now) {
  if (!context_.open) return caller_.run_timers(now);
  const TimeNs halves = std::min(callee_.run_timers(now), caller_.run_timers(now));
  return std::min(halves, run_liveness(now));
}

/// Asks whether the peer lives if it has been silent for long although it should send something. If the waiting call
/// ends before, the question is still repeated, until there is an answer or the peer is taken for gone.
TimeNs Session::run_liveness(TimeNs now) {
  const bool is_unheard = context_.last_heard_ns < caller_.waiting_since_ns() || context_.pinged_since_ns != 0;
  if (!caller_.is_waiting() && !is_unheard && !callee_.is_asking()) return kTimeNever;
  if (context_.pinged_since_ns != 0) {
    // The answer to the ping, or the ping itself, may be behind a large packet that is on its way.
    const uint64_t progress = context_.host.progress(*this);
    if (progress != 0 && progress != progress_) context_.pinged_since_ns = now;
    progress_ = progress;
  }
  const TimeNs silent_since = std::max(context_.last_heard_ns, caller_.waiting_since_ns());
  const DurationNs patience = context_.options.ping_after_ns;
  if (now - silent_since >= patience && now - last_ping_ns_ >= patience) {
    last_ping_ns_ = now;
    if (context_.pinged_since_ns == 0) context_.pinged_since_ns = now;
    send_ping();
  }
  return std::max(silent_since, last_ping_ns_) + patience;
}

bool Session::peer_silent(TimeNs now) const {
  // Counted from the first unanswered ping: after a pause of this process itself, the peer has to be asked first.
  return context_.open && context_.pinged_since_ns != 0 &&
         now - context_.pinged_since_ns >= context_.options.peer_timeout_ns - context_.options.ping_after_ns;
}

}  // namespace skua::rpc
