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
    return absl::ResourceExhaustedError(
        absl::StrCat("this endpoint knows ", peers_max_,
                     " peers, its limit; raise peers_max of the TCP transport or restart it"));
  }
  const auto id = static_cast<PeerId>(peers_.size());
  peers_.push_back(std::make_unique<Peer>(id, uuid, limits_));
  by_uuid_.emplace(uuid.bytes, id);
  return peers_.back().get();
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
