// Doctor for DPDK: examines library and drivers, memory, privileges, network cards, and the link and MTU of interfaces.
//
// Everything is read from the kernel's files below DpdkHost::root, so that a test can imitate any machine.
#ifndef SKUA_KVSTORE_CTL_DOCTOR_DPDK_H_
#define SKUA_KVSTORE_CTL_DOCTOR_DPDK_H_

#include <cstdint>
#include <string>
#include <vector>

#include "kvstore/ctl/finding.h"

namespace skua::kv::ctl {

/// How DPDK is to be used on this machine.
struct DpdkPlan {
  /// DPDK is going to be used. Then a lack of something that DPDK needs is a failure, otherwise a warning.
  bool wanted = false;
  /// The devices, in the form of --dpdk-devices. Interfaces that vdevs name (iface=eth1) are examined, too.
  std::string devices{};
  /// Further network interfaces to examine.
  std::vector<std::string> interfaces{};
  bool huge_pages = true;
};

struct DpdkHost {
  /// The directory that holds sys, proc and usr. Empty: this machine's.
  std::string root;
  /// The version of the DPDK library that this program is built with: "22.11.11". Empty: built without DPDK.
  std::string dpdk_version;
  /// RLIMIT_MEMLOCK; UINT64_MAX: unlimited.
  uint64_t memlock_bytes = UINT64_MAX;
};

/// This machine and this build.
DpdkHost dpdk_host();

std::vector<Finding> examine_dpdk(const DpdkHost& host, const DpdkPlan& plan);

}  // namespace skua::kv::ctl

#endif  // SKUA_KVSTORE_CTL_DOCTOR_DPDK_H_
