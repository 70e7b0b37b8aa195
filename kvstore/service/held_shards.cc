#include "kvstore/service/held_shards.h"

#include <algorithm>
#include <utility>

#include "absl/strings/str_cat.h"
#include "rpc/base/check.h"
#include "rpc/base/status.h"

namespace skua::kv {
namespace {

/// The engine is told the time at most once in this time.
constexpr TimeNs kTimeStepNs = kMillisecond;

}  // namespace

void HeldShards::tell_time_now(TimeNs now) {
  next_time_ns_ = now + kTimeStepNs;
  told_time_.store(now, std::memory_order_relaxed);
  engine_->set_time(options_.clock->unix_ms(), lived_.at(now));
}

DurationNs HeldShards::tick() {
  if (replica_count_ == 0) return kTimeNever;
  const TimeNs now = boot_ns();
  TimeNs wake_at = kTimeNever;
  for (size_t i = 0; i < shards_.size(); ++i) {
    if (shards_[i]->replica == nullptr) continue;
    shards_[i]->replica->tick(now);
    wake_at = std::min(wake_at, shards_[i]->replica->wake_at());
  }
  return wake_at == kTimeNever ? kTimeNever : std::max<DurationNs>(wake_at - now, 0);
}

// --- Life

void HeldShards::expect(ShardId id, uint64_t epoch) {
  HeldShard* shard = table_.find(id);
  if (shard == nullptr) {
    shard = shards_.emplace_back(std::make_unique<HeldShard>()).get();
    shard->id = id;
    shard->grants = grants_->find(id.table_id);
    table_.insert(id, shard);
  }
  shard->epoch = epoch;
  set_checks(*shard);
}

void HeldShards::serve(ShardId id, ShardDb& db) {
  HeldShard* const shard = table_.find(id);
  if (shard == nullptr) return;
  shard->shard = &engine_->open_shard(db, shard->epoch);
  shard->why.clear();
  shard->state = HeldShard::State::kServing;
  set_checks(*shard);
}

void HeldShards::serve_replica(ShardId id, ShardDb& db, ReplicaId self, const ReplicaNotes& notes) {
  HeldShard* const shard = table_.find(id);
  if (shard == nullptr) return;
  SKUA_CHECK(options_.replica_host != nullptr, "a node with replicated shards gives its workers a ReplicaHost");
  serve(id, db);
  auto replica =
      ShardReplica::create(options_.replica, self, notes, *shard->shard, *options_.replica_host, *options_.clock);
  if (!replica.ok()) return set_failed(id, std::string(std_view(replica.status().message())));
  shard->replica = *std::move(replica);
  ++replica_count_;
  set_checks(*shard);
}

void HeldShards::set_failed(ShardId id, std::string why) {
  HeldShard* const shard = table_.find(id);
  if (shard == nullptr) return;
  shard->why = std::move(why);
  shard->state = HeldShard::State::kFailed;
  set_checks(*shard);
}

void HeldShards::remove(ShardId id, absl::AnyInvocable<void()> on_idle) {
  HeldShard* const shard = table_.remove(id);
  if (shard == nullptr) return;
  if (shard->replica != nullptr) shard->replica->retire();
  shard->on_idle = std::move(on_idle);
  shard->removed_ms = engine_->now_ms();
  forget_if_idle(*shard);
}

void HeldShards::drain() {
  is_draining_ = true;
  for (const auto& shard : shards_) {
    set_checks(*shard);
    if (shard->replica != nullptr) shard->replica->retire();
  }
}

void HeldShards::set_grants(std::shared_ptr<const Grants> grants) {
  grants_ = std::move(grants);
  for (const auto& shard : shards_) {
    shard->grants = grants_->find(shard->id.table_id);
    set_checks(*shard);
  }
}

void HeldShards::set_quotas_in_force(bool in_force) {
  quotas_in_force_ = in_force;
  for (const auto& shard : shards_) set_checks(*shard);
}

/// So grants cost nothing in open tables, and quotas nothing where nobody has one.
void HeldShards::set_checks(HeldShard& shard) const {
  shard.checks_caller = shard.grants != nullptr || quotas_in_force_;
  const bool plain =
      shard.state == HeldShard::State::kServing && shard.replica == nullptr && !shard.checks_caller && !is_draining_;
  shard.plain_epoch = plain ? shard.epoch : 0;
}

void HeldShards::forget_if_idle(HeldShard& shard) {
  if (shard.use_count > 0) return;
  auto on_idle = std::move(shard.on_idle);
  Shard* const closing = shard.shard;
  if (shard.replica != nullptr) {
    closing->entries().set_observer(nullptr);  // the replica goes first
    --replica_count_;
  }
  std::erase_if(shards_, [&](const auto& held) { return held.get() == &shard; });
  if (closing == nullptr) return on_idle();
  engine_->close_shard(*closing, std::move(on_idle));
}

std::vector<TroubledShard> HeldShards::without_replica() const {
  std::vector<TroubledShard> out;
  for (const auto& shard : shards_) {
    if (shard->state != HeldShard::State::kFailed || shard->shard == nullptr) continue;
    out.push_back({shard->id, absl::OkStatus(),
                   absl::DataLossError(absl::StrCat("its data are of no use to a replica (", shard->why, ")"))});
  }
  return out;
}

std::vector<LeavingShard> HeldShards::leaving() const {
  std::vector<LeavingShard> leaving;
  for (const auto& shard : shards_) {
    if (!shard->on_idle) continue;
    leaving.push_back({shard->id, shard->removed_ms,
                       absl::StrCat(shard->use_count, " requests that it has taken wait for the log or the disk")});
  }
  for (const ClosingShard& closing : engine_->closing_shards()) {
    std::string waits_for = "what it was given is being written to its database";
    if (!closing.held_up.ok()) waits_for = absl::StrCat("its database has no room: ", closing.held_up.message());
    if (!closing.failure.ok()) {
      waits_for = absl::StrCat("its database lacks what only a start of the node can bring there; start it again: ",
                               closing.failure.message());
    }
    leaving.push_back({closing.id, closing.since_ms, std::move(waits_for)});
  }
  return leaving;
}

// --- Replicas

ShardReplica* HeldShards::replica_of(ShardId id) const {
  const HeldShard* const shard = table_.find(id);
  return shard == nullptr ? nullptr : shard->replica.get();
}

void HeldShards::set_view(ShardId id, const View& view) {
  HeldShard* const shard = table_.find(id);
  if (shard == nullptr) return;
  shard->epoch = view.epoch;
  set_checks(*shard);
  if (shard->replica != nullptr) shard->replica->set_view(view, boot_ns());
}

void HeldShards::view_persisted(ShardId id, uint64_t epoch) {
  if (ShardReplica* replica = replica_of(id)) replica->view_persisted(epoch, boot_ns());
}

void HeldShards::unsynced_allowed(ShardId id) {
  if (ShardReplica* replica = replica_of(id)) replica->unsynced_allowed(boot_ns());
}

absl::Status HeldShards::on_replica_message(ShardId id, const ReplicaId& from, const ReplicaMessage& message,
                                            std::span<const ReplicaEntry> entries, TimeNs now) {
  ShardReplica* const replica = replica_of(id);
  if (replica == nullptr || is_draining_) return absl::NotFoundError("no replica of the shard is here");
  tell_time(now);
  return replica->on_message(from, message, entries, boot_ns());
}

void HeldShards::on_link(NodeId peer, ShardReplica::LinkInput input) {
  const TimeNs now = boot_ns();
  for (const auto& shard : shards_) {
    if (shard->replica != nullptr) shard->replica->on_link(peer, input, now);
  }
}

void HeldShards::retire(ShardId id) {
  if (ShardReplica* replica = replica_of(id)) replica->retire();
}

// --- For copies of databases

const Replica* HeldShards::replica(ShardId id) const {
  const ShardReplica* const replica = replica_of(id);
  return replica == nullptr ? nullptr : &replica->replica();
}

absl::StatusOr<uint64_t> HeldShards::hold_entries(ShardId id) {
  ShardReplica* const replica = replica_of(id);
  if (replica == nullptr || !replica->gives_copies()) {
    return absl::UnavailableError("this node is not the shard's primary: its data may be behind");
  }
  return replica->hold_entries();
}

void HeldShards::release_entries(ShardId id, uint64_t hold) {
  if (ShardReplica* replica = replica_of(id)) replica->release_entries(hold);
}

absl::StatusOr<Append> HeldShards::read_tail(ShardId id, NodeId reader, uint64_t after, size_t bytes_max,
                                             std::vector<Entry*>& pinned) {
  ShardReplica* const replica = replica_of(id);
  if (replica == nullptr) return absl::UnavailableError("the shard is not open here");
  return replica->read_tail(reader, after, bytes_max, boot_ns(), pinned);
}

}  // namespace skua::kv
