// Doctor for RDMA verbs: examines library and providers, kernel modules, devices with their ports, GIDs and MTU, device
// files, and locked memory.
//
// Everything is read from the kernel's files below VerbsHost::root, so that a test can imitate any machine.
#ifndef SKUA_KVSTORE_CTL_DOCTOR_VERBS_H_
#define SKUA_KVSTORE_CTL_DOCTOR_VERBS_H_

#include <cstdint>
#include <functional>
#include <string>
#include <vector>

#include "kvstore/ctl/finding.h"

namespace skua::kv::ctl {

/// How verbs are to be used on this machine.
struct VerbsPlan {
  /// Verbs are going to be used. Then a lack of something that they need is a failure, otherwise a warning.
  bool wanted = false;
  /// The device, in the form of --verbs-device: a device, a port of a device, or an address. Empty: any active port.
  std::string device{};
};

struct VerbsHost {
  /// The directory that holds sys, proc, dev, etc, lib and usr. Empty: this machine's.
  std::string root;
  /// This program is built with libibverbs.
  bool built = false;
  /// RLIMIT_MEMLOCK; UINT64_MAX: unlimited.
  uint64_t memlock_bytes = UINT64_MAX;
  /// True if this user may read and write the file.
  std::function<bool(const std::string& path)> may_open;
};

/// This machine and this build.
VerbsHost verbs_host();

std::vector<Finding> examine_verbs(const VerbsHost& host, const VerbsPlan& plan);

}  // namespace skua::kv::ctl

#endif  // SKUA_KVSTORE_CTL_DOCTOR_VERBS_H_
