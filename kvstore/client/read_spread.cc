#include "kvstore/client/read_spread.h"

#include <algorithm>

#include "kvstore/client/client_limits.h"

namespace skua::kv {

TargetId ReadSpread::choose(TargetId primary, std::span<const TargetId> backups, TimeNs now, Rng& rng,
                            absl::FunctionRef<bool(TargetId)> is_open) const {
  const auto can_answer = [&](TargetId target) {
    return target != kNoTarget && is_open(target) && !pauses(target, now);
  };
  // Walks the backups and then the primary, from a random place on, so that no list of candidates is needed.
  const size_t count = backups.size() + 1;
  const size_t first = rng.below(count);
  for (size_t i = 0; i < count; ++i) {
    const size_t at = (first + i) % count;
    const TargetId target = at < backups.size() ? backups[at] : primary;
    if (can_answer(target)) return target;
  }
  return primary;
}

void ReadSpread::failed(TargetId replica, TimeNs now) {
  if (replica >= pauses_.size()) pauses_.resize(replica + 1);
  Pause& pause = pauses_[replica];
  if (now < pause.until_ns) return;  // a read that was in flight when the pause began
  const uint32_t doublings = std::min(pause.failures++, 20u);
  pause.until_ns = now + std::min(kReplicaPauseMinNs << doublings, kReplicaPauseMaxNs);
}

}  // namespace skua::kv
