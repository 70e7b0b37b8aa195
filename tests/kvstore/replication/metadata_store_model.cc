#include "tests/kvstore/replication/metadata_store_model.h"

namespace skua::kv::sim {

void MetadataStoreModel::read(size_t shard, std::function<void(const View&)> then) {
  if (kernel_.now() < away_until_) return;
  kernel_.queue.at(kernel_.now() + latency(), [this, shard, then = std::move(then)] {
    kernel_.queue.at(kernel_.now() + latency(), [view = views_[shard], then] { then(view); });
  });
}

void MetadataStoreModel::compare_and_swap(size_t shard, const View& expected, const View& next,
                                          std::function<void(Outcome)> then) {
  if (kernel_.now() < away_until_) return;
  const bool unknown = !healed_ && kernel_.rng.chance(options_.cas_unknown);
  const bool lost = unknown && kernel_.rng.chance(0.4);
  DurationNs before = latency();
  if (unknown && kernel_.rng.chance(options_.cas_late)) before += kernel_.between(0, 2 * kSecond);
  kernel_.queue.at(kernel_.now() + before, [this, shard, expected, next, lost, unknown, then = std::move(then)] {
    const Outcome outcome = lost ? Outcome::kUnknown : execute(shard, expected, next);
    if (unknown) kernel_.hit(Probe::kCasUnknown);
    kernel_.queue.at(kernel_.now() + latency(),
                     [unknown, outcome, then] { then(unknown ? Outcome::kUnknown : outcome); });
  });
}

MetadataStoreModel::Outcome MetadataStoreModel::execute(size_t shard, const View& expected, const View& next) {
  View& record = views_[shard];
  if (record.epoch != expected.epoch || record.change != expected.change) {
    kernel_.hit(Probe::kCasConflict);
    return Outcome::kConflict;
  }
  if (!is_viable(shard, next)) return Outcome::kUnknown;
  record = next;
  uint64_t who = 0;  // the primary, members and learners, a decimal digit each
  for (const ReplicaId& id : next.members) who = who * 10 + id.node;
  who *= 10;
  for (const Learner& learner : next.learners) who = who * 10 + learner.id.node;
  kernel_.note("decided", shard, next.epoch, next.primary, who);
  decided(shard, next);
  return Outcome::kDone;
}

}  // namespace skua::kv::sim
