#include "rpc/transport/dpdk/peers.h"

#include <algorithm>

#include "absl/strings/str_cat.h"

namespace skua::rpc::dpdk {
namespace {

/// Longer than the engine keeps a silent session.
constexpr DurationNs kForgottenAfter = 300 * kSecond;

}  // namespace

absl::StatusOr<PeerId> PeerTable::put(const Uuid& uuid, const Route& route, TimeNs now) {
  PeerId id;
  if (const auto found = by_uuid_.find(uuid.bytes); found != by_uuid_.end()) {
    id = found->second;
  } else {
    absl::StatusOr<PeerId> made = new_id(now);
    if (!made.ok()) return made.status();
    id = *made;
    by_uuid_[uuid.bytes] = id;
  }
  Peer& peer = peers_[id];
  if (const auto old = by_source_.find(peer.source); old != by_source_.end() && old->second == id)
    by_source_.erase(old);
  peer = {uuid, route.source, route.port, route.frame, now};
  by_source_[route.source] = id;
  cache_.fill({});
  return id;
}

absl::StatusOr<PeerId> PeerTable::new_id(TimeNs now) {
  if (peers_.size() < peers_max_) {
    peers_.emplace_back();
    return static_cast<PeerId>(peers_.size() - 1);
  }
  const auto oldest = std::min_element(peers_.begin(), peers_.end(),
                                       [](const Peer& a, const Peer& b) { return a.last_used_ns < b.last_used_ns; });
  if (now - oldest->last_used_ns < kForgottenAfter) {
    return absl::ResourceExhaustedError(absl::StrCat("the transport knows ", peers_max_, " peers, all of them in use"));
  }
  by_uuid_.erase(oldest->uuid.bytes);
  return static_cast<PeerId>(oldest - peers_.begin());
}

PeerId PeerTable::find_slowly(const FrameSource& source, Cached& cached) {
  const auto found = by_source_.find(source);
  if (found == by_source_.end()) return kNoPeer;
  cached = {source, found->second};
  return found->second;
}

}  // namespace skua::rpc::dpdk
