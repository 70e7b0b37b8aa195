#include "rpc/session_lives.h"

#include <algorithm>
#include <memory>

#include "absl/strings/str_cat.h"
#include "rpc/association_joins.h"
#include "rpc/protocol/session.h"

namespace skua::rpc {
namespace {

using State = SessionEntry::State;

}  // namespace

std::string describe(const EndpointIdentity& who) {
  return absl::StrCat(who.uuid.to_string(), " incarnation ", who.incarnation);
}

SessionLives::SessionLives(EndpointContext& context, SessionHost& host, Bundles& bundles, AssociationJoins& joins,
                           TransmitScheduler& transmits)
    : context_(context),
      host_(host),
      bundles_(bundles),
      joins_(joins),
      transmits_(transmits),
      receive_budget_(
          std::min<size_t>(context.options.protocol.receive_budget_packets, context.capabilities.lendable_count / 2),
          context.options.protocol.receive_budget_bytes) {}

void SessionLives::notify(const SessionEntry& entry, SessionEvent::Kind kind, const absl::Status& why) {
  if (!observer_) return;
  observer_({kind, entry.handle(), entry.identity, why});
}

// --- Beginning -------------------------------------------------------------------------------------------------------

void SessionLives::make(SessionEntry& entry) {
  const PeerId route = entry.peer == kUnbound ? kNoPeer : entry.peer;
  SessionTable::attach(
      entry, std::make_unique<Session>(host_, context_.options.protocol, entry.index, &receive_budget_, route));
  bundles_.add(entry.session->hot());
}

void SessionLives::open(SessionEntry& entry, const SessionTerms& terms) {
  const bool again = std::exchange(entry.was_open, true);
  entry.state = State::kOpen;
  entry.attempts = 0;
  entry.link_lost = false;
  entry.resend_at_ns = kTimeNever;
  const SessionAddress address{entry.index, entry.wire_generation, entry.remote_index, entry.remote_generation};
  entry.session->open(address, terms, context_.capabilities.reliable, context_.now_ns);
  context_.timers.set_earlier(entry.index, context_.now_ns + context_.options.protocol.ping_after_ns);
  if (again) ++context_.counters.sessions_reconnected;
  notify(entry,
         !entry.initiator ? SessionEvent::Kind::kAccepted
         : again          ? SessionEvent::Kind::kReconnected
                          : SessionEvent::Kind::kConnected,
         absl::OkStatus());
}

void SessionLives::resume(SessionEntry& entry) {
  // Without a peer there is no receiver. The peer's next packet binds the session and calls this again.
  entry.resend_at_ns = kTimeNever;
  if (entry.peer == kUnbound) return;
  if (entry.session->is_quiet()) {
    entry.session->send_ping();
    entry.resend_at_ns = context_.now_ns + context_.options.protocol.connect_retry_ns;
    context_.timers.set_earlier(entry.index, entry.resend_at_ns);
    return;
  }
  entry.link_lost = false;
  // A quiet session of the opener repeats everything when its ping is answered.
  if (!entry.initiator || !context_.capabilities.connected) entry.session->on_link_lost(context_.now_ns);
}

// --- Breaking and ending ---------------------------------------------------------------------------------------------

void SessionLives::lost_at_peer(PeerId peer, uint32_t remote_index, uint32_t remote_generation) {
  // This is rare enough to search all sessions.
  SessionEntry* entry = context_.sessions.find_open(peer, remote_index, remote_generation);
  if (entry == nullptr) return context_.count_drop(DropReason::kUnknownSession);
  break_off(*entry,
            absl::AbortedError(absl::StrCat("the peer ", describe(entry->identity),
                                            " restarted or gave the session up: the request may have executed")));
}

void SessionLives::break_off(SessionEntry& entry, const absl::Status& why) {
  ++context_.counters.sessions_broken;
  entry.session->ready_hook.unlink();
  entry.session->interrupt(why, context_.now_ns);
  joins_.leave(entry);
  // Offers of sessions with keys do not go in packets.
  if (!entry.initiator || context_.capabilities.keyed) return end(entry, why);
  context_.sessions.renew(entry);
  entry.state = State::kConnecting;
  entry.connecting_since_ns = entry.next_attempt_ns = context_.now_ns;
  entry.attempts = 0;
  context_.timers.set(entry.index, context_.now_ns);
  notify(entry, SessionEvent::Kind::kBroken, why);
}

void SessionLives::close(SessionId session) {
  SessionEntry* entry = context_.sessions.find(session);
  if (entry == nullptr) return;
  if (entry->state == State::kOpen && entry->peer != kUnbound) {
    PacketHeader header;
    header.type = PacketType::kDisconnect;
    header.session_index = entry->remote_index;
    header.session_generation = entry->remote_generation;
    transmits_.send_control(entry->peer, header, {});
  }
  end(*entry, absl::CancelledError("the session was closed"));
}

void SessionLives::end(SessionEntry& entry, const absl::Status& why) {
  if (entry.state == State::kDoomed) return;
  context_.sessions.end(entry);
  entry.session->ready_hook.unlink();
  entry.session->abort_all(why, context_.now_ns);
  joins_.leave(entry);
  context_.timers.set(entry.index, kTimeNever);
  notify(entry, SessionEvent::Kind::kClosed, why);
}

void SessionLives::bury() {
  context_.sessions.bury([this](SessionEntry& entry) {
    entry.session->ready_hook.unlink();
    bundles_.remove(entry.index);
  });
}

void SessionLives::abort_all(const absl::Status& why) {
  context_.sessions.for_each([&](SessionEntry& entry) {
    entry.session->abort_all(why, context_.now_ns);
    joins_.leave(entry);
  });
}

void SessionLives::destroy_all() {
  context_.sessions.for_each([](SessionEntry& entry) {
    entry.session->ready_hook.unlink();
    entry.session.reset();
  });
}

}  // namespace skua::rpc
