#include "control/core/cluster_core.h"

#include <algorithm>
#include <set>
#include <utility>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "control/core/cluster_limits.h"
#include "control/core/identity_rules.h"
#include "control/core/placement.h"
#include "control/core/replica_placement.h"
#include "control/core/revocation.h"
#include "control/core/table_names.h"
#include "control/core/text.h"
#include "control/core/view_rules.h"
#include "rpc/base/printable.h"

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

/// The answer if the table exists already. It is accepted if the caller said if_not_exists and the values that the
/// caller gave agree with the table.
Decision existing_table(const CreateTable& event, const Table& existing) {
  const auto agrees = [](uint32_t wish, uint32_t is) { return wish == 0 || wish == is; };
  if (event.if_not_exists && agrees(event.shard_count, existing.shard_count) &&
      agrees(event.replicas, existing.replicas) && agrees(event.min_insync, existing.min_insync) &&
      (!event.hash_tags || existing.hash_tags)) {
    Decision decision;
    decision.table = existing;
    return decision;
  }
  return refused(absl::AlreadyExistsError(
      absl::StrCat("table ", event.name, " exists with ", count_of(existing.shard_count, "shard"),
                   existing.replicas == 1 ? std::string() : absl::StrCat(" of ", existing.replicas, " replicas"),
                   event.hash_tags && !existing.hash_tags ? ", without hash tags" : "",
                   ". Use it, choose another name, or drop it first")));
}

/// `live`: number of nodes that can hold replicas. `old`: number of nodes that could, if their build were newer.
absl::Status too_few_nodes(const CreateTable& event, size_t live, size_t old) {
  std::string upgrade = "Start ";
  if (old > 0) {
    upgrade = absl::StrCat(old, " more are of a build that cannot hold replicas (replication version below ",
                           kReplicationVersionNeeded, ", see skuactl node list): upgrade them, or start ");
  }
  const std::string fewer = live == 0 ? "" : absl::StrCat(", or create it with ", count_of(live, "replica"));
  return absl::FailedPreconditionError(absl::StrCat("table ", event.name, " with ", event.replicas,
                                                    " replicas needs as many nodes, ", live, " can take shards. ",
                                                    upgrade, event.replicas - live, " more skuad", fewer));
}

}  // namespace

ClusterCore::ClusterCore(CoreOptions options, ClusterState state, TimeNs now)
    : options_(options), state_(std::move(state)) {
  match_status_to_state(now);
}

Decision ClusterCore::step(const Event& event, TimeNs now) {
  newest_ = now;
  return std::visit([&](const auto& kind) { return on(kind, now); }, event);
}

void ClusterCore::committed(const Changes& changes, TimeNs now) {
  views_.committed(context(now), changes.put_shards);
  apply(changes, state_);
  match_status_to_state(now);
}

void ClusterCore::reload(ClusterState state, TimeNs now) {
  state_ = std::move(state);
  views_.touch();
  match_status_to_state(now);
}

std::optional<NodeStatus> ClusterCore::node_status(const std::string& uuid) const {
  // A newcomer has a status already before its registration is committed, so the state is checked, too.
  const auto found = status_.find(uuid);
  if (found == status_.end() || !state_.nodes.contains(uuid)) return std::nullopt;
  return found->second;
}

std::vector<std::string> ClusterCore::lagging_owners(TableId table, uint64_t revision) const {
  std::set<std::string> lagging;
  for (auto it = state_.shards.lower_bound({table, 0}); it != state_.shards.end() && it->first.first == table; ++it) {
    for (const Replica& member : members_of(it->second)) {
      const auto status = node_status(member.node_uuid);
      if (!status || status->liveness != Liveness::kAlive || status->applied_revision < revision ||
          status->unserved.contains(it->first)) {
        lagging.insert(member.node_uuid);
      }
    }
  }
  return {lagging.begin(), lagging.end()};
}

