// Checks of an entry that a replica received. The sender is its primary, or claims to be.
//
//    payload    effects of at most kBatchOpsMax keys, no key twice; or a barrier
//    time       bounded to 1970 to 2109, because clients are forgotten by these times (completions.h). The replica's
//               own clock does not bound it: all replicas must forget the same clients, whatever their clocks say
#ifndef SKUA_KVSTORE_CODEC_ENTRY_CHECK_H_
#define SKUA_KVSTORE_CODEC_ENTRY_CHECK_H_

#include <algorithm>
#include <cstdint>
#include <string_view>

#include "absl/container/flat_hash_set.h"
#include "absl/functional/function_ref.h"
#include "absl/status/status.h"
#include "kvstore/codec/effect.h"
#include "kvstore/codec/size_limits.h"
#include "rpc/base/bytes.h"

namespace skua::kv {

/// The latest time of an entry, in ms of unix time: the year 2109. It is the same on all replicas, because replicas
/// forget clients by these times.
inline constexpr uint64_t kEntryTimeMsMax = uint64_t{1} << 42;
/// What a message has beside the payload of its entry, at most.
inline constexpr size_t kEntryMessageHeadBytesMax = size_t{4} << 10;
/// The largest payload of an entry of a replicated shard: the entry and its head travel in one message.
inline constexpr size_t kReplicatedPayloadBytesMax = kMessageBytesMax - kEntryMessageHeadBytesMax;

/// The time that a replica keeps for an entry that came with `time_ms`.
[[nodiscard]] constexpr int64_t bounded_entry_ms(int64_t time_ms) {
  return std::clamp<int64_t>(time_ms, 0, static_cast<int64_t>(kEntryTimeMsMax));
}

/// Checks a payload without an entry's head. INVALID_ARGUMENT: no primary makes an entry with this payload. Calls
/// `visit` for each effect, and returns its status if it is not OK. `keys` is working memory; its content is lost.
[[nodiscard]] absl::Status check_entry(ByteSpan payload, absl::flat_hash_set<std::string_view>& keys,
                                       absl::FunctionRef<absl::Status(const Effect&)> visit);

}  // namespace skua::kv

#endif  // SKUA_KVSTORE_CODEC_ENTRY_CHECK_H_
