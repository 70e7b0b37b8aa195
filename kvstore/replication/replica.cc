// Views, time, and the parts that all roles share.
#include "kvstore/replication/replica.h"

#include <algorithm>
#include <utility>

#include "kvstore/replication/replication_mutants.h"
#include "rpc/base/check.h"

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

Replica::Replica(const ReplicaOptions& options, ReplicaId self, Restart restart, TimeNs now)
    : options_(options), self_(self), view_(std::move(restart.view)), log_(std::move(restart.log)) {
  levels_ = {log_.last_index(), log_.last_index(), log_.last_index()};
  commit_index_ = std::max(restart.commit_index, log_.base().index);
  SKUA_CHECK(commit_index_ <= log_.last_index(), "what is committed is in the log");
  verified_ = known_commit_ = commit_index_;
  first_available_ = log_.base().index + 1;
  restart_epoch_ = view_.epoch;
  doubt_ = restart.doubt;
  fork_ = view_.fork;
  if (view_.epoch == 0) return;
  // A restarted replica does not know what it did in the persisted view, so it cannot go on as that view's primary. In
  // any other role it goes on when the control plane has said that the view is still current.
  if (view_.primary == self_.node) given_up_epoch_ = view_.epoch;
  if (!replica_mutant(ReplicaMutant::kForgetPromises)) former_life_until_ = now + options_.lease.promised_ns();
}

// --- Views

ReplicaRole Replica::role_in(const View& view) const {
  if (view.is_member(self_)) {
    if (view.primary != self_.node) return ReplicaRole::kBackup;
    return view.epoch == given_up_epoch_ || doubt_ != 0 ? ReplicaRole::kInactive : ReplicaRole::kPrimary;
  }
  const Learner* learner = view.learner(self_.node);
  return learner != nullptr && learner->id == self_ ? ReplicaRole::kLearner : ReplicaRole::kInactive;
}

void Replica::on_view(const View& view, TimeNs now, ReplicaOutput& out) {
  if (view.epoch > view_.epoch) return adopt(view, now, out);
  if (view.epoch < view_.epoch) return;
  if (view.newer_than(view_)) take_change(view, now);
  if (persisted_epoch_ == 0 && view_.epoch == restart_epoch_) {
    // After a restart: the persisted view is still current.
    match_peers(now, false);
    view_persisted(view_.epoch, now, out);
  }
}

/// A peer's view is only a hint: the replica adopts and persists views from the control plane only.
void Replica::hear_of(const View& view, ReplicaOutput& out) const {
  if (view.newer_than(view_)) out.fetch_view = true;
}

/// Takes over a change within the epoch: learners were added, joined, gave up or were removed.
void Replica::take_change(const View& view, TimeNs now) {
  view_ = view;
  match_peers(now, true);
  if (role_ == ReplicaRole::kLearner || role_ == ReplicaRole::kInactive) {
    if (speaks()) role_ = role_in(view_);
  }
}

void Replica::adopt(const View& view, TimeNs now, ReplicaOutput& out) {
  const bool reigned = role_ == ReplicaRole::kPrimary;
  // A fork begins with the log of its primary. So this replica, as the fork's primary, lacks nothing.
  const bool forks = view.fork > fork_ && view.primary == self_.node;
  if (forks && std::exchange(doubt_, 0) != 0) out.restored = true;
  fork_ = std::max(fork_, view.fork);
  if (doubt_ != 0 && view.primary == self_.node) given_up_epoch_ = view.epoch;
  // The same primary goes on in the next epoch, and there was no other one between: acknowledgements stay valid.
  const bool reigns_on = reigned && view.epoch == view_.epoch + 1 && role_in(view) == ReplicaRole::kPrimary;
  view_ = view;
  role_ = role_in(view_);
  match_peers(now, reigns_on);
  verified_ = known_commit_ = commit_index_;
  is_verified_ = false;
  tail_again_ns_ = 0;
  if (replica_mutant(ReplicaMutant::kBelieveUnverified)) verified_ = log_.last_index();
  if (reigns_on) {
    verified_ = log_.last_index();
    // Peers are silent until the new view is durable at them, so they get more time. A peer that was silent before does
    // not.
    for (auto& [node, peer] : peers_) {
      const bool heard = now - peer.heard_ns <= options_.suspect_after_ns / 2;
      if (heard) peer.heard_ns = std::max(peer.heard_ns, now + options_.first_word_ns);
    }
  } else {
    open_ = false;
    barrier_index_ = 0;
    waiting_.clear();
    confirm_wanted_ = 0;
    confirm_sent_ = confirmed_round_;
    for (auto& [node, peer] : peers_) peer.held_until = 0;
    if (role_ == ReplicaRole::kBackup && replica_mutant(ReplicaMutant::kTruncateCommitted)) {
      const uint64_t keep = std::max(log_.base().index, commit_index_);
      log_.truncate(keep);
      levels_ = {std::min(levels_.received, keep), std::min(levels_.written, keep), std::min(levels_.durable, keep)};
      out.truncate_after = keep;
    }
  }
  // A replica that stays a member need not be released: commits wait for its acknowledgement anyway.
  if (reigned && !view_.is_member(self_)) released_to_ = view_.primary;
  out.persist_view = view_;
}

