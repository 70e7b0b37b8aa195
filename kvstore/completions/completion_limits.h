// Bounds of what a shard remembers of its clients.
#ifndef SKUA_KVSTORE_COMPLETIONS_COMPLETION_LIMITS_H_
#define SKUA_KVSTORE_COMPLETIONS_COMPLETION_LIMITS_H_

#include <cstddef>
#include <cstdint>

namespace skua::kv {

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

}  // namespace skua::kv

#endif  // SKUA_KVSTORE_COMPLETIONS_COMPLETION_LIMITS_H_
