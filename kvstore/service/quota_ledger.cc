#include "kvstore/service/quota_ledger.h"

namespace skua::kv {

QuotaAccount::QuotaAccount(const NodeQuota& quota, uint32_t workers, TimeNs now)
    : quota_(&quota),
      operations_(quota.limits.operations_per_s, workers, now),
      bytes_(quota.limits.bytes_per_s, workers, now),
      client_ids_(quota.limits.client_ids) {}

void QuotaAccount::follow(const NodeQuota& quota, uint32_t workers, TimeNs now) {
  const ClientQuota& before = quota_->limits;
  if (quota.limits.operations_per_s != before.operations_per_s) {
    operations_ = TokenBucket(quota.limits.operations_per_s, workers, now);
  }
  if (quota.limits.bytes_per_s != before.bytes_per_s) bytes_ = TokenBucket(quota.limits.bytes_per_s, workers, now);
  client_ids_.set_max(quota.limits.client_ids);
  quota_ = &quota;
}

void QuotaLedger::set(std::shared_ptr<const Quotas> quotas, TimeNs now) {
  std::map<std::string, std::unique_ptr<QuotaAccount>> next;
  for (const auto& [principal, quota] : quotas->all()) {
    std::unique_ptr<QuotaAccount>& account = next[principal];
    if (const auto kept = accounts_.find(principal); kept != accounts_.end()) {
      account = std::move(kept->second);
      account->follow(quota, quotas->workers(), now);
    } else {
      account = std::make_unique<QuotaAccount>(quota, quotas->workers(), now);
    }
  }
  accounts_ = std::move(next);
  quotas_ = std::move(quotas);
}

QuotaAccount* QuotaLedger::account(const std::string& principal) const {
  const auto found = accounts_.find(principal);
  return found == accounts_.end() ? nullptr : found->second.get();
}

absl::StatusOr<SessionPlace> QuotaLedger::take_session(const std::string& principal) {
  auto place = SessionPlace::take(quotas_, principal);
  if (!place.ok()) count_refusal(QuotaKind::kSessions);
  return place;
}

}  // namespace skua::kv
