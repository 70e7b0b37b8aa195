#include "control/core/view_manager.h"

#include <algorithm>
#include <set>
#include <utility>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "control/core/cluster_limits.h"
#include "control/core/rebalance.h"
#include "control/core/shard_repair.h"
#include "control/core/text.h"
#include "control/core/uuid.h"
#include "rpc/base/check.h"

namespace skua::control {
namespace {

const ShardRecord* record_at(const ViewContext& context, const ShardAtEpoch& at) {
  const auto found = context.state.shards.find(at.shard);
  return found == context.state.shards.end() || found->second.epoch != at.epoch ? nullptr : &found->second;
}

/// Whether the node's registered process leads this view.
bool leads(const ViewContext& context, const ShardRecord& record, const std::string& uuid) {
  if (!is_primary(record, uuid) || !context.valid(*record.primary)) return false;
  return record.primary_incarnation == 0 || record.primary_incarnation == context.node(uuid)->incarnation;
}

const Learner* joining_learner(const ShardRecord& record) {
  const auto found = std::find_if(record.learners.begin(), record.learners.end(),
                                  [](const Learner& learner) { return learner.join != 0; });
  return found == record.learners.end() ? nullptr : &*found;
}

std::string node_list(const std::vector<std::string>& uuids) {
  return absl::StrCat(uuids.size() == 1 ? "node " : "nodes ", absl::StrJoin(uuids, ", "));
}

/// Why members' doubts keep the shard from being served; empty if they do not.
std::string doubt_trouble(const ViewContext& context, const ShardRecord& record) {
  std::vector<std::string> doubtful;
  std::vector<std::string> awaited;
  bool all = true;
  for (const Replica& member : members_of(record)) {
    const std::string& uuid = member.node_uuid;
    const bool doubts = context.doubtful(record, uuid);
    const bool there = context.valid(member) && context.serves(record, uuid);
    if (there && !doubts && !is_primary(record, uuid)) return {};
    if (doubts) doubtful.push_back(uuid);
    if (context.valid(member) && !there) {
      awaited.push_back(context.unserved(record, uuid) ? absl::StrCat(uuid, " (when it can open its data)") : uuid);
    }
    all = all && there && doubts;
  }
  if (doubtful.empty()) return {};
  const std::string who = node_list(doubtful);
  if (all) return absl::StrCat("all its members, ", who, ", lost power; the longest log goes on in a moment");
  const std::string lost = absl::StrCat(who, " lost power and may lack acknowledged writes; ");
  constexpr const char* kWayOut = "go on without those writes (skuactl shard recover)";
  if (awaited.empty()) return absl::StrCat(lost, "no other member has its data: ", kWayOut);
  return absl::StrCat(lost, "start ", node_list(awaited), " again, which may have what they lack, or ", kWayOut);
}

/// Why the shard is not served, if its primary is alive but says that it cannot open its data.
std::string unserved_trouble(const ViewContext& context, const ShardRecord& record) {
  const std::string& primary = record.primary->node_uuid;
  const NodeStatus& status = context.status(primary);
  const auto said = status.unserved.find({record.table_id, record.shard});
  std::string why = said == status.unserved.end() ? std::string() : said->second;
  if (why.empty()) why = cut_text(status.trouble, kUnservedWhyMax);
  std::string what = absl::StrCat("its primary, node ", primary, ", cannot open its data",
                                  why.empty() ? "; its log says why" : ": ", why);
  const std::vector<Replica> members = members_of(record);
  std::vector<std::string> others;  // members that have the data but are not alive
  for (const Replica& member : members) {
    if (is_primary(record, member.node_uuid) || !context.valid(member)) continue;
    if (context.serves(record, member.node_uuid) && !context.doubtful(record, member.node_uuid)) {
      return absl::StrCat(what, "; another member takes over in a moment");
    }
    if (!context.alive(member.node_uuid)) others.push_back(member.node_uuid);
  }
  if (others.empty()) return what;
  return absl::StrCat(what, "; there are other copies: start ", node_list(others));
}

}  // namespace

/// One call of plan().
class ViewManager::Planner {
 public:
  Planner(ViewManager& manager, const ViewContext& context)
      : manager_(manager), context_(context), loads_(context.state) {}

  std::vector<ShardRecord> run() {
    for (const ShardKey& key : manager_.accusations_.accused_shards()) visit(context_.state.shards.at(key));
    for (const auto& [key, record] : context_.state.shards) {
      if (full()) break;
      visit(record);
    }
    if (records_.empty()) rebalance();
    return std::move(records_);
  }
  [[nodiscard]] std::vector<std::string> take_reasons() { return std::move(reasons_); }

