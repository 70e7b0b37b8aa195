// Every bound of the storage engine's queues and caches, in one place. What happens at a bound is a typed refusal.
#ifndef SKUA_KVSTORE_ENGINE_LIMITS_H_
#define SKUA_KVSTORE_ENGINE_LIMITS_H_

#include <cstddef>
#include <cstdint>

#include "kvstore/codec/limits.h"

namespace skua::kv {

/// Jobs waiting for the reader pool; one more is RESOURCE_EXHAUSTED.
inline constexpr size_t kReadQueueJobsMax = 4096;

/// Values that are read for one batch at a time; the rest of its reads comes after them. With those that it keeps
/// (WorkerEngine::Options::batch_read_bytes_max) they bound the memory that a batch may have before it is evaluated.
inline constexpr size_t kBatchReadsMax = 16;

/// Clients whose results a shard keeps, and bytes of their batches' results; a mutation beyond is RESOURCE_EXHAUSTED.
inline constexpr size_t kCompletionClientsMax = size_t{1} << 16;
inline constexpr size_t kCompletionBatchBytesMax = size_t{64} << 20;
/// A client that did nothing for so long, by the records' times, is forgotten.
inline constexpr uint64_t kClientSilentMsMax = uint64_t{3600} * 1000;

/// A record's buffer above this size goes back to the heap after its use, instead of being kept for the next one.
inline constexpr size_t kPayloadBytesKept = size_t{64} << 10;

/// An entry of a replicated shard travels in one message, with its head.
inline constexpr size_t kReplicatedPayloadBytesMax = kMessageBytesMax - (size_t{4} << 10);

}  // namespace skua::kv

#endif  // SKUA_KVSTORE_ENGINE_LIMITS_H_
