// What the shard map asks of a node: as kvstore/node/shard_manager.cc, but for its thread and its files.
#include <algorithm>
#include <utility>

#include "absl/strings/str_cat.h"
#include "kvstore/peers/peer_identity.h"
#include "rpc/base/status.h"
#include "tests/kvstore/cluster/cluster_node.h"

namespace skua::kv::sim {

void ClusterNode::on_map(const MapPtr& map) {
  if (map_ != nullptr && map->revision <= map_->revision) return;
  map_ = map;
  std::map<NodeId, std::string> uuids;
  for (const control::MapNode& node : map->nodes) uuids[node_id_of(node.uuid)] = node.uuid;
  findings_->set_nodes(std::move(uuids));
  wire_.enter();
  server_->set_map_revision(map->revision);
  tell_peers();
  reconcile();
  kick();
}

void ClusterNode::reconcile() {
  const std::vector<WantedShard> wanted = wanted_shards(*map_, info_.uuid);
  for (size_t shard = 0; shard < held_.size(); ++shard) {
    Held& at = held(shard);
    const auto found = std::ranges::find(wanted, shard_id(shard), &WantedShard::id);
    const bool stays = found != wanted.end() && !is_given_up(shard, *found->view);
    if (!stays && at.phase == Phase::kServing) leave(shard);
    if (!stays && at.phase == Phase::kFailed) at.phase = Phase::kClosed;
    if (found == wanted.end()) at.replacement.reset();
    if (at.phase == Phase::kLeaving || found == wanted.end()) continue;
    world_.view_told(shard, *found->view);
    if (at.phase == Phase::kServing) {
      tell_view(shard, *found);
    } else if (!std::exchange(at.opening, true)) {
      run(kernel_.now() + options_.sync_ns + kernel_.between(0, 20 * kMillisecond), [this, shard] {
        held(shard).opening = false;
        const std::vector<WantedShard> still = wanted_shards(*map_, info_.uuid);
        const auto here = std::ranges::find(still, shard_id(shard), &WantedShard::id);
        if (here != still.end()) open(shard, *here);
      });
    }
  }
}

/// An operator went on with another replica's data; what this one has may be what was given up.
bool ClusterNode::is_given_up(size_t shard, const View& view) const {
  const auto known = views_.find(shard);
  if (known == views_.end() || view.fork <= known->second.fork) return false;
  return std::ranges::none_of(view.members, [this](const ReplicaId& id) { return id.node == id_; });
}

void ClusterNode::take_fork(size_t shard, const View& view) {
  const auto known = views_.find(shard);
  if (view.fork <= (known == views_.end() ? 0 : known->second.fork)) return;
  if (is_given_up(shard, view)) {
    kernel_.hit(Probe::kForkGivenUp);
    kernel_.note("gives up", shard, number_, view.fork);
    destroy(shard);
    held(shard).replacement.reset();
    views_[shard] = {};
    unsynced_.erase(shard);
  } else if (view.primary == id_) {
    unsynced_.erase(shard);
  }
  views_[shard].fork = view.fork;
}

/// Under this number nothing was acknowledged, and somebody else has the data.
void ClusterNode::drop_damaged(size_t shard, const View& view) {
  if (!refused_.contains(shard_id(shard))) return;
  const auto known = views_.find(shard);
  const bool learns = view.mentions(replica_id()) && !view.is_member(replica_id());
  const bool spoke = known != views_.end() && known->second.mentions(replica_id()) && known->second.epoch >= view.epoch;
  if (!learns || spoke) return;
  kernel_.hit(Probe::kShardLearntAgain);
  kernel_.note("drops damaged", shard, number_);
  destroy(shard);
  unsynced_.erase(shard);
  refused_.erase(shard_id(shard));
}

void ClusterNode::tell_view(size_t shard, const WantedShard& wanted) {
  Held& at = held(shard);
  if (at.told == wanted.view) return;
  take_fork(shard, *wanted.view);
  at.told = wanted.view;
  wire_.enter();
  replication_->set_places(shard_id(shard), wanted.places);
  server_->set_view(shard_id(shard), *wanted.view);
  observe(shard);
}

// --- Opening

void ClusterNode::destroy(size_t shard) {
  machine_->remove_database(shard_id(shard));
}

void ClusterNode::open(size_t shard, const WantedShard& wanted) {
  Held& at = held(shard);
  if (at.phase == Phase::kServing || at.phase == Phase::kLeaving || !machine_->running()) return;
  take_fork(shard, *wanted.view);
  drop_damaged(shard, *wanted.view);
  if (refused_.contains(shard_id(shard))) {
    at.phase = Phase::kFailed;
    return;
  }
  if (at.replacement) {
    destroy(shard);
    machine_->make_database(shard_id(shard));
    Database& database = machine_->database(shard_id(shard));
    database.become(*at.replacement->database);
    if (kernel_.mutant == WorldMutant::kCopyOffByOne) static_cast<void>(database.ingest({}, database.index() + 1));
    at.replacement.reset();
    kernel_.hit(Probe::kSnapshotInstalled);
  }
  machine_->make_database(shard_id(shard));
  open_replica(shard, wanted);
  if (at.phase == Phase::kServing) tell_view(shard, wanted);
  kick();
}

void ClusterNode::open_replica(size_t shard, const WantedShard& wanted) {
  Held& at = held(shard);
  auto db = machine_->databases().open_db("", shard_id(shard), RocksdbEngine::IfMissing::kFail);
  if (!db.ok()) return;  // the machine goes off just now
  at.db = *std::move(db);
  const auto view = views_.find(shard);
  ReplicaNotes notes{.view = view == views_.end() ? View{} : view->second};
  if (const auto unsynced = unsynced_.find(shard); unsynced != unsynced_.end()) {
    notes.may_unsync = unsynced->second == boot_;
    notes.doubt = notes.may_unsync || kernel_.mutant == WorldMutant::kForgetDoubt ? 0 : unsynced->second;
    if (notes.doubt != 0) kernel_.hit(Probe::kDoubt);
  }
  wire_.enter();
  server_->expect(shard_id(shard), wanted.epoch);
  server_->serve_replica(shard_id(shard), *at.db, replica_id(), notes);
  const HeldShard* const opened = server_->shard(shard_id(shard));
  if (opened->replica == nullptr) {
    return kernel_.break_promise(absl::StrCat("node ", number_, ": ", opened->why));
  }
  at.phase = Phase::kServing;
  at.told.reset();
  at.copy_asked_ns = 0;
  at.seen_last = at.seen_commit = WorkerEngine::committed_index(*opened->engine);
  at.seen_epoch = 0;
  kernel_.note("opened", shard, number_, opened->replica->replica().last_index(), at.seen_commit);
  world_.shard_opened(*this, shard);
  observe(shard);
}

// --- Closing

void ClusterNode::leave(size_t shard) {
  kernel_.note("leaves", shard, number_);
  held(shard).phase = Phase::kLeaving;
  wire_.enter();
  replication_->forget(shard_id(shard));
  server_->remove(shard_id(shard), [this, shard] { run(kernel_.now(), [this, shard] { closed(shard); }); });
  kick();
}

void ClusterNode::closed(size_t shard) {
  Held& at = held(shard);
  at.db.reset();
  at.phase = Phase::kClosed;
  kernel_.hit(Probe::kLeft);
  reconcile();
}

// --- Copies of a shard: kvstore/snapshot/snapshot_copy.h, without its files

void ClusterNode::on_copy_asked(size_t shard, NodeId from) {
  const auto hold = server_->hold_entries(shard_id(shard));
  if (!hold.ok()) return;
  auto copy = std::make_shared<Database>(*machine_, shard_id(shard));
  copy->become(database(shard));
  const uint64_t index = copy->index();
  oracle_.found(shard, index, contents_of(*copy), "a copy");
  send_body(shard, from, ShardCopy{copy, {index, replica(shard)->replica().log().epoch_of(index).value_or(0)}});
  run(kernel_.now() + kernel_.between(300 * kMillisecond, 3 * kSecond),
      [this, shard, hold = *hold] { server_->release_entries(shard_id(shard), hold); });
}

void ClusterNode::on_copy(size_t shard, NodeId from, const ShardCopy& copy) {
  if (serving(shard) == nullptr) return;
  const Replica& replica = this->replica(shard)->replica();
  const SnapshotFit fit = replica.snapshot_fit(copy.end);
  const bool replaces = fit == SnapshotFit::kReplacesLog && copy.end.epoch != 0;
  const bool whole = replaces || copy.end.index >= replica.last_index();
  const bool stale = kernel_.mutant == WorldMutant::kStaleCopy;
  if (replica.view().primary != from || (!stale && (fit == SnapshotFit::kNone || !whole))) {
    return kernel_.hit(Probe::kSnapshotTooOld);
  }
  kernel_.note("copy", shard, number_, copy.end.index, copy.end.epoch);
  server_->retire(shard_id(shard));
  held(shard).replacement = copy;
  leave(shard);
}

}  // namespace skua::kv::sim
