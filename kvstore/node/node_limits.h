// Bounds of a node.
#ifndef SKUA_KVSTORE_NODE_NODE_LIMITS_H_
#define SKUA_KVSTORE_NODE_NODE_LIMITS_H_

#include <cstdint>

#include "rpc/base/clock.h"

namespace skua::kv {

/// Sessions of one worker that one endpoint of a client or node may open. (A client has one with each worker, and one more while it
/// opens that anew.)
inline constexpr uint32_t kSessionsPerPeerMax = 64;

/// A shard whose database cannot be opened is tried again after this long.
inline constexpr DurationNs kReopenPauseNs = 5 * kSecond;

/// Shards that a node has copied at a time.
inline constexpr int kCopiesMax = 2;

}  // namespace skua::kv

#endif  // SKUA_KVSTORE_NODE_NODE_LIMITS_H_
