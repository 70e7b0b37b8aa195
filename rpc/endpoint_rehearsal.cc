// Rehearsals: what keeps the way of a small call in the processor's caches.
//
// An endpoint that never sleeps (busy polling) looks at the wire millions of times a second, and at nothing else while
// there are no calls. After a second of that the caches have forgotten the rest: code and data of a call, both sides,
// are some two hundred lines, and the first call waits for each of them. So an endpoint without calls makes one of its
// own now and then, to one of its peers in turn. The peer's engine answers it; applications never see it, and counters
// do not count it.
#include <array>

#include "rpc/endpoint.h"
#include "rpc/endpoint_impl.h"

namespace skua::rpc {
namespace {

constexpr std::array<std::byte, 32> kLine{};
constexpr uint32_t kLooksPerRehearsal = 64;  // at sessions, for one that is ready

}  // namespace

void EndpointImpl::serve_rehearsals() {
  handlers_[kRehearsalMethod] = [this](IncomingCall&& call) {
    --counters_.requests_served;
    MessagePtr message = make_message();
    if (call.request.size() <= Message::kHeadMax) static_cast<void>(message->append_head(call.request.bytes()));
    call.reply.reply(std::move(message));
  };
}

void EndpointImpl::rehearse() {
  next_rehearsal_ns_ = now_ns_ + options_.rehearsal_interval_ns;
  // Calls of the application do the same, and better.
  if (std::exchange(calls_at_rehearsal_, counters_.calls_started) != counters_.calls_started) return;
  for (uint32_t i = 0; i < kLooksPerRehearsal && i < sessions_.index_end(); ++i) {
    if (++rehearsed_ >= sessions_.index_end()) rehearsed_ = 0;
    const SessionEntry& entry = sessions_[rehearsed_];
    if (!entry.initiator || entry.state != SessionEntry::State::kOpen) continue;
    CompletionFn done = [this](CallOutcome&&) { --counters_.calls_completed; };
    if (!call_small(entry.handle(), kRehearsalMethod, kLine, done)) continue;
    --counters_.calls_started;
    return;
  }
}

}  // namespace skua::rpc
