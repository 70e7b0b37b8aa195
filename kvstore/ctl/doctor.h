// Doctor: what would stop this machine from running each transport, why that matters, and the command that mends it.
#ifndef SKUA_KVSTORE_CTL_DOCTOR_H_
#define SKUA_KVSTORE_CTL_DOCTOR_H_

#include <string>
#include <vector>

#include "kvstore/ctl/doctor_dpdk.h"
#include "kvstore/ctl/doctor_verbs.h"
#include "kvstore/ctl/finding.h"

namespace skua::kv::ctl {

struct DoctorOptions {
  /// Where a node would keep its data; the disk is tried there.
  std::string data_dir = ".";
  DpdkPlan dpdk;
  VerbsPlan verbs;
};

/// Looks at the machine; takes less than a second.
std::vector<Finding> examine(const DoctorOptions& options);

}  // namespace skua::kv::ctl

#endif  // SKUA_KVSTORE_CTL_DOCTOR_H_
