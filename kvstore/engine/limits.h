// Every bound of the storage engine's queues and caches, in one place. What happens at a bound is a typed refusal.
#ifndef SKUA_KVSTORE_ENGINE_LIMITS_H_
#define SKUA_KVSTORE_ENGINE_LIMITS_H_

#include <cstddef>

namespace skua::kv {

/// Jobs waiting for the reader pool; one more is RESOURCE_EXHAUSTED.
inline constexpr size_t kReadQueueJobsMax = 4096;

}  // namespace skua::kv

#endif  // SKUA_KVSTORE_ENGINE_LIMITS_H_
