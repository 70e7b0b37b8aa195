#include "kvstore/node/shard_lifecycle.h"

#include <algorithm>
#include <set>
#include <utility>

#include "absl/strings/str_cat.h"
#include "control/core/protocol_version.h"
#include "kvstore/codec/text.h"
#include "kvstore/peers/peer_identity.h"
#include "kvstore/storage/shard_files.h"
#include "kvstore/storage/shard_life.h"
#include "kvstore/types/mutants.h"

namespace skua::kv {
namespace {

std::string name_of(ShardId id) {
  return absl::StrCat("shard=", id.table_id, "-", id.shard);
}

const WantedShard* find(const std::vector<WantedShard>& wanted, ShardId id) {
  const auto it = std::ranges::lower_bound(wanted, id, {}, &WantedShard::id);
  return it == wanted.end() || it->id != id ? nullptr : &*it;
}

}  // namespace

ShardLifecycle::ShardLifecycle(Options options, RocksdbEngine& engine, std::vector<WorkerCommands*> workers,
                               ShardLifecycleHost& node)
    : options_(std::move(options)),
      engine_(engine),
      workers_(std::move(workers)),
      node_(node),
      state_(options_.state),
      refused_(options_.refused),
      views_(options_.views) {}

bool ShardLifecycle::step(ShardNews news) {
  const bool only_records = settled_ && news.map == nullptr && news.released.empty() && news.copies.empty();
  if (news.map != nullptr) map_ = std::move(news.map);
  // Replicas wait for these, so they come first.
  const bool views_written = write_down(std::move(news.adopted));
  const bool written = write_down_unsynced(std::move(news.unsynced)) && views_written;
  if (only_records && written) return true;
  for (const ShardId id : news.released) {
    local_.erase(id);
    log(LogSeverity::kInfo, absl::StrCat("shard closed ", name_of(id)));
  }
  for (const auto& [id, path] : news.copies) begin_replacing(id, path);
  settled_ = (map_ == nullptr || reconcile()) && written;
  return settled_;
}

// --- Copies

void ShardLifecycle::begin_replacing(ShardId id, const std::string& path) {
  const auto it = local_.find(id);
  if (it == local_.end() || it->second.phase != Phase::kServing) {
    static_cast<void>(node_.discard_copy(path));  // the shard is leaving; leftovers are removed when the node starts
    return;
  }
  replacements_[id] = path;
  leave(id, it->second);
}

/// Once the old data are removed, only the copy may become the shard's database. An empty database would lack writes
/// that this replica has acknowledged.
absl::Status ShardLifecycle::finish_replacing(ShardId id) {
  const auto it = replacements_.find(id);
  if (it == replacements_.end()) return absl::OkStatus();
  if (absl::Status destroyed = engine_.destroy_shard(options_.shards_dir, id); !destroyed.ok()) return destroyed;
  absl::Status ingested;
  if (!mutant(Mutant::kOpenAnewForCopy)) ingested = node_.ingest_copy(id, it->second);
  if (!ingested.ok()) return ingested;
  if (absl::Status removed = node_.discard_copy(it->second); !removed.ok()) {
    log(LogSeverity::kWarning, absl::StrCat("a copy that was taken stays: ", removed.message()));
  }
  replacements_.erase(it);
  return absl::OkStatus();
}

void ShardLifecycle::drop_replacements(const std::vector<WantedShard>& wanted) {
  std::erase_if(replacements_, [&](const auto& replacement) {
    if (find(wanted, replacement.first) != nullptr) return false;
    static_cast<void>(node_.discard_copy(replacement.second));
    return true;
  });
}

// --- Carrying out the map

bool ShardLifecycle::reconcile() {
  const std::vector<WantedShard> wanted = wanted_shards(*map_, options_.node_uuid);
  take_leave(wanted);
  drop_replacements(wanted);
  tell_peers();
  take_in(wanted);
  const bool all_told = tell_views(wanted);
  for (WorkerCommands* worker : workers_) worker->set_map_revision(map_->revision);
  // Must precede creating and removing directories for this map: see shard_plan.h.
  if (absl::Status status = remember_revision(); !status.ok()) {
    log(LogSeverity::kError, absl::StrCat("cannot act on shard map ", map_->revision, ": ", status.message()));
    note_unserved(wanted, status);
    return false;
  }
  const bool all_open = open_all(wanted);
  if (all_open && all_told && map_->revision > applied_revision_) {
    applied_revision_ = map_->revision;
    log(LogSeverity::kInfo, absl::StrCat("shard map applied revision=", map_->revision, " shards=", wanted.size()));
    node_.map_applied(map_->revision);
  }
  const bool all_deleted = delete_dropped();
  return all_open && all_told && all_deleted;
}

absl::Status ShardLifecycle::remember_revision() {
  if (map_->revision < state_.map_revision) {
    if (map_->revision > applied_revision_) {
      log(LogSeverity::kWarning,
          absl::StrCat("the control plane's shard map ", map_->revision, " is older than map ", state_.map_revision,
                       ", which this node has seen: was it restored from a backup? No data is deleted"));
    }
    return absl::OkStatus();
  }
  if (map_->revision == state_.map_revision) return absl::OkStatus();
  NodeState next = state_;
  next.map_revision = map_->revision;
  if (absl::Status status = write_state(*options_.files, next); !status.ok()) return status;
  state_ = next;
  return absl::OkStatus();
}

/// Removes shards from their workers if the map does not want them there any more.
void ShardLifecycle::take_leave(const std::vector<WantedShard>& wanted) {
  for (auto& [id, local] : local_) {
    const WantedShard* const still = find(wanted, id);
    const bool stays = still != nullptr && still->worker == local.worker && !is_given_up(*still);
    if (local.phase != Phase::kLeaving && !stays) leave(id, local);
  }
}

/// True if the map has a newer fork, in which this node is not a member. Then the shard continues with another
/// replica's data, and the data here may be those that were given up.
bool ShardLifecycle::is_given_up(const WantedShard& shard) const {
  const auto known = views_.find(shard.id);
  if (!shard.view || known == views_.end() || shard.view->fork <= known->second.fork) return false;
  const NodeId self = node_id_of(options_.node_uuid);
  return std::ranges::none_of(shard.view->members, [self](const ReplicaId& id) { return id.node == self; });
}

/// Must precede using a replica's data in a new fork. Removes data that the fork gave up, and persists the fork of the
/// data.
absl::Status ShardLifecycle::take_fork(const WantedShard& shard) {
  const auto known = views_.find(shard.id);
  const uint64_t fork = known == views_.end() ? 0 : known->second.fork;
  if (!shard.view || shard.view->fork <= fork) return absl::OkStatus();
  ShardViews next = views_;
  if (is_given_up(shard)) {
    log(LogSeverity::kWarning, absl::StrCat("data of another fork are removed ", name_of(shard.id), " fork=", fork,
                                            ": the shard goes on with another node's (fork ", shard.view->fork,
                                            "), because an operator recovered it from there, or all members lost power "
                                            "and that log was the longest; it is copied from there"));
    absl::Status destroyed;
    if (!mutant(Mutant::kKeepGivenUpData)) destroyed = destroy(shard.id);
    if (!destroyed.ok()) return destroyed;
    // A fetched copy that waits to replace the data is of the old fork too.
    if (const auto copy = replacements_.find(shard.id); copy != replacements_.end()) {
      if (absl::Status removed = node_.discard_copy(copy->second); !removed.ok()) return removed;
      replacements_.erase(copy);
    }
    next[shard.id] = {};
  } else if (shard.view->primary == node_id_of(options_.node_uuid)) {
    // This replica is the primary: the fork consists of its data, so it lacks nothing, and is in no doubt. A note of
    // this boot stays: the replica, which may be open, goes on to acknowledge what it has not synced.
    if (options_.unsynced->doubt(shard.id) != 0) {
      if (absl::Status forgotten = options_.unsynced->forget({shard.id}); !forgotten.ok()) return forgotten;
    }
  }
  next[shard.id].fork = shard.view->fork;
  if (absl::Status written = write_views(*options_.files, next); !written.ok()) return written;
  views_ = std::move(next);
  return absl::OkStatus();
}

/// Removes the data of a damaged replica that is now a learner. This is safe if the replica has acknowledged nothing in
/// this epoch under its storage incarnation: then members have its data, and the damaged data are useless.
absl::Status ShardLifecycle::drop_damaged(const WantedShard& shard) {
  if (!shard.view || !refused_.contains(shard.id)) return absl::OkStatus();
  const ReplicaId self{node_id_of(options_.node_uuid), state_.storage_incarnation};
  const auto known = views_.find(shard.id);
  const bool learns = shard.view->mentions(self) && !shard.view->is_member(self);
  // A replica persists a view before it sends messages in it. So an older persisted view means that it has acknowledged
  // nothing.
  const bool spoke = known != views_.end() && known->second.mentions(self) && known->second.epoch >= shard.view->epoch;
  if (!learns || spoke) return absl::OkStatus();
  log(LogSeverity::kWarning, absl::StrCat("damaged data are removed ", name_of(shard.id), ": they are learnt again"));
  if (absl::Status destroyed = destroy(shard.id); !destroyed.ok()) return destroyed;
  refused_.erase(shard.id);
  return absl::OkStatus();
}

/// Removes the shard's data. The data that replace them have acknowledged nothing, so the unsynced record goes too.
absl::Status ShardLifecycle::destroy(ShardId id) {
  if (absl::Status destroyed = engine_.destroy_shard(options_.shards_dir, id); !destroyed.ok()) return destroyed;
  return options_.unsynced->forget({id});
}

void ShardLifecycle::leave(ShardId id, Local& local) {
  local.phase = Phase::kLeaving;
  note_served(id);
  workers_[local.worker]->remove(id, [this, id] { node_.released_by_worker(id); });
}

/// Announces to the workers what they will serve, and new epochs of what they serve.
void ShardLifecycle::take_in(const std::vector<WantedShard>& wanted) {
  for (const WantedShard& shard : wanted) {
    if (shard.worker >= workers_.size()) {
      log(LogSeverity::kError,
          absl::StrCat("the shard map puts ", name_of(shard.id), " on worker ", shard.worker, ", but this node has ",
                       counted(workers_.size(), "worker"), ": start it with more"));
      continue;
    }
    const auto [it, is_new] = local_.try_emplace(shard.id);
    Local& local = it->second;
    if (local.phase == Phase::kLeaving) continue;  // taken in again after it is closed
    if (!is_new && local.epoch == shard.epoch) continue;
    local.epoch = shard.epoch;
    local.worker = shard.worker;
    workers_[shard.worker]->expect(shard.id, shard.epoch);
  }
}

/// Tells the workers which nodes their replicas may talk to.
void ShardLifecycle::tell_peers() {
  if (peers_of_ != nullptr && peers_of_->nodes == map_->nodes && peers_of_->denied == map_->denied) return;
  peers_of_ = map_;
  std::vector<PeerInfo> peers;
  for (const control::MapNode& node : map_->nodes) {
    if (node.uuid == options_.node_uuid || map_->is_denied(node)) continue;
    peers.push_back({node.uuid, node.grpc_address, node.incarnation, node.storage_incarnation, node.worker_count,
                     node.replication_version >= control::kReplicationVersionVouches,
                     node.replication_version >= control::kReplicationVersionMarks});
  }
  for (WorkerCommands* worker : workers_) worker->set_peers(peers);
}

/// Tells open replicas the views of the map. False: must be tried again.
bool ShardLifecycle::tell_views(const std::vector<WantedShard>& wanted) {
  bool all_told = true;
  for (const WantedShard& shard : wanted) {
    const auto it = local_.find(shard.id);
    if (!shard.view || it == local_.end() || it->second.phase != Phase::kServing) continue;
    Local& local = it->second;
    if (local.view == shard.view) continue;
    if (absl::Status taken = take_fork(shard); !taken.ok()) {
      log(LogSeverity::kError, absl::StrCat("fork cannot be written down ", name_of(shard.id), ": ", taken.message()));
      note_waiting(shard.id, taken);
      all_told = false;
      continue;
    }
    note_served(shard.id);
    local.view = shard.view;
    workers_[local.worker]->set_view(shard.id, *shard.view, shard.places);
  }
  return all_told;
}

/// Persists which replicas acknowledge unsynced writes. False: must be tried again; until then these replicas sync.
bool ShardLifecycle::write_down_unsynced(UnsyncedNews arrived) {
  UnsyncedNews& news = unsynced_unwritten_;
  news.allowed.merge(arrived.allowed);
  news.doubted.merge(arrived.doubted);
  news.restored.merge(arrived.restored);
  if (news.empty()) return true;
  UnsyncedShards& unsynced = *options_.unsynced;
  absl::Status written = unsynced.forget(news.restored);
  if (written.ok() && !mutant(Mutant::kSkipUnsyncedFile)) written = unsynced.allow(news.allowed);
  if (written.ok()) written = unsynced.put_in_doubt(news.doubted);
  if (!written.ok()) {
    log(LogSeverity::kError, absl::StrCat("replicas cannot write down what they have not synced: ", written.message()));
    return false;
  }
  for (const ShardId id : std::exchange(news, {}).allowed) {
    const auto local = local_.find(id);
    const bool is_allowed = unsynced.is_allowed(id) || mutant(Mutant::kSkipUnsyncedFile);
    if (local != local_.end() && is_allowed) workers_[local->second.worker]->unsynced_allowed(id);
  }
  return true;
}

/// Persists views that replicas have adopted. A replica sends nothing in a view until that is done. False: must be
/// tried again.
bool ShardLifecycle::write_down(ShardViews adopted) {
  for (auto& [id, view] : std::exchange(unwritten_, {})) adopted.emplace(id, std::move(view));
  if (adopted.empty()) return true;
  ShardViews next = views_;
  for (const auto& [id, view] : adopted) {
    const uint64_t fork = next[id].fork;  // messages of peers do not carry the fork
    next[id] = view;
    next[id].fork = fork;
  }
  absl::Status written;
  if (!mutant(Mutant::kSkipViewFile)) written = write_views(*options_.files, next);
  if (!written.ok()) {
    log(LogSeverity::kError, absl::StrCat("views cannot be made durable, replicas wait: ", written.message()));
    for (const auto& [id, view] : adopted) note_waiting(id, written);
    unwritten_ = std::move(adopted);
    return false;
  }
  views_ = std::move(next);
  for (const auto& [id, view] : adopted) {
    note_served(id);
    const auto local = local_.find(id);
    if (local != local_.end()) workers_[local->second.worker]->view_persisted(id, view.epoch);
  }
  return true;
}

bool ShardLifecycle::open_all(const std::vector<WantedShard>& wanted) {
  bool all_open = true;
  for (const WantedShard& shard : wanted) {
    const auto it = local_.find(shard.id);
    if (it == local_.end() || it->second.phase == Phase::kLeaving) {
      all_open = false;
    } else if (it->second.phase != Phase::kServing) {
      all_open = open(shard, it->second) && all_open;
      // Replicas that were opened earlier wait until their views are persisted; opening all shards may take long.
      static_cast<void>(write_down(node_.take_adopted()));
    }
  }
  note_made(wanted);
  return all_open;
}

/// Notes the databases of shards without replicas: those of replicas are noted by their views. Without room for the
/// note such shards are served all the same, and noted at the next map.
void ShardLifecycle::note_made(const std::vector<WantedShard>& wanted) {
  ShardViews next = views_;
  for (const WantedShard& shard : wanted) {
    const auto local = local_.find(shard.id);
    const bool is_open = local != local_.end() && local->second.phase == Phase::kServing;
    if (is_open && !shard.view) next.try_emplace(shard.id, kMadeUnreplicated);
  }
  if (next.size() == views_.size()) return;
  if (absl::Status written = write_views(*options_.files, next); !written.ok()) {
    log(LogSeverity::kWarning, absl::StrCat("databases that were made cannot be noted: ", written.message()));
    return;
  }
  views_ = std::move(next);
}

bool ShardLifecycle::open(const WantedShard& shard, Local& local) {
  const ShardId id = shard.id;
  const WantedShard* const replicated = shard.view ? &shard : nullptr;
  absl::Status replaced = has_place(local.worker);
  if (replaced.ok()) replaced = take_fork(shard);
  if (replaced.ok()) replaced = drop_damaged(shard);
  const auto refused = refused_.find(id);
  if (replaced.ok()) replaced = finish_replacing(id);
  auto db = refused != refused_.end() ? refused->second : replaced.ok() ? open_database(shard) : replaced;
  // Not for a replicated shard: its primary assigns the indices, and never assigns one twice.
  if (db.ok() && replicated == nullptr) {
    if (absl::Status begun = begin_life(**db); !begun.ok()) db = std::move(begun);
  }
  if (!db.ok()) {
    cannot_open(shard, local, db.status());
    return false;
  }
  local.db = *std::move(db);
  local.phase = Phase::kServing;
  node_.database_opened(id, *local.db, local.worker);
  note_served(id);
  log(LogSeverity::kInfo, absl::StrCat("shard opened ", name_of(id), " epoch=", local.epoch, " worker=", local.worker,
                                       " last_index=", local.db->applied_index()));
  if (replicated == nullptr) {
    workers_[local.worker]->serve(id, *local.db);
    return true;
  }
  const auto persisted = views_.find(id);
  workers_[local.worker]->serve_replica(id, *local.db,
                                        {persisted == views_.end() ? View{} : persisted->second,
                                         options_.unsynced->doubt(id), options_.unsynced->is_allowed(id)});
  local.view = replicated->view;
  workers_[local.worker]->set_view(id, *replicated->view, replicated->places);
  return true;
}

absl::Status ShardLifecycle::has_place(uint32_t worker) const {
  const auto is_open = [&](const auto& entry) { return entry.second.worker == worker && entry.second.db != nullptr; };
  const auto open = static_cast<size_t>(std::ranges::count_if(local_, is_open));
  if (open < options_.shards_per_worker_max) return absl::OkStatus();
  return absl::ResourceExhaustedError(absl::StrCat("worker ", worker, " has ", open,
                                                   " shards, which is its limit. Start the node with more workers, ",
                                                   "move shards to other nodes, or drop tables"));
}

/// A database that was made here is never made anew: that would hide that it was lost.
absl::StatusOr<std::unique_ptr<ShardDb>> ShardLifecycle::open_database(const WantedShard& shard) {
  const ReplicaId self{node_id_of(options_.node_uuid), state_.storage_incarnation};
  const auto known = views_.find(shard.id);
  const bool learns = shard.view && !shard.view->is_member(self);
  const bool was_made = !learns && known != views_.end() && has_database(known->second, self);
  auto db = engine_.open_db(options_.shards_dir, shard.id,
                            was_made ? RocksdbEngine::IfMissing::kFail : RocksdbEngine::IfMissing::kCreate);
  if (was_made && absl::IsNotFound(db.status())) return files::missing_database(options_.shards_dir, shard.id);
  return db;
}

void ShardLifecycle::cannot_open(const WantedShard& shard, Local& local, const absl::Status& why) {
  // The control plane replaces this replica. When it becomes a learner, the damaged data are removed (drop_damaged).
  if (shard.view && absl::IsDataLoss(why)) refused_.try_emplace(shard.id, why);
  const bool tried_again = !refused_.contains(shard.id);
  const bool is_news = local.phase != Phase::kFailed;
  local.phase = Phase::kFailed;
  if (is_news || tried_again) {
    log(LogSeverity::kError, absl::StrCat("shard cannot be opened ", name_of(shard.id), ": ", why.ToString()));
  }
  // The node's status has the shard before a client hears of it.
  unserved_[shard.id] = {why, tried_again};
  node_.unserved_changed(unserved_);
  workers_[local.worker]->set_failed(shard.id, absl::StrCat("the shard cannot be opened: ", why.message()));
}

/// The shard is open here, and waits until a view of it is on the disk.
void ShardLifecycle::note_waiting(ShardId id, const absl::Status& why) {
  const bool is_news = unserved_.insert_or_assign(id, UnservedShard{why, true}).second;
  if (is_news) node_.unserved_changed(unserved_);
}

void ShardLifecycle::note_served(ShardId id) {
  if (unserved_.erase(id) > 0) node_.unserved_changed(unserved_);
}

/// Notes `why` for all shards that the map wants here and that are neither served nor leaving.
void ShardLifecycle::note_unserved(const std::vector<WantedShard>& wanted, const absl::Status& why) {
  for (const WantedShard& shard : wanted) {
    const auto local = local_.find(shard.id);
    if (local == local_.end() || local->second.phase == Phase::kServing || local->second.phase == Phase::kLeaving)
      continue;
    unserved_.try_emplace(shard.id, UnservedShard{why, true});
  }
  node_.unserved_changed(unserved_);
}

/// The views of dropped tables tell nothing any more.
bool ShardLifecycle::forget_dropped(const DropEvidence& evidence) {
  std::vector<ShardId> known;
  for (const auto& [id, view] : views_) known.push_back(id);
  ShardViews next = views_;
  for (const ShardId id : dropped_shards(*map_, evidence, known)) {
    if (!local_.contains(id)) next.erase(id);
  }
  if (next.size() == views_.size()) return true;
  if (absl::Status written = write_views(*options_.files, next); !written.ok()) {
    log(LogSeverity::kWarning, absl::StrCat("views of dropped tables stay: ", written.message()));
    return false;
  }
  views_ = std::move(next);
  return true;
}

bool ShardLifecycle::delete_dropped() {
  const auto on_disk = engine_.list_shards(options_.shards_dir);
  if (!on_disk.ok()) {
    log(LogSeverity::kError, absl::StrCat("cannot look for data to delete: ", on_disk.status().ToString()));
    return false;
  }
  const DropEvidence evidence{options_.cluster_id, options_.node_uuid, state_.map_revision};
  bool all_deleted = forget_dropped(evidence);
  for (const ShardId id : dropped_shards(*map_, evidence, *on_disk)) {
    if (local_.contains(id)) continue;  // still in use; deleted after it is closed
    const absl::Status status = destroy(id);
    log(status.ok() ? LogSeverity::kInfo : LogSeverity::kError,
        absl::StrCat("data of a dropped table deleted ", name_of(id), status.ok() ? "" : ": ",
                     status.ok() ? "" : status.ToString()));
    all_deleted = status.ok() && all_deleted;
  }
  return all_deleted;
}

}  // namespace skua::kv
