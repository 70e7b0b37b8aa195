// Bounds of a node.
#ifndef SKUA_KVSTORE_NODE_NODE_LIMITS_H_
#define SKUA_KVSTORE_NODE_NODE_LIMITS_H_

#include <cstdint>

#include "rpc/base/clock.h"

namespace skua::kv {

/// Sessions that one endpoint of a client or node may open to one worker. (A client has one session with each worker,
/// and a second one while it replaces the first.)
inline constexpr uint32_t kSessionsPerPeerMax = 64;

/// Pause between attempts to open a shard's database, and between attempts to recover on a full disk.
inline constexpr DurationNs kReopenPauseNs = 5 * kSecond;

/// Copies of shards that a node fetches at the same time.
inline constexpr int kCopiesMax = 2;

}  // namespace skua::kv

#endif  // SKUA_KVSTORE_NODE_NODE_LIMITS_H_
