// DpdkSettings: an operator's DPDK settings as text, and how every program declares them.
//
// Lists are separated by ';', because vdev arguments contain commas. The n-th address and gateway belong to the n-th
// device.
#ifndef SKUA_RPC_TRANSPORT_DPDK_DPDK_SETTINGS_H_
#define SKUA_RPC_TRANSPORT_DPDK_DPDK_SETTINGS_H_

#include <cstdint>
#include <string>

#include "absl/status/statusor.h"
#include "rpc/transport/dpdk/dpdk_fabric.h"

namespace skua::rpc {

struct DpdkSettings {
  std::string devices;
  std::string addresses;
  std::string gateway_macs;
  std::string eal_arguments;
  uint16_t udp_port = DpdkOptions().udp_port;
  uint16_t queues = 0;
  uint16_t mtu = 0;
  uint32_t mbufs = DpdkOptions().mbuf_count;
  bool huge_pages = true;

  /// INVALID_ARGUMENT names the setting and says what is expected.
  [[nodiscard]] absl::StatusOr<DpdkOptions> to_options(uint16_t lanes) const;
  /// Packets come from programs of this machine only: all devices are memifs (shared memory with the process at the
  /// other end of a socket file), rings of this process (net_ring) or net_null. A switch at the other end of a memif
  /// may bring packets from elsewhere; who runs one decides that. All other devices count as a network.
  [[nodiscard]] bool is_local() const;
};

/// Calls declare(name, pointer to the value, help) for each setting.
template <typename Declare>
void declare_dpdk_settings(DpdkSettings& settings, Declare&& declare) {
  declare("dpdk-devices", &settings.devices,
          "DPDK devices, separated by ';': PCI addresses (0000:3b:00.0) or vdevs with their arguments "
          "(net_memif0,role=server,socket=/run/skua.sock).");
  declare("dpdk-addresses", &settings.addresses,
          "The IP address and network of each device, as 10.77.0.1/24, separated by ';'.");
  declare("dpdk-gateway-macs", &settings.gateway_macs,
          "The router's MAC for each device, separated by ';'; needed for peers outside its network.");
  declare("dpdk-udp-port", &settings.udp_port,
          "UDP port of worker 0; worker i has the i-th after it. Clients may leave it at 0, which draws one.");
  declare("dpdk-queues", &settings.queues,
          "Queue pairs of each device; 0: one per worker on hardware, one on virtual devices.");
  declare("dpdk-mtu", &settings.mtu, "Bytes of an IP packet, 576 to 9216; 0: the most that the device takes.");
  declare("dpdk-mbufs", &settings.mbufs, "Packet buffers of the process.");
  declare("dpdk-huge-pages", &settings.huge_pages,
          "Packet buffers in huge pages; off: plain memory, slower, nothing to reserve.");
  declare("dpdk-eal", &settings.eal_arguments, "More arguments for DPDK's EAL, separated by spaces.");
}

}  // namespace skua::rpc

#endif  // SKUA_RPC_TRANSPORT_DPDK_DPDK_SETTINGS_H_
