// Replies of the key-value service: structs of views, and their encodings.
//
// Every reply starts with the same 40 bytes, little endian (docs/wire-format.md):
//
//    0  u8  format = 2
//    1  u8  status          KvStatus; not OK: `count` bytes of text follow and nothing else
//    2  u16 flags           SCAN: 1 = has_more. GET: 1 = u64 remaining ttl_ms follows the header. Writes: bits 0-1 achieved
//                           durability, 4 = from a completion record, 8 = BATCH that was not applied. Else 0
//    4  u32 count           GET: value bytes; MULTI_GET, BATCH: entries; SCAN: rows; other writes: 0
//    8  u64 version         GET: the key's; writes: the new one; ALREADY_EXISTS, VERSION_MISMATCH: the present one
//   16  u64 epoch           the server's for this shard: after WRONG_SHARD the client knows who is behind
//   24  u64 map_revision    the newest shard map the server has seen
//   32  u64 index           the shard's commit index that this reply has seen: with shard and epoch, a token
//
//   GET        [u64 ttl_ms] | value                  ADD        i64 value
//   MULTI_GET  { u8 status, u8 0, u16 0, u32 value bytes, u64 version } x count | value, ... in key order
//   SCAN       u32 bytes of rows, u16 bytes of token, u16 0,
//              { u16 key bytes, u16 0, u32 value bytes, u64 version, key, value } x count, resume token
//   BATCH      batch.h
//
// As with requests the head is all that stands before the `|`; value bytes follow as spans of their own, uncopied.
// Decoding yields views into the received bytes, which must outlive the struct and be contiguous, and accepts exactly
// what the encoder can make. Decoders answer INTERNAL for malformed bytes: they came from a server.
// Thread: any; everything is pure.
#ifndef SKUA_KVSTORE_CODEC_REPLY_H_
#define SKUA_KVSTORE_CODEC_REPLY_H_

#include <cstddef>
#include <cstdint>
#include <optional>
#include <span>
#include <string>
#include <string_view>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "kvstore/codec/request.h"
#include "kvstore/codec/size_limits.h"
#include "kvstore/types/status.h"
#include "rpc/base/bytes.h"

namespace skua::kv {

inline constexpr uint8_t kReplyFormat = 2;
inline constexpr size_t kReplyHeaderBytes = 40;
static_assert(KvStatus{} == KvStatus::kOk, "OK is 0 in a reply");
inline constexpr size_t kMultiGetEntryBytes = 16;

/// What every reply says.
struct ReplyHead {
  KvStatus status = KvStatus::kOk;
  uint64_t version = 0;
  uint64_t epoch = 0;
  uint64_t map_revision = 0;
  uint64_t index = 0;
  std::string_view text{};  ///< of an error; empty when OK
};

/// The reply to PUT, DELETE, PATCH, APPEND and EXPIRE.
struct WriteReply {
  ReplyHead head;
  Durability durability = Durability::kDefault;  ///< achieved; not kDefault when OK
  bool from_record = false;                      ///< the answer to an earlier attempt with the same RequestId
};

struct AddReply {
  WriteReply write;
  int64_t value = 0;  ///< the counter afterwards
};

struct GetReply {
  ReplyHead head;
  ByteSpan value;
  uint64_t ttl_ms = 0;  ///< remaining time to live, if it was asked for; 0: for ever
};

/// One key's part of a MULTI_GET reply. Status: OK, NOT_FOUND, or RESOURCE_EXHAUSTED for a value that would have taken
/// the reply over kBatchBytesMax: ask for it alone.
struct MultiGetEntry {
  KvStatus status = KvStatus::kOk;
  uint64_t version = 0;
  ByteSpan value;
};

/// The entries of a decoded MULTI_GET reply in the order of the keys: a checked view, walked without allocation.
class MultiGetEntries {
 public:
  MultiGetEntries() = default;
  /// The next entry; nullopt after the last.
  std::optional<MultiGetEntry> next();
  [[nodiscard]] size_t size() const { return count_; }

 private:
  friend absl::StatusOr<struct MultiGetReply> decode_multi_get_reply(ByteSpan);
  MultiGetEntries(ByteSpan table, ByteSpan values)
      : table_(table), values_(values), count_(table.size() / kMultiGetEntryBytes) {}

  ByteReader table_{{}};
  ByteReader values_{{}};
  size_t count_ = 0;
};

struct MultiGetReply {
  ReplyHead head;
  MultiGetEntries entries;
};

struct ScanRow {
  std::string_view key;
  uint64_t version = 0;
  ByteSpan value;
};

/// The rows of a decoded SCAN reply in key order: a checked view, walked without allocation.
class ScanRows {
 public:
  ScanRows() = default;
  /// The next row; nullopt after the last.
  std::optional<ScanRow> next();
  [[nodiscard]] size_t size() const { return count_; }

 private:
  friend absl::StatusOr<struct ScanReply> decode_scan_reply(ByteSpan);
  ScanRows(ByteSpan rows, size_t count) : rows_(rows), count_(count) {}

