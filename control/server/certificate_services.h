// The certificate service of skua-control (control/security/certificate_issuer.h): Certificates for those who have a
// certificate, Joining for those who have none. Whatever a token's use changes is in the store before a certificate is
// signed, which happens on the control thread.
#ifndef SKUA_CONTROL_SERVER_CERTIFICATE_SERVICES_H_
#define SKUA_CONTROL_SERVER_CERTIFICATE_SERVICES_H_

#include <grpcpp/impl/service_type.h>

#include <atomic>
#include <cstdint>
#include <memory>
#include <string>

#include "control/security/certificate_issuer.h"
#include "control/security/credentials.h"
#include "control/server/controller.h"

namespace skua::control {

struct CertificateServiceOptions {
  std::string cluster_id;
  /// The control plane's own; null: without TLS.
  CredentialsPtr credentials;
  /// Null: no certificates are issued, and all calls end with FAILED_PRECONDITION.
  std::shared_ptr<const CertificateIssuer> issuer;
  /// Where Joining is served: stands in tokens. Set before the first call.
  std::shared_ptr<const std::atomic<uint16_t>> join_port;
};

/// The controller must outlive them; it is to be stopped as for make_control_services().
[[nodiscard]] std::unique_ptr<grpc::Service> make_certificates_service(const CertificateServiceOptions& options,
                                                                       Controller& controller);
/// Only with an issuer.
[[nodiscard]] std::unique_ptr<grpc::Service> make_joining_service(const CertificateServiceOptions& options,
                                                                  Controller& controller);

}  // namespace skua::control

#endif  // SKUA_CONTROL_SERVER_CERTIFICATE_SERVICES_H_
