// Rehearsals: small calls of the engine's own, which keep the code and data of a small call in the processor's caches.
//
// An endpoint that never sleeps (busy polling) looks at the wire millions of times a second. Without calls it touches
// nothing else. After a second of that, the caches have lost the code and data of a call: some two hundred lines on
// both sides. The first call then waits for each of them. So an endpoint without calls makes a small call now and then,
// in turn on each session that it opened. The peer's engine answers it. Applications never see it, and counters do not
// count it.
#include <array>

#include "rpc/endpoint.h"
#include "rpc/endpoint_impl.h"

namespace skua::rpc {
namespace {

constexpr std::array<std::byte, 32> kLine{};
constexpr uint32_t kLooksPerRehearsal = 64;  // sessions that are tried, until one is ready

}  // namespace

void EndpointImpl::serve_rehearsals() {
  handlers_[kRehearsalMethod] = [this](IncomingCall&& call) {
    --context_.counters.requests_served;
    MessagePtr message = make_message();
    if (call.request.size() <= Message::kHeadMax) static_cast<void>(message->append_head(call.request.bytes()));
    call.reply.reply(std::move(message));
  };
}

void EndpointImpl::rehearse() {
  next_rehearsal_ns_ = context_.now_ns + context_.options.rehearsal_interval_ns;
  // The application made calls meanwhile: they have kept the caches filled.
  if (std::exchange(calls_at_rehearsal_, context_.counters.calls_started) != context_.counters.calls_started) return;
  for (uint32_t i = 0; i < kLooksPerRehearsal && i < context_.sessions.index_end(); ++i) {
    if (++rehearsed_ >= context_.sessions.index_end()) rehearsed_ = 0;
    const SessionEntry& entry = context_.sessions[rehearsed_];
    if (!entry.initiator || entry.state != SessionEntry::State::kOpen) continue;
    CompletionFn done = [this](CallOutcome&&) { --context_.counters.calls_completed; };
    if (!call_small(entry.handle(), kRehearsalMethod, kLine, done)) continue;
    --context_.counters.calls_started;
    return;
  }
}

}  // namespace skua::rpc
