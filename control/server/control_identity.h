// Who skua-control is by its certificate, whom it lets in, and whether it issues certificates.
#ifndef SKUA_CONTROL_SERVER_CONTROL_IDENTITY_H_
#define SKUA_CONTROL_SERVER_CONTROL_IDENTITY_H_

#include <memory>
#include <string>

#include "app/log.h"
#include "control/security/certificate_issuer.h"
#include "control/security/credentials.h"
#include "control/security/exposure.h"
#include "control/server/control_options.h"

namespace skua::control {

/// Null: without TLS. The certificate names the cluster: what the options and the data directory say must agree with
/// it, and options.cluster_id is set. An error ends the process.
[[nodiscard]] CredentialsPtr load_credentials(ControlOptions& options);

/// Whom it lets in. An error ends the process.
[[nodiscard]] Admission admission_of(const ControlOptions& options, bool has_certificates);

/// Logs that the control plane lets in whoever reaches it, if it does.
void warn_if_unsafe(const ControlOptions& options, Admission admission, const app::Logger& logger);

/// Null: no certificates are issued. An error ends the process.
[[nodiscard]] std::shared_ptr<const CertificateIssuer> load_issuer(const ControlOptions& options,
                                                                   const CredentialsPtr& credentials);

/// Where those are served who join.
[[nodiscard]] std::string join_address_of(const ControlOptions& options);

}  // namespace skua::control

#endif  // SKUA_CONTROL_SERVER_CONTROL_IDENTITY_H_
