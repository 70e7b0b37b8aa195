// Finding: one line of the doctor's report.
#ifndef SKUA_KVSTORE_CTL_FINDING_H_
#define SKUA_KVSTORE_CTL_FINDING_H_

#include <string>

namespace skua::kv::ctl {

enum class Verdict { kOk, kWarning, kFailure };

struct Finding {
  /// What was examined: "machine", "disk", "tcp", "security", "dpdk", "verbs".
  std::string area;
  std::string name;
  Verdict verdict = Verdict::kOk;
  /// What was found.
  std::string detail;
  /// What to do, as a command if there is one. Empty: nothing.
  std::string remedy;
  /// Why it matters: what it is needed for, or what happens without it.
  std::string why;
};

}  // namespace skua::kv::ctl

#endif  // SKUA_KVSTORE_CTL_FINDING_H_
