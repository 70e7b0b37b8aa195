// Collects what replicas of this node find out about other nodes, and passes it to the control plane.
//
//    replicas, repeatedly --- report() ---> newest finding of each kind per shard --- on a change ---> publish
//
// Findings of a past epoch are dropped, because the control plane would ignore them. Findings that a replica does not
// repeat are dropped too, because the control plane gets all current findings with each heartbeat.
#ifndef SKUA_KVSTORE_NODE_REPLICA_FINDINGS_H_
#define SKUA_KVSTORE_NODE_REPLICA_FINDINGS_H_

#include <cstdint>
#include <functional>
#include <map>
#include <mutex>
#include <string>
#include <tuple>

#include "absl/functional/function_ref.h"
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

  /// The uuids of the nodes of the newest map. Findings about other nodes are not published.
  void set_nodes(std::map<NodeId, std::string> uuids);
  /// A replica of `shard` reports a finding. Publishes all findings if this one is new or has changed.
  void report(ShardId shard, const ReplicaReport& report, TimeNs now);
  /// Drops the kDoubtful findings of the shard: its replica lacks nothing any more.
  void restored(ShardId shard);
  /// To be called regularly. Drops findings that were not reported again within kForgetNs.
  void sweep(TimeNs now);

  static constexpr DurationNs kForgetNs = kSecond;

 private:
  using Key = std::tuple<ShardId, ReplicaReport::Kind, NodeId>;

  void change(absl::FunctionRef<bool()> what);
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
