// DpdkFabric: DPDK in one process (the EAL and the ports opened on it). Each worker gets its transport from it.
//
//    main ---- DpdkFabric ---- EAL: huge pages or plain memory, no other process needed
//                 |
//                 +-- Port "net_memif0"    10.77.0.1/24  --+     lane 0: queues, inbox --- transport of worker 0
//                 +-- Port "0000:3b:00.0"  10.1.0.7/16   --+---  lane 1: queues, inbox --- transport of worker 1
//
// Any poll-mode driver works. A lane is the part of every port that one worker uses: its own receive and transmit queue
// if the device has enough queues, else a shared queue. The UDP port of a datagram (udp_port + lane) identifies its
// worker. The device is asked to sort datagrams by it into queues (rte_flow). If a datagram still arrives on another
// worker's queue, software hands it over through the inbox of its worker. So steering affects only the speed.
// docs/transports.md says more.
//
// A process can start the EAL only once: make the fabric in main and destroy it after every transport.
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
  /// MAC of the router for peers outside that network; empty: no router.
  std::string gateway_mac;
};

/// The least and the most that DpdkOptions::mtu may say.
inline constexpr uint16_t kDpdkMtuMin = 576;
inline constexpr uint16_t kDpdkMtuMax = 9216;

struct DpdkOptions {
  std::vector<DpdkPortOptions> ports;
  /// Worker n receives on udp_port + n.
  uint16_t udp_port = 18'600;
  /// The number of workers; each may have one transport.
  uint16_t lanes = 1;
  /// Queue pairs of each port. 0: one per lane on hardware, one on virtual devices (which cannot steer).
  uint16_t queues = 0;
  /// Bytes of an IP packet, kDpdkMtuMin to kDpdkMtuMax. 0: as many as the device takes, at most 9,000.
  uint16_t mtu = 0;
  /// Packet buffers of the process, for receive rings, lent packets and packets being sent.
  uint32_t mbuf_count = 16'383;
  uint16_t rx_descriptors = 1024;
  uint16_t tx_descriptors = 1024;
  /// Payloads, and pieces of payloads, up to this size are copied behind the headers. Larger ones are gathered.
  uint32_t inline_max_bytes = 256;
  /// False: use plain 4 KiB pages. That needs no privileges and no reservation, but is slower.
  bool huge_pages = true;
  /// Memory for packet buffers if huge_pages is false.
  uint32_t plain_memory_mib = 512;
  /// More arguments for the EAL, passed unchanged.
  std::vector<std::string> eal_arguments;
  /// How long to wait for a device that cannot start yet, for example a memif client whose server is not there.
  DurationNs start_timeout_ns = 900 * kMillisecond;
};

/// Thread: made and destroyed on one thread. make_transport(): any thread, one call at a time.
class DpdkFabric {
 public:
  /// INVALID_ARGUMENT: bad options. FAILED_PRECONDITION: the host lacks something; the message has the EAL's own words
  /// and a remedy. RESOURCE_EXHAUSTED: no memory for packet buffers. UNAVAILABLE: a device did not start within
  /// start_timeout_ns.
  static absl::StatusOr<std::unique_ptr<DpdkFabric>> start(const DpdkOptions& options);
  virtual ~DpdkFabric() = default;

  /// Makes the transport of worker `lane`, which must not have another one alive. `self.uuid` must not be zero. The
  /// fabric must outlive the transport. `beside`: another transport of this fabric that the same thread polls and
  /// destroys; null: none. If the two share queues, they also share bursts: frames sent by one may wait until the other
  /// is polled.
  virtual absl::StatusOr<std::unique_ptr<Transport>> make_transport(uint16_t lane, const EndpointIdentity& self,
                                                                    const Transport* beside) = 0;
  absl::StatusOr<std::unique_ptr<Transport>> make_transport(uint16_t lane, const EndpointIdentity& self) {
    return make_transport(lane, self, nullptr);
  }

  /// One line per port for people: "net_memif0 (driver net_memif): 10.77.0.1/24, MAC ..., MTU 1500, 1 queue, ..., link
  /// up".
  [[nodiscard]] virtual std::vector<std::string> describe() const = 0;

  /// Sends each frame back to its sender with source and destination MAC swapped, as fast as the device can, until
  /// `until()` returns true. This measures the lower bound that skua-perf's `raw` mode reports. No transport may be
  /// alive. Thread: the caller's.
  virtual void reflect_raw(const std::function<bool()>& until) = 0;
  /// The other end of reflect_raw(): keeps `outstanding` frames of `frame_bytes` in flight on the first port, and calls
  /// round_trip(ns) for each frame that comes back. round_trip() returns for how long no frame is sent.
  virtual void ping_raw(uint32_t outstanding, uint32_t frame_bytes, const std::function<bool()>& until,
                        const std::function<DurationNs(DurationNs)>& round_trip) = 0;
  /// For load generators that imitate clients at little cost. Sends the frames `first` by the first port. Then calls
  /// `answer(frame, bytes)` for each received frame. answer() may write another frame over it and return that frame's
  /// length; 0: nothing is sent. `frame` spans all room of the buffer.
  virtual void answer_raw(std::span<const std::string> first, const std::function<bool()>& until,
                          const std::function<size_t(MutableByteSpan frame, size_t bytes)>& answer) = 0;
};

}  // namespace skua::rpc

#endif  // SKUA_RPC_TRANSPORT_DPDK_DPDK_FABRIC_H_
