// ClusterAccess: the client library's interface to the control plane and to the nodes' bootstrap services. It separates
// the data path, which polls, from gRPC, which has threads of its own. Tests implement it with a cluster of their own.
#ifndef SKUA_KVSTORE_CLIENT_CLUSTER_ACCESS_H_
#define SKUA_KVSTORE_CLIENT_CLUSTER_ACCESS_H_

#include <functional>
#include <memory>
#include <string>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "control/client/bootstrap_client.h"
#include "control/core/bootstrap.h"
#include "control/core/shard_map.h"
#include "rpc/base/clock.h"

namespace skua::kv {

/// Thread: the client's, for all methods. Callbacks may run on any thread. They must not block, and must not call a
/// method of this class. A DescribeFn or AnswerFn runs exactly once.
class ClusterAccess {
 public:
  using MapFn = std::function<void(std::shared_ptr<const control::ShardMap>)>;
  using DescribeFn = std::function<void(absl::StatusOr<control::NodeDescription>)>;
  /// Gets the bytes with which the node's endpoint answers the offer.
  using AnswerFn = std::function<void(absl::StatusOr<std::string>)>;

  virtual ~ClusterAccess() = default;

  /// Starts to follow the shard map: `on_map` runs for the present map and for each newer one. To be called once.
  virtual void start(MapFn on_map) = 0;
  /// No callback runs after this has returned. Idempotent.
  virtual void stop() = 0;
  /// Look for a newer map now: the caller has reason to believe that there is one.
  virtual void hurry() = 0;
  /// The address of the control plane, for messages: "127.0.0.1:7400".
  [[nodiscard]] virtual std::string control_address() const = 0;
  /// OK while the map is being followed; otherwise the reason why it is not. UNKNOWN while a connection may still come
  /// about: no control process has answered yet, not all have been asked, or none of them leads.
  [[nodiscard]] virtual absl::Status connection() const = 0;

  /// Asks the node at `grpc_address` for its identity, its workers and their transports.
  virtual void describe(const std::string& grpc_address, const std::string& cluster_id, DurationNs timeout_ns,
                        DescribeFn done) = 0;
  /// Hands the offer to the node's endpoint.
  virtual void open_session(const control::OpenSessionRequest& request, DurationNs timeout_ns, AnswerFn done) = 0;
};

}  // namespace skua::kv

#endif  // SKUA_KVSTORE_CLIENT_CLUSTER_ACCESS_H_
