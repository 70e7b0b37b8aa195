// What the control plane remembers: nodes, tables, and who owns each shard.
//
//   ClusterState ── nodes:  uuid            -> NodeInfo          who may own shards, and where they are reached
//                ── tables: id              -> Table             a name and a fixed number of shards
//                ── shards: (table, shard)  -> ShardAssignment   epoch, primary, later backups
//                ── map_revision            +1 with each change that clients or nodes must hear of
//
// All of it is durable, and changes only by a `Changes` that was committed to the metadata store
// first. What is not durable (when a node was last heard of, which map it has applied) lives in
// ClusterCore: it is learnt again within one heartbeat of a restart. Ordered containers throughout,
// because their order feeds placement.
#ifndef SKUA_CONTROL_CORE_CLUSTER_STATE_H_
#define SKUA_CONTROL_CORE_CLUSTER_STATE_H_

#include <cstdint>
#include <map>
#include <optional>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "control/core/protocol_version.h"

namespace skua::control {

using TableId = uint64_t;

/// One process of a storage node, as it describes itself when it registers.
struct NodeInfo {
  /// Stays with the node's data directory for ever.
  std::string uuid;
  /// Counted up by the node at each process start and stored in its data directory.
  uint64_t incarnation = 0;
  /// A random UUID per process. Tells a restart (same address) and a retry (same instance) from a
  /// copied data directory.
  std::string instance;
  /// Where clients reach the node's gRPC server: "host:port".
  std::string grpc_address;
  /// The machine's name, for messages to people.
  std::string host;
  uint32_t worker_count = 0;
  VersionRange versions;
  /// What fails together with this node (a rack, a power feed); empty if unknown. Replicas of a shard
  /// avoid sharing one.
  std::string zone = {};
  /// Counted up by a node whose log may have lost writes that it had acknowledged. What it was a
  /// member of under an older number, it is a member of no more.
  uint64_t storage_incarnation = 0;
  /// An operator wants the node empty. The control plane's own: a registration does not change it.
  bool draining = false;
  /// What its replicas speak (protocol_version.h); 0: it does not say.
  uint32_t replication_version = kReplicationVersion;
  /// Of its data directory: whoever does not know it is not this node. Never in a reply, a message or a log; empty:
  /// an older release registered the node.
  std::string secret = {};

  [[nodiscard]] bool replicates() const { return replication_version >= kReplicationVersionNeeded; }

  friend bool operator==(const NodeInfo&, const NodeInfo&) = default;
};

struct Table {
  /// Never reused, also not after the table is dropped.
  TableId id = 0;
  std::string name;
  /// Fixed for the table's life.
  uint32_t shard_count = 0;
  /// Members that each shard should have, on as many nodes.
  uint32_t replicas = 1;
  /// A primary acknowledges writes only while its view has at least so many members.
  uint32_t min_insync = 1;
  /// Backups may answer linearizable reads.
  bool read_anywhere = false;

  friend bool operator==(const Table&, const Table&) = default;
};

/// A worker of a node that holds a shard. A member of a view is named by node and storage
/// incarnation; the worker only says where on the node it is.
struct Replica {
  std::string node_uuid;
  uint32_t worker = 0;
  uint64_t storage_incarnation = 0;

  friend bool operator==(const Replica&, const Replica&) = default;
};

/// A node that copies a shard in order to become a member.
struct Learner {
  Replica replica;
  /// 0: it follows, and nobody waits for it. Otherwise the number of the attempt to join: while it is
  /// set, the primary requires the learner's acknowledgement and grant for every commit.
  uint64_t join = 0;

  friend bool operator==(const Learner&, const Learner&) = default;
};

/// Who serves a shard, in which epoch: the shard's view. control/core/view_rules.h says which
/// record may follow which.
struct ShardAssignment {
  TableId table_id = 0;
  uint32_t shard = 0;
  /// Starts at 1, +1 for every change of the primary or of the members. Travels in each data-path
  /// request.
  uint64_t epoch = 0;
  /// Nothing when the last member was removed by force: the shard is then unavailable until its
  /// table is dropped.
  std::optional<Replica> primary;
  /// The other members. `primary` and `backups` together are the members of the view.
  std::vector<Replica> backups = {};
  std::vector<Learner> learners = {};
  /// Members (node uuids) that go as soon as enough others are there: a move under way.
  std::vector<std::string> leaving = {};
  /// +1 for every change of the record at all, so that records of one epoch have an order.
  uint64_t change = 0;
  /// The number that the next attempt to join gets: never one that was used before.
  uint64_t next_join = 1;
  /// +1 when an operator's (or, without replicas, the owner's) recovery gave writes up.
  uint64_t fork = 0;
  /// The process of the primary's node that leads this view; a later one has to wait for a view of its
  /// own. 0: any (a shard that never had more than one member).
  uint64_t primary_incarnation = 0;

  friend bool operator==(const ShardAssignment&, const ShardAssignment&) = default;
};

using ShardKey = std::pair<TableId, uint32_t>;

struct ClusterState {
  std::string cluster_id;
  std::string cluster_name;
  uint64_t map_revision = 0;
  TableId next_table_id = 1;
  std::map<std::string, NodeInfo> nodes;
  std::map<TableId, Table> tables;
  std::map<ShardKey, ShardAssignment> shards;

  /// The table of this name, or null. Cost: linear in the number of tables.
  [[nodiscard]] const Table* find_table(std::string_view name) const;
  /// How many shards have `uuid` as their primary.
  [[nodiscard]] size_t owned_shard_count(const std::string& uuid) const;
  /// Those of them that a drain leaves there: shards of tables with one replica, which nodes do not copy.
  [[nodiscard]] size_t staying_shard_count(const std::string& uuid) const;
  /// How many shards have `uuid` as a member or learner.
  [[nodiscard]] size_t replica_count(const std::string& uuid) const;
};

/// A durable change, committed as one transaction. Empty when an event changed nothing that lasts.
struct Changes {
  std::vector<NodeInfo> put_nodes;
  std::vector<std::string> delete_nodes;
  std::vector<Table> put_tables;
  /// Takes the table's shards with it.
  std::vector<TableId> delete_tables;
  std::vector<ShardAssignment> put_shards;
  /// Of each of them why, for people; not stored. May be shorter.
  std::vector<std::string> reasons;
  /// The state's values once this is applied; meaningless in an empty change.
  uint64_t map_revision = 0;
  TableId next_table_id = 0;

  [[nodiscard]] bool empty() const {
    return put_nodes.empty() && delete_nodes.empty() && put_tables.empty() && delete_tables.empty() &&
           put_shards.empty();
  }
};

/// Applies a committed change.
void apply(const Changes& changes, ClusterState& state);

}  // namespace skua::control

#endif  // SKUA_CONTROL_CORE_CLUSTER_STATE_H_
