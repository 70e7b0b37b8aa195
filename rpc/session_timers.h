// SessionTimers: what sessions do because time passes: offers, joins, pings, repetitions, and the ends of sessions
// whose peers are silent or never used them.
#ifndef SKUA_RPC_SESSION_TIMERS_H_
#define SKUA_RPC_SESSION_TIMERS_H_

#include "rpc/endpoint_context.h"
#include "rpc/session_dialer.h"
#include "rpc/session_lives.h"
#include "rpc/session_table.h"

namespace skua::rpc {

class AssociationJoins;

/// Thread: the endpoint's, which owns it. The other parts must outlive it.
class SessionTimers {
 public:
  SessionTimers(EndpointContext& context, SessionLives& lives, SessionDialer& dialer, AssociationJoins& joins)
      : context_(context), lives_(lives), dialer_(dialer), joins_(joins) {}
  SessionTimers(const SessionTimers&) = delete;
  SessionTimers& operator=(const SessionTimers&) = delete;

  /// Runs the timers that are due.
  void run_due();

 private:
  void run(SessionEntry& entry);
  /// Both return when the timer has to run again.
  TimeNs run_open(SessionEntry& entry);
  TimeNs watch_silence(SessionEntry& entry);
  /// Whether a session that a peer opened ends now, and otherwise when it may. True: it has ended.
  bool give_up(SessionEntry& entry, TimeNs& next);

  EndpointContext& context_;
  SessionLives& lives_;
  SessionDialer& dialer_;
  AssociationJoins& joins_;
};

}  // namespace skua::rpc

#endif  // SKUA_RPC_SESSION_TIMERS_H_
