#include "kvstore/service/quotas.h"

#include <algorithm>

#include "absl/strings/str_cat.h"

namespace skua::kv {
namespace {

/// The texts are made here, because refusals come when a worker has much to do.
std::string refusal_of(const ClientQuota& limits, QuotaKind kind) {
  std::string what;
  switch (kind) {
    case QuotaKind::kOperations:
      what = absl::StrCat(limits.operations_per_s, " operations/s, of which each worker has its share");
      break;
    case QuotaKind::kBytes:
      what = absl::StrCat(limits.bytes_per_s, " bytes/s, of which each worker has its share");
      break;
    case QuotaKind::kSessions: what = absl::StrCat(limits.sessions, " sessions"); break;
    case QuotaKind::kClientIds: what = absl::StrCat(limits.client_ids, " client ids that write within a minute"); break;
  }
  return absl::StrCat(limits.principal, " has used up its quota of this node: ", what,
                      "; try again later, or have it raised (skuactl quota set)");
}

}  // namespace

Quotas::Quotas(const std::vector<ClientQuota>& quotas, uint32_t workers) : workers_(std::max(workers, 1U)) {
  for (const ClientQuota& limits : quotas) {
    NodeQuota& quota = quotas_[limits.principal];
    quota.limits = limits;
    for (size_t kind = 0; kind < kQuotaKinds; ++kind) {
      quota.refusals[kind] = refusal_of(limits, static_cast<QuotaKind>(kind));
    }
  }
}

const NodeQuota* Quotas::find(const std::string& principal) const {
  const auto found = quotas_.find(principal);
  return found == quotas_.end() ? nullptr : &found->second;
}

absl::StatusOr<SessionPlace> SessionPlace::take(std::shared_ptr<const Quotas> quotas, const std::string& principal) {
  const NodeQuota* const quota = quotas->find(principal);
  if (quota == nullptr) return SessionPlace();
  const uint32_t sessions_max = quota->limits.sessions;
  // The compare-and-swap lets only one of two workers take the last place. A refused caller never raises the count.
  uint32_t taken = quota->sessions.load(std::memory_order_relaxed);
  do {
    if (sessions_max != 0 && taken >= sessions_max) {
      return absl::ResourceExhaustedError(quota->refusal(QuotaKind::kSessions));
    }
  } while (!quota->sessions.compare_exchange_weak(taken, taken + 1, std::memory_order_relaxed));
  return SessionPlace(std::move(quotas), quota);
}

SessionPlace SessionPlace::keep(std::shared_ptr<const Quotas> quotas, const std::string& principal) {
  const NodeQuota* const quota = quotas->find(principal);
  if (quota == nullptr) return {};
  quota->sessions.fetch_add(1, std::memory_order_relaxed);
  return {std::move(quotas), quota};
}

}  // namespace skua::kv