Decision ClusterCore::on(const RegisterNode& event, TimeNs now) {
  const std::string who = describe_node(event.node);
  if (auto status = check_versions(who, event.node.versions); !status.ok()) return refused(status);
  if (auto status = check_cluster(who, event.cluster_id, state_); !status.ok()) {
    strangers_.note(event, now);
    return refused(status);
  }
  if (auto status = check_node_info(event.node); !status.ok()) return refused(status);
  if (auto status = check_node_allowed(event.node.uuid, state_); !status.ok()) return refused(status);

  const auto registered = state_.nodes.find(event.node.uuid);
  if (registered != state_.nodes.end()) {
    auto status =
        check_identity(event.node, registered->second, status_[event.node.uuid], now, options_.suspect_after_ns);
    if (!status.ok()) return refused(status);
  } else if (auto status = check_room(event.node, state_); !status.ok()) {
    return refused(status);
  }

  if (auto status = check_unlike_others(event.node, state_); !status.ok()) return refused(status);
  Decision decision = judge_claim(event);
  if (!decision.status.ok()) return decision;
  note_alive(event.node.uuid, event.applied_revision, now, decision);
  status_[event.node.uuid].trouble.clear();
  status_[event.node.uuid].unserved.clear();
  status_[event.node.uuid].security = {};
  NodeInfo node = event.node;
  if (registered != state_.nodes.end()) {
    node.draining = registered->second.draining;
    if (node.secret.empty()) node.secret = registered->second.secret;
  }
  if (registered == state_.nodes.end() || !(registered->second == node)) {
    decision.changes = next_changes();
    move_shards_off_missing_workers(node, decision.changes);
    decision.changes.put_nodes.push_back(std::move(node));
  }
  return decision;
}

Decision ClusterCore::judge_claim(const RegisterNode& event) const {
  Decision decision;
  if (!options_.claims_need_proof) return decision;
  const auto found = state_.nodes.find(event.node.uuid);
  const NodeInfo* registered = found == state_.nodes.end() ? nullptr : &found->second;
  const auto status = status_.find(event.node.uuid);
  const auto needed = addresses_to_ask(event.node, registered, status == status_.end() ? NodeStatus{} : status->second);
  if (needed.empty()) return decision;
  for (const std::string& address : needed) {
    const bool asked = std::any_of(event.answers.begin(), event.answers.end(),
                                   [&](const ClaimAnswer& answer) { return answer.address == address; });
    if (!asked) decision.ask.push_back(address);
  }
  decision.status = decision.ask.empty()
                        ? check_proof(event.node, registered, event.answers)
                        : absl::UnavailableError(absl::StrCat(
                              describe_node(event.node), " is not registered yet: the control plane asks at ",
                              absl::StrJoin(decision.ask, " and "), " first. Try again"));
  return decision;
}

Decision ClusterCore::on(const NodeHeartbeat& event, TimeNs now) {
  if (auto status = check_process(event.uuid, event.incarnation, event.instance); !status.ok()) return refused(status);
  Decision decision;
  note_alive(event.uuid, event.applied_revision, now, decision);
  NodeStatus& status = status_[event.uuid];
  status.trouble = cut_text(event.trouble, kTroubleBytesMax);
  status.clock_ahead_ns = event.clock_ahead_ns;
  status.security = event.security;
  status.copies.assign(event.copies.begin(),
                       event.copies.begin() + static_cast<ptrdiff_t>(std::min(event.copies.size(), kCopiesShownMax)));
  for (CopyReport& copy : status.copies) copy.text = cut_text(copy.text, kCopyTextMax);
  note_unserved(event);
  if (event.stopping) set_liveness(event.uuid, Liveness::kStopped, decision);
  return decision;
}

/// Keeps the report only for shards in which the node has a part. So its size is bounded, whatever the node sends.
void ClusterCore::note_unserved(const NodeHeartbeat& event) {
  std::map<ShardKey, std::string> unserved;
  for (const ShardRef& ref : event.unserved) {
    const auto record = state_.shards.find(ref.shard);
    if (record == state_.shards.end()) continue;
    const bool part =
        find_member(record->second, event.uuid) != nullptr || find_learner(record->second, event.uuid) != nullptr;
    if (part) unserved[ref.shard] = cut_text(ref.why, kUnservedWhyMax);
  }
  NodeStatus& status = status_[event.uuid];
  if (status.unserved == unserved) return;
  status.unserved = std::move(unserved);
  views_.touch();
}

Decision ClusterCore::on(const ReplicaReport& event, TimeNs now) {
  if (auto status = check_process(event.uuid, event.incarnation, event.instance); !status.ok()) return refused(status);
  Decision decision;
  note_alive(event.uuid, status_[event.uuid].applied_revision, now, decision);
  views_.note(context(now), event);
  plan_views(now, decision);
  return decision;
}

