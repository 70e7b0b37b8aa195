#include "control/core/cluster_core.h"

#include <algorithm>
#include <set>
#include <utility>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "control/core/identity_rules.h"
#include "control/core/limits.h"
#include "control/core/placement.h"

namespace skua::control {
namespace {

Decision refused(absl::Status status) {
  Decision decision;
  decision.status = std::move(status);
  return decision;
}

bool is_table_name(const std::string& name) {
  if (name.empty() || name.size() > kTableNameMax) return false;
  return std::all_of(name.begin(), name.end(), [](char c) {
    return (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || (c >= '0' && c <= '9') || c == '_' || c == '-' ||
           c == '.';
  });
}

std::string table_names(const ClusterState& state) {
  constexpr size_t kShown = 8;
  std::vector<std::string> names;
  for (const auto& [id, table] : state.tables) {
    if (names.size() == kShown) return absl::StrCat(absl::StrJoin(names, ", "), ", ...");
    names.push_back(table.name);
  }
  return names.empty() ? std::string("none") : absl::StrJoin(names, ", ");
}

}  // namespace

const char* liveness_name(Liveness liveness) {
  switch (liveness) {
    case Liveness::kUnknown: return "unknown";
    case Liveness::kAlive: return "alive";
    case Liveness::kSuspected: return "suspected";
    case Liveness::kStopped: return "stopped";
  }
  return "unknown";
}

ClusterCore::ClusterCore(CoreOptions options, ClusterState state, TimeNs now)
    : options_(options), state_(std::move(state)) {
  match_status_to_state(now);
}

Decision ClusterCore::step(const Event& event, TimeNs now) {
  return std::visit([&](const auto& kind) { return on(kind, now); }, event);
}

void ClusterCore::committed(const Changes& changes, TimeNs now) {
  apply(changes, state_);
  match_status_to_state(now);
}

void ClusterCore::reload(ClusterState state, TimeNs now) {
  state_ = std::move(state);
  match_status_to_state(now);
}

std::optional<NodeStatus> ClusterCore::node_status(const std::string& uuid) const {
  // A newcomer has a status before its registration is committed.
  const auto found = status_.find(uuid);
  if (found == status_.end() || !state_.nodes.contains(uuid)) return std::nullopt;
  return found->second;
}

std::vector<std::string> ClusterCore::lagging_owners(TableId table, uint64_t revision) const {
  std::set<std::string> lagging;
  for (auto it = state_.shards.lower_bound({table, 0}); it != state_.shards.end() && it->first.first == table; ++it) {
    if (!it->second.primary) continue;
    const auto status = node_status(it->second.primary->node_uuid);
    if (!status || status->liveness != Liveness::kAlive || status->applied_revision < revision) {
      lagging.insert(it->second.primary->node_uuid);
    }
  }
  return {lagging.begin(), lagging.end()};
}

uint32_t ClusterCore::available_shard_count(TableId table) const {
  uint32_t count = 0;
  for (auto it = state_.shards.lower_bound({table, 0}); it != state_.shards.end() && it->first.first == table; ++it) {
    if (!it->second.primary) continue;
    const auto status = node_status(it->second.primary->node_uuid);
    if (status && status->liveness == Liveness::kAlive) ++count;
  }
  return count;
}

Decision ClusterCore::on(const RegisterNode& event, TimeNs now) {
  const std::string who = describe_node(event.node);
  if (auto status = check_versions(who, event.node.versions); !status.ok()) return refused(status);
  if (auto status = check_cluster(who, event.cluster_id, state_); !status.ok()) {
    return refused(status);
  }
  if (auto status = check_node_info(event.node); !status.ok()) return refused(status);

  const auto registered = state_.nodes.find(event.node.uuid);
  if (registered != state_.nodes.end()) {
    auto status =
        check_identity(event.node, registered->second, status_[event.node.uuid], now, options_.suspect_after_ns);
    if (!status.ok()) return refused(status);
  } else if (state_.nodes.size() >= kNodesMax) {
    return refused(absl::ResourceExhaustedError(absl::StrCat(
        who, " cannot join: the cluster has ", kNodesMax, " nodes, which is the limit. Remove nodes that are gone")));
  }

  Decision decision;
  note_alive(event.node.uuid, event.applied_revision, now, decision);
  status_[event.node.uuid].trouble.clear();
  if (registered == state_.nodes.end() || !(registered->second == event.node)) {
    decision.changes = next_changes();
    decision.changes.put_nodes.push_back(event.node);
    move_shards_off_missing_workers(event.node, decision.changes);
  }
  return decision;
}

Decision ClusterCore::on(const NodeHeartbeat& event, TimeNs now) {
  const auto registered = state_.nodes.find(event.uuid);
  if (registered == state_.nodes.end() || registered->second.incarnation < event.incarnation) {
    return refused(
        absl::NotFoundError(absl::StrCat("node ", event.uuid, " incarnation ", event.incarnation,
                                         " is not registered with cluster ", state_.cluster_id, ". Register again")));
  }
  if (registered->second.incarnation != event.incarnation || registered->second.instance != event.instance) {
    return refused(absl::FailedPreconditionError(absl::StrCat("node ", event.uuid, " incarnation ", event.incarnation,
                                                              " was replaced by ", describe_node(registered->second),
                                                              ". Stop this process: it must not serve any more")));
  }
  Decision decision;
  note_alive(event.uuid, event.applied_revision, now, decision);
  status_[event.uuid].trouble = event.trouble.substr(0, kTroubleBytesMax);
  if (event.stopping) set_liveness(event.uuid, Liveness::kStopped, decision);
  return decision;
}

Decision ClusterCore::on(const NodeLeave& event, TimeNs) {
  const auto registered = state_.nodes.find(event.uuid);
  if (registered == state_.nodes.end()) {
    return refused(absl::NotFoundError(absl::StrCat("no node ", event.uuid, " in cluster ", state_.cluster_name,
                                                    ". See the list of nodes in the status")));
  }
  const NodeInfo& node = registered->second;
  const bool by_itself = event.instance == node.instance;
  if (!by_itself && status_[event.uuid].liveness == Liveness::kUnknown) {
    return refused(
        absl::UnavailableError(absl::StrCat("the control plane has just started and does not know yet whether ",
                                            describe_node(node), " is alive. Try again in a few seconds")));
  }
  if (!by_itself && status_[event.uuid].liveness == Liveness::kAlive) {
    return refused(absl::FailedPreconditionError(
        absl::StrCat(describe_node(node), " is alive. Stop its process first, then remove it")));
  }
  Changes changes = next_changes();
  std::set<std::string> tables;
  for (const auto& [key, shard] : state_.shards) {
    if (!shard.primary || shard.primary->node_uuid != event.uuid) continue;
    const auto table = state_.tables.find(key.first);
    if (table != state_.tables.end()) tables.insert(table->second.name);
    changes.put_shards.push_back(shard);
    changes.put_shards.back().epoch += 1;
    changes.put_shards.back().primary.reset();
  }
  if (!changes.put_shards.empty() && !event.force) {
    return refused(absl::FailedPreconditionError(absl::StrCat(
        describe_node(node), " owns ", changes.put_shards.size(), " shards of ", absl::StrJoin(tables, ", "),
        ", and no other node has their data. Drop the tables first, or use force to "
        "give the data up")));
  }
  Decision decision;
  changes.delete_nodes.push_back(event.uuid);
  decision.changes = std::move(changes);
  return decision;
}

Decision ClusterCore::on(const CreateTable& event, TimeNs) {
  if (!is_table_name(event.name)) {
    return refused(absl::InvalidArgumentError(absl::StrCat("\"", event.name.substr(0, kTableNameMax),
                                                           "\" is not a table name. Use 1 to ", kTableNameMax,
                                                           " letters, digits, '_', '-' or '.'")));
  }
  if (const Table* existing = state_.find_table(event.name)) {
    const bool same = event.shard_count == 0 || event.shard_count == existing->shard_count;
    if (event.if_not_exists && same) {
      Decision decision;
      decision.table = *existing;
      return decision;
    }
    return refused(absl::AlreadyExistsError(absl::StrCat("table ", event.name, " exists with ", existing->shard_count,
                                                         " shards. Use it, choose another name, or drop it first")));
  }
  if (auto status = check_new_table(event); !status.ok()) return refused(status);

  std::vector<PlacementNode> candidates;
  for (const auto& [uuid, node] : state_.nodes) {
    if (status_[uuid].liveness == Liveness::kAlive) candidates.push_back({uuid, node.worker_count});
  }
  Placer placer(candidates, state_.shards, state_.next_table_id);
  if (!placer.has_candidates()) return refused(no_live_nodes());

  const uint32_t wanted = event.shard_count != 0
                              ? event.shard_count
                              : std::min(placer.worker_count() * kDefaultShardsPerWorker, kShardsPerTableMax);
  if (state_.shards.size() + wanted > kShardsMax) {
    return refused(absl::ResourceExhaustedError(absl::StrCat(
        "table ", event.name, " with ", wanted, " shards would bring the cluster to ", state_.shards.size() + wanted,
        "; the limit is ", kShardsMax, ". Use fewer shards or drop a table")));
  }
  Decision decision;
  decision.changes = next_changes();
  decision.table = Table{state_.next_table_id, event.name, wanted};
  decision.changes.next_table_id = state_.next_table_id + 1;
  decision.changes.put_tables.push_back(*decision.table);
  for (uint32_t shard = 0; shard < wanted; ++shard) {
    decision.changes.put_shards.push_back({decision.table->id, shard, 1, placer.place(), {}});
  }
  return decision;
}

Decision ClusterCore::on(const DropTable& event, TimeNs) {
  const Table* table = state_.find_table(event.name);
  if (table == nullptr) {
    return refused(
        absl::NotFoundError(absl::StrCat("no table \"", event.name.substr(0, kTableNameMax), "\" in cluster ",
                                         state_.cluster_name, "; there are: ", table_names(state_))));
  }
  Decision decision;
  decision.table = *table;
  decision.changes = next_changes();
  decision.changes.delete_tables.push_back(table->id);
  return decision;
}

Decision ClusterCore::on(const Tick&, TimeNs now) {
  Decision decision;
  for (auto& [uuid, status] : status_) {
    const bool waiting = status.liveness == Liveness::kAlive || status.liveness == Liveness::kUnknown;
    if (waiting && now - status.heard_ns > options_.suspect_after_ns) {
      set_liveness(uuid, Liveness::kSuspected, decision);
    }
  }
  return decision;
}

void ClusterCore::note_alive(const std::string& uuid, uint64_t applied_revision, TimeNs now, Decision& decision) {
  NodeStatus& status = status_[uuid];
  status.heard_ns = now;
  status.applied_revision = applied_revision;
  set_liveness(uuid, Liveness::kAlive, decision);
}

void ClusterCore::set_liveness(const std::string& uuid, Liveness to, Decision& decision) {
  NodeStatus& status = status_[uuid];
  if (status.liveness == to) return;
  decision.liveness_changes.push_back({uuid, status.liveness, to});
  status.liveness = to;
}

void ClusterCore::move_shards_off_missing_workers(const NodeInfo& node, Changes& changes) const {
  std::optional<Placer> placer;
  std::optional<TableId> placer_table;
  for (const auto& [key, shard] : state_.shards) {
    if (!shard.primary || shard.primary->node_uuid != node.uuid) continue;
    if (shard.primary->worker < node.worker_count) continue;
    if (placer_table != key.first) {
      placer_table = key.first;
      placer.emplace(std::vector<PlacementNode>{{node.uuid, node.worker_count}}, state_.shards, key.first);
    }
    // A shard's data is on the node, not on the worker: any of the workers that are left can open
    // it.
    changes.put_shards.push_back(shard);
    changes.put_shards.back().primary = placer->place();
    changes.put_shards.back().epoch += 1;
  }
}

absl::Status ClusterCore::check_new_table(const CreateTable& event) const {
  if (event.shard_count > kShardsPerTableMax) {
    return absl::InvalidArgumentError(absl::StrCat("table ", event.name, " with ", event.shard_count,
                                                   " shards: a table has 1 to ", kShardsPerTableMax));
  }
  if (state_.tables.size() >= kTablesMax) {
    return absl::ResourceExhaustedError(
        absl::StrCat("the cluster has ", kTablesMax, " tables, which is the limit. Drop one first"));
  }
  return absl::OkStatus();
}

absl::Status ClusterCore::no_live_nodes() const {
  const auto unknown = std::count_if(status_.begin(), status_.end(),
                                     [](const auto& entry) { return entry.second.liveness == Liveness::kUnknown; });
  if (unknown > 0) {
    return absl::UnavailableError(absl::StrCat("the control plane has just started and waits to hear from ", unknown,
                                               " nodes. Try again in a few seconds"));
  }
  return absl::FailedPreconditionError(
      absl::StrCat("no live storage node: ", state_.nodes.size(),
                   " are registered, none of them is alive. Start a skuad that points at this control plane"));
}

Changes ClusterCore::next_changes() const {
  Changes changes;
  changes.map_revision = state_.map_revision + 1;
  changes.next_table_id = state_.next_table_id;
  return changes;
}

void ClusterCore::match_status_to_state(TimeNs now) {
  for (const auto& [uuid, node] : state_.nodes) {
    status_.try_emplace(uuid, NodeStatus{Liveness::kUnknown, now, 0});
  }
  std::erase_if(status_, [&](const auto& entry) { return !state_.nodes.contains(entry.first); });
}

}  // namespace skua::control
