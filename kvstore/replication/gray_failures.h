// GrayFailures: finds replicas that answer heartbeats and yet hold up every write.
//
//    slow    a member acknowledges much later than the fastest other one, for some time. A bad link, or a busy node.
//    hung    one log alone lacks the oldest entry that waits for commit, for some time. A disk that does not return.
//
// Both compare: if all are slow, nobody is. The primary reports what is found, so that the control plane goes on
// without the replica. A primary whose own log hangs is found, too.
//
// Thread: one at a time.
#ifndef SKUA_KVSTORE_REPLICATION_GRAY_FAILURES_H_
#define SKUA_KVSTORE_REPLICATION_GRAY_FAILURES_H_

#include <algorithm>
#include <cstdint>

#include "kvstore/replication/peer_replicas.h"
#include "kvstore/replication/replica_options.h"
#include "rpc/base/clock.h"

namespace skua::kv {

class GrayFailures {
 public:
  /// Whether the member `peer` has been slow for longer than slow_after_ns. The group must have another member besides
  /// it.
  [[nodiscard]] static bool is_slow(PeerReplica& peer, const PeerReplicas& all, const ReplicaOptions& options,
                                    TimeNs now) {
    const DurationNs fastest = all.fastest_without(peer.id.node, now);
    const bool is_slow = peer.latency.at(now) > std::max(options.slow_floor_ns, fastest * options.slow_ratio);
    return peer.latency.is_slow_for_long(is_slow, now, options.slow_after_ns);
  }
  /// `node` alone is behind with the entry `index` (0: no such node). Whether this was so at all checks of more than
  /// the last hung_after_ns.
  [[nodiscard]] bool is_hung(NodeId node, uint64_t index, const ReplicaOptions& options, TimeNs now) {
    if (node == 0 || node != behind_ || index != index_) {
      behind_ = node;
      index_ = index;
      since_ = now;
      return false;
    }
    return now - since_ > options.hung_after_ns;
  }
  /// The time of the pause does not count.
  void paused(const Pause& pause) { since_ = std::max(since_, pause.until); }

 private:
  // At the last check.
  NodeId behind_ = 0;
  uint64_t index_ = 0;
  TimeNs since_ = 0;
};

}  // namespace skua::kv

#endif  // SKUA_KVSTORE_REPLICATION_GRAY_FAILURES_H_
