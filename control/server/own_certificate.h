// The control plane's own certificate: whoever has the authority's key at hand needs nobody to renew it. The control
// plane replaces it at half of its time, as nodes do theirs, and the file is read again by who shows it.
#ifndef SKUA_CONTROL_SERVER_OWN_CERTIFICATE_H_
#define SKUA_CONTROL_SERVER_OWN_CERTIFICATE_H_

#include <functional>
#include <memory>
#include <string>

#include "control/client/certificate_renewer.h"
#include "control/security/certificate_issuer.h"
#include "control/security/credential_files.h"
#include "control/security/credentials.h"

namespace skua::control {

/// Renews the certificate of `own`, which is in `files`, from now on: for the same key, identity and hosts. The
/// authorities' file stays as it is. `log`: as in CertificateRenewerOptions.
[[nodiscard]] std::unique_ptr<CertificateRenewer> keep_own_fresh(const CredentialFiles& files,
                                                                 const CredentialsPtr& own,
                                                                 std::shared_ptr<const CertificateIssuer> issuer,
                                                                 std::function<void(bool, const std::string&)> log);

}  // namespace skua::control

#endif  // SKUA_CONTROL_SERVER_OWN_CERTIFICATE_H_
