#include "kvstore/replication/replica.h"

#include <algorithm>
#include <utility>
#include <variant>

#include "kvstore/types/mutants.h"
#include "rpc/base/check.h"

namespace skua::kv {
namespace {

/// A function for each alternative of a variant.
template <typename... Functions>
struct Handlers : Functions... {
  using Functions::operator()...;
};

}  // namespace

Replica::Replica(const ReplicaOptions& options, ReplicaId self, Restart restart, TimeNs now)
    : state_(options, self, std::move(restart.view), OwnLog(std::move(restart.log), restart.commit_index)),
      restart_epoch_(state_.view.epoch),
      fork_(state_.view.fork) {
  state_.doubt = restart.doubt;
  if (restart_epoch_ == 0) return;
  // A restarted replica does not know what it did in the persisted view, so it cannot go on as that view's primary. In
  // any other role it goes on when the control plane has said that the view is still current.
  if (state_.view.primary == self.node) state_.given_up_epoch = restart_epoch_;
  if (!mutant(Mutant::kForgetPromises)) state_.promises.assume_until(now + options.lease.promised_ns());
}

// --- Views

void Replica::on_view(const View& view, TimeNs now, ReplicaOutput& out) {
  if (view.epoch > state_.view.epoch) return adopt(view, now, out);
  if (view.epoch < state_.view.epoch) return;
  if (view.newer_than(state_.view)) take_change(view, now);
  if (state_.persisted_epoch == 0 && state_.view.epoch == restart_epoch_) {
    // After a restart: the persisted view is still current.
    match_peers(now, false);
    view_persisted(state_.view.epoch, now, out);
  }
}

/// Takes over a change within the epoch: learners were added, joined, gave up or were removed.
void Replica::take_change(const View& view, TimeNs now) {
  state_.view = view;
  match_peers(now, true);
  if (state_.role == ReplicaRole::kLearner || state_.role == ReplicaRole::kInactive) {
    if (state_.has_durable_epoch()) state_.role = state_.role_in(state_.view);
  }
}

void Replica::adopt(const View& view, TimeNs now, ReplicaOutput& out) {
  const bool led = state_.leads();
  // A fork begins with the log of its primary. So this replica, as the fork's primary, lacks nothing.
  const bool is_primary = view.primary == state_.self.node;
  const bool forks = view.fork > fork_ && is_primary;
  if (forks && std::exchange(state_.doubt, 0) != 0) out.restored = true;
  fork_ = std::max(fork_, view.fork);
  if (state_.doubt != 0 && is_primary) state_.given_up_epoch = view.epoch;
  // The same primary goes on in the next epoch, and there was no other one between: acknowledgements stay valid.
  const ReplicaRole role = state_.role_in(view);
  const bool leads_on = led && view.epoch == state_.view.epoch + 1 && role == ReplicaRole::kPrimary;
  state_.view = view;
  state_.role = role;
  match_peers(now, leads_on);
  OwnLog& log = state_.log;
  state_.agreement.begin(log.commit_index());
  if (mutant(Mutant::kBelieveUnverified)) state_.agreement.reach(log.last_index());
  if (leads_on) {
    state_.agreement.reach(log.last_index());
    // Peers are silent until the new view is durable at them, so they get more time. A peer that was silent before does
    // not.
    for (PeerReplica& peer : state_.peers) {
      if (peer.is_silent(now, state_.options.suspect_after_ns / 2)) continue;
      peer.give_time(now + state_.options.first_word_ns);
    }
  } else {
    leadership_.end();
    state_.peers.forget_promises();
    if (role == ReplicaRole::kBackup && mutant(Mutant::kTruncateCommitted)) {
      log.truncate_after(std::max(log.entries().base().index, log.commit_index()));
      out.truncate_after = log.last_index();
    }
  }
  // A replica that stays a member need not be released: commits wait for its acknowledgement anyway.
  if (led && !view.is_member(state_.self)) released_to_ = view.primary;
  out.persist_view = view;
}

/// `keep`: acknowledgements from before still count.
void Replica::match_peers(TimeNs now, bool keep) {
  state_.peers.match(state_.view, state_.self.node,
                     {keep, state_.log.commit_index(), now, state_.options.first_word_ns});
}

void Replica::view_persisted(uint64_t epoch, TimeNs now, ReplicaOutput& out) {
  const View& view = state_.view;
  if (epoch < view.epoch || view.epoch == 0 || state_.persisted_epoch == view.epoch) return;
  state_.persisted_epoch = view.epoch;
  state_.role = state_.role_in(view);
  state_.timer.set(now);
  if (released_to_ != 0) out.messages.push_back({std::exchange(released_to_, 0), Release{view.epoch}});
  if (state_.leads()) leadership_.start(out);
  if (state_.follows()) follower_.send_tail(out);
  tick(now, out);
}

// --- Messages

/// A message is for the part that leads, for the part that follows, or for both: then it is the replica's.
void Replica::on_message(const ReplicaId& from, const ReplicaMessage& message, TimeNs now, ReplicaOutput& out) {
  std::visit(Handlers{
                 [&](const TailReport& tail) { leadership_.on(from, tail, now, out); },
                 [&](const AppendReply& reply) { leadership_.on(from, reply, now, out); },
                 [&](const ConfirmReply& reply) { leadership_.on(from, reply, now, out); },
                 [&](const StartView& start) { follower_.on(from, start, now, out); },
                 [&](const Append& append) { follower_.on(from, append, now, out); },
                 [&](const SnapshotNeeded& needed) { follower_.on(from, needed, now, out); },
                 [&](const Restored& restored) { follower_.on(from, restored, now, out); },
                 [&](const Heartbeat& heartbeat) { on(from, heartbeat, now, out); },
                 [&](const HeartbeatReply& reply) { on(from, reply, now, out); },
                 [&](const Confirm& confirm) { on(from, confirm, now, out); },
                 [&](const Release& release) { on(from, release, now); },
                 [&](const StaleEpoch& stale) { state_.hear_of(stale.view, out); },
             },
             message);
}

/// Asks for a promise. The answer has the levels of this log, too.
void Replica::on(const ReplicaId& from, const Heartbeat& heartbeat, TimeNs now, ReplicaOutput& out) {
  const PeerReplica* const sender = state_.admit(from, heartbeat.epoch, now, out);
  if (sender == nullptr || state_.role == ReplicaRole::kInactive) return;
  const bool is_primary = from.node == state_.view.primary;
  if (is_primary) follower_.learn_commit(heartbeat.commit_index);
  bool promises = (is_primary || (state_.view.read_anywhere && sender->member)) && !log_stalled_;
  // Backups that do not know of a joining learner yet do not ask for its promise. So a primary makes no promises while
  // a learner joins; without them no backup serves reads.
  if (state_.leads() && state_.peers.is_anybody_joining()) promises = false;
  if (promises) state_.promises.give(from.node, now + state_.options.lease.promised_ns());
  out.messages.push_back(
      {from.node, HeartbeatReply{state_.view.epoch, heartbeat.sent_ns, promises, state_.verified_levels()}});
}

void Replica::on(const ReplicaId& from, const HeartbeatReply& reply, TimeNs now, ReplicaOutput& out) {
  PeerReplica* const sender = state_.admit(from, reply.epoch, now, out);
  if (sender == nullptr) return;
  if (reply.promises && reply.echo_ns <= now) {
    sender->held_until = std::max(sender->held_until, reply.echo_ns + state_.options.lease.held_ns());
  }
  if (state_.leads()) leadership_.take_levels(*sender, reply, now, out);
}

void Replica::on(const ReplicaId& from, const Confirm& confirm, TimeNs now, ReplicaOutput& out) {
  if (state_.admit(from, confirm.epoch, now, out) == nullptr || from.node != state_.view.primary) return;
  out.messages.push_back({from.node, ConfirmReply{state_.view.epoch, confirm.round}});
}

void Replica::on(const ReplicaId& from, const Release& release, TimeNs now) {
  const bool current = release.epoch == state_.view.epoch && state_.peers.find(from.node) == nullptr;
  if (!state_.has_durable_epoch() || (!current && !mutant(Mutant::kReleaseTwice))) return;
  state_.promises.release(from.node);
  leadership_.advance_commit(now);
}

// --- Connections

void Replica::peer_failed(NodeId node, TimeNs now, ReplicaOutput& out) {
  PeerReplica* const failed = state_.peers.find(node);
  if (failed == nullptr) return;
  failed->log.disconnect();
  failed->heard_ns = std::min(failed->heard_ns, now - state_.options.suspect_after_ns - 1);
  state_.report_silent(now, out);
}

void Replica::send_refused(NodeId node, uint64_t first) {
  PeerReplica* const refused = state_.peers.find(node);
  if (refused != nullptr) refused->log.refuse(first);
}

bool Replica::may_send(NodeId node) const {
  const PeerReplica* const peer = state_.peers.find(node);
  return peer != nullptr && !peer->log.is_refused();
}

void Replica::peer_ready(NodeId node, TimeNs now, ReplicaOutput& out) {
  PeerReplica* const ready = state_.peers.find(node);
  if (ready == nullptr || !state_.has_durable_epoch()) return;
  ready->log.end_refusal();
  if (state_.leads()) return leadership_.peer_ready(*ready, now, out);
  follower_.peer_ready(node, out);
}

/// What was not sent for want of room follows. A question is repeated once per heartbeat at most: its answer makes room
/// again, and so on for ever.
void Replica::peer_has_room(NodeId node, TimeNs now, ReplicaOutput& out) {
  PeerReplica* const roomy = state_.peers.find(node);
  if (roomy == nullptr || !state_.has_durable_epoch()) return;
  roomy->log.end_refusal();
  const bool is_streaming = state_.leads() && roomy->log.is_matched();
  if (is_streaming || !std::exchange(roomy->asked_for_room, true)) peer_ready(node, now, out);
}

// --- The own log

void Replica::propose(Durability level, TimeNs now, ReplicaOutput& out) {
  SKUA_CHECK(state_.leads(), "only a primary proposes");
  leadership_.propose(level, now, out);
}

void Replica::log_progress(const LogLevels& levels, TimeNs now, ReplicaOutput& out) {
  const LogLevels before = state_.log.levels();
  state_.log.set_levels(levels);
  if (state_.leads()) return leadership_.advance_commit(now);
  follower_.log_moved(before, out);
}

void Replica::log_refused_after(uint64_t index, ReplicaOutput& out) {
  if (index >= last_index()) return;
  if (index < commit_index()) {
    out.failed = true;
    state_.role = ReplicaRole::kInactive;
    return;
  }
  state_.log.truncate_after(index);
  state_.agreement.cut(index);
  if (!state_.leads()) return;
  state_.given_up_epoch = state_.view.epoch;
  state_.role = ReplicaRole::kInactive;
  leadership_.end();
  state_.report(out, ReplicaReport::Kind::kNeedsEpoch, state_.self.node);
}

SnapshotFit Replica::snapshot_fit(EntryId base) const {
  return state_.leads() ? SnapshotFit::kNone : state_.log.snapshot_fit(base);
}

void Replica::install_snapshot(EntryId base, TimeNs now, ReplicaOutput& out) {
  const SnapshotFit fit = snapshot_fit(base);
  if (fit == SnapshotFit::kNone) return;
  if (mutant(Mutant::kSnapshotOffByOne)) ++base.index;
  state_.log.install_snapshot(base, fit);
  state_.agreement.install_snapshot(base.index, last_index());
  if (state_.follows() && state_.has_durable_epoch()) follower_.send_tail(out);
  tick(now, out);
}

// --- Time

void Replica::paused(TimeNs from, TimeNs until) {
  const Pause pause{from, until};
  state_.peers.paused(pause);
  leadership_.paused(pause);
}

void Replica::tick(TimeNs now, ReplicaOutput& out) {
  if (state_.leads()) leadership_.advance_commit(now);
  if (!state_.timer.take_if_due(now, state_.options.heartbeat_ns)) return;
  const uint64_t epoch = state_.view.epoch;
  state_.promises.drop_expired(now);
  if (state_.given_up_epoch != 0 && state_.given_up_epoch == epoch) {
    state_.report(out, ReplicaReport::Kind::kNeedsEpoch, state_.self.node);
  }
  if (state_.doubt != 0 && state_.view.is_member(state_.self)) {
    out.reports.push_back({ReplicaReport::Kind::kDoubtful, epoch, state_.self.node, 0, log().last()});
  }
  if (!state_.has_durable_epoch()) {
    out.fetch_view = true;
    return;
  }
  if (state_.leads()) leadership_.heartbeat(now, out);
  if (state_.follows()) follower_.heartbeat(now, out);
  state_.report_silent(now, out);
  if (state_.leads()) leadership_.watch(now, out);
}

TimeNs Replica::wake_at() const {
  return std::min(state_.timer.wake_at(), leadership_.commits_at());
}

// --- What it knows

bool Replica::can_propose() const {
  return open() && state_.has_durable_epoch() && state_.view.members.size() >= state_.view.min_insync;
}

uint64_t Replica::needed_from() const {
  if (state_.leads()) return state_.peers.needed_from(last_index() + 1);
  return std::min(last_index(), commit_index()) + 1;
}

std::optional<LogLevels> Replica::peer_levels(NodeId node) const {
  const PeerReplica* const peer = state_.peers.find(node);
  return peer == nullptr ? std::nullopt : std::optional(peer->log.acked());
}

// --- Reads

bool Replica::may_serve_read(TimeNs now) const {
  if (!state_.options.leases) return false;
  if (state_.leads()) return leadership_.is_open() && state_.peers.hold_promises(now);
  // A doubtful backup may lack writes of any key.
  if (state_.role != ReplicaRole::kBackup || state_.doubt != 0 || !state_.view.read_anywhere) return false;
  return state_.has_durable_epoch() && state_.peers.hold_promises(now);
}

uint64_t Replica::begin_confirm(ReplicaOutput& out) {
  SKUA_CHECK(open(), "only an open primary confirms");
  return leadership_.begin_confirm(out);
}

}  // namespace skua::kv
