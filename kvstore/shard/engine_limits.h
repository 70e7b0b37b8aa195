// Bounds of a worker's storage engine.
#ifndef SKUA_KVSTORE_SHARD_ENGINE_LIMITS_H_
#define SKUA_KVSTORE_SHARD_ENGINE_LIMITS_H_

#include <cstddef>
#include <cstdint>

namespace skua::kv {

/// A reader thread copies a value that it finds in a database if the value is larger than this. The polling thread
/// would need too long for the copy. (A value that the memory tier has no room for is sent from a copy.)
inline constexpr size_t kCopiedByReaderBytes = size_t{64} << 10;

/// Pause between two attempts to write to a database whose disk was full.
inline constexpr uint64_t kApplyAgainMs = 500;
/// How often a node whose disk is short of room gives back what deletes leave.
inline constexpr uint64_t kMakeRoomMs = 1000;

/// A batch reads at most this many values from the database at a time; its other reads follow. Together with the values
/// that a batch keeps (WorkerEngine::Options::batch_read_bytes_max) this bounds the memory of a batch before it is
/// evaluated.
inline constexpr size_t kBatchReadsMax = 16;

/// A wall clock that goes back by at least this much was wrong before, and the engine follows it. A wall clock that
/// goes back by less is slewed, and the engine keeps its later time.
inline constexpr uint64_t kClockSetBackMsMin = 1000;

/// A record's buffer that is larger than this goes back to the heap after its use. A smaller buffer is kept for the
/// next record.
inline constexpr size_t kPayloadBytesKept = size_t{64} << 10;

}  // namespace skua::kv

#endif  // SKUA_KVSTORE_SHARD_ENGINE_LIMITS_H_
