// StrayPackets: packets that are not for an open session that is bound to their sender. Handshakes are among them, and
// packets that bind a session, packets of sessions that are gone, and forged ones.
#ifndef SKUA_RPC_STRAY_PACKETS_H_
#define SKUA_RPC_STRAY_PACKETS_H_

#include "rpc/endpoint_context.h"
#include "rpc/protocol/session_host.h"
#include "rpc/session_acceptor.h"
#include "rpc/session_binding.h"
#include "rpc/session_dialer.h"
#include "rpc/session_lives.h"
#include "rpc/transmit_scheduler.h"
#include "rpc/transport/transport.h"
#include "rpc/wire/packet_header.h"

namespace skua::rpc {

/// Thread: the endpoint's, which owns it. The other parts must outlive it.
class StrayPackets {
 public:
  StrayPackets(EndpointContext& context, TransmitScheduler& transmits, SessionLives& lives, SessionBinding& binding,
               SessionDialer& dialer, SessionAcceptor& acceptor)
      : context_(context),
        transmits_(transmits),
        lives_(lives),
        binding_(binding),
        dialer_(dialer),
        acceptor_(acceptor) {}
  StrayPackets(const StrayPackets&) = delete;
  StrayPackets& operator=(const StrayPackets&) = delete;

  void dispatch(const Arrival& arrival, PeerId from);

 private:
  void on_handshake(const Arrival& arrival, PeerId from);
  void tell_unknown(const PacketHeader& header, PeerId from);

  EndpointContext& context_;
  TransmitScheduler& transmits_;
  SessionLives& lives_;
  SessionBinding& binding_;
  SessionDialer& dialer_;
  SessionAcceptor& acceptor_;
};

}  // namespace skua::rpc

#endif  // SKUA_RPC_STRAY_PACKETS_H_
