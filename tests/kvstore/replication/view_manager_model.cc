#include "tests/kvstore/replication/view_manager_model.h"

#include <algorithm>
#include <utility>

#include "tests/kvstore/replication/learner_of.h"

namespace skua::kv::sim {
namespace {

constexpr DurationNs kTick = 50 * kMillisecond;
constexpr DurationNs kSilent = 700 * kMillisecond;
constexpr DurationNs kGone = 1500 * kMillisecond;
constexpr DurationNs kAttempt = 300 * kMillisecond;
constexpr DurationNs kJoinMax = 3 * kSecond;

void erase_member(View& view, NodeId node) {
  std::erase_if(view.members, [node](const ReplicaId& id) { return id.node == node; });
}
void erase_learner(View& view, NodeId node) {
  std::erase_if(view.learners, [node](const Learner& learner) { return learner.id.node == node; });
}
const ReplicaId* member(const View& view, NodeId node) {
  for (const ReplicaId& id : view.members) {
    if (id.node == node) return &id;
  }
  return nullptr;
}

}  // namespace

// --- Life

void ViewManagerModel::start() {
  up_ = true;
  ++life_;
  kernel_.note("manager starts", life_);
  shards_.assign(options_.shards, {});
  alive_.clear();
  tick();
}

void ViewManagerModel::crash() {
  up_ = false;
  ++life_;
  kernel_.note("manager crashes", life_);
}

void ViewManagerModel::tick() {
  for (size_t shard = 0; shard < shards_.size(); ++shard) {
    Shard& at = shards_[shard];
    if (at.busy && kernel_.now() - at.busy_since > kAttempt) at.busy = false, at.view.epoch = 0;  // no answer: unknown
    if (at.busy) continue;
    // A change of unknown outcome may still come: nobody would tell.
    if (at.view.epoch == 0 || kernel_.rng.chance(0.05)) {
      read(shard);
    } else if (is_free(shard)) {
      repair(shard);
    }
  }
  kernel_.queue.at(kernel_.now() + kTick + kernel_.between(0, kMillisecond), [this, life = life_] {
    if (up_ && life == life_) tick();
  });
}

// --- The store

void ViewManagerModel::read(size_t shard) {
  Shard& at = shards_[shard];
  at.busy = true;
  at.busy_since = kernel_.now();
  store_.read(shard, [this, shard, life = life_, attempt = ++at.attempt](const View& view) {
    if (!up_ || life != life_ || attempt != shards_[shard].attempt) return;
    shards_[shard].busy = false;
    learn(shard, view);
  });
}

void ViewManagerModel::learn(size_t shard, const View& view) {
  Shard& at = shards_[shard];
  if (view.epoch != at.view.epoch) at.accused_primary.clear();
  if (view.newer_than(at.view)) at.join_since = kernel_.now();
  at.view = view;
  kernel_.note("manager learns", shard, view.epoch, view.change);
  at.quiet_until = kernel_.now() + kernel_.between(0, 100 * kMillisecond);
  broadcast(shard);
}

void ViewManagerModel::broadcast(size_t shard) {
  const View view = shards_[shard].view;
  for (size_t node = 1; node <= options_.nodes; ++node) tell(shard, node, view);
}

void ViewManagerModel::change(size_t shard, View next) {
  Shard& at = shards_[shard];
  next.change = at.view.change + 1;
  std::sort(next.members.begin(), next.members.end(),
            [](const ReplicaId& a, const ReplicaId& b) { return a.node < b.node; });
  std::sort(next.learners.begin(), next.learners.end(),
            [](const Learner& a, const Learner& b) { return a.id.node < b.id.node; });
  at.busy = true;
  at.busy_since = kernel_.now();
  store_.compare_and_swap(
      shard, at.view, next,
      [this, shard, next, life = life_, attempt = ++at.attempt](MetadataStoreModel::Outcome outcome) {
        if (!up_ || life != life_ || attempt != shards_[shard].attempt) return;
        shards_[shard].busy = false;
        if (outcome == MetadataStoreModel::Outcome::kDone || kernel_.mutant == WorldMutant::kIgnoreCasFailure) {
          learn(shard, next);
        } else {
          shards_[shard].view.epoch = 0;
          read(shard);
        }
      });
}

void ViewManagerModel::new_epoch(size_t shard, View next, Probe why) {
  kernel_.hit(why);
  ++next.epoch;
  change(shard, std::move(next));
}

bool ViewManagerModel::is_free(size_t shard) const {
  const Shard& at = shards_[shard];
  return up_ && !at.busy && at.view.epoch != 0 && kernel_.now() >= at.quiet_until;
}

// --- Nodes

bool ViewManagerModel::is_alive(const ReplicaId& id, DurationNs within) const {
  const auto found = alive_.find(id.node);
  return found != alive_.end() && found->second.incarnation == id.incarnation &&
         kernel_.now() - found->second.heard <= within;
}

void ViewManagerModel::on_alive(const ReplicaId& node, const std::vector<View>& views) {
  if (!up_) return;
  Alive& alive = alive_[node.node];
  if (node.incarnation < alive.incarnation) return;
  alive = {node.incarnation, kernel_.now()};
  for (size_t shard = 0; shard < views.size(); ++shard) {
    const View& known = shards_[shard].view;
    if (known.epoch != 0 && known.newer_than(views[shard])) tell(shard, node.node, known);
    if (known.epoch != 0 && views[shard].newer_than(known) && !shards_[shard].busy) read(shard);
  }
}

void ViewManagerModel::on_ask(size_t shard, NodeId from) {
  if (up_ && shards_[shard].view.epoch != 0) tell(shard, from, shards_[shard].view);
}

void ViewManagerModel::on_report(size_t shard, NodeId from, const ReplicaReport& report) {
  if (!is_free(shard)) return;
  const View& view = shards_[shard].view;
  if (report.epoch != view.epoch) return on_ask(shard, from);
  switch (report.kind) {
    case ReplicaReport::Kind::kSuspect: return suspect(shard, from, report.node);
    case ReplicaReport::Kind::kSlow:
      if (from == view.primary && view.members.size() > view.min_insync && report.node != view.primary) {
        drop_member(shard, report.node, Probe::kSlowMemberRemoved);
      }
      return;
    case ReplicaReport::Kind::kNeedsEpoch:
      if (from == view.primary && report.node == from) fail_over(shard, 0, true, Probe::kEpochRenewed);
      return;
    case ReplicaReport::Kind::kDoubtful: return;  // here, whoever may lack something gets a new incarnation
    case ReplicaReport::Kind::kCaughtUp: {
      View next = view;
      for (Learner& learner : next.learners) {
        if (learner.id.node != report.node || learner.join != 0 || from != view.primary) continue;
        if (!is_alive(learner.id, kSilent)) continue;
        learner.join = view.change + 1;
        kernel_.hit(Probe::kJoinStarted);
        shards_[shard].join_since = kernel_.now();
        return change(shard, std::move(next));
      }
      return;
    }
    case ReplicaReport::Kind::kJoinReady: {
      const Learner* learner = learner_of(view, report.node);
      if (learner == nullptr || learner->join == 0 || learner->join != report.join || from != view.primary) return;
      View next = view;
      next.members.push_back(learner->id);
      erase_learner(next, report.node);
      return new_epoch(shard, std::move(next), Probe::kJoined);
    }
  }
}

void ViewManagerModel::suspect(size_t shard, NodeId from, NodeId accused) {
  Shard& at = shards_[shard];
  const View& view = at.view;
  if (from == view.primary) {
    if (learner_of(view, accused) != nullptr) {
      View next = view;
      erase_learner(next, accused);
      kernel_.hit(Probe::kJoinAborted);
      return change(shard, std::move(next));
    }
    return drop_member(shard, accused, Probe::kMemberRemoved);
  }
  if (accused != view.primary || member(view, from) == nullptr) return;
  at.accused_primary[from] = kernel_.now();
  std::erase_if(at.accused_primary, [this](const auto& by) { return kernel_.now() - by.second > kSecond; });
  const ReplicaId* primary = member(view, view.primary);
  // A primary that is heard of, and accused by some only, stays.
  const bool heard = primary != nullptr && is_alive(*primary, kSilent);
  if (heard && at.accused_primary.size() + 1 < view.members.size()) return;
  if (heard) kernel_.hit(Probe::kFalseSuspicion);
  fail_over(shard, accused, kernel_.rng.chance(0.3), Probe::kFailover);
}

// --- Changes

void ViewManagerModel::drop_member(size_t shard, NodeId node, Probe why) {
  const View& view = shards_[shard].view;
  if (node == view.primary || member(view, node) == nullptr) return;
  View next = view;
  erase_member(next, node);
  new_epoch(shard, std::move(next), why);
}

/// To a member that lives; not to `not_this_one`, which stays a member or not.
void ViewManagerModel::fail_over(size_t shard, NodeId not_this_one, bool keep_member, Probe why) {
  const View& view = shards_[shard].view;
  std::vector<NodeId> candidates;
  for (const ReplicaId& id : view.members) {
    if (id.node != not_this_one && is_alive(id, kSilent)) candidates.push_back(id.node);
  }
  if (candidates.empty()) return;
  View next = view;
  next.primary = candidates[kernel_.rng.below(candidates.size())];
  if (not_this_one != 0 && !keep_member) erase_member(next, not_this_one);
  new_epoch(shard, std::move(next), why);
}

void ViewManagerModel::transfer(size_t shard) {
  if (!is_free(shard)) return;
  const View& view = shards_[shard].view;
  if (view.members.size() > 1) fail_over(shard, view.primary, kernel_.rng.chance(0.8), Probe::kTransfer);
}

void ViewManagerModel::transfer_to(size_t shard, NodeId node) {
  if (!is_free(shard)) return;
  View next = shards_[shard].view;
  const ReplicaId* to = member(next, node);
  if (to == nullptr || next.primary == node || !is_alive(*to, kSilent)) return;
  next.primary = node;
  new_epoch(shard, std::move(next), Probe::kTransfer);
}

void ViewManagerModel::depose(size_t shard) {
  if (is_free(shard)) fail_over(shard, shards_[shard].view.primary, false, Probe::kCoup);
}

void ViewManagerModel::repair(size_t shard) {
  const View& view = shards_[shard].view;
  // A member in another incarnation never comes back.
  for (const ReplicaId& id : view.members) {
    const auto alive = alive_.find(id.node);
    if (alive == alive_.end() || alive->second.incarnation <= id.incarnation) continue;
    if (id.node == view.primary) return fail_over(shard, id.node, false, Probe::kFailover);
    return drop_member(shard, id.node, Probe::kMemberRemoved);
  }
  for (const Learner& learner : view.learners) {
    const bool stuck = learner.join != 0 && kernel_.now() - shards_[shard].join_since > kJoinMax;
    if (is_alive(learner.id, kGone) && !stuck) continue;
    View next = view;
    erase_learner(next, learner.id.node);
    if (stuck && kernel_.rng.chance(0.5)) next.learners.push_back({learner.id, 0});
    if (learner.join != 0) kernel_.hit(Probe::kJoinAborted);
    shards_[shard].join_since = kernel_.now();
    return change(shard, std::move(next));
  }
  if (view.members.size() + view.learners.size() < options_.replicas) return add_learner(shard);
  if (!healed_ && kernel_.rng.chance(options_.bad_manager_choice)) {
    if (kernel_.rng.chance(0.5) && view.members.size() > 1) {
      const ReplicaId& victim = view.members[kernel_.rng.below(view.members.size())];
      return drop_member(shard, victim.node, Probe::kMemberRemoved);
    }
    if (view.members.size() + view.learners.size() < options_.nodes) return add_learner(shard);
  }
}

void ViewManagerModel::add_learner(size_t shard) {
  const View& view = shards_[shard].view;
  std::vector<ReplicaId> candidates;
  for (const auto& [node, alive] : alive_) {
    const ReplicaId id{node, alive.incarnation};
    if (member(view, node) != nullptr || learner_of(view, node) != nullptr || !is_alive(id, kSilent)) continue;
    candidates.push_back(id);
  }
  if (candidates.empty()) return;
  View next = view;
  next.learners.push_back({candidates[kernel_.rng.below(candidates.size())], 0});
  kernel_.hit(Probe::kLearnerAdded);
  change(shard, std::move(next));
}

}  // namespace skua::kv::sim