Decision ClusterCore::on(const CreateTable& event, TimeNs now) {
  if (!is_table_name(event.name)) {
    return refused(absl::InvalidArgumentError(absl::StrCat("\"", printable(event.name, kTableNameMax),
                                                           "\" is not a table name. Use 1 to ", kTableNameMax,
                                                           " letters, digits, '_', '-' or '.'")));
  }
  if (const Table* existing = state_.find_table(event.name)) return existing_table(event, *existing);
  if (auto status = check_new_table(event); !status.ok()) return refused(status);

  std::vector<PlacementNode> candidates;
  size_t replicating = 0;
  for (const auto& [uuid, node] : state_.nodes) {
    if (status_[uuid].liveness != Liveness::kAlive || node.draining) continue;
    candidates.push_back({uuid, node.worker_count});
    replicating += node.replicates() ? 1 : 0;
  }
  Placer placer(candidates, state_.shards, state_.next_table_id);
  if (!placer.has_candidates()) return refused(no_live_nodes());
  const uint32_t replicas = std::max(event.replicas, 1u);
  if (replicas > 1 && replicas > replicating) {
    return refused(too_few_nodes(event, replicating, candidates.size() - replicating));
  }

  const uint32_t wanted = event.shard_count != 0
                              ? event.shard_count
                              : std::min(placer.worker_count() * kDefaultShardsPerWorker, kShardsPerTableMax);
  if (state_.shards.size() + wanted > kShardsMax) {
    return refused(absl::ResourceExhaustedError(absl::StrCat(
        "table ", event.name, " with ", count_of(wanted, "shard"), " would bring the cluster to ",
        state_.shards.size() + wanted, "; the limit is ", kShardsMax, ". Use fewer shards or drop a table")));
  }
  Decision decision;
  decision.changes = next_changes();
  const uint32_t min_insync = event.min_insync != 0 ? event.min_insync : replicas / 2 + 1;
  decision.table =
      Table{state_.next_table_id, event.name, wanted, replicas, min_insync, event.read_anywhere, event.hash_tags};
  decision.changes.next_table_id = state_.next_table_id + 1;
  decision.changes.put_tables.push_back(*decision.table);
  if (replicas > 1) {
    decision.changes.put_shards = place_table(context(now), *decision.table);
    return decision;
  }
  for (uint32_t shard = 0; shard < wanted; ++shard) {
    ShardAssignment record{decision.table->id, shard, 1, placer.place()};
    record.primary->storage_incarnation = state_.nodes.at(record.primary->node_uuid).storage_incarnation;
    record.change = 1;
    decision.changes.put_shards.push_back(std::move(record));
  }
  return decision;
}

Decision ClusterCore::on(const DropTable& event, TimeNs) {
  const Table* table = state_.find_table(event.name);
  if (table == nullptr) return refused(no_such_table(event.name));
  Decision decision;
  decision.table = *table;
  decision.changes = next_changes();
  decision.changes.delete_tables.push_back(table->id);
  if (state_.grants.contains(table->id)) decision.changes.put_grants[table->id] = {};
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
  plan_views(now, decision);
  return decision;
}

void ClusterCore::plan_views(TimeNs now, Decision& decision) {
  std::vector<std::string> reasons;
  std::vector<ShardAssignment> records = views_.plan(context(now), &reasons);
  if (records.empty()) return;
  decision.changes = next_changes();
  decision.changes.put_shards = std::move(records);
  decision.changes.reasons = std::move(reasons);
}

void ClusterCore::note_alive(const std::string& uuid, uint64_t applied_revision, TimeNs now, Decision& decision) {
  NodeStatus& status = status_[uuid];
  if (status.liveness != Liveness::kAlive) views_.note_return(uuid, now);
  status.heard_ns = now;
  // No node has applied a map that there has not been.
  status.applied_revision = std::min(applied_revision, state_.map_revision);
  set_liveness(uuid, Liveness::kAlive, decision);
}

void ClusterCore::set_liveness(const std::string& uuid, Liveness to, Decision& decision) {
  NodeStatus& status = status_[uuid];
  if (status.liveness == to) return;
  decision.liveness_changes.push_back({uuid, status.liveness, to});
  views_.touch();
  status.liveness = to;
}

