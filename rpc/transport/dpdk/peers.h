// PeerTable: the remote endpoints a DPDK transport knows, by uuid and by where their packets come from.
//
// A PeerId is an index here. Callers come and go (each run of a tool is a new uuid), so once the table is full, the entry without
// a packet for the longest time is given to the next new uuid, if that time is longer than any session lives in silence.
#ifndef SKUA_RPC_TRANSPORT_DPDK_PEERS_H_
#define SKUA_RPC_TRANSPORT_DPDK_PEERS_H_

#include <array>
#include <cstdint>
#include <vector>

#include "absl/container/flat_hash_map.h"
#include "absl/status/statusor.h"
#include "rpc/base/clock.h"
#include "rpc/transport/descriptor.h"
#include "rpc/transport/dpdk/frame.h"
#include "rpc/transport/transport.h"

namespace skua::rpc::dpdk {

struct Peer {
  Uuid uuid;
  FrameSource source;
  /// Which of our ports leads there.
  uint16_t port = 0;
  FrameTemplate frame;
  TimeNs last_used_ns = 0;
};

/// How a peer is reached: the outcome of choosing one of our ports and one of its interfaces.
struct Route {
  uint16_t port = 0;
  FrameSource source;
  FrameTemplate frame;
};

/// Thread: the transport's.
class PeerTable {
 public:
  explicit PeerTable(size_t peers_max) : peers_max_(peers_max) {}

  /// The peer of `uuid`, made if need be, reached by `route` from now on. RESOURCE_EXHAUSTED: peers_max, all of them in use.
  absl::StatusOr<PeerId> put(const Uuid& uuid, const Route& route, TimeNs now);
  /// Who sends from there; kNoPeer: nobody we know. Used on every packet.
  [[nodiscard]] PeerId find(const FrameSource& source) {
    Cached& cached = cache_[cache_slot(source)];
    if (cached.id != kNoPeer && cached.source == source) return cached.id;
    return find_slowly(source, cached);
  }
  /// Until the next put().
  [[nodiscard]] Peer& at(PeerId id) { return peers_[id]; }
  [[nodiscard]] const Peer& at(PeerId id) const { return peers_[id]; }
  [[nodiscard]] size_t size() const { return peers_.size(); }

 private:
  struct Cached {
    FrameSource source;
    PeerId id = kNoPeer;
  };
  static constexpr size_t kCacheSlots = 256;

  static size_t cache_slot(const FrameSource& source) {
    const uint64_t mixed = (source.ip_high ^ source.ip_low ^ (uint64_t{source.udp_port} << 32)) * 0x9e3779b97f4a7c15;
    return mixed >> 56;
  }
  PeerId find_slowly(const FrameSource& source, Cached& cached);
  absl::StatusOr<PeerId> new_id(TimeNs now);

  const size_t peers_max_;
  std::vector<Peer> peers_;
  absl::flat_hash_map<std::array<uint8_t, 16>, PeerId> by_uuid_;
  absl::flat_hash_map<FrameSource, PeerId> by_source_;
  std::array<Cached, kCacheSlots> cache_;
};

}  // namespace skua::rpc::dpdk

#endif  // SKUA_RPC_TRANSPORT_DPDK_PEERS_H_
