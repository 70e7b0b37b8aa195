// MemoryShares: how much memory each peer makes an endpoint hold. Requests that come in pieces, and copies of lent
// packets, take message memory. Answers take memory until their callers have them. Both kinds of memory have a limit of
// their own per peer, per host, and for all peers that are not nodes of the cluster:
//
//     |<------------------------------ limit ------------------------------>|
//     |<- 1/8: one peer ->|           |                   |                 |
//     |<--------------- 1/2: all peers of one host ------>|                 |
//     |<------------------------ 3/4: all but nodes ------------>|<- nodes ->|
//
// A peer that holds nothing may take one message of any size, if the other two limits allow it. The first message of
// all always fits.
#ifndef SKUA_RPC_MEMORY_SHARES_H_
#define SKUA_RPC_MEMORY_SHARES_H_

#include <cstddef>
#include <cstdint>
#include <optional>
#include <vector>

#include "absl/container/flat_hash_map.h"
#include "rpc/base/lease.h"
#include "rpc/transport/transport.h"

namespace skua::rpc {

/// Whose share a message counts in.
struct Payer {
  /// kNoPeer: nobody's share. Memory for what this endpoint asked for (mostly answers) is bounded by its own requests.
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
  /// Give the same `bytes` to give() later.
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

/// Shares that are given back one by one, by leases. Thread: the endpoint's.
class ShareLeases final : public LeaseOwner {
 public:
  explicit ShareLeases(size_t limit_bytes) : shares_(limit_bytes) {}

  /// The lease lends no bytes; dropping it gives the share back. nullopt: the payer's limit has no room for `bytes`
  /// more.
  [[nodiscard]] std::optional<Lease> take(const Payer& payer, size_t bytes) {
    if (!shares_.may_take(payer, bytes)) return std::nullopt;
    shares_.take(payer, bytes);
    if (free_.empty()) {
      free_.push_back(static_cast<uint32_t>(taken_.size()));
      taken_.emplace_back();
    }
    const uint32_t cookie = free_.back();
    free_.pop_back();
    taken_[cookie] = {payer, bytes};
    return Lease({}, this, cookie);
  }
  void return_lease(uint64_t cookie) override {
    shares_.give(taken_[cookie].payer, taken_[cookie].bytes);
    free_.push_back(static_cast<uint32_t>(cookie));
  }

 private:
  struct Taken {
    Payer payer;
    size_t bytes = 0;
  };
  MemoryShares shares_;
  std::vector<Taken> taken_;
  std::vector<uint32_t> free_;
};

}  // namespace skua::rpc

#endif  // SKUA_RPC_MEMORY_SHARES_H_
