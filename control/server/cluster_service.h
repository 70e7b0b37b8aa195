// The gRPC service Cluster of skua-control: its status, and what administrators change. A thin translation, as the
// others in control_services.h.
#ifndef SKUA_CONTROL_SERVER_CLUSTER_SERVICE_H_
#define SKUA_CONTROL_SERVER_CLUSTER_SERVICE_H_

#include <grpcpp/impl/service_type.h>

#include <memory>

#include "control/server/cluster_status.h"
#include "control/server/control_services.h"
#include "control/server/controller.h"

namespace skua::control {

/// The controller outlives the service, as for make_control_services().
[[nodiscard]] std::unique_ptr<grpc::Service> make_cluster_service(const ServiceOptions& options, Controller& controller,
                                                                  std::shared_ptr<StatusDesk> status);

}  // namespace skua::control

#endif  // SKUA_CONTROL_SERVER_CLUSTER_SERVICE_H_
