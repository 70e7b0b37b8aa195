// Replies of the key-value service: structs of views, and their encodings.
//
// Every reply starts with the same 40 bytes, little endian (docs/wire-format.md):
//
//    0  u8  format = 2
//    1  u8  status          KvStatus; not OK: `count` bytes of text follow and nothing else
//    2  u16 flags           SCAN: 1 = has_more. GET: 1 = u64 remaining ttl_ms follows the header. GET, MULTI_GET,
//                           SCAN: 2 = marks (types/record_mark.h) are in it. SCAN: 4 = counted rows are not in
//                           it. Writes: bits 0-1 achieved durability, 4 = from a completion record, 8 = BATCH that
//                           was not applied. Else 0
//    4  u32 count           GET: value bytes; MULTI_GET, BATCH: entries; SCAN: rows; other writes: 0
//    8  u64 version         GET: the key's; writes: the new one; ALREADY_EXISTS, VERSION_MISMATCH: the present one
//   16  u64 epoch           the server's for this shard; after WRONG_SHARD it tells the client who is behind
//   24  u64 map_revision    the newest shard map the server has seen
//   32  u64 index           the shard's commit index that this reply reflects; with shard and epoch it is a token
//
//   GET        [u64 ttl_ms] [u64 mark] | value       ADD, PATCH that edits   i64 value
//   MULTI_GET  { u8 status, u8 0, u16 0, u32 value bytes, u64 version } x count, [u64 mark x count] | value, ...
//   SCAN       u32 bytes of rows, u16 bytes of token, u16 0,
//              { u16 key bytes, u16 0, u32 value bytes, u64 version, [u64 mark], key, value } x count, resume token
//
// Entries and values of MULTI_GET are in the order of the keys. A GET's mark is not empty; the others may be.
//   BATCH      batch.h
//
// As in requests, the head is everything before the `|`. The value bytes follow as spans of their own and are not
// copied. Decoding returns views of the received bytes, which must be contiguous and outlive the struct. A decoder
// accepts exactly what the encoder can make. Decoders return INTERNAL for malformed bytes, because the bytes came from
// a server. Thread: any; all functions are pure.
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

/// What every reply has.
struct ReplyHead {
  KvStatus status = KvStatus::kOk;
  uint64_t version = 0;
  uint64_t epoch = 0;
  uint64_t map_revision = 0;
  uint64_t index = 0;
  std::string_view text{};  ///< of an error; empty if OK
};

/// The reply to PUT, DELETE, PATCH, APPEND and EXPIRE.
struct WriteReply {
  ReplyHead head;
  Durability durability = Durability::kDefault;  ///< what was achieved; not kDefault if OK
  bool from_record = false;  ///< true: this is the answer to an earlier attempt with the same RequestId
};

/// The reply to ADD, and to a PATCH that edits the row.
struct AddReply {
  WriteReply write;
  int64_t value = 0;  ///< ADD: the counter after the addition; PATCH: PatchCounts::word()
};

struct GetReply {
  ReplyHead head;
  ByteSpan value;
  uint64_t ttl_ms = 0;       ///< remaining time to live, if the request asked for it; 0: for ever
  RecordMark mark{};         ///< if the request asked for it
  bool size_only = false;    ///< if the request asked for that: there is no value, but its size:
  uint32_t value_bytes = 0;  ///< only with size_only
};

/// What the reply to a GET has beside or instead of the value, because the request asked for it.
struct GetExtras {
  uint64_t ttl_ms = 0;  ///< 0: for ever
  RecordMark mark{};
  bool size_only = false;  ///< no value follows the head

  [[nodiscard]] size_t bytes() const { return (ttl_ms == 0 ? 0 : sizeof ttl_ms) + (mark.empty() ? 0 : kMarkBytes); }
};

/// The result of one key of a MULTI_GET. Status: OK, NOT_FOUND, or RESOURCE_EXHAUSTED if the reply has no room for the
/// value (kBatchBytesMax), if earlier values left no room, so that the key was not read, or if the key is left out
/// (MultiGetWishes::memory_only). The client must ask for such a key alone.
struct MultiGetEntry {
  KvStatus status = KvStatus::kOk;
  uint64_t version = 0;
  ByteSpan value;
  RecordMark mark{};
};

