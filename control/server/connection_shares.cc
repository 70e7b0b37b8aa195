#include "control/server/connection_shares.h"

namespace skua::control {

bool ConnectionShares::admit(int fd, const Network& from, TimeNs now) {
  // The connection that had the descriptor before has ended.
  if (const auto before = entries_.find(fd); before != entries_.end()) {
    forget(before->second.from);
    entries_.erase(before);
  }
  const auto has_its_share = [&] {
    const auto count = counts_.find(from);
    return count != counts_.end() && count->second >= share_;
  };
  if (has_its_share() && now >= recount_again_ns_) {
    recount_again_ns_ = now + kRecountNs;
    recount(from);
  }
  if (has_its_share()) return false;
  entries_.emplace(fd, Entry{socket_of_(fd), from});
  ++counts_[from];
  return true;
}

void ConnectionShares::forget(const Network& from) {
  const auto count = counts_.find(from);
  if (--count->second == 0) counts_.erase(count);
}

void ConnectionShares::recount(const Network& from) {
  std::erase_if(entries_, [&](const auto& entry) {
    if (entry.second.from != from || socket_of_(entry.first) == entry.second.socket) return false;
    forget(from);
    return true;
  });
}

}  // namespace skua::control
