#include "rpc/protocol/session.h"

#include <algorithm>

#include "rpc/base/check.h"
#include "rpc/protocol/mutants.h"

namespace skua::rpc {

#ifdef SKUA_WITH_MUTANTS
Mutant g_active_mutant = Mutant::kNone;
#endif

Session::~Session() {
  SKUA_CHECK(active_count_ == 0 && backlog_count_ == 0,
             "a session was destroyed with calls in flight: abort_all() first");
}

void Session::open(const SessionAddress& address, const SessionTerms& terms, bool reliable, TimeNs now) {
  address_ = address;
  terms_ = terms;
  reliable_ = reliable;
  open_ = true;
  credits_ = terms.credits;
  last_heard_ns_ = waiting_since_ns_ = now;
  rtt_ = RttEstimator();
  congestion_.reset();
  limits_ = {};
  credits_barred_ = acked_since_loss_ = packet_bytes_ = 0;
  pacer_.reset();
  departure_wait_ns_ = kTimeNever;
  ping_due_ = pong_due_ = quiet_ = false;
  half_due_ns_ = kTimeNever;
  free_slots_.clear();
  lingering_count_ = 0;
  client_slots_.reset();
  server_slots_.reset();
  if (!backlog_.empty()) start_backlog(now);
}

void Session::interrupt(const absl::Status& sent_status, TimeNs now) {
  // Before anybody gets the memory back.
  if (peer_may_read()) host_.sever(*this);
  open_ = false;
  lingering_count_ = 0;
  ping_due_ = pong_due_ = quiet_ = false;
  pinged_since_ns_ = 0;
  budget_hook.unlink();
  if (client_slots_ != nullptr) {
    for (uint32_t i = terms_.window; i-- > 0;) {
      ClientSlot& slot = client_slots_[i];
      slot.release_due = false;
      slot.ready_hook.unlink();
      if (slot.call == nullptr) slot.announced.reset();
      if (slot.call == nullptr) continue;
      if (slot.call->sent) {
        fail(slot, local_failure(sent_status, true), now);
      } else {
        Call& unsent = take_out(slot);
        backlog_.push_front(unsent);
        ++backlog_count_;
      }
    }
  }
  if (server_slots_ != nullptr) {
    for (uint32_t i = 0; i < terms_.window; ++i) server_slots_[i].forget();
  }
}

void Session::abort_all(const absl::Status& status, TimeNs now) {
  interrupt(status, now);
  while (Call* call = backlog_.pop_front()) {
    --backlog_count_;
    complete(*call, local_failure(status, false));
  }
}

void Session::on_link_lost(TimeNs now) {
  if (!open_ || client_slots_ == nullptr) return;
  for (uint32_t i = 0; i < terms_.window; ++i) {
    ClientSlot& slot = client_slots_[i];
    if (slot.call == nullptr) continue;
    slot.in_flight.lose_all([&](uint32_t unit) { return slot.settled.contains(unit); },
                            [&](uint32_t unit) { slot.lost.push_back(unit); });
    slot.last_progress_ns = now;
    // The peer has the request (it said so); what was lost may be the response.
    if (slot.call->sent && slot.lost.empty() && slot.response_pieces == 0) slot.lost.push_back(slot.request_pieces);
    make_ready(slot);
  }
}

/// The peer answers by the new connection: what was in flight on the old one is repeated.
void Session::end_quiet(TimeNs now) {
  if (!std::exchange(quiet_, false)) return;
  if (!mutant(Mutant::kForgetLost)) on_link_lost(now);
  host_.mark_ready(*this);
}

void Session::make_ready(ClientSlot& slot) {
  if (!open_) return;
  if (slot.waits) {
    slot.waits = false;
    slot.ready_hook.unlink();
  }
  if (!slot.ready_hook.linked()) ready_clients_.push_back(slot);
  host_.mark_ready(*this);
}

void Session::make_ready(ServerSlot& slot) {
  if (!open_) return;
  if (!slot.ready_hook.linked()) ready_servers_.push_back(slot);
  host_.mark_ready(*this);
}

void Session::send_ping() {
  if (!open_) return;
  ping_due_ = true;
  host_.mark_ready(*this);
}

void Session::on_other_packet(const Arrival& arrival, TimeNs now) {
  switch (arrival.header.type) {
    case PacketType::kAck: return on_ack(arrival, now);
    case PacketType::kPull: return on_pull(arrival, now);
    case PacketType::kRelease: return on_release(arrival.header);
    case PacketType::kPing: pong_due_ = true; return host_.mark_ready(*this);
    case PacketType::kPong: return end_quiet(now);
    case PacketType::kReleased: return on_released(arrival.header, now);
    default: return drop(DropReason::kBadType);
  }
}

bool Session::expects(const PacketHeader& header) const {
  if (!open_ || header.message_bytes > terms_.message_max_bytes) return false;
  const uint32_t index = slot_of(header.req_num);
  if (header.type == PacketType::kResponse) {
    return client_slots_ != nullptr && client_slots_[index].call != nullptr &&
           client_slots_[index].req_num == header.req_num;
  }
  if (header.type == PacketType::kRequest) {
    // A repeated request is taken too: it asks for its response again.
    return server_slots_ == nullptr || static_cast<int32_t>(header.req_num - server_slots_[index].req_num) >= 0;
  }
  return false;
}

bool Session::transmit(PacketSink& sink, TimeNs now) {
  if (!open_) return false;
  for (bool* due : {&pong_due_, &ping_due_}) {
    if (!*due) continue;
    if (!sink.has_room()) return true;
    *due = false;
    sink.emit(*this, header_for(due == &pong_due_ ? PacketType::kPong : PacketType::kPing, 0), MessagePtr(), 0, 0);
  }
  if (quiet_) [[unlikely]]
    return false;
  while (!ready_servers_.empty()) {
    if (!transmit_server(ready_servers_.front(), sink, now)) return true;
    ready_servers_.pop_front();
  }
  while (!ready_clients_.empty()) {
    ClientSlot& slot = ready_clients_.front();
    if (!transmit_client(slot, sink, now)) return true;
    slot.ready_hook.unlink();
    if (slot.waits) {
      waiting_clients_.push_back(slot);
    } else if (limits_.paced() && !waiting_clients_.empty()) {
      // A departure wakes one slot; what that one left over is the next one's. The driver knows that we are ready.
      ClientSlot& next = *waiting_clients_.pop_front();
      next.waits = false;
      ready_clients_.push_back(next);
    }
  }
  return false;
}

TimeNs Session::on_timer(TimeNs now) {
  if (now >= departure_wait_ns_) {
    departure_wait_ns_ = kTimeNever;
    if (!waiting_clients_.empty()) make_ready(waiting_clients_.front());
  }
  if (now >= due_ns_) {
    due_ns_ = kTimeNever;
    due_ns_ = std::min(run_due_timers(now), due_ns_);
  }
  return std::min(due_ns_, departure_wait_ns_);
}

TimeNs Session::run_due_timers(TimeNs now) {
  // Calls that wait for a connection or a slot: deadlines only.
  TimeNs next = kTimeNever;
  for (Call* call = backlog_.empty() ? nullptr : &backlog_.front(); call != nullptr;) {
    Call* following = backlog_.next(*call);
    if (call->deadline_ns <= now && !mutant(Mutant::kIgnoreDeadline)) {
      call->hook.unlink();
      --backlog_count_;
      complete(*call, local_failure(absl::DeadlineExceededError(
                                        open_ ? "deadline exceeded while waiting for a free slot in the session"
                                              : "deadline exceeded while waiting for the session to connect"),
                                    false));
    } else if (call->deadline_ns > now) {
      next = std::min(next, call->deadline_ns);
    }
    call = following;
  }
  if (!open_) return next;
  if (now >= half_due_ns_) half_due_ns_ = end_half_requests(now);
  next = std::min(next, half_due_ns_);
  if (client_slots_ != nullptr && active_count_ + lingering_count_ > 0) {
    for (uint32_t i = 0; i < terms_.window; ++i) {
      ClientSlot& slot = client_slots_[i];
      if (slot.lingers()) on_linger_timer(slot, now);
      if (slot.call != nullptr) on_slot_timer(slot, now);
      if (slot.call != nullptr) next = std::min(next, slot_timer_ns(slot));
      if (slot.lingers()) next = std::min(next, slot.release_again_ns);
    }
  }
  if (active_count_ + lingering_count_ > 0) {
    const TimeNs silent_since = std::max(last_heard_ns_, waiting_since_ns_);
    if (now - silent_since >= options_.ping_after_ns && now - last_ping_ns_ >= options_.ping_after_ns) {
      last_ping_ns_ = now;
      if (pinged_since_ns_ == 0) pinged_since_ns_ = now;
      send_ping();
    }
    next = std::min(next, std::max(silent_since, last_ping_ns_) + options_.ping_after_ns);
  }
  return next;
}

bool Session::peer_silent(TimeNs now) const {
  // Counted from the first ping that got no answer: a process that was stopped itself has asked nobody yet.
  return open_ && active_count_ + lingering_count_ > 0 && pinged_since_ns_ != 0 &&
         now - pinged_since_ns_ >= options_.peer_timeout_ns - options_.ping_after_ns;
}

Session::Retained Session::retained() const {
  Retained out;
  if (server_slots_ == nullptr) return out;
  for (uint32_t i = 0; i < terms_.window; ++i) {
    out.responses += (server_slots_[i].response ? 1 : 0) + (server_slots_[i].announced ? 1 : 0);
    out.requests +=
        server_slots_[i].state == ServerSlot::State::kReceiving && server_slots_[i].request.data != nullptr ? 1 : 0;
  }
  return out;
}

}  // namespace skua::rpc
