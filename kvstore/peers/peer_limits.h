// Bounds of the links between nodes.
#ifndef SKUA_KVSTORE_PEERS_PEER_LIMITS_H_
#define SKUA_KVSTORE_PEERS_PEER_LIMITS_H_

#include <cstddef>
#include <cstdint>

#include "rpc/base/clock.h"

namespace skua::kv {

/// A question to another node's bootstrap service, and how many may wait for the thread that asks.
inline constexpr DurationNs kPeerBootstrapTimeoutNs = 3 * kSecond;
inline constexpr size_t kPeerBootstrapJobsMax = 4096;

/// How long a node is asked whether a session is its own. What came by the session meanwhile is held: so many requests of one
/// session, and bytes of all.
inline constexpr DurationNs kPeerProofTimeoutNs = 5 * kSecond;
inline constexpr size_t kHeldPerSessionMax = 64;
inline constexpr size_t kHeldBytesMax = size_t{8} << 20;

/// Workers of a node, as the control plane has it: a session or a view that names a later one is not believed.
inline constexpr uint32_t kPeerWorkersMax = 256;
/// A link to another node that nobody has wanted for this long is closed and forgotten.
inline constexpr DurationNs kPeerLinkKeptNs = 60 * kSecond;

/// Pauses between attempts to open a session with another node.
inline constexpr DurationNs kPeerPauseMinNs = 10 * kMillisecond;
inline constexpr DurationNs kPeerPauseMaxNs = 1 * kSecond;

}  // namespace skua::kv

#endif  // SKUA_KVSTORE_PEERS_PEER_LIMITS_H_
