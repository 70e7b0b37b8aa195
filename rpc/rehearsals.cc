#include "rpc/rehearsals.h"

#include <array>
#include <cstddef>
#include <utility>

namespace skua::rpc {
namespace {

constexpr std::array<std::byte, 32> kLine{};
constexpr uint32_t kLooksPerRehearsal = 64;  // sessions that are tried, until one is ready

}  // namespace

Rehearsals::Rehearsals(EndpointContext& context, ReceiveMemory& memory, IncomingCalls& incoming,
                       OutgoingCalls& outgoing)
    : context_(context), outgoing_(outgoing) {
  const EndpointOptions& options = context.options;
  if (options.rehearsal_interval_ns > 0 && options.spin_ns == kTimeNever) next_ns_ = 0;
  incoming.serve_own(kRehearsalMethod, [&context, &memory](IncomingCall&& call) {
    --context.counters.requests_served;
    MessagePtr message = memory.make_message();
    if (call.request.size() <= Message::kHeadMax) static_cast<void>(message->append_head(call.request.bytes()));
    call.reply.reply(std::move(message));
  });
}

void Rehearsals::run() {
  next_ns_ = context_.now_ns + context_.options.rehearsal_interval_ns;
  // The application made calls meanwhile: they have kept the caches filled.
  if (std::exchange(calls_before_, context_.counters.calls_started) != context_.counters.calls_started) return;
  const uint32_t end = context_.sessions.index_end();
  for (uint32_t i = 0; i < kLooksPerRehearsal && i < end; ++i) {
    if (++session_ >= end) session_ = 0;
    const SessionEntry& entry = context_.sessions[session_];
    if (!entry.initiator || entry.state != SessionEntry::State::kOpen) continue;
    CompletionFn done = [this](CallOutcome&&) { --context_.counters.calls_completed; };
    if (!outgoing_.call_small(entry.handle(), kRehearsalMethod, kLine, done)) continue;
    --context_.counters.calls_started;
    return;
  }
}

}  // namespace skua::rpc
