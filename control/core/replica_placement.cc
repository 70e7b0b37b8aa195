#include "control/core/replica_placement.h"

#include <algorithm>
#include <tuple>
#include <utility>

#include "rpc/base/check.h"

namespace skua::control {
namespace {

struct Candidate {
  const NodeInfo* node;
  size_t conflicts;
  size_t of_table;
  size_t load;
};

bool better(const Candidate& a, const Candidate& b) {
  if (a.conflicts != b.conflicts) return a.conflicts < b.conflicts;
  const uint32_t a_workers = a.node->worker_count;
  const uint32_t b_workers = b.node->worker_count;
  if (lighter(a.of_table, a_workers, b.of_table, b_workers)) return true;
  if (lighter(b.of_table, b_workers, a.of_table, a_workers)) return false;
  if (lighter(a.load, a_workers, b.load, b_workers)) return true;
  if (lighter(b.load, b_workers, a.load, a_workers)) return false;
  return a.node->uuid < b.node->uuid;
}

/// The best node that may hold another replica of the shard and for which `allowed` returns true; or null.
template <typename Allowed>
const NodeInfo* best_node(const ViewContext& context, const ReplicaLoads& loads, const ReplicaLoads* of_table,
                          const ShardRecord& record, const Allowed& allowed) {
  std::optional<Candidate> best;
  for (const auto& [uuid, node] : context.state.nodes) {
    if (!context.alive(uuid) || node.draining || !node.replicates()) continue;
    if (find_member(record, uuid) != nullptr || find_learner(record, uuid) != nullptr || !allowed(uuid)) continue;
    const Candidate candidate{&node, zone_conflicts(context, record, node.zone),
                              of_table == nullptr ? 0 : of_table->of(uuid).replicas, loads.of(uuid).replicas};
    if (!best || better(candidate, *best)) best = candidate;
  }
  return best ? best->node : nullptr;
}

}  // namespace

ReplicaLoads::ReplicaLoads(const ClusterState& state) {
  for (const auto& [key, record] : state.shards) count(record, true);
}

void ReplicaLoads::replace(const ShardRecord& before, const ShardRecord& after) {
  count(before, false);
  count(after, true);
}

const NodeLoad& ReplicaLoads::of(const std::string& uuid) const {
  static const NodeLoad kNothing;
  const auto found = nodes_.find(uuid);
  return found == nodes_.end() ? kNothing : found->second;
}

void ReplicaLoads::count(const ShardRecord& record, bool up) {
  const auto move = [up](size_t& value) { value += up ? size_t{1} : ~size_t{0}; };
  const auto hold = [&](const Replica& replica) -> NodeLoad& {
    NodeLoad& load = nodes_[replica.node_uuid];
    if (is_leaving(record, replica.node_uuid)) return load;
    move(load.replicas);
    move(load.workers[replica.worker]);
    return load;
  };
  if (record.primary) move(hold(*record.primary).primaries);
  for (const Replica& backup : record.backups) hold(backup);
  for (const Learner& learner : record.learners) {
    move(hold(learner.replica).learners);
    move(learners_);
  }
}

bool lighter(size_t a, uint32_t a_workers, size_t b, uint32_t b_workers) {
  return a * std::max(b_workers, 1u) < b * std::max(a_workers, 1u);
}

size_t zone_conflicts(const ViewContext& context, const ShardRecord& record, const std::string& zone,
                      const std::string& except) {
  size_t conflicts = 0;
  const auto look = [&](const std::string& uuid) {
    const NodeInfo* node = context.node(uuid);
    if (uuid != except && node != nullptr && node->zone == zone) ++conflicts;
  };
  for (const Replica& member : members_of(record)) {
    if (!context.unwanted(record, member.node_uuid)) look(member.node_uuid);
  }
  for (const Learner& learner : record.learners) look(learner.replica.node_uuid);
  return conflicts;
}

Replica replica_on(const NodeInfo& node, const ReplicaLoads& loads) {
  const std::map<uint32_t, size_t>& workers = loads.of(node.uuid).workers;
  Replica replica{node.uuid, 0, node.storage_incarnation};
  size_t least = ~size_t{0};
  for (uint32_t worker = 0; worker < node.worker_count; ++worker) {
    const auto found = workers.find(worker);
    const size_t load = found == workers.end() ? 0 : found->second;
    if (load >= least) continue;
    least = load;
    replica.worker = worker;
  }
  return replica;
}

std::optional<Replica> choose_learner(const ViewContext& context, const ReplicaLoads& loads, const ShardRecord& record,
                                      const std::set<std::string>& avoid) {
  if (loads.learners() >= context.options.learners_max) return std::nullopt;
  const NodeInfo* node = best_node(context, loads, nullptr, record, [&](const std::string& uuid) {
    return context.heard(uuid) && !avoid.contains(uuid) &&
           loads.of(uuid).learners < context.options.learners_per_node_max;
  });
  if (node == nullptr) return std::nullopt;
  return replica_on(*node, loads);
}

std::optional<std::string> choose_primary(const ViewContext& context, const ReplicaLoads& loads,
                                          const ShardRecord& record, const std::set<std::string>& except) {
  const NodeInfo* best = nullptr;
  const auto rank = [&](const std::string& uuid) {
    return std::tuple(!context.replicates(uuid), !context.heard(uuid), context.yielding(uuid),
                      context.unwanted(record, uuid));
  };
  for (const Replica& member : members_of(record)) {
    const std::string& uuid = member.node_uuid;
    if (except.contains(uuid) || !context.valid(member) || !context.serves(record, uuid)) continue;
    if (context.doubtful(record, uuid)) continue;
    const NodeInfo* node = context.node(uuid);
    if (best != nullptr) {
      if (rank(best->uuid) < rank(uuid)) continue;
      if (rank(best->uuid) == rank(uuid)) {
        const size_t load = loads.of(uuid).primaries;
        const size_t best_load = loads.of(best->uuid).primaries;
        if (lighter(best_load, best->worker_count, load, node->worker_count)) continue;
        const bool equal = !lighter(load, node->worker_count, best_load, best->worker_count);
        if (equal && best->uuid < uuid) continue;
      }
    }
    best = node;
  }
  if (best == nullptr) return std::nullopt;
  return best->uuid;
}

std::vector<ShardRecord> place_table(const ViewContext& context, const Table& table) {
  ReplicaLoads loads(context.state);
  ReplicaLoads of_table{ClusterState{}};
  std::vector<ShardRecord> records;
  for (uint32_t shard = 0; shard < table.shard_count; ++shard) {
    ShardRecord record{table.id, shard, 1, std::nullopt};
    record.change = 1;
    for (uint32_t i = 0; i < table.replicas; ++i) {
      const NodeInfo* node = best_node(context, loads, &of_table, record, [](const std::string&) { return true; });
      SKUA_CHECK(node != nullptr, "check that there are enough nodes before placing a table");
      record.backups.push_back(replica_on(*node, loads));
    }
    // The replica leads whose node leads the fewest of the table's shards per worker, then the fewest of all shards.
    const auto leads = [&](const Replica& replica) {
      const uint64_t workers = std::max(context.node(replica.node_uuid)->worker_count, 1u);
      const auto scaled = [&](size_t n) { return n * 1000 / workers; };
      return std::tuple(scaled(of_table.of(replica.node_uuid).primaries), scaled(loads.of(replica.node_uuid).primaries),
                        replica.node_uuid);
    };
    const auto leader = std::min_element(record.backups.begin(), record.backups.end(),
                                         [&](const Replica& a, const Replica& b) { return leads(a) < leads(b); });
    record.primary = *leader;
    record.backups.erase(leader);
    record.primary_incarnation = context.node(record.primary->node_uuid)->incarnation;
    loads.add(record);
    of_table.add(record);
    records.push_back(std::move(record));
  }
  return records;
}

}  // namespace skua::control
