// PathSearch: the paths to all peers of a transport, and which of them are being searched (path_mtu.h). Pure: the wire
// is an interface, time and nonces are arguments.
//
//   resolve() --> want(peer)            turn(now) --> ask(peer, probe)  per size and round
//                                       on_echo(peer) <-- an echo
//                                       on_path_mtu(peer, before): the size believed of the path has changed
#ifndef SKUA_RPC_TRANSPORT_DPDK_PATH_SEARCH_H_
#define SKUA_RPC_TRANSPORT_DPDK_PATH_SEARCH_H_

#include <cstdint>
#include <vector>

#include "rpc/base/bytes.h"
#include "rpc/base/clock.h"
#include "rpc/transport/dpdk/frame.h"
#include "rpc/transport/dpdk/path_mtu.h"
#include "rpc/transport/transport.h"

namespace skua::rpc::dpdk {

/// Thread: the transport's.
class PathSearch {
 public:
  /// What the search needs of the transport. turn() calls these; on_echo() also calls on_path_mtu().
  class Wire {
   public:
    /// False: nothing reaches the peer now; the round is postponed and not counted.
    [[nodiscard]] virtual bool has_link(PeerId peer) const = 0;
    /// Sends the probe, padded to an IP packet of `probe.ip_bytes`. The probe may be lost.
    virtual void ask(PeerId peer, const PathProbe& probe) = 0;
    virtual void on_path_mtu(PeerId peer, uint16_t before) = 0;

   protected:
    ~Wire() = default;
  };

  /// The wire must outlive the search.
  explicit PathSearch(Wire& wire) : wire_(wire) {}

  /// Called whenever `id` is resolved. The peer is at `at`, over a device that carries IP packets of `device_mtu`
  /// bytes. If `at` has changed, the path is a new one.
  void want(PeerId id, const FrameSource& at, uint16_t device_mtu, uint64_t nonce, TimeNs now);
  /// Begins the rounds that are due. Costs almost nothing if no search runs.
  void turn(TimeNs now) {
    if (!searching_.empty()) begin_rounds(now);
  }
  /// A datagram with the transport's magic came from this peer. Anybody may send one, so it is checked.
  void on_echo(PeerId from, ByteSpan payload);

  /// Bytes of the largest IP packet that is believed to pass; 0: nothing is known of this peer.
  [[nodiscard]] uint16_t mtu(PeerId id) const { return id < paths_.size() ? paths_[id].mtu.mtu() : uint16_t{0}; }
  [[nodiscard]] size_t searching_count() const { return searching_.size(); }

 private:
  struct Path {
    FrameSource to;
    PathMtu mtu;
  };

  void begin_rounds(TimeNs now);
  bool begin_round(PeerId id, TimeNs now);

  Wire& wire_;
  std::vector<Path> paths_;  // by peer
  std::vector<PeerId> searching_;
};

}  // namespace skua::rpc::dpdk

#endif  // SKUA_RPC_TRANSPORT_DPDK_PATH_SEARCH_H_
