#include "rpc/transport/dpdk/dpdk_fabric.h"

#include <rte_cycles.h>
#include <rte_errno.h>
#include <rte_mbuf.h>

#include <algorithm>
#include <cstring>
#include <utility>

#include "absl/strings/str_cat.h"
#include "rpc/transport/dpdk/dpdk_transport.h"
#include "rpc/transport/dpdk/eal.h"
#include "rpc/transport/dpdk/frame.h"
#include "rpc/transport/dpdk/port.h"

namespace skua::rpc {
namespace dpdk {
namespace {

constexpr unsigned kPoolCache = 256;
/// Mbufs without data room, to attach body spans to.
constexpr unsigned kAttachedCount = 8191;
constexpr uint16_t kRawPort = 9;  // the "discard" port
constexpr DurationNs kLinkWait = 10 * kSecond;

class Fabric final : public DpdkFabric {
 public:
  static absl::StatusOr<std::unique_ptr<DpdkFabric>> start(const DpdkOptions& options);
  ~Fabric() override;

  absl::StatusOr<std::unique_ptr<Transport>> make_transport(uint16_t lane, const EndpointIdentity& self,
                                                            const Transport* beside) override;
  [[nodiscard]] std::vector<std::string> describe() const override;
  void reflect_raw(const std::function<bool()>& until) override;
  void ping_raw(uint32_t outstanding, uint32_t frame_bytes, const std::function<bool()>& until,
                const std::function<DurationNs(DurationNs)>& round_trip) override;
  void answer_raw(std::span<const std::string> first, const std::function<bool()>& until,
                  const std::function<size_t(MutableByteSpan frame, size_t bytes)>& answer) override;

 private:
  explicit Fabric(DpdkOptions options) : options_(std::move(options)) {}
  absl::Status open();
  absl::Status make_pools(size_t frame_bytes);

