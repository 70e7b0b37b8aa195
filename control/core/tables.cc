#include "control/core/tables.h"

#include <algorithm>
#include <cstddef>
#include <utility>
#include <vector>

#include "absl/strings/str_cat.h"
#include "control/core/cluster_limits.h"
#include "control/core/placement.h"
#include "control/core/replica_placement.h"
#include "control/core/table_names.h"
#include "control/core/text.h"
#include "rpc/base/printable.h"

namespace skua::control {
namespace {

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
      (!event.hash_tags || existing.hash_tags) && (!event.read_anywhere || existing.read_anywhere)) {
    Decision decision;
    decision.table = existing;
    return decision;
  }
  return refused(absl::AlreadyExistsError(
      absl::StrCat("table ", event.name, " exists with ", count_of(existing.shard_count, "shard"),
                   existing.replicas == 1 ? std::string() : absl::StrCat(" of ", existing.replicas, " replicas"),
                   event.hash_tags && !existing.hash_tags ? ", without hash tags" : "",
                   event.read_anywhere && !existing.read_anywhere ? ", without read_anywhere" : "",
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

absl::Status check_new_table(const CreateTable& event, const ClusterState& state) {
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
  if (state.tables.size() >= kTablesMax) {
    return absl::ResourceExhaustedError(
        absl::StrCat("the cluster has ", kTablesMax, " tables, which is the limit. Drop one first"));
  }
  return absl::OkStatus();
}

absl::Status no_live_nodes(const ViewContext& context) {
  size_t unknown = 0;
  size_t draining = 0;
  for (const auto& [uuid, node] : context.state.nodes) {
    const Liveness liveness = context.status(uuid).liveness;
    if (liveness == Liveness::kUnknown) ++unknown;
    if (liveness == Liveness::kAlive && node.draining) ++draining;
  }
  if (unknown > 0) {
    return absl::UnavailableError(absl::StrCat("the control plane has just started and waits to hear from ",
                                               count_of(unknown, "node"), ". Try again in a few seconds"));
  }
  if (draining > 0) {
    return absl::FailedPreconditionError(
        absl::StrCat("no storage node takes shards: ", draining, " of ", count_of(context.state.nodes.size(), "node"),
                     draining == 1 ? " is" : " are", " drained",
                     draining < context.state.nodes.size() ? ", the others are not alive" : "",
                     ". Undrain one (skuactl node undrain), or start another skuad"));
  }
  if (context.state.nodes.empty()) {
    return absl::FailedPreconditionError(
        "no storage node has joined yet. Start a skuad that points at this control plane (--control-address)");
  }
  return absl::FailedPreconditionError(
      absl::StrCat("no live storage node: ", count_of(context.state.nodes.size(), "node"),
                   " registered, none of them alive. Start a skuad that points at this control plane"));
}

}  // namespace

absl::Status no_such_table(const std::string& name, const ClusterState& state) {
  std::vector<std::string> names;
  names.reserve(state.tables.size());
  for (const auto& [id, table] : state.tables) names.push_back(table.name);
  return no_such_table(name, absl::StrCat(" in cluster ", state.cluster_name), names);
}

Decision decide(const CreateTable& event, const ViewContext& context) {
  const ClusterState& state = context.state;
  if (!is_table_name(event.name)) {
    return refused(absl::InvalidArgumentError(absl::StrCat("\"", printable(event.name, kTableNameMax),
                                                           "\" is not a table name. Use 1 to ", kTableNameMax,
                                                           " letters, digits, '_', '-' or '.'")));
  }
  if (const Table* existing = state.find_table(event.name)) return existing_table(event, *existing);
  if (auto status = check_new_table(event, state); !status.ok()) return refused(status);

  std::vector<PlacementNode> candidates;
  size_t replicating = 0;
  for (const auto& [uuid, node] : state.nodes) {
    if (!context.alive(uuid) || node.draining) continue;
    candidates.push_back({uuid, node.worker_count});
    replicating += node.replicates() ? 1 : 0;
  }
  Placer placer(candidates, state.shards, state.next_table_id);
  if (!placer.has_candidates()) return refused(no_live_nodes(context));
  const uint32_t replicas = std::max(event.replicas, 1u);
  if (replicas > 1 && replicas > replicating) {
    return refused(too_few_nodes(event, replicating, candidates.size() - replicating));
  }

  const uint32_t wanted = event.shard_count != 0
                              ? event.shard_count
                              : std::min(placer.worker_count() * kDefaultShardsPerWorker, kShardsPerTableMax);
  if (state.shards.size() + wanted > kShardsMax) {
    return refused(absl::ResourceExhaustedError(absl::StrCat(
        "table ", event.name, " with ", count_of(wanted, "shard"), " would bring the cluster to ",
        state.shards.size() + wanted, "; the limit is ", kShardsMax, ". Use fewer shards or drop a table")));
  }
  Decision decision;
  decision.changes = next_changes(state);
  const uint32_t min_insync = event.min_insync != 0 ? event.min_insync : replicas / 2 + 1;
  decision.table =
      Table{state.next_table_id, event.name, wanted, replicas, min_insync, event.read_anywhere, event.hash_tags};
  decision.changes.next_table_id = state.next_table_id + 1;
  decision.changes.put_tables.push_back(*decision.table);
  if (replicas > 1) {
    decision.changes.put_shards = place_table(context, *decision.table);
    return decision;
  }
  for (uint32_t shard = 0; shard < wanted; ++shard) {
    ShardRecord record{decision.table->id, shard, 1, placer.place()};
    record.primary->storage_incarnation = state.nodes.at(record.primary->node_uuid).storage_incarnation;
    record.change = 1;
    decision.changes.put_shards.push_back(std::move(record));
  }
  return decision;
}

Decision decide(const DropTable& event, const ClusterState& state) {
  const Table* table = state.find_table(event.name);
  if (table == nullptr) return refused(no_such_table(event.name, state));
  Decision decision;
  decision.table = *table;
  decision.changes = next_changes(state);
  decision.changes.delete_tables.push_back(table->id);
  if (state.grants.contains(table->id)) decision.changes.put_grants[table->id] = {};
  return decision;
}

}  // namespace skua::control
