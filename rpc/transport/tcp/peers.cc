#include "rpc/transport/tcp/peers.h"

#include <utility>

#include "absl/strings/str_cat.h"
#include "rpc/transport/tcp/tcp_limits.h"

namespace skua::rpc::tcp {

void PendingLinks::push(LinkEvent event) {
  if (event.kind == LinkEvent::Kind::kUp) {
    up = std::move(event);
  } else {
    lost = std::move(event);
    up.reset();
  }
}

absl::StatusOr<Peer*> PeerTable::resolve(const Uuid& uuid) {
  if (const auto found = resolved_.find(uuid.bytes); found != resolved_.end()) return peers_[found->second].get();
  absl::StatusOr<Peer*> made = new_entry(uuid);
  if (!made.ok()) return made.status();
  (*made)->resolved = true;
  resolved_.emplace(uuid.bytes, (*made)->id);
  return made;
}

absl::StatusOr<Peer*> PeerTable::add_caller(const Uuid& uuid) {
  return new_entry(uuid);
}

absl::StatusOr<Peer*> PeerTable::new_entry(const Uuid& uuid) {
  const bool is_full = peers_.size() == peers_max_;
  if (is_full || retired_count_ > kCallersKept) {
    Peer* reused = take_retired();
    if (reused == nullptr && is_full) reused = take_unused();
    if (reused != nullptr) {
      reused->uuid = uuid;
      reused->address = {};
      reused->wanted = false;
      reused->copies_anyway = false;
      reused->failures = 0;
      reused->retry_at_ns = 0;
      return reused;
    }
  }
  if (is_full) {
    return absl::ResourceExhaustedError(
        absl::StrCat("this endpoint has ", peers_max_, " peers, its limit; raise peers_max of the TCP transport"));
  }
  const auto id = static_cast<PeerId>(peers_.size());
  peers_.push_back(std::make_unique<Peer>(id, uuid, limits_));
  return peers_.back().get();
}

void PeerTable::retire(Peer& peer) {
  if (peer.resolved || peer.retired_hook.linked()) return;
  retired_.push_back(peer);
  ++retired_count_;
}

/// The entry that was retired longest ago and is idle; null: none.
Peer* PeerTable::take_retired() {
  Peer* peer = retired_.empty() ? nullptr : &retired_.front();
  // Packets that the engine sent to a caller that had just left are still being dropped; such an entry is busy for a
  // moment.
  while (peer != nullptr && (peer->link != nullptr || !peer->tx.empty() || !peer->pending.empty())) {
    peer = retired_.next(*peer);
  }
  if (peer == nullptr) return nullptr;
  peer->retired_hook.unlink();
  --retired_count_;
  return peer;
}

/// A resolved entry that no session uses and that waits for nothing; null: none. It is found by its old uuid no more.
Peer* PeerTable::take_unused() {
  if (use_ == nullptr) return nullptr;
  for (size_t looked = 0; looked < peers_.size(); ++looked) {
    Peer& peer = *peers_[unused_from_++ % peers_.size()];
    const bool connects = peer.link != nullptr || peer.dial != nullptr || peer.waits_to_dial || peer.wanted;
    const bool holds = peer.dirty || !peer.tx.empty() || !peer.pending.empty();
    if (!peer.resolved || connects || holds || use_->is_used(peer.id)) continue;
    resolved_.erase(peer.uuid.bytes);
    peer.resolved = false;
    return &peer;
  }
  return nullptr;
}

void PeerTable::push_event(LinkEvent event) {
  Peer& peer = at(event.peer);
  peer.pending.push(std::move(event));
  if (!peer.pending_hook.linked()) pending_.push_back(peer);
}

size_t PeerTable::poll(std::span<LinkEvent> events) {
  size_t count = 0;
  while (count < events.size() && !pending_.empty()) {
    PendingLinks& pending = pending_.front().pending;
    std::optional<LinkEvent>& next = pending.lost.has_value() ? pending.lost : pending.up;
    events[count++] = std::move(*next);
    next.reset();
    if (pending.empty()) pending_.pop_front();
  }
  return count;
}

}  // namespace skua::rpc::tcp
