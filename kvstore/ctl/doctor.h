// Doctor: what would stop this machine from running each transport, and the command that mends it.
#ifndef SKUA_KVSTORE_CTL_DOCTOR_H_
#define SKUA_KVSTORE_CTL_DOCTOR_H_

#include <string>
#include <vector>

namespace skua::kv::ctl {

enum class Verdict { kOk, kWarning, kFailure };

struct Finding {
  /// What it is about: "machine", "disk", "tcp", "dpdk", "verbs".
  std::string area;
  std::string name;
  Verdict verdict = Verdict::kOk;
  /// What was found.
  std::string detail;
  /// What to do about it; empty if nothing.
  std::string remedy;
};

/// Looks at the machine; takes less than a second. `data_dir`: where a node would keep its data (the disk is tried there).
std::vector<Finding> examine(const std::string& data_dir);

}  // namespace skua::kv::ctl

#endif  // SKUA_KVSTORE_CTL_DOCTOR_H_
