// Backups and learners: they follow the primary's log, and promise the primary to commit nothing without it (lease.h).
#include <algorithm>
#include <utility>

#include "kvstore/replication/replica.h"
#include "kvstore/replication/replication_mutants.h"

namespace skua::kv {
namespace {

/// Whether a primary's log can have these entries: epochs never fall, and none is higher than the message's epoch. (An
/// entry whose epoch the primary does not know any more has epoch 0.)
bool can_follow(const Append& append) {
  uint64_t before = append.prev.epoch;
  for (const uint64_t epoch : append.epochs) {
    if (epoch < std::exchange(before, epoch)) return false;
  }
  return before <= append.epoch && append.prev.index <= EpochHistory::kIndexMax - append.epochs.size();
}

}  // namespace

void Replica::on(const ReplicaId& from, const StartView& start, TimeNs now, ReplicaOutput& out) {
  if (start.view.epoch < view_.epoch) {
    if (speaks()) out.messages.push_back({from.node, StaleEpoch{view_}});
    return;
  }
  hear_of(start.view, out);
  if (start.view.epoch != view_.epoch || !speaks() || from.node != view_.primary) return;
  Peer* const primary = sender(from);
  if (primary == nullptr) return;
  primary->heard_ns = now;
  if (role_ == ReplicaRole::kBackup || role_ == ReplicaRole::kLearner) send_tail(out);
}

void Replica::on(const ReplicaId& /*from*/, const StaleEpoch& stale, TimeNs /*now*/, ReplicaOutput& out) {
  hear_of(stale.view, out);
}

/// A message carries only the newest runs, and a log may have more: one for each primary that committed nothing. The
/// primary treats the older ones as unknown, which at worst costs a snapshot.
void Replica::send_tail(ReplicaOutput& out) const {
  if (view_.primary == 0 || view_.primary == self_.node) return;
  TailReport tail{view_.epoch, log_, levels_, commit_index_, doubt_};
  tail.log.compact_to(EpochHistory::kRunsMax, tail.log.last_index());
  out.messages.push_back({view_.primary, std::move(tail)});
}

/// The levels that may be acknowledged: only of entries that are known to agree with the primary's log.
LogLevels Replica::verified_levels() const {
  LogLevels levels{std::min(levels_.received, verified_), std::min(levels_.written, verified_),
                   std::min(levels_.durable, verified_)};
  if (replica_mutant(ReplicaMutant::kAckBeforeDurable)) levels.durable = levels.written = levels.received;
  return levels;
}

void Replica::on(const ReplicaId& from, const Append& append, TimeNs now, ReplicaOutput& out) {
  if (!in_epoch(from, append.epoch, now, out)) return;
  if (from.node != view_.primary && !replica_mutant(ReplicaMutant::kSkipEpochCheck)) return;
  if (role_ != ReplicaRole::kBackup && role_ != ReplicaRole::kLearner) return;
  if (!can_follow(append)) return;
  // Committed entries agree with every primary's log, so they need not be compared.
  const uint64_t end = append.prev.index + append.epochs.size();
  if (append.prev.index > commit_index_ && log_.epoch_of(append.prev.index) != append.prev.epoch) {
    // Every Append behind a gap fails this test, and each report makes the primary send its whole window again. So the
    // report is sent once per tail_again_ns only.
    if (now < tail_again_ns_) return;
    tail_again_ns_ = now + options_.tail_again_ns;
    send_tail(out);
    return;
  }
  uint64_t index = std::max(append.prev.index, commit_index_) + 1;
  const auto epoch_at = [&](uint64_t at) { return append.epochs[at - append.prev.index - 1]; };
  while (index <= end && log_.epoch_of(index) == epoch_at(index)) ++index;
  if (index <= end) {
    if (index <= log_.last_index()) {
      log_.truncate(index - 1);
      levels_ = {std::min(levels_.received, index - 1), std::min(levels_.written, index - 1),
                 std::min(levels_.durable, index - 1)};
      out.truncate_after = index - 1;
    }
    out.accept_first = index;
    for (; index <= end; ++index) log_.append(epoch_at(index));
    levels_.received = log_.last_index();
    log_.compact_to(EpochHistory::kRunsMax, commit_index_);
  }
  verified_ = std::max(verified_, end);
  is_verified_ = true;
  learn_commit(append.commit_index);
  if (out.accept_first == 0 || append.acknowledge_received) {
    out.messages.push_back({from.node, AppendReply{view_.epoch, verified_levels()}});
  }
}

/// The commit index stays within the entries that the own log has written, so that applied entries are still in the log
/// after a restart of the process.
void Replica::learn_commit(uint64_t commit_index) {
  known_commit_ = std::max(known_commit_, commit_index);
  commit_index_ = std::max(commit_index_, std::min({known_commit_, verified_, levels_.written}));
}

void Replica::on(const ReplicaId& from, const Heartbeat& heartbeat, TimeNs now, ReplicaOutput& out) {
  if (!in_epoch(from, heartbeat.epoch, now, out)) return;
  if (role_ == ReplicaRole::kInactive) return;
  const Peer& sender = *peer(from.node);
  const bool leads = from.node == view_.primary;
  if (leads) learn_commit(heartbeat.commit_index);
  bool granted = (leads || (view_.read_anywhere && sender.member)) && !log_stalled_;
  // Backups that do not know of a joining learner yet do not ask for its promise. So a primary makes no promises while
  // a learner joins; without them no backup serves reads.
  if (role_ == ReplicaRole::kPrimary && is_joining_anybody()) granted = false;
  if (granted) {
    TimeNs& until = promised_until_[from.node];
    until = std::max(until, now + options_.lease.promised_ns());
  }
  out.messages.push_back({from.node, HeartbeatReply{view_.epoch, heartbeat.sent_ns, granted, verified_levels()}});
}

void Replica::on(const ReplicaId& from, const Confirm& confirm, TimeNs now, ReplicaOutput& out) {
  if (!in_epoch(from, confirm.epoch, now, out) || from.node != view_.primary) return;
  out.messages.push_back({from.node, ConfirmReply{view_.epoch, confirm.round}});
}

void Replica::on(const ReplicaId& from, const SnapshotNeeded& needed, TimeNs now, ReplicaOutput& out) {
  if (!in_epoch(from, needed.epoch, now, out) || from.node != view_.primary) return;
  if (role_ != ReplicaRole::kLearner && role_ != ReplicaRole::kBackup) return;
  // The logs were known to agree already. The primary may have received an older report that was overtaken, so it gets
  // a new report before a snapshot is fetched.
  if (std::exchange(is_verified_, false)) return send_tail(out);
  out.fetch_snapshot = true;
}

void Replica::on(const ReplicaId& from, const Restored& restored, TimeNs now, ReplicaOutput& out) {
  if (!in_epoch(from, restored.epoch, now, out) || from.node != view_.primary) return;
  if (doubt_ == 0 || restored.doubt != doubt_) return;
  doubt_ = 0;
  out.restored = true;
}

}  // namespace skua::kv