  ByteReader rows_{{}};
  size_t count_ = 0;
};

struct ScanReply {
  ReplyHead head;
  ScanRows rows;
  bool has_more = false;
  std::string_view resume_token;  ///< for the next page; empty unless has_more
};

/// Encodes `head.status` other than OK, with its text cut to kErrorTextBytesMax. Valid as the reply to each method.
[[nodiscard]] ByteSpan encode_error_reply(const ReplyHead& head, HeadBuffer& buffer);

/// Encodes the OK reply of a PUT, DELETE, PATCH, APPEND or EXPIRE, and of an ADD.
[[nodiscard]] ByteSpan encode_write_reply(const WriteReply& reply, HeadBuffer& buffer);
[[nodiscard]] ByteSpan encode_add_reply(const AddReply& reply, HeadBuffer& buffer);

/// Encodes what stands before the value in the OK reply of a GET. `ttl_ms`: as in GetReply.
[[nodiscard]] ByteSpan encode_get_reply_head(const ReplyHead& head, size_t value_bytes, HeadBuffer& buffer,
                                             uint64_t ttl_ms = 0);
/// The same without a time to live, kReplyHeaderBytes of it. `value_bytes` is at most kValueBytesMax.
inline void write_get_reply_head(const ReplyHead& head, size_t value_bytes, std::byte* to) {
  store_le(to, kReplyFormat | uint64_t{value_bytes} << 32);  // kOk, no flags
  store_le(to + 8, head.version);
  store_le(to + 16, head.epoch);
  store_le(to + 24, head.map_revision);
  store_le(to + 32, head.index);
}

/// Bytes of a MULTI_GET reply's head; the values follow in the entries' order.
[[nodiscard]] inline size_t multi_get_reply_head_bytes(size_t entries) {
  return kReplyHeaderBytes + entries * kMultiGetEntryBytes;
}

/// Encodes it into a buffer of at least that size. At most kBatchOpsMax entries (checked); an entry that is not OK has
/// no value.
[[nodiscard]] ByteSpan encode_multi_get_reply_head(const ReplyHead& head, std::span<const MultiGetEntry> entries,
                                                   MutableByteSpan buffer);

/// Builds the OK reply of a SCAN row by row, and keeps the page within its limits.
///
///   ScanReplyBuilder page(request.rows_max, request.bytes_max);
///   while (... && page.add(row)) ...            false: the row did not fit and was not added
///   page.finish(head, has_more);
///
/// Owns the bytes; reset() keeps their capacity. Thread: one at a time.
class ScanReplyBuilder {
 public:
  ScanReplyBuilder(size_t rows_max, size_t bytes_max) { reset(rows_max, bytes_max); }

  void reset(size_t rows_max, size_t bytes_max);

  /// Appends the row, unless the page has rows_max rows, or one row at least and no room for this one's key and value.
  [[nodiscard]] bool add(const ScanRow& row);

  /// Completes the reply; with `has_more` it carries the token that resumes after the last row added. Returns the whole
  /// reply, valid until the next reset() or the builder's end.
  ByteSpan finish(const ReplyHead& head, bool has_more);

  [[nodiscard]] size_t row_count() const { return row_count_; }
  /// Bytes of its buffer.
  [[nodiscard]] size_t capacity() const { return bytes_.capacity(); }

 private:
  std::string bytes_;
  size_t rows_max_ = 0;
  size_t bytes_max_ = 0;
  size_t row_count_ = 0;
  size_t payload_bytes_ = 0;  // keys and values so far
  size_t last_key_at_ = 0;
  size_t last_key_bytes_ = 0;
};

/// The key after which a resume token says to go on. INVALID_ARGUMENT if the token was not made by this service.
[[nodiscard]] absl::StatusOr<std::string_view> decode_resume_token(std::string_view token);

/// Errors of all decoders: INTERNAL saying what is malformed. A head that is not OK is a successful
/// decode, with no value, entries or rows.
[[nodiscard]] absl::StatusOr<WriteReply> decode_write_reply(ByteSpan bytes);
[[nodiscard]] absl::StatusOr<AddReply> decode_add_reply(ByteSpan bytes);
[[nodiscard]] absl::StatusOr<GetReply> decode_get_reply(ByteSpan bytes);
/// The same of what most replies are, a value without a time to live, into an empty `out`. False: it is another one, or
/// none; see decode_get_reply().
[[nodiscard]] inline bool decode_plain_get_reply(ByteSpan bytes, GetReply& out) {
  if (bytes.size() < kReplyHeaderBytes || bytes.size() > kReplyHeaderBytes + kValueBytesMax) return false;
  const std::byte* at = bytes.data();
  // Format, status, flags and count as one word.
  if (load_le<uint64_t>(at) != (kReplyFormat | (bytes.size() - kReplyHeaderBytes) << 32)) return false;
  out.head.version = load_le<uint64_t>(at + 8);
  out.head.epoch = load_le<uint64_t>(at + 16);
  out.head.map_revision = load_le<uint64_t>(at + 24);
  out.head.index = load_le<uint64_t>(at + 32);
  out.value = bytes.subspan(kReplyHeaderBytes);
  return true;
}
[[nodiscard]] absl::StatusOr<MultiGetReply> decode_multi_get_reply(ByteSpan bytes);
[[nodiscard]] absl::StatusOr<ScanReply> decode_scan_reply(ByteSpan bytes);

/// The reply's outcome as an absl::Status: OK, or the gRPC code with status_text().
[[nodiscard]] absl::Status to_status(const ReplyHead& head);

}  // namespace skua::kv

#endif  // SKUA_KVSTORE_CODEC_REPLY_H_
