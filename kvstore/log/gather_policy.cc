#include "kvstore/log/gather_policy.h"

#include <algorithm>

namespace skua::kv {

void GatherPolicy::synced(TimeNs now, DurationNs sync_ns, int64_t records, int64_t waiting) {
  sync_ns_ = sync_ns_ == 0 ? sync_ns : (7 * sync_ns_ + sync_ns) / 8;
  synced_at_ = now;
  target_ = 0;
  if (paused_groups_ > 0) {
    --paused_groups_;
    return;
  }
  target_ = std::min(records + waiting, options_.records_max);
}

std::optional<GatherPolicy::Wait> GatherPolicy::wait(TimeNs now, int64_t queued) {
  const int64_t target = target_;
  target_ = 0;
  // Records that arrive later than a sync's time after the answers are not a reaction to them.
  if (queued >= target || now - synced_at_ > sync_ns_) return std::nullopt;
  const DurationNs most = std::min(sync_ns_ / options_.sync_part, options_.wait_max);
  if (most < options_.wait_min) return std::nullopt;
  queued_before_ = queued;
  target_ = target;
  return Wait{target, now + most};
}

void GatherPolicy::waited(int64_t queued) {
  const bool worth_it = 2 * (queued - queued_before_) >= target_ - queued_before_;
  target_ = 0;
  if (worth_it) {
    failures_ = 0;
    next_pause_ = options_.pause_groups;
    return;
  }
  if (++failures_ < options_.failures_max) return;
  next_pause_ = std::clamp(next_pause_, options_.pause_groups, options_.pause_groups_max);
  paused_groups_ = next_pause_;
  next_pause_ *= 2;
  failures_ = options_.failures_max - 1;  // one more failure after the pause is enough
}

}  // namespace skua::kv
