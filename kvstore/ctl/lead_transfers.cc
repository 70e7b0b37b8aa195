#include "kvstore/ctl/lead_transfers.h"

#include <algorithm>
#include <map>
#include <utility>

#include "kvstore/ctl/cluster_view.h"

namespace skua::kv::ctl {
namespace {

bool could_lead(const ReplicaView& replica) {
  return replica.role == ReplicaView::Role::kBackup && replica.liveness == control::Liveness::kAlive &&
         !replica.draining && !replica.lost_storage && !replica.unserved;
}

}  // namespace

LeadTransfers lead_transfers_from(const control::ClusterStatus& status, const control::ShardMap& map,
                                  const std::string& uuid) {
  std::map<std::string, size_t> led_by;
  std::vector<std::pair<std::string, ShardView>> own;
  for (const control::MapTable& table : map.tables) {
    for (uint32_t shard = 0; shard < table.shard_count(); ++shard) {
      ShardView view = view_of(status, map, table, shard);
      if (view.replicas.empty() || view.replicas[0].role != ReplicaView::Role::kPrimary) continue;
      ++led_by[view.replicas[0].uuid];
      if (view.replicas[0].uuid == uuid) own.emplace_back(table.name, std::move(view));
    }
  }
  LeadTransfers out;
  for (const auto& [table, view] : own) {
    const ReplicaView* chosen = nullptr;
    for (const ReplicaView& replica : view.replicas) {
      if (!could_lead(replica)) continue;
      if (chosen == nullptr || led_by[replica.uuid] < led_by[chosen->uuid]) chosen = &replica;
    }
    if (chosen == nullptr) {
      ++out.staying_count;
      continue;
    }
    ++led_by[chosen->uuid];
    out.transfers.push_back({.table = table, .shard = view.shard, .to_uuid = chosen->uuid});
  }
  return out;
}

}  // namespace skua::kv::ctl
