// What this node's replicas notice of others, gathered for the control plane.
//
//    replicas, again and again --- report() ---> newest of each kind per shard --- when something is new ---> publish
//
// Findings of an epoch that is over are dropped; the control plane would ignore them. So is what a replica does not find any
// more, because the control plane hears all of them with each heartbeat.
#ifndef SKUA_KVSTORE_NODE_REPLICA_FINDINGS_H_
#define SKUA_KVSTORE_NODE_REPLICA_FINDINGS_H_

#include <cstdint>
#include <functional>
#include <map>
#include <mutex>
#include <string>
#include <tuple>

#include "control/core/events.h"
#include "kvstore/replication/replica.h"
#include "kvstore/replication/view.h"
#include "kvstore/types/mutation.h"
#include "rpc/base/clock.h"

namespace skua::kv {

/// Thread: any.
class ReplicaFindings {
 public:
  using Publish = std::function<void(control::ReplicaReport)>;
  explicit ReplicaFindings(Publish publish) : publish_(std::move(publish)) {}

  void set_nodes(std::map<NodeId, std::string> uuids);
  void report(ShardId shard, const ReplicaReport& report, TimeNs now);
  /// What was reported as kDoubtful does not hold any more.
  void restored(ShardId shard);
  /// Now and then: drops what was not found again for kForgetNs.
  void sweep(TimeNs now);

  static constexpr DurationNs kForgetNs = kSecond;

 private:
  using Key = std::tuple<ShardId, ReplicaReport::Kind, NodeId>;

  [[nodiscard]] control::ReplicaReport gather() const;

  const Publish publish_;
  std::mutex mutex_;
  std::map<NodeId, std::string> uuids_;
  struct Finding {
    ReplicaReport report;
    TimeNs found_ns = 0;
  };
  std::map<Key, Finding> findings_;
  TimeNs next_sweep_ns_ = 0;
};

}  // namespace skua::kv

#endif  // SKUA_KVSTORE_NODE_REPLICA_FINDINGS_H_
