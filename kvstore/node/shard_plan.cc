#include "kvstore/node/shard_plan.h"

#include <algorithm>
#include <limits>
#include <utility>

#include "kvstore/peers/peer_identity.h"

namespace skua::kv {
namespace {

ReplicaId replica_id(const control::ShardMap& map, const control::MapReplica& replica) {
  return {node_id_of(map.nodes[replica.node].uuid), replica.storage_incarnation};
}

View view_of(const control::ShardMap& map, const control::MapTable& table, const control::MapShard& entry) {
  View view;
  view.epoch = entry.epoch;
  view.change = entry.change;
  view.fork = entry.fork;
  view.min_insync = table.min_insync;
  view.read_anywhere = table.read_anywhere;
  if (entry.primary) {
    view.primary = replica_id(map, *entry.primary).node;
    view.members.push_back(replica_id(map, *entry.primary));
  }
  for (const control::MapReplica& backup : entry.backups) view.members.push_back(replica_id(map, backup));
  for (const control::MapLearner& learner : entry.learners) {
    view.learners.push_back({replica_id(map, learner.replica), learner.join});
  }
  std::ranges::sort(view.members, {}, &ReplicaId::node);
  std::ranges::sort(view.learners, {}, [](const Learner& learner) { return learner.id.node; });
  return view;
}

ReplicaPlaces places_of(const control::ShardMap& map, const control::MapShard& entry) {
  ReplicaPlaces places;
  const auto enter = [&](const control::MapReplica& replica) {
    places[node_id_of(map.nodes[replica.node].uuid)] = {replica.worker, replica.storage_incarnation};
  };
  if (entry.primary) enter(*entry.primary);
  for (const control::MapReplica& backup : entry.backups) enter(backup);
  for (const control::MapLearner& learner : entry.learners) enter(learner.replica);
  return places;
}

}  // namespace

std::vector<WantedShard> wanted_shards(const control::ShardMap& map, const std::string& node_uuid) {
  std::vector<WantedShard> wanted;
  for (const control::MapTable& table : map.tables) {
    if (table.id > std::numeric_limits<uint32_t>::max()) continue;
    for (uint32_t shard = 0; shard < table.shard_count(); ++shard) {
      const control::MapShard& entry = table.shards[shard];
      const ShardId id{static_cast<uint32_t>(table.id), shard};
      if (table.replicas > 1) {
        ReplicaPlaces places = places_of(map, entry);
        const auto here = places.find(node_id_of(node_uuid));
        if (here == places.end()) continue;
        const uint32_t worker = here->second.worker;
        wanted.push_back({id, entry.epoch, worker, view_of(map, table, entry), std::move(places)});
        continue;
      }
      if (!entry.primary || map.nodes[entry.primary->node].uuid != node_uuid) continue;
      wanted.push_back({id, entry.epoch, entry.primary->worker, std::nullopt, {}});
    }
  }
  return wanted;
}

std::vector<ShardId> dropped_shards(const control::ShardMap& map, const DropEvidence& evidence,
                                    std::span<const ShardId> known) {
  const bool conclusive = map.revision != 0 && map.revision >= evidence.map_revision && !evidence.cluster_id.empty() &&
                          map.cluster_id == evidence.cluster_id && map.find_node(evidence.node_uuid) != nullptr;
  std::vector<ShardId> dropped;
  if (!conclusive) return dropped;
  std::copy_if(known.begin(), known.end(), std::back_inserter(dropped),
               [&](ShardId id) { return map.find_table(control::TableId{id.table_id}) == nullptr; });
  return dropped;
}

bool must_learn_again(const ShardViews& views, const std::map<ShardId, absl::Status>& damaged, ReplicaId self) {
  bool lacks_some = false;
  for (const auto& [id, view] : views) {
    if (damaged.contains(id)) {
      lacks_some = lacks_some || view.mentions(self);
    } else if (view.members.size() == 1 && view.is_member(self)) {
      return false;
    }
  }
  return lacks_some;
}

bool has_database(const View& persisted, ReplicaId self) {
  return persisted == kMadeUnreplicated || persisted.is_member(self);
}

std::set<ShardId> made_databases(const ShardViews& views, ReplicaId self) {
  std::set<ShardId> made;
  for (const auto& [id, view] : views) {
    if (has_database(view, self)) made.insert(id);
  }
  return made;
}

}  // namespace skua::kv
