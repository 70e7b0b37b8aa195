// SessionDialer: sessions that this endpoint opens. connect() sends offers in packets, again and again, until an answer
// comes. begin_connect() and finish_connect() leave the carrying to another channel.
#ifndef SKUA_RPC_SESSION_DIALER_H_
#define SKUA_RPC_SESSION_DIALER_H_

#include <cstdint>
#include <string>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "rpc/base/bytes.h"
#include "rpc/endpoint.h"
#include "rpc/endpoint_context.h"
#include "rpc/handshake_policy.h"
#include "rpc/protocol/session_host.h"
#include "rpc/session_lives.h"
#include "rpc/session_table.h"
#include "rpc/transmit_scheduler.h"
#include "rpc/transport/descriptor.h"
#include "rpc/wire/handshake.h"

namespace skua::rpc {

/// Thread: the endpoint's, which owns it. The other parts must outlive it.
class SessionDialer {
 public:
  SessionDialer(EndpointContext& context, const HandshakePolicy& policy, SessionLives& lives,
                TransmitScheduler& transmits)
      : context_(context), policy_(policy), lives_(lives), transmits_(transmits) {}
  SessionDialer(const SessionDialer&) = delete;
  SessionDialer& operator=(const SessionDialer&) = delete;

  // --- As in Endpoint
  absl::StatusOr<SessionId> connect(const Descriptor& peer);
  absl::StatusOr<Endpoint::Offer> begin_connect(const Descriptor& peer);
  absl::Status finish_connect(SessionId session, ByteSpan answer);

  /// The answer to an offer came as a packet.
  void on_accept(const Arrival& arrival, PeerId from);
  /// The timer of a session that is not open yet is due. Returns when it has to run again.
  TimeNs run_timer(SessionEntry& entry);
  [[nodiscard]] bool has_offers_due() const { return !offers_due_.empty(); }
  /// Sends the offers that are due, as far as there is room; others are sent at the next attempt.
  void send_offers();

 private:
  absl::StatusOr<SessionEntry*> dial(const Descriptor& peer, SessionEntry::State state);
  std::string make_offer(SessionEntry& entry);
  /// The offer together with that of the peer's channel, if the transport has channels.
  std::string with_channel(PeerId peer, std::string offer);
  /// What the answer says of keys.
  absl::Status finish_channel(SessionEntry& entry, const KeyedRecord& record);
  absl::Status on_answer(SessionEntry& entry, const SessionAnswer& answer);

  EndpointContext& context_;
  const HandshakePolicy& policy_;
  SessionLives& lives_;
  TransmitScheduler& transmits_;
  std::vector<uint32_t> offers_due_;
};

}  // namespace skua::rpc

#endif  // SKUA_RPC_SESSION_DIALER_H_
