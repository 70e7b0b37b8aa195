#include "rpc/transport/tcp/peers.h"

#include <utility>

#include "absl/strings/str_cat.h"

namespace skua::rpc::tcp {

void PendingLinks::push(LinkEvent event) {
  if (event.kind == LinkEvent::Kind::kUp) {
    up = std::move(event);
  } else {
    lost = std::move(event);
    up.reset();
  }
}

absl::StatusOr<Peer*> PeerTable::find_or_add(const Uuid& uuid) {
  if (const auto found = by_uuid_.find(uuid.bytes); found != by_uuid_.end()) {
    return peers_[found->second].get();
  }
  if (peers_.size() == peers_max_) {
    Peer* reused = take_retired();
    if (reused == nullptr) {
      return absl::ResourceExhaustedError(
          absl::StrCat("this endpoint has ", peers_max_, " peers, its limit; raise peers_max of the TCP transport"));
    }
    by_uuid_.erase(reused->uuid.bytes);
    by_uuid_.emplace(uuid.bytes, reused->id);
    reused->uuid = uuid;
    reused->address = {};
    reused->failures = 0;
    reused->retry_at_ns = 0;
    return reused;
  }
  const auto id = static_cast<PeerId>(peers_.size());
  peers_.push_back(std::make_unique<Peer>(id, uuid, limits_));
  by_uuid_.emplace(uuid.bytes, id);
  return peers_.back().get();
}

void PeerTable::retire(Peer& peer) {
  if (!peer.resolved && !peer.retired_hook.linked()) retired_.push_back(peer);
}

/// The entry that is unused longest, or nullptr.
Peer* PeerTable::take_retired() {
  Peer* peer = retired_.empty() ? nullptr : &retired_.front();
  // The engine answers a lost caller now and then: such an entry is busy for a moment.
  while (peer != nullptr && (peer->link != nullptr || peer->dial != nullptr || !peer->tx.empty() ||
                             peer->waits_to_dial || !peer->pending.empty())) {
    peer = retired_.next(*peer);
  }
  if (peer != nullptr) peer->retired_hook.unlink();
  return peer;
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
