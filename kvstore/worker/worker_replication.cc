#include "kvstore/worker/worker_replication.h"

#include <algorithm>
#include <array>
#include <utility>

#include "absl/strings/str_cat.h"
#include "kvstore/peers/peer_identity.h"

namespace skua::kv {
namespace {

/// The timeout of a request for a piece of a snapshot or for entries that follow it.
constexpr DurationNs kFetchChunkTimeoutNs = 10 * kSecond;

constexpr DurationNs kLostAgainNs = 60 * kSecond;
constexpr DurationNs kEventsTickNs = 100 * kMillisecond;
/// The longest sleep while copies run: they decide themselves when their next requests are due.
constexpr DurationNs kCopyWaitNs = kMillisecond;

/// Runs `work` on the thread, and then `done` on the worker's.
bool run_on(TaskRunner& thread, std::shared_ptr<rpc::Mailbox> mailbox, SnapshotCopyHost::Work work,
            SnapshotCopyHost::Worked done) {
  return thread.submit([mailbox = std::move(mailbox), work = std::move(work), done = std::move(done)]() mutable {
    absl::Status status = work();
    // post_waiting() returns false if the worker is gone. Its copies are gone with it.
    static_cast<void>(
        mailbox->post_waiting([done = std::move(done), status = std::move(status)]() mutable { done(status); }));
  });
}

}  // namespace

void WorkerReplication::start(rpc::Endpoint& endpoint, PeerBootstrap& bootstrap, ShardServer& server,
                              const PeerLinksOptions& options, ReaderPool& readers, const CopyResources& copying) {
  endpoint_ = &endpoint;
  mailbox_ = endpoint.mailbox();
  server_ = &server;
  copying_ = copying;
  links_ = std::make_unique<PeerLinks>(endpoint, bootstrap, *this, options);
  open_appends_ = std::make_unique<OpenAppends>(*links_);
  service_ =
      std::make_unique<SnapshotService>(endpoint, *links_, readers, *copying.source,
                                        [this](ShardId shard, PeerAddress from) { return may_have_data(shard, from); });
  endpoint.serve(static_cast<rpc::MethodId>(Method::kFetchTail),
                 [this](rpc::IncomingCall&& call) { serve_tail(std::move(call)); }, {.may_have_reserved = true});
  copies_ = std::make_unique<SnapshotCopies>(copying.copies, *this, *copying.slots);
}

DurationNs WorkerReplication::tick() {
  const TimeNs now = endpoint_->now_ns();
  const TimeNs links_due = links_->tick();
  if (now >= next_tick_ns_) {
    next_tick_ns_ = now + kEventsTickNs;
    open_appends_->end_vain(server_->shards());
    events_.tick();
  }
  DurationNs wait = std::min(kEventsTickNs, std::max<DurationNs>(links_due - now, 0));
  if (copies_->count() > 0 || copies_told_ns_ != 0) {
    copies_->tick(now);
    tell_copies(now);
    wait = std::min(wait, kCopyWaitNs);
  }
  return wait;
}

void WorkerReplication::tell_copies(TimeNs now) {
  if (!events_.copies || (copies_->count() > 0 && now - copies_told_ns_ < kSecond)) return;
  copies_told_ns_ = copies_->count() > 0 ? now : 0;
  events_.copies(copies_->progress());
}

void WorkerReplication::drain() {
  service_->stop();
  copies_->cancel_all();
}

void WorkerReplication::stop() {
  open_appends_->end([](const RemoteReplica&) { return true; });
  links_->close_all();
}

void WorkerReplication::set_peers(std::span<const PeerInfo> peers) {
  std::map<NodeId, PeerInfo> next;
  for (const PeerInfo& peer : peers) {
    const NodeId node = node_id_of(peer.uuid);
    if (node != 0 && node != self_.node && !shut_out_.contains(node)) next[node] = peer;
  }
  for (const auto& [node, peer] : peers_) {
    if (!next.contains(node)) links_->drop_peer(node);
  }
  for (const auto& [node, peer] : next) static_cast<void>(links_->set_peer(peer));
  peers_ = std::move(next);
}

void WorkerReplication::shut_out(std::set<NodeId> nodes) {
  shut_out_ = std::move(nodes);
  for (const NodeId node : shut_out_) {
    if (peers_.erase(node) > 0) links_->drop_peer(node);
  }
}

void WorkerReplication::forget(ShardId shard) {
  places_.erase(shard);
  open_appends_->end([shard](const RemoteReplica& sender) { return sender.shard == shard; });
}

const ReplicaPlace* WorkerReplication::place_of(ShardId shard, NodeId node) const {
  const auto places = places_.find(shard);
  if (places == places_.end()) return nullptr;
  const auto place = places->second.find(node);
  return place == places->second.end() ? nullptr : &place->second;
}

/// OK: the peer may have the shard's data. The shard map of the control plane decides this, not the peer's word. A node
/// that lost its storage is not the replica that it was.
absl::Status WorkerReplication::may_have_data(ShardId shard, PeerAddress peer) const {
  const ReplicaPlace* const place = place_of(shard, peer.node);
  const auto node = peers_.find(peer.node);
  if (place != nullptr && place->worker == peer.worker && node != peers_.end()) {
    const uint64_t storage = node->second.storage_incarnation;
    if (storage == 0 || storage == place->incarnation) return absl::OkStatus();
  }
  return absl::FailedPreconditionError(
      "by the shard map here the shard has no replica on that worker of that node, with the storage that the node has "
      "now: wait for a newer map");
}

// --- Out

void WorkerReplication::send(ShardId shard, NodeId to, const ReplicaMessage& message) {
  const RemoteReplica receiver{shard, to};
  if (const auto* reply = std::get_if<AppendReply>(&message);
      reply != nullptr && open_appends_->answer(receiver, envelope(shard), *reply)) {
    return;
  }
  rpc::MessagePtr frame;
  if (is_append(message)) {  // an Append without entries
    AppendBuilder& builder = links_->append_builder();
    builder.begin(envelope(shard), std::get<Append>(message), links_->make_message());
    frame = builder.finish();
  } else {
    frame = links_->make_frame(envelope(shard), message);
  }
  if (!frame) return;
  if (answer_ != nullptr && answering_ == receiver) {
    std::exchange(answer_, nullptr)->reply(std::move(frame));
    return;
  }
  const ReplicaPlace* const place = place_of(shard, to);
  if (place != nullptr) static_cast<void>(links_->send({to, place->worker}, std::move(frame)));
}

size_t WorkerReplication::send_entries(ShardId shard, NodeId to, const Append& append,
                                       std::span<Entry* const> entries) {
  const ReplicaPlace* const place = place_of(shard, to);
  AppendBuilder& builder = links_->append_builder();
  Append header = append;
  size_t sent = 0;
  size_t next = 0;
  while (next < entries.size()) {
    builder.begin(envelope(shard), header, links_->make_message());
    for (; next < entries.size(); ++next) {
      const ReplicaEntry entry = entries[next]->view();
      const AppendEntry out{entry.epoch, entry.time_ms, entry.durability, 0, entry.payload};
      // The id is taken before add(), because the entry may be gone after it: add() releases the pin of an entry that
      // it copies.
      const EntryId id{entry.index, append.epochs[next]};
      if (!builder.add(out, &Entry::release_pin, entries[next])) break;
      header.prev = id;
    }
    rpc::MessagePtr frame = builder.finish();
    if (place == nullptr || !links_->send({to, place->worker}, std::move(frame), true)) break;
    sent = next;
  }
  // Releases the entries that no message took.
  for (; next < entries.size(); ++next) entries[next]->unpin();
  return sent;
}

// --- Copies

bool WorkerReplication::fetch(ShardId shard, NodeId from, const FetchChunk& what, Fetched done) {
  std::array<std::byte, kFetchChunkBytes> buffer;
  const auto encoded = encode_fetch_chunk(what, buffer);
  return encoded.ok() && ask(shard, from, Method::kFetchChunk, *encoded, std::move(done));
}

bool WorkerReplication::fetch_tail(ShardId shard, NodeId from, const FetchTail& what, Fetched done) {
  std::array<std::byte, kFetchTailBytes> buffer;
  return ask(shard, from, Method::kFetchTail, encode_fetch_tail(what, buffer), std::move(done));
}

bool WorkerReplication::ask(ShardId shard, NodeId from, Method method, ByteSpan request, Fetched done) {
  const ReplicaPlace* const place = place_of(shard, from);
  if (place == nullptr) return false;
  rpc::MessagePtr message = links_->make_message();
  message->append_copy(request);
  return links_->call({from, place->worker}, method, std::move(message), kFetchChunkTimeoutNs,
                      [done = std::move(done)](rpc::CallResult&& result) mutable {
                        if (!result.status.ok()) return done(result.status);
                        done(result.response.bytes());
                      });
}

void WorkerReplication::serve_tail(rpc::IncomingCall&& call) {
  const auto from = links_->identify(call.session);
  if (!from.ok()) return call.reply.fail(from.status());
  const auto wanted = decode_fetch_tail(call.request.bytes());
  if (!wanted.ok()) return call.reply.fail(wanted.status());
  const ShardId shard{wanted->table, wanted->shard};
  if (const absl::Status allowed = may_have_data(shard, *from); !allowed.ok()) return call.reply.fail(allowed);
  tail_.clear();
  const auto header = server_->shards().read_tail(shard, from->node, wanted->after, wanted->bytes_max, tail_);
  if (!header.ok()) return call.reply.fail(header.status());
  AppendBuilder& builder = links_->append_builder();
  builder.begin(envelope(shard), *header, links_->make_message());
  size_t added = 0;
  for (; added < tail_.size(); ++added) {
    const ReplicaEntry entry = tail_[added]->view();
    const AppendEntry out{header->epochs[added], entry.time_ms, entry.durability, 0, entry.payload};
    if (!builder.add(out, &Entry::release_pin, tail_[added])) break;
  }
  call.reply.reply(builder.finish());
  // The peer asks next for the entries that the message did not take.
  for (; added < tail_.size(); ++added) tail_[added]->unpin();
}

bool WorkerReplication::on_disk(Work work, Worked done) {
  return run_on(*copying_.disk, mailbox_, std::move(work), std::move(done));
}

bool WorkerReplication::on_builder(Work work, Worked done) {
  return run_on(*copying_.builder, mailbox_, std::move(work), std::move(done));
}

std::optional<ReplicaPosition> WorkerReplication::position(ShardId shard) {
  const Replica* const replica = server_->shards().replica(shard);
  if (replica == nullptr) return std::nullopt;
  return ReplicaPosition{replica->view().primary, replica->last_index()};
}

SnapshotFit WorkerReplication::fit(ShardId shard, EntryId end) {
  const Replica* const replica = server_->shards().replica(shard);
  return replica == nullptr ? SnapshotFit::kNone : replica->snapshot_fit(end);
}

std::string WorkerReplication::name_of(NodeId node) {
  const auto peer = peers_.find(node);
  return peer == peers_.end() ? "?" : peer->second.uuid;
}

/// Logs that a link is not there. The same reason is logged once a minute only.
void WorkerReplication::tell_lost(NodeId node, const absl::Status& why) {
  const TimeNs now = endpoint_->now_ns();
  auto& [told, told_ns] = lost_[node];
  if (told == why && now - told_ns < kLostAgainNs) return;
  told = why;
  told_ns = now;
  events_.log(LogSeverity::kInfo, absl::StrCat("link to node ", name_of(node), " is not there: ", why.message()));
}

// --- In

void WorkerReplication::on_peer_message(PeerMessage&& message) {
  const ReplicaFrame& frame = message.frame;
  const ShardId shard{frame.envelope.table, frame.envelope.shard};
  const NodeId from = frame.envelope.from;
  entries_.clear();
  uint64_t last = 0;
  uint64_t epoch = 0;
  if (const auto* append = std::get_if<Append>(&frame.message)) {
    last = append->prev.index;
    epoch = append->epoch;
    for (const AppendEntry& entry : frame.entries) {
      entries_.push_back({++last, entry.epoch, entry.time, entry.durability, entry.payload});
    }
  }
  answering_ = {shard, from};
  answer_ = message.reply ? &message.reply : nullptr;
  const absl::Status taken =
      server_->on_replica_message(shard, {from, frame.envelope.incarnation}, frame.message, entries_);
  answer_ = nullptr;
  if (!message.reply) return;
  // The sender's node shows why (PeerLinks::refusals()).
  if (absl::IsInvalidArgument(taken)) return message.reply.fail(taken);
  if (taken.ok() && !entries_.empty()) {
    const bool syncs =
        std::ranges::any_of(entries_, [](const ReplicaEntry& entry) { return is_synced(entry.durability); });
    open_appends_->add(answering_, {last, epoch, syncs, std::move(message.reply)});
  } else {
    message.reply.reply(links_->make_message());
  }
}

void WorkerReplication::on_peer_failed(PeerAddress peer, const absl::Status& why) {
  tell_lost(peer.node, why);
  // The peer's Appends are lost with its session, or will not be answered any more. Their senders send them again.
  open_appends_->end([peer](const RemoteReplica& sender) { return sender.node == peer.node; });
  server_->shards().on_link(peer.node, &Replica::peer_failed);
}

}  // namespace skua::kv
