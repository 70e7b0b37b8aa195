#include "kvstore/replication/replica_state.h"

#include <utility>

#include "kvstore/types/mutants.h"

namespace skua::kv {

const char* replica_role_name(ReplicaRole role) {
  switch (role) {
    case ReplicaRole::kInactive: return "inactive";
    case ReplicaRole::kPrimary: return "primary";
    case ReplicaRole::kBackup: return "backup";
    case ReplicaRole::kLearner: return "learner";
  }
  return "?";
}

ReplicaState::ReplicaState(const ReplicaOptions& options_given, ReplicaId id, View last_view, OwnLog own_log)
    : options(options_given),
      self(id),
      view(std::move(last_view)),
      log(std::move(own_log)),
      agreement(log.commit_index()) {}

ReplicaRole ReplicaState::role_in(const View& other) const {
  if (other.is_member(self)) {
    if (other.primary != self.node) return ReplicaRole::kBackup;
    return other.epoch == given_up_epoch || doubt != 0 ? ReplicaRole::kInactive : ReplicaRole::kPrimary;
  }
  return other.is_learner(self) ? ReplicaRole::kLearner : ReplicaRole::kInactive;
}

PeerReplica* ReplicaState::admit(const ReplicaId& from, uint64_t epoch, TimeNs now, ReplicaOutput& out) {
  if (epoch > view.epoch) {
    out.fetch_view = true;
    return nullptr;
  }
  if (!has_durable_epoch()) return nullptr;
  PeerReplica* const sender = peers.find(from);
  if (epoch < view.epoch && !(mutant(Mutant::kSkipEpochCheck) && sender != nullptr)) {
    out.messages.push_back({from.node, StaleEpoch{view}});
    return nullptr;
  }
  if (sender != nullptr) sender->heard_ns = now;
  return sender;
}

void ReplicaState::hear_of(const View& other, ReplicaOutput& out) const {
  if (other.newer_than(view)) out.fetch_view = true;
}

void ReplicaState::send_heartbeat(NodeId to, TimeNs now, ReplicaOutput& out) const {
  out.messages.push_back({to, Heartbeat{view.epoch, now, log.told_commit_index()}});
}

void ReplicaState::report(ReplicaOutput& out, ReplicaReport::Kind kind, NodeId node, uint64_t join) const {
  out.reports.push_back({kind, view.epoch, node, join, {}});
}

void ReplicaState::report_silent(TimeNs now, ReplicaOutput& out) const {
  if (!leads() && role != ReplicaRole::kBackup) return;
  // A primary that hears nobody waits longer, so that the others accuse it first. If its accusation came first, one of
  // the others would be removed, and the primary could still not go on.
  const DurationNs half = options.suspect_after_ns / 2;
  const DurationNs patience = options.suspect_after_ns + (leads() && peers.all_are_silent(now, half) ? half : 0);
  for (const PeerReplica& peer : peers) {
    const bool is_watched = leads() ? peer.is_required() : peer.id.node == view.primary;
    if (is_watched && peer.is_silent(now, patience)) report(out, ReplicaReport::Kind::kSuspect, peer.id.node);
  }
}

}  // namespace skua::kv
