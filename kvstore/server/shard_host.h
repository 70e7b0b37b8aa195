// A worker as the shard manager sees it.
#ifndef SKUA_KVSTORE_SERVER_SHARD_HOST_H_
#define SKUA_KVSTORE_SERVER_SHARD_HOST_H_

#include <cstdint>
#include <functional>
#include <string>

#include "kvstore/engine/shard_db.h"

namespace skua::kv {

/// Thread: any but the worker's. Calls take effect later, in their order. ShardServer says what each
/// does.
class ShardHost {
 public:
  virtual ~ShardHost() = default;

  virtual void expect(ShardId id, uint64_t epoch) = 0;
  virtual void serve(ShardId id, ShardDb& db) = 0;
  virtual void set_failed(ShardId id, std::string why) = 0;
  /// `on_idle` runs on the worker's thread, once, when nothing uses the database; it must not block. It
  /// does not run if the worker stops first.
  virtual void remove(ShardId id, std::function<void()> on_idle) = 0;
  virtual void set_map_revision(uint64_t revision) = 0;
};

}  // namespace skua::kv

#endif  // SKUA_KVSTORE_SERVER_SHARD_HOST_H_
