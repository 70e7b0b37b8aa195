#include "control/core/shard_repair.h"

#include <algorithm>
#include <set>
#include <vector>

#include "control/core/cluster_limits.h"

namespace skua::control {
namespace {

/// Number of members that have their data and are to stay.
size_t kept_count(const ViewContext& context, const ShardRecord& record) {
  size_t kept = 0;
  for (const Replica& member : members_of(record)) {
    if (context.valid(member) && !context.unwanted(record, member.node_uuid)) ++kept;
  }
  return kept;
}

/// Number of those members that are alive, serve the shard, and are not doubtful.
size_t standing_count(const ViewContext& context, const ShardRecord& record) {
  size_t standing = 0;
  for (const Replica& member : members_of(record)) {
    const std::string& uuid = member.node_uuid;
    const bool whole = context.valid(member) && !context.doubtful(record, uuid);
    if (whole && context.serves(record, uuid) && !context.unwanted(record, uuid)) ++standing;
  }
  return standing;
}

/// The shard has fewer members than writes need.
bool takes_no_writes(const ViewContext& context, const ShardRecord& record) {
  const auto table = context.state.tables.find(record.table_id);
  return table != context.state.tables.end() && member_count(record) < table->second.min_insync;
}

/// The next view: `primary` leads, and `removed` are no members any more.
ShardRecord view(const ViewContext& context, const ShardRecord& record, const std::string& primary,
                 const std::set<std::string>& removed) {
  const size_t members = member_count(record) - removed.size();
  return next_view(record, primary, context.leader_incarnation(record, primary, members), removed);
}

/// The member to remove if there is one too many: a backup that shares its zone with the most others; among equals the
/// one on the most loaded node.
std::string one_too_many(const ViewContext& context, const ReplicaLoads& loads, const ShardRecord& record) {
  const NodeInfo* worst = nullptr;
  size_t worst_conflicts = 0;
  for (const Replica& backup : record.backups) {
    const NodeInfo* node = context.node(backup.node_uuid);
    if (node == nullptr) continue;
    const size_t conflicts = zone_conflicts(context, record, node->zone, node->uuid);
    const bool worse = worst == nullptr || conflicts > worst_conflicts ||
                       (conflicts == worst_conflicts && lighter(loads.of(worst->uuid).replicas, worst->worker_count,
                                                                loads.of(node->uuid).replicas, node->worker_count));
    if (!worse) continue;
    worst = node;
    worst_conflicts = conflicts;
  }
  return worst == nullptr ? std::string() : worst->uuid;
}

}  // namespace

bool primary_works(const ViewContext& context, const ShardRecord& record) {
  return record.primary && context.valid(*record.primary) && context.serves(record, record.primary->node_uuid) &&
         !context.doubtful(record, record.primary->node_uuid);
}

bool is_single_copy(const ViewContext& context, const ShardRecord& record) {
  return record.backups.empty() && record.learners.empty() && record.leaving.empty() && !context.replicated(record);
}

NextRecord replace_lost_primary(const ViewContext& context, const ReplicaLoads& loads, const ShardRecord& record) {
  if (!record.primary) return std::nullopt;
  const std::string& primary = record.primary->node_uuid;
  const NodeInfo* node = context.node(primary);
  const bool lost = !context.valid(*record.primary);
  const bool restarted =
      node != nullptr && record.primary_incarnation != 0 && node->incarnation != record.primary_incarnation;
  if (!lost && !restarted && !context.stopped(primary)) return std::nullopt;
  const auto next = choose_primary(context, loads, record, {primary});
  if (lost || context.stopped(primary)) {
    if (next) return view(context, record, *next, {primary});
    const bool sole = member_count(record) == 1 && !context.replicated(record);
    if (lost && sole && node != nullptr && context.alive(primary)) {
      // No other node has the data. An owner that chose one replica accepts that the shard goes on with the data that
      // is left.
      return forked(record, {primary, record.primary->worker, node->storage_incarnation},
                    context.leader_incarnation(record, primary, 1));
    }
    return std::nullopt;
  }
  if (next) return view(context, record, *next, {});
  if (context.serves(record, primary) && !context.doubtful(record, primary)) return view(context, record, primary, {});
  return std::nullopt;
}

NextRecord replace_unfit_primary(const ViewContext& context, const ReplicaLoads& loads, const ShardRecord& record) {
  if (!record.primary) return std::nullopt;
  const std::string& primary = record.primary->node_uuid;
  if (!context.doubtful(record, primary) && !context.unserved(record, primary)) return std::nullopt;
  // Such a primary is lost: replace_lost_primary() handles it.
  if (!context.valid(*record.primary) || context.stopped(primary)) return std::nullopt;
  const auto next = choose_primary(context, loads, record, {primary});
  return next ? NextRecord(view(context, record, *next, {})) : std::nullopt;
}

NextRecord go_on_after_doubt(const ViewContext& context, const ShardRecord& record) {
  if (context.doubts == nullptr || !record.primary) return std::nullopt;
  const auto longest = context.doubts->longest_of_all(context, record);
  return longest ? NextRecord(recovered_from(context, record, *find_member(record, *longest))) : std::nullopt;
}

ShardRecord with_former(const ViewContext& context, const ShardRecord& before, ShardRecord after) {
  std::vector<std::string>& former = after.former;
  former.clear();
  if (member_count(after) >= context.wanted_replicas(after)) return after;
  former = before.former;
  for (const Replica& member : members_of(before)) former.push_back(member.node_uuid);
  for (const Learner& learner : before.learners) {
    const std::string& uuid = learner.replica.node_uuid;
    const bool removed = !primary_works(context, before) && find_learner(after, uuid) == nullptr;
    // In front, because it has less than those that were members.
    if (removed && std::ranges::find(former, uuid) == former.end()) former.insert(former.begin(), uuid);
  }
  std::erase_if(former, [&](const std::string& uuid) {
    return find_member(after, uuid) != nullptr || context.node(uuid) == nullptr;
  });
  if (former.size() > kReplicasMax) former.erase(former.begin(), former.end() - kReplicasMax);
  return after;
}

bool may_be_needed(const ViewContext& context, const ShardRecord& record, const std::string& uuid) {
  const bool former = std::ranges::find(record.former, uuid) != record.former.end();
  return (former || find_learner(record, uuid) != nullptr) && !primary_works(context, record);
}

ShardRecord recovered_from(const ViewContext& context, const ShardRecord& record, const Replica& replica) {
  const NodeInfo& node = *context.node(replica.node_uuid);
  const Replica sole{node.uuid, std::min(replica.worker, node.worker_count - 1), node.storage_incarnation};
  return forked(record, sole, context.leader_incarnation(record, node.uuid, 1));
}

NextRecord remove_lost_backups(const ViewContext& context, const ShardRecord& record) {
  // Without a working primary the view stays, so that people see which members there were.
  if (!primary_works(context, record)) return std::nullopt;
  const std::string& primary = record.primary->node_uuid;
  std::set<std::string> lost;
  for (const Replica& backup : record.backups) {
    const std::string& uuid = backup.node_uuid;
    const bool outlived = context.heard(primary) || context.status(primary).heard_ns > context.status(uuid).heard_ns;
    if (!context.valid(backup) || (context.stopped(uuid) && outlived)) lost.insert(uuid);
  }
  if (lost.empty()) return std::nullopt;
  return view(context, record, primary, lost);
}

std::optional<std::string> next_leader(const ViewContext& context, const ReplicaLoads& loads, const ShardRecord& record,
                                       bool must_be_heard) {
  if (!primary_works(context, record) || !context.yielding(record.primary->node_uuid)) return std::nullopt;
  std::set<std::string> unfit;
  for (const Replica& member : members_of(record)) {
    const std::string& uuid = member.node_uuid;
    const bool fit = context.replicates(uuid) && !context.yielding(uuid) && (context.heard(uuid) || !must_be_heard);
    // A member that is to leave does not lead: it would give the lead back (release_members), and so on.
    if (!fit || context.unwanted(record, uuid)) unfit.insert(uuid);
  }
  return choose_primary(context, loads, record, unfit);
}

NextRecord hand_over(const ViewContext& context, const ReplicaLoads& loads, const ShardRecord& record) {
  const auto next = next_leader(context, loads, record, true);
  return next ? NextRecord(view(context, record, *next, {})) : std::nullopt;
}

NextRecord release_members(const ViewContext& context, const ReplicaLoads& loads, const ViewHistory& history,
                           const ShardRecord& record) {
  if (!primary_works(context, record)) return std::nullopt;
  const std::string& primary = record.primary->node_uuid;
  const bool enough = standing_count(context, record) >= context.wanted_replicas(record);
  std::set<std::string> unwanted;
  for (const Replica& member : members_of(record)) {
    if (context.unwanted(record, member.node_uuid)) unwanted.insert(member.node_uuid);
  }
  std::string leader = primary;
  if (unwanted.contains(primary)) {
    if (!history.primary_is_stable(context, {record.table_id, record.shard})) return std::nullopt;
    const auto next = choose_primary(context, loads, record, unwanted);
    if (!next) return std::nullopt;
    leader = *next;
  }
  if (enough && !unwanted.empty()) return view(context, record, leader, unwanted);
  if (leader != primary) return view(context, record, leader, {});
  if (standing_count(context, record) > context.wanted_replicas(record)) {
    const std::string surplus = one_too_many(context, loads, record);
    if (!surplus.empty()) return view(context, record, primary, {surplus});
  }
  return std::nullopt;
}

NextRecord drop_learners(const ViewContext& context, const ShardRecord& record) {
  const bool useless =
      !context.replicated(record) || standing_count(context, record) >= context.wanted_replicas(record);
  for (const Learner& learner : record.learners) {
    const std::string& uuid = learner.replica.node_uuid;
    if (!context.valid(learner.replica) || useless || context.draining(uuid)) return without_learner(record, uuid);
    if (!context.gone(uuid)) continue;
    if (learner.join != 0) return without_join(record, uuid);
    if (context.now - context.status(uuid).heard_ns > context.options.replace_after_ns) {
      return without_learner(record, uuid);
    }
  }
  return std::nullopt;
}

bool lacks_members(const ViewContext& context, const ShardRecord& record) {
  return context.replicated(record) && kept_count(context, record) < context.wanted_replicas(record);
}

bool lacks_learners(const ViewContext& context, const ShardRecord& record) {
  return context.replicated(record) &&
         kept_count(context, record) + record.learners.size() < context.wanted_replicas(record);
}

NextRecord add_learner(const ViewContext& context, const ReplicaLoads& loads, const ViewHistory& history,
                       const ShardRecord& record, DurationNs incomplete_for) {
  if (!context.replicated(record) && !record.leaving.empty()) return without_leaving(record);
  if (!primary_works(context, record) || !lacks_learners(context, record)) return std::nullopt;
  // A former member waits before it comes back, because it may fail again and hold up writes. If the shard takes no
  // writes now, it comes back at once: it cannot hold up anything.
  const bool at_once = takes_no_writes(context, record);
  std::set<std::string> avoid;
  for (const auto& [uuid, may_return] : history.former_members(context, record)) {
    avoid.insert(uuid);
    const NodeInfo* node = context.node(uuid);
    const bool part = find_member(record, uuid) != nullptr || find_learner(record, uuid) != nullptr;
    const bool room = loads.of(uuid).learners < context.options.learners_per_node_max &&
                      loads.learners() < context.options.learners_max;
    const bool fit = node != nullptr && !node->draining && node->replicates();
    if (!part && (may_return || at_once) && room && fit && context.heard(uuid)) {
      return with_learner(record, replica_on(*node, loads));
    }
  }
  // A member that is to leave is replaced at once. For a lost member the shard waits, since it may come back.
  const bool lost_one = member_count(record) + record.learners.size() < context.wanted_replicas(record);
  if (!lost_one || incomplete_for >= context.options.replace_after_ns) {
    if (auto replica = choose_learner(context, loads, record, avoid)) return with_learner(record, *replica);
  }
  // The target of a move is gone, and no other node can take its place: the move ends.
  const bool draining = std::any_of(record.leaving.begin(), record.leaving.end(),
                                    [&](const auto& uuid) { return context.draining(uuid); });
  if (!record.leaving.empty() && record.learners.empty() && !draining) return without_leaving(record);
  return std::nullopt;
}

}  // namespace skua::control