void ClusterCore::move_shards_off_missing_workers(const NodeInfo& node, Changes& changes) const {
  std::optional<Placer> placer;
  std::optional<TableId> placer_table;
  for (const auto& [key, shard] : state_.shards) {
    const Replica* member = find_member(shard, node.uuid);
    const Learner* learner = find_learner(shard, node.uuid);
    const Replica* replica = member != nullptr ? member : learner != nullptr ? &learner->replica : nullptr;
    if (replica == nullptr || replica->worker < node.worker_count) continue;
    if (placer_table != key.first) {
      placer_table = key.first;
      placer.emplace(std::vector<PlacementNode>{{node.uuid, node.worker_count}}, state_.shards, key.first);
    }
    // A shard's data belongs to the node, not to a worker: any remaining worker can open it.
    changes.put_shards.push_back(with_worker(shard, node.uuid, placer->place().worker));
    changes.reasons.emplace_back("its node has fewer workers now");
  }
}

absl::Status ClusterCore::check_new_table(const CreateTable& event) const {
  if (event.shard_count > kShardsPerTableMax) {
    return absl::InvalidArgumentError(absl::StrCat("table ", event.name, " with ", event.shard_count,
                                                   " shards: a table has 1 to ", kShardsPerTableMax));
  }
  if (event.replicas > kReplicasMax) {
    return absl::InvalidArgumentError(
        absl::StrCat("table ", event.name, " with ", event.replicas, " replicas: a shard has 1 to ", kReplicasMax));
  }
  const uint32_t replicas = std::max(event.replicas, 1u);
  if (event.min_insync > replicas) {
    return absl::InvalidArgumentError(absl::StrCat(
        "table ", event.name, " wants ", event.min_insync, " members in sync and has ", count_of(replicas, "replica"),
        ": no write could ever be acknowledged. Choose ", replicas == 1 ? "1" : absl::StrCat("1 to ", replicas)));
  }
  if (state_.tables.size() >= kTablesMax) {
    return absl::ResourceExhaustedError(
        absl::StrCat("the cluster has ", kTablesMax, " tables, which is the limit. Drop one first"));
  }
  return absl::OkStatus();
}

absl::Status ClusterCore::no_live_nodes() const {
  size_t unknown = 0;
  size_t draining = 0;
  for (const auto& [uuid, node] : state_.nodes) {
    const Liveness liveness = status_.at(uuid).liveness;
    if (liveness == Liveness::kUnknown) ++unknown;
    if (liveness == Liveness::kAlive && node.draining) ++draining;
  }
  if (unknown > 0) {
    return absl::UnavailableError(absl::StrCat("the control plane has just started and waits to hear from ",
                                               count_of(unknown, "node"), ". Try again in a few seconds"));
  }
  if (draining > 0) {
    return absl::FailedPreconditionError(absl::StrCat(
        "no storage node takes shards: ", draining, " of ", count_of(state_.nodes.size(), "node"),
        draining == 1 ? " is" : " are", " drained", draining < state_.nodes.size() ? ", the others are not alive" : "",
        ". Undrain one (skuactl node undrain), or start another skuad"));
  }
  if (state_.nodes.empty()) {
    return absl::FailedPreconditionError(
        "no storage node has joined yet. Start a skuad that points at this control plane (--control-address)");
  }
  return absl::FailedPreconditionError(
      absl::StrCat("no live storage node: ", count_of(state_.nodes.size(), "node"),
                   " registered, none of them alive. Start a skuad that points at this control plane"));
}

absl::Status ClusterCore::check_process(const std::string& uuid, uint64_t incarnation,
                                        const std::string& instance) const {
  if (auto status = check_node_allowed(uuid, state_); !status.ok()) return status;
  const auto registered = state_.nodes.find(uuid);
  return control::check_process(registered == state_.nodes.end() ? nullptr : &registered->second, uuid, incarnation,
                                instance, state_.cluster_id);
}

absl::Status ClusterCore::no_such_table(const std::string& name) const {
  std::vector<std::string> names;
  names.reserve(state_.tables.size());
  for (const auto& [id, table] : state_.tables) names.push_back(table.name);
  return control::no_such_table(name, absl::StrCat(" in cluster ", state_.cluster_name), names);
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
  for (auto& [uuid, status] : status_) {
    if (check_node_allowed(uuid, state_).ok()) continue;
    if (status.liveness != Liveness::kSuspected) views_.touch();
    status.liveness = Liveness::kSuspected;
    status.trouble = revoked_trouble(uuid);
  }
}

}  // namespace skua::control
