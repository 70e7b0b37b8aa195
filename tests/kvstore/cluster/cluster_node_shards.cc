// A node's shards: the production lifecycle over simulated files.
#include <algorithm>
#include <utility>

#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "kvstore/peers/peer_identity.h"
#include "tests/kvstore/cluster/cluster_node.h"

namespace skua::kv::sim {
namespace {

/// A step that could not do all is followed by another one after so long.
constexpr DurationNs kStepAgain = 200 * kMillisecond;

}  // namespace

// --- Files

/// As node_recovery.cc: counts the start, and decides what the storage is after it.
absl::Status ClusterNode::read_files() {
  if (kernel_.mutant == WorldMutant::kForgetView) files_->remove(kViewsFile);
  auto state = read_state(*files_);
  if (!state.ok()) return state.status();
  state_ = *state;
  ++state_.incarnation;
  views_ = durable_views();
  views_read_ = files_->changes();
  const bool forgets = kernel_.mutant == WorldMutant::kForgetDoubt;
  auto unsynced = UnsyncedShards::read(*files_, forgets ? 1 : boot_);
  if (!unsynced.ok()) return unsynced.status();
  unsynced_ = *std::move(unsynced);
  if (must_learn_again(views_, refused_, {id_, state_.storage_incarnation})) ++state_.storage_incarnation;
  info_.incarnation = state_.incarnation;
  info_.storage_incarnation = state_.storage_incarnation;
  info_.instance = control::uuid_from_random(number_, info_.incarnation);
  // Nobody else has some shard: somebody sees the damage in the node's status, and starts it again later.
  if (has_damaged()) restart_by_operator(kRepairMax);
  return write_state(*files_, state_);
}

ShardViews ClusterNode::durable_views() const {
  auto views = read_views(*files_);
  if (views.ok()) return *std::move(views);
  kernel_.break_promise(absl::StrCat("node ", number_, " cannot read its views: ", views.status().message()));
  return {};
}

// --- The lifecycle

void ClusterNode::start_lifecycle() {
  const auto log = [this](LogSeverity, const std::string& line) {
    if (absl::StartsWith(line, "damaged data are removed")) kernel_.hit(Probe::kShardLearntAgain);
    if (absl::StartsWith(line, "data of another fork are removed")) kernel_.hit(Probe::kForkGivenUp);
    if (absl::StartsWith(line, "shard closed")) kernel_.hit(Probe::kLeft);
    if (kernel_.verbose) kernel_.note(line.c_str(), number_);
  };
  ShardLifecycle::Options options;
  options.node_uuid = info_.uuid;
  options.cluster_id = cluster_uuid();
  options.files = files_.get();
  options.state = state_;
  options.refused = refused_;
  options.views = views_;
  options.unsynced = &*unsynced_;
  options.log = log;
  ShardLifecycleHost& node = *this;
  lifecycle_ = std::make_unique<ShardLifecycle>(std::move(options), machine_->databases(),
                                                std::vector<WorkerCommands*>{worker_.get()}, node);
}

void ClusterNode::on_map(const MapPtr& map) {
  if (map_ != nullptr && map->revision <= map_->revision) return;
  map_ = map;
  std::map<NodeId, std::string> uuids;
  for (const control::MapNode& node : map->nodes) uuids[node_id_of(node.uuid)] = node.uuid;
  findings_->set_nodes(std::move(uuids));
  news_.map = map;
  tell_news();
}

void ClusterNode::tell_news() {
  if (std::exchange(step_scheduled_, true)) return;
  step_lifecycle(options_.sync_ns + kernel_.between(0, 20 * kMillisecond));
}

void ClusterNode::step_lifecycle(DurationNs after) {
  run(kernel_.now() + after, [this] {
    step_scheduled_ = false;
    if (!machine_->running()) return;
    wire_.enter();
    const bool settled = lifecycle_->step(std::exchange(news_, {}));
    observe_all();
    kick();
    if (!settled && !std::exchange(step_scheduled_, true)) step_lifecycle(kStepAgain);
  });
}

void ClusterNode::opened(ShardId id, const ReplicaNotes& notes) {
  const HeldShard* const opened = worker_->server().shards().find(id);
  if (opened == nullptr || opened->replica == nullptr) {
    return kernel_.break_promise(absl::StrCat("node ", number_, ": ", opened == nullptr ? "" : opened->why));
  }
  if (notes.doubt != 0) kernel_.hit(Probe::kDoubt);
  const uint64_t committed = opened->shard->indices().committed;
  seen_[id.shard] = {.last = committed, .commit = committed};
  kernel_.note("opened", id.shard, number_, opened->replica->replica().last_index(), committed);
  world_.shard_opened(*this, id.shard);
  observe(id.shard);
}

void ClusterNode::database_opened(ShardId /*id*/, ShardDb& /*db*/, uint32_t /*worker*/) {}

void ClusterNode::released_by_worker(ShardId id) {
  if (!up_) return;
  news_.released.push_back(id);
  tell_news();
}

ShardViews ClusterNode::take_adopted() {
  return std::exchange(news_.adopted, {});
}

void ClusterNode::unserved_changed(const std::map<ShardId, UnservedShard>& unserved) {
  unserved_.clear();
  for (const auto& [id, shard] : unserved) {
    unserved_.push_back({{id.table_id, id.shard}, std::string(shard.why.message())});
  }
}

}  // namespace skua::kv::sim
