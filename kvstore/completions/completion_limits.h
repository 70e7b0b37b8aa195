// Bounds of what a shard remembers of its clients (completions.h).
#ifndef SKUA_KVSTORE_COMPLETIONS_COMPLETION_LIMITS_H_
#define SKUA_KVSTORE_COMPLETIONS_COMPLETION_LIMITS_H_

#include <cstddef>
#include <cstdint>

namespace skua::kv {

/// The most clients whose results a shard keeps. A full shard forgets an idle client for a new one. If no client can be
/// forgotten, the new client is answered RESOURCE_EXHAUSTED.
inline constexpr size_t kCompletionClientsMax = size_t{1} << 16;
/// The most of them with one write so far.
inline constexpr size_t kCompletionNewcomersMax = kCompletionClientsMax / 2;
/// The most of them with far numbers (kCompletionSeqStepMax).
inline constexpr size_t kCompletionFarMax = kCompletionClientsMax / 8;
/// A client that wrote within this time is not forgotten for another client.
inline constexpr uint64_t kCompletionIdleMsMin = uint64_t{60} * 1000;
/// A client whose numbers are more than this above the floor is *far*: it is not forgotten for another client. So
/// forgetting one client raises the floor by at most this.
inline constexpr uint64_t kCompletionSeqStepMax = uint64_t{1} << 40;
/// A client that must give a write a new number starts this far above the floor, so that the floor does not rise above
/// the new number at once.
inline constexpr uint64_t kCompletionSeqMargin = uint64_t{1} << 20;

/// What each kept result counts, beside the bytes of a batch's results: what it takes at most in memory. The number is
/// part of the rule by which replicas forget, so it is the same in all builds.
inline constexpr size_t kCompletionResultBytes = 256;
/// Bytes of the results that a shard keeps of all clients' records. Beyond this, the shard drops results of the clients
/// with the oldest records.
inline constexpr size_t kCompletionBytesMax = size_t{64} << 20;
/// Bytes of the results of one client, refusals included. Further writes of the client are answered
/// TOO_MANY_INCOMPLETE.
inline constexpr size_t kClientBytesMax = kCompletionBytesMax / 8;
/// Bytes of the results without effect that a primary keeps of all clients. Beyond this, it drops those of the clients
/// with the oldest refusals.
inline constexpr size_t kCompletionRefusedBytesMax = size_t{16} << 20;
/// A client without a record for this long is forgotten. The time is that of the records, not of a wall clock.
inline constexpr uint64_t kClientSilentMsMax = uint64_t{3600} * 1000;
/// True: so long has passed since `time_ms`.
[[nodiscard]] constexpr bool is_silence(uint64_t time_ms, uint64_t now_ms) {
  return now_ms > time_ms && now_ms - time_ms > kClientSilentMsMax;
}

}  // namespace skua::kv

#endif  // SKUA_KVSTORE_COMPLETIONS_COMPLETION_LIMITS_H_
