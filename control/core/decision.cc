#include "control/core/decision.h"

#include <algorithm>
#include <utility>

#include "control/core/cluster_limits.h"

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

bool keep_first_shards(Changes& changes) {
  if (changes.put_shards.size() <= kShardsPerChangeMax) return false;
  changes.put_shards.resize(kShardsPerChangeMax);
  changes.reasons.resize(std::min(changes.reasons.size(), kShardsPerChangeMax));
  return true;
}

}  // namespace skua::control
