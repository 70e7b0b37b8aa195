// Starts a gRPC server on one address, or says in one line why not.
//
// Connections are accepted by a door of ours (connection_door.h). A second server on the port fails instead of taking
// half the connections.
#ifndef SKUA_CONTROL_SERVER_GRPC_LISTENER_H_
#define SKUA_CONTROL_SERVER_GRPC_LISTENER_H_

#include <grpcpp/server.h>
#include <grpcpp/server_builder.h>

#include <chrono>
#include <cstddef>
#include <memory>
#include <string>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "control/security/credentials.h"
#include "control/server/connection_door.h"
#include "control/server/controller_limits.h"

namespace skua::control {

struct Listener {
  std::unique_ptr<grpc::Server> server;
  std::unique_ptr<ConnectionDoor> door;
  /// What was asked for, with the real port in place of 0.
  std::string address;

  /// Nobody comes in any more; calls that run get until `deadline`.
  void shut_down(std::chrono::system_clock::time_point deadline) {
    door.reset();
    server->Shutdown(deadline);
    server->Wait();
  }
};

/// Splits "host:port" or "[v6 address]:port". INVALID_ARGUMENT, saying what is wrong with it.
struct HostPort {
  std::string host;
  std::string port;
};
[[nodiscard]] absl::StatusOr<HostPort> split_address(const std::string& address);

/// Whether `address` can be listened on now, without keeping it: for programs that look before they make anything.
/// Errors are those of listen().
[[nodiscard]] absl::Status check_listen(const std::string& address);

/// Adds the port to `builder` and starts it. `address` is "host:port"; port 0 takes a free one. `credentials`: null, or
/// what to show callers; they must show theirs then,
/// unless it takes peers without. `auditor` (null: nobody) hears of the calls, `log` of connections that are sent away.
/// INVALID_ARGUMENT (not an address), ALREADY_EXISTS (in use), PERMISSION_DENIED,
/// FAILED_PRECONDITION (not an address of this machine), UNAVAILABLE.
[[nodiscard]] absl::StatusOr<Listener> listen(grpc::ServerBuilder& builder, const std::string& address,
                                              const CredentialsPtr& credentials = nullptr,
                                              const std::shared_ptr<Auditor>& auditor = nullptr, DoorLog log = {});

/// What is different from server to server.
struct ListenRules {
  size_t calls_per_connection = 0;
  /// What its connections and calls may hold, most of all messages of which only a part has come: gRPC's own limit for
  /// a message counts only whole ones. At the bound gRPC ends calls, in no order of who has how much:
  /// RESOURCE_EXHAUSTED. Those that stand for long, such as watches, must be opened again.
  size_t memory_max = kGrpcMemoryMax;
  /// Threads that serve calls which may block; 0: gRPC decides.
  int threads_max = 0;
  /// Also from callers without TLS.
  bool takes_plaintext = false;
  DoorFor whom = DoorFor::kMembers;
  DoorLog log{};
};

/// The same with credentials that are made already.
[[nodiscard]] absl::StatusOr<Listener> listen_with(grpc::ServerBuilder& builder, const std::string& address,
                                                   std::shared_ptr<grpc::ServerCredentials> credentials,
                                                   const std::shared_ptr<Auditor>& auditor, ListenRules rules);

}  // namespace skua::control

#endif  // SKUA_CONTROL_SERVER_GRPC_LISTENER_H_
