// ClientRules: what the shard maps say of clients: whose identity is revoked, which tables are closed to whom, and how
// much of the node each may use. Workers get it compiled, and only what has changed.
//
//    shard map --follow()--> Change { denied, grants, quotas } --> each worker
#ifndef SKUA_KVSTORE_NODE_CLIENT_RULES_H_
#define SKUA_KVSTORE_NODE_CLIENT_RULES_H_

#include <cstdint>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "control/core/shard_map.h"
#include "kvstore/node/closed_tables.h"
#include "kvstore/service/grants.h"
#include "kvstore/service/quotas.h"

namespace skua::kv {

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
