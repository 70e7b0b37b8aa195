// What a decision about views looks at: the state, who was heard of, the time.
#ifndef SKUA_CONTROL_CORE_VIEW_CONTEXT_H_
#define SKUA_CONTROL_CORE_VIEW_CONTEXT_H_

#include <string>

#include "control/core/cluster_state.h"
#include "control/core/doubts.h"
#include "control/core/node_status.h"
#include "control/core/view_options.h"
#include "control/core/view_rules.h"

namespace skua::control {

/// Refers to what it is made of; for the length of one decision.
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
  /// The node still has what this replica had.
  [[nodiscard]] bool valid(const Replica& replica) const {
    const NodeInfo* info = node(replica.node_uuid);
    return info != nullptr && info->storage_incarnation == replica.storage_incarnation;
  }
  [[nodiscard]] bool alive(const std::string& uuid) const { return status(uuid).liveness == Liveness::kAlive; }
  /// The node says that it cannot open what it has of this shard.
  [[nodiscard]] bool unserved(const ShardAssignment& record, const std::string& uuid) const {
    return status(uuid).unserved.contains({record.table_id, record.shard});
  }
  /// Alive, and nothing is known that keeps it from serving this shard.
  [[nodiscard]] bool serves(const ShardAssignment& record, const std::string& uuid) const {
    return alive(uuid) && !unserved(record, uuid);
  }
  /// Heard of so lately that others' complaints about it need not mean that it is dead.
  [[nodiscard]] bool heard(const std::string& uuid) const {
    const NodeStatus& known = status(uuid);
    return known.liveness == Liveness::kAlive && now - known.heard_ns <= options.fresh_ns;
  }
  /// Silent for long, said goodbye, or not registered. A node that this process has not heard of yet
  /// is neither alive nor gone.
  [[nodiscard]] bool gone(const std::string& uuid) const {
    const Liveness liveness = status(uuid).liveness;
    return liveness == Liveness::kSuspected || liveness == Liveness::kStopped;
  }
  /// Said goodbye, or not registered.
  [[nodiscard]] bool stopped(const std::string& uuid) const { return status(uuid).liveness == Liveness::kStopped; }
  [[nodiscard]] bool draining(const std::string& uuid) const {
    const NodeInfo* info = node(uuid);
    return info != nullptr && info->draining;
  }
  /// Of a build that can hold replicas.
  [[nodiscard]] bool replicates(const std::string& uuid) const {
    const NodeInfo* info = node(uuid);
    return info != nullptr && info->replicates();
  }
  /// A member that should not stay one.
  [[nodiscard]] bool unwanted(const ShardAssignment& record, const std::string& uuid) const {
    return is_leaving(record, uuid) || draining(uuid);
  }
  /// Members that a shard should have; 1 if the table is unknown.
  [[nodiscard]] size_t wanted_replicas(const ShardAssignment& record) const {
    const auto found = state.tables.find(record.table_id);
    return found == state.tables.end() ? 1 : found->second.replicas;
  }
  /// Nodes copy the table's shards. A shard of a table with one replica stays on its node.
  [[nodiscard]] bool replicated(const ShardAssignment& record) const { return wanted_replicas(record) > 1; }
  /// The member may lack what it acknowledged: it cannot lead.
  [[nodiscard]] bool doubtful(const ShardAssignment& record, const std::string& uuid) const {
    return doubts != nullptr && doubts->contains(*this, record, uuid);
  }
  /// The process that leads a view with this primary; 0 for a shard that has no other member.
  [[nodiscard]] uint64_t leader_incarnation(const ShardAssignment& record, const std::string& primary,
                                            size_t members) const {
    const NodeInfo* info = node(primary);
    return info == nullptr || (members == 1 && !replicated(record)) ? 0 : info->incarnation;
  }
};

}  // namespace skua::control

#endif  // SKUA_CONTROL_CORE_VIEW_CONTEXT_H_
