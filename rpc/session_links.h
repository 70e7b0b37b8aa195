// SessionLinks: what the transport says of its connections, and what that means for the sessions over them.
//
//   up       what was in flight is repeated; a peer in another life has lost the session
//   down     the session waits for the next connection; what was in flight is repeated over it
//   refused  the peer cannot be reached, or the path takes no packets of this size
#ifndef SKUA_RPC_SESSION_LINKS_H_
#define SKUA_RPC_SESSION_LINKS_H_

#include <array>
#include <cstddef>

#include "absl/status/status.h"
#include "rpc/endpoint_context.h"
#include "rpc/session_binding.h"
#include "rpc/session_lives.h"
#include "rpc/session_table.h"
#include "rpc/transport/transport.h"

namespace skua::rpc {

class AssociationJoins;

/// Thread: the endpoint's, which owns it. The other parts must outlive it.
class SessionLinks {
 public:
  SessionLinks(EndpointContext& context, SessionLives& lives, SessionBinding& binding, AssociationJoins& joins)
      : context_(context), lives_(lives), binding_(binding), joins_(joins) {}
  SessionLinks(const SessionLinks&) = delete;
  SessionLinks& operator=(const SessionLinks&) = delete;

  /// Takes all events that there are. Returns how many. Mostly there are none, so this is inline.
  size_t poll() {
    const size_t count = context_.transport.poll_links(events_);
    return count == 0 ? 0 : take(count);
  }

 private:
  /// Handles the events that were taken, and takes the others that there are.
  [[gnu::noinline]] size_t take(size_t count);
  void on_link(const LinkEvent& event);
  void on_link(SessionEntry& entry, const LinkEvent& event);
  void on_refused(SessionEntry& entry, const absl::Status& why);
  void on_down(SessionEntry& entry, const absl::Status& why);
  void on_up(SessionEntry& entry, const EndpointIdentity& who);

  EndpointContext& context_;
  SessionLives& lives_;
  SessionBinding& binding_;
  AssociationJoins& joins_;
  std::array<LinkEvent, 8> events_;
};

}  // namespace skua::rpc

#endif  // SKUA_RPC_SESSION_LINKS_H_
