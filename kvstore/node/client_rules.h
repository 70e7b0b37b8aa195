// ClientRules: what the shard maps say of clients: whose identity is revoked, which tables are closed to whom, and how
// much of the node each may use. Workers get it compiled, and only what has changed.
//
//    shard map --follow()--> Change { denied, grants, quotas } --> each worker
#ifndef SKUA_KVSTORE_NODE_CLIENT_RULES_H_
#define SKUA_KVSTORE_NODE_CLIENT_RULES_H_

#include <cstddef>
#include <cstdint>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "control/core/shard_map.h"
#include "kvstore/service/grants.h"
#include "kvstore/service/quotas.h"

namespace skua::kv {

/// ClosedTables: which tables have grants (control/core/grants.h), by the newest shard map.
///
/// A table that is dropped leaves the map at once. Its shards leave the workers later, when the shard manager comes to
/// them, and until then the table must not look open. So a table that had grants is closed to all clients when it is no
/// longer in the map. Ids of tables are not used again. If a table comes back with an older state of the cluster, the
/// map counts.
///
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

/// Thread: one at a time.
class ClientRules {
 public:
  /// What a map has changed. What is null stays as it was.
  struct Change {
    std::optional<std::vector<std::string>> denied;  ///< all identities that are revoked
    std::shared_ptr<const Grants> grants;
    std::shared_ptr<const Quotas> quotas;
    std::vector<std::string> news;  ///< a line for each change, for the node's log
  };

  /// `workers`: number of the node's workers, which share the quotas.
  explicit ClientRules(uint32_t workers) : workers_(workers) {}

  /// The newest map; maps come in the order of their revisions.
  [[nodiscard]] Change follow(const control::ShardMap& map);

 private:
  const uint32_t workers_;
  std::vector<std::string> denied_;
  ClosedTables closed_tables_;
  std::vector<control::MapQuota> quotas_;
};

}  // namespace skua::kv

#endif  // SKUA_KVSTORE_NODE_CLIENT_RULES_H_
