#include "kvstore/replication/gray_failures.h"

namespace skua::kv {

bool GrayFailures::is_slow(PeerReplica& peer, const PeerReplicas& all, const ReplicaOptions& options, TimeNs now) {
  const DurationNs fastest = all.fastest_without(peer.id.node, now);
  const bool is_slow = peer.latency.at(now) > std::max(options.slow_floor_ns, fastest * options.slow_ratio);
  return peer.latency.is_slow_for_long(is_slow, now, options.slow_after_ns);
}

bool GrayFailures::is_hung(NodeId node, uint64_t index, const ReplicaOptions& options, TimeNs now) {
  if (node == 0 || node != behind_ || index != index_) {
    behind_ = node;
    index_ = index;
    since_ = now;
    return false;
  }
  return now - since_ > options.hung_after_ns;
}

}  // namespace skua::kv
