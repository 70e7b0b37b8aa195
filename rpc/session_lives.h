// SessionLives: what happens to a session, whoever asks for it. How sessions begin, break, come back and end:
//
//      connect()                        begin_connect() / finish_connect()             a peer's offer
//          |                                        |                                        |
//          v    answer                              v   answer                               v
//     kConnecting ------------> kOpen <------ kAwaitingAnswer                              kOpen
//          ^                      |
//          +----------------------+  peer silent, restarted, or it does not know the session:
//                                     calls that were sent get their outcome, calls that were not wait on
//                                     (the side that opened only; the other frees the session)
//
// A new connection of the same session gets new wire generations on both sides, so that nothing of the old one is
// believed.
//
// Who asks: SessionDialer (connect, answers), SessionAcceptor (offers), SessionBinding (whose packets are taken),
// SessionLinks (the transport's connections), SessionTimers (time).
#ifndef SKUA_RPC_SESSION_LIVES_H_
#define SKUA_RPC_SESSION_LIVES_H_

#include <cstddef>
#include <cstdint>
#include <string>
#include <utility>

#include "absl/status/status.h"
#include "rpc/bundles.h"
#include "rpc/endpoint.h"
#include "rpc/endpoint_context.h"
#include "rpc/protocol/receive_budget.h"
#include "rpc/protocol/session_host.h"
#include "rpc/session_table.h"
#include "rpc/transmit_scheduler.h"
#include "rpc/wire/handshake.h"

namespace skua::rpc {

class AssociationJoins;

/// An endpoint, for messages.
[[nodiscard]] std::string describe(const EndpointIdentity& who);

/// Thread: the endpoint's, which owns it. The other parts must outlive it. The sessions must be destroyed before it
/// (destroy_all()).
class SessionLives {
 public:
  /// Sessions get `host` as their surroundings.
  SessionLives(EndpointContext& context, SessionHost& host, Bundles& bundles, AssociationJoins& joins,
               TransmitScheduler& transmits);
  SessionLives(const SessionLives&) = delete;
  SessionLives& operator=(const SessionLives&) = delete;

  /// As Endpoint::on_session_event().
  void observe(SessionEventFn observer) { observer_ = std::move(observer); }
  void notify(const SessionEntry& entry, SessionEvent::Kind kind, const absl::Status& why);

  /// Makes the session of a new entry.
  void make(SessionEntry& entry);
  /// The handshake is complete.
  void open(SessionEntry& entry, const SessionTerms& terms);
  /// Called when the session has a connection again, or asks for one: repeats what was in flight.
  void resume(SessionEntry& entry);
  /// The peer is lost: the session connects anew if this endpoint opened it, and ends otherwise.
  void break_off(SessionEntry& entry, const absl::Status& why);
  /// The peer says that it has no session of this index and generation of its own.
  void lost_at_peer(PeerId peer, uint32_t remote_index, uint32_t remote_generation);
  /// Ends the session. Its memory stays until bury().
  void end(SessionEntry& entry, const absl::Status& why);
  /// As Endpoint::close().
  void close(SessionId session);
  /// Destroys the sessions that have ended. Completions of their calls must have run.
  void bury();

  /// Packets that are on their way to the endpoint because sessions asked for them.
  [[nodiscard]] size_t pulled_packets() const { return receive_budget_.packets_out(); }

  // --- At the endpoint's end
  /// Completes all calls with `why`.
  void abort_all(const absl::Status& why);
  void destroy_all();

 private:
  EndpointContext& context_;
  SessionHost& host_;
  Bundles& bundles_;
  AssociationJoins& joins_;
  TransmitScheduler& transmits_;
  SessionEventFn observer_;
  ReceiveBudget receive_budget_;
};

}  // namespace skua::rpc

#endif  // SKUA_RPC_SESSION_LIVES_H_
