// What a node has stored durably about one of its replicas.
#ifndef SKUA_KVSTORE_SHARD_REPLICA_NOTES_H_
#define SKUA_KVSTORE_SHARD_REPLICA_NOTES_H_

#include <cstdint>

#include "kvstore/replication/view.h"

namespace skua::kv {

struct ReplicaNotes {
  View view{};              ///< the last view that was made durable; epoch 0: none
  uint64_t doubt = 0;       ///< Replica::Restart::doubt
  bool may_unsync = false;  ///< the replica may acknowledge entries that are not synced: unsynced_shards.h has noted it

  friend bool operator==(const ReplicaNotes&, const ReplicaNotes&) = default;
};

}  // namespace skua::kv

#endif  // SKUA_KVSTORE_SHARD_REPLICA_NOTES_H_
