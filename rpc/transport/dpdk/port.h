// Port: one Ethernet device, configured and started, with the queues of all lanes.
//
// Locks: none in a process with one lane. With several lanes, each burst takes the queue's spin lock. A receiver only
// tries to lock; the lane that has the lock hands over packets that belong to other lanes.
#ifndef SKUA_RPC_TRANSPORT_DPDK_PORT_H_
#define SKUA_RPC_TRANSPORT_DPDK_PORT_H_

#include <rte_mbuf.h>
#include <rte_mempool.h>
#include <rte_ring.h>
#include <rte_spinlock.h>

#include <memory>
#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "rpc/transport/dpdk/address.h"
#include "rpc/transport/dpdk/dpdk_fabric.h"

namespace skua::rpc::dpdk {

class Port {
 public:
  /// Opens the device that DPDK found, without starting it. `all.lanes` workers will use it.
  static absl::StatusOr<std::unique_ptr<Port>> open(const DpdkPortOptions& options, const DpdkOptions& all);
  ~Port();
  Port(const Port&) = delete;
  Port& operator=(const Port&) = delete;

  /// Sets up queues, memory and link; after that packets flow. Retries until `timeout_ns` has passed. `pool` must
  /// outlive the port.
  absl::Status start(rte_mempool* pool, DurationNs timeout_ns);
  /// Stops and starts the device again, for all lanes. This brings back a driver whose peer went away, and makes a
  /// driver release every packet that it was given. False: it does not start now, try later.
  bool restart();
  /// A restart may bring the link back: the device's driver talks to a peer that may go away, or the device does not
  /// run. The link of hardware comes back by itself, some seconds after the last start.
  [[nodiscard]] bool may_need_restart() const { return !uses_dma_ || !started_; }
  [[nodiscard]] bool link_up() const;

  /// The receive and transmit queue of the lane; lanes may share a queue.
  [[nodiscard]] uint16_t queue_of(uint16_t lane) const { return static_cast<uint16_t>(lane % queue_count_); }
  /// Takes received packets from the queue; 0 if another lane is receiving from it.
  uint16_t receive(uint16_t queue, rte_mbuf** packets, uint16_t count);
  /// Hands packets to the driver; returns how many it took.
  uint16_t send(uint16_t queue, rte_mbuf** packets, uint16_t count);
  /// Asks the driver to free the mbufs that it has sent; many drivers cannot.
  void reclaim(uint16_t queue);

  /// Packets that other lanes received for this lane.
  [[nodiscard]] rte_ring* inbox(uint16_t lane) const { return inboxes_[lane]; }

  [[nodiscard]] const std::string& name() const { return name_; }
  [[nodiscard]] const std::string& driver() const { return driver_; }
  [[nodiscard]] const InterfaceAddress& address() const { return address_; }
  [[nodiscard]] bool has_gateway() const { return has_gateway_; }
  [[nodiscard]] const MacAddress& gateway() const { return gateway_; }
  [[nodiscard]] uint16_t mtu() const { return mtu_; }
  /// The largest frame that the port sends or receives.
  [[nodiscard]] uint16_t frame_bytes() const;
  [[nodiscard]] uint16_t queue_count() const { return queue_count_; }
  /// The device can gather a frame from several segments.
  [[nodiscard]] bool gathers() const { return gathers_; }
  /// The device reads memory by itself, so memory must be mapped for it first.
  [[nodiscard]] bool uses_dma() const { return uses_dma_; }
  /// map() makes [region] usable by the device; unmap() undoes that.
  absl::Status map(MutableByteSpan region);
  void unmap(MutableByteSpan region);
  [[nodiscard]] std::string describe() const;

 private:
  Port() = default;
  absl::Status configure(rte_mempool* pool);
  void steer();
  [[nodiscard]] absl::Status failed(const char* what, int error) const;

  uint16_t id_ = 0;
  bool started_ = false;
  bool gathers_ = false;
  bool uses_dma_ = false;
  bool has_gateway_ = false;
  uint16_t mtu_ = 0;
  uint16_t queue_count_ = 1;
  uint16_t lanes_ = 1;
  uint16_t udp_port_ = 0;
  uint16_t rx_descriptors_ = 0;
  uint16_t tx_descriptors_ = 0;
  std::string name_;
  std::string driver_;
  InterfaceAddress address_;
  MacAddress gateway_{};
  std::vector<rte_ring*> inboxes_;
  /// One per queue; used if there are several lanes. They also exclude restart().
  std::unique_ptr<rte_spinlock_t[]> locks_;
  bool locked_ = false;
};

}  // namespace skua::rpc::dpdk

#endif  // SKUA_RPC_TRANSPORT_DPDK_PORT_H_
