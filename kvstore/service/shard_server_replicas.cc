// Replicated shards: which replica may answer which requests, and when.
#include <algorithm>
#include <utility>

#include "kvstore/service/shard_server.h"
#include "rpc/base/check.h"
#include "rpc/base/status.h"

namespace skua::kv {

using rpc::IncomingCall;

void ShardServer::serve_replica(ShardId id, ShardDb& db, ReplicaId self, const ReplicaNotes& notes) {
  HeldShard* const shard = table_.find(id);
  if (shard == nullptr) return;
  SKUA_CHECK(replica_host_ != nullptr, "a node with replicated shards gives its workers a ReplicaHost");
  shard->shard = &engine_->open_shard(db, shard->epoch);
  auto replica = ShardReplica::create(replica_options_, self, notes, *shard->shard, *replica_host_, clock_);
  if (!replica.ok()) return set_failed(id, std::string(std_view(replica.status().message())));
  shard->replica = *std::move(replica);
  shard->plain_epoch = 0;
  ++replica_count_;
  shard->why.clear();
  shard->state = HeldShard::State::kServing;
}

void ShardServer::set_view(ShardId id, const View& view) {
  HeldShard* const shard = table_.find(id);
  if (shard == nullptr) return;
  shard->epoch = view.epoch;
  if (shard->plain_epoch != 0) shard->plain_epoch = view.epoch;
  if (shard->replica != nullptr) shard->replica->set_view(view, clock_.boot_ns());
}

void ShardServer::view_persisted(ShardId id, uint64_t epoch) {
  HeldShard* const shard = table_.find(id);
  if (shard != nullptr && shard->replica != nullptr) shard->replica->view_persisted(epoch, clock_.boot_ns());
}

void ShardServer::unsynced_allowed(ShardId id) {
  HeldShard* const shard = table_.find(id);
  if (shard != nullptr && shard->replica != nullptr) shard->replica->unsynced_allowed(clock_.boot_ns());
}

bool ShardServer::on_replica_message(ShardId id, NodeId from, const ReplicaMessage& message,
                                     std::span<const ReplicaEntry> entries) {
  HeldShard* const shard = table_.find(id);
  if (shard == nullptr || shard->replica == nullptr || draining_) return false;
  tell_time(endpoint_.now_ns());
  shard->replica->on_message(from, message, entries, clock_.boot_ns());
  return true;
}

void ShardServer::peer_failed(NodeId peer) {
  const TimeNs now = clock_.boot_ns();
  for (const auto& shard : shards_) {
    if (shard->replica != nullptr) shard->replica->peer_failed(peer, now);
  }
}

void ShardServer::peer_ready(NodeId peer) {
  const TimeNs now = clock_.boot_ns();
  for (const auto& shard : shards_) {
    if (shard->replica != nullptr) shard->replica->peer_ready(peer, now);
  }
}

const Replica* ShardServer::replica(ShardId id) const {
  const HeldShard* const shard = table_.find(id);
  return shard == nullptr || shard->replica == nullptr ? nullptr : &shard->replica->replica();
}

absl::StatusOr<uint64_t> ShardServer::hold_entries(ShardId id) {
  HeldShard* const shard = table_.find(id);
  if (shard == nullptr || shard->replica == nullptr || !shard->replica->gives_copies()) {
    return absl::UnavailableError("this node is not the shard's primary: its data may be behind");
  }
  return shard->replica->hold_entries();
}

void ShardServer::release_entries(ShardId id, uint64_t hold) {
  HeldShard* const shard = table_.find(id);
  if (shard != nullptr && shard->replica != nullptr) shard->replica->release_entries(hold);
}

absl::StatusOr<Append> ShardServer::read_tail(ShardId id, NodeId reader, uint64_t after, size_t bytes_max,
                                              std::vector<Entry*>& pinned) {
  HeldShard* const shard = table_.find(id);
  if (shard == nullptr || shard->replica == nullptr) return absl::UnavailableError("the shard is not open here");
  return shard->replica->read_tail(reader, after, bytes_max, clock_.boot_ns(), pinned);
}

void ShardServer::retire(ShardId id) {
  HeldShard* const shard = table_.find(id);
  if (shard != nullptr) retire_replica(*shard);
}

DurationNs ShardServer::tick_replicas() {
  const TimeNs now = clock_.boot_ns();
  TimeNs wake_at = kTimeNever;
  for (size_t i = 0; i < shards_.size(); ++i) {
    if (shards_[i]->replica == nullptr) continue;
    shards_[i]->replica->tick(now);
    wake_at = std::min(wake_at, shards_[i]->replica->wake_at());
  }
  return wake_at == kTimeNever ? kTimeNever : std::max<DurationNs>(wake_at - now, 0);
}

void ShardServer::retire_replica(HeldShard& shard) {
  if (shard.replica != nullptr) shard.replica->retire();
}

// --- Reads

/// True: this replica may answer the request. A backup answers reads as long as they are linearizable. A client that is
/// refused here goes to the primary.
bool ShardServer::serves(const HeldShard& shard, Method method) const {
  if (shard.replica->is_serving()) [[likely]] {
    return true;
  }
  const bool is_read = method == Method::kGet || method == Method::kMultiGet || method == Method::kScan;
  return is_read && shard.reads_as_backup() && is_fresh(shard, clock_.boot_ns());
}

/// The status is not WRONG_SHARD, because this backup can answer for another key, or for the same key a moment later.
void ShardServer::refuse_unsettled(rpc::ReplyToken& reply, Method method, const HeldShard& shard) {
  answer_error(
      reply, method,
      head_of(shard, KvStatus::kUnavailable, 0, "this backup has a write of the key under way; ask the primary"));
}

/// False: what was read is not stale, and the caller answers now. True: the request waits for a round of the members.
/// `then` runs if the round shows that what was read is not stale; otherwise the request is refused, perhaps before
/// this returns.
bool ShardServer::hold_until_fresh(PendingRequest& pending, void (ShardServer::*then)(PendingRequest&)) {
  HeldShard& shard = *pending.shard;
  if (shard.replica == nullptr) return false;
  // A value that was read in one epoch is not valid in another: another replica may have led in between.
  const bool same_epoch = pending.epoch == shard.read_epoch();
  if (same_epoch && is_fresh(shard, clock_.boot_ns())) [[likely]] {
    count_backup_read(shard);
    return false;
  }
  if (!same_epoch) {
    refuse_stale(pending);
    return true;
  }
  ++waiting_count_;
  shard.replica->confirm(
      [this, &pending, then](bool confirmed) {
        --waiting_count_;
        if (confirmed) return (this->*then)(pending);
        refuse_stale(pending);
      },
      clock_.boot_ns());
  return true;
}

void ShardServer::refuse_stale(PendingRequest& pending) {
  pending.multi_get.slots.clear();
  answer_error(pending.reply, pending.method,
               head_of(*pending.shard, KvStatus::kWrongShard, 0,
                       "the shard may have another primary now; refresh the shard map"));
  end(pending);
}

/// Looks the key up again after a round of the members. The value that was found is dropped, because it may be larger
/// than a pending request should pin.
void ShardServer::confirm_get(GatheredGet& get) {
  HeldShard& shard = *get.shard;
  ++shard.use_count;
  ++waiting_count_;
  shard.replica->confirm(
      [this, &shard, bytes = std::move(get.request), reply = std::move(get.reply)](bool confirmed) mutable {
        --waiting_count_;
        const absl::StatusOr<GetRequest> request = decode_get(bytes.bytes());
        if (confirmed && request.ok()) {
          gather(shard, *request, bytes, reply, true);
          answer_gathered();
        } else {
          answer_error(reply, Method::kGet,
                       head_of(shard, KvStatus::kWrongShard, 0,
                               "the shard may have another primary now; refresh the shard map"));
        }
        --shard.use_count;
        forget_if_idle(shard);
      },
      clock_.boot_ns());
}

bool ShardServer::takes_writes(IncomingCall& call, Method method, const HeldShard& shard) {
  if (shard.replica == nullptr || shard.replica->takes_writes()) [[likely]] {
    return true;
  }
  answer_error(call.reply, method, head_of(shard, KvStatus::kWrongShard, 0, shard.replica->why_not()));
  return false;
}

}  // namespace skua::kv
