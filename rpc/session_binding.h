// SessionBinding: whose packets an accepted session takes.
//
// What an offer says about its sender (identity, descriptor) proves nothing, and changes no other session. An accepted
// session is bound to a peer of the transport by a packet that names the session's index and generation: only the
// receiver of the answer knows them. Until then the session is unproven; the number and lifetime of such sessions are
// limited. A session whose connection broke is bound again in the same way. If an offer comes as a packet of a known
// peer, its session is bound at once.
#ifndef SKUA_RPC_SESSION_BINDING_H_
#define SKUA_RPC_SESSION_BINDING_H_

#include <cstdint>

#include "absl/status/status.h"
#include "rpc/endpoint_context.h"
#include "rpc/session_lives.h"
#include "rpc/session_table.h"
#include "rpc/transport/transport.h"

namespace skua::rpc {

class AssociationJoins;

/// Thread: the endpoint's, which owns it. The other parts must outlive it.
class SessionBinding {
 public:
  SessionBinding(EndpointContext& context, SessionLives& lives, AssociationJoins& joins)
      : context_(context), lives_(lives), joins_(joins) {}
  SessionBinding(const SessionBinding&) = delete;
  SessionBinding& operator=(const SessionBinding&) = delete;

  /// Whether a packet from `from` that names the session's generation may bind the session.
  [[nodiscard]] static bool is_lost_peer(const SessionEntry& entry, PeerId from);
  /// Whether an offer from `from` may be accepted (OK), or why not. Ends the session that the offer replaces.
  absl::Status make_way(PeerId from, const EndpointIdentity& identity, uint32_t remote_index,
                        uint32_t remote_generation);
  /// Binds the session to `from`. False: the session has ended instead.
  bool bind(SessionEntry& entry, PeerId from);
  /// As bind(), for a session whose connection may have broken before.
  bool bind_again(SessionEntry& entry, PeerId from);
  /// The connection broke: packets with the session's numbers may come from another peer.
  void unbind(SessionEntry& entry);

 private:
  EndpointContext& context_;
  SessionLives& lives_;
  AssociationJoins& joins_;
};

}  // namespace skua::rpc

#endif  // SKUA_RPC_SESSION_BINDING_H_
