// What the client library needs of the control plane and of nodes' bootstrap services: the seam
// between the data path, which polls, and gRPC, which has threads of its own. Tests put a cluster
// of their own behind it.
#ifndef SKUA_KVSTORE_CLIENT_CLUSTER_ACCESS_H_
#define SKUA_KVSTORE_CLIENT_CLUSTER_ACCESS_H_

#include <functional>
#include <memory>
#include <string>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "control/core/bootstrap.h"
#include "control/core/shard_map.h"
#include "rpc/base/clock.h"

namespace skua::kv {

/// Whom to open a session with, and our half of the handshake.
struct SessionRequest {
  std::string grpc_address;
  std::string cluster_id;
  std::string node_uuid;
  uint64_t incarnation = 0;
  uint32_t worker = 0;
  control::TransportDescriptor transport;
  std::string offer;
};

/// Thread: the client's, for all methods. Callbacks run on any thread, exactly once, and must not
/// block nor call back in here.
class ClusterAccess {
 public:
  using MapFn = std::function<void(std::shared_ptr<const control::ShardMap>)>;
  using DescribeFn = std::function<void(absl::StatusOr<control::NodeDescription>)>;
  /// The engine's answer to the offer.
  using AnswerFn = std::function<void(absl::StatusOr<std::string>)>;

  virtual ~ClusterAccess() = default;

  /// Follows the shard map: `on_map` runs for the present and each newer map. Once.
  virtual void start(MapFn on_map) = 0;
  /// No callback runs once this has returned. Idempotent.
  virtual void stop() = 0;
  /// A newer map is known to exist: look for it now.
  virtual void hurry() = 0;
  /// Where the map comes from, for messages: "127.0.0.1:7400".
  [[nodiscard]] virtual std::string control_address() const = 0;
  /// OK while the map is being followed; else why not. UNKNOWN as long as it may be soon: nobody has answered yet, or not
  /// all that might were asked.
  [[nodiscard]] virtual absl::Status connection() const = 0;

  virtual void describe(const std::string& grpc_address, const std::string& cluster_id, DurationNs timeout_ns,
                        DescribeFn done) = 0;
  virtual void open_session(const SessionRequest& request, DurationNs timeout_ns, AnswerFn done) = 0;
};

}  // namespace skua::kv

#endif  // SKUA_KVSTORE_CLIENT_CLUSTER_ACCESS_H_
