// Who the node is by its certificate, whom it lets in, and how its packets are protected.
//
// A certificate comes from the options, or from the data directory, if the node joined the cluster at an earlier start,
// or from the control plane, for the join token that the options name.
#ifndef SKUA_KVSTORE_NODE_SKUAD_SECURITY_H_
#define SKUA_KVSTORE_NODE_SKUAD_SECURITY_H_

#include <memory>

#include "absl/status/status.h"
#include "app/data_dir.h"
#include "app/log.h"
#include "app/signals.h"
#include "control/client/certificate_renewer.h"
#include "control/security/credentials.h"
#include "control/security/exposure.h"
#include "kvstore/node/skuad_options.h"

namespace skua::kv {

/// Whether the options fit together, and the files that they name are good. Changes nothing. INVALID_ARGUMENT,
/// FAILED_PRECONDITION, PERMISSION_DENIED: the message says what to do.
[[nodiscard]] absl::Status check_security(const SkuadOptions& config);

/// The certificate that the options name, or that the data directory has; null: none. `identity`: of the data
/// directory, which must be the certificate's. An error ends the process.
[[nodiscard]] control::CredentialsPtr known_credentials(const SkuadOptions& config,
                                                        const app::DataDirIdentity& identity,
                                                        const app::Logger& logger);

/// Has the control plane issue a certificate for the join token. Waits for a control plane that is away. Null: the node
/// was told to stop meanwhile. Another error ends the process.
[[nodiscard]] control::CredentialsPtr join_cluster(const SkuadOptions& config, const app::DataDirIdentity& identity,
                                                   const app::Logger& logger, app::StopSignal& stop);

/// An error ends the process.
[[nodiscard]] NodeSecurity security_with(const SkuadOptions& config, control::CredentialsPtr credentials);

/// Renews a certificate that came from the control plane, from now on; null: it came from elsewhere.
[[nodiscard]] std::unique_ptr<control::CertificateRenewer> renewer_of(const SkuadOptions& config,
                                                                      const control::CredentialsPtr& credentials,
                                                                      const app::Logger& logger);

/// Logs that the node lets in whoever reaches it, if it does.
void warn_if_unsafe(const SkuadOptions& config, control::Admission admission, const app::Logger& logger);

[[nodiscard]] NodeLog node_log(const app::Logger& logger);

}  // namespace skua::kv

#endif  // SKUA_KVSTORE_NODE_SKUAD_SECURITY_H_
