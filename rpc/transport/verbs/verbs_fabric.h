// VerbsFabric: a process's RDMA port, from which each worker gets its transport.
//
//    main ---- VerbsFabric ---- one port of one device, one GID of it; memory registered once for all
//                  |
//                  +-- transport of worker 0: its own queue pair, rings and completion channel
//                  +-- transport of worker 1: ...
//                  +-- connected queue pairs with other processes, for all of them (rc_hub.h)
//
// InfiniBand and RoCE adapters, and Soft-RoCE (rdma_rxe) over any network interface, through libibverbs alone.
// docs/transports.md says more.
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
  /// A device ("mlx5_0"), a port of one ("mlx5_0:2"), or an IP address that one has; empty: the first active port.
  std::string device;
  /// Index in the port's GID table; -1: the best (RoCE v2 of an IPv4 address, else IPv6, InfiniBand, RoCE v1).
  int gid_index = -1;
  /// Bytes of a packet behind the network's headers: 256 to 4096, a power of two; 0: the port's MTU.
  uint32_t mtu_bytes = 0;
  /// DSCP and ECN bits of packets, as switches with a lossless class for RDMA want them.
  uint8_t traffic_class = 0;
  /// Packet buffers that each worker keeps posted; as many more can be lent.
  uint32_t receive_depth = 512;
  /// Packets that each worker may have under way to the device; rounded down to a power of two.
  uint32_t send_depth = 256;
  /// Payloads (and pieces of them) up to this size are copied behind the header rather than gathered.
  uint32_t inline_max_bytes = 256;
};

/// Thread: make and destroy on one thread; the rest from any.
class VerbsFabric {
 public:
  /// INVALID_ARGUMENT: options; FAILED_PRECONDITION: what was looked for, what was found, and the way out.
  static absl::StatusOr<std::unique_ptr<VerbsFabric>> start(const VerbsOptions& options);
  virtual ~VerbsFabric() = default;

  /// `self.uuid` must not be zero. The fabric outlives it. RESOURCE_EXHAUSTED names the limit (locked memory) and how to raise it.
  virtual absl::StatusOr<std::unique_ptr<Transport>> make_transport(const EndpointIdentity& self) = 0;

  /// For people: "rxe0 port 1 (RoCE v2): GID 1 10.77.0.1, MTU 4096, link up".
  [[nodiscard]] virtual std::string describe() const = 0;
};

/// The RDMA ports of this machine, for people, whether they can be used or not.
[[nodiscard]] std::vector<std::string> describe_verbs_ports();

}  // namespace skua::rpc

#endif  // SKUA_RPC_TRANSPORT_VERBS_VERBS_FABRIC_H_
