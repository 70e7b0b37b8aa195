// Doctor for certificates: examines the files of --cert, --key and --ca, and what seals packets on this machine.
#ifndef SKUA_KVSTORE_CTL_DOCTOR_SECURITY_H_
#define SKUA_KVSTORE_CTL_DOCTOR_SECURITY_H_

#include <vector>

#include "control/security/certificates.h"
#include "control/security/credential_files.h"
#include "kvstore/ctl/finding.h"

namespace skua::kv::ctl {

struct SecurityPlan {
  /// Empty: the cluster is to have no certificates.
  control::CredentialFiles files;
  /// The time at which certificates must be valid.
  control::WallSeconds now_s = 0;
  /// This processor has the fast cipher (rpc/crypto/aead.h).
  bool has_fast_cipher = false;
};

[[nodiscard]] std::vector<Finding> examine_security(const SecurityPlan& plan);

}  // namespace skua::kv::ctl

#endif  // SKUA_KVSTORE_CTL_DOCTOR_SECURITY_H_
