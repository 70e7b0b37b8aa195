// PeerTable: the remote endpoints that a datagram transport knows, by where their packets come from.
//
// A PeerId is an index here. It names an address (Source), and what is known of the address is how to send there: a
// next hop, a key. Sessions keep a PeerId for as long as they stand, and some of them are silent for minutes, so what
// may happen to an entry is a question of who uses it (rpc::PeerUse, the engine's sessions), not of when something was
// sent there last.
//
//   comes                                the address is new    known, not in use     known, in use
//   own dial: resolve()                  a new id              same id, replaced     same id, replaced
//   a claim: resolve_claimed()           a new id              same id, replaced     same id, nothing changes
//   a packet: find()                     no id                 its id                its id
//
// - An own dial comes with a descriptor from where we asked for it (the node's bootstrap service, the caller). It is
// the better word,
//   always: whoever is at the address now is found, even if sessions of an earlier endpoint there have not ended.
// - A claim is what an offer says of its sender. It costs nothing, and may name anybody's address with a wrong next hop
// or key. So it
//   never touches an entry that a session uses. The transport answers such a claim with the entry as it is, or refuses it.
//   Claims among themselves: the last one counts, until a packet has bound a session to the id.
// - A packet changes nothing.
// - An id in use is never given to another address, however long nothing was sent there.
// - Callers come and go (each run of a tool has a port or queue of its own), so other ids are used again: those that
// nothing was ever
//   sent to, the oldest first, once there are more than kUnusedMax of these, because claims name any number of addresses; and when
//   the table is full, the one that nothing was sent to for the longest time.
// - Without a PeerUse nobody can say what is in use. Then claims replace what they like, and a full table gives away
// only what nothing
//   was sent to for kForgottenAfter.
//
// Peer: a struct with `Source source` and `TimeNs last_used_ns`: when something was sent there last, 0: never. The transport keeps it.
// Source: what a packet says of its sender; comparable, with AbslHashValue and `uint64_t mix() const`, whose top bits differ.
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

/// Whose word a descriptor is.
enum class PeerWord : uint8_t { kOwnDial, kClaim };

/// Thread: the transport's.
template <typename Source, typename Peer>
class PeerTable {
 public:
  /// Where nobody says what is in use: longer than the engine keeps a silent session.
  static constexpr DurationNs kForgottenAfter = 300 * kSecond;
  /// Ids that nothing was ever sent to.
  static constexpr size_t kUnusedMax = 1024;

  explicit PeerTable(size_t peers_max) : peers_max_(peers_max) {}

  /// Null: nobody says what is in use.
  void set_use(const PeerUse* use) { use_ = use; }

  /// The id of `peer.source`, made if need be; what was known of it is replaced, but for last_used_ns: see
  /// may_replace(). RESOURCE_EXHAUSTED: peers_max, all of them in use.
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
  /// put() may replace what is known of it.
  [[nodiscard]] bool may_replace(PeerId id, PeerWord word) const {
    return word == PeerWord::kOwnDial || !is_in_use(id);
  }
  /// Who sends from there; kNoPeer: nobody we know. Used on every packet.
  [[nodiscard]] PeerId find(const Source& source) {
    Cached& cached = cache_[source.mix() >> 56];
    if (cached.id != kNoPeer && cached.source == source) [[likely]] {
      return cached.id;
    }
    return look_up(source, cached);
  }
  /// Until the next put().
  [[nodiscard]] Peer& at(PeerId id) { return peers_[id]; }
  [[nodiscard]] const Peer& at(PeerId id) const { return peers_[id]; }
  [[nodiscard]] size_t size() const { return peers_.size(); }

 private:
  struct alignas(32) Cached {
    Source source;
    PeerId id = kNoPeer;
  };
  static constexpr size_t kCacheSlots = 256;

  /// Not inlined, so that find() is; by value, so that its caller may keep the source in registers.
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
      unused_.push_back(id);  // a dial that has sent nothing yet
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
  /// Oldest first; some have been used since.
  std::deque<PeerId> unused_;
  std::array<Cached, kCacheSlots> cache_;
};

}  // namespace skua::rpc

#endif  // SKUA_RPC_TRANSPORT_PEER_TABLE_H_
