// Every bound of the control plane's clients.
#ifndef SKUA_CONTROL_CLIENT_CONTROL_CLIENT_LIMITS_H_
#define SKUA_CONTROL_CLIENT_CONTROL_CLIENT_LIMITS_H_

#include <cstddef>

#include "rpc/base/clock.h"

namespace skua::control {

/// A shard map at its own limits is far below this.
inline constexpr int kReceivedMessageMax = 64 << 20;
/// Bootstrap calls of one client that wait for an answer.
inline constexpr size_t kBootstrapCallsMax = 1024;
/// Nodes that one client keeps a bootstrap connection to.
inline constexpr size_t kBootstrapChannelsMax = 1024;
/// A node that speaks no TLS, and may be spoken to without, is tried by TLS again after this time.
inline constexpr DurationNs kPlaintextKeptNs = 5 * kSecond;
/// A map that the control plane has for so long and did not come: its watch is dead.
inline constexpr DurationNs kMapLateNs = 5 * kSecond;

}  // namespace skua::control

#endif  // SKUA_CONTROL_CLIENT_CONTROL_CLIENT_LIMITS_H_
