// PeerBootstrap: how links (peer_links.h) ask other nodes for sessions. It separates polling threads from gRPC. Tests
// implement it with nodes of their own.
#ifndef SKUA_KVSTORE_PEERS_PEER_BOOTSTRAP_H_
#define SKUA_KVSTORE_PEERS_PEER_BOOTSTRAP_H_

#include <functional>
#include <memory>
#include <string>

#include "absl/status/statusor.h"
#include "control/client/bootstrap_client.h"
#include "control/security/credentials.h"

namespace skua::kv {

/// Thread: any. Each callback runs exactly once, on any thread, possibly before the call returns. Callbacks must not
/// block.
class PeerBootstrap {
 public:
  using DescribeFn = control::BootstrapClient::DescribeFn;
  using OpenSessionFn = control::BootstrapClient::OpenSessionFn;

  virtual ~PeerBootstrap() = default;
  /// Asks the node at `grpc_address` for its identity, its workers and their transports.
  virtual void describe(const std::string& grpc_address, const std::string& cluster_id, DescribeFn done) = 0;
  /// Passes the offer of a session to a worker of another node. `done` gets the answer or the error.
  virtual void open_session(const control::OpenSessionRequest& request, OpenSessionFn done) = 0;
};

/// An implementation with gRPC and a thread of its own: calls only put a job into a queue, so they suit polling
/// threads. One instance serves all workers of a node. The destructor cancels all requests, queued or under way, and
/// joins the thread. RESOURCE_EXHAUSTED: the queue is full (kPeerBootstrapJobsMax).
[[nodiscard]] std::unique_ptr<PeerBootstrap> make_grpc_peer_bootstrap(control::CredentialsPtr credentials = nullptr);

}  // namespace skua::kv

#endif  // SKUA_KVSTORE_PEERS_PEER_BOOTSTRAP_H_
