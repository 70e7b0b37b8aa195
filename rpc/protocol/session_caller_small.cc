// The calling side: small calls (small_calls.h) that have become large ones. They keep their numbers.
#include <algorithm>

#include "rpc/protocol/association.h"
#include "rpc/protocol/protocol_mutants.h"
#include "rpc/protocol/session.h"

namespace skua::rpc {
namespace {

TimeNs time_of(Ticks ticks, TimeNs now) {
  return now + static_cast<int32_t>(ticks - to_ticks(now)) * kTickNs;
}

}  // namespace

void CallerHalf::on_slots_made() {
  if (!context_.reliable) congestion_ = make_congestion_policy(context_.options, context_.terms.credits);
  if (congestion_ != nullptr) apply_limits();
}

/// Makes the sslot one of this half, as if its request had been sent in a packet, and nothing had come back yet.
CallerHalf::Slot& CallerHalf::take_over(uint32_t index, TimeNs now) {
  if (slots_ == nullptr) make_slots();
  ClientSlot& small = context_.hot.client[index];
  if (const Association* a = context_.hot.association; a != nullptr && !rtt_.has_sample()) rtt_ = a->rtt;
  Call& call = context_.host.take_over(context_.session);
  small.state = ClientSlot::State::kLarge;
  call.request = context_.take_message(small.request, small.few);
  call.completion = std::move(small.completion);
  call.method = small.method;
  call.one_way = false;
  call.sent = true;
  call.deadline_ns = time_of(small.deadline, now);
  call.slot = index;
  Slot& slot = slots_[index];
  slot.call = &call;
  slot.req_num = small.req_num;
  slot.request_pieces = 1;
  slot.response_pieces = slot.response_bytes = 0;
  slot.next_unit = 1;
  // From now on the call pays for a whole packet; on a reliable transport it pays nothing.
  SessionHot& hot = context_.hot;
  slot.credits_held = context_.reliable || mutant(Mutant::kLoseSmallCredit) ? 0 : 1;
  hot.credits = static_cast<int16_t>(hot.credits + small.charge - (context_.reliable ? 0 : SessionHot::kQuarters));
  slot.pulled = slot.probes = 0;
  slot.release_due = false;
  slot.last_progress_ns = time_of(small.sent, now);
  slot.settled.reset(1);
  slot.in_flight.reset();
  slot.in_flight.on_sent(0, slot.last_progress_ns);
  slot.lost.clear();
  if (active_count_++ == 0) begin_waiting(now);
  arm_for(slot, now);
  return slot;
}

bool CallerHalf::may_be_small(const Call& call, TimeNs now) const {
  const SessionHot& hot = context_.hot;
  const uint32_t hindered = hot.hindrances & ~uint32_t{SessionHot::kUnarmed | SessionHot::kBusy};
  if (hindered != 0 || call.one_way || call.deadline_ns - now > kSmallTimeoutMax) return false;
  const size_t bytes = call.request->size();
  return bytes <= kRecordBytesMax && bytes + kRecordHeadBytes + kBundleHeadBytes <= hot.association->bundle_bytes_max;
}

void CallerHalf::take_over_all(TimeNs now) {
  for (uint32_t i = 0; context_.hot.small_count > 0 && i < context_.terms.window; ++i) {
    if (context_.hot.client[i].state == ClientSlot::State::kSmall) take_over(i, now);
  }
}

/// The request or its answer is taken for lost: sends the request again.
void CallerHalf::repeat(Slot& slot, TimeNs now) {
  slot.in_flight.reset();
  slot.lost.push_back(0);
  slot.last_progress_ns = now;
  slot.probes = 1;
  make_ready(slot);
}

/// Returns when to run it next.
TimeNs CallerHalf::run_small_timers(TimeNs now) {
  TimeNs next = kTimeNever;
  const SessionHot& hot = context_.hot;
  if (hot.small_count == 0) return next;
  const DurationNs patience_ns = hot.association->probe_ticks * kTickNs;
  // The sslots that are used most have low indices, so this mostly finds all small calls early.
  uint32_t left = hot.small_count;
  for (uint32_t i = 0; left > 0 && i < context_.terms.window; ++i) {
    const ClientSlot& small = hot.client[i];
    if (small.state != ClientSlot::State::kSmall) continue;
    --left;
    const TimeNs deadline_ns = mutant(Mutant::kIgnoreDeadline) ? kTimeNever : time_of(small.deadline, now);
    const TimeNs repeat_ns = time_of(small.sent, now) + patience_ns;
    if (deadline_ns <= now) {
      on_slot_timer(take_over(i, now), now);
    } else if (repeat_ns <= now) {
      Slot& slot = take_over(i, now);
      if (!context_.reliable) repeat(slot, now);
    } else {
      next = std::min({next, deadline_ns, repeat_ns});
    }
  }
  return next;
}

void CallerHalf::on_slot_freed(TimeNs now) {
  if (!backlog_.empty()) start_backlog(now);
  wake_waiters();
}

void CallerHalf::on_small_sample(DurationNs delay_ns, uint32_t answers, uint32_t record_bytes, TimeNs now) {
  if (congestion_ == nullptr) return;
  congestion_->on_sample(delay_ns, answers, now);
  packet_bytes_ = packet_bytes_ == 0 ? record_bytes : (7 * packet_bytes_ + record_bytes) / 8;
  apply_limits();
}

void CallerHalf::cancel_small(uint32_t number, const absl::Status& status, TimeNs now) {
  if (is_small(number)) return cancel(*take_over(context_.slot_of(number), now).call, status, now);
  if (slots_ == nullptr) return;
  const Slot& slot = slots_[context_.slot_of(number)];
  if (slot.call != nullptr && slot.req_num == number) cancel(*slot.call, status, now);
}

}  // namespace skua::rpc
