#include "control/core/accusations.h"

#include <algorithm>

#include "absl/strings/str_cat.h"
#include "control/core/text.h"
#include "control/core/uuid.h"

namespace skua::control {
namespace {

constexpr size_t kReasonBytesMax = 100;

/// The next view, without backup `uuid`.
ShardRecord without_backup(const ViewContext& context, const ShardRecord& record, const std::string& uuid) {
  const std::string& primary = record.primary->node_uuid;
  return next_view(record, primary, context.leader_incarnation(record, primary, member_count(record) - 1), {uuid});
}

/// The next view after the primary said that it cannot go on in this epoch: another member leads, or if none can, the
/// same primary in a new epoch.
std::optional<ShardRecord> resigned(const ViewContext& context, const ReplicaLoads& loads, const ViewHistory& history,
                                    const ShardRecord& record) {
  const std::string& primary = record.primary->node_uuid;
  if (!history.primary_is_stable(context, key_of(record))) return std::nullopt;
  const std::string next = choose_primary(context, loads, record, {primary}).value_or(primary);
  return next_view(record, next, context.leader_incarnation(record, next, member_count(record)), {});
}

/// The members that must not lead after a primary that `accusers` accuse: the primary, and if all accusers are
/// doubtful, also the members that have not accused. One of these could turn out to be doubtful, too, when the primary,
/// perhaps the only member that has everything, is already removed.
template <typename Accusers>
std::set<std::string> kept_from_leading(const ViewContext& context, const ShardRecord& record,
                                        const Accusers& accusers) {
  std::set<std::string> kept{record.primary->node_uuid};
  const bool sure = std::any_of(accusers.begin(), accusers.end(),
                                [&](const auto& entry) { return !context.doubtful(record, entry.first); });
  for (const Replica& member : record.backups) {
    if (!sure && !accusers.contains(member.node_uuid)) kept.insert(member.node_uuid);
  }
  return kept;
}

}  // namespace

DurationNs ViewHistory::Timer::lasting(const ShardKey& shard, bool holds, TimeNs now) {
  if (!holds) {
    since_.erase(shard);
    return 0;
  }
  return now - since_.try_emplace(shard, now).first->second;
}

void ViewHistory::Timer::forget_unknown(const ClusterState& state) {
  std::erase_if(since_, [&](const auto& entry) { return !state.shards.contains(entry.first); });
}

void ViewHistory::observe(const ViewContext& context, const ShardRecord& before, const ShardRecord& after) {
  if (before.epoch == after.epoch) return;
  const ShardKey shard = key_of(after);
  if (before.primary && after.primary && before.primary->node_uuid != after.primary->node_uuid) {
    primary_changed_[shard] = context.now;
  }
  for (const Replica& member : members_of(before)) {
    const std::string& uuid = member.node_uuid;
    if (find_member(after, uuid) != nullptr || context.unwanted(before, uuid)) continue;
    // A member that is removed because there was one too many has not failed.
    if (member_count(before) > context.wanted_replicas(before)) continue;
    const auto [removal, first_time] = removals_[shard].try_emplace(uuid);
    const bool forked = before.fork != after.fork;  // removed by a fork: the member has not failed
    const bool ejected = !forked && context.valid(member) && !context.gone(uuid);
    removal->second.at = context.now;
    // A member that was removed before counts as well, so that nodes which come and go repeatedly must wait.
    if (ejected || !first_time) removal->second.setbacks += 1;
    if (!ejected) continue;
    ejected_[shard] = context.now;
    if (context.heard(uuid)) ejected_nodes_[uuid] = context.now;
  }
}

void ViewHistory::prune(const ViewContext& context) {
  const ViewOptions& options = context.options;
  const auto older = [&](TimeNs at, DurationNs than) { return context.now - at > than; };
  std::erase_if(primary_changed_, [&](const auto& e) { return older(e.second, options.primary_stability_ns); });
  std::erase_if(ejected_, [&](const auto& e) { return older(e.second, options.ejection_interval_ns); });
  std::erase_if(ejected_nodes_,
                [&](const auto& e) { return older(e.second, options.ejected_for_ns) || !context.alive(e.first); });
  for (auto& [shard, nodes] : removals_) {
    std::erase_if(nodes, [&](const auto& e) { return older(e.second.at, options.rejoin_memory_ns); });
  }
  std::erase_if(removals_, [&](const auto& e) { return e.second.empty() || !context.state.shards.contains(e.first); });
  incomplete.forget_unknown(context.state);
}

bool ViewHistory::primary_is_stable(const ViewContext& context, const ShardKey& shard) const {
  const auto found = primary_changed_.find(shard);
  return found == primary_changed_.end() || context.now - found->second >= context.options.primary_stability_ns;
}

bool ViewHistory::may_eject(const ViewContext& context, const ShardKey& shard, const std::string& uuid) const {
  const ViewOptions& options = context.options;
  const auto last = ejected_.find(shard);
  if (last != ejected_.end() && context.now - last->second < options.ejection_interval_ns) return false;
  size_t others = 0;
  for (const auto& [node, at] : ejected_nodes_) {
    if (node != uuid && context.alive(node) && context.now - at < options.ejected_for_ns) ++others;
  }
  const auto live = static_cast<size_t>(std::count_if(context.statuses.begin(), context.statuses.end(),
                                                      [&](const auto& entry) { return context.alive(entry.first); }));
  return others < std::max(options.ejected_min, live / std::max<size_t>(options.ejected_one_in, 1));
}

std::map<std::string, bool> ViewHistory::former_members(const ViewContext& context, const ShardRecord& record) const {
  std::map<std::string, bool> former;
  for (const std::string& uuid : record.former) former[uuid] = true;
  const auto found = removals_.find(key_of(record));
  if (found == removals_.end()) return former;
  for (const auto& [uuid, removal] : found->second) {
    DurationNs wait = removal.setbacks == 0 ? 0 : context.options.rejoin_ns;
    for (uint32_t i = 1; i < removal.setbacks && wait < context.options.rejoin_max_ns; ++i) wait *= 2;
    former[uuid] = context.now - removal.at >= std::min(wait, context.options.rejoin_max_ns);
  }
  return former;
}

bool Accusations::note(const ViewContext& context, const std::string& accuser,
                       const std::vector<Suspicion>& suspicions) {
  Accused noted;
  for (const Suspicion& suspicion : suspicions) note(context, accuser, suspicion, noted);
  const bool withdrew = withdraw(accuser, noted);
  return withdrew || !noted.empty();
}

bool Accusations::withdraw(const std::string& accuser, const Accused& still) {
  size_t withdrawn = 0;
  for (auto& [shard, of_shard] : shards_) {
    for (auto& [accused, accusers] : of_shard.accused) {
      if (!still.contains({shard, accused})) withdrawn += accusers.erase(accuser);
    }
  }
  return withdrawn > 0;
}

void Accusations::note(const ViewContext& context, const std::string& accuser, const Suspicion& suspicion,
                       Accused& noted) {
  for (const ShardAtEpoch& at : suspicion.shards) {
    const auto found = context.state.shards.find(at.shard);
    if (found == context.state.shards.end() || found->second.epoch != at.epoch) continue;
    const ShardRecord& record = found->second;
    const Replica* witness = find_member(record, accuser);
    if (witness == nullptr || !context.valid(*witness)) continue;
    if (suspicion.accused == accuser && !is_primary(record, accuser)) continue;
    const bool known =
        find_member(record, suspicion.accused) != nullptr || find_learner(record, suspicion.accused) != nullptr;
    if (!known) continue;
    OfShard& of_shard = shards_[at.shard];
    if (of_shard.epoch != at.epoch) of_shard = {at.epoch, {}};
    Times& times =
        of_shard.accused[suspicion.accused].try_emplace(accuser, Times{context.now, context.now}).first->second;
    times.last = context.now;
    times.reason = cut_text(suspicion.reason, kReasonBytesMax);
    noted.insert({at.shard, suspicion.accused});
  }
}

void Accusations::prune(const ViewContext& context) {
  for (auto& [key, of_shard] : shards_) {
    for (auto& [accused, accusers] : of_shard.accused) {
      std::erase_if(accusers,
                    [&](const auto& e) { return context.now - e.second.last > context.options.accusation_ttl_ns; });
    }
    std::erase_if(of_shard.accused, [](const auto& e) { return e.second.empty(); });
  }
  std::erase_if(shards_, [&](const auto& entry) {
    const auto record = context.state.shards.find(entry.first);
    return entry.second.accused.empty() || record == context.state.shards.end() ||
           record->second.epoch != entry.second.epoch;
  });
}

void Accusations::forget(const ShardKey& shard, const std::string& accused) {
  const auto found = shards_.find(shard);
  if (found != shards_.end()) found->second.accused.erase(accused);
}

std::set<ShardKey> Accusations::accused_shards() const {
  std::set<ShardKey> keys;
  for (const auto& [key, of_shard] : shards_) keys.insert(key);
  return keys;
}

std::optional<ShardRecord> Accusations::judge(const ViewContext& context, const ReplicaLoads& loads,
                                              const ViewHistory& history, const ShardRecord& record) const {
  const auto found = shards_.find(key_of(record));
  if (found == shards_.end() || found->second.epoch != record.epoch || !record.primary) return std::nullopt;
  // A doubtful primary does not lead. A member that the others accuse may be the only one that has everything.
  if (context.doubtful(record, record.primary->node_uuid)) return std::nullopt;
  const auto& accused = found->second.accused;
  const auto of_primary = accused.find(record.primary->node_uuid);
  if (of_primary != accused.end()) {
    if (of_primary->second.contains(record.primary->node_uuid)) return resigned(context, loads, history, record);
    if (auto next = judge_primary(context, loads, history, record, of_primary->second)) return next;
  }
  for (const auto& [uuid, accusers] : accused) {
    if (is_primary(record, uuid)) continue;
    if (const Learner* learner = find_learner(record, uuid)) {
      if (learner->join != 0 && accusers.contains(record.primary->node_uuid)) return without_join(record, uuid);
    } else if (auto next = judge_backup(context, history, record, uuid, accusers)) {
      return next;
    }
  }
  return std::nullopt;
}

std::string Accusations::why(const ShardRecord& record, const ShardRecord& next) const {
  const auto found = shards_.find(key_of(record));
  if (found == shards_.end()) return {};
  std::string others;  // accusations that were not believed
  for (const auto& [accused, accusers] : found->second.accused) {
    if (accusers.contains(accused)) return absl::StrCat("its primary ", short_uuid(accused), " needs a new epoch");
    std::string said = absl::StrCat(short_uuid(accused), " is suspected by");
    for (const auto& [accuser, times] : accusers) {
      absl::StrAppend(&said, " ", short_uuid(accuser), times.reason.empty() ? "" : ": ", times.reason);
    }
    const Learner* const learner = find_learner(next, accused);
    const bool hit = find_member(next, accused) == nullptr && (learner == nullptr || learner->join == 0);
    if (hit) return said;
    others = said;
  }
  return absl::StrCat(others, ", but the control plane hears it");
}

std::optional<ShardRecord> Accusations::judge_primary(const ViewContext& context, const ReplicaLoads& loads,
                                                      const ViewHistory& history, const ShardRecord& record,
                                                      const std::map<std::string, Times>& accusers) const {
  const std::string& primary = record.primary->node_uuid;
  const ShardKey shard = key_of(record);
  bool all = true;
  TimeNs first = kTimeNever;
  for (const Replica& member : record.backups) {
    const std::string& uuid = member.node_uuid;
    if (!context.valid(member) || context.gone(uuid)) continue;
    const auto accuser = accusers.find(uuid);
    if (accuser == accusers.end()) {
      all = false;
    } else {
      first = std::min(first, accuser->second.first);
    }
  }
  if (first == kTimeNever) return std::nullopt;
  const bool heard = context.heard(primary);
  if (all || !heard) {
    // A control plane that has just started does not know whether the primary is silent.
    if (!all && context.status(primary).liveness == Liveness::kUnknown) return std::nullopt;
    // may_eject() does not limit this removal: without it the shard could not go on, or its primary would have the
    // others removed.
    if (heard && !history.primary_is_stable(context, shard)) return std::nullopt;
    const auto next = choose_primary(context, loads, record, kept_from_leading(context, record, accusers));
    if (!next) return std::nullopt;
    return next_view(record, *next, context.leader_incarnation(record, *next, member_count(record) - 1), {primary});
  }
  if (context.now - first < context.options.accusation_window_ns || context.status(primary).heard_ns <= first) {
    return std::nullopt;
  }
  for (const auto& [uuid, times] : accusers) {
    if (find_member(record, uuid) == nullptr || context.gone(uuid)) continue;
    if (context.heard(uuid) && !history.may_eject(context, shard, uuid)) continue;
    return without_backup(context, record, uuid);
  }
  return std::nullopt;
}

std::optional<ShardRecord> Accusations::judge_backup(const ViewContext& context, const ViewHistory& history,
                                                     const ShardRecord& record, const std::string& accused,
                                                     const std::map<std::string, Times>& accusers) const {
  if (find_member(record, accused) == nullptr) return std::nullopt;
  if (!accusers.contains(record.primary->node_uuid)) {
    // An accusation by doubtful members alone does not count: it could remove the last member that has everything.
    const bool counts = std::any_of(accusers.begin(), accusers.end(),
                                    [&](const auto& entry) { return !context.doubtful(record, entry.first); });
    if (!counts || !context.gone(accused)) return std::nullopt;
  }
  if (context.heard(accused) && !history.may_eject(context, key_of(record), accused)) return std::nullopt;
  return without_backup(context, record, accused);
}

}  // namespace skua::control
