// Operators' requests to the core: removing nodes, moving and recovering shards, and the progress of these.
#include <algorithm>
#include <set>
#include <utility>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "control/core/cluster_core.h"
#include "control/core/cluster_limits.h"
#include "control/core/identity_rules.h"
#include "control/core/shard_repair.h"
#include "control/core/text.h"
#include "control/core/uuid.h"
#include "rpc/base/printable.h"

namespace skua::control {
namespace {

Decision refused(absl::Status status) {
  Decision decision;
  decision.status = std::move(status);
  return decision;
}

Decision refused_precondition(const std::string& message) {
  return refused(absl::FailedPreconditionError(message));
}

/// The shard's record after this node, which may be the only member, has been removed from it.
ShardAssignment without_node(const ViewContext& context, const ShardAssignment& record, const std::string& uuid) {
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

std::string shard_name(const std::string& table, uint32_t shard) {
  return absl::StrCat("shard ", shard, " of table ", table);
}

/// The decision if the record is already as the operator wants it.
Decision nothing_to_do() {
  return {};
}

}  // namespace

Decision ClusterCore::on(const NodeLeave& event, TimeNs now) {
  const auto registered = state_.nodes.find(event.uuid);
  if (registered == state_.nodes.end()) return refused(no_such_node(event.uuid));
  const NodeInfo& node = registered->second;
  const bool by_itself = event.instance == node.instance;
  if (!by_itself && status_[event.uuid].liveness == Liveness::kUnknown) {
    return refused(
        absl::UnavailableError(absl::StrCat("the control plane has just started and does not know yet whether ",
                                            describe_node(node), " is alive. Try again in a few seconds")));
  }
  if (!by_itself && status_[event.uuid].liveness == Liveness::kAlive) {
    return refused_precondition(absl::StrCat(describe_node(node), " is alive. Stop its process first, then remove it"));
  }
  Changes changes = next_changes();
  std::set<std::string> tables;
  size_t owned = 0;
  size_t shared = 0;
  for (const auto& [key, shard] : state_.shards) {
    const bool member = find_member(shard, event.uuid) != nullptr;
    if (!member && find_learner(shard, event.uuid) == nullptr) continue;
    changes.put_shards.push_back(without_node(context(now), shard, event.uuid));
    changes.reasons.push_back(absl::StrCat(by_itself ? "" : "operator: ", short_uuid(event.uuid), " is removed"));
    if (!member) continue;
    member_count(shard) == 1 ? ++owned : ++shared;
    const auto table = state_.tables.find(key.first);
    if (table != state_.tables.end()) tables.insert(table->second.name);
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
  changes.delete_nodes.push_back(event.uuid);
  decision.changes = std::move(changes);
  return decision;
}

Decision ClusterCore::on(const DrainNode& event, TimeNs) {
  return set_draining(event.uuid, true);
}

Decision ClusterCore::on(const UndrainNode& event, TimeNs) {
  return set_draining(event.uuid, false);
}

Decision ClusterCore::set_draining(const std::string& uuid, bool draining) {
  const auto registered = state_.nodes.find(uuid);
  if (registered == state_.nodes.end()) return refused(no_such_node(uuid));
  if (registered->second.draining == draining) return nothing_to_do();
  Decision decision;
  decision.changes = next_changes();
  decision.changes.put_nodes.push_back(registered->second);
  decision.changes.put_nodes.back().draining = draining;
  return decision;
}

Decision ClusterCore::on(const MoveShard& event, TimeNs now) {
  const auto record = find_shard(event.table, event.shard);
  if (!record.ok()) return refused(record.status());
  const std::string what = shard_name(event.table, event.shard);
  const auto target = state_.nodes.find(event.to);
  if (target == state_.nodes.end()) return refused(no_such_node(event.to));
  if (find_member(*record, event.from) == nullptr) {
    return refused_precondition(
        absl::StrCat(what, " has no member on node ", event.from, ". See its members in the shard map"));
  }
  if (!context(now).replicated(*record)) {
    return refused_precondition(
        absl::StrCat(what, " stays where it is: table ", event.table,
                     " has one replica, and nodes do not copy such tables. Write its rows into "
                     "a table with more replicas (skuactl table create --replicas 2), or drop it"));
  }
  if (is_leaving(*record, event.from) && find_learner(*record, event.to) != nullptr) return nothing_to_do();
  if (find_member(*record, event.to) != nullptr || find_learner(*record, event.to) != nullptr) {
    return refused_precondition(absl::StrCat(what, " is on node ", event.to, " already. Choose a node without it"));
  }
  if (!context(now).alive(event.to) || target->second.draining) {
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
  if (!primary_works(context(now), *record) || !record->learners.empty()) {
    return refused_precondition(absl::StrCat(what, " is being repaired or moved. Wait until that is done"));
  }
  return changed(with_move(*record, event.from, replica_on(target->second, ReplicaLoads(state_))));
}

Decision ClusterCore::on(const TransferPrimary& event, TimeNs now) {
  const auto record = find_shard(event.table, event.shard);
  if (!record.ok()) return refused(record.status());
  const std::string what = shard_name(event.table, event.shard);
  const Replica* to = find_member(*record, event.to);
  if (to == nullptr) {
    return refused_precondition(absl::StrCat("node ", event.to, " is no member of ", what,
                                             ": only a member may lead it. Move the shard there first"));
  }
  if (is_primary(*record, event.to)) return nothing_to_do();
  if (!context(now).valid(*to) || !context(now).alive(event.to)) {
    return refused_precondition(
        absl::StrCat("node ", event.to, " is not alive and cannot lead ", what, ". Choose a live member"));
  }
  if (context(now).unserved(*record, event.to)) {
    return refused_precondition(absl::StrCat("node ", event.to, " cannot open its data of ", what,
                                             ". Choose another member; the trouble of that node says why"));
  }
  if (context(now).doubtful(*record, event.to)) {
    return refused_precondition(absl::StrCat("node ", event.to, " lost power and may lack writes of ", what,
                                             ". Choose another member, or wait until it has caught up"));
  }
  return changed(
      next_view(*record, event.to, context(now).leader_incarnation(*record, event.to, member_count(*record)), {}));
}

Decision ClusterCore::on(const ForceRecover& event, TimeNs now) {
  const auto record = find_shard(event.table, event.shard);
  if (!record.ok()) return refused(record.status());
  const std::string what = shard_name(event.table, event.shard);
  const auto node = state_.nodes.find(event.node);
  if (node == state_.nodes.end()) return refused(no_such_node(event.node));
  const ViewContext view = context(now);
  for (const Replica& member : members_of(*record)) {
    if (view.valid(member) && view.serves(*record, member.node_uuid) && !view.doubtful(*record, member.node_uuid)) {
      return refused_precondition(absl::StrCat(what, " has a live member with all its data, node ", member.node_uuid,
                                               ". Nothing needs to be forced"));
    }
  }
  const Learner* learner = find_learner(*record, event.node);
  const Replica* replica = learner != nullptr ? &learner->replica : find_member(*record, event.node);
  if (replica == nullptr) {
    return refused_precondition(absl::StrCat("node ", event.node, " is neither a member nor a learner of ", what,
                                             " and has nothing of it. Choose one of those"));
  }
  if (!view.alive(event.node)) {
    return refused_precondition(absl::StrCat("node ", event.node, " is not alive. Start it, then recover from it"));
  }
  if (view.unserved(*record, event.node)) {
    return refused_precondition(
        absl::StrCat("node ", event.node, " cannot open what it has of ", what,
                     ", so nothing can go on from it. Mend what its trouble in the status names, "
                     "choose another node, or drop the table"));
  }
  return changed(recovered_from(view, *record, *replica));
}

absl::Status ClusterCore::no_such_node(const std::string& uuid) const {
  return absl::NotFoundError(absl::StrCat(
      "no node ", printable(uuid, kAddressMax), " in cluster ", state_.cluster_name,
      state_.nodes.empty() ? ", which has no nodes yet" : ". skuactl node list shows those that there are"));
}

absl::StatusOr<ShardAssignment> ClusterCore::find_shard(const std::string& table, uint32_t shard) const {
  const Table* found = state_.find_table(table);
  if (found == nullptr) return no_such_table(table);
  if (shard >= found->shard_count) {
    const std::string there =
        found->shard_count == 1 ? "one shard, 0" : absl::StrCat("shards 0 to ", found->shard_count - 1);
    return absl::NotFoundError(absl::StrCat("table ", table, " has ", there, ", no shard ", shard));
  }
  return state_.shards.at({found->id, shard});
}

Decision ClusterCore::changed(ShardAssignment record) const {
  Decision decision;
  decision.changes = next_changes();
  decision.changes.put_shards.push_back(std::move(record));
  decision.changes.reasons.emplace_back("operator");
  return decision;
}

// Progress
// ------------------------------------------------------------------------------------------------------------

uint32_t ClusterCore::available_shard_count(TableId table) const {
  const ViewContext view = context(newest_);
  uint32_t count = 0;
  for (auto it = state_.shards.lower_bound({table, 0}); it != state_.shards.end() && it->first.first == table; ++it) {
    if (primary_works(view, it->second)) ++count;
  }
  return count;
}

uint32_t ClusterCore::settled_shard_count(TableId table) const {
  const ViewContext view = context(newest_);
  uint32_t count = 0;
  for (auto it = state_.shards.lower_bound({table, 0}); it != state_.shards.end() && it->first.first == table; ++it) {
    if (is_settled(view, it->second)) ++count;
  }
  return count;
}

std::vector<std::string> ClusterCore::shard_troubles(size_t max) const {
  const ViewContext view = context(newest_);
  std::vector<std::string> troubles;
  for (const auto& [key, record] : state_.shards) {
    if (troubles.size() >= max) break;
    const std::string trouble = shard_trouble(view, record);
    const auto table = state_.tables.find(key.first);
    if (trouble.empty() || table == state_.tables.end()) continue;
    troubles.push_back(absl::StrCat(shard_name(table->second.name, key.second), " is not served: ", trouble));
  }
  return troubles;
}

std::string ClusterCore::drain_progress(const std::string& uuid) const {
  const ViewContext view = context(newest_);
  if (!view.draining(uuid)) return {};
  // With an empty load, the limits on learners do not count: a shard that only waits for its turn is not stuck.
  const ReplicaLoads no_load{ClusterState{}};
  size_t moving = 0;
  size_t stuck = 0;
  size_t waiting = 0;             // shards that wait for a node that has the data
  std::set<std::string> staying;  // unreplicated tables, whose shards nodes do not copy
  for (const auto& [key, record] : state_.shards) {
    if (find_member(record, uuid) == nullptr) continue;
    if (!view.replicated(record)) {
      const auto table = state_.tables.find(key.first);
      if (table != state_.tables.end()) staying.insert(table->second.name);
      continue;
    }
    ++moving;
    if (!primary_works(view, record)) ++waiting;
    if (!primary_works(view, record) || !lacks_members(view, record) || !record.learners.empty()) continue;
    if (!choose_learner(view, no_load, record, {})) ++stuck;
  }
  std::string text;
  if (moving > 0) text = absl::StrCat(count_of(moving, "shard"), " still to be moved");
  if (stuck > 0) {
    absl::StrAppend(&text, ", ", stuck,
                    " of them cannot be: no other live node has room for one more replica. Start another skuad, or "
                    "undrain a node");
  }
  if (waiting > 0) {
    absl::StrAppend(&text, stuck > 0 ? "; " : ", ", waiting, " of them cannot be while nobody serves them",
                    view.gone(uuid) ? ": this node does not run, start it again" : "; see the troubles in the status");
  }
  if (!staying.empty()) {
    const size_t count = state_.staying_shard_count(uuid);
    absl::StrAppend(&text, text.empty() ? "" : "; ", count_of(count, "shard"), count == 1 ? " stays" : " stay",
                    " here: tables with one replica are not copied (", few_of({staying.begin(), staying.end()}),
                    "). Write their rows into tables with more replicas, then drop them");
  }
  return text;
}

std::vector<std::string> ClusterCore::hints(size_t max) const {
  std::vector<std::string> hints;
  for (const auto& [uuid, node] : state_.nodes) {
    if (hints.size() >= max) break;
    const NodeStatus& status = context(newest_).status(uuid);
    const DurationNs silent = newest_ - status.heard_ns;
    if (!context(newest_).gone(uuid) || silent < kForgottenNodeNs || state_.replica_count(uuid) != 0) continue;
    hints.push_back(absl::StrCat("node ", uuid, " has not been heard of for ", rough_time(silent),
                                 " and holds nothing: start it again, or skuactl node remove ", uuid));
  }
  return hints;
}

}  // namespace skua::control