/// The entries of a decoded MULTI_GET reply, in the order of the keys. They were checked; reading them allocates
/// nothing.
class MultiGetEntries {
 public:
  MultiGetEntries() = default;
  /// What stands in the reply; `marks` may be empty (not checked: the decoder does).
  MultiGetEntries(ByteSpan table, ByteSpan marks, ByteSpan values)
      : table_(table), marks_(marks), values_(values), count_(table.size() / kMultiGetEntryBytes) {}
  /// The next entry; nullopt after the last.
  std::optional<MultiGetEntry> next();
  [[nodiscard]] size_t size() const { return count_; }

 private:
  ByteReader table_{{}};
  ByteReader marks_{{}};  // empty: the reply has none
  ByteReader values_{{}};
  size_t count_ = 0;
};

struct MultiGetReply {
  ReplyHead head;
  MultiGetEntries entries;
  bool has_marks = false;
};

struct ScanRow {
  std::string_view key;
  uint64_t version = 0;
  ByteSpan value;
  RecordMark mark{};
};

/// The rows of a decoded SCAN reply, in key order. They were checked; reading them allocates nothing.
class ScanRows {
 public:
  ScanRows() = default;
  /// `rows` has `count` rows and nothing else (not checked: the decoder does).
  ScanRows(ByteSpan rows, size_t count, bool has_marks) : rows_(rows), count_(count), has_marks_(has_marks) {}
  /// The next row; nullopt after the last.
  std::optional<ScanRow> next();
  [[nodiscard]] size_t size() const { return count_; }

 private:
  ByteReader rows_{{}};
  size_t count_ = 0;
  bool has_marks_ = false;
};

struct ScanReply {
  ReplyHead head;
  ScanRows rows;
  uint32_t counted = 0;   ///< of a SCAN that counts: the rows of the page, which are not in it
  bool is_count = false;  ///< not if there were no rows
  bool has_more = false;
  bool has_marks = false;
  std::string_view resume_token;  ///< for the next page; empty unless has_more
};

/// Encodes an error reply, which answers any method. `head.status` must not be OK (checked). The text is cut to
/// kErrorTextBytesMax. As with all encoders into a HeadBuffer, the result is a view of `buffer`.
[[nodiscard]] ByteSpan encode_error_reply(const ReplyHead& head, HeadBuffer& buffer);

/// Encode the OK reply to a PUT, DELETE, PATCH, APPEND or EXPIRE, and to an ADD or a PATCH that edits the row.
[[nodiscard]] ByteSpan encode_write_reply(const WriteReply& reply, HeadBuffer& buffer);
[[nodiscard]] ByteSpan encode_add_reply(const AddReply& reply, HeadBuffer& buffer);

/// Encodes what stands before the value in the OK reply to a GET; with extras.size_only, the whole reply.
[[nodiscard]] ByteSpan encode_get_reply_head(const ReplyHead& head, size_t value_bytes, HeadBuffer& buffer,
                                             const GetExtras& extras = {});
/// As encode_get_reply_head() without extras: writes kReplyHeaderBytes to `to`. `value_bytes` is at most
/// kValueBytesMax (not checked).
inline void write_get_reply_head(const ReplyHead& head, size_t value_bytes, std::byte* to) {
  store_le(to, kReplyFormat | uint64_t{value_bytes} << 32);  // kOk, no flags
  store_le(to + 8, head.version);
  store_le(to + 16, head.epoch);
  store_le(to + 24, head.map_revision);
  store_le(to + 32, head.index);
}

/// Size of the head of a MULTI_GET reply. The values follow in the order of the entries.
[[nodiscard]] inline size_t multi_get_reply_head_bytes(size_t entries, bool with_marks = false) {
  return kReplyHeaderBytes + entries * (kMultiGetEntryBytes + (with_marks ? kMarkBytes : 0));
}

