// A worker as the shard manager sees it.
#ifndef SKUA_KVSTORE_WORKER_SHARD_HOST_H_
#define SKUA_KVSTORE_WORKER_SHARD_HOST_H_

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

/// Workers of the nodes that hold replicas of a shard.
using ReplicaPlaces = std::map<NodeId, uint32_t>;

/// Thread: any but the worker's. Calls take effect later, in their order. ShardServer says what each
/// does.
class ShardHost {
 public:
  virtual ~ShardHost() = default;

  virtual void expect(ShardId id, uint64_t epoch) = 0;
  virtual void serve(ShardId id, ShardDb& db) = 0;
  /// Instead of serve(), for a replica.
  virtual void serve_replica(ShardId id, ShardDb& db, const ReplicaNotes& notes) = 0;
  /// The view of the newest map, and where its replicas are. After serve_replica().
  virtual void set_view(ShardId id, const View& view, const ReplicaPlaces& places) = 0;
  virtual void view_persisted(ShardId id, uint64_t epoch) = 0;
  virtual void unsynced_allowed(ShardId id) = 0;
  virtual void set_peers(std::vector<PeerInfo> peers) = 0;
  virtual void set_failed(ShardId id, std::string why) = 0;
  /// `on_idle` runs on the worker's thread, once, when nothing uses the database; it must not block. It
  /// does not run if the worker stops first.
  virtual void remove(ShardId id, std::function<void()> on_idle) = 0;
  virtual void set_map_revision(uint64_t revision) = 0;
};

}  // namespace skua::kv

#endif  // SKUA_KVSTORE_WORKER_SHARD_HOST_H_
