// Doctor: finds what would keep this machine from running a node with each transport. Each finding says why it matters
// and which command mends it.
#ifndef SKUA_KVSTORE_CTL_DOCTOR_H_
#define SKUA_KVSTORE_CTL_DOCTOR_H_

#include <string>
#include <vector>

#include "kvstore/ctl/doctor_dpdk.h"
#include "kvstore/ctl/doctor_security.h"
#include "kvstore/ctl/doctor_verbs.h"
#include "kvstore/ctl/finding.h"

namespace skua::kv::ctl {

struct DoctorOptions {
  /// The directory where a node would keep its data. The disk is tested there; the directory need not exist.
  std::string data_dir = ".";
  SecurityPlan security;
  DpdkPlan dpdk;
  VerbsPlan verbs;
};

/// Examines this machine. Takes less than a second.
std::vector<Finding> examine(const DoctorOptions& options);

}  // namespace skua::kv::ctl

#endif  // SKUA_KVSTORE_CTL_DOCTOR_H_