/// Rebuilds peers_ from the view. `keep`: acknowledgements from before still count.
void Replica::match_peers(TimeNs now, bool keep) {
  std::map<NodeId, Peer> before = std::exchange(peers_, {});
  keep = keep || replica_mutant(ReplicaMutant::kKeepOldAcks);
  const auto enter = [&](const ReplicaId& id, bool member, uint64_t join) {
    if (id.node == self_.node) return;
    Peer peer;
    const auto known = before.find(id.node);
    if (known != before.end() && known->second.id == id) {
      peer = known->second;
      if (!keep) {
        peer.matched = peer.needs_snapshot = peer.refused = false;
        peer.acked = {};
        peer.agreed = peer.next = peer.confirmed = peer.sample_index = peer.doubt = 0;
        peer.heard_ns = now + options_.first_word_ns;
      }
    } else {
      peer.heard_ns = now + options_.first_word_ns;
    }
    peer.id = id;
    // Its silence as a learner does not count against it, because nobody waited for it then.
    if (member != peer.member || join != peer.join) peer.heard_ns = std::max(peer.heard_ns, now);
    peer.member = member;
    if (join != peer.join) peer.join_goal = commit_index_;
    peer.join = join;
    peers_[id.node] = peer;
  };
  for (const Learner& learner : view_.learners) enter(learner.id, false, learner.join);
  for (const ReplicaId& member : view_.members) enter(member, true, 0);
}

void Replica::view_persisted(uint64_t epoch, TimeNs now, ReplicaOutput& out) {
  if (epoch < view_.epoch || view_.epoch == 0 || persisted_epoch_ == view_.epoch) return;
  persisted_epoch_ = view_.epoch;
  role_ = role_in(view_);
  next_heartbeat_ns_ = now;
  if (released_to_ != 0) {
    out.messages.push_back({std::exchange(released_to_, 0), Release{view_.epoch}});
  }
  if (role_ == ReplicaRole::kPrimary) {
    if (barrier_index_ == 0) begin_reign(out);
    for (const auto& [node, peer] : peers_) out.messages.push_back({node, StartView{view_}});
  } else if (role_ == ReplicaRole::kBackup || role_ == ReplicaRole::kLearner) {
    send_tail(out);
  }
  tick(now, out);
}

// --- Messages

void Replica::on_message(const ReplicaId& from, const ReplicaMessage& message, TimeNs now, ReplicaOutput& out) {
  std::visit([&](const auto& body) { on(from, body, now, out); }, message);
}

Replica::Peer* Replica::peer(NodeId node) {
  const auto found = peers_.find(node);
  return found == peers_.end() ? nullptr : &found->second;
}

/// The peer that sent a message; null: the view has no such replica. A node that lost its storage and came back under
/// the same id must not pass as the member that had the data.
Replica::Peer* Replica::sender(const ReplicaId& from) {
  Peer* const known = peer(from.node);
  return known != nullptr && known->id == from ? known : nullptr;
}

/// Whether a message of `epoch` may be accepted. If the epochs differ, the one with the older view is told to get a
/// newer one: the sender by StaleEpoch, this replica by fetch_view.
bool Replica::in_epoch(const ReplicaId& from, uint64_t epoch, TimeNs now, ReplicaOutput& out) {
  if (epoch > view_.epoch) {
    out.fetch_view = true;
    return false;
  }
  if (!speaks()) return false;
  Peer* const known = sender(from);
  if (epoch < view_.epoch && !(replica_mutant(ReplicaMutant::kSkipEpochCheck) && known != nullptr)) {
    out.messages.push_back({from.node, StaleEpoch{view_}});
    return false;
  }
  if (known == nullptr) return false;
  known->heard_ns = now;
  return true;
}

void Replica::peer_failed(NodeId node, TimeNs now, ReplicaOutput& out) {
  Peer* failed = peer(node);
  if (failed == nullptr) return;
  failed->matched = failed->refused = false;
  failed->heard_ns = std::min(failed->heard_ns, now - options_.suspect_after_ns - 1);
  look_for_silence(now, out);
}

void Replica::send_refused(NodeId node, uint64_t first) {
  Peer* refused = peer(node);
  if (refused == nullptr) return;
  refused->refused = true;
  refused->next = std::min(refused->next, first);
}

