// PeerTable: the remote endpoints that a datagram transport knows, found by where their packets come from.
//
// A PeerId is an index into this table. An entry holds an address (Source) and what is needed to send there: a next
// hop, a key. Sessions keep a PeerId for as long as they stand, and some sessions are silent for minutes. So what may
// happen to an entry depends on whether sessions use it (rpc::PeerUse, implemented by the engine), not on when
// something was last sent there.
//
//   comes                                the address is new    known, not in use     known, in use
//   own dial: resolve()                  a new id              same id, replaced     same id, replaced
//   a claim: resolve_claimed()           a new id              same id, replaced     same id, nothing changes
//   a packet: find()                     no id                 its id                its id
//
// - An own dial has a descriptor from a source that this endpoint asked (the node's bootstrap service, the caller). It
//   always wins: the endpoint that has the address now is found, even if sessions of an earlier endpoint at that
//   address have not ended.
// - A claim is what an offer says about its sender. A claim costs the sender nothing, and may name any address with a
//   wrong next hop or key. So a claim never changes an entry that a session uses. The transport either answers such a
//   claim with the unchanged entry, or refuses it. Among claims for an unused entry the last one counts, until a packet
//   has bound a session to the id.
// - A packet changes nothing.
// - An id in use is never given to another address, no matter how long ago something was sent there.
// - Callers come and go (each run of a tool has its own port or queue), so unused ids are given to other addresses in
//   two cases. First: more than kUnusedMax ids exist that nothing was ever sent to (claims can name any number of
//   addresses); the oldest of these ids is given away. Second: the table is full; the first choice is again an id that
//   nothing was ever sent to, then the id with the oldest last send.
// - Without a PeerUse the table cannot know which ids are in use. Then any claim replaces an entry, and a full table
//   gives away only ids to which nothing was ever sent, or nothing for kForgottenAfter.
//
// Peer: a struct with `Source source` and `TimeNs last_used_ns`: when something was last sent there; 0: never. The
// transport sets it.
// Source: what a packet says of its sender; comparable, with AbslHashValue and `uint64_t mix() const`, whose top 8 bits
// select a slot of the lookup cache.
#ifndef SKUA_RPC_TRANSPORT_PEER_TABLE_H_
#define SKUA_RPC_TRANSPORT_PEER_TABLE_H_

#include <array>
#include <cstdint>
#include <deque>
#include <utility>
#include <vector>

#include "absl/container/flat_hash_map.h"
#include "absl/status/statusor.h"
#include "absl/strings/str_cat.h"
#include "rpc/base/clock.h"
#include "rpc/transport/descriptor.h"
#include "rpc/transport/transport.h"

namespace skua::rpc {

/// Who supplied a descriptor: the source that this endpoint asked, or the peer itself.
enum class PeerWord : uint8_t { kOwnDial, kClaim };

/// Thread: the transport's.
template <typename Source, typename Peer>
class PeerTable {
 public:
  /// Without a PeerUse an id counts as unused after this time: longer than the engine keeps a silent session.
  static constexpr DurationNs kForgottenAfter = 300 * kSecond;
  /// The most ids kept that nothing was ever sent to.
  static constexpr size_t kUnusedMax = 1024;

  explicit PeerTable(size_t peers_max) : peers_max_(peers_max) {}

  /// Not owned. Null: the table does not know which ids are in use.
  void set_use(const PeerUse* use) { use_ = use; }

  /// The id of `peer.source`; makes one if there is none. Replaces what was known of the address, except last_used_ns;
  /// ask may_replace() first. RESOURCE_EXHAUSTED: there are peers_max ids and all are in use.
  absl::StatusOr<PeerId> put(Peer peer, TimeNs now) {
    PeerId id = find(peer.source);
    if (id == kNoPeer) {
      absl::StatusOr<PeerId> made = new_id(now);
      if (!made.ok()) return made.status();
      id = *made;
      by_source_[peer.source] = id;
      unused_.push_back(id);
      peer.last_used_ns = 0;
      cache_.fill({});
    } else {
      peer.last_used_ns = peers_[id].last_used_ns;
    }
    peers_[id] = std::move(peer);
    return id;
  }

  [[nodiscard]] bool is_in_use(PeerId id) const { return use_ != nullptr && use_->is_used(id); }
  /// True if a descriptor from `word` may replace the entry by put().
  [[nodiscard]] bool may_replace(PeerId id, PeerWord word) const {
    return word == PeerWord::kOwnDial || !is_in_use(id);
  }
  /// The id of the peer that sends from `source`; kNoPeer: unknown. Called for every packet.
  [[nodiscard]] PeerId find(const Source& source) {
    Cached& cached = cache_[source.mix() >> 56];
    if (cached.id != kNoPeer && cached.source == source) [[likely]] {
      return cached.id;
    }
    return look_up(source, cached);
  }
  /// The reference is valid until the next put().
  [[nodiscard]] Peer& at(PeerId id) { return peers_[id]; }
  [[nodiscard]] const Peer& at(PeerId id) const { return peers_[id]; }
  [[nodiscard]] size_t size() const { return peers_.size(); }

 private:
  struct alignas(32) Cached {
    Source source;
    PeerId id = kNoPeer;
  };
  static constexpr size_t kCacheSlots = 256;

  /// Not inlined, so that find() can be. By value, so that the caller may keep the source in registers.
  [[gnu::noinline]] PeerId look_up(Source source, Cached& cached) {
    const auto found = by_source_.find(source);
    if (found == by_source_.end()) return kNoPeer;
    cached = {source, found->second};
    return found->second;
  }

  absl::StatusOr<PeerId> new_id(TimeNs now) {
    const bool is_full = peers_.size() == peers_max_;
    for (size_t left = unused_.size(); left > 0 && (is_full || unused_.size() > kUnusedMax); --left) {
      const PeerId id = unused_.front();
      unused_.pop_front();
      if (peers_[id].last_used_ns != 0) continue;
      if (!is_in_use(id)) return give_away(id);
      unused_.push_back(id);  // an own dial that has sent nothing yet
    }
    if (!is_full) {
      peers_.emplace_back();
      return static_cast<PeerId>(peers_.size() - 1);
    }
    PeerId oldest = kNoPeer;
    for (PeerId id = 0; id < peers_.size(); ++id) {
      const bool is_older = oldest == kNoPeer || peers_[id].last_used_ns < peers_[oldest].last_used_ns;
      if (is_older && !is_in_use(id)) oldest = id;
    }
    const bool in_use = oldest == kNoPeer || (use_ == nullptr && now - peers_[oldest].last_used_ns < kForgottenAfter);
    if (!in_use) return give_away(oldest);
    return absl::ResourceExhaustedError(
        absl::StrCat("the transport knows ", peers_max_, " peers, all of them in use: end some sessions"));
  }

  PeerId give_away(PeerId id) {
    by_source_.erase(peers_[id].source);
    return id;
  }

  const size_t peers_max_;
  const PeerUse* use_ = nullptr;
  std::vector<Peer> peers_;
  absl::flat_hash_map<Source, PeerId> by_source_;
  /// Ids that nothing was sent to when they were made, oldest first. Some have been sent to since.
  std::deque<PeerId> unused_;
  std::array<Cached, kCacheSlots> cache_;
};

}  // namespace skua::rpc

#endif  // SKUA_RPC_TRANSPORT_PEER_TABLE_H_
