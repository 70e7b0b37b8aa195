#include "kvstore/replication/peer_replicas.h"

#include <algorithm>
#include <utility>

#include "kvstore/types/mutants.h"

namespace skua::kv {

bool PeerReplica::is_required() const {
  return member || (join != 0 && !mutant(Mutant::kLearnerHole));
}

void PeerReplicas::match(const View& view, NodeId self, const Match& how) {
  PeerReplicas before;
  std::swap(before.peers_, peers_);
  const bool keep = how.keep || mutant(Mutant::kKeepOldAcks);
  const auto add = [&](const ReplicaId& id, bool member, uint64_t join) {
    if (id.node == self) return;
    const PeerReplica* const known = before.find(id);
    PeerReplica peer = known != nullptr ? *known : PeerReplica();
    if (known == nullptr || !keep) peer.start_anew(how.now + how.first_word_ns);
    peer.id = id;
    // Its silence as a learner does not count against it, because nobody waited for it then.
    if (member != peer.member || join != peer.join) peer.give_time(how.now);
    peer.member = member;
    if (join != peer.join) peer.join_goal = how.commit_index;
    peer.join = join;
    enter(peer);
  };
  for (const Learner& learner : view.learners) add(learner.id, false, learner.join);
  for (const ReplicaId& member : view.members) add(member, true, 0);
}

void PeerReplicas::enter(const PeerReplica& peer) {
  const auto at = std::lower_bound(peers_.begin(), peers_.end(), peer.id.node,
                                   [](const PeerReplica& known, NodeId node) { return known.id.node < node; });
  if (at != peers_.end() && at->id.node == peer.id.node) {
    *at = peer;
  } else {
    peers_.insert(at, peer);
  }
}

const PeerReplica* PeerReplicas::find(NodeId node) const {
  for (const PeerReplica& peer : peers_) {
    if (peer.id.node == node) return &peer;
  }
  return nullptr;
}

PeerReplica* PeerReplicas::find(NodeId node) {
  return const_cast<PeerReplica*>(std::as_const(*this).find(node));  // the peers are this object's
}

PeerReplica* PeerReplicas::find(const ReplicaId& id) {
  PeerReplica* const peer = find(id.node);
  return peer != nullptr && peer->id == id ? peer : nullptr;
}

// --- Logs

size_t PeerReplicas::missing(const CommitQueue::Entry& entry) const {
  return static_cast<size_t>(std::count_if(peers_.begin(), peers_.end(), [&](const PeerReplica& peer) {
    return peer.is_required() && !peer.log.acked().reaches(entry.index, entry.level);
  }));
}

NodeId PeerReplicas::only_one_behind(const CommitQueue::Entry& entry, NodeId self, const LogLevels& own) const {
  NodeId behind = own.reaches(entry.index, entry.level) ? 0 : self;
  bool is_alone = true;
  for (const PeerReplica& peer : peers_) {
    if (!peer.is_required()) continue;
    is_alone = false;
    if (peer.log.acked().reaches(entry.index, entry.level)) continue;
    if (behind != 0 || peer.log.acked().received < entry.index) return 0;
    behind = peer.id.node;
  }
  return is_alone ? 0 : behind;
}

uint64_t PeerReplicas::needed_from(uint64_t index) const {
  for (const PeerReplica& peer : peers_) {
    if (!peer.log.needs_snapshot()) index = std::min(index, peer.log.acked().durable + 1);
  }
  return index;
}

// --- Promises and answers

TimeNs PeerReplicas::promised_until() const {
  TimeNs until = kTimeNever;
  for (const PeerReplica& peer : peers_) {
    if (peer.is_required()) until = std::min(until, peer.held_until);
  }
  return until;
}

bool PeerReplicas::hold_promises(TimeNs now) const {
  return promised_until() > now || mutant(Mutant::kServeAfterLease);
}

void PeerReplicas::forget_promises() {
  for (PeerReplica& peer : peers_) peer.held_until = 0;
}

bool PeerReplicas::have_answered(uint64_t round) const {
  return std::all_of(peers_.begin(), peers_.end(),
                     [round](const PeerReplica& peer) { return !peer.is_required() || peer.confirmed >= round; });
}

bool PeerReplicas::is_anybody_joining() const {
  return std::any_of(peers_.begin(), peers_.end(), [](const PeerReplica& peer) { return peer.join != 0; });
}

// --- Time

bool PeerReplicas::all_are_silent(TimeNs now, DurationNs patience) const {
  size_t silent = 0;
  for (const PeerReplica& peer : peers_) {
    if (!peer.is_required()) continue;
    if (!peer.is_silent(now, patience)) return false;
    ++silent;
  }
  return silent > 1;
}

DurationNs PeerReplicas::fastest_without(NodeId node, TimeNs now) const {
  DurationNs fastest = kTimeNever;
  for (const PeerReplica& peer : peers_) {
    if (peer.member && peer.id.node != node) fastest = std::min(fastest, peer.latency.at(now));
  }
  return fastest;
}

void PeerReplicas::paused(const Pause& pause) {
  for (PeerReplica& peer : peers_) {
    peer.heard_ns = pause.moved(peer.heard_ns);
    peer.latency.paused(pause);
  }
}

}  // namespace skua::kv
