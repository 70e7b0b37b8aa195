// DpdkFabric: a process's DPDK (the EAL and the ports opened on it), from which each worker gets its transport.
//
//    main ---- DpdkFabric ---- EAL: huge pages or plain memory, no other process needed
//                 |
//                 +-- Port "net_memif0"    10.77.0.1/24  --+     lane 0: queues, inbox --- transport of worker 0
//                 +-- Port "0000:3b:00.0"  10.1.0.7/16   --+---  lane 1: queues, inbox --- transport of worker 1
//
// Any poll-mode driver will do. A lane is what one worker has of every port: its own receive and transmit queue where the device
// has enough of them, else a share. The UDP port of a datagram (udp_port + lane) names its worker. The device is asked to steer by
// it (rte_flow); whatever still arrives on another worker's queue is handed over through that worker's inbox, so that steering is
// a matter of speed alone. docs/transports.md says more.
//
// EAL can be started once in a process: make the fabric in main, destroy it after every transport.
#ifndef SKUA_RPC_TRANSPORT_DPDK_DPDK_FABRIC_H_
#define SKUA_RPC_TRANSPORT_DPDK_DPDK_FABRIC_H_

#include <cstdint>
#include <functional>
#include <memory>
#include <span>
#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "rpc/base/bytes.h"
#include "rpc/base/clock.h"
#include "rpc/transport/transport.h"

namespace skua::rpc {

struct DpdkPortOptions {
  /// A vdev with its arguments ("net_memif0,role=server,socket=/run/skua.sock") or a PCI address ("0000:3b:00.0").
  std::string device;
  /// The port's address and network: "10.77.0.1/24" or "fd00::1/64".
  std::string address;
  /// MAC of the router for peers outside that network; empty: there is none.
  std::string gateway_mac;
};

struct DpdkOptions {
  std::vector<DpdkPortOptions> ports;
  /// Worker n receives on udp_port + n.
  uint16_t udp_port = 18'600;
  /// Workers that will ask for a transport.
  uint16_t lanes = 1;
  /// Queue pairs of each port; 0: one per lane on hardware, one on virtual devices (which have no steering).
  uint16_t queues = 0;
  /// Bytes of IP packet; 0: the most that the device takes, up to 9,000.
  uint16_t mtu = 0;
  /// Packet buffers per process, for receive rings, lent packets and packets being sent.
  uint32_t mbuf_count = 16'383;
  uint16_t rx_descriptors = 1024;
  uint16_t tx_descriptors = 1024;
  /// Payloads (and pieces of them) up to this size are copied behind the headers rather than gathered.
  uint32_t inline_max_bytes = 256;
  /// False: plain 4 KiB pages, no privileges and nothing to reserve; slower.
  bool huge_pages = true;
  /// Memory for packet buffers without huge pages.
  uint32_t plain_memory_mib = 512;
  /// More arguments for the EAL, as it takes them.
  std::vector<std::string> eal_arguments;
  /// How long to wait for a device that cannot be started yet (a memif client whose server is not there).
  DurationNs start_timeout_ns = 900 * kMillisecond;
};

/// Thread: make and destroy on one thread; make_transport() from any, one at a time.
class DpdkFabric {
 public:
  /// INVALID_ARGUMENT: options; FAILED_PRECONDITION: what the host lacks (with EAL's own words, and the way out); UNAVAILABLE: a
  /// device that did not start within start_timeout_ns.
  static absl::StatusOr<std::unique_ptr<DpdkFabric>> start(const DpdkOptions& options);
  virtual ~DpdkFabric() = default;

  /// The transport of worker number `lane`, which must not have one alive. `self.uuid` must not be zero. The fabric outlives it.
  /// `beside`: another one of this fabric, which the same thread polls and destroys. Where the two share queues they share bursts as
  /// well; what one sends may then wait until the other is polled. Null: a thread of its own.
  virtual absl::StatusOr<std::unique_ptr<Transport>> make_transport(uint16_t lane, const EndpointIdentity& self,
                                                                    const Transport* beside) = 0;
  absl::StatusOr<std::unique_ptr<Transport>> make_transport(uint16_t lane, const EndpointIdentity& self) {
    return make_transport(lane, self, nullptr);
  }

  /// For people: "net_memif0 (driver net_memif): 10.77.0.1/24, MTU 1500, 1 queue, link up".
  [[nodiscard]] virtual std::vector<std::string> describe() const = 0;

  /// Sends each frame back where it came from, source and destination swapped, as fast as the device can, until `until()` says
  /// so: the floor that skua-perf's `raw` mode measures. No transport may be alive. Thread: the caller's.
  virtual void reflect_raw(const std::function<bool()>& until) = 0;
  /// The other end of reflect_raw(): keeps `outstanding` frames of `frame_bytes` in flight on the first port and calls
  /// round_trip(ns) for each that comes back. No frame is sent for as long afterwards as round_trip() says.
  virtual void ping_raw(uint32_t outstanding, uint32_t frame_bytes, const std::function<bool()>& until,
                        const std::function<DurationNs(DurationNs)>& round_trip) = 0;
  /// For generators of load, which stand for clients that cost next to nothing: sends the frames `first` by the first port, then
  /// gives each frame that comes to `answer(frame, bytes)`, which may write another one over it and says how long that is; 0: none
  /// is sent. `frame` has all the room there is.
  virtual void answer_raw(std::span<const std::string> first, const std::function<bool()>& until,
                          const std::function<size_t(MutableByteSpan frame, size_t bytes)>& answer) = 0;
};

}  // namespace skua::rpc

#endif  // SKUA_RPC_TRANSPORT_DPDK_DPDK_FABRIC_H_
