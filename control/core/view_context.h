// The input of a decision about views: the state, the nodes' liveness, the time.
#ifndef SKUA_CONTROL_CORE_VIEW_CONTEXT_H_
#define SKUA_CONTROL_CORE_VIEW_CONTEXT_H_

#include <string>

#include "control/core/cluster_state.h"
#include "control/core/doubts.h"
#include "control/core/node_status.h"
#include "control/core/view_options.h"
#include "control/core/view_rules.h"

namespace skua::control {

/// Refers to the objects that it is made of; to be used for one decision only.
struct ViewContext {
  const ClusterState& state;
  const NodeStatuses& statuses;
  const ViewOptions& options;
  TimeNs now;
  /// Null: nobody is doubtful.
  const Doubts* doubts = nullptr;

  /// Null if the node is not registered.
  [[nodiscard]] const NodeInfo* node(const std::string& uuid) const {
    const auto found = state.nodes.find(uuid);
    return found == state.nodes.end() ? nullptr : &found->second;
  }
  [[nodiscard]] const NodeStatus& status(const std::string& uuid) const {
    static const NodeStatus kNotRegistered{.liveness = Liveness::kStopped};
    const auto found = statuses.find(uuid);
    return found == statuses.end() || node(uuid) == nullptr ? kNotRegistered : found->second;
  }
  /// The node still has this replica's storage incarnation, and so its data.
  [[nodiscard]] bool valid(const Replica& replica) const {
    const NodeInfo* info = node(replica.node_uuid);
    return info != nullptr && info->storage_incarnation == replica.storage_incarnation;
  }
  [[nodiscard]] bool alive(const std::string& uuid) const { return status(uuid).liveness == Liveness::kAlive; }
  /// The node says that it cannot open its data of this shard.
  [[nodiscard]] bool unserved(const ShardRecord& record, const std::string& uuid) const {
    return status(uuid).unserved.contains({record.table_id, record.shard});
  }
  /// The node is alive and has not reported that it cannot open this shard.
  [[nodiscard]] bool serves(const ShardRecord& record, const std::string& uuid) const {
    return alive(uuid) && !unserved(record, uuid);
  }
  /// The node was heard of within fresh_ns: even if others accuse it, it is not dead.
  [[nodiscard]] bool heard(const std::string& uuid) const {
    const NodeStatus& known = status(uuid);
    return known.liveness == Liveness::kAlive && now - known.heard_ns <= options.fresh_ns;
  }
  /// The node has been silent for long, has said that it stops, or is not registered. A node that this process has not
  /// heard of yet is neither alive nor gone.
  [[nodiscard]] bool gone(const std::string& uuid) const {
    const Liveness liveness = status(uuid).liveness;
    return liveness == Liveness::kSuspected || liveness == Liveness::kStopped;
  }
  /// The node has said that it stops, or is not registered.
  [[nodiscard]] bool stopped(const std::string& uuid) const { return status(uuid).liveness == Liveness::kStopped; }
  [[nodiscard]] bool draining(const std::string& uuid) const {
    const NodeInfo* info = node(uuid);
    return info != nullptr && info->draining;
  }
  /// The node stops soon, and should lead nothing.
  [[nodiscard]] bool yielding(const std::string& uuid) const { return status(uuid).yielding; }
  /// The node's build can hold replicas.
  [[nodiscard]] bool replicates(const std::string& uuid) const {
    const NodeInfo* info = node(uuid);
    return info != nullptr && info->replicates();
  }
  /// The node should not stay a member of the shard.
  [[nodiscard]] bool unwanted(const ShardRecord& record, const std::string& uuid) const {
    return is_leaving(record, uuid) || draining(uuid);
  }
  /// Number of members that a shard should have; 1 if the table is unknown.
  [[nodiscard]] size_t wanted_replicas(const ShardRecord& record) const {
    const auto found = state.tables.find(record.table_id);
    return found == state.tables.end() ? 1 : found->second.replicas;
  }
  /// The table has more than one replica, so nodes copy its shards. A shard of a table with one replica stays on its
  /// node.
  [[nodiscard]] bool replicated(const ShardRecord& record) const { return wanted_replicas(record) > 1; }
  /// The member may lack writes that it acknowledged, so it cannot lead (doubts.h).
  [[nodiscard]] bool doubtful(const ShardRecord& record, const std::string& uuid) const {
    return doubts != nullptr && doubts->contains(*this, record, uuid);
  }
  /// The value of primary_incarnation for a view with this primary and this many members: the primary's process, or 0
  /// for an unreplicated shard with one member.
  [[nodiscard]] uint64_t leader_incarnation(const ShardRecord& record, const std::string& primary,
                                            size_t members) const {
    const NodeInfo* info = node(primary);
    return info == nullptr || (members == 1 && !replicated(record)) ? 0 : info->incarnation;
  }
};

}  // namespace skua::control

#endif  // SKUA_CONTROL_CORE_VIEW_CONTEXT_H_
