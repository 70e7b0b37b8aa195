// What a shard map means for one node. Pure functions, so that the rules for deleting data can be read and tested in
// one place.
//
// A shard's directory is removed only when its table was dropped. A node concludes that only from a map that would
// contain the table if the table existed. Three facts make this possible. Revisions of a cluster's map only grow. Table
// ids are never reused. The node persists the revision of a map before it creates directories for the map
// (NodeState::map_revision). So the table of a directory was in a map of some revision r <= the persisted one, and
//
//     a map of this cluster that contains this node, has a revision >= the persisted one,
//     and does not contain the table                                   ==> the table was dropped.
//
// Four kinds of maps delete nothing: an older map (the control plane was restored from a backup), an empty one
// (revision 0: nothing is known yet), one of another cluster, and one that does not contain this node.
#ifndef SKUA_KVSTORE_NODE_SHARD_PLAN_H_
#define SKUA_KVSTORE_NODE_SHARD_PLAN_H_

#include <cstdint>
#include <map>
#include <optional>
#include <set>
#include <span>
#include <string>
#include <vector>

#include "absl/status/status.h"
#include "control/core/shard_map.h"
#include "kvstore/node/view_file.h"
#include "kvstore/replication/view.h"
#include "kvstore/types/mutation.h"
#include "kvstore/worker/worker_commands.h"

namespace skua::kv {

/// A shard that a worker of this node must serve, or hold a replica of.
struct WantedShard {
  ShardId id;
  uint64_t epoch = 0;
  uint32_t worker = 0;
  /// For a replicated shard: its view, and the worker of each of its nodes.
  std::optional<View> view{};
  ReplicaPlaces places{};

  friend bool operator==(const WantedShard&, const WantedShard&) = default;
};

/// The shards that node `node_uuid` must serve or hold a replica of, as member or learner, sorted by id. Tables whose
/// id has more than 32 bits are left out, because requests cannot name them.
[[nodiscard]] std::vector<WantedShard> wanted_shards(const control::ShardMap& map, const std::string& node_uuid);

/// True if replicas here may lack writes that they acknowledged, because `damaged` shards (and why) are refused: then
/// the node's storage needs a new incarnation. Under the new one the node is a member of no view, and learns what it
/// lacks. `views`: those that are persisted here. `self`: this node, in the incarnation that its storage had.
/// Exception: if this node is the only member of an undamaged shard, it keeps its incarnation, because no other node
/// could serve that shard.
[[nodiscard]] bool must_learn_again(const ShardViews& views, const std::map<ShardId, absl::Status>& damaged,
                                    ReplicaId self);

/// Whether the database of a shard with this persisted view was made here and must be there: that of a member, or of a
/// shard without replicas. (A learner may begin without data.)
[[nodiscard]] bool has_database(const View& persisted, ReplicaId self);
/// The shards with such views.
[[nodiscard]] std::set<ShardId> made_databases(const ShardViews& views, ReplicaId self);

/// Identity of this node, and the newest map revision that it has persisted.
struct DropEvidence {
  std::string cluster_id;
  std::string node_uuid;
  uint64_t map_revision = 0;
};

/// Those of `known` whose table was dropped, by the rule above. `known`: shards of which something is on the disk.
[[nodiscard]] std::vector<ShardId> dropped_shards(const control::ShardMap& map, const DropEvidence& evidence,
                                                  std::span<const ShardId> known);

}  // namespace skua::kv

#endif  // SKUA_KVSTORE_NODE_SHARD_PLAN_H_
