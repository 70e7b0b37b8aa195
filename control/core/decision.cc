#include "control/core/decision.h"

#include <utility>

namespace skua::control {

Decision refused(absl::Status status) {
  Decision decision;
  decision.status = std::move(status);
  return decision;
}

Changes next_changes(const ClusterState& state) {
  Changes changes;
  changes.map_revision = state.map_revision + 1;
  changes.next_table_id = state.next_table_id;
  return changes;
}

}  // namespace skua::control
