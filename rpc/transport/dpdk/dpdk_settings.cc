#include "rpc/transport/dpdk/dpdk_settings.h"

#include <vector>

#include "absl/strings/ascii.h"
#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_split.h"
#include "absl/strings/string_view.h"
#include "rpc/transport/dpdk/address.h"

namespace skua::rpc {

bool DpdkSettings::is_local() const {
  for (const absl::string_view device : absl::StrSplit(devices, ';', absl::SkipWhitespace())) {
    const absl::string_view name = absl::StripLeadingAsciiWhitespace(device);
    const bool stays =
        absl::StartsWith(name, "net_memif") || absl::StartsWith(name, "net_ring") || absl::StartsWith(name, "net_null");
    if (!stays) return false;
  }
  return true;
}

absl::StatusOr<DpdkOptions> DpdkSettings::to_options(uint16_t lanes) const {
  const std::vector<std::string> device_list = absl::StrSplit(devices, ';', absl::SkipWhitespace());
  const std::vector<std::string> address_list = absl::StrSplit(addresses, ';', absl::SkipWhitespace());
  const std::vector<std::string> gateway_list = absl::StrSplit(gateway_macs, ';');
  if (device_list.empty()) {
    return absl::InvalidArgumentError(
        "the dpdk transport needs --dpdk-devices, for example net_memif0,role=server,socket=/tmp/skua.sock or "
        "0000:3b:00.0");
  }
  if (address_list.size() != device_list.size()) {
    return absl::InvalidArgumentError(
        absl::StrCat("--dpdk-devices names ", device_list.size(), device_list.size() == 1 ? " device" : " devices",
                     ", --dpdk-addresses ", address_list.size(), address_list.size() == 1 ? " address" : " addresses",
                     ": give one like 10.77.0.1/24 for each, with ; between them"));
  }
  if (udp_port == 0 || uint32_t{udp_port} + lanes > UINT16_MAX) {
    return absl::InvalidArgumentError(absl::StrCat("--dpdk-udp-port must be 1 to ", UINT16_MAX - lanes,
                                                   ", so that each worker has a port from there on, not ", udp_port));
  }
  if (mtu != 0 && (mtu < kDpdkMtuMin || mtu > kDpdkMtuMax)) {
    return absl::InvalidArgumentError(absl::StrCat("--dpdk-mtu must be ", kDpdkMtuMin, " to ", kDpdkMtuMax,
                                                   ", or 0 for the most that the device takes, not ", mtu));
  }
  DpdkOptions out;
  if (const uint32_t least = 2u * out.rx_descriptors + out.tx_descriptors; mbufs < least) {
    return absl::InvalidArgumentError(absl::StrCat("--dpdk-mbufs must be at least ", least, ", which fill the rings"));
  }
  out.lanes = lanes;
  out.udp_port = udp_port;
  out.queues = queues;
  out.mtu = mtu;
  out.mbuf_count = mbufs;
  out.huge_pages = huge_pages;
  out.eal_arguments = absl::StrSplit(eal_arguments, ' ', absl::SkipWhitespace());
  for (size_t i = 0; i < device_list.size(); ++i) {
    absl::StatusOr<dpdk::InterfaceAddress> address = dpdk::InterfaceAddress::parse(address_list[i]);
    if (!address.ok())
      return absl::InvalidArgumentError(absl::StrCat("--dpdk-addresses: ", address.status().message()));
    if (address_list[i].find('/') == std::string::npos) {
      return absl::InvalidArgumentError(absl::StrCat("--dpdk-addresses: ", address_list[i],
                                                     " lacks its network: write it as ", address_list[i], "/24"));
    }
    DpdkPortOptions port{device_list[i], address_list[i], i < gateway_list.size() ? gateway_list[i] : ""};
    if (!port.gateway_mac.empty()) {
      absl::StatusOr<dpdk::MacAddress> mac = dpdk::parse_mac(port.gateway_mac);
      if (!mac.ok()) return absl::InvalidArgumentError(absl::StrCat("--dpdk-gateway-macs: ", mac.status().message()));
    }
    out.ports.push_back(std::move(port));
  }
  return out;
}

}  // namespace skua::rpc
