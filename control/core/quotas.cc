#include "control/core/quotas.h"

#include <cstdint>
#include <utility>
#include <vector>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "control/core/cluster_limits.h"
#include "control/core/grants.h"
#include "rpc/base/printable.h"

namespace skua::control {
namespace {

/// A limit of a quota, its bound, and what it counts.
struct Limit {
  uint64_t value = 0;
  uint64_t max = 0;
  const char* what = nullptr;
};

std::vector<Limit> limits_of(const Quota& quota) {
  return {{quota.operations_per_s, kQuotaOperationsMax, "operations/s"},
          {quota.bytes_per_s, kQuotaBytesMax, "bytes/s"},
          {quota.sessions, kQuotaSessionsMax, "sessions"},
          {quota.client_ids, kQuotaClientIdsMax, "client ids"}};
}

}  // namespace

std::string quota_text(const Quota& quota) {
  std::vector<std::string> texts;
  for (const Limit& limit : limits_of(quota)) {
    if (limit.value != 0) texts.push_back(absl::StrCat(limit.value, " ", limit.what));
  }
  return absl::StrJoin(texts, ", ");
}

absl::Status check_quota(const std::string& principal, const Quota& quota) {
  if (absl::Status status = check_is_client(principal, "Quotas"); !status.ok()) return status;
  if (quota == Quota{}) {
    return absl::InvalidArgumentError(
        "a quota limits at least one of operations, bytes, sessions and client ids, to 1 or more. To shut a client "
        "out, "
        "revoke it (skuactl cert revoke)");
  }
  for (const Limit& limit : limits_of(quota)) {
    if (limit.value <= limit.max) continue;
    return absl::InvalidArgumentError(
        absl::StrCat(limit.value, " ", limit.what, " is too much for a quota: the most is ", limit.max));
  }
  return absl::OkStatus();
}

Decision decide(const SetQuota& event, const ClusterState& state) {
  if (absl::Status status = check_quota(event.principal, event.quota); !status.ok()) return refused(status);
  const auto held = state.quotas.find(event.principal);
  if (held == state.quotas.end() && state.quotas.size() >= kQuotasMax) {
    return refused(absl::ResourceExhaustedError(
        absl::StrCat("the cluster has ", kQuotasMax, " quotas, which is the limit. Remove some (skuactl quota list)")));
  }
  Decision decision;
  if (held != state.quotas.end() && held->second == event.quota) return decision;
  decision.changes = next_changes(state);
  decision.changes.put_quotas = state.quotas;
  (*decision.changes.put_quotas)[event.principal] = event.quota;
  return decision;
}

Decision decide(const RemoveQuota& event, const ClusterState& state) {
  if (!state.quotas.contains(event.principal)) {
    return refused(absl::NotFoundError(absl::StrCat("\"", printable(event.principal, kPrincipalMax),
                                                    "\" has no quota; skuactl quota list shows who has which")));
  }
  Decision decision;
  decision.changes = next_changes(state);
  decision.changes.put_quotas = state.quotas;
  decision.changes.put_quotas->erase(event.principal);
  return decision;
}

}  // namespace skua::control
