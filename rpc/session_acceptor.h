// SessionAcceptor: sessions that peers open by their offers, which come as packets or over another channel. Who the
// sender of an offer really is shows later (session_binding.h).
#ifndef SKUA_RPC_SESSION_ACCEPTOR_H_
#define SKUA_RPC_SESSION_ACCEPTOR_H_

#include <cstdint>
#include <string>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "rpc/base/bytes.h"
#include "rpc/endpoint.h"
#include "rpc/endpoint_context.h"
#include "rpc/handshake_policy.h"
#include "rpc/protocol/session_host.h"
#include "rpc/session_binding.h"
#include "rpc/session_lives.h"
#include "rpc/session_table.h"
#include "rpc/transmit_scheduler.h"
#include "rpc/transport/channels.h"
#include "rpc/wire/handshake.h"

namespace skua::rpc {

/// Thread: the endpoint's, which owns it. The other parts must outlive it.
class SessionAcceptor {
 public:
  SessionAcceptor(EndpointContext& context, const HandshakePolicy& policy, SessionLives& lives, SessionBinding& binding,
                  TransmitScheduler& transmits)
      : context_(context), policy_(policy), lives_(lives), binding_(binding), transmits_(transmits) {}
  SessionAcceptor(const SessionAcceptor&) = delete;
  SessionAcceptor& operator=(const SessionAcceptor&) = delete;

  /// As Endpoint::accept_offer().
  std::string accept_offer(ByteSpan offer, const OfferOrigin& origin, SessionId* made);
  /// An offer came as a packet; the answer goes back as one.
  void on_connect(const Arrival& arrival, PeerId from);

 private:
  /// Makes a session by the offer of it. `from`: the peer whose packet brought the offer, or whose channel it is for.
  std::string accept_session(ByteSpan offer, PeerId from, const OfferOrigin& origin, SessionId* made);
  /// The answer that says why the offer made no session.
  std::string refuse_offer(ByteSpan offer, const absl::Status& why);
  /// OK, or why no offer like this one is accepted.
  [[nodiscard]] absl::Status check_offer(const SessionOffer& offer) const;
  /// The peer that an offer says to be from.
  absl::StatusOr<PeerId> resolve_claim(const Descriptor& opener, const OfferOrigin& origin);
  /// The entry of the session that is offered. `claimed`: the peer that the offer names, if the transport needs it.
  absl::StatusOr<SessionEntry*> take_offer(const SessionOffer& offer, const EndpointIdentity& identity, PeerId claimed,
                                           uint64_t source);
  /// OK: `accepted` is the session, and `answer` has its terms, unless the offer is a repeated one, whose answer the
  /// session has.
  absl::Status judge_offer(const SessionOffer& offer, PeerId from, const OfferOrigin& origin, SessionAnswer& answer,
                           SessionEntry*& accepted);
  [[nodiscard]] bool is_bound_elsewhere(const SessionOffer& offer, PeerId from) const;
  void limit_unproven();

  EndpointContext& context_;
  const HandshakePolicy& policy_;
  SessionLives& lives_;
  SessionBinding& binding_;
  TransmitScheduler& transmits_;
};

}  // namespace skua::rpc

#endif  // SKUA_RPC_SESSION_ACCEPTOR_H_
