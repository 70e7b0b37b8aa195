// What decisions of the control core have changed, in words for logs.
#ifndef SKUA_CONTROL_SERVER_DECISION_TEXT_H_
#define SKUA_CONTROL_SERVER_DECISION_TEXT_H_

#include <string>

#include "control/core/cluster_state.h"
#include "control/core/decision.h"
#include "control/core/events.h"

namespace skua::control {

/// What an event has changed about who may do what, and how much of it; "": nothing.
[[nodiscard]] std::string access_text(const Event& event, const Decision& decision);

/// "views changed: t/3 epoch 5 led by <uuid> with 2 backups, 0 learners (<why>), ... and 60 more (58 because <why>)".
[[nodiscard]] std::string views_text(const Changes& changes, const ClusterState& state);

}  // namespace skua::control

#endif  // SKUA_CONTROL_SERVER_DECISION_TEXT_H_
