#include "rpc/session_timers.h"

#include <algorithm>

#include "absl/strings/str_cat.h"
#include "rpc/association_joins.h"
#include "rpc/protocol/session.h"

namespace skua::rpc {
namespace {

using State = SessionEntry::State;

}  // namespace

void SessionTimers::run_due() {
  uint32_t index;
  while (context_.timers.pop_due(context_.now_ns, index)) {
    if (SessionEntry& entry = context_.sessions[index]; entry.state != State::kFree) run(entry);
  }
}

void SessionTimers::run(SessionEntry& entry) {
  TimeNs next = kTimeNever;
  if (entry.state == State::kOpen) {
    next = run_open(entry);
  } else if (entry.state == State::kConnecting || entry.state == State::kAwaitingAnswer) {
    next = dialer_.run_timer(entry);
  }
  if (entry.state != State::kDoomed) context_.timers.set_earlier(entry.index, next);
}

TimeNs SessionTimers::run_open(SessionEntry& entry) {
  const TimeNs now = context_.now_ns;
  TimeNs next = entry.session->on_timer(now);
  if (entry.session->peer_silent(now)) {
    lives_.break_off(entry,
                     absl::UnavailableError(absl::StrCat("the peer ", describe(entry.identity), " has been silent for ",
                                                         (now - entry.session->last_heard_ns()) / kMillisecond,
                                                         " ms: it is down or cut off; the request may have executed")));
    return now;
  }
  if (entry.link_lost && now >= entry.resend_at_ns) lives_.resume(entry);
  if (now >= entry.next_join_ns) {
    entry.next_join_ns = now + context_.options.protocol.connect_retry_ns;
    if (!entry.session->is_quiet()) joins_.join(entry);
  }
  next = std::min(next, entry.next_join_ns);
  if (!entry.initiator && give_up(entry, next)) return kTimeNever;
  return std::min({next, watch_silence(entry), entry.resend_at_ns});
}

bool SessionTimers::give_up(SessionEntry& entry, TimeNs& next) {
  const ProtocolOptions& protocol = context_.options.protocol;
  const auto end_at = [&](TimeNs when, const char* why) {
    next = std::min(next, when);
    if (context_.now_ns < when) return false;
    lives_.end(entry, absl::UnavailableError(why));
    return true;
  };
  if (!entry.proven &&
      end_at(entry.connecting_since_ns + protocol.unproven_after_ns, "the peer opened the session and never used it")) {
    return true;
  }
  // Only the opener of the session makes the connection again. An opener that does not is taken for gone.
  if (entry.link_down_ns != kTimeNever &&
      end_at(entry.link_down_ns + protocol.abandoned_after_ns, "the peer's connection broke, and was not made again")) {
    return true;
  }
  return end_at(entry.session->last_heard_ns() + protocol.idle_timeout_ns,
                "the peer has been silent for the idle timeout");
}

/// The opener's pings tell the peer that the session is in use.
TimeNs SessionTimers::watch_silence(SessionEntry& entry) {
  const DurationNs idle_ns = context_.options.protocol.idle_timeout_ns;
  const DurationNs ping_every = entry.initiator ? idle_ns / 3 : idle_ns;
  const TimeNs heard = entry.session->last_heard_ns();
  if (!entry.initiator || context_.now_ns - heard < ping_every) return heard + ping_every;
  entry.session->send_ping();
  return context_.now_ns + ping_every;
}

}  // namespace skua::rpc
