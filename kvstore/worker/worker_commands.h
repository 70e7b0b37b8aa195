// The interface of a worker for the shard manager.
#ifndef SKUA_KVSTORE_WORKER_WORKER_COMMANDS_H_
#define SKUA_KVSTORE_WORKER_WORKER_COMMANDS_H_

#include <cstdint>
#include <functional>
#include <map>
#include <string>
#include <vector>

#include "kvstore/replication/view.h"
#include "kvstore/shard/replica_notes.h"
#include "kvstore/storage/shard_db.h"
#include "kvstore/types/peer_info.h"

namespace skua::kv {

/// Where a node has its replica of a shard.
struct ReplicaPlace {
  uint32_t worker = 0;
  uint64_t incarnation = 0;  ///< of the node's storage (ReplicaId)

  friend bool operator==(const ReplicaPlace&, const ReplicaPlace&) = default;
};

/// The places of a shard's replicas, by node.
using ReplicaPlaces = std::map<NodeId, ReplicaPlace>;

/// Thread: any but the worker's. Calls take effect later, in their order. HeldShards says what they do; of set_peers()
/// WorkerReplication does, and of set_map_revision() ShardServer.
class WorkerCommands {
 public:
  virtual ~WorkerCommands() = default;

  virtual void expect(ShardId id, uint64_t epoch) = 0;
  virtual void serve(ShardId id, ShardDb& db) = 0;
  /// Called instead of serve() for a replica.
  virtual void serve_replica(ShardId id, ShardDb& db, const ReplicaNotes& notes) = 0;
  /// The view of the shard in the newest map, and the workers of its replicas. Called after serve_replica().
  virtual void set_view(ShardId id, const View& view, const ReplicaPlaces& places) = 0;
  virtual void view_persisted(ShardId id, uint64_t epoch) = 0;
  virtual void unsynced_allowed(ShardId id) = 0;
  virtual void set_peers(std::vector<PeerInfo> peers) = 0;
  virtual void set_failed(ShardId id, std::string why) = 0;
  /// `on_idle` runs once, on the worker's thread, when nothing uses the database. It must not block. It does not run if
  /// the worker stops first.
  virtual void remove(ShardId id, std::function<void()> on_idle) = 0;
  virtual void set_map_revision(uint64_t revision) = 0;
};

}  // namespace skua::kv

#endif  // SKUA_KVSTORE_WORKER_WORKER_COMMANDS_H_
