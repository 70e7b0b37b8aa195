// Every bound of the storage engine's queues and caches, in one place. What happens at a bound is a typed refusal.
#ifndef SKUA_KVSTORE_ENGINE_LIMITS_H_
#define SKUA_KVSTORE_ENGINE_LIMITS_H_

#include <cstddef>
#include <cstdint>

#include "kvstore/codec/limits.h"

namespace skua::kv {

/// A value that a reader thread finds in a database is copied there if it is larger than this: the polling thread would copy for too
/// long. (What memory has no room for is sent from a copy.)
inline constexpr size_t kCopiedByReaderBytes = size_t{64} << 10;

/// How often a database whose disk was full is tried again.
inline constexpr uint64_t kApplyAgainMs = 500;

/// Jobs waiting for the reader pool; one more is RESOURCE_EXHAUSTED.
inline constexpr size_t kReadQueueJobsMax = 4096;

/// Values that are read for one batch at a time; the rest of its reads comes after them. With those that it keeps
/// (WorkerEngine::Options::batch_read_bytes_max) they bound the memory that a batch may have before it is evaluated.
inline constexpr size_t kBatchReadsMax = 16;

/// Clients whose results a shard keeps. Of these: clients with one write so far, and clients whose numbers are so far
/// beyond all that the shard has forgotten that it will not forget them for another (completions.h). If nobody can go, one
/// more is RESOURCE_EXHAUSTED.
inline constexpr size_t kCompletionClientsMax = size_t{1} << 16;
inline constexpr size_t kCompletionNewcomersMax = kCompletionClientsMax / 2;
inline constexpr size_t kCompletionFarMax = kCompletionClientsMax / 8;
/// A client that wrote within this time is not forgotten for another.
inline constexpr uint64_t kCompletionIdleMsMin = uint64_t{60} * 1000;
/// How far the number of a forgotten write may lie beyond all that were forgotten before.
inline constexpr uint64_t kCompletionSeqStepMax = uint64_t{1} << 40;
/// A client that has to number a write anew begins so far beyond what is forgotten, so that it is not overtaken at once.
inline constexpr uint64_t kCompletionSeqMargin = uint64_t{1} << 20;

/// Bytes of batches' results that a shard keeps: of all clients, beyond which the results of others go; and of one client, beyond
/// which its batches are TOO_MANY_INCOMPLETE.
inline constexpr size_t kCompletionBatchBytesMax = size_t{64} << 20;
inline constexpr size_t kClientBatchBytesMax = kCompletionBatchBytesMax / 8;
/// A client that did nothing for so long, by the records' times, is forgotten.
inline constexpr uint64_t kClientSilentMsMax = uint64_t{3600} * 1000;
/// A wall clock that goes back by so much was wrong before; by less, it is slewed.
inline constexpr uint64_t kClockSetBackMsMin = 1000;
/// The latest time of an entry, in unix time: the year 2109. The same for all, because replicas forget clients by these
/// times.
inline constexpr uint64_t kEntryTimeMsMax = uint64_t{1} << 42;

/// A record's buffer above this size goes back to the heap after its use, instead of being kept for the next one.
inline constexpr size_t kPayloadBytesKept = size_t{64} << 10;

/// An entry of a replicated shard travels in one message, with its head.
inline constexpr size_t kReplicatedPayloadBytesMax = kMessageBytesMax - (size_t{4} << 10);

}  // namespace skua::kv

#endif  // SKUA_KVSTORE_ENGINE_LIMITS_H_
