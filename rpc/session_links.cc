#include "rpc/session_links.h"

#include <algorithm>

#include "absl/strings/str_cat.h"
#include "rpc/association_joins.h"
#include "rpc/protocol/protocol_mutants.h"
#include "rpc/protocol/session.h"

namespace skua::rpc {
namespace {

using State = SessionEntry::State;

}  // namespace

size_t SessionLinks::take(size_t count) {
  size_t all = 0;
  // All of them: a connection that broke must be known before packets of the next one are handled.
  for (;; count = context_.transport.poll_links(events_)) {
    for (size_t i = 0; i < count; ++i) on_link(events_[i]);
    all += count;
    if (count < events_.size()) return all;
  }
}

void SessionLinks::on_link(const LinkEvent& event) {
  context_.sessions.for_each([&](SessionEntry& entry) {
    if (entry.peer == event.peer && entry.is_alive()) on_link(entry, event);
  });
}

void SessionLinks::on_link(SessionEntry& entry, const LinkEvent& event) {
  switch (event.kind) {
    case LinkEvent::Kind::kRefused: return on_refused(entry, event.why);
    case LinkEvent::Kind::kDown: return on_down(entry, event.why);
    case LinkEvent::Kind::kUp:
      if (entry.state == State::kOpen) on_up(entry, event.identity);
      return;
  }
}

void SessionLinks::on_refused(SessionEntry& entry, const absl::Status& why) {
  const bool is_open = entry.state == State::kOpen;
  if (absl::IsOutOfRange(why)) {
    // The path takes no packets of this size. A session that is not open yet will offer smaller ones.
    const bool fits =
        !is_open || entry.session->terms().payload_bytes <= context_.transport.payload_max_bytes(entry.peer);
    if (!fits) lives_.break_off(entry, absl::UnavailableError(why.message()));
  } else if (is_open) {
    lives_.break_off(entry, why);
  } else {
    entry.session->abort_all(why, context_.now_ns);
  }
}

/// What was in flight is repeated when the link stands again, or after a pause: sending makes the transport try again.
void SessionLinks::on_down(SessionEntry& entry, const absl::Status& why) {
  entry.link_lost = true;
  entry.resend_at_ns = context_.now_ns + context_.options.protocol.connect_retry_ns;
  context_.timers.set_earlier(entry.index, entry.resend_at_ns);
  if (!entry.initiator) {
    entry.link_down_ns = std::min(entry.link_down_ns, context_.now_ns);
    context_.timers.set_earlier(entry.index, entry.link_down_ns + context_.options.protocol.abandoned_after_ns);
    if (context_.capabilities.connected && !mutant(Mutant::kKeepBinding)) binding_.unbind(entry);
  } else if (context_.capabilities.connected && entry.state == State::kOpen) {
    entry.session->go_quiet();
    joins_.leave(entry);
    if (entry.version >= kBundleVersion) entry.next_join_ns = context_.now_ns;
  }
  if (entry.state == State::kOpen) lives_.notify(entry, SessionEvent::Kind::kLinkLost, why);
}

void SessionLinks::on_up(SessionEntry& entry, const EndpointIdentity& who) {
  entry.link_down_ns = kTimeNever;
  const bool another_life = entry.identity.uuid == who.uuid && entry.identity.incarnation != who.incarnation;
  if (another_life) {
    lives_.break_off(entry, absl::AbortedError(absl::StrCat("the peer restarted: it was ", describe(entry.identity),
                                                            ", now incarnation ", who.incarnation,
                                                            "; the request may have executed")));
  } else if (entry.link_lost) {
    lives_.resume(entry);
  }
}

}  // namespace skua::rpc