 private:
  [[nodiscard]] bool full() const { return records_.size() >= context_.options.records_per_change_max; }

  void visit(const ShardRecord& record) {
    if (full() || planned_.contains(key_of(record))) return;
    const bool single = is_single_copy(context_, record);
    const bool incomplete = !single && lacks_learners(context_, record);
    const DurationNs incomplete_for = manager_.history_.incomplete.lasting(key_of(record), incomplete, context_.now);
    if (!single) watch(record);
    auto next = unfit_primary(record);
    if (!next) next = single ? lost_primary(record) : step(record, incomplete_for);
    if (next) propose(record, *std::move(next));
  }

  void watch(const ShardRecord& record) {
    const bool moving = !record.leaving.empty() && !record.learners.empty();
    if (moving) ++moves_;
    if (!moving && !is_settled(context_, record)) manager_.trouble_at_ = context_.now;
    auto& since = manager_.joining_since_;
    const Learner* joining = joining_learner(record);
    if (joining == nullptr) {
      since.erase(key_of(record));
    } else if (since[key_of(record)].first != joining->join) {
      since[key_of(record)] = {joining->join, context_.now};
    }
  }

  /// Applies the first rule that matches, after those of unfit_primary(). Sets `why_`.
  NextRecord step(const ShardRecord& record, DurationNs incomplete_for) {
    const ViewHistory& history = manager_.history_;
    if (auto next = manager_.accusations_.judge(context_, loads_, history, record)) {
      why_ = manager_.accusations_.why(record, *next);
      return next;
    }
    if (auto next = lost_primary(record)) return next;
    if (auto next = because("a backup has stopped or lost its data", remove_lost_backups(context_, record)))
      return next;
    if (auto next = because("a learner has everything and is a member", promote(record))) return next;
    if (auto next = hand_over(context_, loads_, record)) {
      why_ = absl::StrCat("its primary ", short_uuid(record.primary->node_uuid), " stops soon");
      return next;
    }
    if (auto next = release_members(context_, loads_, history, record)) {
      why_ = why_released(record);
      return next;
    }
    if (auto next = because("a learner is not needed, or is gone", drop_learners(context_, record))) return next;
    if (auto next = because("a learner was waited for too long", end_long_join(record))) return next;
    if (auto next = because("a learner has caught up", begin_join(record))) return next;
    return because("repair: a replica is missing", add_learner(context_, loads_, history, record, incomplete_for));
  }

  NextRecord because(const char* why, NextRecord next) {
    if (next) why_ = why;
    return next;
  }

  NextRecord unfit_primary(const ShardRecord& record) {
    if (auto next = replace_unfit_primary(context_, loads_, record)) {
      const std::string& primary = record.primary->node_uuid;
      why_ = absl::StrCat("its primary ", short_uuid(primary),
                          context_.doubtful(record, primary) ? " lost power and may lack acknowledged writes"
                                                             : " cannot open its data");
      return next;
    }
    return because("all members lost power: the longest log goes on", go_on_after_doubt(context_, record));
  }

  NextRecord lost_primary(const ShardRecord& record) {
    auto next = replace_lost_primary(context_, loads_, record);
    if (!next) return next;
    const std::string& primary = record.primary->node_uuid;
    const char* const what = !context_.valid(*record.primary) ? " lost its data"
                             : context_.stopped(primary)      ? " has stopped"
                                                              : " was started again";
    why_ = absl::StrCat("its primary ", short_uuid(primary), what);
    return next;
  }

  [[nodiscard]] std::string why_released(const ShardRecord& record) const {
    for (const Replica& member : members_of(record)) {
      if (context_.draining(member.node_uuid)) return absl::StrCat(short_uuid(member.node_uuid), " is drained");
    }
    return record.leaving.empty() ? "a replica more than needed" : "move";
  }

  NextRecord promote(const ShardRecord& record) const {
    const auto fact = manager_.ready_.find(key_of(record));
    if (fact == manager_.ready_.end() || fact->second.epoch != record.epoch) return std::nullopt;
    const Learner* learner = find_learner(record, fact->second.learner);
    if (learner == nullptr || learner->join == 0 || learner->join != fact->second.join) return std::nullopt;
    const std::string& uuid = learner->replica.node_uuid;
    if (!primary_works(context_, record) || !context_.valid(learner->replica) || !context_.serves(record, uuid)) {
      return std::nullopt;
    }
    return promoted(record, uuid,
                    context_.leader_incarnation(record, record.primary->node_uuid, member_count(record) + 1));
  }

