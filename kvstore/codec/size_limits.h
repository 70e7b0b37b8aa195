// Every size bound of the key-value protocol, in one place.
//
// Both ends use them: a client refuses before it sends, a server refuses what it decodes. Either way the answer is
// INVALID_ARGUMENT with the limit's value and the actual size.
#ifndef SKUA_KVSTORE_CODEC_SIZE_LIMITS_H_
#define SKUA_KVSTORE_CODEC_SIZE_LIMITS_H_

#include <cstddef>
#include <cstdint>

namespace skua::kv {

/// A key has 1 to this many bytes.
inline constexpr size_t kKeyBytesMax = 1024;
/// A value, and a row after a patch, has 0 to this many bytes.
inline constexpr size_t kValueBytesMax = size_t{16} << 20;

/// Operations in one batch; keys in one MULTI_GET.
inline constexpr size_t kBatchOpsMax = 1024;
/// Values of one MULTI_GET reply, or operations of one batch as they are encoded, together.
inline constexpr size_t kBatchBytesMax = size_t{16} << 20;

/// A time to live is at most this: 100 years, so that no sum with the time of day overflows.
inline constexpr uint64_t kTtlMsMax = uint64_t{36'525} * 24 * 3600 * 1000;

/// Results that a shard keeps for one client (RequestId); one more mutation is refused with TOO_MANY_INCOMPLETE.
inline constexpr size_t kIncompleteMax = 4096;

/// Fields of one row or patch, and bytes of a field's name (1 at least).
inline constexpr size_t kFieldsMax = 1024;
inline constexpr size_t kFieldNameBytesMax = 1024;

/// Rows and bytes (keys + values) that one SCAN page may ask for. A page holds at least one row, however large.
inline constexpr size_t kScanRowsMax = 10'000;
inline constexpr size_t kScanBytesMax = size_t{16} << 20;
/// A resume token: one format byte and a key.
inline constexpr size_t kResumeTokenBytesMax = 1 + kKeyBytesMax;

/// Text of an error reply; longer text is cut.
inline constexpr size_t kErrorTextBytesMax = 512;

/// No head (everything but the value bytes) of an operation on one key or of its reply, nor an error reply, is larger.
inline constexpr size_t kHeadBytesMax = 1152;

/// No request or reply is larger: what the RPC engine must be able to carry.
inline constexpr size_t kMessageBytesMax = (size_t{16} << 20) + (size_t{64} << 10);

}  // namespace skua::kv

#endif  // SKUA_KVSTORE_CODEC_SIZE_LIMITS_H_
