// What a shard map means for one node: pure functions, so that the rules by which data is deleted
// can be read and tested in one place.
//
// A shard's directory is removed only when its table was dropped, and that is concluded only from a
// map that must know the table if it exists. Revisions of a cluster's map only grow, tables are never
// renumbered, and the node writes down the revision of a map before it creates directories for it
// (NodeState::map_revision). So a directory's table was in a map of some revision r <= the one
// written down, and
//
//     a map of this cluster, in which this node is, of a revision >= the one written down,
//     without the table                                                ==> the table was dropped.
//
// An older map (a control plane restored from a backup), an empty one (revision 0: nothing is known
// yet), one of another cluster, or one that does not know this node, deletes nothing.
#ifndef SKUA_KVSTORE_NODE_SHARD_PLAN_H_
#define SKUA_KVSTORE_NODE_SHARD_PLAN_H_

#include <cstdint>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "control/core/shard_map.h"
#include "kvstore/replication/view.h"
#include "kvstore/types/mutation.h"
#include "kvstore/worker/shard_host.h"

namespace skua::kv {

/// A shard that a worker of this node is to serve, or to hold a replica of.
struct WantedShard {
  ShardId id;
  uint64_t epoch = 0;
  uint32_t worker = 0;
  /// Of a replicated shard: who holds it, and on which workers.
  std::optional<View> view{};
  ReplicaPlaces places{};

  friend bool operator==(const WantedShard&, const WantedShard&) = default;
};

/// The shards that `node_uuid` serves, or holds or is to hold a replica of, sorted by id. Tables whose id has more than 32 bits (which
/// requests cannot name) are left out.
[[nodiscard]] std::vector<WantedShard> wanted_shards(const control::ShardMap& map, const std::string& node_uuid);

/// Who this node is, and the newest map that it has written down.
struct DropEvidence {
  std::string cluster_id;
  std::string node_uuid;
  uint64_t map_revision = 0;
};

/// Those of `on_disk` whose table was dropped, by the rule above.
[[nodiscard]] std::vector<ShardId> dropped_shards(const control::ShardMap& map, const DropEvidence& evidence,
                                                  std::span<const ShardId> on_disk);

}  // namespace skua::kv

#endif  // SKUA_KVSTORE_NODE_SHARD_PLAN_H_
