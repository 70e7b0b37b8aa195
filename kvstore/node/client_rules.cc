#include "kvstore/node/client_rules.h"

#include <algorithm>
#include <set>
#include <utility>

#include "absl/strings/str_cat.h"

namespace skua::kv {
namespace {

// The map's rights are those of the service.
static_assert(control::kRightRead == kRightRead && control::kRightWrite == kRightWrite);
static_assert(control::kRightScan == kRightScan && control::kRightsAll < kRightsUnlimited);

std::shared_ptr<const Quotas> compile(const std::vector<control::MapQuota>& quotas, uint32_t workers) {
  std::vector<ClientQuota> list;
  list.reserve(quotas.size());
  for (const auto& [principal, quota] : quotas) {
    list.push_back({principal, quota.operations_per_s, quota.bytes_per_s, quota.sessions, quota.client_ids});
  }
  return std::make_shared<const Quotas>(list, workers);
}

}  // namespace

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

ClientRules::Change ClientRules::follow(const control::ShardMap& map) {
  Change change;
  if (map.denied != denied_) {
    change.denied = denied_ = map.denied;
    change.news.push_back(absl::StrCat("the list of revoked identities changed count=", denied_.size()));
  }
  if (closed_tables_.follow(map)) {
    change.grants = std::make_shared<const Grants>(closed_tables_.tables());
    change.news.push_back(absl::StrCat("the grants changed closed_tables=", closed_tables_.tables().size()));
  }
  if (map.quotas != quotas_) {
    quotas_ = map.quotas;
    change.quotas = compile(quotas_, workers_);
    change.news.push_back(absl::StrCat("the quotas of clients changed count=", quotas_.size()));
  }
  return change;
}

}  // namespace skua::kv
