// Doctor for DPDK: library and drivers, memory, privileges, network cards, the link and MTU of interfaces.
//
// Everything is read from files of the kernel's below `root`, so that a test can show it any machine.
#ifndef SKUA_KVSTORE_CTL_DOCTOR_DPDK_H_
#define SKUA_KVSTORE_CTL_DOCTOR_DPDK_H_

#include <cstdint>
#include <string>
#include <vector>

#include "kvstore/ctl/finding.h"

namespace skua::kv::ctl {

/// What DPDK is to be used for here.
struct DpdkPlan {
  /// DPDK is going to be used: what it cannot do without is then a failure, else a warning.
  bool wanted = false;
  /// As --dpdk-devices takes them. Interfaces that vdevs name (iface=eth1) are looked at as well.
  std::string devices{};
  /// More interfaces of the kernel's to look at.
  std::vector<std::string> interfaces{};
  bool huge_pages = true;
};

struct DpdkHost {
  /// In front of /sys, /proc and /usr; empty: this machine.
  std::string root;
  /// Of the library that this program is built with, "22.11.11"; empty: without DPDK.
  std::string dpdk_version;
  /// RLIMIT_MEMLOCK; UINT64_MAX: unlimited.
  uint64_t memlock_bytes = UINT64_MAX;
};

/// This machine and this build.
DpdkHost dpdk_host();

std::vector<Finding> examine_dpdk(const DpdkHost& host, const DpdkPlan& plan);

}  // namespace skua::kv::ctl

#endif  // SKUA_KVSTORE_CTL_DOCTOR_DPDK_H_
