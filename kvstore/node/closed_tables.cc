#include "kvstore/node/closed_tables.h"

#include <algorithm>
#include <set>
#include <utility>

namespace skua::kv {

bool ClosedTables::follow(const control::ShardMap& map) {
  std::set<uint32_t> ids;
  for (const control::MapTable& table : map.tables) ids.insert(static_cast<uint32_t>(table.id));
  std::vector<TableGrants> next;
  for (const TableGrants& before : tables_) {
    if (!ids.contains(before.table_id)) next.push_back({before.table_id, before.name, {}});
  }
  const size_t too_many = next.size() - std::min(next.size(), kDroppedMax);
  next.erase(next.begin(), next.begin() + static_cast<ptrdiff_t>(too_many));
  for (const control::MapTable& table : map.tables) {
    if (table.grants.empty()) continue;
    TableGrants& added = next.emplace_back(TableGrants{static_cast<uint32_t>(table.id), table.name, {}});
    added.rights.reserve(table.grants.size());
    for (const control::MapGrant& grant : table.grants) {
      added.rights.emplace_back(grant.principal, static_cast<Rights>(grant.rights));
    }
  }
  if (next == tables_) return false;
  tables_ = std::move(next);
  return true;
}

}  // namespace skua::kv
