// What a replica takes of an entry that its primary, or whoever says that it is, sent.
//
//    payload    effects of kBatchOpsMax keys at most, no key twice; or a barrier
//    time       by which clients are forgotten (completions.h): between 1970 and 2109. No replica's own clock bounds it: all replicas
//               forget the same clients, whatever their clocks say
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

/// The latest time of an entry, in unix time: the year 2109. The same for all, because replicas forget clients by these
/// times.
inline constexpr uint64_t kEntryTimeMsMax = uint64_t{1} << 42;
/// An entry of a replicated shard travels in one message, with its head.
inline constexpr size_t kReplicatedPayloadBytesMax = kMessageBytesMax - (size_t{4} << 10);

/// What is kept of an entry's time.
[[nodiscard]] constexpr int64_t bounded_entry_ms(int64_t time_ms) {
  return std::clamp<int64_t>(time_ms, 0, static_cast<int64_t>(kEntryTimeMsMax));
}

/// INVALID_ARGUMENT: no primary makes an entry with this payload (without an entry's head), or `visit` says so of an
/// effect. `keys`: to work with.
[[nodiscard]] absl::Status check_entry(ByteSpan payload, absl::flat_hash_set<std::string_view>& keys,
                                       absl::FunctionRef<absl::Status(const Effect&)> visit);

}  // namespace skua::kv

#endif  // SKUA_KVSTORE_CODEC_ENTRY_CHECK_H_
