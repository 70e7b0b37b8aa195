#include "rpc/transport/dpdk/port.h"

#include <rte_dev.h>
#include <rte_errno.h>
#include <rte_ethdev.h>
#include <rte_flow.h>
#include <rte_memory.h>
#include <time.h>

#include <algorithm>

#include "absl/strings/str_cat.h"
#include "rpc/transport/dpdk/driver_calls.h"
#include "rpc/transport/dpdk/eal.h"
#include "rpc/transport/dpdk/frame.h"

namespace skua::rpc::dpdk {
namespace {

constexpr uint16_t kMtuDefaultMax = 9000;
constexpr unsigned kInboxPackets = 1024;
constexpr size_t kPageBytes = 4096;
constexpr DurationNs kStartRetry = 50 * kMillisecond;

void pause_for(DurationNs ns) {
  const timespec time{ns / kSecond, ns % kSecond};
  nanosleep(&time, nullptr);
}

class Locked {
 public:
  explicit Locked(rte_spinlock_t* lock) : lock_(lock) {
    if (lock_ != nullptr) rte_spinlock_lock(lock_);
  }
  ~Locked() {
    if (lock_ != nullptr) rte_spinlock_unlock(lock_);
  }
  Locked(const Locked&) = delete;
  Locked& operator=(const Locked&) = delete;

