#include "control/core/cluster_operations.h"

#include <algorithm>
#include <set>
#include <utility>

#include "absl/status/statusor.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "control/core/cluster_limits.h"
#include "control/core/identity_rules.h"
#include "control/core/replica_placement.h"
#include "control/core/shard_repair.h"
#include "control/core/tables.h"
#include "control/core/text.h"
#include "control/core/uuid.h"
#include "rpc/base/printable.h"

namespace skua::control {
namespace {

Decision refused_precondition(const std::string& message) {
  return refused(absl::FailedPreconditionError(message));
}

/// The shard's record after this node, which may be the only member, has been removed from it.
ShardRecord without_node(const ViewContext& context, const ShardRecord& record, const std::string& uuid) {
  if (find_member(record, uuid) == nullptr) return without_learner(record, uuid);
  if (member_count(record) == 1) return orphaned(record);
  std::string leader = record.primary->node_uuid;
  if (leader == uuid) {
    const auto alive = choose_primary(context, ReplicaLoads{ClusterState{}}, record, {uuid});
    const auto valid = std::find_if(record.backups.begin(), record.backups.end(),
                                    [&](const Replica& backup) { return context.valid(backup); });
    leader = alive ? *alive : valid != record.backups.end() ? valid->node_uuid : record.backups.front().node_uuid;
  }
  return next_view(record, leader, context.leader_incarnation(record, leader, member_count(record) - 1), {uuid});
}

/// The decision if the record is already as the operator wants it.
Decision nothing_to_do() {
  return {};
}

absl::Status no_such_node(const std::string& uuid, const ClusterState& state) {
  return absl::NotFoundError(absl::StrCat(
      "no node ", printable(uuid, kAddressMax), " in cluster ", state.cluster_name,
      state.nodes.empty() ? ", which has no nodes yet" : ". skuactl node list shows those that there are"));
}

/// The shard's record, or the error that says why there is none.
absl::StatusOr<ShardRecord> find_shard(const std::string& table, uint32_t shard, const ClusterState& state) {
  const Table* found = state.find_table(table);
  if (found == nullptr) return no_such_table(table, state);
  if (shard >= found->shard_count) {
    const std::string there =
        found->shard_count == 1 ? "one shard, 0" : absl::StrCat("shards 0 to ", found->shard_count - 1);
    return absl::NotFoundError(absl::StrCat("table ", table, " has ", there, ", no shard ", shard));
  }
  return state.shards.at({found->id, shard});
}

/// A decision that changes this record.
Decision changed(ShardRecord record, const ClusterState& state) {
  Decision decision;
  decision.changes = next_changes(state);
  decision.changes.put_shards.push_back(std::move(record));
  decision.changes.reasons.emplace_back("operator");
  return decision;
}

/// An error if the node may have the only copy that is left of a shard.
absl::Status check_not_needed(const NodeInfo& node, const ViewContext& context) {
  for (const auto& [key, record] : context.state.shards) {
    const auto table = context.state.tables.find(key.first);
    if (table == context.state.tables.end() || !may_be_needed(context, record, node.uuid)) continue;
    return absl::FailedPreconditionError(absl::StrCat(
        describe_node(node), " may have a copy of ", shard_name(table->second.name, key.second),
        ", which nobody serves. Bring a member of the shard back first, or start this node and recover the "
        "shard from it (skuactl shard recover), or use force to give the copy up"));
  }
  return absl::OkStatus();
}

Decision set_draining(const std::string& uuid, bool draining, const ClusterState& state) {
  const auto registered = state.nodes.find(uuid);
  if (registered == state.nodes.end()) return refused(no_such_node(uuid, state));
  if (registered->second.draining == draining) return nothing_to_do();
  Decision decision;
  decision.changes = next_changes(state);
  decision.changes.put_nodes.push_back(registered->second);
  decision.changes.put_nodes.back().draining = draining;
  return decision;
}

}  // namespace

Decision decide(const NodeLeave& event, const ViewContext& context) {
  const auto registered = context.state.nodes.find(event.uuid);
  if (registered == context.state.nodes.end()) return refused(no_such_node(event.uuid, context.state));
  const NodeInfo& node = registered->second;
  const bool by_itself = event.instance == node.instance;
  if (!by_itself && context.status(event.uuid).liveness == Liveness::kUnknown) {
    return refused(
        absl::UnavailableError(absl::StrCat("the control plane has just started and does not know yet whether ",
                                            describe_node(node), " is alive. Try again in a few seconds")));
  }
  if (!by_itself && context.alive(event.uuid)) {
    return refused_precondition(absl::StrCat(describe_node(node), " is alive. Stop its process first, then remove it"));
  }
  if (auto needed = event.force ? absl::OkStatus() : check_not_needed(node, context); !needed.ok()) {
    return refused(std::move(needed));
  }
  Changes changes = next_changes(context.state);
  std::set<std::string> tables;
  size_t owned = 0;
  size_t shared = 0;
  for (const auto& [key, shard] : context.state.shards) {
    const bool member = find_member(shard, event.uuid) != nullptr;
    if (!member && find_learner(shard, event.uuid) == nullptr) continue;
    changes.put_shards.push_back(without_node(context, shard, event.uuid));
    changes.reasons.push_back(absl::StrCat(by_itself ? "" : "operator: ", short_uuid(event.uuid), " is removed"));
    if (!member) continue;
    member_count(shard) == 1 ? ++owned : ++shared;
    const auto table = context.state.tables.find(key.first);
    if (table != context.state.tables.end()) tables.insert(table->second.name);
  }
  if (owned > 0 && !event.force) {
    return refused_precondition(absl::StrCat(describe_node(node), " owns ", count_of(owned, "shard"), " of ",
                                             absl::StrJoin(tables, ", "),
                                             ", and no other node has their data. Drop the tables first, or use force "
                                             "to give the data up"));
  }
  if (shared > 0 && !event.force) {
    return refused_precondition(absl::StrCat(describe_node(node), " holds replicas of ", count_of(shared, "shard"),
                                             " of ", absl::StrJoin(tables, ", "),
                                             ". Drain it first, or use force to leave these to their other members"));
  }
  Decision decision;
  decision.unfinished = keep_first_shards(changes);
  if (!decision.unfinished) changes.delete_nodes.push_back(event.uuid);
  decision.changes = std::move(changes);
  return decision;
}

Decision decide(const DrainNode& event, const ClusterState& state) {
  return set_draining(event.uuid, true, state);
}

Decision decide(const UndrainNode& event, const ClusterState& state) {
  return set_draining(event.uuid, false, state);
}

Decision decide(const MoveShard& event, const ViewContext& context) {
  const auto record = find_shard(event.table, event.shard, context.state);
  if (!record.ok()) return refused(record.status());
  const std::string what = shard_name(event.table, event.shard);
  const auto target = context.state.nodes.find(event.to);
  if (target == context.state.nodes.end()) return refused(no_such_node(event.to, context.state));
  if (find_member(*record, event.from) == nullptr) {
    return refused_precondition(
        absl::StrCat(what, " has no member on node ", event.from, ". See its members in the shard map"));
  }
  if (!context.replicated(*record)) {
    return refused_precondition(
        absl::StrCat(what, " stays where it is: table ", event.table,
                     " has one replica, and nodes do not copy such tables. Write its rows into "
                     "a table with more replicas (skuactl table create --replicas 2), or drop it"));
  }
  if (is_leaving(*record, event.from) && find_learner(*record, event.to) != nullptr) return nothing_to_do();
  if (find_member(*record, event.to) != nullptr || find_learner(*record, event.to) != nullptr) {
    return refused_precondition(absl::StrCat(what, " is on node ", event.to, " already. Choose a node without it"));
  }
  if (!context.alive(event.to) || target->second.draining) {
    return refused_precondition(absl::StrCat("node ", event.to, " is ",
                                             target->second.draining ? "draining" : "not alive",
                                             " and takes no shards. Choose another one"));
  }
  if (!target->second.replicates()) {
    return refused_precondition(
        absl::StrCat("node ", event.to, " cannot hold replicas: its build speaks replication version ",
                     target->second.replication_version, ", version ", kReplicationVersionNeeded,
                     " is needed. Upgrade it, or choose another one"));
  }
  if (!primary_works(context, *record) || !record->learners.empty()) {
    return refused_precondition(absl::StrCat(what, " is being repaired or moved. Wait until that is done"));
  }
  return changed(with_move(*record, event.from, replica_on(target->second, ReplicaLoads(context.state))),
                 context.state);
}

Decision decide(const TransferPrimary& event, const ViewContext& context) {
  const auto record = find_shard(event.table, event.shard, context.state);
  if (!record.ok()) return refused(record.status());
  const std::string what = shard_name(event.table, event.shard);
  const Replica* to = find_member(*record, event.to);
  if (to == nullptr) {
    return refused_precondition(absl::StrCat("node ", event.to, " is no member of ", what,
                                             ": only a member may lead it. Move the shard there first"));
  }
  if (is_primary(*record, event.to)) return nothing_to_do();
  if (!context.valid(*to) || !context.alive(event.to)) {
    return refused_precondition(
        absl::StrCat("node ", event.to, " is not alive and cannot lead ", what, ". Choose a live member"));
  }
  if (context.unserved(*record, event.to)) {
    return refused_precondition(absl::StrCat("node ", event.to, " cannot open its data of ", what,
                                             ". Choose another member; the trouble of that node says why"));
  }
  if (context.doubtful(*record, event.to)) {
    return refused_precondition(absl::StrCat("node ", event.to, " lost power and may lack writes of ", what,
                                             ". Choose another member, or wait until it has caught up"));
  }
  return changed(next_view(*record, event.to, context.leader_incarnation(*record, event.to, member_count(*record)), {}),
                 context.state);
}

Decision decide(const ForceRecover& event, const ViewContext& context) {
  const auto record = find_shard(event.table, event.shard, context.state);
  if (!record.ok()) return refused(record.status());
  const std::string what = shard_name(event.table, event.shard);
  const auto node = context.state.nodes.find(event.node);
  if (node == context.state.nodes.end()) return refused(no_such_node(event.node, context.state));
  for (const Replica& member : members_of(*record)) {
    if (context.valid(member) && context.serves(*record, member.node_uuid) &&
        !context.doubtful(*record, member.node_uuid)) {
      return refused_precondition(absl::StrCat(what, " has a live member with all its data, node ", member.node_uuid,
                                               ". Nothing needs to be forced"));
    }
  }
  const Learner* learner = find_learner(*record, event.node);
  const Replica* part = learner != nullptr ? &learner->replica : find_member(*record, event.node);
  if (part == nullptr && !may_be_needed(context, *record, event.node)) {
    return refused_precondition(absl::StrCat("node ", event.node, " is neither a member nor a learner of ", what,
                                             ", nor was it one lately. Choose one of those"));
  }
  if (!context.alive(event.node)) {
    return refused_precondition(absl::StrCat("node ", event.node, " is not alive. Start it, then recover from it"));
  }
  if (context.unserved(*record, event.node)) {
    return refused_precondition(
        absl::StrCat("node ", event.node, " cannot open what it has of ", what,
                     ", so nothing can go on from it. Mend what its trouble in the status names, "
                     "choose another node, or drop the table"));
  }
  const Replica replica = part != nullptr ? *part : replica_on(node->second, ReplicaLoads(context.state));
  return changed(with_former(context, *record, recovered_from(context, *record, replica)), context.state);
}

}  // namespace skua::control