  const DpdkOptions options_;
  // Destruction order: the ports, the pools, then the EAL.
  std::unique_ptr<Eal> eal_;
  SharedPools pools_;
  std::vector<std::unique_ptr<Port>> ports_;
};

absl::Status check(const DpdkOptions& options) {
  if (options.ports.empty()) {
    return absl::InvalidArgumentError(
        "no DPDK device: name one, for example \"0000:3b:00.0\" or \"net_memif0,role=server,socket=/tmp/skua.sock\"");
  }
  if (options.ports.size() > EndpointAddress::kInterfacesMax) {
    return absl::InvalidArgumentError("a process uses at most 16 DPDK ports");
  }
  if (options.lanes == 0 || options.lanes > 256 || options.udp_port == 0 ||
      uint32_t{options.udp_port} + options.lanes > UINT16_MAX) {
    return absl::InvalidArgumentError("1 to 256 lanes, on UDP ports 1 to 65535");
  }
  if (options.mtu != 0 && (options.mtu < kDpdkMtuMin || options.mtu > kDpdkMtuMax)) {
    return absl::InvalidArgumentError(
        absl::StrCat("--dpdk-mtu ", options.mtu, " is neither 0 nor ", kDpdkMtuMin, " to ", kDpdkMtuMax));
  }
  const uint32_t needed = 2u * options.rx_descriptors + options.tx_descriptors;
  if (options.mbuf_count < needed) {
    return absl::InvalidArgumentError(
        absl::StrCat("--dpdk-mbufs ", options.mbuf_count, " is too small for the rings: at least ", needed));
  }
  return absl::OkStatus();
}

absl::StatusOr<std::unique_ptr<DpdkFabric>> Fabric::start(const DpdkOptions& options) {
  if (absl::Status status = check(options); !status.ok()) return status;
  std::unique_ptr<Fabric> fabric(new Fabric(options));
  absl::StatusOr<std::unique_ptr<Eal>> eal = Eal::start(options);
  if (!eal.ok()) return eal.status();
  fabric->eal_ = *std::move(eal);
  if (absl::Status status = fabric->open(); !status.ok()) {
    const std::string said = fabric->eal_->take_log();
    return said.empty() ? status : absl::Status(status.code(), absl::StrCat(status.message(), " (", said, ")"));
  }
  return std::unique_ptr<DpdkFabric>(std::move(fabric));
}

absl::Status Fabric::open() {
  size_t frame_bytes = 0;
  for (const DpdkPortOptions& options : options_.ports) {
    absl::StatusOr<std::unique_ptr<Port>> port = Port::open(options, options_);
    if (!port.ok()) return port.status();
    frame_bytes = std::max<size_t>(frame_bytes, (*port)->frame_bytes());
    ports_.push_back(*std::move(port));
  }
  if (absl::Status status = make_pools(frame_bytes); !status.ok()) return status;
  for (auto& port : ports_) {
    if (absl::Status status = port->start(pools_.frames, options_.start_timeout_ns); !status.ok()) return status;
  }
  return absl::OkStatus();
}

absl::Status Fabric::make_pools(size_t frame_bytes) {
  // A whole frame fits one mbuf, so a received frame can be lent as one span.
  const size_t room = RTE_PKTMBUF_HEADROOM + std::max<size_t>(frame_bytes + kFrameSlack, 2048);
  pools_.frames = rte_pktmbuf_pool_create("skua-frames", options_.mbuf_count, kPoolCache, 0,
                                          static_cast<uint16_t>(room), SOCKET_ID_ANY);
  pools_.attached = rte_pktmbuf_pool_create("skua-attached", kAttachedCount, kPoolCache, 0, 0, SOCKET_ID_ANY);
  if (pools_.frames != nullptr && pools_.attached != nullptr) return absl::OkStatus();
  return absl::ResourceExhaustedError(absl::StrCat(
      "no memory for ", options_.mbuf_count, " DPDK packet buffers of ", room, " bytes (", rte_strerror(rte_errno),
      "): reserve more huge pages (deploy/host-setup), lower --dpdk-mbufs, or do without them (--no-dpdk-huge-pages)"));
}

Fabric::~Fabric() {
  ports_.clear();
  rte_mempool_free(pools_.frames);
  rte_mempool_free(pools_.attached);
}

absl::StatusOr<std::unique_ptr<Transport>> Fabric::make_transport(uint16_t lane, const EndpointIdentity& self,
                                                                  const Transport* beside) {
  if (lane >= options_.lanes) {
    return absl::InvalidArgumentError(absl::StrCat("lane ", lane, " of ", options_.lanes));
  }
  if (self.uuid.is_zero()) return absl::InvalidArgumentError("an endpoint needs a uuid");
  std::vector<Port*> ports;
  ports.reserve(ports_.size());
  for (auto& port : ports_) ports.push_back(port.get());
  return std::make_unique<DpdkTransport>(ports, pools_, options_, lane, self,
                                         static_cast<const DpdkTransport*>(beside));
}

std::vector<std::string> Fabric::describe() const {
  std::vector<std::string> out;
  out.reserve(ports_.size());
  for (const auto& port : ports_) out.push_back(port->describe());
  return out;
}

// --- Raw mode: bursts in, bursts out, nothing else -------------------------------------------------------------------

void Fabric::reflect_raw(const std::function<bool()>& until) {
  adopt_thread();
  std::array<rte_mbuf*, kBurstMax> burst;
  for (uint64_t turn = 0; turn % 1024 != 0 || !until(); ++turn) {
    for (auto& port : ports_) {
      const uint16_t count = port->receive(0, burst.data(), kBurstMax);
      for (uint16_t i = 0; i < count; ++i) {
        auto* mac = rte_pktmbuf_mtod(burst.at(i), MacAddress*);
        std::swap(mac[0], mac[1]);
      }
      const uint16_t sent = count == 0 ? uint16_t{0} : port->send(0, burst.data(), count);
      rte_pktmbuf_free_bulk(burst.data() + sent, static_cast<unsigned>(count - sent));
    }
  }
}

void Fabric::ping_raw(uint32_t outstanding, uint32_t frame_bytes, const std::function<bool()>& until,
                      const std::function<DurationNs(DurationNs)>& round_trip) {
  adopt_thread();
  Port& port = *ports_.front();
  for (DurationNs waited = 0; !port.link_up() && waited < kLinkWait; waited += kMillisecond) rte_delay_us_sleep(1000);
  const InterfaceAddress& self = port.address();
  const FrameTemplate headers(self, kRawPort, self, kRawPort, self.mac);
  const size_t bytes = std::max<size_t>(frame_bytes, headers.size() + sizeof(uint64_t));
  const double ns_per_cycle = 1e9 / static_cast<double>(rte_get_tsc_hz());
  std::array<rte_mbuf*, kBurstMax> burst;
  uint32_t due = outstanding;
  uint64_t next_send_cycles = 0;
  for (uint64_t turn = 0; turn % 1024 != 0 || !until(); ++turn) {
    const bool pauses = next_send_cycles != 0 && rte_rdtsc() < next_send_cycles;
    const auto wanted = static_cast<uint16_t>(pauses ? 0 : std::min<size_t>(due, kBurstMax));
    if (wanted > 0 && rte_pktmbuf_alloc_bulk(pools_.frames, burst.data(), wanted) == 0) {
      const uint64_t now = rte_rdtsc();
      for (uint16_t i = 0; i < wanted; ++i) {
        auto* at = reinterpret_cast<std::byte*>(rte_pktmbuf_append(burst.at(i), static_cast<uint16_t>(bytes)));
        headers.write(at, bytes - headers.size());
        store_le(at + headers.size(), now);
      }
      const uint16_t sent = port.send(0, burst.data(), wanted);
      rte_pktmbuf_free_bulk(burst.data() + sent, static_cast<unsigned>(wanted - sent));
      due -= sent;
    }
    const uint16_t count = port.receive(0, burst.data(), kBurstMax);
    if (count == 0) continue;
    const uint64_t now = rte_rdtsc();
    for (uint16_t i = 0; i < count; ++i) {
      const auto sent_at = load_le<uint64_t>(rte_pktmbuf_mtod_offset(burst.at(i), const std::byte*, headers.size()));
      const auto pause_ns = round_trip(static_cast<DurationNs>(static_cast<double>(now - sent_at) * ns_per_cycle));
      if (pause_ns > 0) next_send_cycles = now + static_cast<uint64_t>(static_cast<double>(pause_ns) / ns_per_cycle);
    }
    due += count;
    rte_pktmbuf_free_bulk(burst.data(), count);
  }
}

void Fabric::answer_raw(std::span<const std::string> first, const std::function<bool()>& until,
                        const std::function<size_t(MutableByteSpan frame, size_t bytes)>& answer) {
  adopt_thread();
  Port& port = *ports_.front();
  for (const std::string& frame : first) {
    rte_mbuf* packet = rte_pktmbuf_alloc(pools_.frames);
    if (packet == nullptr) break;
    std::memcpy(rte_pktmbuf_append(packet, static_cast<uint16_t>(frame.size())), frame.data(), frame.size());
    if (port.send(0, &packet, 1) == 0) rte_pktmbuf_free(packet);
  }
  std::array<rte_mbuf*, kBurstMax> burst;
  for (uint64_t turn = 0; turn % 1024 != 0 || !until(); ++turn) {
    const uint16_t count = port.receive(0, burst.data(), kBurstMax);
    size_t sending = 0;
    size_t ended = count;  // packets from this index on are not sent
    for (uint16_t i = 0; i < count; ++i) rte_prefetch0(rte_pktmbuf_mtod(burst.at(i), void*));
    while (sending < ended) {
      rte_mbuf* packet = burst.at(sending);
      const MutableByteSpan room(rte_pktmbuf_mtod(packet, std::byte*),
                                 size_t{packet->data_len} + rte_pktmbuf_tailroom(packet));
      const size_t bytes = packet->nb_segs > 1 ? 0 : answer(room, packet->data_len);
      if (bytes == 0) {
        std::swap(burst.at(sending), burst.at(--ended));
        continue;
      }
      packet->data_len = static_cast<uint16_t>(bytes);
      packet->pkt_len = static_cast<uint32_t>(bytes);
      ++sending;
    }
    const uint16_t sent = sending == 0 ? uint16_t{0} : port.send(0, burst.data(), static_cast<uint16_t>(sending));
    if (sent < count) rte_pktmbuf_free_bulk(burst.data() + sent, static_cast<unsigned>(count - sent));
  }
}

}  // namespace
}  // namespace dpdk

absl::StatusOr<std::unique_ptr<DpdkFabric>> DpdkFabric::start(const DpdkOptions& options) {
  return dpdk::Fabric::start(options);
}

}  // namespace skua::rpc
