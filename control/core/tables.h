// Tables are created and dropped. Creating a table places its shards: placement.h if it has one replica, else
// replica_placement.h. Placement is on live nodes that are not draining.
#ifndef SKUA_CONTROL_CORE_TABLES_H_
#define SKUA_CONTROL_CORE_TABLES_H_

#include <string>

#include "absl/status/status.h"
#include "control/core/cluster_state.h"
#include "control/core/decision.h"
#include "control/core/events.h"
#include "control/core/view_context.h"

namespace skua::control {

/// INVALID_ARGUMENT: not a name, or a number is out of its bounds. ALREADY_EXISTS: the table exists, and is not one
/// that the event accepts. FAILED_PRECONDITION, UNAVAILABLE: too few nodes take shards, or it is not known yet which
/// do. RESOURCE_EXHAUSTED: the cluster has its maximum of tables or shards.
[[nodiscard]] Decision decide(const CreateTable& event, const ViewContext& context);

/// NOT_FOUND: no such table.
[[nodiscard]] Decision decide(const DropTable& event, const ClusterState& state);

/// NOT_FOUND, with the names of tables that there are.
[[nodiscard]] absl::Status no_such_table(const std::string& name, const ClusterState& state);

}  // namespace skua::control

#endif  // SKUA_CONTROL_CORE_TABLES_H_
