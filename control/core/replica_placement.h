// Which nodes hold the replicas of a shard, and who leads it.
//
// Replicas of one shard are on different nodes, always, and only on nodes whose build can hold them (protocol_version.h). Beyond
// that, a node is better
//
//   1. the fewer replicas of the shard share its zone,
//   2. the less it carries for its number of workers (members, and learners on their way in; not members on
//      their way out),
//   3. the smaller its uuid is: same state, same choice, everywhere.
//
// On a node, the worker with the fewest replicas gets the shard. The unreplicated tables' placement,
// worker by worker, is control/core/placement.h.
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
  /// Of `replicas`, those that are being copied.
  size_t learners = 0;
  /// Replicas by worker.
  std::map<uint32_t, size_t> workers;
};

/// What each node carries. Cost of construction: all shards.
class ReplicaLoads {
 public:
  explicit ReplicaLoads(const ClusterState& state);

  /// A record that replaces another one, or the first of its shard.
  void replace(const ShardAssignment& before, const ShardAssignment& after);
  void add(const ShardAssignment& record) { count(record, true); }

  [[nodiscard]] const NodeLoad& of(const std::string& uuid) const;
  /// Learners in the whole cluster.
  [[nodiscard]] size_t learners() const { return learners_; }

 private:
  void count(const ShardAssignment& record, bool up);

  std::map<std::string, NodeLoad> nodes_;
  size_t learners_ = 0;
};

/// Is `a` units of load on `a_workers` workers less than `b` on `b_workers`?
[[nodiscard]] bool lighter(size_t a, uint32_t a_workers, size_t b, uint32_t b_workers);

/// The shard's members that are to stay, and its learners, that share `zone`, not counting `except`.
[[nodiscard]] size_t zone_conflicts(const ViewContext& context, const ShardAssignment& record, const std::string& zone,
                                    const std::string& except = {});

/// The best node for one more replica: heard of, able to replicate, not draining, no part in the shard, not in `avoid`,
/// and with room for a learner. Nothing if there is none.
[[nodiscard]] std::optional<Replica> choose_learner(const ViewContext& context, const ReplicaLoads& loads,
                                                    const ShardAssignment& record, const std::set<std::string>& avoid);

/// The replica for this node, on its least loaded worker.
[[nodiscard]] Replica replica_on(const NodeInfo& node, const ReplicaLoads& loads);

/// The member that should lead: alive, with its data and not doubtful, not in `except`; better if it says that it can replicate, was heard
/// of just now, is to stay, and leads few shards for its size. Nothing if there is none.
[[nodiscard]] std::optional<std::string> choose_primary(const ViewContext& context, const ReplicaLoads& loads,
                                                        const ShardAssignment& record,
                                                        const std::set<std::string>& except);

/// First records for all shards of a new table. The table must want no more replicas than there are
/// nodes that are alive, not draining and able to replicate. Cost: shards x replicas x nodes.
[[nodiscard]] std::vector<ShardAssignment> place_table(const ViewContext& context, const Table& table);

}  // namespace skua::control

#endif  // SKUA_CONTROL_CORE_REPLICA_PLACEMENT_H_
