// Doctor for RDMA verbs: library and providers, kernel modules, devices and their ports, GIDs and MTU, device files, locked memory.
//
// Everything is read from files of the kernel's below `root`, so that a test can show it any machine.
#ifndef SKUA_KVSTORE_CTL_DOCTOR_VERBS_H_
#define SKUA_KVSTORE_CTL_DOCTOR_VERBS_H_

#include <cstdint>
#include <functional>
#include <string>
#include <vector>

#include "kvstore/ctl/finding.h"

namespace skua::kv::ctl {

/// What verbs are to be used for here.
struct VerbsPlan {
  /// They are going to be used: what they cannot do without is then a failure, else a warning.
  bool wanted = false;
  /// As --verbs-device takes it: a device, a port of one, or an address; empty: whichever is active.
  std::string device{};
};

struct VerbsHost {
  /// In front of /sys, /proc, /dev, /etc, /lib and /usr; empty: this machine.
  std::string root;
  /// This program is built with libibverbs.
  bool built = false;
  /// RLIMIT_MEMLOCK; UINT64_MAX: unlimited.
  uint64_t memlock_bytes = UINT64_MAX;
  /// This user may read and write the file.
  std::function<bool(const std::string& path)> may_open;
};

/// This machine and this build.
VerbsHost verbs_host();

std::vector<Finding> examine_verbs(const VerbsHost& host, const VerbsPlan& plan);

}  // namespace skua::kv::ctl

#endif  // SKUA_KVSTORE_CTL_DOCTOR_VERBS_H_
