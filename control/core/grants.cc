#include "control/core/grants.h"

#include <array>
#include <utility>
#include <vector>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "absl/strings/str_split.h"
#include "control/core/cluster_limits.h"
#include "control/core/tables.h"
#include "rpc/base/printable.h"
#include "rpc/base/status.h"

namespace skua::control {
namespace {

constexpr std::string_view kClient = "client/";

constexpr std::array kRightNames = {std::pair<Rights, const char*>{kRightRead, "read"},
                                    std::pair<Rights, const char*>{kRightWrite, "write"},
                                    std::pair<Rights, const char*>{kRightScan, "scan"}};

/// The table's grants; none: it is open.
TableGrants grants_of(const ClusterState& state, TableId table) {
  const auto found = state.grants.find(table);
  return found == state.grants.end() ? TableGrants() : found->second;
}

}  // namespace

std::string rights_text(Rights rights) {
  std::vector<const char*> names;
  for (const auto& [right, name] : kRightNames) {
    if ((rights & right) != 0) names.push_back(name);
  }
  return absl::StrJoin(names, ",");
}

absl::StatusOr<Rights> parse_rights(std::string_view text) {
  Rights rights = 0;
  for (const absl::string_view word : absl::StrSplit(absl_view(text), ',')) {
    Rights found = 0;
    for (const auto& [right, name] : kRightNames) {
      if (word == name) found = right;
    }
    if (found == 0) {
      return absl::InvalidArgumentError(absl::StrCat("\"", printable(std_view(word), kPrincipalMax),
                                                     "\" is no right: give read, write or scan, or ",
                                                     "several with commas"));
    }
    rights |= found;
  }
  return rights;
}

absl::Status check_is_client(const std::string& principal, const char* limits) {
  if (principal.starts_with(kClient) && principal.size() > kClient.size() && principal.size() <= kPrincipalMax) {
    return absl::OkStatus();
  }
  return absl::InvalidArgumentError(absl::StrCat("\"", printable(principal, kPrincipalMax),
                                                 "\" is no client: give client/NAME, for example client/app-7. ",
                                                 limits, " limit clients only"));
}

absl::Status check_grant(const std::string& principal, Rights rights) {
  if (absl::Status status = check_is_client(principal, "Grants"); !status.ok()) return status;
  if (rights == 0 || rights > kRightsAll) {
    return absl::InvalidArgumentError("a grant has at least one of the rights read, write and scan");
  }
  return absl::OkStatus();
}

size_t grant_count(const ClusterState& state) {
  size_t count = 0;
  for (const auto& [table, grants] : state.grants) count += grants.size();
  return count;
}

Decision decide(const AddGrant& event, const ClusterState& state) {
  if (absl::Status status = check_grant(event.principal, event.rights); !status.ok()) return refused(status);
  const Table* const table = state.find_table(event.table);
  if (table == nullptr) return refused(no_such_table(event.table, state));
  TableGrants grants = grants_of(state, table->id);
  if (!grants.contains(event.principal) && grant_count(state) >= kGrantsMax) {
    return refused(absl::ResourceExhaustedError(
        absl::StrCat("the cluster has ", kGrantsMax, " grants, which is the limit. Remove some (skuactl grant list)")));
  }
  Decision decision;
  decision.table = *table;
  Rights& rights = grants[event.principal];
  if ((rights | event.rights) == rights) return decision;
  rights |= event.rights;
  decision.changes = next_changes(state);
  decision.changes.put_grants[table->id] = std::move(grants);
  return decision;
}

Decision decide(const RemoveGrant& event, const ClusterState& state) {
  if (absl::Status status = check_grant(event.principal, event.rights); !status.ok()) return refused(status);
  const Table* const table = state.find_table(event.table);
  if (table == nullptr) return refused(no_such_table(event.table, state));
  TableGrants grants = grants_of(state, table->id);
  const auto held = grants.find(event.principal);
  if (held == grants.end() || (held->second & event.rights) == 0) {
    return refused(absl::NotFoundError(absl::StrCat("no grant gives ", event.principal, " the right to ",
                                                    rights_text(event.rights), " table ", table->name,
                                                    "; skuactl grant list shows who has which")));
  }
  held->second &= ~event.rights;
  if (held->second == 0) grants.erase(held);
  if (grants.empty() && !event.open_to_all) {
    return refused(absl::FailedPreconditionError(
        absl::StrCat("it is the last grant of table ", table->name, ": without it every client, ", event.principal,
                     " included, could read, write and scan the table. If this is meant, say --open-to-all. If not, ",
                     "give another client a grant first, or revoke the identity (skuactl cert revoke)")));
  }
  Decision decision;
  decision.table = *table;
  decision.changes = next_changes(state);
  decision.changes.put_grants[table->id] = std::move(grants);
  return decision;
}

}  // namespace skua::control
