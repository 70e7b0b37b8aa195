// Every size bound of the key-value protocol, in one place.
//
// Clients and servers check them: a client refuses before it sends, and a server refuses what it decodes. The error is
// always INVALID_ARGUMENT with the limit and the actual size.
#ifndef SKUA_KVSTORE_CODEC_SIZE_LIMITS_H_
#define SKUA_KVSTORE_CODEC_SIZE_LIMITS_H_

#include <cstddef>
#include <cstdint>

namespace skua::kv {

/// A key has 1 to this many bytes.
inline constexpr size_t kKeyBytesMax = 1024;
/// A value has 0 to this many bytes, and so has a row after a patch.
inline constexpr size_t kValueBytesMax = size_t{16} << 20;

/// Operations in one batch, and keys in one MULTI_GET.
inline constexpr size_t kBatchOpsMax = 1024;
/// Bytes of all values of one MULTI_GET reply, or of all encoded operations of one batch.
inline constexpr size_t kBatchBytesMax = size_t{16} << 20;

/// The largest time to live: 100 years, so that its sum with the time of day does not overflow.
inline constexpr uint64_t kTtlMsMax = uint64_t{36'525} * 24 * 3600 * 1000;

/// Results that a shard keeps for one client (RequestId). The shard refuses one more mutation with TOO_MANY_INCOMPLETE.
inline constexpr size_t kIncompleteMax = 4096;

/// Fields of one row or patch, and bytes of the name of a field (at least 1).
inline constexpr size_t kFieldsMax = 1024;
inline constexpr size_t kFieldNameBytesMax = 1024;

/// Rows, and bytes of keys and values, that one SCAN page may ask for. A page holds at least one row, whatever its
/// size.
inline constexpr size_t kScanRowsMax = 10'000;
inline constexpr size_t kScanBytesMax = size_t{16} << 20;
/// Bytes that a page of a SCAN without values, or of one that counts, reads and leaves out; the first row is read
/// whatever its size.
inline constexpr size_t kScanReadBytesMax = size_t{16} << 20;
/// Bytes of a resume token: one format byte and a key.
inline constexpr size_t kResumeTokenBytesMax = 1 + kKeyBytesMax;

/// Bytes of the text of an error reply; longer text is cut.
inline constexpr size_t kErrorTextBytesMax = 512;

/// The largest head of a request for one key or of its reply, and the largest error reply. The head is everything but
/// the value bytes.
inline constexpr size_t kHeadBytesMax = 1152;

/// The largest request or reply. The RPC engine must be able to carry it.
inline constexpr size_t kMessageBytesMax = (size_t{16} << 20) + (size_t{64} << 10);

}  // namespace skua::kv

#endif  // SKUA_KVSTORE_CODEC_SIZE_LIMITS_H_
