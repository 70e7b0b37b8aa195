// How far the cluster is from what it should be: what the status shows, and what waits for nodes. Nothing here decides.
#ifndef SKUA_CONTROL_CORE_CLUSTER_PROGRESS_H_
#define SKUA_CONTROL_CORE_CLUSTER_PROGRESS_H_

#include <cstddef>
#include <cstdint>
#include <string>
#include <vector>

#include "control/core/cluster_state.h"
#include "control/core/view_context.h"

namespace skua::control {

/// Members of the table's shards that have not applied `revision` yet or cannot serve a shard, sorted by uuid. Empty
/// for an unknown table.
[[nodiscard]] std::vector<std::string> lagging_owners(const ViewContext& context, TableId table, uint64_t revision);

/// Number of the table's shards whose primary is alive and serves its data.
[[nodiscard]] uint32_t available_shard_count(const ViewContext& context, TableId table);

/// Number of the table's shards that are settled: is_settled() in view_manager.h.
[[nodiscard]] uint32_t settled_shard_count(const ViewContext& context, TableId table);

/// One line for each shard that nobody serves: which shard, why, what to do. At most `max` lines.
[[nodiscard]] std::vector<std::string> shard_troubles(const ViewContext& context, size_t max);

/// What keeps a draining node from being empty; "" if nothing does or the node is not draining.
[[nodiscard]] std::string drain_progress(const ViewContext& context, const std::string& uuid);

/// What is left of handing over the leads of a node that stops soon.
struct YieldProgress {
  /// Shards that it leads and that a member could lead which is alive (next_leader), or of which this process does not
  /// know yet whether it is.
  size_t left = 0;
  /// The node, or the primary of a shard of which it is a member, does not serve by the newest map yet.
  bool lags = false;
};
[[nodiscard]] YieldProgress yield_progress(const ViewContext& context, const std::string& uuid);

/// Optional work for an operator: one line for each node that is gone and holds nothing. At most `max` lines.
[[nodiscard]] std::vector<std::string> hints(const ViewContext& context, size_t max);

}  // namespace skua::control

#endif  // SKUA_CONTROL_CORE_CLUSTER_PROGRESS_H_
