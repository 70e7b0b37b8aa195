// The shard map as clients and storage nodes see it: an immutable snapshot that says which nodes have a part in which
// shard.
//
// A snapshot is built once, shared as `std::shared_ptr<const ShardMap>` and never changed. A key is routed like this:
//
//     const MapTable* table = map->find_table("usertable");                // once per snapshot
//     const uint32_t shard = shard_of_hash(hash, table->shard_count());
//     const MapShard& entry = table->shards[shard];                        // its epoch goes into the request
//     const MapNode& node = map->nodes[entry.primary->node];               // its address is for a new session
//
// Replicas refer to nodes by index into `nodes`, so that a map of 65,536 shards stays small.
#ifndef SKUA_CONTROL_CORE_SHARD_MAP_H_
#define SKUA_CONTROL_CORE_SHARD_MAP_H_

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "control/core/cluster_state.h"
#include "control/core/protocol_version.h"

namespace skua::control {

struct MapNode {
  std::string uuid;
  /// Grows with each process start of the node. Sessions that were made with an older process are dead.
  uint64_t incarnation = 0;
  /// "host:port" of the node's gRPC server (Bootstrap).
  std::string grpc_address;
  uint32_t worker_count = 0;
  /// The node's failure domain; empty if unknown.
  std::string zone = {};
  /// A replica with another storage incarnation no longer counts: see NodeInfo.
  uint64_t storage_incarnation = 0;
  /// See NodeInfo. 0 also if the control plane is of a build that does not say.
  uint32_t replication_version = kReplicationVersion;

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
  /// Not 0: the primary needs the learner's acknowledgement for every commit. See Learner.
  uint64_t join = 0;

  friend bool operator==(const MapLearner&, const MapLearner&) = default;
};

/// A shard's record, as in ShardRecord.
struct MapShard {
  uint64_t epoch = 0;
  /// Nothing if the shard has no owner (its last node was removed by force).
  std::optional<MapReplica> primary;
  std::vector<MapReplica> backups;
  std::vector<MapLearner> learners = {};
  /// Orders the records of one epoch.
  uint64_t change = 0;
  uint64_t fork = 0;
  /// The process (incarnation) that leads this epoch; 0: any process on the primary's node.
  uint64_t primary_incarnation = 0;

  friend bool operator==(const MapShard&, const MapShard&) = default;
};

struct MapGrant {
  /// "client/<name>".
  std::string principal;
  Rights rights = 0;

  friend bool operator==(const MapGrant&, const MapGrant&) = default;
};

struct MapQuota {
  /// "client/<name>".
  std::string principal;
  Quota quota;

  friend bool operator==(const MapQuota&, const MapQuota&) = default;
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
  bool hash_tags = false;
  /// The clients that may use the table (grants.h). Sorted by principal. Empty: all may.
  std::vector<MapGrant> grants = {};

  [[nodiscard]] uint32_t shard_count() const { return static_cast<uint32_t>(shards.size()); }

  friend bool operator==(const MapTable&, const MapTable&) = default;
};

/// A shard's primary, with everything that a caller needs to reach it. Points into the snapshot.
struct ShardOwner {
  const MapNode* node = nullptr;
  uint32_t worker = 0;
  uint64_t epoch = 0;
  uint64_t map_revision = 0;
};

struct ShardMap {
  std::string cluster_id;
  std::string cluster_name;
  /// Grows with each change. 0 in a default-constructed map: nothing is known yet.
  uint64_t revision = 0;
  /// Sorted by uuid.
  std::vector<MapNode> nodes;
  /// Sorted by id.
  std::vector<MapTable> tables;
  /// Identities that are revoked, "role/name" (revocation.h). Sorted.
  std::vector<std::string> denied = {};
  /// The clients that are limited (quotas.h). Sorted by principal.
  std::vector<MapQuota> quotas = {};

  /// Whether the node's identity is revoked. Cost: logarithmic.
  [[nodiscard]] bool is_denied(const MapNode& node) const;
  /// The table of this name, or null. Cost: linear in the number of tables; keep the result.
  [[nodiscard]] const MapTable* find_table(std::string_view name) const;
  /// The table with this id, or null. Cost: logarithmic.
  [[nodiscard]] const MapTable* find_table(TableId id) const;
  /// The node with this uuid, or null. Cost: logarithmic.
  [[nodiscard]] const MapNode* find_node(std::string_view uuid) const;
  /// The owner of a shard; nothing if table, shard or owner does not exist.
  [[nodiscard]] std::optional<ShardOwner> owner(TableId table, uint32_t shard) const;
  /// True if every index is in range, both lists are sorted, and no node has two parts in a shard. A map from the
  /// network must be checked with this before use.
  [[nodiscard]] bool valid() const;

  friend bool operator==(const ShardMap&, const ShardMap&) = default;
};

/// Builds the map of this state. Shards whose table is unknown are left out.
[[nodiscard]] ShardMap build_shard_map(const ClusterState& state);

}  // namespace skua::control

#endif  // SKUA_CONTROL_CORE_SHARD_MAP_H_
