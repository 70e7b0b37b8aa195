// The shard map as clients and storage nodes see it: one immutable snapshot of "who owns which
// shard".
//
// A snapshot is built once, shared as `std::shared_ptr<const ShardMap>` and never changed. Routing
// a key takes
//
//     const MapTable* table = map->find_table("usertable");                // once per snapshot
//     const uint32_t shard = shard_of_hash(hash, table->shard_count());
//     const MapShard& entry = table->shards[shard];                        // its epoch goes into the request
//     const MapNode& node = map->nodes[entry.primary->node];               // its address is for a new session
//
// Nodes and replicas refer to each other by index into `nodes`, so the map of 65,536 shards stays
// small.
#ifndef SKUA_CONTROL_CORE_SHARD_MAP_H_
#define SKUA_CONTROL_CORE_SHARD_MAP_H_

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "control/core/cluster_state.h"

namespace skua::control {

struct MapNode {
  std::string uuid;
  /// Changes with each process start of the node: sessions made with an older one are dead.
  uint64_t incarnation = 0;
  /// "host:port" of the node's gRPC server (Bootstrap).
  std::string grpc_address;
  uint32_t worker_count = 0;
  /// What fails together with it; empty if unknown.
  std::string zone = {};
  /// A replica of another number is no replica any more: see NodeInfo.
  uint64_t storage_incarnation = 0;

  friend bool operator==(const MapNode&, const MapNode&) = default;
};

struct MapReplica {
  /// Index into ShardMap::nodes.
  uint32_t node = 0;
  uint32_t worker = 0;
  uint64_t storage_incarnation = 0;

  friend bool operator==(const MapReplica&, const MapReplica&) = default;
};

struct MapLearner {
  MapReplica replica;
  /// Not 0: the primary requires its acknowledgement for every commit. See Learner.
  uint64_t join = 0;

  friend bool operator==(const MapLearner&, const MapLearner&) = default;
};

/// A shard's record, as in ShardAssignment.
struct MapShard {
  uint64_t epoch = 0;
  /// Nothing when the shard has no owner (its node was removed by force).
  std::optional<MapReplica> primary;
  std::vector<MapReplica> backups;
  std::vector<MapLearner> learners = {};
  /// Orders records of one epoch.
  uint64_t change = 0;
  uint64_t fork = 0;
  /// The process that leads this epoch; 0: whichever runs on the primary's node.
  uint64_t primary_incarnation = 0;

  friend bool operator==(const MapShard&, const MapShard&) = default;
};

struct MapTable {
  TableId id = 0;
  std::string name;
  /// Indexed by shard number.
  std::vector<MapShard> shards;
  /// See Table.
  uint32_t replicas = 1;
  uint32_t min_insync = 1;
  bool read_anywhere = false;

  [[nodiscard]] uint32_t shard_count() const { return static_cast<uint32_t>(shards.size()); }

  friend bool operator==(const MapTable&, const MapTable&) = default;
};

/// A shard's owner with everything that a caller needs to reach it. Points into the snapshot.
struct ShardOwner {
  const MapNode* node = nullptr;
  uint32_t worker = 0;
  uint64_t epoch = 0;
  uint64_t map_revision = 0;
};

struct ShardMap {
  std::string cluster_id;
  std::string cluster_name;
  /// Grows with each change; 0 in a default-constructed map, which is "nothing known yet".
  uint64_t revision = 0;
  /// Sorted by uuid.
  std::vector<MapNode> nodes;
  /// Sorted by id.
  std::vector<MapTable> tables;

  /// The table of this name, or null. Cost: linear in the number of tables; keep the result.
  [[nodiscard]] const MapTable* find_table(std::string_view name) const;
  /// The table with this id, or null. Cost: logarithmic.
  [[nodiscard]] const MapTable* find_table(TableId id) const;
  /// The node with this uuid, or null. Cost: logarithmic.
  [[nodiscard]] const MapNode* find_node(std::string_view uuid) const;
  /// The owner of a shard, or nothing when table, shard or owner does not exist.
  [[nodiscard]] std::optional<ShardOwner> owner(TableId table, uint32_t shard) const;
  /// True if every index is in range and both lists are sorted: what a map from the network must
  /// pass before use.
  [[nodiscard]] bool valid() const;

  friend bool operator==(const ShardMap&, const ShardMap&) = default;
};

/// The map of this state. Shards whose table is unknown are left out.
[[nodiscard]] ShardMap build_shard_map(const ClusterState& state);

}  // namespace skua::control

#endif  // SKUA_CONTROL_CORE_SHARD_MAP_H_
