// Bounds of the links between nodes.
#ifndef SKUA_KVSTORE_PEERS_PEER_LIMITS_H_
#define SKUA_KVSTORE_PEERS_PEER_LIMITS_H_

#include <cstddef>
#include <cstdint>

#include "rpc/base/clock.h"

namespace skua::kv {

/// Timeout of a request to another node's bootstrap service, and the number of requests that may wait for the thread
/// that sends them.
inline constexpr DurationNs kPeerBootstrapTimeoutNs = 3 * kSecond;
inline constexpr size_t kPeerBootstrapJobsMax = 4096;

/// How long a node is asked whether it opened a session (peer_proofs.h). Requests that arrive on the session meanwhile
/// are held: at most this number per session, and this number of bytes over all sessions of a worker.
inline constexpr DurationNs kPeerProofTimeoutNs = 5 * kSecond;
inline constexpr size_t kHeldPerSessionMax = 64;
/// Unanswered requests on a link that has had no answer yet. The peer may hold all of them until it has asked this
/// node, and this node may hold the peer's. The questions of both must find room in their sessions' windows beside
/// them.
inline constexpr size_t kUnprovenRequestsMax = 16;
/// Questions (VOUCH) under way on one link.
inline constexpr size_t kQuestionsMax = 16;
inline constexpr size_t kHeldBytesMax = size_t{8} << 20;

/// Largest number of workers of a node, as in the control plane. Sessions and views that name a later worker are
/// refused.
inline constexpr uint32_t kPeerWorkersMax = 256;
/// A link to another node that has been unwanted for this long is closed and forgotten.
inline constexpr DurationNs kPeerLinkKeptNs = 60 * kSecond;

/// A peer is said to refuse frames for this long after it refused one for good. The replica sends the same entries
/// again much sooner.
inline constexpr DurationNs kPeerRefusesNs = 10 * kSecond;

/// Pauses between attempts to open a session with another node.
inline constexpr DurationNs kPeerPauseMinNs = 10 * kMillisecond;
inline constexpr DurationNs kPeerPauseMaxNs = 1 * kSecond;

}  // namespace skua::kv

#endif  // SKUA_KVSTORE_PEERS_PEER_LIMITS_H_
