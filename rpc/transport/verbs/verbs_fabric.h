// VerbsFabric: the RDMA port of one process. Each worker gets its transport from it.
//
//    main ---- VerbsFabric ---- one port of one device, one GID of it; memory registered once for all
//                  |
//                  +-- transport of worker 0: its own queue pair, rings and completion channel
//                  +-- transport of worker 1: ...
//                  +-- connected queue pairs with other processes, for all of them (rc_hub.h)
//
// Works with InfiniBand and RoCE adapters, and with Soft-RoCE (rdma_rxe) over any network interface. It needs only
// libibverbs. docs/transports.md says more.
#ifndef SKUA_RPC_TRANSPORT_VERBS_VERBS_FABRIC_H_
#define SKUA_RPC_TRANSPORT_VERBS_VERBS_FABRIC_H_

#include <cstdint>
#include <memory>
#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "rpc/transport/transport.h"

namespace skua::rpc {

struct VerbsOptions {
  /// A device ("mlx5_0"), a port of one ("mlx5_0:2"), or an IP address that a port has; empty: the first active port.
  std::string device;
  /// Index in the port's GID table; -1: the best (RoCE v2 of an IPv4 address, else IPv6, InfiniBand, RoCE v1).
  int gid_index = -1;
  /// Bytes of a packet without the network's headers: a power of two from 256 to 4096; 0: the port's MTU.
  uint32_t mtu_bytes = 0;
  /// DSCP and ECN bits of packets, for switches that have a lossless class for RDMA.
  uint8_t traffic_class = 0;
  /// Packet buffers that each worker keeps posted; as many more can be lent.
  uint32_t receive_depth = 512;
  /// The most packets that each worker may have on their way to the device; rounded down to a power of two.
  uint32_t send_depth = 256;
  /// Payloads, and pieces of payloads, up to this size are copied behind the header. Larger ones are gathered.
  uint32_t inline_max_bytes = 256;
};

/// Thread: made and destroyed on one thread; the rest from any thread.
class VerbsFabric {
 public:
  /// INVALID_ARGUMENT: bad options. FAILED_PRECONDITION: there is no such device; the message names what was looked
  /// for, what was found, and a remedy. UNAVAILABLE: what is missing may come by itself while a machine starts, for
  /// example a link; it says the same. RESOURCE_EXHAUSTED: no memory.
  static absl::StatusOr<std::unique_ptr<VerbsFabric>> start(const VerbsOptions& options);
  virtual ~VerbsFabric() = default;

  /// `self.uuid` must not be zero. The fabric must outlive the transport. RESOURCE_EXHAUSTED names the limit (locked
  /// memory) and how to raise it.
  virtual absl::StatusOr<std::unique_ptr<Transport>> make_transport(const EndpointIdentity& self) = 0;

  /// For people: "rxe0 port 1 (RoCE v2): GID 1 10.77.0.1, MTU 4096, link up".
  [[nodiscard]] virtual std::string describe() const = 0;
};

/// The RDMA ports of this machine for people, including ports that cannot be used.
[[nodiscard]] std::vector<std::string> describe_verbs_ports();

}  // namespace skua::rpc

#endif  // SKUA_RPC_TRANSPORT_VERBS_VERBS_FABRIC_H_
