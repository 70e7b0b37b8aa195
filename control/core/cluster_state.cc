#include "control/core/cluster_state.h"

#include <algorithm>

namespace skua::control {

const Table* ClusterState::find_table(std::string_view name) const {
  for (const auto& [id, table] : tables) {
    if (table.name == name) return &table;
  }
  return nullptr;
}

std::map<std::string, ShardCounts> ClusterState::shard_counts() const {
  std::map<std::string, ShardCounts> counts;
  for (const auto& [key, shard] : shards) {
    if (shard.primary) {
      ShardCounts& primary = counts[shard.primary->node_uuid];
      ++primary.owned;
      ++primary.replicas;
      const auto table = tables.find(key.first);
      if (table != tables.end() && table->second.replicas == 1) ++primary.staying;
    }
    for (const Replica& backup : shard.backups) ++counts[backup.node_uuid].replicas;
    for (const Learner& learner : shard.learners) ++counts[learner.replica.node_uuid].replicas;
  }
  return counts;
}

size_t ClusterState::owned_shard_count(const std::string& uuid) const {
  return static_cast<size_t>(std::count_if(shards.begin(), shards.end(), [&](const auto& entry) {
    return entry.second.primary.has_value() && entry.second.primary->node_uuid == uuid;
  }));
}

size_t ClusterState::staying_shard_count(const std::string& uuid) const {
  return static_cast<size_t>(std::count_if(shards.begin(), shards.end(), [&](const auto& entry) {
    const std::optional<Replica>& primary = entry.second.primary;
    if (!primary || primary->node_uuid != uuid) return false;
    const auto table = tables.find(entry.first.first);
    return table != tables.end() && table->second.replicas == 1;
  }));
}

size_t ClusterState::replica_count(const std::string& uuid) const {
  const auto here = [&](const Replica& replica) { return replica.node_uuid == uuid; };
  return static_cast<size_t>(std::count_if(shards.begin(), shards.end(), [&](const auto& entry) {
    const ShardRecord& shard = entry.second;
    return (shard.primary && here(*shard.primary)) || std::any_of(shard.backups.begin(), shard.backups.end(), here) ||
           std::any_of(shard.learners.begin(), shard.learners.end(), [&](const Learner& l) { return here(l.replica); });
  }));
}

void apply(const Changes& changes, ClusterState& state) {
  if (changes.empty()) return;
  for (const NodeInfo& node : changes.put_nodes) state.nodes[node.uuid] = node;
  for (const std::string& uuid : changes.delete_nodes) state.nodes.erase(uuid);
  for (const Table& table : changes.put_tables) state.tables[table.id] = table;
  for (const TableId id : changes.delete_tables) {
    state.tables.erase(id);
    state.grants.erase(id);
    state.shards.erase(state.shards.lower_bound({id, 0}), state.shards.lower_bound({id + 1, 0}));
  }
  for (const ShardRecord& shard : changes.put_shards) {
    state.shards[{shard.table_id, shard.shard}] = shard;
  }
  if (changes.put_denied) state.denied = *changes.put_denied;
  for (const auto& [id, grants] : changes.put_grants) {
    if (grants.empty()) {
      state.grants.erase(id);
    } else {
      state.grants[id] = grants;
    }
  }
  if (changes.put_quotas) state.quotas = *changes.put_quotas;
  if (changes.put_join_tokens) state.join_tokens = *changes.put_join_tokens;
  state.map_revision = changes.map_revision;
  state.next_table_id = changes.next_table_id;
}

}  // namespace skua::control
