// The four gRPC services of skua-control, as thin translations between messages and the
// controller's events.
//
// All calls are asynchronous: a handler queues an event and returns; the control thread finishes
// the call. No gRPC thread ever waits for a disk, so a full house of watchers and waiting
// CreateTables needs no threads.
#ifndef SKUA_CONTROL_SERVER_CONTROL_SERVICES_H_
#define SKUA_CONTROL_SERVER_CONTROL_SERVICES_H_

#include <grpcpp/impl/service_type.h>

#include <memory>
#include <string>
#include <vector>

#include "control/core/program_security.h"
#include "control/security/auditor.h"
#include "control/security/certificate_issuer.h"
#include "control/security/credentials.h"
#include "control/server/controller.h"
#include "control/server/map_hub.h"

namespace skua::control {

struct ServiceOptions {
  std::string cluster_id;
  std::string cluster_name;
  /// Told to nodes when they register.
  uint32_t heartbeat_interval_ms = 500;
  uint32_t suspect_after_ms = 3000;
  /// The control plane's own; null: none.
  CredentialsPtr credentials = nullptr;
  /// Whose trouble the status shows; null: none.
  std::shared_ptr<const Auditor> auditor = nullptr;
  std::shared_ptr<const CertificateIssuer> issuer = nullptr;
  /// Whom the control plane lets in, for the status.
  ProgramSecurity security = {};
};

/// Membership, ShardMap, Tables and Cluster, ready for a ServerBuilder. Controller and hub must
/// outlive them, and the controller must be stopped only after the gRPC server is shut down or
/// while it still answers queued calls (Controller::stop()).
[[nodiscard]] std::vector<std::unique_ptr<grpc::Service>> make_control_services(const ServiceOptions& options,
                                                                                Controller& controller, MapHub& hub);

}  // namespace skua::control

#endif  // SKUA_CONTROL_SERVER_CONTROL_SERVICES_H_
