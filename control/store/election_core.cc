#include "control/store/election_core.h"

#include <algorithm>

namespace skua::control {
namespace {

constexpr DurationNs kPauseAfterFailure = 100 * kMillisecond;

}  // namespace

ElectionCore::Step ElectionCore::next(TimeNs now) {
  // A lead that has run out is won anew, never just resumed.
  if (won_term_ != 0 && now >= lease_until_) {
    won_term_ = 0;
    campaign_at_ = now;
  }
  if (now < not_before_) {
    return {Action::kWait, won_term_ == 0 ? not_before_ : std::min(not_before_, lease_until_)};
  }
  if (lease_ == 0) return {Action::kGrantLease, now};
  if (now >= renew_at_) return {Action::kRenewLease, now};
  if (now >= campaign_at_) return {Action::kCampaign, now};
  return {Action::kWait, std::min({renew_at_, campaign_at_, won_term_ == 0 ? kTimeNever : lease_until_})};
}

void ElectionCore::granted(int64_t lease, TimeNs sent) {
  lease_ = lease;
  won_term_ = 0;
  campaign_at_ = sent;
  renewed(sent);
}

void ElectionCore::renewed(TimeNs sent) {
  lease_until_ = sent + options_.lease_ns;
  renew_at_ = sent + options_.period_ns;
}

void ElectionCore::lease_gone() {
  lease_ = 0;
  lease_until_ = 0;
  won_term_ = 0;
}

void ElectionCore::campaigned(int64_t lease, uint64_t term, const std::string& leader, TimeNs now) {
  campaign_at_ = now + options_.period_ns;
  const bool ours = lease != 0 && lease == lease_;
  won_term_ = ours ? term : 0;
  seen_ = lease == 0 ? Leadership{} : Leadership{ours, term, leader, ""};
  seen_until_ = now + options_.lease_ns;
}

void ElectionCore::failed(const std::string& why, TimeNs now) {
  not_before_ = now + kPauseAfterFailure;
  seen_.trouble = why;
}

Leadership ElectionCore::leadership(TimeNs now) const {
  if (won_term_ != 0 && now < lease_until_) return {true, won_term_, seen_.leader, ""};
  // What we saw of ourselves, or long ago, says nothing.
  if (seen_.leads || now >= seen_until_) return {false, 0, "", seen_.trouble};
  return {false, seen_.term, seen_.leader, ""};
}

}  // namespace skua::control
