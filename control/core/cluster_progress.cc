#include "control/core/cluster_progress.h"

#include <algorithm>
#include <set>

#include "absl/strings/str_cat.h"
#include "control/core/cluster_limits.h"
#include "control/core/replica_placement.h"
#include "control/core/shard_repair.h"
#include "control/core/text.h"
#include "control/core/view_manager.h"

namespace skua::control {

namespace {

/// The number of the table's shards whose records are so.
template <typename Predicate>
uint32_t count_shards(TableId table, const ClusterState& state, const Predicate& is_so) {
  uint32_t count = 0;
  for (auto it = state.shards.lower_bound({table, 0}); it != state.shards.end() && it->first.first == table; ++it) {
    if (is_so(it->second)) ++count;
  }
  return count;
}

/// Whether the shard has a backup of which this process, having just started, does not know whether it is alive, and
/// which could lead if it is.
bool awaits_member(const ViewContext& context, const ShardRecord& record) {
  return primary_works(context, record) && std::ranges::any_of(record.backups, [&](const Replica& backup) {
           const std::string& uuid = backup.node_uuid;
           return context.status(uuid).liveness == Liveness::kUnknown && context.valid(backup) &&
                  context.replicates(uuid) && !context.unwanted(record, uuid);
         });
}

/// Which nodes have an older copy of a shard of which no member is there, for people; empty: none that is known of.
std::string older_copies(const ViewContext& context, const ShardRecord& record) {
  const auto is_there = [&](const Replica& member) {
    return context.valid(member) && context.serves(record, member.node_uuid);
  };
  if (record.former.empty() || std::ranges::any_of(members_of(record), is_there)) return {};
  return absl::StrCat("; if no member ever comes back, recover it from an older copy (skuactl shard recover), on ",
                      few_of(record.former));
}

}  // namespace

std::vector<std::string> lagging_owners(const ViewContext& context, TableId table, uint64_t revision) {
  std::set<std::string> lagging;
  const auto& shards = context.state.shards;
  for (auto it = shards.lower_bound({table, 0}); it != shards.end() && it->first.first == table; ++it) {
    for (const Replica& member : members_of(it->second)) {
      const std::string& uuid = member.node_uuid;
      const bool current = context.status(uuid).applied_revision >= revision;
      if (!current || !context.serves(it->second, uuid)) lagging.insert(uuid);
    }
  }
  return {lagging.begin(), lagging.end()};
}

uint32_t available_shard_count(const ViewContext& context, TableId table) {
  return count_shards(table, context.state, [&](const ShardRecord& record) { return primary_works(context, record); });
}

uint32_t settled_shard_count(const ViewContext& context, TableId table) {
  return count_shards(table, context.state, [&](const ShardRecord& record) { return is_settled(context, record); });
}

std::vector<std::string> shard_troubles(const ViewContext& context, size_t max) {
  std::vector<std::string> troubles;
  for (const auto& [key, record] : context.state.shards) {
    if (troubles.size() >= max) break;
    const std::string trouble = shard_trouble(context, record);
    const auto table = context.state.tables.find(key.first);
    if (trouble.empty() || table == context.state.tables.end()) continue;
    troubles.push_back(absl::StrCat(shard_name(table->second.name, key.second), " is not served: ", trouble,
                                    older_copies(context, record)));
  }
  return troubles;
}

YieldProgress yield_progress(const ViewContext& context, const std::string& uuid) {
  const ReplicaLoads no_load{ClusterState{}};
  const auto lags = [&](const std::string& node) {
    return context.status(node).applied_revision < context.state.map_revision;
  };
  YieldProgress progress{.lags = lags(uuid)};
  for (const auto& [key, record] : context.state.shards) {
    if (!record.primary || find_member(record, uuid) == nullptr) continue;
    const std::string& primary = record.primary->node_uuid;
    if (primary != uuid) {
      progress.lags = progress.lags || (lags(primary) && !context.gone(primary));
    } else if (next_leader(context, no_load, record, false) || awaits_member(context, record)) {
      // A member that is late with a heartbeat counts: the node waits until the member is heard, or is suspected.
      ++progress.left;
    }
  }
  return progress;
}

std::string drain_progress(const ViewContext& context, const std::string& uuid) {
  if (!context.draining(uuid)) return {};
  // With an empty load, the limits on learners do not count: a shard that only waits for its turn is not stuck.
  const ReplicaLoads no_load{ClusterState{}};
  size_t moving = 0;
  size_t stuck = 0;
  size_t waiting = 0;             // shards that wait for a node that has the data
  std::set<std::string> staying;  // unreplicated tables, whose shards nodes do not copy
  for (const auto& [key, record] : context.state.shards) {
    if (find_member(record, uuid) == nullptr) continue;
    if (!context.replicated(record)) {
      const auto table = context.state.tables.find(key.first);
      if (table != context.state.tables.end()) staying.insert(table->second.name);
      continue;
    }
    ++moving;
    if (!primary_works(context, record)) ++waiting;
    if (!primary_works(context, record) || !lacks_members(context, record) || !record.learners.empty()) continue;
    if (!choose_learner(context, no_load, record, {})) ++stuck;
  }
  std::string text;
  if (moving > 0) text = absl::StrCat(count_of(moving, "shard"), " still to be moved");
  if (stuck > 0) {
    absl::StrAppend(&text, ", ", stuck,
                    " of them cannot be: no other live node has room for one more replica. Start another skuad, or "
                    "undrain a node");
  }
  if (waiting > 0) {
    absl::StrAppend(
        &text, stuck > 0 ? "; " : ", ", waiting, " of them cannot be while nobody serves them",
        context.gone(uuid) ? ": this node does not run, start it again" : "; see the troubles in the status");
  }
  if (!staying.empty()) {
    const size_t count = context.state.staying_shard_count(uuid);
    absl::StrAppend(&text, text.empty() ? "" : "; ", count_of(count, "shard"), count == 1 ? " stays" : " stay",
                    " here: tables with one replica are not copied (", few_of({staying.begin(), staying.end()}),
                    "). Write their rows into tables with more replicas, then drop them");
  }
  return text;
}

std::vector<std::string> hints(const ViewContext& context, size_t max) {
  std::vector<std::string> hints;
  for (const auto& [uuid, node] : context.state.nodes) {
    if (hints.size() >= max) break;
    const NodeStatus& status = context.status(uuid);
    const DurationNs silent = context.now - status.heard_ns;
    if (!context.gone(uuid) || silent < kForgottenNodeNs || context.state.replica_count(uuid) != 0) continue;
    const auto needs = [&, &id = uuid](const auto& shard) { return may_be_needed(context, shard.second, id); };
    if (std::ranges::any_of(context.state.shards, needs)) continue;
    hints.push_back(absl::StrCat("node ", uuid, " has not been heard of for ", rough_time(silent),
                                 " and holds nothing: start it again, or skuactl node remove ", uuid));
  }
  return hints;
}

}  // namespace skua::control
