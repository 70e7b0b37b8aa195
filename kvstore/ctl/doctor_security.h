// Doctor for certificates: examines the files of --cert, --key and --ca, what seals packets on this machine, and whom
// the programs of the cluster let in.
#ifndef SKUA_KVSTORE_CTL_DOCTOR_SECURITY_H_
#define SKUA_KVSTORE_CTL_DOCTOR_SECURITY_H_

#include <string>
#include <vector>

#include "control/core/program_security.h"
#include "control/security/certificates.h"
#include "control/security/credential_files.h"
#include "kvstore/ctl/finding.h"

namespace skua::kv::ctl {

/// A program of the cluster, as the status shows it.
struct ProgramSeen {
  std::string name;  ///< for people: "the control plane", "node 1b9d6bcd (10.0.0.4:7410)"
  control::ProgramSecurity security;
};

struct SecurityPlan {
  /// Empty: the cluster is to have no certificates.
  control::CredentialFiles files;
  /// The time at which certificates must be valid.
  control::WallSeconds now_s = 0;
  /// This processor has the fast cipher (rpc/crypto/aead.h).
  bool has_fast_cipher = false;
  /// The programs of the cluster. Empty: no control plane answers.
  std::vector<ProgramSeen> programs = {};
  /// Not OK: no control plane was asked, because the files cannot be used.
  absl::Status unasked{};
  /// What the control plane said instead of its status. UNAVAILABLE and DEADLINE_EXCEEDED mean that nobody is there.
  absl::Status refusal{};
};

[[nodiscard]] std::vector<Finding> examine_security(const SecurityPlan& plan);

}  // namespace skua::kv::ctl

#endif  // SKUA_KVSTORE_CTL_DOCTOR_SECURITY_H_
