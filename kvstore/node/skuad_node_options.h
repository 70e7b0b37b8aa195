// What skuad's options mean for a node: sizes of memory, disk, sessions and threads.
#ifndef SKUA_KVSTORE_NODE_SKUAD_NODE_OPTIONS_H_
#define SKUA_KVSTORE_NODE_SKUAD_NODE_OPTIONS_H_

#include <cstddef>
#include <cstdint>

#include "absl/status/statusor.h"
#include "kvstore/node/disk_sizes.h"
#include "kvstore/node/memory_budget.h"
#include "kvstore/node/node_options.h"
#include "kvstore/node/skuad_options.h"

namespace skua::kv {

/// Sessions that one endpoint of a client or node may open to one worker. (A client has one session with each worker,
/// and a second one while it replaces the first.)
inline constexpr uint32_t kSessionsPerPeerMax = 64;

/// INVALID_ARGUMENT: the parts do not fit into --memory.
[[nodiscard]] absl::StatusOr<MemoryBudget> memory_budget(const SkuadOptions& config);

/// Of a file system of `disk_bytes`, but for what options say.
[[nodiscard]] DiskSizes disk_sizes(const SkuadOptions& config, uint64_t disk_bytes);

/// Threads that the node needs: those that always exist, and spare ones for libraries that create more under load.
[[nodiscard]] size_t threads_of(const SkuadOptions& config);

/// All that options decide; who the node is, its transports and its callbacks are left to the caller. `disk_bytes`: of
/// the data directory's file system.
[[nodiscard]] NodeOptions node_options(const SkuadOptions& config, const MemoryBudget& memory, uint64_t disk_bytes);

}  // namespace skua::kv

#endif  // SKUA_KVSTORE_NODE_SKUAD_NODE_OPTIONS_H_
