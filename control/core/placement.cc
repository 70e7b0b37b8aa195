#include "control/core/placement.h"

#include <algorithm>
#include <optional>
#include <utility>

#include "control/core/view_rules.h"
#include "rpc/base/check.h"

namespace skua::control {

Placer::Placer(const std::vector<PlacementNode>& candidates, const std::map<ShardKey, ShardRecord>& existing,
               TableId table) {
  std::vector<PlacementNode> sorted = candidates;
  std::sort(sorted.begin(), sorted.end(),
            [](const PlacementNode& a, const PlacementNode& b) { return a.uuid < b.uuid; });
  node_loads_.resize(sorted.size());
  std::map<std::pair<std::string, uint32_t>, size_t> slot_of;
  for (size_t node = 0; node < sorted.size(); ++node) {
    uuids_.push_back(sorted[node].uuid);
    for (uint32_t worker = 0; worker < sorted[node].worker_count; ++worker) {
      slot_of[{sorted[node].uuid, worker}] = slots_.size();
      slots_.push_back({node, worker, {}});
    }
  }
  for (const auto& [key, assignment] : existing) {
    if (!assignment.primary) continue;
    const auto found = slot_of.find({assignment.primary->node_uuid, assignment.primary->worker});
    if (found != slot_of.end()) add(slots_[found->second], key.first == table);
  }
}

Replica Placer::place() {
  SKUA_CHECK(!slots_.empty(), "ask has_candidates() before placing a shard");
  // Slots are sorted by (node uuid, worker). So the first of several equal slots is also the least in the tuple's last
  // two parts.
  const auto rank = [&](const Slot& slot) { return std::pair<Load, Load>(slot.load, node_loads_[slot.node]); };
  Slot& best =
      *std::min_element(slots_.begin(), slots_.end(), [&](const Slot& a, const Slot& b) { return rank(a) < rank(b); });
  add(best, true);
  return {uuids_[best.node], best.worker};
}

void Placer::add(Slot& slot, bool of_table) {
  for (Load* load : {&slot.load, &node_loads_[slot.node]}) {
    load->of_table += of_table ? 1 : 0;
    load->total += 1;
  }
}

std::vector<ShardRecord> moved_off_missing_workers(const NodeInfo& node, const ClusterState& state) {
  std::vector<ShardRecord> moved;
  std::optional<Placer> placer;
  std::optional<TableId> placer_table;
  for (const auto& [key, shard] : state.shards) {
    const Replica* member = find_member(shard, node.uuid);
    const Learner* learner = find_learner(shard, node.uuid);
    const Replica* replica = member != nullptr ? member : learner != nullptr ? &learner->replica : nullptr;
    if (replica == nullptr || replica->worker < node.worker_count) continue;
    if (placer_table != key.first) {
      placer_table = key.first;
      placer.emplace(std::vector<PlacementNode>{{node.uuid, node.worker_count}}, state.shards, key.first);
    }
    moved.push_back(with_worker(shard, node.uuid, placer->place().worker));
  }
  return moved;
}

}  // namespace skua::control
