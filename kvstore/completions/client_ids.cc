#include "kvstore/completions/client_ids.h"

#include <algorithm>

namespace skua::kv {

bool ClientIds::admit(uint64_t client_id, TimeNs now) {
  if (ids_max_ == 0) return true;
  if (const auto known = last_ns_.find(client_id); known != last_ns_.end()) {
    known->second = now;
    return true;
  }
  if (last_ns_.size() >= ids_max_) forget_idle(now);
  if (last_ns_.size() >= ids_max_) return false;
  last_ns_.emplace(client_id, now);
  next_idle_ns_ = std::min(next_idle_ns_, now + kIdleNs);
  return true;
}

void ClientIds::set_max(size_t ids_max) {
  ids_max_ = ids_max;
  if (ids_max == 0) last_ns_.clear();
}

/// Looks at all ids only when one may be idle: refused writes may come often.
void ClientIds::forget_idle(TimeNs now) {
  if (now < next_idle_ns_) return;
  TimeNs oldest_ns = now;
  absl::erase_if(last_ns_, [&](const auto& entry) {
    if (now - entry.second >= kIdleNs) return true;
    oldest_ns = std::min(oldest_ns, entry.second);
    return false;
  });
  next_idle_ns_ = oldest_ns + kIdleNs;
}

}  // namespace skua::kv
