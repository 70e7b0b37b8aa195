// The control plane's durable state: nodes, tables, and the owner of each shard.
//
//   ClusterState ── nodes: uuid             -> NodeInfo          who may own shards, and where they are reached
//                ── tables: id              -> Table             a name and a fixed number of shards
//                ── shards: (table, shard)  -> ShardRecord       epoch, primary, backups, learners
//                ── denied: role/name                            identities that are revoked (revocation.h)
//                ── grants: table id        -> TableGrants       which clients may use the table (grants.h)
//                ── quotas: role/name       -> Quota             how much of a node a client may use (quotas.h)
//                ── join_tokens: hash       -> JoinTokenRecord   who may get a certificate (join_tokens.h)
//                ── map_revision            +1 with each change that clients or nodes must hear of
//
// All of it is durable. It changes only by `Changes` that were committed to the metadata store before. ClusterCore has
// the state that is not durable (when a node was last heard of, which map it has applied): after a restart that is
// learnt again within one heartbeat. All containers are ordered, because placement depends on their order.
#ifndef SKUA_CONTROL_CORE_CLUSTER_STATE_H_
#define SKUA_CONTROL_CORE_CLUSTER_STATE_H_

#include <cstdint>
#include <map>
#include <optional>
#include <set>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "control/core/protocol_version.h"

namespace skua::control {

using TableId = uint64_t;

/// One process of a storage node, as it describes itself when it registers.
struct NodeInfo {
  /// Belongs to the node's data directory and never changes.
  std::string uuid;
  /// The node counts it up at each process start and stores it in its data directory.
  uint64_t incarnation = 0;
  /// A random UUID of the process. It tells a retry (same instance) from a restart (new instance and incarnation) and
  /// from a copied data directory (new instance, same incarnation).
  std::string instance;
  /// Where clients reach the node's gRPC server: "host:port".
  std::string grpc_address;
  /// The machine's name, for messages to people.
  std::string host;
  uint32_t worker_count = 0;
  VersionRange versions;
  /// The failure domain of the node (a rack, a power feed); empty if unknown. Replicas of a shard avoid sharing a zone.
  std::string zone = {};
  /// A node counts it up when its log may have lost writes that it had acknowledged. A membership under an older number
  /// no longer counts.
  uint64_t storage_incarnation = 0;
  /// An operator wants the node empty. Set by the control plane only: a registration does not change it.
  bool draining = false;
  /// The version of the replica messages that it speaks (protocol_version.h); 0: the node did not say.
  uint32_t replication_version = kReplicationVersion;
  /// A secret of the node's data directory, which proves that a claim comes from this node. It is never put into a
  /// reply, a message or a log. Empty: an older release registered the node.
  std::string secret = {};

  [[nodiscard]] bool replicates() const { return replication_version >= kReplicationVersionNeeded; }

  friend bool operator==(const NodeInfo&, const NodeInfo&) = default;
};

struct Table {
  /// Never reused, not even after the table is dropped.
  TableId id = 0;
  std::string name;
  /// Fixed for the table's life.
  uint32_t shard_count = 0;
  /// Number of members that each shard should have, each on another node.
  uint32_t replicas = 1;
  /// A primary acknowledges writes only while its view has at least this many members.
  uint32_t min_insync = 1;
  /// Backups may answer linearizable reads.
  bool read_anywhere = false;
  /// The part of a key in braces decides which shard has the key (kvstore/codec/key_hash.h). Never changes.
  bool hash_tags = false;

  friend bool operator==(const Table&, const Table&) = default;
};

/// A worker of a node that holds a shard. Node and storage incarnation identify a member of a view; the worker only
/// says where on the node the shard is.
struct Replica {
  std::string node_uuid;
  uint32_t worker = 0;
  uint64_t storage_incarnation = 0;

  friend bool operator==(const Replica&, const Replica&) = default;
};

/// A node that copies a shard in order to become a member.
struct Learner {
  Replica replica;
  /// 0: the learner follows the log, and nobody waits for it. Otherwise the number of the attempt to join. While it is
  /// set, the primary needs the learner's acknowledgement for every commit, and its promise for leased reads.
  uint64_t join = 0;

  friend bool operator==(const Learner&, const Learner&) = default;
};

/// A shard's record: its view (who serves it, in which epoch) and the changes under way. control/core/view_rules.h says
/// which record may follow which.
struct ShardRecord {
  TableId table_id = 0;
  uint32_t shard = 0;
  /// Starts at 1; +1 for every change of the primary or of the members. Each data-path request carries it.
  uint64_t epoch = 0;
  /// Nothing if the last member was removed by force: the shard is then unavailable until its table is dropped.
  std::optional<Replica> primary;
  /// The other members. `primary` and `backups` together are the members of the view.
  std::vector<Replica> backups = {};
  std::vector<Learner> learners = {};
  /// Members (node uuids) that are removed as soon as enough other members are there: a move under way.
  std::vector<std::string> leaving = {};
  /// Nodes that were members since the shard last had all its members, and are none now, in the order in which they
  /// left; and learners that were removed while nobody served the shard. They may become learners before others, and an
  /// operator can recover the shard from them (with_former() in shard_repair.h).
  std::vector<std::string> former = {};
  /// +1 for every change of the record, so that the records of one epoch have an order.
  uint64_t change = 0;
  /// The number of the next attempt to join. No number is used twice.
  uint64_t next_join = 1;
  /// +1 when writes may have been given up: by an operator's recovery, by the restart of a shard whose only copy lost
  /// data, or when all members were doubtful (doubts.h).
  uint64_t fork = 0;
  /// The process (incarnation) of the primary's node that leads this view. A later process of the node cannot lead
  /// before a new view names it. 0: any process (a shard that never had more than one member).
  uint64_t primary_incarnation = 0;