  NextRecord begin_join(const ShardRecord& record) const {
    const auto facts = manager_.caught_up_.find(key_of(record));
    if (facts == manager_.caught_up_.end() || joining_learner(record) != nullptr) return std::nullopt;
    if (!primary_works(context_, record) || !manager_.may_join(context_, key_of(record))) return std::nullopt;
    for (const Learner& learner : record.learners) {
      const std::string& uuid = learner.replica.node_uuid;
      const auto fact = facts->second.find(uuid);
      if (fact == facts->second.end() || fact->second.epoch != record.epoch) continue;
      const bool fit = context_.valid(learner.replica) && context_.heard(uuid) && !context_.unserved(record, uuid);
      if (fit) return with_join(record, uuid);
    }
    return std::nullopt;
  }

  NextRecord end_long_join(const ShardRecord& record) const {
    const auto since = manager_.joining_since_.find(key_of(record));
    if (since == manager_.joining_since_.end()) return std::nullopt;
    const Learner* joining = joining_learner(record);
    if (joining == nullptr || context_.now - since->second.second < context_.options.join_timeout_ns) {
      return std::nullopt;
    }
    return without_join(record, joining->replica.node_uuid);
  }

  void rebalance() {
    const ViewOptions& options = context_.options;
    if (!options.rebalance || context_.now < manager_.next_rebalance_) return;
    if (!manager_.trouble_at_) manager_.trouble_at_ = context_.now;
    if (context_.now - *manager_.trouble_at_ < options.rebalance_quiet_ns) return;
    for (const auto& [uuid, status] : context_.statuses) {
      if (status.liveness == Liveness::kUnknown) return;
    }
    manager_.next_rebalance_ = context_.now + options.rebalance_interval_ns;
    if (moves_ < options.moves_max) records_ = rebalance_replicas(context_, loads_, options.moves_max - moves_);
    // Primaries are balanced only when no replica moves, because a moving replica may take the primary with it.
    if (records_.empty() && moves_ == 0) {
      records_ = rebalance_primaries(context_, loads_, manager_.history_, options.transfers_max);
    }
    for (const ShardRecord& record : records_) check(context_.state.shards.at(key_of(record)), record);
    reasons_.assign(records_.size(), "balance");
  }

  void propose(const ShardRecord& before, ShardRecord next) {
    ShardRecord after = with_former(context_, before, std::move(next));
    check(before, after);
    loads_.replace(before, after);
    planned_.insert(key_of(after));
    records_.push_back(std::move(after));
    reasons_.push_back(std::exchange(why_, {}));
  }

  static void check(const ShardRecord& before, const ShardRecord& after) {
    const std::string broken = check_successor(before, after);
    SKUA_CHECK(broken.empty(), broken.c_str());
  }