/// Encodes the head into a buffer of at least that size. There are at most kBatchOpsMax entries (both checked). An
/// entry that is not OK has no value.
[[nodiscard]] ByteSpan encode_multi_get_reply_head(const ReplyHead& head, std::span<const MultiGetEntry> entries,
                                                   MutableByteSpan buffer, bool with_marks = false);

/// Builds the OK reply to a SCAN row by row, and keeps the page within its limits.
///
///   ScanReplyBuilder page(request.rows_max, request.bytes_max);
///   while (... && page.add(row)) ...            false: the row did not fit and was not added
///   page.finish(head, has_more);
///
/// Owns the bytes; reset() keeps their capacity. Thread: one at a time.
class ScanReplyBuilder {
 public:
  ScanReplyBuilder(size_t rows_max, size_t bytes_max, bool with_marks = false) {
    reset(rows_max, bytes_max, with_marks);
  }

  void reset(size_t rows_max, size_t bytes_max, bool with_marks = false);

  /// Appends the row. False, and the row is not added, if the page has rows_max rows, or has a row and no room for
  /// this one. Heads of rows count, so that bytes_max bounds the reply also when keys and values are short.
  [[nodiscard]] bool add(const ScanRow& row);

  /// Instead of add(), for a SCAN without values: appends the row's key, version and mark. False also if the page has a
  /// row, and the values that it skipped have more than kScanReadBytesMax bytes with this one.
  [[nodiscard]] bool add_key(const ScanRow& row);

  /// Instead of add(), for a SCAN that counts. False, and the row is not counted, if the page has rows_max rows, or if
  /// it has a row, and the keys and values that it skipped have more than kScanReadBytesMax bytes with this one.
  [[nodiscard]] bool count(const ScanRow& row);

  /// Completes the reply. With `has_more` the reply has the token with which the scan resumes after the last row.
  /// Returns the whole reply, valid until the next reset() or the end of the builder.
  ByteSpan finish(const ReplyHead& head, bool has_more);

  [[nodiscard]] size_t row_count() const { return row_count_; }
  /// Bytes that were read for rows of the page and are not in it.
  [[nodiscard]] size_t skipped_bytes() const { return skipped_bytes_; }
  /// Bytes of the reply so far.
  [[nodiscard]] size_t size() const { return bytes_.size(); }
  /// Capacity of its buffer in bytes.
  [[nodiscard]] size_t capacity() const { return bytes_.capacity(); }

 private:
  [[nodiscard]] bool may_skip(size_t bytes) const;

  std::string bytes_;
  size_t rows_max_ = 0;
  size_t bytes_max_ = 0;
  bool with_marks_ = false;
  size_t row_count_ = 0;
  size_t payload_bytes_ = 0;  // of the rows so far, with their heads
  size_t skipped_bytes_ = 0;
  std::string last_key_;
  bool is_count_ = false;
};

/// The key after which the scan goes on, as a view of the token. INVALID_ARGUMENT if this service did not make the
/// token.
[[nodiscard]] absl::StatusOr<std::string_view> decode_resume_token(std::string_view token);

/// Decoders. The error of all of them is INTERNAL, which says what is malformed. A reply whose status is not OK decodes
/// successfully; it has no value, entries or rows.
[[nodiscard]] absl::StatusOr<WriteReply> decode_write_reply(ByteSpan bytes);
[[nodiscard]] absl::StatusOr<AddReply> decode_add_reply(ByteSpan bytes);
[[nodiscard]] absl::StatusOr<GetReply> decode_get_reply(ByteSpan bytes);
/// As decode_get_reply(), but only for the most frequent form: OK with a value, without extras. `out` must be
/// empty. False: the reply has another form or is malformed; call decode_get_reply().
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

/// The outcome of the reply as an absl::Status: OK, or the gRPC code with status_text().
[[nodiscard]] absl::Status to_status(const ReplyHead& head);

}  // namespace skua::kv

#endif  // SKUA_KVSTORE_CODEC_REPLY_H_
