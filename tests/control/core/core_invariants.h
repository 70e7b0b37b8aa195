// What must hold of the core after every step, for random tests and fuzzers.
#ifndef SKUA_TESTS_CONTROL_CORE_CORE_INVARIANTS_H_
#define SKUA_TESTS_CONTROL_CORE_CORE_INVARIANTS_H_

#include <algorithm>
#include <set>
#include <string>
#include <variant>

#include "absl/strings/str_cat.h"
#include "control/core/cluster_core.h"
#include "control/core/cluster_limits.h"
#include "control/core/shard_map.h"
#include "control/core/view_rules.h"

namespace skua::control {

/// A refusal changes nothing and says why; a change raises the revision by exactly one. Returns what is wrong, or
/// nothing.
inline std::string broken_decision(const ClusterState& before, const ClusterState& after, const Decision& decision) {
  if (!decision.status.ok() && !decision.changes.empty()) return "a refusal with changes";
  if (!decision.status.ok() && decision.status.message().empty()) return "a refusal without a word";
  if (decision.status.ok() && !decision.ask.empty()) return "accepted, and still a question";
  if (after.map_revision != before.map_revision + (decision.changes.empty() ? 0 : 1)) return "revision";
  if (after.next_table_id < before.next_table_id) return "table ids go back";
  return "";
}

/// Every table has all its shards, every member is a node that has that worker, no two nodes look the same.
inline std::string broken_state(const ClusterState& state) {
  size_t shard_count = 0;
  for (const auto& [id, table] : state.tables) {
    if (id >= state.next_table_id) return "a table beyond the next id";
    shard_count += table.shard_count;
    for (uint32_t shard = 0; shard < table.shard_count; ++shard) {
      const auto record = state.shards.find({id, shard});
      if (record == state.shards.end()) return "a shard is missing";
      std::set<std::string> members;
      for (const Replica& member : members_of(record->second)) {
        const auto node = state.nodes.find(member.node_uuid);
        if (node == state.nodes.end()) return "a member is no node";
        if (member.worker >= node->second.worker_count) return "a member has no such worker";
        if (!members.insert(member.node_uuid).second) return "a member counts twice";
      }
    }
  }
  if (state.shards.size() != shard_count) return "shards without a table";
  if (state.nodes.size() > kNodesMax || state.tables.size() > kTablesMax || shard_count > kShardsMax) return "bounds";
  std::string last;
  for (const auto& [uuid, node] : state.nodes) {
    if (uuid.substr(0, 18) == last) return "two nodes begin the same";
    last = uuid.substr(0, 18);
  }
  return build_shard_map(state).valid() ? "" : "the shard map is not valid";
}

/// Records follow each other by the rules of views; incarnations only grow, and within reach.
inline std::string broken_history(const ClusterState& before, const ClusterState& after) {
  for (const auto& [key, old] : before.shards) {
    const auto now = after.shards.find(key);
    if (now == after.shards.end()) continue;
    if (now->second == old) continue;
    const std::string broken = check_successor(old, now->second);
    if (!broken.empty()) return broken;
  }
  for (const auto& [uuid, old] : before.nodes) {
    const auto found = after.nodes.find(uuid);
    if (found == after.nodes.end()) continue;
    const NodeInfo& now = found->second;
    if (now.incarnation < old.incarnation || now.incarnation - old.incarnation > kIncarnationStepMax) {
      return "incarnation";
    }
    if (now.storage_incarnation < old.storage_incarnation ||
        now.storage_incarnation - old.storage_incarnation > kIncarnationStepMax) {
      return "storage incarnation";
    }
  }
  return "";
}

/// What a registration changed of a node was proven, or is the registered process's own.
inline std::string broken_claim(const ClusterState& before, const ClusterState& after, const Event& event) {
  const auto* claim = std::get_if<RegisterNode>(&event);
  if (claim == nullptr) return "";
  const auto old = before.nodes.find(claim->node.uuid);
  const auto now = after.nodes.find(claim->node.uuid);
  const bool changed = now != after.nodes.end() && (old == before.nodes.end() || !(old->second == now->second));
  const bool same_process = old != before.nodes.end() && old->second.incarnation == claim->node.incarnation &&
                            old->second.instance == claim->node.instance &&
                            old->second.grpc_address == claim->node.grpc_address &&
                            old->second.storage_incarnation == claim->node.storage_incarnation;
  if (!changed || same_process) return "";
  const bool proven = std::any_of(claim->answers.begin(), claim->answers.end(), [&](const ClaimAnswer& answer) {
    return answer.address == now->second.grpc_address && answer.answered && answer.uuid == claim->node.uuid &&
           answer.incarnation == claim->node.incarnation && !answer.other_instance;
  });
  return proven ? "" : absl::StrCat("an unproven claim was taken: node ", claim->node.uuid);
}

/// All of the above; `claims` if the core wants proof.
inline std::string broken_invariant(const ClusterState& before, const ClusterState& after, const Event& event,
                                    const Decision& decision, bool claims) {
  std::string broken = broken_decision(before, after, decision);
  if (broken.empty()) broken = broken_state(after);
  if (broken.empty()) broken = broken_history(before, after);
  if (broken.empty() && claims) broken = broken_claim(before, after, event);
  return broken;
}

}  // namespace skua::control

#endif  // SKUA_TESTS_CONTROL_CORE_CORE_INVARIANTS_H_
