// What callers without certificates may not do while they are taken (--security accept). Before there were certificates
// they could do everything; what was made for those with certificates since is not theirs: tables that have grants, and
// the copies of these that a new node would be given.
#ifndef SKUA_CONTROL_SERVER_NAMELESS_CALLERS_H_
#define SKUA_CONTROL_SERVER_NAMELESS_CALLERS_H_

#include "absl/status/status.h"
#include "control/core/cluster_state.h"
#include "control/core/events.h"

namespace skua::control {

/// PERMISSION_DENIED: a node that `state` does not have wants to join, or a table that has grants is to be dropped.
/// Thread: any.
[[nodiscard]] absl::Status check_nameless(const Event& event, const ClusterState& state);

}  // namespace skua::control

#endif  // SKUA_CONTROL_SERVER_NAMELESS_CALLERS_H_
