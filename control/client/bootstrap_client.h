// Asks storage nodes for what a session needs before its first packet.
//
//     describe(address)                         which workers, reached over which transports
//     open_session(address, worker, offer)      the engine's handshake, carried by gRPC; gives the answer
//
// Blocking for programs that may block, with callbacks for threads that poll. Connections to nodes
// are kept and shared.
#ifndef SKUA_CONTROL_CLIENT_BOOTSTRAP_CLIENT_H_
#define SKUA_CONTROL_CLIENT_BOOTSTRAP_CLIENT_H_

#include <cstdint>
#include <functional>
#include <memory>
#include <string>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "control/core/bootstrap.h"
#include "control/security/credentials.h"
#include "rpc/base/clock.h"

namespace skua::control {

struct OpenSessionRequest {
  /// "host:port" of the node's gRPC server, from the shard map.
  std::string grpc_address;
  /// Whom the caller expects there; empty and 0 mean anybody.
  std::string cluster_id;
  std::string node_uuid;
  uint64_t incarnation = 0;
  uint32_t worker = 0;
  /// The caller's own endpoint.
  TransportDescriptor transport;
  /// The engine's handshake record.
  std::string offer;
};

struct OpenSessionAnswer {
  std::string node_uuid;
  uint64_t incarnation = 0;
  /// The engine's handshake record.
  std::string answer;
};

/// Errors of all calls: UNAVAILABLE and DEADLINE_EXCEEDED (node cannot be reached),
/// FAILED_PRECONDITION (not the cluster, node or incarnation that was expected: wait for a newer
/// shard map), NOT_FOUND (no such worker), RESOURCE_EXHAUSTED (kBootstrapCallsMax calls are open),
/// and whatever the node's worker said. Thread: any.
class BootstrapClient {
 public:
  /// Runs exactly once, on one of gRPC's threads or inside the destructor; must not block nor
  /// destroy the client.
  using DescribeFn = std::function<void(absl::StatusOr<NodeDescription>)>;
  using OpenSessionFn = std::function<void(absl::StatusOr<OpenSessionAnswer>)>;

  /// `credentials`: null, or what to show nodes. A node's certificate must be that of the node that it says it is.
  explicit BootstrapClient(CredentialsPtr credentials = nullptr);
  /// Cancels what is open and waits until its callbacks have run.
  ~BootstrapClient();
  BootstrapClient(const BootstrapClient&) = delete;
  BootstrapClient& operator=(const BootstrapClient&) = delete;

  absl::StatusOr<NodeDescription> describe(const std::string& grpc_address, const std::string& cluster_id,
                                           DurationNs timeout_ns);
  absl::StatusOr<OpenSessionAnswer> open_session(const OpenSessionRequest& request, DurationNs timeout_ns);

  /// An error returned here means that `done` never runs.
  absl::Status describe_async(const std::string& grpc_address, const std::string& cluster_id, DurationNs timeout_ns,
                              DescribeFn done);
  absl::Status open_session_async(const OpenSessionRequest& request, DurationNs timeout_ns, OpenSessionFn done);

 private:
  class Impl;
  const std::unique_ptr<Impl> impl_;
};

}  // namespace skua::control

#endif  // SKUA_CONTROL_CLIENT_BOOTSTRAP_CLIENT_H_
