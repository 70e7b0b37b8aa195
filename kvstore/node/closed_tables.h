// ClosedTables: which tables have grants (control/core/grants.h), by the newest shard map.
//
// A table that is dropped leaves the map at once. Its shards leave the workers later, when the shard manager comes to
// them, and until then the table must not look open. So a table that had grants is closed to all clients when it is no
// longer in the map. Ids of tables are not used again. If a table comes back with an older state of the cluster, the
// map counts.
#ifndef SKUA_KVSTORE_NODE_CLOSED_TABLES_H_
#define SKUA_KVSTORE_NODE_CLOSED_TABLES_H_

#include <cstddef>
#include <vector>

#include "control/core/shard_map.h"
#include "kvstore/service/grants.h"

namespace skua::kv {

/// Thread: one at a time.
class ClosedTables {
 public:
  /// So many dropped tables are remembered, the newest ones.
  static constexpr size_t kDroppedMax = 1024;

  /// True: tables() has changed.
  bool follow(const control::ShardMap& map);
  [[nodiscard]] const std::vector<TableGrants>& tables() const { return tables_; }

 private:
  std::vector<TableGrants> tables_;  // those that are not in the map first, then by the order of the map
};

}  // namespace skua::kv

#endif  // SKUA_KVSTORE_NODE_CLOSED_TABLES_H_
