// The primary: sends its log to the others, commits entries that all have, and decides when it may answer reads alone.
#include <algorithm>
#include <utility>

#include "kvstore/replication/replica.h"
#include "kvstore/replication/replication_mutants.h"
#include "rpc/base/check.h"

namespace skua::kv {
namespace {

bool reaches(const LogLevels& levels, uint64_t index, Durability level) {
  switch (level) {
    case Durability::kMemory: return levels.received >= index;
    case Durability::kFlush: return levels.written >= index;
    case Durability::kDefault:
    case Durability::kSync: return levels.durable >= index;
  }
  return false;
}

}  // namespace

void Replica::begin_reign(ReplicaOutput& out) {
  if (replica_mutant(ReplicaMutant::kOpenBeforeBarrier)) open_ = true;
  log_.append(view_.epoch);
  log_.compact_to(EpochHistory::kRunsMax, commit_index_);
  barrier_index_ = log_.last_index();
  levels_.received = barrier_index_;
  verified_ = barrier_index_;
  out.append_barrier = true;
  waiting_.push_back({barrier_index_, Durability::kSync});
}

void Replica::propose(Durability level, TimeNs now, ReplicaOutput& out) {
  SKUA_CHECK(role_ == ReplicaRole::kPrimary, "only a primary proposes");
  log_.append(log_.last().epoch);
  levels_.received = verified_ = log_.last_index();
  waiting_.push_back({log_.last_index(), level});
  bool all = true;
  for (auto& [node, peer] : peers_) {
    if (peer.matched) stream(peer, now, out);
    all = all && peer.next > log_.last_index();
  }
  if (all) tell_commit_ns_ = kTimeNever;  // these Appends tell all peers the commit index
  if (level == Durability::kMemory) advance_commit(now);
}

// --- The others' logs

void Replica::on(const ReplicaId& from, const TailReport& tail, TimeNs now, ReplicaOutput& out) {
  if (tail.epoch < view_.epoch && speaks() && role_ == ReplicaRole::kPrimary) {
    out.messages.push_back({from.node, StartView{view_}});
    return;
  }
  if (!in_epoch(from, tail.epoch, now, out) || role_ != ReplicaRole::kPrimary) return;
  Peer& sender = *peer(from.node);
  const std::optional<EntryId> common = log_.last_common(tail.log);
  if (sender.member && common && common->index < sender.acked.durable) {
    // Either this is an old report that was overtaken, or the member has lost entries that it had acknowledged as
    // durable. It is asked once more. If it reports the same again, it is accused, and can come back only as a learner.
    if (std::exchange(sender.asked_again, true)) return report(out, ReplicaReport::Kind::kSuspect, from.node);
    out.messages.push_back({from.node, StartView{view_}});
    return;
  }
  sender.asked_again = false;
  if (tail.doubt != sender.doubt) {
    sender.doubt = tail.doubt;
    sender.restored_at = log_.last_index();  // all entries committed before are at or below it
  }
  sender.needs_snapshot = !common || common->index + 1 < first_available_;
  if (sender.needs_snapshot) {
    sender.matched = false;
    out.messages.push_back({from.node, SnapshotNeeded{view_.epoch}});
    return;
  }
  sender.matched = true;
  sender.refused = false;
  sender.agreed = common->index;
  sender.next = sender.agreed + 1;
  // The peer may have lost entries that were written but not synced.
  sender.acked.received = std::min(sender.acked.received, sender.agreed);
  sender.acked.written = std::min(sender.acked.written, sender.agreed);
  note_acked(sender,
             {std::min(tail.levels.received, common->index), std::min(tail.levels.written, common->index),
              std::min(tail.levels.durable, common->index)},
             now);
  tell_agreed(sender, now, out);
  tell_restored(sender, out);
  stream(sender, now, out);
  advance_commit(now);
}

void Replica::on(const ReplicaId& from, const AppendReply& reply, TimeNs now, ReplicaOutput& out) {
  if (!in_epoch(from, reply.epoch, now, out) || role_ != ReplicaRole::kPrimary) return;
  Peer& sender = *peer(from.node);
  note_acked(sender, reply.levels, now);
  tell_restored(sender, out);
  if (sender.matched) stream(sender, now, out);
  advance_commit(now);
}

void Replica::on(const ReplicaId& from, const HeartbeatReply& reply, TimeNs now, ReplicaOutput& out) {
  if (!in_epoch(from, reply.epoch, now, out)) return;
  Peer& sender = *peer(from.node);
  if (reply.granted && reply.echo_ns <= now) {
    sender.held_until = std::max(sender.held_until, reply.echo_ns + options_.lease.held_ns());
  }
  if (role_ != ReplicaRole::kPrimary) return;
  note_acked(sender, reply.levels, now);
  tell_restored(sender, out);
  // The heartbeat was sent after the last entry, but the peer does not have that entry: it was lost on the way.
  if (sender.matched && reply.echo_ns > sender.last_send_ns && reply.levels.received < sender.next - 1) {
    // The peer has the entries up to `agreed` but may not know that they agree. They need not be sent again, and may
    // not be readable here any more; tell_agreed() tells it.
    sender.next = std::max({reply.levels.received, sender.agreed, log_.base().index}) + 1;
    if (reply.levels.received < sender.agreed) tell_agreed(sender, now, out);
  }
  sender.refused = false;  // in case peer_ready() is never called
  if (sender.matched) stream(sender, now, out);
  advance_commit(now);
}

/// Sends an Append without entries. Its `prev` is the last entry that the peer's report and this log have in common.
void Replica::tell_agreed(Peer& peer, TimeNs now, ReplicaOutput& out) const {
  out.messages.push_back({peer.id.node, make_append(peer.agreed + 1, peer.agreed)});
  peer.last_send_ns = now;
}

/// Sends Restored if the peer's doubt is over. If the message is lost, the peer's next report has the doubt again.
void Replica::tell_restored(Peer& peer, ReplicaOutput& out) const {
  if (peer.doubt == 0 || peer.acked.durable < peer.restored_at) return;
  out.messages.push_back({peer.id.node, Restored{view_.epoch, std::exchange(peer.doubt, 0)}});
}

void Replica::note_acked(Peer& peer, const LogLevels& levels, TimeNs now) {
  const uint64_t last = log_.last_index();  // a peer cannot have more; its levels are not trusted beyond
  peer.acked.received = std::max(peer.acked.received, std::min(levels.received, last));
  peer.acked.written = std::max(peer.acked.written, std::min(levels.written, last));
  peer.acked.durable = std::max(peer.acked.durable, std::min(levels.durable, last));
  if (peer.sample_index == 0 || !reaches(peer.acked, peer.sample_index, peer.sample_level)) return;
  const DurationNs sample = now - peer.sample_ns;
  peer.latency_ns = peer.latency_ns == 0 ? sample : peer.latency_ns + (sample - peer.latency_ns) / 8;
  peer.sample_index = 0;
}

void Replica::stream(Peer& peer, TimeNs now, ReplicaOutput& out) {
  if (!speaks() || peer.refused) return;
  if (peer.next < first_available_ && peer.next <= log_.last_index()) {
    peer.matched = false;
    peer.needs_snapshot = true;
    out.messages.push_back({peer.id.node, SnapshotNeeded{view_.epoch}});
    return;
  }
  const uint64_t window_end = peer.acked.received + options_.window_entries_max;
  while (peer.next <= log_.last_index() && peer.next <= window_end) {
    const uint64_t last = std::min({log_.last_index(), window_end, peer.next + options_.append_entries_max - 1});
    out.sends.push_back({peer.id.node, peer.next, last});
    if (const Waiting* const waits = peer.sample_index == 0 ? waiting_entry(last) : nullptr; waits != nullptr) {
      peer.sample_index = last;
      peer.sample_level = waits->level;
      peer.sample_ns = now;
    }
    peer.next = last + 1;
    peer.last_send_ns = now;
  }
}

/// The waiting entry with this index. Null: it is committed, or not of this reign.
const Replica::Waiting* Replica::waiting_entry(uint64_t index) const {
  const auto found = std::lower_bound(waiting_.begin(), waiting_.end(), index,
                                      [](const Waiting& entry, uint64_t at) { return entry.index < at; });
  return found == waiting_.end() || found->index != index ? nullptr : &*found;
}

Append Replica::make_append(uint64_t first, uint64_t last) const {
  Append made;
  made.epoch = view_.epoch;
  made.prev = {first - 1, log_.epoch_of(first - 1).value_or(0)};
  made.commit_index = std::min(commit_index_, shown_);
  for (uint64_t index = first; index <= last; ++index) made.epochs.push_back(log_.epoch_of(index).value_or(0));
  const auto begin = std::lower_bound(waiting_.begin(), waiting_.end(), first,
                                      [](const Waiting& entry, uint64_t index) { return entry.index < index; });
  for (auto at = begin; at != waiting_.end() && at->index <= last; ++at) {
    made.acknowledge_received = made.acknowledge_received || at->level == Durability::kMemory;
  }
  return made;
}

// --- Commits

/// Whether commits need this peer's acknowledgement, and leases its promise.
bool Replica::required(const Peer& peer) {
  return peer.member || (peer.join != 0 && !replica_mutant(ReplicaMutant::kLearnerHole));
}

bool Replica::is_acked(const Waiting& entry) const {
  const auto reached = [&](const LogLevels& levels) { return reaches(levels, entry.index, entry.level); };
  if (!reached(levels_)) return false;
  size_t missing = 0;
  for (const auto& [node, peer] : peers_) missing += required(peer) && !reached(peer.acked) ? 1 : 0;
  if (replica_mutant(ReplicaMutant::kCommitAtMajority)) return missing <= (view_.members.size() - 1) / 2;
  return missing == 0;
}

/// When the last promise to a replica that is no longer a member ends: nothing may be committed before. Promises to
/// members do not matter: commits need their acknowledgements, and to acknowledge they must have left their older
/// epoch.
TimeNs Replica::promises_end() const {
  TimeNs end = former_life_until_;
  for (const auto& [node, until] : promised_until_) {
    const Peer* member = nullptr;
    const auto found = peers_.find(node);
    if (found != peers_.end()) member = &found->second;
    if (member == nullptr || !member->member) end = std::max(end, until);
  }
  return end;
}

void Replica::advance_commit(TimeNs now) {
  if (!speaks() || role_ != ReplicaRole::kPrimary) return;
  if (now < promises_end() && !replica_mutant(ReplicaMutant::kNoGrantWait)) return;
  const uint64_t before = commit_index_;
  // With fewer than min_insync members no new entry is committed, so no new write is answered. The barrier, and with it
  // the entries of former primaries, is committed even then, so that reads can be served.
  const bool enough = view_.members.size() >= view_.min_insync;
  while (!waiting_.empty() && is_acked(waiting_.front()) && (enough || waiting_.front().index <= barrier_index_)) {
    commit_index_ = waiting_.front().index;
    waiting_.pop_front();
  }
  if (commit_index_ == before) return;
  if (!open_ && commit_index_ >= barrier_index_) {
    open_ = true;
    next_heartbeat_ns_ = now;  // to get promises at once
  }
  if (tell_commit_ns_ == kTimeNever) tell_commit_ns_ = now + options_.tell_commit_ns;
}

// --- Reads

bool Replica::holds_promises(TimeNs now) const {
  if (replica_mutant(ReplicaMutant::kServeAfterLease)) return true;
  return std::all_of(peers_.begin(), peers_.end(),
                     [now](const auto& entry) { return !required(entry.second) || entry.second.held_until > now; });
}

bool Replica::may_serve_read(TimeNs now) const {
  if (!options_.leases) return false;
  if (role_ == ReplicaRole::kPrimary) return open_ && holds_promises(now);
  // A doubtful backup may lack writes of any key.
  return role_ == ReplicaRole::kBackup && doubt_ == 0 && view_.read_anywhere && speaks() && holds_promises(now);
}

TimeNs Replica::lease_until() const {
  if (!open() || !options_.leases) return 0;
  TimeNs until = kTimeNever;
  for (const auto& [node, peer] : peers_) {
    if (required(peer)) until = std::min(until, peer.held_until);
  }
  return until;
}

uint64_t Replica::begin_confirm(ReplicaOutput& out) {
  SKUA_CHECK(open(), "only an open primary confirms");
  // A round that is under way began before this read, so the read needs the next round.
  confirm_wanted_ = confirm_sent_ + 1;
  if (confirmed_round_ == confirm_sent_) begin_round(out);
  return confirm_wanted_;
}

void Replica::begin_round(ReplicaOutput& out) {
  confirm_sent_ = confirm_wanted_;
  ask_round(out);
  end_round(out);
}

/// Sends Confirm to the required peers that have not answered. Does nothing before the view is durable; the next
/// heartbeat asks again.
void Replica::ask_round(ReplicaOutput& out) {
  if (!speaks() || confirmed_round_ == confirm_sent_) return;
  for (const auto& [node, other] : peers_) {
    if (required(other) && other.confirmed < confirm_sent_) {
      out.messages.push_back({node, Confirm{view_.epoch, confirm_sent_}});
    }
  }
}

/// Ends the round if all required peers have answered. A peer whose answer was missing may no longer be required.
void Replica::end_round(ReplicaOutput& out) {
  if (confirmed_round_ == confirm_sent_) return;
  for (const auto& [node, other] : peers_) {
    if (required(other) && other.confirmed < confirm_sent_) return;
  }
  confirmed_round_ = confirm_sent_;
  if (confirm_wanted_ > confirm_sent_) begin_round(out);
}

void Replica::on(const ReplicaId& from, const ConfirmReply& reply, TimeNs now, ReplicaOutput& out) {
  if (!in_epoch(from, reply.epoch, now, out) || role_ != ReplicaRole::kPrimary) return;
  Peer& sender = *peer(from.node);
  sender.confirmed = std::max(sender.confirmed, std::min(reply.round, confirm_sent_));
  end_round(out);
}

void Replica::on(const ReplicaId& from, const Release& release, TimeNs now, ReplicaOutput& /*out*/) {
  const bool current = release.epoch == view_.epoch && peer(from.node) == nullptr;
  if (!speaks() || (!current && !replica_mutant(ReplicaMutant::kReleaseTwice))) return;
  promised_until_.erase(from.node);
  if (role_ == ReplicaRole::kPrimary) advance_commit(now);
}

// --- Learners, and members that hold up all writes

bool Replica::is_joining_anybody() const {
  return std::any_of(peers_.begin(), peers_.end(), [](const auto& entry) { return entry.second.join != 0; });
}

void Replica::report_learners(TimeNs now, ReplicaOutput& out) const {
  if (!open_) return;
  for (const auto& [node, peer] : peers_) {
    if (peer.member || !peer.matched) continue;
    const bool hole = replica_mutant(ReplicaMutant::kLearnerHole);
    if (peer.join == 0) {
      if (hole || peer.acked.written + options_.caught_up_entries >= log_.last_index()) {
        report(out, ReplicaReport::Kind::kCaughtUp, node);
      }
      continue;
    }
    // Backups may not know of the joining learner yet, and then serve reads without its promise. So this primary's
    // promises to them must have expired before the learner becomes a member.
    const bool promised = view_.read_anywhere && std::any_of(promised_until_.begin(), promised_until_.end(),
                                                             [now](const auto& to) { return to.second > now; });
    if (hole || (peer.acked.durable >= peer.join_goal && !promised)) {
      report(out, ReplicaReport::Kind::kJoinReady, node, peer.join);
    }
  }
}

void Replica::look_for_slowness(TimeNs now, ReplicaOutput& out) {
  if (!open_ || view_.members.size() <= view_.min_insync || view_.members.size() < 3) return;
  const auto latency = [now](const Peer& peer) {
    return peer.sample_index == 0 ? peer.latency_ns : std::max(peer.latency_ns, now - peer.sample_ns);
  };
  for (auto& [node, peer] : peers_) {
    if (!peer.member) continue;
    DurationNs fastest = kTimeNever;
    for (const auto& [other_node, other] : peers_) {
      if (other.member && other_node != node) fastest = std::min(fastest, latency(other));
    }
    const bool slow = latency(peer) > std::max(options_.slow_floor_ns, fastest * options_.slow_ratio);
    if (!slow) {
      peer.slow_since = kTimeNever;
    } else if (peer.slow_since == kTimeNever) {
      peer.slow_since = now;
    } else if (now - peer.slow_since > options_.slow_after_ns) {
      report(out, ReplicaReport::Kind::kSlow, node);
    }
  }
}

/// The node whose log alone the oldest waiting entry waits for, if that node has received the entry. 0: there is no
/// such node.
NodeId Replica::only_one_behind() const {
  if (waiting_.empty() || peers_.empty()) return 0;
  const Waiting& entry = waiting_.front();
  const auto reached = [&](const LogLevels& levels) { return reaches(levels, entry.index, entry.level); };
  NodeId behind = reached(levels_) ? 0 : self_.node;
  size_t others = 0;
  for (const auto& [node, peer] : peers_) {
    if (!required(peer)) continue;
    ++others;
    if (reached(peer.acked)) continue;
    if (behind != 0 || peer.acked.received < entry.index) return 0;
    behind = node;
  }
  return others == 0 ? 0 : behind;
}

/// Reports a node whose disk hangs: such a node still answers heartbeats. Checks also before the primary is open,
/// because the former primary's hung disk may be the reason for the new view.
void Replica::look_for_hung_log(TimeNs now, ReplicaOutput& out) {
  const NodeId behind = only_one_behind();
  const uint64_t index = waiting_.empty() ? 0 : waiting_.front().index;
  if (behind == 0 || behind != hung_.node || index != hung_.index) {
    hung_.node = behind;
    hung_.index = index;
    hung_.since = now;
    return;
  }
  if (now - hung_.since <= options_.hung_after_ns || view_.members.size() <= view_.min_insync) return;
  report(out, behind == self_.node ? ReplicaReport::Kind::kNeedsEpoch : ReplicaReport::Kind::kSlow, behind);
}

}  // namespace skua::kv
