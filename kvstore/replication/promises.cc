#include "kvstore/replication/promises.h"

#include <algorithm>

#include "kvstore/replication/peer_replicas.h"

namespace skua::kv {

void Promises::give(NodeId to, TimeNs until) {
  TimeNs& known = until_[to];
  known = std::max(known, until);
}

void Promises::drop_expired(TimeNs now) {
  std::erase_if(until_, [now](const auto& promise) { return promise.second <= now; });
}

bool Promises::any(TimeNs now) const {
  return std::any_of(until_.begin(), until_.end(), [now](const auto& promise) { return promise.second > now; });
}

TimeNs Promises::end_outside(const PeerReplicas& peers) const {
  TimeNs end = former_life_until_;
  for (const auto& [node, until] : until_) {
    const PeerReplica* const peer = peers.find(node);
    if (peer == nullptr || !peer->member) end = std::max(end, until);
  }
  return end;
}

}  // namespace skua::kv
