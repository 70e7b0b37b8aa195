// Line: one of the fabric's ports, as a lane or a group of lanes sends by it. Packets that the driver does not take at
// once wait here, in order.
#ifndef SKUA_RPC_TRANSPORT_DPDK_LINE_H_
#define SKUA_RPC_TRANSPORT_DPDK_LINE_H_

#include <rte_mbuf.h>

#include <algorithm>
#include <array>
#include <cstdint>

#include "rpc/transport/dpdk/port.h"
#include "rpc/transport/transport.h"

namespace skua::rpc::dpdk {

/// Thread: that of its lanes.
class Line {
 public:
  static constexpr uint16_t kPendingMax = 2 * kBurstMax;

  Line(Port& port, uint16_t lane) : port_(&port), queue_(port.queue_of(lane)) {}

  [[nodiscard]] Port& port() const { return *port_; }
  [[nodiscard]] bool is_full() const { return pending_count_ == kPendingMax; }
  /// True if there is room for a whole burst. With this rule, packets begun for one peer never block another peer's
  /// packets.
  [[nodiscard]] bool has_room() const { return pending_count_ <= kPendingMax - kBurstMax; }
  /// Takes ownership of `packet`. Only while the line is not full.
  void push(rte_mbuf* packet) { pending_[pending_count_++] = packet; }
  /// Hands the waiting packets to the driver, as many as it takes.
  void flush() {
    if (pending_count_ == 0) return;
    const uint16_t sent = port_->send(queue_, pending_.data(), pending_count_);
    pending_count_ = static_cast<uint16_t>(pending_count_ - sent);
    if (sent > 0 && pending_count_ > 0) std::copy_n(pending_.begin() + sent, pending_count_, pending_.begin());
  }
  /// Receives packets of this queue; some may belong to other lanes.
  uint16_t receive(rte_mbuf** packets, uint16_t count) { return port_->receive(queue_, packets, count); }
  void drop() {
    rte_pktmbuf_free_bulk(pending_.data(), pending_count_);
    pending_count_ = 0;
  }
  /// Asks the driver to free the mbufs that it has sent.
  void reclaim() { port_->reclaim(queue_); }

  /// True if the lane sends and receives by this line's queue.
  [[nodiscard]] bool is_of(uint16_t lane) const { return port_->queue_of(lane) == queue_; }
  /// True if a whole burst of frames waits.
  [[nodiscard]] bool has_burst() const { return pending_count_ >= kBurstMax; }

 private:
  Port* port_;
  uint16_t queue_;
  uint16_t pending_count_ = 0;
  std::array<rte_mbuf*, kPendingMax> pending_;
};

}  // namespace skua::rpc::dpdk

#endif  // SKUA_RPC_TRANSPORT_DPDK_LINE_H_
