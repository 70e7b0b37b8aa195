// Evens out primaries and replicas over the nodes of a cluster in which nothing is wrong.
//
// Each step takes one unit of load from node a to node b, and is taken only if it lowers
//
//     sum over nodes of load^2 / workers        which is so if   (2 load(a) - 1) / workers(a) > (2 load(b) + 1) / workers(b)
//
// so with nodes of one size only if a has at least two more than b. The sum cannot fall for ever: rebalancing
// ends, and nothing moves to and fro. Replicas come first: their steps never make two of a shard share a
// zone that did not, and may undo such sharing whatever the load (which cannot go on for ever either).
// Leading another member changes no replica's place. Unreplicated tables are left where they are.
#ifndef SKUA_CONTROL_CORE_REBALANCE_H_
#define SKUA_CONTROL_CORE_REBALANCE_H_

#include <cstddef>
#include <vector>

#include "control/core/accusations.h"
#include "control/core/replica_placement.h"
#include "control/core/view_context.h"

namespace skua::control {

/// At most `max` moves of replicas from heavy nodes to light ones. Keeps `loads` up to date.
[[nodiscard]] std::vector<ShardAssignment> rebalance_replicas(const ViewContext& context, ReplicaLoads& loads,
                                                              size_t max);

/// At most `max` transfers of primaries. Keeps `loads` up to date.
[[nodiscard]] std::vector<ShardAssignment> rebalance_primaries(const ViewContext& context, ReplicaLoads& loads,
                                                               const ViewHistory& history, size_t max);

}  // namespace skua::control

#endif  // SKUA_CONTROL_CORE_REBALANCE_H_