bool Replica::may_send(NodeId node) const {
  const auto found = peers_.find(node);
  return found != peers_.end() && !found->second.refused;
}

void Replica::peer_ready(NodeId node, TimeNs now, ReplicaOutput& out) {
  Peer* ready = peer(node);
  if (ready == nullptr || !speaks()) return;
  ready->refused = false;
  if (role_ == ReplicaRole::kPrimary) {
    if (ready->matched) return stream(*ready, now, out);
    if (!ready->needs_snapshot) out.messages.push_back({node, StartView{view_}});
  } else if (node == view_.primary && !is_verified_ && role_ != ReplicaRole::kInactive) {
    send_tail(out);
  }
}

/// What was not sent for want of room follows. A question is repeated once per heartbeat at most: its answer makes room
/// again, and so on for ever.
void Replica::peer_has_room(NodeId node, TimeNs now, ReplicaOutput& out) {
  Peer* const roomy = peer(node);
  if (roomy == nullptr || !speaks()) return;
  roomy->refused = false;
  const bool primary = role_ == ReplicaRole::kPrimary;
  if (primary && roomy->matched) return stream(*roomy, now, out);
  if (!std::exchange(roomy->asked_for_room, true)) peer_ready(node, now, out);
}

// --- The own log

void Replica::log_progress(const LogLevels& levels, TimeNs now, ReplicaOutput& out) {
  const uint64_t last = log_.last_index();
  const LogLevels before = levels_;
  levels_ = {std::min(levels.received, last), std::min(levels.written, last), std::min(levels.durable, last)};
  if (role_ == ReplicaRole::kPrimary) return advance_commit(now);
  learn_commit(0);
  // Received entries alone are not news here: on(Append) acknowledges them if the primary asked for it.
  const bool is_news = levels_.written > before.written || levels_.durable > before.durable;
  if (is_news && (role_ == ReplicaRole::kBackup || role_ == ReplicaRole::kLearner) && speaks()) {
    out.messages.push_back({view_.primary, AppendReply{view_.epoch, verified_levels()}});
  }
}

void Replica::log_refused_after(uint64_t index, ReplicaOutput& out) {
  if (index >= log_.last_index()) return;
  if (index < commit_index_) {
    out.failed = true;
    role_ = ReplicaRole::kInactive;
    return;
  }
  log_.truncate(index);
  verified_ = std::min(verified_, index);
  levels_ = {std::min(levels_.received, index), std::min(levels_.written, index), std::min(levels_.durable, index)};
  if (role_ != ReplicaRole::kPrimary) return;
  given_up_epoch_ = view_.epoch;
  role_ = ReplicaRole::kInactive;
  open_ = false;
  waiting_.clear();
  report(out, ReplicaReport::Kind::kNeedsEpoch, self_.node);
}

SnapshotFit Replica::snapshot_fit(EntryId base) const {
  if (role_ == ReplicaRole::kPrimary || base.index < commit_index_) return SnapshotFit::kNone;
  return log_.epoch_of(base.index) == base.epoch ? SnapshotFit::kKeepsLog : SnapshotFit::kReplacesLog;
}

void Replica::install_snapshot(EntryId base, TimeNs now, ReplicaOutput& out) {
  const SnapshotFit fit = snapshot_fit(base);
  if (fit == SnapshotFit::kNone) return;
  if (replica_mutant(ReplicaMutant::kSnapshotOffByOne)) ++base.index;
  if (fit == SnapshotFit::kKeepsLog) {
    log_.compact(base.index);
  } else {
    // The log's entry at this index is not the committed one, so the log's later entries were never committed.
    log_ = EpochHistory(base);
    levels_ = {};
  }
  levels_ = {std::max(levels_.received, base.index), std::max(levels_.written, base.index),
             std::max(levels_.durable, base.index)};
  commit_index_ = base.index;
  verified_ = std::max(std::min(verified_, log_.last_index()), base.index);
  known_commit_ = std::max(known_commit_, base.index);
  first_available_ = base.index + 1;
  if ((role_ == ReplicaRole::kBackup || role_ == ReplicaRole::kLearner) && speaks()) send_tail(out);
  tick(now, out);
}

// --- Time

void Replica::paused(TimeNs from, TimeNs until) {
  const DurationNs length = until - from;
  const auto later = [&](TimeNs at) { return at < until ? std::min(until, at + length) : at; };
  for (auto& [node, peer] : peers_) {
    peer.heard_ns = later(peer.heard_ns);
    if (peer.sample_index != 0) peer.sample_ns = later(peer.sample_ns);
    peer.slow_since = kTimeNever;
  }
  hung_.since = std::max(hung_.since, until);
}

