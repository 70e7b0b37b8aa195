#include "control/server/decision_text.h"

#include <algorithm>
#include <cstddef>
#include <map>
#include <utility>
#include <variant>

#include "absl/strings/str_cat.h"
#include "control/core/cluster_limits.h"
#include "control/core/grants.h"
#include "control/core/quotas.h"
#include "control/core/text.h"
#include "rpc/base/printable.h"

namespace skua::control {

std::string access_text(const Event& event, const Decision& decision) {
  const auto who = [](const std::string& principal) { return printable(principal, kPrincipalMax); };
  if (const auto* revoked = std::get_if<RevokeIdentity>(&event)) {
    return absl::StrCat("revoked ", who(revoked->principal));
  }
  if (const auto* allowed = std::get_if<UnrevokeIdentity>(&event)) {
    return absl::StrCat("no longer revoked: ", who(allowed->principal));
  }
  if (const auto* granted = std::get_if<AddGrant>(&event)) {
    return absl::StrCat("granted ", who(granted->principal), " ", rights_text(granted->rights), " of table ",
                        decision.table->name);
  }
  if (const auto* taken = std::get_if<RemoveGrant>(&event)) {
    return absl::StrCat("took ", rights_text(taken->rights), " of table ", decision.table->name, " from ",
                        who(taken->principal),
                        decision.changes.put_grants.begin()->second.empty() ? ": it is open to all clients" : "");
  }
  if (const auto* set = std::get_if<SetQuota>(&event)) {
    return absl::StrCat("the quota of ", who(set->principal), " is ", quota_text(set->quota));
  }
  if (const auto* removed = std::get_if<RemoveQuota>(&event)) {
    return absl::StrCat("no quota any more: ", who(removed->principal));
  }
  return "";
}

std::string views_text(const Changes& changes, const ClusterState& state) {
  constexpr size_t kShown = 4;
  const auto why = [&](size_t i) { return i < changes.reasons.size() ? changes.reasons[i] : std::string(); };
  std::string text = "views changed:";
  for (size_t i = 0; i < std::min(changes.put_shards.size(), kShown); ++i) {
    const ShardRecord& shard = changes.put_shards[i];
    const auto table = state.tables.find(shard.table_id);
    absl::StrAppend(&text, i == 0 ? " " : ", ", table == state.tables.end() ? "?" : table->second.name, "/",
                    shard.shard, " epoch ", shard.epoch, shard.primary ? " led by " : " led by nobody",
                    shard.primary ? shard.primary->node_uuid : "", " with ", count_of(shard.backups.size(), "backup"),
                    ", ", count_of(shard.learners.size(), "learner"));
    if (!why(i).empty()) absl::StrAppend(&text, " (", why(i), ")");
  }
  if (changes.put_shards.size() <= kShown) return text;
  absl::StrAppend(&text, " and ", changes.put_shards.size() - kShown, " more");
  std::map<std::string, size_t> others;
  for (size_t i = kShown; i < changes.put_shards.size(); ++i) {
    if (!why(i).empty() && (others.size() < kShown || others.contains(why(i)))) ++others[why(i)];
  }
  const char* separator = " (";
  for (const auto& [reason, count] : others) {
    absl::StrAppend(&text, std::exchange(separator, ", "), count, " because ", reason);
  }
  if (!others.empty()) text += ")";
  return text;
}

}  // namespace skua::control
