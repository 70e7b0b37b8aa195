// How a worker's links ask other nodes for sessions: the seam between polling threads and gRPC. Tests put nodes of their own
// behind it.
#ifndef SKUA_KVSTORE_PEERS_PEER_BOOTSTRAP_H_
#define SKUA_KVSTORE_PEERS_PEER_BOOTSTRAP_H_

#include <functional>
#include <memory>
#include <string>

#include "absl/status/statusor.h"
#include "control/client/bootstrap_client.h"

namespace skua::kv {

/// Thread: any. Callbacks run exactly once, on any thread, perhaps before the call returns; they must not block.
class PeerBootstrap {
 public:
  using DescribeFn = control::BootstrapClient::DescribeFn;
  using OpenSessionFn = control::BootstrapClient::OpenSessionFn;

  virtual ~PeerBootstrap() = default;
  virtual void describe(const std::string& grpc_address, const std::string& cluster_id, DescribeFn done) = 0;
  virtual void open_session(const control::OpenSessionRequest& request, OpenSessionFn done) = 0;
};

/// By gRPC, on a thread of its own: a polling thread only puts into a queue what it wants. One for all workers of a node. Its
/// end cancels what is under way.
[[nodiscard]] std::unique_ptr<PeerBootstrap> make_grpc_peer_bootstrap();

}  // namespace skua::kv

#endif  // SKUA_KVSTORE_PEERS_PEER_BOOTSTRAP_H_
