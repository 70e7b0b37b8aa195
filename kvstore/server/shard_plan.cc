#include "kvstore/server/shard_plan.h"

#include <algorithm>
#include <limits>

namespace skua::kv {

std::vector<WantedShard> wanted_shards(const control::ShardMap& map, const std::string& node_uuid) {
  std::vector<WantedShard> wanted;
  for (const control::MapTable& table : map.tables) {
    if (table.id > std::numeric_limits<uint32_t>::max()) continue;
    for (uint32_t shard = 0; shard < table.shard_count(); ++shard) {
      const control::MapShard& entry = table.shards[shard];
      if (!entry.primary || map.nodes[entry.primary->node].uuid != node_uuid) continue;
      wanted.push_back({{static_cast<uint32_t>(table.id), shard}, entry.epoch, entry.primary->worker});
    }
  }
  return wanted;
}

std::vector<ShardId> dropped_shards(const control::ShardMap& map, const DropEvidence& evidence,
                                    std::span<const ShardId> on_disk) {
  const bool conclusive = map.revision != 0 && map.revision >= evidence.map_revision && !evidence.cluster_id.empty() &&
                          map.cluster_id == evidence.cluster_id && map.find_node(evidence.node_uuid) != nullptr;
  std::vector<ShardId> dropped;
  if (!conclusive) return dropped;
  std::copy_if(on_disk.begin(), on_disk.end(), std::back_inserter(dropped),
               [&](ShardId id) { return map.find_table(control::TableId{id.table_id}) == nullptr; });
  return dropped;
}

}  // namespace skua::kv
