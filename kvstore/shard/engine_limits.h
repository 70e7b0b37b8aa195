// Bounds of a worker's storage engine.
#ifndef SKUA_KVSTORE_SHARD_ENGINE_LIMITS_H_
#define SKUA_KVSTORE_SHARD_ENGINE_LIMITS_H_

#include <cstddef>
#include <cstdint>

namespace skua::kv {

/// A value that a reader thread finds in a database is copied there if it is larger than this: the polling thread would copy for too
/// long. (What memory has no room for is sent from a copy.)
inline constexpr size_t kCopiedByReaderBytes = size_t{64} << 10;

/// How often a database whose disk was full is tried again.
inline constexpr uint64_t kApplyAgainMs = 500;

/// Values that are read for one batch at a time; the rest of its reads comes after them. With those that it keeps
/// (WorkerEngine::Options::batch_read_bytes_max) they bound the memory that a batch may have before it is evaluated.
inline constexpr size_t kBatchReadsMax = 16;

/// A wall clock that goes back by so much was wrong before; by less, it is slewed.
inline constexpr uint64_t kClockSetBackMsMin = 1000;

/// A record's buffer above this size goes back to the heap after its use, instead of being kept for the next one.
inline constexpr size_t kPayloadBytesKept = size_t{64} << 10;

}  // namespace skua::kv

#endif  // SKUA_KVSTORE_SHARD_ENGINE_LIMITS_H_
