// Chooses the worker for each shard of an unreplicated table: deterministic and greedy.
//
// Each shard goes to the worker for which this tuple is least:
//
//   ( its shards of this table,        its shards in all,
//     its node's shards of this table, its node's shards in all,
//     node uuid, worker index )
//
// The first two parts spread the shards of a table, and then all shards, evenly over all workers. So a node with twice
// the workers carries twice the shards. The next two parts matter for a table with fewer shards than there are workers:
// it uses one worker of many nodes, not many workers of one node. The last two parts make the order total, so the same
// state gives the same placement on every machine. Cost: shards x workers comparisons (4,096 x 1,024 take some ten
// milliseconds).
#ifndef SKUA_CONTROL_CORE_PLACEMENT_H_
#define SKUA_CONTROL_CORE_PLACEMENT_H_

#include <compare>
#include <cstddef>
#include <cstdint>
#include <map>
#include <string>
#include <vector>

#include "control/core/cluster_state.h"

namespace skua::control {

/// A node that may take shards.
struct PlacementNode {
  std::string uuid;
  uint32_t worker_count = 0;
};

/// Chooses owners for the shards of one table, one by one, and counts its earlier choices.
class Placer {
 public:
  /// The shards in `existing` count towards the load, except shards on nodes that are not candidates.
  Placer(const std::vector<PlacementNode>& candidates, const std::map<ShardKey, ShardRecord>& existing, TableId table);

  /// The owner for one more shard of the table. Only if has_candidates() (checked).
  Replica place();

  [[nodiscard]] bool has_candidates() const { return !slots_.empty(); }
  /// Workers of all candidates together.
  [[nodiscard]] uint32_t worker_count() const { return static_cast<uint32_t>(slots_.size()); }

 private:
  /// Shards held, by a worker or by all workers of a node.
  struct Load {
    size_t of_table = 0;
    size_t total = 0;

    friend auto operator<=>(const Load&, const Load&) = default;
  };
  struct Slot {
    size_t node;
    uint32_t worker;
    Load load;
  };

  void add(Slot& slot, bool of_table);

  std::vector<std::string> uuids_;
  std::vector<Load> node_loads_;
  std::vector<Slot> slots_;
};

/// The records of the node's shards that are on workers beyond its worker_count, on other workers of it. A shard's data
/// belongs to the node, not to a worker: any worker can open it.
[[nodiscard]] std::vector<ShardRecord> moved_off_missing_workers(const NodeInfo& node, const ClusterState& state);

}  // namespace skua::control

#endif  // SKUA_CONTROL_CORE_PLACEMENT_H_
