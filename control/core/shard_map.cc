#include "control/core/shard_map.h"

#include <algorithm>

#include "control/core/cluster_limits.h"
#include "control/core/revocation.h"

namespace skua::control {
namespace {

std::optional<MapReplica> to_map(const ShardMap& map, const Replica& replica) {
  const MapNode* node = map.find_node(replica.node_uuid);
  if (node == nullptr) return std::nullopt;
  return MapReplica{static_cast<uint32_t>(node - map.nodes.data()), replica.worker, replica.storage_incarnation};
}

MapShard to_map(const ShardMap& map, const ShardRecord& shard) {
  MapShard result{.epoch = shard.epoch, .primary = std::nullopt, .backups = {}};
  result.change = shard.change;
  result.fork = shard.fork;
  result.primary_incarnation = shard.primary_incarnation;
  if (shard.primary) result.primary = to_map(map, *shard.primary);
  for (const Replica& backup : shard.backups) {
    if (auto replica = to_map(map, backup)) result.backups.push_back(*replica);
  }
  for (const Learner& learner : shard.learners) {
    if (auto replica = to_map(map, learner.replica)) result.learners.push_back({*replica, learner.join});
  }
  return result;
}

/// Principals are sorted, none is there twice, and no text or bit is beyond what grants.h allows.
bool are_grants(const std::vector<MapGrant>& grants) {
  for (size_t i = 0; i < grants.size(); ++i) {
    if (i > 0 && grants[i - 1].principal >= grants[i].principal) return false;
    if (grants[i].principal.size() > kPrincipalMax || grants[i].rights > kRightsAll) return false;
  }
  return true;
}

/// Principals are sorted, none is there twice, and no text or limit is beyond what quotas.h allows. A quota whose
/// limits are all of a later version limits nothing here.
bool are_quotas(const std::vector<MapQuota>& quotas) {
  if (quotas.size() > kQuotasMax) return false;
  for (size_t i = 0; i < quotas.size(); ++i) {
    if (i > 0 && quotas[i - 1].principal >= quotas[i].principal) return false;
    const auto& [principal, quota] = quotas[i];
    if (principal.size() > kPrincipalMax) return false;
    if (quota.operations_per_s > kQuotaOperationsMax || quota.bytes_per_s > kQuotaBytesMax) return false;
    if (quota.sessions > kQuotaSessionsMax || quota.client_ids > kQuotaClientIdsMax) return false;
  }
  return true;
}

}  // namespace

const MapTable* ShardMap::find_table(std::string_view name) const {
  const auto found = std::find_if(tables.begin(), tables.end(), [&](const MapTable& t) { return t.name == name; });
  return found == tables.end() ? nullptr : &*found;
}

const MapTable* ShardMap::find_table(TableId id) const {
  const auto found =
      std::lower_bound(tables.begin(), tables.end(), id, [](const MapTable& t, TableId value) { return t.id < value; });
  return found == tables.end() || found->id != id ? nullptr : &*found;
}

const MapNode* ShardMap::find_node(std::string_view uuid) const {
  const auto found = std::lower_bound(nodes.begin(), nodes.end(), uuid,
                                      [](const MapNode& n, std::string_view value) { return n.uuid < value; });
  return found == nodes.end() || found->uuid != uuid ? nullptr : &*found;
}

bool ShardMap::is_denied(const MapNode& node) const {
  return !denied.empty() && std::binary_search(denied.begin(), denied.end(), node_principal(node.uuid));
}

std::optional<ShardOwner> ShardMap::owner(TableId table, uint32_t shard) const {
  const MapTable* found = find_table(table);
  if (found == nullptr || shard >= found->shard_count()) return std::nullopt;
  const MapShard& entry = found->shards[shard];
  if (!entry.primary) return std::nullopt;
  return ShardOwner{&nodes[entry.primary->node], entry.primary->worker, entry.epoch, revision};
}

bool ShardMap::valid() const {
  if (denied.size() > kDeniedMax || !std::is_sorted(denied.begin(), denied.end())) return false;
  if (!are_quotas(quotas)) return false;
  const auto known = [&](const MapReplica& replica) {
    return replica.node < nodes.size() && replica.worker < nodes[replica.node].worker_count;
  };
  for (size_t i = 0; i < nodes.size(); ++i) {
    if (i > 0 && nodes[i - 1].uuid >= nodes[i].uuid) return false;
  }
  size_t grants_total = 0;
  for (size_t i = 0; i < tables.size(); ++i) {
    if (i > 0 && tables[i - 1].id >= tables[i].id) return false;
    if (tables[i].shards.empty()) return false;
    grants_total += tables[i].grants.size();
    if (grants_total > kGrantsMax || !are_grants(tables[i].grants)) return false;
    for (const MapShard& shard : tables[i].shards) {
      // No node has two parts in a shard.
      std::vector<uint32_t> parts;
      const auto good = [&](const MapReplica& replica) {
        const bool twice = std::find(parts.begin(), parts.end(), replica.node) != parts.end();
        parts.push_back(replica.node);
        return known(replica) && !twice;
      };
      if (shard.primary && !good(*shard.primary)) return false;
      if (!std::all_of(shard.backups.begin(), shard.backups.end(), good)) return false;
      if (!std::all_of(shard.learners.begin(), shard.learners.end(),
                       [&](const MapLearner& learner) { return good(learner.replica); })) {
        return false;
      }
    }
  }
  return true;
}

ShardMap build_shard_map(const ClusterState& state) {
  ShardMap map;
  map.cluster_id = state.cluster_id;
  map.cluster_name = state.cluster_name;
  map.revision = state.map_revision;
  map.denied = {state.denied.begin(), state.denied.end()};
  for (const auto& [principal, quota] : state.quotas) map.quotas.push_back({principal, quota});
  for (const auto& [uuid, node] : state.nodes) {
    map.nodes.push_back({uuid, node.incarnation, node.grpc_address, node.worker_count, node.zone,
                         node.storage_incarnation, node.replication_version});
  }
  for (const auto& [id, table] : state.tables) {
    map.tables.push_back({id, table.name, std::vector<MapShard>(table.shard_count), table.replicas, table.min_insync,
                          table.read_anywhere, table.hash_tags});
    if (const auto grants = state.grants.find(id); grants != state.grants.end()) {
      for (const auto& [principal, rights] : grants->second) map.tables.back().grants.push_back({principal, rights});
    }
    for (uint32_t shard = 0; shard < table.shard_count; ++shard) {
      const auto found = state.shards.find({id, shard});
      if (found != state.shards.end()) map.tables.back().shards[shard] = to_map(map, found->second);
    }
  }
  return map;
}

}  // namespace skua::control