 private:
  rte_spinlock_t* lock_;
};

}  // namespace

absl::Status Port::failed(const char* what, int error) const {
  return absl::UnavailableError(absl::StrCat("DPDK port ", name_, " (driver ", driver_, "): ", what, ": ",
                                             rte_strerror(error < 0 ? -error : error)));
}

absl::StatusOr<std::unique_ptr<Port>> Port::open(const DpdkPortOptions& options, const DpdkOptions& all) {
  std::unique_ptr<Port> port(new Port);
  port->name_ = port_name(options.device);
  absl::StatusOr<InterfaceAddress> address = InterfaceAddress::parse(options.address);
  if (!address.ok()) return address.status();
  port->address_ = *address;
  if (!options.gateway_mac.empty()) {
    absl::StatusOr<MacAddress> gateway = parse_mac(options.gateway_mac);
    if (!gateway.ok()) return gateway.status();
    port->gateway_ = *gateway;
    port->has_gateway_ = true;
  }
  if (rte_eth_dev_get_port_by_name(port->name_.c_str(), &port->id_) != 0) {
    return absl::FailedPreconditionError(absl::StrCat("DPDK has no port ", port->name_,
                                                      ": is the device there, and bound to a driver that DPDK can use? "
                                                      "`skuactl doctor` lists what it sees"));
  }
  rte_eth_dev_info info;
  if (const int error = rte_eth_dev_info_get(port->id_, &info); error != 0)
    return port->failed("no information", error);
  port->driver_ = info.driver_name;
  port->uses_dma_ = !is_virtual_device(options.device);
  port->gathers_ = (info.tx_offload_capa & RTE_ETH_TX_OFFLOAD_MULTI_SEGS) != 0;
  port->lanes_ = all.lanes;
  port->udp_port_ = all.udp_port;
  const uint16_t wanted = all.queues != 0 ? all.queues : port->uses_dma_ ? all.lanes : uint16_t{1};
  port->queue_count_ = std::max<uint16_t>(1, std::min({wanted, all.lanes, info.max_rx_queues, info.max_tx_queues}));

  uint16_t mtu_now = 0;
  rte_eth_dev_get_mtu(port->id_, &mtu_now);
  const uint16_t device_max = std::max(mtu_now, info.max_mtu == UINT16_MAX ? mtu_now : info.max_mtu);
  port->mtu_ = all.mtu != 0 ? all.mtu : std::min(device_max, kMtuDefaultMax);
  if (port->mtu_ < kDpdkMtuMin) {
    return absl::FailedPreconditionError(absl::StrCat("DPDK port ", port->name_, ": an MTU of ", port->mtu_,
                                                      " is too small; the least is ", kDpdkMtuMin));
  }
  rte_ether_addr mac;
  if (const int error = rte_eth_macaddr_get(port->id_, &mac); error != 0) return port->failed("no MAC address", error);
  std::copy(std::begin(mac.addr_bytes), std::end(mac.addr_bytes), port->address_.mac.begin());
  port->rx_descriptors_ = all.rx_descriptors;
  port->tx_descriptors_ = all.tx_descriptors;

  port->locked_ = all.lanes > 1;
  port->locks_ = std::make_unique<rte_spinlock_t[]>(port->queue_count_);
  for (uint16_t q = 0; q < port->queue_count_; ++q) rte_spinlock_init(&port->locks_[q]);
  for (uint16_t lane = 0; lane < all.lanes; ++lane) {
    const std::string ring_name = absl::StrCat("skua-inbox-", port->id_, "-", lane);
    rte_ring* inbox = rte_ring_create(ring_name.c_str(), kInboxPackets, SOCKET_ID_ANY, RING_F_SC_DEQ);
    if (inbox == nullptr) return port->failed("no memory for an inbox", rte_errno);
    port->inboxes_.push_back(inbox);
  }
  return port;
}

Port::~Port() {
  if (started_) rte_eth_dev_stop(id_);
  rte_eth_dev_close(id_);
  for (rte_ring* inbox : inboxes_) {
    void* packet;
    while (rte_ring_sc_dequeue(inbox, &packet) == 0) rte_pktmbuf_free(static_cast<rte_mbuf*>(packet));
    rte_ring_free(inbox);
  }
}

uint16_t Port::frame_bytes() const {
  return static_cast<uint16_t>(mtu_ + kEthernetBytes);
}

absl::Status Port::configure(rte_mempool* pool) {
  rte_eth_dev_info info;
  if (const int error = rte_eth_dev_info_get(id_, &info); error != 0) return failed("no information", error);
  rte_eth_conf conf{};
  // Without the fast-free offload: it requires that all mbufs come from one pool and have no attached memory.
  if (gathers_) conf.txmode.offloads |= RTE_ETH_TX_OFFLOAD_MULTI_SEGS;
  const uint64_t hashes = info.flow_type_rss_offloads & (RTE_ETH_RSS_NONFRAG_IPV4_UDP | RTE_ETH_RSS_NONFRAG_IPV6_UDP);
  if (queue_count_ > 1 && hashes != 0) {
    conf.rxmode.mq_mode = RTE_ETH_MQ_RX_RSS;
    conf.rx_adv_conf.rss_conf.rss_hf = hashes;
  }
  // Virtual devices carry larger frames than they report (memif: its bsize) and reject a larger MTU setting.
  const uint32_t said_max = std::min<uint32_t>(info.max_mtu == 0 ? UINT16_MAX : info.max_mtu,
                                               info.max_rx_pktlen - RTE_ETHER_HDR_LEN - RTE_ETHER_CRC_LEN);
  conf.rxmode.mtu = std::min<uint32_t>(mtu_, said_max);
  if (const int error = rte_eth_dev_configure(id_, queue_count_, queue_count_, &conf); error != 0) {
    return failed("cannot be configured", error);
  }
  uint16_t rx = rx_descriptors_;
  uint16_t tx = tx_descriptors_;
  if (const int error = rte_eth_dev_adjust_nb_rx_tx_desc(id_, &rx, &tx); error != 0)
    return failed("descriptors", error);
  const int node = rte_eth_dev_socket_id(id_);
  const auto socket = static_cast<unsigned>(node < 0 ? 0 : node);
  for (uint16_t q = 0; q < queue_count_; ++q) {
    if (const int error = rte_eth_rx_queue_setup(id_, q, rx, socket, nullptr, pool); error != 0) {
      return failed("a receive queue cannot be set up (MTU too large for the driver's buffers?)", error);
    }
    if (const int error = rte_eth_tx_queue_setup(id_, q, tx, socket, nullptr); error != 0) {
      return failed("a transmit queue cannot be set up", error);
    }
  }
  // Not every driver accepts an MTU; then the device's own set-up decides whether frames of this size pass.
  static_cast<void>(rte_eth_dev_set_mtu(id_, mtu_));
  return absl::OkStatus();
}

absl::Status Port::start(rte_mempool* pool, DurationNs timeout_ns) {
  if (absl::Status status = configure(pool); !status.ok()) return status;
  for (DurationNs waited = 0;; waited += kStartRetry) {
    const int error = rte_eth_dev_start(id_);
    if (error == 0) break;
    if (waited >= timeout_ns) {
      return failed("does not start (a memif client needs its server to be there first)", error);
    }
    pause_for(kStartRetry);
  }
  started_ = true;
  if (queue_count_ > 1) steer();
  return absl::OkStatus();
}

void Port::steer() {
  // Best effort: packets that the device does not steer are handed over by software.
  for (uint16_t lane = 0; lane < lanes_; ++lane) {
    rte_flow_attr attributes{};
    attributes.ingress = 1;
    rte_flow_item_udp udp{};
    rte_flow_item_udp mask{};
    udp.hdr.dst_port = __builtin_bswap16(static_cast<uint16_t>(udp_port_ + lane));
    mask.hdr.dst_port = UINT16_MAX;
    rte_flow_item pattern[4] = {};
    pattern[0].type = RTE_FLOW_ITEM_TYPE_ETH;
    pattern[1].type = address_.family == 4 ? RTE_FLOW_ITEM_TYPE_IPV4 : RTE_FLOW_ITEM_TYPE_IPV6;
    pattern[2].type = RTE_FLOW_ITEM_TYPE_UDP;
    pattern[2].spec = &udp;
    pattern[2].mask = &mask;
    pattern[3].type = RTE_FLOW_ITEM_TYPE_END;
    rte_flow_action_queue queue{};
    queue.index = static_cast<uint16_t>(lane % queue_count_);
    rte_flow_action actions[2] = {};
    actions[0].type = RTE_FLOW_ACTION_TYPE_QUEUE;
    actions[0].conf = &queue;
    actions[1].type = RTE_FLOW_ACTION_TYPE_END;
    rte_flow_error error{};
    if (rte_flow_validate(id_, &attributes, pattern, actions, &error) != 0) return;
    if (rte_flow_create(id_, &attributes, pattern, actions, &error) == nullptr) return;
  }
}

bool Port::restart() {
  std::vector<std::unique_ptr<Locked>> held;
  for (uint16_t q = 0; locked_ && q < queue_count_; ++q) held.push_back(std::make_unique<Locked>(&locks_[q]));
  if (started_) {
    // Some drivers keep rules over a stop and some do not.
    rte_flow_error ignored{};
    if (queue_count_ > 1) static_cast<void>(rte_flow_flush(id_, &ignored));
    rte_eth_dev_stop(id_);
    started_ = false;
  }
  started_ = rte_eth_dev_start(id_) == 0;
  if (started_ && queue_count_ > 1) steer();
  return started_;
}

bool Port::link_up() const {
  rte_eth_link link{};
  return started_ && rte_eth_link_get_nowait(id_, &link) == 0 && link.link_status == RTE_ETH_LINK_UP;
}

uint16_t Port::receive(uint16_t queue, rte_mbuf** packets, uint16_t count) {
  const DriverCall call;
  if (!locked_) return started_ ? rte_eth_rx_burst(id_, queue, packets, count) : uint16_t{0};
  // The lane that gets the lock empties a shared queue and hands packets over. So no lane depends on another lane's
  // polling.
  if (rte_spinlock_trylock(&locks_[queue]) == 0) return 0;
  const uint16_t received = started_ ? rte_eth_rx_burst(id_, queue, packets, count) : uint16_t{0};
  rte_spinlock_unlock(&locks_[queue]);
  return received;
}

uint16_t Port::send(uint16_t queue, rte_mbuf** packets, uint16_t count) {
  const DriverCall call;
  if (!locked_) return started_ ? rte_eth_tx_burst(id_, queue, packets, count) : uint16_t{0};
  const Locked lock(&locks_[queue]);
  return started_ ? rte_eth_tx_burst(id_, queue, packets, count) : uint16_t{0};
}

void Port::reclaim(uint16_t queue) {
  const DriverCall call;
  const Locked lock(locked_ ? &locks_[queue] : nullptr);
  if (started_) static_cast<void>(rte_eth_tx_done_cleanup(id_, queue, 0));
}

absl::Status Port::map(MutableByteSpan region) {
  if (!uses_dma_) return absl::OkStatus();
  rte_eth_dev_info info;
  if (const int error = rte_eth_dev_info_get(id_, &info); error != 0) return failed("no information", error);
  const auto address = reinterpret_cast<uintptr_t>(region.data());
  // Several ports may map a region, but it is registered with the EAL once.
  if (rte_extmem_register(region.data(), region.size(), nullptr, 0, kPageBytes) != 0 && rte_errno != EEXIST) {
    return failed("memory cannot be registered", rte_errno);
  }
  if (rte_dev_dma_map(info.device, region.data(), address, region.size()) != 0) {
    return absl::ResourceExhaustedError(absl::StrCat("DPDK port ", name_, " cannot map ", region.size(),
                                                     " bytes for its device: ", rte_strerror(rte_errno),
                                                     "; raise the locked-memory limit (ulimit -l)"));
  }
  return absl::OkStatus();
}

void Port::unmap(MutableByteSpan region) {
  rte_eth_dev_info info;
  if (!uses_dma_ || rte_eth_dev_info_get(id_, &info) != 0) return;
  static_cast<void>(
      rte_dev_dma_unmap(info.device, region.data(), reinterpret_cast<uintptr_t>(region.data()), region.size()));
  static_cast<void>(rte_extmem_unregister(region.data(), region.size()));
}

std::string Port::describe() const {
  return absl::StrCat(name_, " (driver ", driver_, "): ", address_.to_string(), ", MAC ", dpdk::to_string(address_.mac),
                      ", MTU ", mtu_, ", ", queue_count_, queue_count_ == 1 ? " queue" : " queues", ", ",
                      gathers_ ? "gathers segments" : "takes whole frames only", ", link ", link_up() ? "up" : "down");
}

}  // namespace skua::rpc::dpdk
