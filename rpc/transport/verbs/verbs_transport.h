// VerbsTransport: packets as unreliable datagrams (UD) over RDMA verbs, with one queue pair per endpoint.
//
// TX:   | engine header, copied pieces |  body span  |  body span |      one work request, gathered by the device
//         the slot's own memory          registered memory, in place; its token comes back after the completion
//
//       Pieces up to the inline limit, and all pieces outside registered memory, are copied behind the header. A packet
//       that is small enough travels in the work request itself. A burst is one list, handed over at once.
//       Frames are written in the ring's own memory and sent from there.
// RX:   Buffers are lent without a copy. The RxBufferId is the buffer's number. Buffers are posted again when they come
//       back, in any order. A malformed packet's buffer is given back at once, and the packet is counted: no packet can
//       take a buffer out of the ring.
//
// The network header of a datagram names its sender (GID or LID, and QP number), which gives the PeerId. The device
// checks the key (QKEY, drawn at random for each endpoint) and the invariant CRC, so the engine adds no checksum of its
// own.
//
// Connected queue pairs for READ, WRITE and atomics exist beside all this (rc_connections.h). They are made on demand
// by datagrams that begin with their own magic and never reach the engine.
#ifndef SKUA_RPC_TRANSPORT_VERBS_VERBS_TRANSPORT_H_
#define SKUA_RPC_TRANSPORT_VERBS_VERBS_TRANSPORT_H_

#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "rpc/base/clock.h"
#include "rpc/base/rng.h"
#include "rpc/transport/link_watch.h"
#include "rpc/transport/peer_table.h"
#include "rpc/transport/transport.h"
#include "rpc/transport/verbs/address.h"
#include "rpc/transport/verbs/address_resolver.h"
#include "rpc/transport/verbs/completion_channel.h"
#include "rpc/transport/verbs/device.h"
#include "rpc/transport/verbs/memory_registry.h"
#include "rpc/transport/verbs/rc_connections.h"
#include "rpc/transport/verbs/rc_hub.h"
#include "rpc/transport/verbs/ud_queue.h"
#include "rpc/transport/verbs/verbs_fabric.h"

namespace skua::rpc::verbs {

struct Peer {
  Source source;
  EndpointAddress address;
  std::shared_ptr<AddressHandle> handle;
  TimeNs resolved_ns = 0;
  /// Who made the handle be made.
  PeerWord asked_by = PeerWord::kOwnDial;
  TimeNs last_used_ns = 0;
};

class VerbsTransport final : public Transport, private RcHost {
 public:
  struct Stats {
    /// Times that the queue pair was brought back from an error state.
    uint64_t restarts = 0;
    /// Packets thrown away because the peer's address is not resolved (yet), or because the queue is in error.
    uint64_t tx_unsendable = 0;
    /// Parts of rx_dropped: packets shorter than the headers, and packets with an invalid network header.
    uint64_t rx_short = 0;
    uint64_t rx_bad_network_header = 0;
    /// Datagrams for the transport itself, well-formed or not.
    uint64_t rx_own = 0;
  };

  /// `device`, `resolver` and `hub` must outlive it. `hub` is null if connected queue pairs are not shared.
  static absl::StatusOr<std::unique_ptr<Transport>> create(Device& device, AddressResolver& resolver,
                                                           const VerbsOptions& options, const EndpointIdentity& self,
                                                           Rng rng, RcHub* hub = nullptr);
  VerbsTransport(Device& device, AddressResolver& resolver, const VerbsOptions& options, const EndpointIdentity& self,
                 std::unique_ptr<CompletionChannel> channel, std::unique_ptr<UdQueue> queue, Rng rng, RcHub* hub);
  ~VerbsTransport() override;

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
  [[nodiscard]] OneSided* one_sided() override { return connections_.get(); }
  void wait(DurationNs timeout_ns) override;
  void wake() override;
  /// The smaller MTU of the two ports counts. The peer's MTU came with its address.
  [[nodiscard]] uint32_t payload_max_bytes(PeerId peer) const override;

