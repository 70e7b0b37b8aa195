// DpdkTransport: packets as UDP datagrams over poll-mode drivers, one per worker (a lane of the fabric).
//
// TX, body spans in place:
//
//     header mbuf                        mbuf without data            mbuf without data
//   | Eth IP UDP | engine 32 | head |--->| attached: body span |----->| attached: body span |
//                  copied                  the driver reads the application's memory
//
//   All attached mbufs of a packet share one TxRecord. The driver frees each when it has read it; the last one's callback puts the
//   record on a list (from whatever thread that happens on), and reap() returns its token: never before. Pieces up to the inline
//   limit are copied behind the headers, and so is everything where the driver cannot gather or may not read the memory.
//
// TX, frames: an mbuf with the peer's headers in front of what the engine writes.
//
// RX: an mbuf is lent as it is, its address being the RxBufferId, until release() frees it.
//
// What a driver does not take at once waits in a short queue per port; when that is full, tx_burst takes no more.
#ifndef SKUA_RPC_TRANSPORT_DPDK_DPDK_TRANSPORT_H_
#define SKUA_RPC_TRANSPORT_DPDK_DPDK_TRANSPORT_H_

#include <rte_mbuf.h>

#include <array>
#include <atomic>
#include <memory>
#include <string>
#include <vector>

#include "rpc/base/rng.h"
#include "rpc/transport/dpdk/path_mtu.h"
#include "rpc/transport/dpdk/peers.h"
#include "rpc/transport/dpdk/port.h"
#include "rpc/transport/path_limits.h"
#include "rpc/transport/transport.h"

namespace skua::rpc::dpdk {

/// What all lanes share. Owned by the fabric.
struct SharedPools {
  /// Packets with room for a whole frame.
  rte_mempool* frames = nullptr;
  /// Packets without room, to attach memory to.
  rte_mempool* attached = nullptr;
};

class DpdkTransport final : public Transport, public PathLimits {
 public:
  DpdkTransport(const std::vector<Port*>& ports, const SharedPools& pools, const DpdkOptions& options, uint16_t lane,
                const EndpointIdentity& self);
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
  static constexpr size_t kPendingMax = 2 * kBurstMax;

  struct TxRecord {
    rte_mbuf_ext_shared_info shared;
    TxToken token;
    DpdkTransport* owner;
    TxRecord* next;
  };
  /// One of the fabric's ports, as this lane uses it.
  struct Line {
    Port* port = nullptr;
    std::array<rte_mbuf*, kPendingMax> pending;  // built, not yet taken by the driver
    uint16_t pending_count = 0;
    TimeNs down_since_ns = 0;
    TimeNs next_complaint_ns = 0;
    TimeNs next_restart_ns = 0;
  };

  void adopt();
  absl::StatusOr<PeerId> resolve(const Descriptor& peer, PeerWord word);

  // TX.
  rte_mbuf* build(const Peer& peer, TxPacket& packet);
  bool attach_body(rte_mbuf* frame, TxPacket& packet, size_t first_segment);
  [[nodiscard]] bool may_gather(const Peer& peer, ByteSpan piece) const;
  bool refill_spares();
  [[nodiscard]] static bool has_room(const Line& line) { return line.pending_count <= kPendingMax - kBurstMax; }
  void give_back(rte_mbuf* frame);
  void flush(Line& line);
  void drop_pending(Line& line);
  static void on_segment_freed(void* address, void* record);

  // RX.
  size_t accept(Line& line, rte_mbuf** packets, size_t count, std::span<RxPacket> out);
  void not_for_engine(Line& line, rte_mbuf* packet);
  bool hand_over(Line& line, rte_mbuf* packet, uint16_t to_port);

  void send_small(Line& line, ByteSpan frame);

  // Links.
  void watch(Line& line, size_t index, TimeNs now);

  // Paths.
  struct Path {
    FrameSource to;
    PathMtu mtu;
  };
  void want_path(PeerId id);
  void note_room(PeerId id);
  void search_paths(TimeNs now);
  void ask_path(const Peer& peer, const PathMtu& path, uint16_t ip_bytes);
  void on_path_echo(ByteSpan frame, const ParsedFrame& parsed);
  [[nodiscard]] uint32_t payload_bytes_of(const Line& line, uint16_t mtu) const;

  const DpdkOptions& options_;
  const SharedPools pools_;
  const uint16_t lane_;
  const uint16_t udp_port_;
  const EndpointIdentity self_;
  Capabilities capabilities_;
  TransportCounters counters_;
  Peers peers_;
  std::vector<Line> lines_;
  size_t next_line_ = 0;
  TimeNs now_ns_ = 1;  // coarse; of the last look at the links; never 0, which would mean: never
  uint64_t next_watch_tsc_ = 0;
  uint32_t turns_ = 0;
  const void* thread_mark_ = nullptr;  // of the thread that was given to the EAL

  // Mbufs taken from the pool ahead of need, a burst at a time.
  std::array<rte_mbuf*, kBurstMax> spare_;
  size_t spare_count_ = 0;

  std::unique_ptr<TxRecord[]> records_;
  TxRecord* free_records_ = nullptr;
  TxRecord* completed_ = nullptr;  // taken from freed_, for reap()
  size_t records_in_use_ = 0;
  alignas(64) std::atomic<TxRecord*> freed_ = nullptr;

  std::vector<MutableByteSpan> regions_;
  std::vector<LinkEvent> events_;
  std::vector<Path> paths_;        // by peer
  std::vector<PeerId> searching_;  // those whose path is being searched
  Rng rng_;
  int wake_fd_ = -1;
};

}  // namespace skua::rpc::dpdk

#endif  // SKUA_RPC_TRANSPORT_DPDK_DPDK_TRANSPORT_H_
