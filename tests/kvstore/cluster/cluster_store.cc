#include "tests/kvstore/cluster/cluster_store.h"

#include <utility>

#include "control/core/view_rules.h"

namespace skua::kv::sim {
namespace {

constexpr DurationNs kTimeout = kSecond;

}  // namespace

void ClusterStore::load(std::function<void(const std::optional<control::ClusterState>&)> then) {
  if (is_away()) return later(kTimeout, [then = std::move(then)] { then(std::nullopt); });
  later(latency(),
        [this, then = std::move(then)] { later(latency(), [state = std::optional(state_), then] { then(state); }); });
}

void ClusterStore::commit(uint64_t term, uint64_t base_revision, control::Changes changes,
                          std::function<void(Outcome)> then) {
  if (is_away()) return later(kTimeout, [then = std::move(then)] { then(Outcome::kUnknown); });
  const bool unknown = !healed_ && kernel_.rng.chance(options_.commit_unknown);
  const bool lost = unknown && kernel_.rng.chance(0.4);
  DurationNs before = latency();
  const DurationNs answer = before + latency();
  if (unknown) kernel_.hit(Probe::kCasUnknown);
  if (unknown && kernel_.rng.chance(options_.commit_late)) before += kernel_.between(0, 2 * kSecond);
  if (unknown) later(answer, [then] { then(Outcome::kUnknown); });
  if (lost) return;
  later(before, [this, term, base_revision, changes = std::move(changes), unknown, then = std::move(then)] {
    const Outcome outcome = execute(term, base_revision, changes);
    if (!unknown) later(latency(), [outcome, then] { then(outcome); });
  });
}

ClusterStore::Outcome ClusterStore::execute(uint64_t term, uint64_t base_revision, const control::Changes& changes) {
  const bool blind = kernel_.mutant == WorldMutant::kBlindCommit;
  if ((term != term_ || kernel_.now() >= lease_until_) && !blind) {
    kernel_.hit(Probe::kLeaderDeposed);
    return Outcome::kDeposed;
  }
  if (base_revision != state_.map_revision && !blind) {
    kernel_.hit(Probe::kCasConflict);
    return Outcome::kConflict;
  }
  if (!is_viable(changes)) return Outcome::kUnknown;
  for (const control::ShardRecord& after : changes.put_shards) {
    const auto before = state_.shards.find({after.table_id, after.shard});
    if (before == state_.shards.end()) continue;
    const std::string broken = control::check_successor(before->second, after);
    if (!broken.empty()) kernel_.break_promise("I1, I7: a record that may not follow: " + broken);
  }
  const control::ClusterState before = state_;
  control::apply(changes, state_);
  kernel_.note("committed by", leader_, term, state_.map_revision, changes.put_shards.size());
  decided(changes, before);
  return Outcome::kDone;
}

void ClusterStore::campaign(size_t who, std::function<void(uint64_t term)> then) {
  if (is_away()) return;
  later(latency(), [this, who, then = std::move(then)] {
    uint64_t won = 0;
    if (kernel_.now() >= lease_until_) {
      if (leader_ != who) kernel_.hit(Probe::kLeaderChanged);
      leader_ = who;
      won = ++term_;
      lease_until_ = kernel_.now() + options_.leader_lease_ns;
      kernel_.note("leads", who, won);
    }
    later(latency(), [won, then] { then(won); });
  });
}

void ClusterStore::renew(uint64_t term, std::function<void(bool leads)> then) {
  if (is_away()) return;
  later(latency(), [this, term, then = std::move(then)] {
    const bool leads = term == term_ && kernel_.now() < lease_until_;
    if (leads) lease_until_ = kernel_.now() + options_.leader_lease_ns;
    later(latency(), [leads, then] { then(leads); });
  });
}

void ClusterStore::resign(uint64_t term) {
  if (term == term_) lease_until_ = 0;
}

}  // namespace skua::kv::sim
