// Chooses the nodes for the replicas of a shard, and the shard's primary.
//
// Replicas of one shard are always on different nodes, and only on nodes whose build can hold them
// (protocol_version.h). Beyond that, a node is better
//
//   1. the fewer replicas of the shard share its zone,
//   2. the fewer replicas it has for its number of workers (members, and learners that are to become members; not
//      members that are to leave); for a new table the table's replicas count first, then all replicas,
//   3. the smaller its uuid is, so that the same state gives the same choice everywhere.
//
// On a node, the worker with the fewest replicas gets the shard. control/core/placement.h places unreplicated tables,
// worker by worker.
#ifndef SKUA_CONTROL_CORE_REPLICA_PLACEMENT_H_
#define SKUA_CONTROL_CORE_REPLICA_PLACEMENT_H_

#include <cstddef>
#include <cstdint>
#include <map>
#include <optional>
#include <set>
#include <string>
#include <vector>

#include "control/core/view_context.h"

namespace skua::control {

struct NodeLoad {
  size_t replicas = 0;
  size_t primaries = 0;
  /// Number of `replicas` that are learners.
  size_t learners = 0;
  /// Replicas by worker.
  std::map<uint32_t, size_t> workers;
};

/// The load of each node. Cost of construction: linear in the number of shards.
class ReplicaLoads {
 public:
  explicit ReplicaLoads(const ClusterState& state);

  /// replace(): the record `after` replaces `before`. add(): the first record of a shard.
  void replace(const ShardRecord& before, const ShardRecord& after);
  void add(const ShardRecord& record) { count(record, true); }

  [[nodiscard]] const NodeLoad& of(const std::string& uuid) const;
  /// Number of learners in the whole cluster.
  [[nodiscard]] size_t learners() const { return learners_; }

 private:
  void count(const ShardRecord& record, bool up);

  std::map<std::string, NodeLoad> nodes_;
  size_t learners_ = 0;
};

/// Whether `a` units of load on `a_workers` workers are less per worker than `b` on `b_workers`.
[[nodiscard]] bool lighter(size_t a, uint32_t a_workers, size_t b, uint32_t b_workers);

/// Number of the shard's learners and of its members that are to stay, except node `except`, that are in `zone`.
[[nodiscard]] size_t zone_conflicts(const ViewContext& context, const ShardRecord& record, const std::string& zone,
                                    const std::string& except = {});

/// The best node for one more replica. It must have been heard of just now, be able to replicate, not be draining, have
/// no part in the shard, not be in `avoid`, and have room for a learner. Nothing if there is none.
[[nodiscard]] std::optional<Replica> choose_learner(const ViewContext& context, const ReplicaLoads& loads,
                                                    const ShardRecord& record, const std::set<std::string>& avoid);

/// The replica for this node, on its least loaded worker.
[[nodiscard]] Replica replica_on(const NodeInfo& node, const ReplicaLoads& loads);

/// The member that should lead. It must be alive, serve its data, not be doubtful, and not be in `except`. Preferred,
/// in this order: members that can replicate, were heard of just now, are to stay, lead few shards for their number of
/// workers. Nothing if there is none.
[[nodiscard]] std::optional<std::string> choose_primary(const ViewContext& context, const ReplicaLoads& loads,
                                                        const ShardRecord& record, const std::set<std::string>& except);

/// The first records of all shards of a new table. The table must not want more replicas than there are nodes that are
/// alive, not draining and able to replicate (checked). Cost: shards x replicas x nodes.
[[nodiscard]] std::vector<ShardRecord> place_table(const ViewContext& context, const Table& table);

}  // namespace skua::control

#endif  // SKUA_CONTROL_CORE_REPLICA_PLACEMENT_H_
