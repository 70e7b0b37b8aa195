// DpdkTransport: packets as UDP datagrams over poll-mode drivers, one transport per worker (a lane of the fabric).
//
// TX, frames: a frame is an mbuf with the peer's headers in front of the bytes that the engine writes.
//
// TX, packets: body spans are sent from where they lie (attached_bodies.h). Pieces up to the inline limit are copied
// behind the headers. If the driver cannot gather, or may not read the memory, all pieces are copied.
//
// RX: an mbuf is lent without a copy until release(). Its address is the RxBufferId.
//
// Packets that the driver does not take at once wait in a short queue per port. When that queue is full, tx_burst takes
// no more packets.
//
// One thread may poll several lanes: such lanes share bursts (lane_group.h).
#ifndef SKUA_RPC_TRANSPORT_DPDK_DPDK_TRANSPORT_H_
#define SKUA_RPC_TRANSPORT_DPDK_DPDK_TRANSPORT_H_

#include <rte_mbuf.h>

#include <memory>
#include <vector>

#include "rpc/base/rng.h"
#include "rpc/transport/dpdk/attached_bodies.h"
#include "rpc/transport/dpdk/lane_group.h"
#include "rpc/transport/dpdk/line.h"
#include "rpc/transport/dpdk/path_search.h"
#include "rpc/transport/dpdk/peers.h"
#include "rpc/transport/dpdk/port.h"
#include "rpc/transport/dpdk/spare_frames.h"
#include "rpc/transport/link_watch.h"
#include "rpc/transport/transport.h"

namespace skua::rpc::dpdk {

/// Shared by all lanes. Owned by the fabric.
struct SharedPools {
  /// Mbufs with room for a whole frame.
  rte_mempool* frames = nullptr;
  /// Mbufs without data room, to attach memory to.
  rte_mempool* attached = nullptr;
};

inline constexpr char kTransportName[] = "dpdk";

class DpdkTransport final : public Transport, private PathSearch::Wire {
 public:
  /// `beside`: a transport of another lane that the same thread polls; null: none.
  DpdkTransport(const std::vector<Port*>& ports, const SharedPools& pools, const DpdkOptions& options, uint16_t lane,
                const EndpointIdentity& self, const DpdkTransport* beside);
  ~DpdkTransport() override;

  [[nodiscard]] const Capabilities& capabilities() const override { return capabilities_; }
  [[nodiscard]] const TransportCounters& counters() const override { return counters_; }
  [[nodiscard]] Descriptor local_descriptor() const override;
  void set_peer_use(const PeerUse* use) override { peers_.set_use(use); }
  absl::StatusOr<PeerId> resolve(const Descriptor& peer) override { return resolve(peer, PeerWord::kOwnDial); }
  absl::StatusOr<PeerId> resolve_claimed(const Descriptor& peer) override { return resolve(peer, PeerWord::kClaim); }
  size_t tx_burst(std::span<TxPacket> packets) override;
  bool has_room(PeerId peer) override;
  TxFrame take_frame(PeerId peer) override;
  void send_frames(std::span<const TxFrame> frames) override;
  size_t rx_burst(std::span<RxPacket> packets) override;
  void release(std::span<const RxBufferId> buffers) override;
  size_t reap(std::span<TxToken> tokens) override;
  void abandon_tx() override;
  size_t poll_links(std::span<LinkEvent> events) override;
  absl::Status register_region(MutableByteSpan region) override;
  void unregister_region(MutableByteSpan region) override;
  void wait(DurationNs timeout_ns) override;
  void wake() override;
  [[nodiscard]] uint32_t payload_max_bytes(PeerId peer) const override;

 private:
  void adopt();
  absl::StatusOr<PeerId> resolve(const Descriptor& peer, PeerWord word);
  [[nodiscard]] Line& line_of(const Peer& peer) { return lines_[peer.port]; }

  // TX.
  /// Null: there is no free mbuf.
  [[nodiscard]] rte_mbuf* take_spare() { return spares_.empty() && !refill_spares() ? nullptr : spares_.take(); }
  [[gnu::noinline]] bool refill_spares();
  [[gnu::noinline]] bool make_room(Line& line);
  rte_mbuf* build(const Peer& peer, TxPacket& packet);
  [[gnu::noinline]] bool attach_after_reclaiming(const Peer& peer, rte_mbuf* frame, std::span<const ByteSpan> pieces,
                                                 TxToken token);
  [[nodiscard]] bool may_gather(const Port& port, ByteSpan piece) const {
    return port.gathers() && (!port.uses_dma() || is_mapped(piece));
  }
  [[nodiscard]] bool is_mapped(ByteSpan piece) const;
  void send_small(Line& line, ByteSpan frame);

  // RX.
  [[gnu::noinline]] size_t receive_own(std::span<RxPacket> packets);
  [[gnu::always_inline]] inline size_t look(std::span<RxPacket> packets);
  size_t accept(Line& line, rte_mbuf** packets, size_t count, std::span<RxPacket> out);
  void keep_for_later(rte_mbuf* packet);
  void not_for_engine(Line& line, rte_mbuf* packet);
  bool hand_over(Line& line, rte_mbuf* packet, uint16_t to_port);

  // Links and paths.
  void watch(size_t line_index);
  void complain(size_t line_index);
  void refuse(PeerId peer, absl::Status why);
  [[nodiscard]] uint32_t payload_bytes_of(const Port& port, uint16_t mtu) const;
  void note_room(PeerId id);
  [[nodiscard]] bool has_link(PeerId peer) const override;
  void ask(PeerId peer, const PathProbe& probe) override;
  void on_path_mtu(PeerId peer, uint16_t before) override;

  const DpdkOptions& options_;
  const uint16_t lane_;
  const uint16_t udp_port_;
  const EndpointIdentity self_;
  Capabilities capabilities_;
  TransportCounters counters_;
  Peers peers_;
  const std::shared_ptr<LaneGroup> group_;
  std::vector<Line>& lines_;  // the group's lines, one for each port
  std::vector<LinkWatch> watches_;
  size_t next_line_ = 0;
  TimeNs now_ns_ = 1;  // coarse: time of the last look at the links; never 0, because 0 means "never"
  uint64_t next_watch_tsc_ = 0;
  uint32_t turns_ = 0;
  const void* thread_mark_ = nullptr;  // of the thread that was registered with the EAL
  SpareFrames spares_;
  AttachedBodies bodies_;
  std::vector<MutableByteSpan> regions_;
  std::vector<LinkEvent> events_;
  PathSearch paths_;
  Rng rng_;
  int wake_fd_ = -1;
};

}  // namespace skua::rpc::dpdk

#endif  // SKUA_RPC_TRANSPORT_DPDK_DPDK_TRANSPORT_H_
