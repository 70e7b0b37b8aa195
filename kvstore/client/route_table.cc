#include "kvstore/client/route_table.h"

#include <algorithm>

#include "absl/strings/str_cat.h"

namespace skua::kv {

std::string Target::describe() const {
  return absl::StrCat("node ", node_uuid, " worker ", worker, " (", grpc_address, ")");
}

TargetId RouteTable::target_of(const control::MapNode& node, uint32_t worker) {
  const auto [found, added] =
      by_worker_.try_emplace(std::make_pair(node.uuid, worker), static_cast<TargetId>(targets_.size()));
  if (added) {
    targets_.push_back({.node_uuid = node.uuid,
                        .worker = worker,
                        .present = true,
                        .incarnation = node.incarnation,
                        .grpc_address = node.grpc_address});
  }
  return found->second;
}

std::vector<TargetId> RouteTable::update(const control::ShardMap& map) {
  std::vector<TargetId> dead;
  if (map.revision <= revision_) return dead;
  revision_ = map.revision;
  cluster_id_ = map.cluster_id;

  for (TargetId id = 0; id < targets_.size(); ++id) {
    Target& target = targets_[id];
    const control::MapNode* node = map.find_node(target.node_uuid);
    if (node != nullptr && map.is_denied(*node)) node = nullptr;
    const bool was_present = std::exchange(target.present, node != nullptr);
    const bool same_life =
        node != nullptr && node->incarnation == target.incarnation && node->grpc_address == target.grpc_address;
    if (was_present && !same_life) dead.push_back(id);
    if (node == nullptr) continue;
    target.incarnation = node->incarnation;
    target.grpc_address = node->grpc_address;
  }

  tables_.clear();
  last_ = nullptr;
  std::vector<bool> denied;
  denied.reserve(map.nodes.size());
  for (const control::MapNode& node : map.nodes) denied.push_back(map.is_denied(node));
  for (const control::MapTable& table : map.tables) {
    TableRoutes& routes = tables_.emplace_back();
    routes.id = static_cast<uint32_t>(table.id);
    routes.name = table.name;
    routes.hash_tags = table.hash_tags;
    routes.shards.reserve(table.shards.size());
    for (const control::MapShard& shard : table.shards) {
      ShardRoute route{.epoch = shard.epoch};
      if (shard.primary.has_value() && !denied[shard.primary->node]) {
        route.target = target_of(map.nodes[shard.primary->node], shard.primary->worker);
      }
      route.first_backup = static_cast<uint32_t>(routes.backups.size());
      if (table.read_anywhere) {
        for (const control::MapReplica& backup : shard.backups) {
          if (!denied[backup.node]) routes.backups.push_back(target_of(map.nodes[backup.node], backup.worker));
        }
        route.backup_count = static_cast<uint32_t>(routes.backups.size()) - route.first_backup;
      }
      routes.shards.push_back(route);
    }
  }
  std::ranges::sort(tables_, {}, &TableRoutes::name);
  return dead;
}

const TableRoutes* RouteTable::find_table(std::string_view name) {
  if (last_ != nullptr && last_->name == name) return last_;
  const auto found = std::ranges::lower_bound(tables_, name, {}, &TableRoutes::name);
  if (found == tables_.end() || found->name != name) return nullptr;
  last_ = &*found;
  return last_;
}

std::vector<std::string> RouteTable::table_names() const {
  std::vector<std::string> names;
  names.reserve(tables_.size());
  for (const TableRoutes& table : tables_) names.push_back(table.name);
  return names;
}

}  // namespace skua::kv
