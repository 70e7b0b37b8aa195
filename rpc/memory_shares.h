// MemoryShares: who holds how much of an endpoint's message memory. What peers make an endpoint hold (requests that come in pieces, copies of
// lent packets) has a bound per peer, one per host, and one for all that are no nodes of the cluster:
//
//     |<------------------------------ limit ------------------------------>|
//     |<- 1/8: one peer ->|           |                   |                 |
//     |<--------------- 1/2: all peers of one host ------>|                 |
//     |<------------------------ 3/4: all but nodes ------------>|<- nodes ->|
//
// A peer with nothing may take one message, whatever its size, within the other two bounds; the first message of all always fits.
#ifndef SKUA_RPC_MEMORY_SHARES_H_
#define SKUA_RPC_MEMORY_SHARES_H_

#include <cstddef>
#include <cstdint>

#include "absl/container/flat_hash_map.h"
#include "rpc/transport/transport.h"

namespace skua::rpc {

/// Whose share a message takes.
struct Payer {
  /// kNoPeer: nobody's. What an endpoint asked for itself, answers above all, is bounded by what it asks.
  PeerId peer = kNoPeer;
  uint64_t host = 0;
  bool is_node = false;
};

/// Thread: the endpoint's.
class MemoryShares {
 public:
  explicit MemoryShares(size_t limit_bytes) : limit_bytes_(limit_bytes) {}

  [[nodiscard]] bool may_take(const Payer& payer, size_t bytes) const {
    if (payer.peer == kNoPeer) return true;
    const size_t held = of(peers_, payer.peer);
    return (held == 0 || held + bytes <= limit_bytes_ / kPeerPart) &&
           fits(of(hosts_, payer.host), bytes, limit_bytes_ / kHostPart) &&
           (payer.is_node || fits(strangers_bytes_, bytes, limit_bytes_ / 4 * 3));
  }
  /// `bytes`: the same for give().
  void take(const Payer& payer, size_t bytes) {
    if (payer.peer == kNoPeer || bytes == 0) return;
    peers_[payer.peer] += bytes;
    hosts_[payer.host] += bytes;
    if (!payer.is_node) strangers_bytes_ += bytes;
  }
  void give(const Payer& payer, size_t bytes) {
    if (payer.peer == kNoPeer || bytes == 0) return;
    subtract(peers_, payer.peer, bytes);
    subtract(hosts_, payer.host, bytes);
    if (!payer.is_node) strangers_bytes_ -= bytes;
  }

 private:
  static constexpr size_t kPeerPart = 8;
  static constexpr size_t kHostPart = 2;

  template <typename Key>
  using Held = absl::flat_hash_map<Key, size_t>;

  static bool fits(size_t held, size_t bytes, size_t limit) { return held == 0 || held + bytes <= limit; }
  template <typename Key>
  static size_t of(const Held<Key>& held, Key key) {
    const auto found = held.find(key);
    return found == held.end() ? 0 : found->second;
  }
  template <typename Key>
  static void subtract(Held<Key>& held, Key key, size_t bytes) {
    const auto found = held.find(key);
    found->second -= bytes;
    if (found->second == 0) held.erase(found);
  }

  const size_t limit_bytes_;
  Held<PeerId> peers_;
  Held<uint64_t> hosts_;
  size_t strangers_bytes_ = 0;
};

}  // namespace skua::rpc

#endif  // SKUA_RPC_MEMORY_SHARES_H_
