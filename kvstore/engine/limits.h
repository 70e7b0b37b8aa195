// Every bound of the storage engine's queues and caches, in one place. What happens at a bound is a typed refusal.
#ifndef SKUA_KVSTORE_ENGINE_LIMITS_H_
#define SKUA_KVSTORE_ENGINE_LIMITS_H_

#include <cstddef>

namespace skua::kv {

/// Mutations waiting for a worker's log thread; one more is RESOURCE_EXHAUSTED.
inline constexpr size_t kLogQueueOpsMax = 4096;

/// Mutations, and bytes of keys and values, that one group commit carries at most; the rest goes with the next.
inline constexpr size_t kLogGroupOpsMax = 1024;
inline constexpr size_t kLogGroupBytesMax = size_t{32} << 20;

/// Jobs waiting for the reader pool; one more is RESOURCE_EXHAUSTED.
inline constexpr size_t kReadQueueJobsMax = 4096;

/// Values up to this size are kept in the read cache; larger ones are served from RocksDB's block cache, pinned.
inline constexpr size_t kReadCacheValueBytesMax = size_t{16} << 10;

}  // namespace skua::kv

#endif  // SKUA_KVSTORE_ENGINE_LIMITS_H_
