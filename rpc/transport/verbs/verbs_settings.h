// VerbsSettings: an operator's RDMA settings as text, and how every program declares them.
#ifndef SKUA_RPC_TRANSPORT_VERBS_VERBS_SETTINGS_H_
#define SKUA_RPC_TRANSPORT_VERBS_VERBS_SETTINGS_H_

#include <cstdint>
#include <string>

#include "absl/status/statusor.h"
#include "rpc/transport/verbs/verbs_fabric.h"

namespace skua::rpc {

struct VerbsSettings {
  std::string device;
  int gid_index = VerbsOptions().gid_index;
  uint32_t mtu = 0;
  uint16_t traffic_class = 0;
  uint32_t receive_packets = VerbsOptions().receive_depth;
  uint32_t send_packets = VerbsOptions().send_depth;

  /// INVALID_ARGUMENT names the setting and says what is expected.
  [[nodiscard]] absl::StatusOr<VerbsOptions> to_options() const;
};

/// Calls declare(name, pointer to the value, help) for each setting.
template <typename Declare>
void declare_verbs_settings(VerbsSettings& settings, Declare&& declare) {
  declare("verbs-device", &settings.device,
          "RDMA device: a name (mlx5_0, rxe0), a port of it (mlx5_0:2), or an IP address that it has; empty: the first "
          "active "
          "port.");
  declare("verbs-gid-index", &settings.gid_index,
          "Entry of the port's GID table; -1: RoCE v2 of its IPv4 address, else the best there is.");
  declare("verbs-mtu", &settings.mtu, "Bytes of an RDMA packet: 256, 512, 1024, 2048 or 4096; 0: the port's MTU.");
  declare("verbs-traffic-class", &settings.traffic_class,
          "DSCP and ECN bits (0 to 255) of packets, as the switches want them for RDMA.");
  declare("verbs-receive-packets", &settings.receive_packets,
          "Packet buffers that each worker keeps posted; as many more can be lent.");
  declare("verbs-send-packets", &settings.send_packets,
          "Packets that each worker may have under way to the device; rounded down to a power of two.");
}

}  // namespace skua::rpc

#endif  // SKUA_RPC_TRANSPORT_VERBS_VERBS_SETTINGS_H_