  ViewManager& manager_;
  const ViewContext& context_;
  ReplicaLoads loads_;
  std::vector<ShardRecord> records_;
  std::vector<std::string> reasons_;
  std::string why_;  // the reason of the record that is about to be proposed
  std::set<ShardKey> planned_;
  size_t moves_ = 0;
};

void ViewManager::note(const ViewContext& context, const ReplicaReport& report) {
  for (const Doubt& doubt : report.doubts) {
    if (doubts_.note(context, report.uuid, doubt)) note_change();
  }
  if (accusations_.note(context, report.uuid, report.suspicions)) note_change();
  for (const CaughtUp& fact : report.caught_up) {
    const ShardRecord* record = record_at(context, fact.shard);
    if (record == nullptr || find_learner(*record, fact.learner) == nullptr) continue;
    if (!leads(context, *record, report.uuid) && report.uuid != fact.learner) continue;
    caught_up_[fact.shard.shard][fact.learner] = {fact.shard.epoch, context.now};
  }
  for (const JoinReady& fact : report.join_ready) {
    const ShardRecord* record = record_at(context, fact.shard);
    if (record == nullptr || !leads(context, *record, report.uuid)) continue;
    const Learner* learner = find_learner(*record, fact.learner);
    if (learner == nullptr || fact.join == 0 || learner->join != fact.join) continue;
    ready_[fact.shard.shard] = {fact.shard.epoch, fact.learner, fact.join};
  }
  if (!report.caught_up.empty() || !report.join_ready.empty()) note_change();
}

std::vector<ShardRecord> ViewManager::plan(const ViewContext& context, std::vector<std::string>* reasons) {
  if (!dirty_ && context.now < next_scan_ && accusations_.empty()) return {};
  prune(context);
  dirty_ = false;
  next_scan_ = context.now + context.options.scan_interval_ns;
  Planner planner(*this, context);
  std::vector<ShardRecord> records = planner.run();
  if (reasons != nullptr) *reasons = planner.take_reasons();
  // The next plan looks at all shards again, whether or not these records are stored.
  if (!records.empty()) note_change();
  return records;
}

void ViewManager::committed(const ViewContext& context, const std::vector<ShardRecord>& records) {
  for (const ShardRecord& after : records) {
    const auto found = context.state.shards.find(key_of(after));
    if (found == context.state.shards.end()) continue;
    const ShardRecord& before = found->second;
    history_.observe(context, before, after);
    const Learner* was = joining_learner(before);
    if (was == nullptr) continue;
    const Learner* is = find_learner(after, was->replica.node_uuid);
    if (find_member(after, was->replica.node_uuid) != nullptr) {
      join_setbacks_.erase(key_of(after));
    } else if (before.epoch == after.epoch && (is == nullptr || is->join == 0)) {
      accusations_.forget(key_of(after), was->replica.node_uuid);
      Setback& setback = join_setbacks_[key_of(after)];
      setback.count += 1;
      setback.at = context.now;
    }
  }
  note_change();
}

bool ViewManager::may_join(const ViewContext& context, const ShardKey& shard) const {
  const auto found = join_setbacks_.find(shard);
  if (found == join_setbacks_.end()) return true;
  DurationNs wait = context.options.rejoin_ns;
  for (uint32_t i = 1; i < found->second.count && wait < context.options.rejoin_max_ns; ++i) wait *= 2;
  return context.now - found->second.at >= std::min(wait, context.options.rejoin_max_ns);
}

void ViewManager::prune(const ViewContext& context) {
  doubts_.prune(context);
  accusations_.prune(context);
  history_.prune(context);
  const auto stale = [&](const ShardKey& key, uint64_t epoch) { return record_at(context, {key, epoch}) == nullptr; };
  for (auto& [key, facts] : caught_up_) {
    std::erase_if(facts, [&, &shard = key](const auto& fact) {
      return stale(shard, fact.second.epoch) || context.now - fact.second.at > context.options.accusation_ttl_ns;
    });
  }
  std::erase_if(caught_up_, [](const auto& entry) { return entry.second.empty(); });
  std::erase_if(ready_, [&](const auto& entry) { return stale(entry.first, entry.second.epoch); });
  const auto unknown = [&](const auto& entry) { return !context.state.shards.contains(entry.first); };
  std::erase_if(joining_since_, unknown);
  std::erase_if(join_setbacks_, [&](const auto& entry) {
    return unknown(entry) || context.now - entry.second.at > context.options.rejoin_memory_ns;
  });
}

std::string shard_trouble(const ViewContext& context, const ShardRecord& record) {
  if (!record.primary) return "its last member was removed by force; drop the table";
  const std::string& primary = record.primary->node_uuid;
  std::vector<Replica> members = members_of(record);
  if (primary_works(context, record)) return {};
  const bool hope = std::any_of(members.begin(), members.end(), [&](const Replica& m) { return context.valid(m); });
  if (!hope) {
    return absl::StrCat("every member lost its storage, node ", primary,
                        " last; bring back what they had, or recover the shard by force and lose its newest writes");
  }
  if (std::string doubt = doubt_trouble(context, record); !doubt.empty()) return doubt;
  if (context.doubtful(record, primary)) {
    return absl::StrCat("its primary, node ", primary, ", lost power; another member takes over in a moment");
  }
  if (!context.valid(*record.primary)) {
    return absl::StrCat("its primary, node ", primary, ", lost its storage and no other member is alive; start them");
  }
  if (context.alive(primary)) return unserved_trouble(context, record);
  return absl::StrCat(
      "its primary, node ", primary, ", is ", liveness_name(context.status(primary).liveness),
      member_count(record) > 1 ? "; another member takes over when it misses it" : "; start that node again");
}

bool is_settled(const ViewContext& context, const ShardRecord& record) {
  if (!primary_works(context, record) || !record.learners.empty() || !record.leaving.empty()) return false;
  if (member_count(record) != context.wanted_replicas(record)) return false;
  const std::vector<Replica> members = members_of(record);
  return std::all_of(members.begin(), members.end(), [&](const Replica& member) {
    const std::string& uuid = member.node_uuid;
    return context.valid(member) && context.serves(record, uuid) && !context.draining(uuid) &&
           !context.doubtful(record, uuid);
  });
}

}  // namespace skua::control
