// How sessions break, come back and end: because of the peer, the transport's links, or time. endpoint_sessions.cc has
// the picture.
#include <algorithm>

#include "absl/strings/str_cat.h"
#include "rpc/endpoint_impl.h"
#include "rpc/protocol/protocol_mutants.h"

namespace skua::rpc {
namespace {

using State = SessionEntry::State;

std::string describe(const EndpointIdentity& who) {
  return absl::StrCat(who.uuid.to_string(), " incarnation ", who.incarnation);
}

}  // namespace

// --- Breaking and ending ---------------------------------------------------------------------------------------------

void EndpointImpl::on_unknown_session(const Arrival& arrival, PeerId from) {
  // The packet echoes the ids of the peer's session. This is rare enough to search all sessions.
  SessionEntry* entry =
      context_.sessions.find_open(from, arrival.header.session_index, arrival.header.session_generation);
  if (entry == nullptr) return context_.count_drop(DropReason::kUnknownSession);
  break_session(*entry,
                absl::AbortedError(absl::StrCat("the peer ", describe(entry->identity),
                                                " restarted or gave the session up: the request may have executed")));
}

void EndpointImpl::break_session(SessionEntry& entry, const absl::Status& why) {
  ++context_.counters.sessions_broken;
  entry.session->ready_hook.unlink();
  entry.session->interrupt(why, context_.now_ns);
  bundles_.leave(entry);
  // Offers of sessions with keys do not go in packets.
  if (!entry.initiator || context_.capabilities.keyed) return doom(entry, why);
  context_.sessions.renew(entry);
  entry.state = State::kConnecting;
  entry.connecting_since_ns = entry.next_attempt_ns = context_.now_ns;
  entry.attempts = 0;
  context_.timers.set(entry.index, context_.now_ns);
  notify(entry, SessionEvent::Kind::kBroken, why);
}

void EndpointImpl::close(SessionId session) {
  SessionEntry* entry = context_.sessions.find(session);
  if (entry == nullptr) return;
  if (entry->state == State::kOpen && entry->peer != kUnbound) {
    PacketHeader header;
    header.type = PacketType::kDisconnect;
    header.session_index = entry->remote_index;
    header.session_generation = entry->remote_generation;
    transmits_.send_control(entry->peer, header, {});
  }
  doom(*entry, absl::CancelledError("the session was closed"));
}

void EndpointImpl::doom(SessionEntry& entry, const absl::Status& why) {
  if (entry.state == State::kDoomed) return;
  context_.sessions.end(entry);
  entry.session->ready_hook.unlink();
  entry.session->abort_all(why, context_.now_ns);
  bundles_.leave(entry);
  context_.timers.set(entry.index, kTimeNever);
  notify(entry, SessionEvent::Kind::kClosed, why);
}

void EndpointImpl::bury_doomed() {
  if (!context_.sessions.has_doomed()) return;
  outgoing_.run_completions();
  context_.sessions.bury([this](SessionEntry& entry) {
    entry.session->ready_hook.unlink();
    bundles_.remove(entry.index);
  });
}

void EndpointImpl::notify(const SessionEntry& entry, SessionEvent::Kind kind, const absl::Status& why) {
  if (!session_observer_) return;
  session_observer_({kind, entry.handle(), entry.identity, why});
}

// --- Links -----------------------------------------------------------------------------------------------------------

size_t EndpointImpl::handle_links() {
  size_t all = 0;
  // All of them: a connection that broke must be known before packets of the next one are handled.
  for (size_t count = link_events_.size(); count == link_events_.size(); all += count) {
    count = context_.transport.poll_links(link_events_);
    for (size_t i = 0; i < count; ++i) on_link(link_events_[i]);
  }
  return all;
}

void EndpointImpl::on_link(const LinkEvent& event) {
  context_.sessions.for_each([&](SessionEntry& entry) {
    if (entry.peer == event.peer && entry.is_alive()) on_link(entry, event);
  });
}

void EndpointImpl::on_link(SessionEntry& entry, const LinkEvent& event) {
  const bool is_open = entry.state == State::kOpen;
  switch (event.kind) {
    case LinkEvent::Kind::kRefused:
      if (absl::IsOutOfRange(event.why)) {
        // The path takes no packets of this size. A session that is not open yet will offer smaller ones.
        const bool fits =
            !is_open || entry.session->terms().payload_bytes <= context_.transport.payload_max_bytes(entry.peer);
        if (!fits) break_session(entry, absl::UnavailableError(event.why.message()));
      } else if (is_open) {
        break_session(entry, event.why);
      } else {
        entry.session->abort_all(event.why, context_.now_ns);
      }
      return;
    case LinkEvent::Kind::kDown: return on_link_down(entry, event.why);
    case LinkEvent::Kind::kUp:
      if (is_open) on_link_up(entry, event.identity);
      return;
  }
}

/// What was in flight is repeated when the link stands again, or after a pause: sending makes the transport try again.
void EndpointImpl::on_link_down(SessionEntry& entry, const absl::Status& why) {
  entry.link_lost = true;
  entry.resend_at_ns = context_.now_ns + context_.options.protocol.connect_retry_ns;
  context_.timers.set_earlier(entry.index, entry.resend_at_ns);
  if (!entry.initiator) {
    entry.link_down_ns = std::min(entry.link_down_ns, context_.now_ns);
    context_.timers.set_earlier(entry.index, entry.link_down_ns + context_.options.protocol.abandoned_after_ns);
    if (context_.capabilities.connected && !mutant(Mutant::kKeepBinding)) unbind(entry);
  } else if (context_.capabilities.connected && entry.state == State::kOpen) {
    entry.session->go_quiet();
    bundles_.leave(entry);
    if (entry.version >= kBundleVersion) entry.next_join_ns = context_.now_ns;
  }
  if (entry.state == State::kOpen) notify(entry, SessionEvent::Kind::kLinkLost, why);
}

void EndpointImpl::on_link_up(SessionEntry& entry, const EndpointIdentity& who) {
  entry.link_down_ns = kTimeNever;
  const bool another_life = entry.identity.uuid == who.uuid && entry.identity.incarnation != who.incarnation;
  if (another_life) {
    break_session(entry, absl::AbortedError(absl::StrCat("the peer restarted: it was ", describe(entry.identity),
                                                         ", now incarnation ", who.incarnation,
                                                         "; the request may have executed")));
  } else if (entry.link_lost) {
    resume(entry);
  }
}

// --- Timers ----------------------------------------------------------------------------------------------------------

void EndpointImpl::arm_timer(Session& session, TimeNs when) {
  context_.timers.set_earlier(session.address().local_index, when);
}

void EndpointImpl::run_entry_timer(SessionEntry& entry) {
  TimeNs next = kTimeNever;
  if (entry.state == State::kOpen) {
    next = run_open_timer(entry);
  } else if (entry.state == State::kConnecting || entry.state == State::kAwaitingAnswer) {
    next = run_connecting_timer(entry);
  }
  if (entry.state != State::kDoomed) context_.timers.set_earlier(entry.index, next);
}

TimeNs EndpointImpl::run_connecting_timer(SessionEntry& entry) {
  const ProtocolOptions& protocol = context_.options.protocol;
  TimeNs next = entry.session->on_timer(context_.now_ns);
  const bool overdue = context_.now_ns - entry.connecting_since_ns >= protocol.connect_timeout_ns;
  if (overdue && entry.session->outstanding_calls() > 0) {
    entry.session->abort_all(
        absl::UnavailableError(absl::StrCat("no answer to ", entry.attempts, " attempts to open the session in ",
                                            (context_.now_ns - entry.connecting_since_ns) / kMillisecond,
                                            " ms: is the peer running and reachable?")),
        context_.now_ns);
  }
  if (entry.state == State::kConnecting && context_.now_ns >= entry.next_attempt_ns) {
    entry.offer_due = true;
    offers_due_.push_back(entry.index);
    entry.next_attempt_ns = context_.now_ns + (overdue ? 10 : 1) * protocol.connect_retry_ns;
  }
  if (entry.state == State::kConnecting) next = std::min(next, entry.next_attempt_ns);
  return std::min(next, context_.now_ns + protocol.connect_timeout_ns);
}

TimeNs EndpointImpl::run_open_timer(SessionEntry& entry) {
  const ProtocolOptions& protocol = context_.options.protocol;
  TimeNs next = entry.session->on_timer(context_.now_ns);
  if (entry.session->peer_silent(context_.now_ns)) {
    break_session(entry,
                  absl::UnavailableError(absl::StrCat("the peer ", describe(entry.identity), " has been silent for ",
                                                      (context_.now_ns - entry.session->last_heard_ns()) / kMillisecond,
                                                      " ms: it is down or cut off; the request may have executed")));
    return context_.now_ns;
  }
  if (entry.link_lost && context_.now_ns >= entry.resend_at_ns) resume(entry);
  if (context_.now_ns >= entry.next_join_ns) {
    entry.next_join_ns = context_.now_ns + protocol.connect_retry_ns;
    if (!entry.session->is_quiet()) bundles_.join(entry);
  }
  next = std::min(next, entry.next_join_ns);
  if (!entry.initiator && !entry.proven) {
    const TimeNs given_up_ns = entry.connecting_since_ns + protocol.unproven_after_ns;
    if (context_.now_ns >= given_up_ns) {
      doom(entry, absl::UnavailableError("the peer opened the session and never used it"));
      return kTimeNever;
    }
    next = std::min(next, given_up_ns);
  }
  // Only the opener of the session makes the connection again. An opener that does not is taken for gone.
  if (entry.link_down_ns != kTimeNever) {
    const TimeNs given_up_ns = entry.link_down_ns + protocol.abandoned_after_ns;
    if (context_.now_ns >= given_up_ns) {
      doom(entry, absl::UnavailableError("the peer's connection broke, and was not made again"));
      return kTimeNever;
    }
    next = std::min(next, given_up_ns);
  }
  const DurationNs silence = context_.now_ns - entry.session->last_heard_ns();
  if (!entry.initiator && silence >= protocol.idle_timeout_ns) {
    doom(entry, absl::UnavailableError("the peer has been silent for the idle timeout"));
    return kTimeNever;
  }
  const DurationNs ping_every = entry.initiator ? protocol.idle_timeout_ns / 3 : protocol.idle_timeout_ns;
  if (entry.initiator && silence >= ping_every) {
    entry.session->send_ping();
    next = std::min(next, context_.now_ns + ping_every);
  } else {
    next = std::min(next, entry.session->last_heard_ns() + ping_every);
  }
  return std::min(next, entry.resend_at_ns);
}

}  // namespace skua::rpc