  [[nodiscard]] const Stats& stats() const { return stats_; }
  /// True if packets for the peer are sent, not thrown away: its address handle is there.
  [[nodiscard]] bool resolved(PeerId peer) const { return peers_.at(peer).handle->get() != nullptr; }
  /// For tests: puts the queue pair into the error state, as a fault of the device would.
  void fail_queue_for_test() { queue_->fail_for_test(); }
  [[nodiscard]] const UdQueue& queue() const { return *queue_; }
  /// Null if the device has no READs.
  [[nodiscard]] RcConnections* connections() { return connections_.get(); }

 private:
  using Peers = PeerTable<Source, Peer>;
  /// Only one of so many turns looks at the links.
  static constexpr uint32_t kTurnsPerLook = 64;
  /// Time between two restarts, so that a queue that fails again at once does not keep its endpoint busy.
  static constexpr DurationNs kRestartEvery = 10 * kMillisecond;

  [[nodiscard]] absl::StatusOr<EndpointAddress> reachable_address(const Descriptor& peer) const;
  absl::StatusOr<PeerId> resolve(const Descriptor& peer, PeerWord word);

  // TX.
  void build(const Peer& peer, TxPacket& packet);
  void build(const Peer& peer, const TxFrame& frame);
  static void address_request(UdQueue::SendSlot& slot, const Peer& peer);
  /// Copies or gathers the payload behind the header; returns how many bytes were copied.
  uint32_t gather(UdQueue::SendSlot& slot, std::byte* room, const TxPacket& packet);
  [[nodiscard]] bool usable(const Peer& peer) const { return !queue_->in_error() && peer.handle->get() != nullptr; }

  // RcHost.
  [[nodiscard]] const EndpointAddress& own_address() const override { return address_; }
  [[nodiscard]] const EndpointAddress& address_of(PeerId peer) const override { return peers_.at(peer).address; }
  void send_own(PeerId peer, ByteSpan datagram) override;
  [[nodiscard]] const RegionTable& regions() const override { return regions_; }

  // RX.
  enum class Fate : uint8_t { kEngine, kOwn, kDropped };
  Fate accept(const UdQueue::Received& received, RxPacket& out);
  void accept_own(PeerId from, ByteSpan datagram);
  size_t accept_all(std::span<const UdQueue::Received> received, std::span<RxPacket> packets);

  void sleep(DurationNs timeout_ns);

  // Links (verbs_transport_links.cc).
  size_t look_at_links(std::span<LinkEvent> events);
  void recover(TimeNs now);
  void watch(TimeNs now);
  void report_unresolved();
  void complain(PeerId peer, absl::Status why);
  void bury(std::shared_ptr<AddressHandle> handle);

  Device& device_;
  AddressResolver& resolver_;
  const uint32_t inline_max_bytes_;
  const EndpointIdentity self_;
  const SteadyClock clock_;
  const std::unique_ptr<CompletionChannel> channel_;
  const std::unique_ptr<UdQueue> queue_;
  EndpointAddress address_;
  Capabilities capabilities_;
  TransportCounters counters_;
  Stats stats_;
  Peers peers_;
  RegionTable regions_;
  std::unique_ptr<RcConnections> connections_;
  std::vector<PeerId> unresolved_;
  /// Replaced handles, and how many sends had been built at that time. The handle may be in use until those sends are
  /// done.
  std::vector<std::pair<uint64_t, std::shared_ptr<AddressHandle>>> replaced_;

  TimeNs now_ns_ = 0;  // coarse: time of the last look at the links
  TimeNs next_watch_ns_ = 0;
  TimeNs next_restart_ns_ = 0;
  LinkWatch link_;
  absl::Status trouble_;  // why the queue does not restart
  uint32_t turns_ = 0;
  std::vector<LinkEvent> events_;
  int wake_fd_ = -1;
};

}  // namespace skua::rpc::verbs

#endif  // SKUA_RPC_TRANSPORT_VERBS_VERBS_TRANSPORT_H_
