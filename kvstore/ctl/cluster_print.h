// Prints nodes, tables and shards as text and as JSON.
#ifndef SKUA_KVSTORE_CTL_CLUSTER_PRINT_H_
#define SKUA_KVSTORE_CTL_CLUSTER_PRINT_H_

#include <cstdint>
#include <nlohmann/json.hpp>
#include <string>
#include <vector>

#include "control/client/admin_client.h"
#include "kvstore/ctl/cluster_view.h"
#include "kvstore/ctl/output.h"

namespace skua::kv::ctl {

/// Rows for table() (output.h); the first row is the heading.
TableRows node_rows(const control::ClusterStatus& status);
TableRows table_rows(const std::vector<control::TableSummary>& tables);
/// A line for each shard. Under a shard that is not settled, a line that says what it lacks.
std::string shards_text(const control::ClusterStatus& status, const control::MapTable& table,
                        const std::vector<ShardView>& shards);

nlohmann::json nodes_json(const control::ClusterStatus& status);
nlohmann::json table_json(const control::TableSummary& summary);
nlohmann::json tables_json(const std::vector<control::TableSummary>& tables);
nlohmann::json shards_json(const control::MapTable& table, uint64_t map_revision, const std::vector<ShardView>& shards);

}  // namespace skua::kv::ctl

#endif  // SKUA_KVSTORE_CTL_CLUSTER_PRINT_H_
