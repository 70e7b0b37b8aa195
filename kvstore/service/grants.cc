#include "kvstore/service/grants.h"

namespace skua::kv {

const char* right_name(Rights right) {
  switch (right) {
    case kRightRead: return "read";
    case kRightWrite: return "write";
    case kRightScan: return "scan";
    default: return "administer";
  }
}

Grants::Grants(const std::vector<TableGrants>& tables) {
  for (const TableGrants& table : tables) {
    ClosedTable& closed = tables_[table.table_id];
    closed.name = table.name;
    for (const auto& [identity, rights] : table.rights) {
      const auto row = static_cast<GrantRow>(kRowOfUnlimited + 1 + rows_.size());
      const GrantRow at = rows_.try_emplace(identity, row).first->second;
      if (closed.rights.size() <= at) closed.rights.resize(at + size_t{1});
      closed.rights[at] = rights;
    }
  }
}

GrantRow Grants::row_of(const std::string& identity) const {
  for (const char* const role : {"node/", "admin/", "control/"}) {
    if (identity.starts_with(role)) return kRowOfUnlimited;
  }
  const auto found = rows_.find(identity);
  return found == rows_.end() ? kRowOfNobody : found->second;
}

const ClosedTable* Grants::find(uint32_t table_id) const {
  const auto found = tables_.find(table_id);
  return found == tables_.end() ? nullptr : &found->second;
}

}  // namespace skua::kv
