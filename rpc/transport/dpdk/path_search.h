// PathSearch: the paths to all peers of a transport, and which of them are being searched (path_mtu.h). Pure: the wire is an
// interface, time and nonces are arguments.
//
//   resolve() --> want(peer)            turn(now) --> ask(peer, probe)  per size and round
//                                       on_echo(peer) <-- what came back
//                                       on_path_mtu(peer, before): what is believed of the path is something else now
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
  /// What the search needs of the transport. Called from turn(), and on_path_mtu() from on_echo() also.
  class Wire {
   public:
    /// False: nothing reaches the peer now, and no round is counted.
    [[nodiscard]] virtual bool has_link(PeerId peer) const = 0;
    /// Sends the probe, padded to an IP packet of `probe.ip_bytes`, or loses it.
    virtual void ask(PeerId peer, const PathProbe& probe) = 0;
    virtual void on_path_mtu(PeerId peer, uint16_t before) = 0;

   protected:
    ~Wire() = default;
  };

  /// The wire outlives the search.
  explicit PathSearch(Wire& wire) : wire_(wire) {}

  /// `id` is (still) wanted. It is at `at`, over a device that carries `device_mtu` bytes of IP packet. Another place than before
  /// is another path.
  void want(PeerId id, const FrameSource& at, uint16_t device_mtu, uint64_t nonce, TimeNs now);
  /// Begins the rounds that are due. Costs nothing while nothing is searched.
  void turn(TimeNs now) {
    if (!searching_.empty()) begin_rounds(now);
  }
  /// A datagram with the transport's magic came from there; anybody may send one.
  void on_echo(PeerId from, ByteSpan payload);

  /// Bytes of the largest IP packet that is believed to pass; 0: nothing is known of that peer.
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