  friend bool operator==(const ShardRecord&, const ShardRecord&) = default;
};

using ShardKey = std::pair<TableId, uint32_t>;

/// Rights to a table, as bits (grants.h).
using Rights = uint32_t;
inline constexpr Rights kRightRead = 1;
inline constexpr Rights kRightWrite = 2;
inline constexpr Rights kRightScan = 4;
inline constexpr Rights kRightsAll = kRightRead | kRightWrite | kRightScan;

/// Who may do what with one table: "client/<name>" -> rights.
using TableGrants = std::map<std::string, Rights>;

/// How much of each node a client may use (quotas.h). 0: no limit.
struct Quota {
  uint64_t operations_per_s = 0;
  uint64_t bytes_per_s = 0;
  uint32_t sessions = 0;
  uint32_t client_ids = 0;

  friend bool operator==(const Quota&, const Quota&) = default;
};

/// By "client/<name>".
using Quotas = std::map<std::string, Quota>;

/// A join token that was given out: join_tokens.h.
struct JoinTokenRecord {
  /// Whose certificate it gives: "node/<uuid>", "client/app-7".
  std::string principal;
  /// Seconds since 1970.
  int64_t expires_s = 0;
  /// SHA-256 of the public key that it was used for, hexadecimal; empty: it was not used.
  std::string used_key = {};

  friend bool operator==(const JoinTokenRecord&, const JoinTokenRecord&) = default;
};

/// By the SHA-256 of their secrets, hexadecimal.
using JoinTokens = std::map<std::string, JoinTokenRecord>;

/// The shards in which a node has a part.
struct ShardCounts {
  size_t owned = 0;     ///< it is their primary
  size_t staying = 0;   ///< of these: of tables with one replica, which nodes do not copy; a drain leaves them there
  size_t replicas = 0;  ///< it is a member or learner

  friend bool operator==(const ShardCounts&, const ShardCounts&) = default;
};

struct ClusterState {
  std::string cluster_id;
  std::string cluster_name;
  uint64_t map_revision = 0;
  TableId next_table_id = 1;
  std::map<std::string, NodeInfo> nodes;
  std::map<TableId, Table> tables;
  std::map<ShardKey, ShardRecord> shards;
  /// Identities that are not let in: revocation.h.
  std::set<std::string> denied;
  /// Tables that are open to all clients are not in it: grants.h.
  std::map<TableId, TableGrants> grants;
  /// Clients that are not limited are not in it: quotas.h.
  Quotas quotas;
  JoinTokens join_tokens;

  /// The table of this name, or null. Cost: linear in the number of tables.
  [[nodiscard]] const Table* find_table(std::string_view name) const;
  /// The counts of each node that has a part in a shard, from one look at all shards. For one node there are those
  /// below, with a look at all shards each.
  [[nodiscard]] std::map<std::string, ShardCounts> shard_counts() const;
  /// Number of shards whose primary is on node `uuid`.
  [[nodiscard]] size_t owned_shard_count(const std::string& uuid) const;
  /// The same, but only shards that a drain leaves there: shards of tables with one replica, which nodes do not copy.
  [[nodiscard]] size_t staying_shard_count(const std::string& uuid) const;
  /// Number of shards that have node `uuid` as a member or learner.
  [[nodiscard]] size_t replica_count(const std::string& uuid) const;
};

/// A process of a node.
struct RegisteredProcess {
  std::string uuid;
  uint64_t applied_revision = 0;
};

/// A change of the durable state, committed as one transaction. Empty if an event changes nothing durable.
struct Changes {
  std::vector<NodeInfo> put_nodes;
  std::vector<std::string> delete_nodes;
  std::vector<Table> put_tables;
  /// Deletes the tables' shards, too.
  std::vector<TableId> delete_tables;
  std::vector<ShardRecord> put_shards;
  /// The reason of each put_shards element, for people; not stored. May have fewer elements.
  std::vector<std::string> reasons;
  /// The process that put_nodes registers, which is alive; not stored. Empty: none.
  RegisteredProcess registered;
  /// The whole new list, if it changes.
  std::optional<std::set<std::string>> put_denied;
  /// All grants of the tables whose grants change. Empty ones open the table to all clients.
  std::map<TableId, TableGrants> put_grants;
  /// All quotas, if they change.
  std::optional<Quotas> put_quotas;
  /// All tokens, if they change.
  std::optional<JoinTokens> put_join_tokens;
  /// The state's values after the change; not used in an empty change.
  uint64_t map_revision = 0;
  TableId next_table_id = 0;

  [[nodiscard]] bool empty() const {
    return put_nodes.empty() && delete_nodes.empty() && put_tables.empty() && delete_tables.empty() &&
           put_shards.empty() && !put_denied && put_grants.empty() && !put_quotas && !put_join_tokens;
  }
};

/// Applies a committed change.
void apply(const Changes& changes, ClusterState& state);

}  // namespace skua::control

#endif  // SKUA_CONTROL_CORE_CLUSTER_STATE_H_
