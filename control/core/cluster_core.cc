#include "control/core/cluster_core.h"

#include <algorithm>
#include <map>
#include <utility>
#include <variant>

#include "control/core/cluster_limits.h"
#include "control/core/cluster_operations.h"
#include "control/core/grants.h"
#include "control/core/identity_rules.h"
#include "control/core/join_tokens.h"
#include "control/core/placement.h"
#include "control/core/quotas.h"
#include "control/core/revocation.h"
#include "control/core/tables.h"
#include "control/core/text.h"
#include "control/core/uuid.h"
#include "control/core/view_rules.h"

namespace skua::control {

ClusterCore::ClusterCore(CoreOptions options, ClusterState state, TimeNs now)
    : options_(options), state_(std::move(state)) {
  match_status_to_state(now);
}

template <typename ReadingEvent>
Decision ClusterCore::on(const ReadingEvent& event, TimeNs now) const {
  if constexpr (requires { decide(event, state_); }) {
    return decide(event, state_);
  } else {
    return decide(event, context(now));
  }
}

Decision ClusterCore::step(const Event& event, TimeNs now) {
  newest_ = now;
  return std::visit([&](const auto& kind) { return on(kind, now); }, event);
}

std::vector<LivenessChange> ClusterCore::committed(const Changes& changes, TimeNs now) {
  views_.committed(context(now), changes.put_shards);
  apply(changes, state_);
  match_status_to_state(now);
  std::vector<LivenessChange> changed;
  if (!changes.registered.uuid.empty()) note_registered(changes.registered, now, changed);
  return changed;
}

void ClusterCore::reload(ClusterState state, TimeNs now) {
  // Changes that were stored without an answer to us mean the same for their members as those that were answered.
  std::vector<ShardRecord> changed;
  for (const auto& [key, record] : state.shards) {
    const auto before = state_.shards.find(key);
    if (before != state_.shards.end() && before->second.change != record.change) changed.push_back(record);
  }
  views_.committed(context(now), changed);
  state_ = std::move(state);
  views_.note_change();
  match_status_to_state(now);
}

std::optional<NodeStatus> ClusterCore::node_status(const std::string& uuid) const {
  const auto found = status_.find(uuid);
  return found == status_.end() ? std::nullopt : std::optional(found->second);
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

  const NodeInfo* const registered = find_node(event.node.uuid);
  if (registered != nullptr) {
    auto status = check_identity(event.node, *registered, status_[event.node.uuid], now, options_.suspect_after_ns);
    if (!status.ok()) return refused(status);
  } else if (auto status = check_room(event.node, state_); !status.ok()) {
    return refused(status);
  }

  if (auto status = check_unlike_others(event.node, state_); !status.ok()) return refused(status);
  Decision decision;
  if (options_.claims_need_proof) decision = judge_claim(event, registered, context(now).status(event.node.uuid));
  if (!decision.status.ok()) return decision;
  NodeInfo node = event.node;
  if (registered != nullptr) {
    node.draining = registered->draining;
    if (node.secret.empty()) node.secret = registered->secret;
  }
  if (registered != nullptr && *registered == node) {
    note_registered({node.uuid, event.applied_revision}, now, decision.liveness_changes);
    return decision;
  }
  decision.changes = next_changes(state_);
  decision.changes.put_shards = moved_off_missing_workers(node, state_);
  decision.changes.reasons.assign(decision.changes.put_shards.size(), "its node has fewer workers now");
  decision.unfinished = keep_first_shards(decision.changes);
  if (decision.unfinished) return decision;
  decision.changes.registered = {node.uuid, event.applied_revision};
  decision.changes.put_nodes.push_back(std::move(node));
  return decision;
}

/// A process begins: what was heard of its node before was of another one.
void ClusterCore::note_registered(const RegisteredProcess& process, TimeNs now, std::vector<LivenessChange>& changed) {
  note_alive(process.uuid, process.applied_revision, now, changed);
  NodeStatus& status = status_[process.uuid];
  status.trouble.clear();
  status.unserved.clear();
  status.security = {};
  status.yielding = false;
}

Decision ClusterCore::on(const NodeHeartbeat& event, TimeNs now) {
  if (auto status = check_process(event.uuid, event.incarnation, event.instance); !status.ok()) return refused(status);
  if (auto status = check_not_stopped(event.uuid); !event.stopping && !status.ok()) return refused(status);
  Decision decision;
  note_alive(event.uuid, event.applied_revision, now, decision.liveness_changes);
  NodeStatus& status = status_[event.uuid];
  status.trouble = cut_text(event.trouble, kTroubleBytesMax);
  status.clock_ahead_ns = event.clock_ahead_ns;
  status.security = event.security;
  status.copies.assign(event.copies.begin(),
                       event.copies.begin() + static_cast<ptrdiff_t>(std::min(event.copies.size(), kCopiesShownMax)));
  for (CopyReport& copy : status.copies) copy.text = cut_text(copy.text, kCopyTextMax);
  note_unserved(event);
  if (std::exchange(status.yielding, event.yielding) != event.yielding) views_.note_change();
  if (event.stopping) set_liveness(event.uuid, Liveness::kStopped, decision.liveness_changes);
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
  views_.note_change();
}

Decision ClusterCore::on(const ReplicaReport& event, TimeNs now) {
  if (auto status = check_process(event.uuid, event.incarnation, event.instance); !status.ok()) return refused(status);
  if (auto status = check_not_stopped(event.uuid); !status.ok()) return refused(status);
  Decision decision;
  note_alive(event.uuid, status_[event.uuid].applied_revision, now, decision.liveness_changes);
  views_.note(context(now), event);
  plan_views(now, decision);
  return decision;
}

Decision ClusterCore::on(const Tick&, TimeNs now) {
  Decision decision;
  for (auto& [uuid, status] : status_) {
    const bool waiting = status.liveness == Liveness::kAlive || status.liveness == Liveness::kUnknown;
    if (waiting && now - status.heard_ns > options_.suspect_after_ns) {
      set_liveness(uuid, Liveness::kSuspected, decision.liveness_changes);
    }
  }
  plan_views(now, decision);
  return decision;
}

void ClusterCore::plan_views(TimeNs now, Decision& decision) {
  std::vector<std::string> reasons;
  std::vector<ShardRecord> records = views_.plan(context(now), &reasons);
  if (records.empty()) return;
  decision.changes = next_changes(state_);
  decision.changes.put_shards = std::move(records);
  decision.changes.reasons = std::move(reasons);
}

void ClusterCore::note_alive(const std::string& uuid, uint64_t applied_revision, TimeNs now,
                             std::vector<LivenessChange>& changed) {
  NodeStatus& status = status_[uuid];
  if (status.liveness != Liveness::kAlive) views_.note_return(uuid, now);
  status.heard_ns = now;
  // No node has applied a map that there has not been.
  status.applied_revision = std::min(applied_revision, state_.map_revision);
  set_liveness(uuid, Liveness::kAlive, changed);
}

void ClusterCore::set_liveness(const std::string& uuid, Liveness to, std::vector<LivenessChange>& changed) {
  NodeStatus& status = status_[uuid];
  if (status.liveness == to) return;
  changed.push_back({uuid, status.liveness, to});
  views_.note_change();
  status.liveness = to;
}

const NodeInfo* ClusterCore::find_node(const std::string& uuid) const {
  const auto found = state_.nodes.find(uuid);
  return found == state_.nodes.end() ? nullptr : &found->second;
}

absl::Status ClusterCore::check_process(const std::string& uuid, uint64_t incarnation,
                                        const std::string& instance) const {
  if (auto status = check_node_allowed(uuid, state_); !status.ok()) return status;
  return control::check_process(find_node(uuid), uuid, incarnation, instance, state_.cluster_id);
}

/// A node that stops cancels its call under way. That call may arrive after the goodbye, and is not a sign of life.
absl::Status ClusterCore::check_not_stopped(const std::string& uuid) const {
  if (context(newest_).status(uuid).liveness != Liveness::kStopped) return absl::OkStatus();
  return absl::NotFoundError(
      absl::StrCat("node ", short_uuid(uuid), " has said that it stops; it registers if it goes on"));
}

void ClusterCore::match_status_to_state(TimeNs now) {
  for (const auto& [uuid, node] : state_.nodes) {
    status_.try_emplace(uuid, NodeStatus{Liveness::kUnknown, now, 0});
  }
  std::erase_if(status_, [&](const auto& entry) { return !state_.nodes.contains(entry.first); });
  for (auto& [uuid, status] : status_) {
    if (check_node_allowed(uuid, state_).ok()) continue;
    if (status.liveness != Liveness::kSuspected) views_.note_change();
    status.liveness = Liveness::kSuspected;
    status.trouble = revoked_trouble(uuid);
  }
}

}  // namespace skua::control
