#include "kvstore/replication/leadership.h"

#include <algorithm>
#include <utility>

#include "kvstore/types/mutants.h"

namespace skua::kv {

void Leadership::start(ReplicaOutput& out) {
  if (barrier_index_ == 0) begin(out);
  for (const PeerReplica& peer : state_.peers) out.messages.push_back({peer.id.node, StartView{state_.view}});
}

void Leadership::begin(ReplicaOutput& out) {
  if (mutant(Mutant::kOpenBeforeBarrier)) is_open_ = true;
  state_.log.append(state_.view.epoch);
  state_.log.compact_runs();
  barrier_index_ = state_.log.last_index();
  state_.agreement.reach(barrier_index_);
  out.append_barrier = true;
  waiting_.add(barrier_index_, Durability::kSync);
}

void Leadership::end() {
  is_open_ = false;
  barrier_index_ = 0;
  waiting_.clear();
  rounds_.abandon();
}

// --- Entries

void Leadership::propose(Durability level, TimeNs now, ReplicaOutput& out) {
  OwnLog& log = state_.log;
  log.append(log.entries().last().epoch);
  state_.agreement.reach(log.last_index());
  waiting_.add(log.last_index(), level);
  bool all = true;
  for (PeerReplica& peer : state_.peers) {
    if (peer.log.is_matched()) stream(peer, now, out);
    all = all && peer.log.next() > log.last_index();
  }
  if (all) state_.timer.commit_is_told();  // these Appends tell all peers the commit index
  if (level == Durability::kMemory) advance_commit(now);
}

/// Sends the entries that the peer lacks, as far as its window allows.
void Leadership::stream(PeerReplica& peer, TimeNs now, ReplicaOutput& out) {
  if (!state_.has_durable_epoch() || peer.log.is_refused()) return;
  const uint64_t last = state_.log.last_index();
  if (peer.log.is_out_of_reach(state_.log.first_available(), last)) {
    peer.log.need_snapshot();
    return out.messages.push_back({peer.id.node, SnapshotNeeded{state_.view.epoch}});
  }
  while (const auto range = peer.log.send_next(last, state_.options, now)) {
    out.sends.push_back({peer.id.node, range->first, range->last});
    if (peer.latency.is_measuring()) continue;
    if (const CommitQueue::Entry* const entry = waiting_.find(range->last)) {
      peer.latency.begin(entry->index, entry->level, now);
    }
  }
}

Append Leadership::make_append(uint64_t first, uint64_t last) const {
  const EpochHistory& entries = state_.log.entries();
  Append made;
  made.epoch = state_.view.epoch;
  made.prev = {first - 1, entries.epoch_of(first - 1).value_or(0)};
  made.commit_index = state_.log.told_commit_index();
  for (uint64_t index = first; index <= last; ++index) made.epochs.push_back(entries.epoch_of(index).value_or(0));
  made.acknowledge_received = waiting_.any_in_memory(first, last);
  return made;
}

bool Leadership::is_acked(const CommitQueue::Entry& entry) const {
  if (!state_.log.levels().reaches(entry.index, entry.level)) return false;
  const size_t missing = state_.peers.missing(entry);
  if (mutant(Mutant::kCommitAtMajority)) return missing <= (state_.view.members.size() - 1) / 2;
  return missing == 0;
}

bool Leadership::may_commit_oldest() const {
  if (waiting_.empty() || !is_acked(waiting_.oldest())) return false;
  return state_.view.members.size() >= state_.view.min_insync || waiting_.oldest().index <= barrier_index_;
}

void Leadership::advance_commit(TimeNs now) {
  if (!state_.has_durable_epoch() || !state_.leads()) return;
  if (now < state_.promises.end_outside(state_.peers) && !mutant(Mutant::kNoPromiseWait)) return;
  const uint64_t before = state_.log.commit_index();
  while (may_commit_oldest()) {
    state_.log.commit(waiting_.oldest().index);
    waiting_.drop_oldest();
  }
  if (state_.log.commit_index() == before) return;
  if (!is_open_ && state_.log.commit_index() >= barrier_index_) {
    is_open_ = true;
    state_.timer.set(now);  // to get promises at once
  }
  state_.timer.tell_commit_by(now + state_.options.tell_commit_ns);
}

TimeNs Leadership::commits_at() const {
  if (!state_.leads() || !state_.has_durable_epoch() || !may_commit_oldest()) return kTimeNever;
  return state_.promises.end_outside(state_.peers);
}

// --- The others' logs

void Leadership::on(const ReplicaId& from, const TailReport& tail, TimeNs now, ReplicaOutput& out) {
  if (tail.epoch < state_.view.epoch && state_.has_durable_epoch() && state_.leads()) {
    return out.messages.push_back({from.node, StartView{state_.view}});
  }
  PeerReplica* const sender = state_.admit(from, tail.epoch, now, out);
  if (sender == nullptr || !state_.leads()) return;
  const OwnLog& log = state_.log;
  const std::optional<EntryId> common = log.entries().last_common(tail.log);
  const PeerLog::Report report = sender->log.take_report(common, log.first_available(), sender->member);
  if (report == PeerLog::Report::kHasLost) return state_.report(out, ReplicaReport::Kind::kSuspect, from.node);
  if (report == PeerLog::Report::kTooShort) return out.messages.push_back({from.node, StartView{state_.view}});
  sender->note_doubt(tail.doubt, log.last_index());
  if (report == PeerLog::Report::kTooFarBehind)
    return out.messages.push_back({from.node, SnapshotNeeded{state_.view.epoch}});
  sender->acknowledge(tail.levels.up_to(common->index), log.last_index(), now);
  tell_agreed(*sender, now, out);
  tell_restored(*sender, out);
  stream(*sender, now, out);
  advance_commit(now);
}

void Leadership::on(const ReplicaId& from, const AppendReply& reply, TimeNs now, ReplicaOutput& out) {
  PeerReplica* const sender = state_.admit(from, reply.epoch, now, out);
  if (sender == nullptr || !state_.leads()) return;
  sender->acknowledge(reply.levels, state_.log.last_index(), now);
  tell_restored(*sender, out);
  if (sender->log.is_matched()) stream(*sender, now, out);
  advance_commit(now);
}

void Leadership::take_levels(PeerReplica& sender, const HeartbeatReply& reply, TimeNs now, ReplicaOutput& out) {
  sender.acknowledge(reply.levels, state_.log.last_index(), now);
  tell_restored(sender, out);
  const uint64_t base = state_.log.entries().base().index;
  if (sender.log.take_heartbeat_reply(reply.echo_ns, reply.levels.received, base)) tell_agreed(sender, now, out);
  sender.log.end_refusal();  // in case peer_ready() is never called
  if (sender.log.is_matched()) stream(sender, now, out);
  advance_commit(now);
}

void Leadership::peer_ready(PeerReplica& peer, TimeNs now, ReplicaOutput& out) {
  if (peer.log.is_matched()) return stream(peer, now, out);
  if (!peer.log.needs_snapshot()) out.messages.push_back({peer.id.node, StartView{state_.view}});
}

/// Sends an Append without entries. Its `prev` is the last entry that the peer's report and this log have in common.
void Leadership::tell_agreed(PeerReplica& peer, TimeNs now, ReplicaOutput& out) const {
  out.messages.push_back({peer.id.node, make_append(peer.log.agreed() + 1, peer.log.agreed())});
  peer.log.note_sent(now);
}

/// Sends Restored if the peer's doubt is over. If the message is lost, the peer's next report has the doubt again.
void Leadership::tell_restored(PeerReplica& peer, ReplicaOutput& out) const {
  if (!peer.is_restored()) return;
  out.messages.push_back({peer.id.node, Restored{state_.view.epoch, std::exchange(peer.doubt, 0)}});
}

// --- Rounds of Confirm

uint64_t Leadership::begin_confirm(ReplicaOutput& out) {
  const uint64_t round = rounds_.want();
  begin_round(out);
  return round;
}

void Leadership::begin_round(ReplicaOutput& out) {
  if (!rounds_.begin()) return;
  ask_round(out);
  end_round(out);
}

/// Sends Confirm to the required peers that have not answered. Does nothing before the view is durable; the next
/// heartbeat asks again.
void Leadership::ask_round(ReplicaOutput& out) const {
  if (!state_.has_durable_epoch() || !rounds_.is_under_way()) return;
  for (const PeerReplica& peer : state_.peers) {
    if (!peer.is_required() || peer.confirmed >= rounds_.asked()) continue;
    out.messages.push_back({peer.id.node, Confirm{state_.view.epoch, rounds_.asked()}});
  }
}

/// Ends the round if all required peers have answered. A peer whose answer was missing may no longer be required.
void Leadership::end_round(ReplicaOutput& out) {
  if (!rounds_.is_under_way() || !state_.peers.have_answered(rounds_.asked())) return;
  rounds_.finish();
  begin_round(out);
}

void Leadership::on(const ReplicaId& from, const ConfirmReply& reply, TimeNs now, ReplicaOutput& out) {
  PeerReplica* const sender = state_.admit(from, reply.epoch, now, out);
  if (sender == nullptr || !state_.leads()) return;
  sender->confirmed = std::max(sender->confirmed, std::min(reply.round, rounds_.asked()));
  end_round(out);
}

// --- With each heartbeat

void Leadership::heartbeat(TimeNs now, ReplicaOutput& out) {
  end_round(out);
  ask_round(out);
  for (PeerReplica& peer : state_.peers) {
    peer.asked_for_room = false;
    if (peer.log.needs_snapshot()) {
      out.messages.push_back({peer.id.node, SnapshotNeeded{state_.view.epoch}});
    } else if (!peer.log.is_matched()) {
      out.messages.push_back({peer.id.node, StartView{state_.view}});
    }
    state_.send_heartbeat(peer.id.node, now, out);
  }
}

void Leadership::watch(TimeNs now, ReplicaOutput& out) {
  report_slow(now, out);
  report_hung(now, out);
  report_learners(now, out);
}

void Leadership::report_slow(TimeNs now, ReplicaOutput& out) {
  const size_t members = state_.view.members.size();
  if (!is_open_ || members <= state_.view.min_insync || members < 3) return;
  for (PeerReplica& peer : state_.peers) {
    if (!peer.member || !GrayFailures::is_slow(peer, state_.peers, state_.options, now)) continue;
    state_.report(out, ReplicaReport::Kind::kSlow, peer.id.node);
  }
}

/// Reports a node whose disk hangs: such a node still answers heartbeats. Checks also before the primary is open,
/// because the former primary's hung disk may be the reason for the new view.
void Leadership::report_hung(TimeNs now, ReplicaOutput& out) {
  NodeId behind = 0;
  uint64_t index = 0;
  if (!waiting_.empty()) {
    index = waiting_.oldest().index;
    behind = state_.peers.only_one_behind(waiting_.oldest(), state_.self.node, state_.log.levels());
  }
  if (!gray_failures_.is_hung(behind, index, state_.options, now)) return;
  if (state_.view.members.size() <= state_.view.min_insync) return;
  const bool is_self = behind == state_.self.node;
  state_.report(out, is_self ? ReplicaReport::Kind::kNeedsEpoch : ReplicaReport::Kind::kSlow, behind);
}

void Leadership::report_learners(TimeNs now, ReplicaOutput& out) const {
  if (!is_open_) return;
  const bool hole = mutant(Mutant::kLearnerHole);
  for (const PeerReplica& peer : state_.peers) {
    if (peer.member || !peer.log.is_matched()) continue;
    const LogLevels& acked = peer.log.acked();
    if (peer.join == 0) {
      if (hole || acked.written + state_.options.caught_up_entries >= state_.log.last_index()) {
        state_.report(out, ReplicaReport::Kind::kCaughtUp, peer.id.node);
      }
      continue;
    }
    // Backups may not know of the joining learner yet, and then serve reads without its promise. So this primary's
    // promises to them must have expired before the learner becomes a member.
    const bool promised = state_.view.read_anywhere && state_.promises.any(now);
    if (hole || (acked.durable >= peer.join_goal && !promised)) {
      state_.report(out, ReplicaReport::Kind::kJoinReady, peer.id.node, peer.join);
    }
  }
}

}  // namespace skua::kv
