// The gRPC server of a storage node: Bootstrap, and whatever else the node wants to offer there.
#ifndef SKUA_CONTROL_SERVER_BOOTSTRAP_SERVER_H_
#define SKUA_CONTROL_SERVER_BOOTSTRAP_SERVER_H_

#include <memory>
#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "control/security/credentials.h"
#include "control/server/bootstrap_service.h"
#include "control/server/connection_door.h"

namespace skua::control {

/// Serves until destroyed. Thread: any.
class BootstrapServer {
 public:
  virtual ~BootstrapServer() = default;

  /// Listens on `listen_address` ("host:port"; port 0 takes a free one). `acceptor` and
  /// `extra_services` (not owned, may be empty) must outlive the server. `credentials`, `log`: see listen(). Errors
  /// name the address and the way out: ALREADY_EXISTS (port in use), INVALID_ARGUMENT, PERMISSION_DENIED,
  /// FAILED_PRECONDITION, UNAVAILABLE.
  static absl::StatusOr<std::unique_ptr<BootstrapServer>> start(const std::string& listen_address,
                                                                SessionAcceptor& acceptor,
                                                                const std::vector<grpc::Service*>& extra_services = {},
                                                                const CredentialsPtr& credentials = nullptr,
                                                                DoorLog log = {});

  /// The address with the real port.
  [[nodiscard]] virtual const std::string& address() const = 0;

  /// Ends calls that run (giving them a second) and stops listening. Idempotent; also done by the
  /// destructor.
  virtual void shutdown() = 0;
};

}  // namespace skua::control

#endif  // SKUA_CONTROL_SERVER_BOOTSTRAP_SERVER_H_
