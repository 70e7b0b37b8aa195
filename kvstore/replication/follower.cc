#include "kvstore/replication/follower.h"

#include <utility>

#include "kvstore/types/mutants.h"

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

void Follower::on(const ReplicaId& from, const StartView& start, TimeNs now, ReplicaOutput& out) {
  if (start.view.epoch < state_.view.epoch) {
    if (state_.has_durable_epoch()) out.messages.push_back({from.node, StaleEpoch{state_.view}});
    return;
  }
  state_.hear_of(start.view, out);
  if (start.view.epoch != state_.view.epoch || !state_.has_durable_epoch() || from.node != state_.view.primary) return;
  PeerReplica* const primary = state_.peers.find(from);
  if (primary == nullptr) return;
  primary->heard_ns = now;
  if (state_.follows()) send_tail(out);
}

/// A message carries only the newest runs, and a log may have more: one for each primary that committed nothing. The
/// primary treats the older ones as unknown, which at worst costs a snapshot.
void Follower::send_tail(ReplicaOutput& out) const {
  const View& view = state_.view;
  if (view.primary == 0 || view.primary == state_.self.node) return;
  const OwnLog& log = state_.log;
  TailReport tail{view.epoch, log.entries(), log.levels(), log.commit_index(), state_.doubt};
  tail.log.compact_to(EpochHistory::kRunsMax, tail.log.last_index());
  out.messages.push_back({view.primary, std::move(tail)});
}

void Follower::on(const ReplicaId& from, const Append& append, TimeNs now, ReplicaOutput& out) {
  if (state_.admit(from, append.epoch, now, out) == nullptr) return;
  if (from.node != state_.view.primary && !mutant(Mutant::kSkipEpochCheck)) return;
  if (!state_.follows() || !can_follow(append)) return;
  if (!state_.log.continues(append)) {
    if (state_.agreement.may_tell_gap(now, state_.options.tail_again_ns)) send_tail(out);
    return;
  }
  const OwnLog::Change change = state_.log.follow(append);
  if (change.truncate_after) out.truncate_after = change.truncate_after;
  if (change.accept_first != 0) out.accept_first = change.accept_first;
  state_.agreement.prove(append.prev.index + append.epochs.size());
  learn_commit(append.commit_index);
  if (change.accept_first == 0 || append.acknowledge_received) {
    out.messages.push_back({from.node, AppendReply{state_.view.epoch, state_.verified_levels()}});
  }
}

void Follower::on(const ReplicaId& from, const SnapshotNeeded& needed, TimeNs now, ReplicaOutput& out) {
  if (state_.admit(from, needed.epoch, now, out) == nullptr || from.node != state_.view.primary) return;
  if (!state_.follows()) return;
  // The logs were known to agree already. The primary may have received an older report that was overtaken, so it gets
  // a new report before a snapshot is fetched.
  if (state_.agreement.withdraw()) return send_tail(out);
  out.fetch_snapshot = true;
}

void Follower::on(const ReplicaId& from, const Restored& restored, TimeNs now, ReplicaOutput& out) {
  if (state_.admit(from, restored.epoch, now, out) == nullptr || from.node != state_.view.primary) return;
  if (state_.doubt == 0 || restored.doubt != state_.doubt) return;
  state_.doubt = 0;
  out.restored = true;
}

void Follower::log_moved(const LogLevels& before, ReplicaOutput& out) {
  learn_commit(0);
  // Received entries alone are not news here: on(Append) acknowledges them if the primary asked for it.
  const LogLevels& levels = state_.log.levels();
  const bool is_news = levels.written > before.written || levels.durable > before.durable;
  if (is_news && state_.follows() && state_.has_durable_epoch()) {
    out.messages.push_back({state_.view.primary, AppendReply{state_.view.epoch, state_.verified_levels()}});
  }
}

void Follower::learn_commit(uint64_t index) {
  state_.agreement.hear_of_commit(index);
  state_.log.commit(state_.agreement.commit_index(state_.log.levels().written));
}

void Follower::peer_ready(NodeId node, ReplicaOutput& out) const {
  if (node != state_.view.primary || state_.role == ReplicaRole::kInactive) return;
  if (!state_.agreement.is_proven()) send_tail(out);
}

void Follower::heartbeat(TimeNs now, ReplicaOutput& out) {
  // A doubtful replica that has all known commits reports its tail again, so that the primary can say Restored.
  const bool asks = state_.doubt != 0 && state_.verified_levels().durable >= state_.agreement.known_commit();
  if (!state_.agreement.is_proven() || asks) send_tail(out);
  state_.timer.commit_is_told();
  // Who serves reads asks all members for promises.
  const bool reads = state_.view.read_anywhere && state_.role == ReplicaRole::kBackup;
  for (PeerReplica& peer : state_.peers) {
    peer.asked_for_room = false;
    if (reads && peer.is_required()) state_.send_heartbeat(peer.id.node, now, out);
  }
}

}  // namespace skua::kv
