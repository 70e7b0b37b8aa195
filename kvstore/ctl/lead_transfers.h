// LeadTransfers: which shards another node should lead before a node goes away, and which node. Pure.
#ifndef SKUA_KVSTORE_CTL_LEAD_TRANSFERS_H_
#define SKUA_KVSTORE_CTL_LEAD_TRANSFERS_H_

#include <cstddef>
#include <cstdint>
#include <string>
#include <vector>

#include "control/client/admin_client.h"

namespace skua::kv::ctl {

struct LeadTransfer {
  std::string table;
  uint32_t shard = 0;
  std::string to_uuid;

  friend bool operator==(const LeadTransfer&, const LeadTransfer&) = default;
};

struct LeadTransfers {
  /// A transfer for each shard that the node leads and that another member could lead. Members that lead few shards
  /// come first.
  std::vector<LeadTransfer> transfers;
  /// Shards that the node leads, and nobody else could: they have no other member that is alive, has its data and does
  /// not drain.
  size_t staying_count = 0;
};

/// `uuid`: of the node that shall lead no shard.
[[nodiscard]] LeadTransfers lead_transfers_from(const control::ClusterStatus& status, const control::ShardMap& map,
                                                const std::string& uuid);

}  // namespace skua::kv::ctl

#endif  // SKUA_KVSTORE_CTL_LEAD_TRANSFERS_H_