void Replica::tick(TimeNs now, ReplicaOutput& out) {
  if (role_ == ReplicaRole::kPrimary) advance_commit(now);
  if (now >= tell_commit_ns_) next_heartbeat_ns_ = std::min(next_heartbeat_ns_, now);
  if (now < next_heartbeat_ns_) return;
  next_heartbeat_ns_ = now + options_.heartbeat_ns;
  std::erase_if(promised_until_, [now](const auto& promise) { return promise.second <= now; });
  if (given_up_epoch_ != 0 && given_up_epoch_ == view_.epoch) {
    report(out, ReplicaReport::Kind::kNeedsEpoch, self_.node);
  }
  if (doubt_ != 0 && view_.is_member(self_)) {
    out.reports.push_back({ReplicaReport::Kind::kDoubtful, view_.epoch, self_.node, 0, log_.last()});
  }
  if (!speaks()) {
    out.fetch_view = true;
    return;
  }
  heartbeat(now, out);
  look_for_silence(now, out);
  if (role_ == ReplicaRole::kPrimary) {
    look_for_slowness(now, out);
    look_for_hung_log(now, out);
    report_learners(now, out);
  }
}

void Replica::heartbeat(TimeNs now, ReplicaOutput& out) {
  const bool primary = role_ == ReplicaRole::kPrimary;
  if (!primary && role_ != ReplicaRole::kBackup && role_ != ReplicaRole::kLearner) return;
  // A doubtful replica that has all known commits reports its tail again, so that the primary can say Restored.
  const bool asks = doubt_ != 0 && verified_levels().durable >= known_commit_;
  if (!primary && (!is_verified_ || asks)) send_tail(out);
  if (primary) {
    end_round(out);
    ask_round(out);
  }
  tell_commit_ns_ = kTimeNever;
  for (auto& [node, peer] : peers_) {
    peer.asked_for_room = false;
    if (primary) {
      if (peer.needs_snapshot) {
        out.messages.push_back({node, SnapshotNeeded{view_.epoch}});
      } else if (!peer.matched) {
        out.messages.push_back({node, StartView{view_}});
      }
    } else if (!view_.read_anywhere || role_ != ReplicaRole::kBackup || !required(peer)) {
      continue;
    }
    out.messages.push_back({node, Heartbeat{view_.epoch, now, std::min(commit_index_, shown_)}});
  }
}

void Replica::report(ReplicaOutput& out, ReplicaReport::Kind kind, NodeId node, uint64_t join) const {
  out.reports.push_back({kind, view_.epoch, node, join, {}});
}

/// Whether all of two or more required peers are silent. Then this primary itself is probably cut off.
bool Replica::hears_nobody(TimeNs now) const {
  if (role_ != ReplicaRole::kPrimary) return false;
  size_t silent = 0;
  for (const auto& [node, peer] : peers_) {
    if (!required(peer)) continue;
    if (now - peer.heard_ns <= options_.suspect_after_ns / 2) return false;
    ++silent;
  }
  return silent > 1;
}

void Replica::look_for_silence(TimeNs now, ReplicaOutput& out) const {
  if (role_ != ReplicaRole::kPrimary && role_ != ReplicaRole::kBackup) return;
  // A primary that hears nobody waits longer, so that the others accuse it first. If its accusation came first, one of
  // the others would be removed, and the primary could still not go on.
  const DurationNs patience = options_.suspect_after_ns + (hears_nobody(now) ? options_.suspect_after_ns / 2 : 0);
  for (const auto& [node, peer] : peers_) {
    const bool watched = role_ == ReplicaRole::kPrimary ? required(peer) : node == view_.primary;
    if (watched && now - peer.heard_ns > patience) {
      report(out, ReplicaReport::Kind::kSuspect, node);
    }
  }
}

TimeNs Replica::wake_at() const {
  TimeNs at = std::min(next_heartbeat_ns_, tell_commit_ns_);
  if (role_ == ReplicaRole::kPrimary && !waiting_.empty() && speaks()) {
    // The entry is acknowledged; it is committed when the promises have expired.
    if (is_acked(waiting_.front())) at = std::min(at, promises_end());
  }
  return at;
}

// --- For the driver

uint64_t Replica::needed_from() const {
  uint64_t lowest = log_.last_index() + 1;
  if (role_ != ReplicaRole::kPrimary) return std::min(lowest, commit_index_ + 1);
  for (const auto& [node, peer] : peers_) {
    if (peer.needs_snapshot) continue;
    lowest = std::min(lowest, peer.acked.durable + 1);
  }
  return lowest;
}

std::optional<LogLevels> Replica::peer_levels(NodeId node) const {
  const auto found = peers_.find(node);
  if (found == peers_.end()) return std::nullopt;
  return found->second.acked;
}

}  // namespace skua::kv
