// FaultyTransport: loses and duplicates packets on their way to another transport. It serves to measure and test
// recovery on real wires (`skua-perf --loss`); the simulator has its own faults.
//
//   endpoint -- tx_burst --> [ lose with probability p, send twice with probability q ] -- tx_burst --> wire
//
// Only for transports that may lose packets anyway: a reliable transport promises that nothing is lost (checked).
#ifndef SKUA_RPC_TRANSPORT_FAULTY_FAULTY_TRANSPORT_H_
#define SKUA_RPC_TRANSPORT_FAULTY_FAULTY_TRANSPORT_H_

#include <memory>
#include <span>

#include "rpc/base/rng.h"
#include "rpc/transport/transport.h"

namespace skua::rpc {

struct FaultOptions {
  /// Probabilities per packet, 0 to 1.
  double loss = 0;
  double duplicate = 0;
  uint64_t seed = 1;
};

class FaultyTransport final : public Transport {
 public:
  FaultyTransport(std::unique_ptr<Transport> wire, const FaultOptions& options);

  [[nodiscard]] const Capabilities& capabilities() const override { return wire_->capabilities(); }
  [[nodiscard]] const TransportCounters& counters() const override { return wire_->counters(); }
  [[nodiscard]] Descriptor local_descriptor() const override { return wire_->local_descriptor(); }
  void set_placer(RxPlacer* placer) override { wire_->set_placer(placer); }
  void set_peer_use(const PeerUse* use) override { wire_->set_peer_use(use); }
  absl::StatusOr<PeerId> resolve(const Descriptor& peer) override { return wire_->resolve(peer); }
  absl::StatusOr<PeerId> resolve_claimed(const Descriptor& peer) override { return wire_->resolve_claimed(peer); }
  size_t tx_burst(std::span<TxPacket> packets) override;
  [[nodiscard]] uint64_t host_of(PeerId peer) const override { return wire_->host_of(peer); }
  bool has_room(PeerId peer) override { return wire_->has_room(peer); }
  [[nodiscard]] uint64_t progress(PeerId peer) const override { return wire_->progress(peer); }
  TxFrame take_frame(PeerId peer) override { return wire_->take_frame(peer); }
  void send_frames(std::span<const TxFrame> frames) override;
  size_t rx_burst(std::span<RxPacket> packets) override { return wire_->rx_burst(packets); }
  void release(std::span<const RxBufferId> buffers) override { wire_->release(buffers); }
  size_t reap(std::span<TxToken> tokens) override { return wire_->reap(tokens); }
  void abandon_tx() override { wire_->abandon_tx(); }
  size_t poll_links(std::span<LinkEvent> events) override { return wire_->poll_links(events); }
  absl::Status register_region(MutableByteSpan region) override { return wire_->register_region(region); }
  void unregister_region(MutableByteSpan region) override { wire_->unregister_region(region); }
  void wait(DurationNs timeout_ns) override { wire_->wait(timeout_ns); }
  [[nodiscard]] int wait_fd() const override { return wire_->wait_fd(); }
  [[nodiscard]] DurationNs begin_wait(DurationNs timeout_ns) override { return wire_->begin_wait(timeout_ns); }
  void end_wait() override { wire_->end_wait(); }
  void wake() override { wire_->wake(); }
  [[nodiscard]] OneSided* one_sided() override { return wire_->one_sided(); }
  [[nodiscard]] uint32_t payload_max_bytes(PeerId peer) const override { return wire_->payload_max_bytes(peer); }

  [[nodiscard]] uint64_t lost_count() const { return lost_count_; }
  [[nodiscard]] uint64_t duplicated_count() const { return duplicated_count_; }

 private:
  size_t with_faults(std::span<const TxFrame> frames, std::span<TxFrame> out);

  std::unique_ptr<Transport> wire_;
  const FaultOptions options_;
  Rng rng_;
  uint64_t lost_count_ = 0;
  uint64_t duplicated_count_ = 0;
};

}  // namespace skua::rpc

#endif  // SKUA_RPC_TRANSPORT_FAULTY_FAULTY_TRANSPORT_H_
