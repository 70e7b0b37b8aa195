// PeerTable: the remote endpoints a datagram transport knows, by uuid and by where their packets come from.
//
// A PeerId is an index here. Callers come and go (each run of a tool is a new uuid), so once the table is full, the entry without
// a packet for the longest time is given to the next new uuid, if that time is longer than any session lives in silence.
//
// Peer: a struct with `Uuid uuid`, `Source source` and `TimeNs last_used_ns`, which its transport keeps up to date.
// Source: what a packet says of its sender; comparable, with AbslHashValue and `uint64_t mix() const`, whose top bits differ.
#ifndef SKUA_RPC_TRANSPORT_PEER_TABLE_H_
#define SKUA_RPC_TRANSPORT_PEER_TABLE_H_

#include <algorithm>
#include <array>
#include <cstdint>
#include <utility>
#include <vector>

#include "absl/container/flat_hash_map.h"
#include "absl/status/statusor.h"
#include "absl/strings/str_cat.h"
#include "rpc/base/clock.h"
#include "rpc/transport/descriptor.h"
#include "rpc/transport/transport.h"

namespace skua::rpc {

/// Thread: the transport's.
template <typename Source, typename Peer>
class PeerTable {
 public:
  /// Longer than the engine keeps a silent session.
  static constexpr DurationNs kForgottenAfter = 300 * kSecond;

  explicit PeerTable(size_t peers_max) : peers_max_(peers_max) {}

  /// The id of `peer.uuid`, made if need be; what was known of it is replaced by `peer`, used at peer.last_used_ns.
  /// RESOURCE_EXHAUSTED: peers_max, all of them in use.
  absl::StatusOr<PeerId> put(Peer peer) {
    PeerId id = find_uuid(peer.uuid);
    if (id == kNoPeer) {
      absl::StatusOr<PeerId> made = new_id(peer.last_used_ns);
      if (!made.ok()) return made.status();
      id = *made;
      by_uuid_[peer.uuid.bytes] = id;
    }
    Peer& entry = peers_[id];
    if (const auto old = by_source_.find(entry.source); old != by_source_.end() && old->second == id) {
      by_source_.erase(old);
    }
    by_source_[peer.source] = id;
    entry = std::move(peer);
    cache_.fill({});
    return id;
  }

  /// kNoPeer: not known.
  [[nodiscard]] PeerId find_uuid(const Uuid& uuid) const {
    const auto found = by_uuid_.find(uuid.bytes);
    return found == by_uuid_.end() ? kNoPeer : found->second;
  }
  /// Who sends from there; kNoPeer: nobody we know. Used on every packet.
  [[nodiscard]] PeerId find(const Source& source) {
    Cached& cached = cache_[source.mix() >> 56];
    if (cached.id != kNoPeer && cached.source == source) return cached.id;
    const auto found = by_source_.find(source);
    if (found == by_source_.end()) return kNoPeer;
    cached = {source, found->second};
    return found->second;
  }
  /// Until the next put().
  [[nodiscard]] Peer& at(PeerId id) { return peers_[id]; }
  [[nodiscard]] const Peer& at(PeerId id) const { return peers_[id]; }
  [[nodiscard]] size_t size() const { return peers_.size(); }

 private:
  struct Cached {
    Source source;
    PeerId id = kNoPeer;
  };
  static constexpr size_t kCacheSlots = 256;

  absl::StatusOr<PeerId> new_id(TimeNs now) {
    if (peers_.size() < peers_max_) {
      peers_.emplace_back();
      return static_cast<PeerId>(peers_.size() - 1);
    }
    const auto oldest = std::min_element(peers_.begin(), peers_.end(),
                                         [](const Peer& a, const Peer& b) { return a.last_used_ns < b.last_used_ns; });
    if (now - oldest->last_used_ns < kForgottenAfter) {
      return absl::ResourceExhaustedError(
          absl::StrCat("the transport knows ", peers_max_, " peers, all of them in use"));
    }
    by_uuid_.erase(oldest->uuid.bytes);
    return static_cast<PeerId>(oldest - peers_.begin());
  }

  const size_t peers_max_;
  std::vector<Peer> peers_;
  absl::flat_hash_map<std::array<uint8_t, 16>, PeerId> by_uuid_;
  absl::flat_hash_map<Source, PeerId> by_source_;
  std::array<Cached, kCacheSlots> cache_;
};

}  // namespace skua::rpc

#endif  // SKUA_RPC_TRANSPORT_PEER_TABLE_H_
