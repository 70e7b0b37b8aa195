// What operators ask of nodes and shards: to take a node out, to empty it, to move a replica, to make another member
// lead. They refuse what would lose data, unless the operator says force. The last one, ForceRecover, goes on without
// data that cannot come back.
//
// An operation only starts a change. The view manager carries it on; cluster_progress.h says how far it is.
#ifndef SKUA_CONTROL_CORE_CLUSTER_OPERATIONS_H_
#define SKUA_CONTROL_CORE_CLUSTER_OPERATIONS_H_

#include "control/core/cluster_state.h"
#include "control/core/decision.h"
#include "control/core/events.h"
#include "control/core/view_context.h"

namespace skua::control {

/// NOT_FOUND: no such node. UNAVAILABLE: it is not known yet whether the node is alive. FAILED_PRECONDITION: the node
/// is alive and does not ask itself, or has shards and the event does not say force.
[[nodiscard]] Decision decide(const NodeLeave& event, const ViewContext& context);

/// NOT_FOUND: no such node. A node that is draining already is no error.
[[nodiscard]] Decision decide(const DrainNode& event, const ClusterState& state);
/// NOT_FOUND: no such node. A node that is not draining is no error.
[[nodiscard]] Decision decide(const UndrainNode& event, const ClusterState& state);

/// NOT_FOUND: no such table, shard or node. FAILED_PRECONDITION: `from` has no replica, `to` cannot take one, nodes do
/// not copy the table, or another change of the shard is under way. A move that has begun already is no error.
[[nodiscard]] Decision decide(const MoveShard& event, const ViewContext& context);

/// NOT_FOUND: no such table or shard. FAILED_PRECONDITION: `to` is no member, or cannot lead. The present primary is no
/// error.
[[nodiscard]] Decision decide(const TransferPrimary& event, const ViewContext& context);

/// NOT_FOUND: no such table, shard or node. FAILED_PRECONDITION: a member has all data, or `node` has nothing that it
/// could go on from.
[[nodiscard]] Decision decide(const ForceRecover& event, const ViewContext& context);

}  // namespace skua::control

#endif  // SKUA_CONTROL_CORE_CLUSTER_OPERATIONS_H_
