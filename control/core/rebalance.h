// Spreads primaries and replicas evenly over the nodes of a cluster in which nothing is wrong.
//
// Each step moves one unit of load from node a to node b. It is done only if it lowers
//
//     sum over nodes of load^2 / workers      that is, if   (2 load(a) - 1) / workers(a) > (2 load(b) + 1) / workers(b)
//
// So between nodes of the same size a must have at least two units more than b. The sum cannot fall for ever, so
// rebalancing ends, and nothing moves to and fro. Replicas are moved before primaries. A replica's move never makes
// more replicas of the shard share a zone. A move that lowers this number is done whatever the load; this ends, too. A
// change of the primary moves no replica. Unreplicated tables are not moved.
#ifndef SKUA_CONTROL_CORE_REBALANCE_H_
#define SKUA_CONTROL_CORE_REBALANCE_H_

#include <cstddef>
#include <vector>

#include "control/core/accusations.h"
#include "control/core/replica_placement.h"
#include "control/core/view_context.h"

namespace skua::control {

/// At most `max` moves of replicas from heavily to lightly loaded nodes, as new records. Updates `loads`.
[[nodiscard]] std::vector<ShardRecord> rebalance_replicas(const ViewContext& context, ReplicaLoads& loads, size_t max);

/// At most `max` transfers of primaries, as new records. Updates `loads`.
[[nodiscard]] std::vector<ShardRecord> rebalance_primaries(const ViewContext& context, ReplicaLoads& loads,
                                                           const ViewHistory& history, size_t max);

}  // namespace skua::control

#endif  // SKUA_CONTROL_CORE_REBALANCE_H_
