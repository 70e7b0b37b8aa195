#include "control/core/rebalance.h"

#include <algorithm>
#include <optional>

#include "control/core/view_manager.h"

namespace skua::control {
namespace {

/// Whether one unit less on `from` and one more on `to` lowers the sum.
bool gains(size_t from_load, const NodeInfo& from, size_t to_load, const NodeInfo& to) {
  if (from_load == 0) return false;
  return lighter(2 * to_load + 1, to.worker_count, 2 * from_load - 1, from.worker_count);
}

bool may_take(const ViewContext& context, const ReplicaLoads& loads, const NodeInfo& node) {
  return context.heard(node.uuid) && !node.draining && node.replicates() &&
         loads.of(node.uuid).learners < context.options.learners_per_node_max;
}

/// The lightest node that may take a learner, or null.
const NodeInfo* lightest_node(const ViewContext& context, const ReplicaLoads& loads) {
  const NodeInfo* lightest = nullptr;
  for (const auto& [uuid, node] : context.state.nodes) {
    if (!may_take(context, loads, node)) continue;
    if (lightest == nullptr || lighter(loads.of(uuid).replicas, node.worker_count, loads.of(lightest->uuid).replicas,
                                       lightest->worker_count)) {
      lightest = &node;
    }
  }
  return lightest;
}

/// The best node to move the replica on `from` to, or null.
const NodeInfo* better_place(const ViewContext& context, const ReplicaLoads& loads, const ShardRecord& record,
                             const NodeInfo& from, const NodeInfo& lightest) {
  const size_t from_load = loads.of(from.uuid).replicas;
  const size_t conflicts = zone_conflicts(context, record, from.zone, from.uuid);
  if (conflicts == 0 && !gains(from_load, from, loads.of(lightest.uuid).replicas, lightest)) return nullptr;
  const NodeInfo* best = nullptr;
  size_t best_conflicts = 0;
  for (const auto& [uuid, node] : context.state.nodes) {
    if (!may_take(context, loads, node) || find_member(record, uuid) != nullptr) continue;
    const size_t there = zone_conflicts(context, record, node.zone, from.uuid);
    const size_t load = loads.of(uuid).replicas;
    if (there > conflicts || (there == conflicts && !gains(from_load, from, load, node))) continue;
    const bool better = best == nullptr || there < best_conflicts ||
                        (there == best_conflicts &&
                         lighter(load, node.worker_count, loads.of(best->uuid).replicas, best->worker_count));
    if (!better) continue;
    best = &node;
    best_conflicts = there;
  }
  return best;
}

std::optional<ShardRecord> better_replicas(const ViewContext& context, const ReplicaLoads& loads,
                                           const ShardRecord& record, const NodeInfo& lightest) {
  // Backups first: moving the primary's replica also changes the primary.
  std::vector<Replica> members = record.backups;
  members.push_back(*record.primary);
  for (const Replica& member : members) {
    const NodeInfo& from = *context.node(member.node_uuid);
    if (const NodeInfo* to = better_place(context, loads, record, from, lightest)) {
      return with_move(record, from.uuid, replica_on(*to, loads));
    }
  }
  return std::nullopt;
}

std::optional<ShardRecord> better_primary(const ViewContext& context, const ReplicaLoads& loads,
                                          const ShardRecord& record) {
  const NodeInfo& from = *context.node(record.primary->node_uuid);
  const auto next = choose_primary(context, loads, record, {from.uuid});
  if (!next || !context.heard(*next) || context.yielding(*next)) return std::nullopt;
  const NodeInfo& to = *context.node(*next);
  if (!gains(loads.of(from.uuid).primaries, from, loads.of(to.uuid).primaries, to)) return std::nullopt;
  return next_view(record, to.uuid, context.leader_incarnation(record, to.uuid, member_count(record)), {});
}

bool may_move(const ViewContext& context, const ShardRecord& record) {
  return context.replicated(record) && is_settled(context, record);
}

}  // namespace

std::vector<ShardRecord> rebalance_replicas(const ViewContext& context, ReplicaLoads& loads, size_t max) {
  std::vector<ShardRecord> records;
  for (const auto& [key, record] : context.state.shards) {
    if (records.size() >= max || loads.learners() >= context.options.learners_max) break;
    if (!may_move(context, record)) continue;
    const NodeInfo* lightest = lightest_node(context, loads);
    if (lightest == nullptr) break;
    auto next = better_replicas(context, loads, record, *lightest);
    if (!next) continue;
    loads.replace(record, *next);
    records.push_back(*std::move(next));
  }
  return records;
}

std::vector<ShardRecord> rebalance_primaries(const ViewContext& context, ReplicaLoads& loads,
                                             const ViewHistory& history, size_t max) {
  std::vector<ShardRecord> records;
  for (const auto& [key, record] : context.state.shards) {
    if (records.size() >= max) break;
    if (!may_move(context, record) || !history.primary_is_stable(context, key)) continue;
    auto next = better_primary(context, loads, record);
    if (!next) continue;
    loads.replace(record, *next);
    records.push_back(*std::move(next));
  }
  return records;
}

}  // namespace skua::control
