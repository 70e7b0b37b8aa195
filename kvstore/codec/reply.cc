#include "kvstore/codec/reply.h"

#include <algorithm>
#include <array>

#include "absl/strings/str_cat.h"
#include "kvstore/codec/reply_header.h"
#include "kvstore/types/fields.h"
#include "rpc/base/check.h"

namespace skua::kv {
namespace {

constexpr uint16_t kGetHasTtl = 1;
constexpr uint16_t kScanHasMore = 1;
constexpr uint16_t kHasMarks = 2;
constexpr uint16_t kGetIsSize = 4;
constexpr uint16_t kScanIsCount = 4;
constexpr char kResumeAfterKey = 1;
constexpr size_t kScanFixedBytes = sizeof(uint32_t) + 2 * sizeof(uint16_t);
constexpr size_t kScanRowHeaderBytes = 2 * sizeof(uint16_t) + sizeof(uint32_t) + sizeof(uint64_t);

static_assert(kReplyHeaderBytes + kErrorTextBytesMax <= kHeadBytesMax);
static_assert(kReplyHeaderBytes + kBatchOpsMax * (kMultiGetEntryBytes + kMarkBytes) + kBatchBytesMax <=
              kMessageBytesMax);

/// The header as it lies in the reply (little endian, no gaps). It is read in one go, because every reply is decoded.
struct HeaderBytes {
  uint8_t format;
  KvStatus status;
  uint16_t flags;
  uint32_t count;
  uint64_t version;
  uint64_t epoch;
  uint64_t map_revision;
  uint64_t index;
};
static_assert(sizeof(HeaderBytes) == kReplyHeaderBytes);

/// `sound` becomes false if reserved bits are set. `marks` is empty, or has one for each entry.
MultiGetEntry read_entry(ByteReader& table, ByteReader& marks, ByteReader& values, bool& sound) {
  MultiGetEntry entry;
  entry.status = static_cast<KvStatus>(table.read<uint8_t>());
  sound = table.read<uint8_t>() == 0;
  sound = table.read<uint16_t>() == 0 && sound;
  const auto value_bytes = table.read<uint32_t>();
  entry.version = table.read<uint64_t>();
  const auto mark = RecordMark::of_word(marks.remaining() == 0 ? 0 : marks.read<uint64_t>());
  sound = sound && mark.has_value();
  entry.mark = mark.value_or(RecordMark());
  entry.value = values.read_bytes(value_bytes);
  return entry;
}

ScanRow read_row(ByteReader& rows, bool has_marks, bool& sound) {
  ScanRow row;
  const auto key_bytes = rows.read<uint16_t>();
  sound = rows.read<uint16_t>() == 0;
  const auto value_bytes = rows.read<uint32_t>();
  row.version = rows.read<uint64_t>();
  const auto mark = RecordMark::of_word(has_marks ? rows.read<uint64_t>() : 0);
  sound = sound && mark.has_value();
  row.mark = mark.value_or(RecordMark());
  row.key = as_string_view(rows.read_bytes(key_bytes));
  row.value = rows.read_bytes(value_bytes);
  return row;
}

/// Reads the part that all replies to single writes have.
absl::Status read_write(ReplyReader& reader, WriteReply& reply) {
  constexpr uint16_t kAllowed = kAchievedBits | kFromRecordBit;
  if (absl::Status status = reader.read_header(kAllowed, reply.head); !status.ok()) return status;
  if (reply.head.status != KvStatus::kOk) return absl::OkStatus();
  reply.durability = static_cast<Durability>(reader.flags() & kAchievedBits);
  reply.from_record = reader.has(kFromRecordBit);
  if (reply.durability == Durability::kDefault || reader.count() != 0) {
    return reader.malformed("it does not say what durability it has, or has a count");
  }
  return absl::OkStatus();
}

void write_write(ByteWriter& writer, const WriteReply& reply) {
  SKUA_CHECK(reply.head.status == KvStatus::kOk, "use encode_error_reply");
  SKUA_CHECK(reply.durability != Durability::kDefault, "a write that was done has a durability");
  const auto flags =
      static_cast<uint16_t>(static_cast<uint16_t>(reply.durability) | (reply.from_record ? kFromRecordBit : 0));
  write_reply_header(writer, reply.head, flags, 0);
}

}  // namespace

void write_reply_header(ByteWriter& writer, const ReplyHead& head, uint16_t flags, size_t count) {
  // Writes whole words. If a HeaderBytes were filled with smaller fields and then copied in wider loads, each load
  // would wait for the stores of the fields.
  const uint64_t first = uint64_t{kReplyFormat} | static_cast<uint64_t>(head.status) << 8 | uint64_t{flags} << 16 |
                         static_cast<uint64_t>(count) << 32;
  writer.write(std::array{first, head.version, head.epoch, head.map_revision, head.index});
}

absl::Status ReplyReader::malformed(const char* what) const {
  return absl::InternalError(absl::StrCat("reply of ", size_, " bytes is malformed: ", what));
}

absl::Status ReplyReader::read_header(uint16_t flags_allowed, ReplyHead& head) {
  const auto header = read<HeaderBytes>();
  if (!ok()) return malformed("shorter than its header");
  if (header.format != kReplyFormat) {
    return absl::InternalError(
        absl::StrCat("reply has format ", header.format, "; this build reads format ", kReplyFormat));
  }
  head.status = header.status;
  head.version = header.version;
  head.epoch = header.epoch;
  head.map_revision = header.map_revision;
  head.index = header.index;
  flags_ = header.flags;
  count_ = header.count;
  if ((flags_ & ~(head.status == KvStatus::kOk ? flags_allowed : 0)) != 0) return malformed("unknown flags");
  if (head.status == KvStatus::kOk) return absl::OkStatus();
  head.text = as_string_view(read_bytes(count_));
  if (!complete() || count_ > kErrorTextBytesMax) return malformed("its length disagrees with its text's");
  return absl::OkStatus();
}

std::optional<MultiGetEntry> MultiGetEntries::next() {
  if (table_.remaining() == 0) return std::nullopt;
  bool sound = false;
  return read_entry(table_, marks_, values_, sound);
}

std::optional<ScanRow> ScanRows::next() {
  if (rows_.remaining() == 0) return std::nullopt;
  bool sound = false;
  return read_row(rows_, has_marks_, sound);
}

ByteSpan encode_error_reply(const ReplyHead& head, HeadBuffer& buffer) {
  SKUA_CHECK(head.status != KvStatus::kOk, "an error reply needs a status other than OK");
  const std::string_view text = head.text.substr(0, kErrorTextBytesMax);
  ByteWriter writer(buffer);
  write_reply_header(writer, head, 0, text.size());
  writer.write_bytes(as_byte_span(text));
  return writer.written();
}

ByteSpan encode_write_reply(const WriteReply& reply, HeadBuffer& buffer) {
  ByteWriter writer(buffer);
  write_write(writer, reply);
  return writer.written();
}

ByteSpan encode_add_reply(const AddReply& reply, HeadBuffer& buffer) {
  ByteWriter writer(buffer);
  write_write(writer, reply.write);
  writer.write(reply.value);
  return writer.written();
}

ByteSpan encode_get_reply_head(const ReplyHead& head, size_t value_bytes, HeadBuffer& buffer, const GetExtras& extras) {
  SKUA_CHECK(head.status == KvStatus::kOk, "use encode_error_reply");
  SKUA_CHECK(value_bytes <= kValueBytesMax, "no value is larger than kValueBytesMax");
  ByteWriter writer(buffer);
  const auto flags = static_cast<uint16_t>((extras.ttl_ms != 0 ? kGetHasTtl : 0) |
                                           (extras.mark.empty() ? 0 : kHasMarks) | (extras.size_only ? kGetIsSize : 0));
  write_reply_header(writer, head, flags, value_bytes);
  if (extras.ttl_ms != 0) writer.write(extras.ttl_ms);
  if (!extras.mark.empty()) writer.write(extras.mark.word());
  return writer.written();
}

ByteSpan encode_multi_get_reply_head(const ReplyHead& head, std::span<const MultiGetEntry> entries,
                                     MutableByteSpan buffer, bool with_marks) {
  SKUA_CHECK(head.status == KvStatus::kOk, "use encode_error_reply");
  SKUA_CHECK(entries.size() <= kBatchOpsMax, "more entries than a request can have keys");
  SKUA_CHECK(buffer.size() >= multi_get_reply_head_bytes(entries.size(), with_marks),
             "size the buffer with multi_get_reply_head_bytes");
  ByteWriter writer(buffer);
  write_reply_header(writer, head, with_marks ? kHasMarks : uint16_t{0}, entries.size());
  for (const MultiGetEntry& entry : entries) {
    write_fields(writer, entry.status, uint8_t{0}, uint16_t{0}, static_cast<uint32_t>(entry.value.size()),
                 entry.version);
  }
  for (size_t i = 0; with_marks && i < entries.size(); ++i) writer.write(entries[i].mark.word());
  return writer.written();
}

void ScanReplyBuilder::reset(size_t rows_max, size_t bytes_max, bool with_marks) {
  bytes_.assign(kReplyHeaderBytes + kScanFixedBytes, '\0');
  rows_max_ = rows_max;
  bytes_max_ = bytes_max;
  with_marks_ = with_marks;
  is_count_ = false;
  row_count_ = 0;
  payload_bytes_ = 0;
  skipped_bytes_ = 0;
}

/// The database reads a row's value even if the reply leaves the value out. Without a bound one page could keep a
/// reader thread busy with kScanRowsMax values of the largest size.
bool ScanReplyBuilder::may_skip(size_t bytes) const {
  return row_count_ == 0 || skipped_bytes_ + bytes <= kScanReadBytesMax;
}

bool ScanReplyBuilder::add(const ScanRow& row) {
  const size_t row_bytes = kScanRowHeaderBytes + (with_marks_ ? kMarkBytes : 0) + row.key.size() + row.value.size();
  if (row_count_ >= rows_max_) return false;
  if (row_count_ > 0 && payload_bytes_ + row_bytes > bytes_max_) return false;
  std::array<std::byte, kScanRowHeaderBytes + kMarkBytes> header;
  ByteWriter writer(header);
  write_fields(writer, static_cast<uint16_t>(row.key.size()), uint16_t{0}, static_cast<uint32_t>(row.value.size()),
               row.version);
  if (with_marks_) writer.write(row.mark.word());
  bytes_.append(as_string_view(writer.written()));
  last_key_.assign(row.key);
  bytes_.append(row.key);
  bytes_.append(as_string_view(row.value));
  payload_bytes_ += row_bytes;
  ++row_count_;
  return true;
}

bool ScanReplyBuilder::add_key(const ScanRow& row) {
  if (!may_skip(row.value.size()) || !add({row.key, row.version, {}, row.mark})) return false;
  skipped_bytes_ += row.value.size();
  return true;
}

bool ScanReplyBuilder::count(const ScanRow& row) {
  const size_t row_bytes = row.key.size() + row.value.size();
  is_count_ = true;
  if (row_count_ >= rows_max_ || !may_skip(row_bytes)) return false;
  skipped_bytes_ += row_bytes;
  last_key_.assign(row.key);
  ++row_count_;
  return true;
}

ByteSpan ScanReplyBuilder::finish(const ReplyHead& head, bool has_more) {
  SKUA_CHECK(head.status == KvStatus::kOk, "use encode_error_reply");
  SKUA_CHECK(!has_more || row_count_ > 0, "a page that has more holds one row at least");
  const size_t rows_bytes = bytes_.size() - kReplyHeaderBytes - kScanFixedBytes;
  if (has_more) {
    bytes_.push_back(kResumeAfterKey);
    bytes_.append(last_key_);
  }
  ByteWriter writer(std::as_writable_bytes(std::span(bytes_)));
  const auto flags = static_cast<uint16_t>((has_more ? kScanHasMore : 0) | (with_marks_ ? kHasMarks : 0) |
                                           (is_count_ ? kScanIsCount : 0));
  write_reply_header(writer, head, flags, row_count_);
  write_fields(writer, static_cast<uint32_t>(rows_bytes), static_cast<uint16_t>(has_more ? 1 + last_key_.size() : 0),
               uint16_t{0});
  return as_byte_span(bytes_);
}

absl::StatusOr<std::string_view> decode_resume_token(std::string_view token) {
  if (token.size() < 2 || token.size() > kResumeTokenBytesMax || token.front() != kResumeAfterKey) {
    return absl::InvalidArgumentError(
        absl::StrCat("resume token of ", token.size(), " bytes was not made by this service; scan from the start"));
  }
  return token.substr(1);
}

absl::StatusOr<WriteReply> decode_write_reply(ByteSpan bytes) {
  ReplyReader reader(bytes);
  WriteReply reply;
  if (absl::Status status = read_write(reader, reply); !status.ok()) return status;
  if (!reader.complete()) return reader.malformed("bytes follow its header");
  return reply;
}

absl::StatusOr<AddReply> decode_add_reply(ByteSpan bytes) {
  ReplyReader reader(bytes);
  AddReply reply;
  if (absl::Status status = read_write(reader, reply.write); !status.ok()) return status;
  if (reply.write.head.status != KvStatus::kOk) return reply;
  reply.value = reader.read<int64_t>();
  if (!reader.complete()) return reader.malformed("its length is not that of a header and a number");
  return reply;
}

absl::StatusOr<GetReply> decode_get_reply(ByteSpan bytes) {
  ReplyReader reader(bytes);
  GetReply reply;
  constexpr uint16_t kAllowed = kGetHasTtl | kHasMarks | kGetIsSize;
  if (absl::Status status = reader.read_header(kAllowed, reply.head); !status.ok()) return status;
  const uint32_t count = reader.count();
  if (reply.head.status != KvStatus::kOk) return reply;
  if (reader.has(kGetHasTtl)) {
    reply.ttl_ms = reader.read<uint64_t>();
    if (reply.ttl_ms == 0) return reader.malformed("a key that has expired");
  }
  if (reader.has(kHasMarks)) {
    const auto mark = RecordMark::of_word(reader.read<uint64_t>());
    if (!mark.has_value() || mark->empty()) return reader.malformed("its mark is none");
    reply.mark = *mark;
  }
  reply.size_only = reader.has(kGetIsSize);
  if (reply.size_only) {
    reply.value_bytes = count;
  } else {
    reply.value = reader.read_bytes(count);
  }
  if (!reader.complete() || count > kValueBytesMax) {
    return reader.malformed("its length disagrees with its value's");
  }
  return reply;
}

absl::StatusOr<MultiGetReply> decode_multi_get_reply(ByteSpan bytes) {
  ReplyReader reader(bytes);
  MultiGetReply reply;
  if (absl::Status status = reader.read_header(kHasMarks, reply.head); !status.ok()) return status;
  const uint32_t count = reader.count();
  if (reply.head.status != KvStatus::kOk) return reply;
  if (count > kBatchOpsMax) return reader.malformed("more entries than kBatchOpsMax");
  const ByteSpan table = reader.read_bytes(count * kMultiGetEntryBytes);
  reply.has_marks = reader.has(kHasMarks);
  const ByteSpan marks = reader.read_bytes(reply.has_marks ? count * kMarkBytes : 0);
  const ByteSpan values = reader.read_rest();
  if (!reader.ok()) return reader.malformed("it ends inside its entries");

  ByteReader table_reader(table);
  ByteReader mark_reader(marks);
  ByteReader value_reader(values);
  while (table_reader.remaining() > 0) {
    bool sound = false;
    const MultiGetEntry entry = read_entry(table_reader, mark_reader, value_reader, sound);
    if (!sound || (entry.status != KvStatus::kOk && !entry.value.empty())) {
      return reader.malformed("reserved bits are set, or an error has a value");
    }
  }
  if (!value_reader.complete()) {
    return reader.malformed("its length disagrees with its values'");
  }
  reply.entries = MultiGetEntries(table, marks, values);
  return reply;
}

absl::StatusOr<ScanReply> decode_scan_reply(ByteSpan bytes) {
  ReplyReader reader(bytes);
  ScanReply reply;
  constexpr uint16_t kAllowed = kScanHasMore | kHasMarks | kScanIsCount;
  if (absl::Status status = reader.read_header(kAllowed, reply.head); !status.ok()) return status;
  const uint32_t count = reader.count();
  if (reply.head.status != KvStatus::kOk) return reply;
  const auto rows_bytes = reader.read<uint32_t>();
  const auto token_bytes = reader.read<uint16_t>();
  const auto reserved = reader.read<uint16_t>();
  const ByteSpan rows = reader.read_bytes(rows_bytes);
  reply.resume_token = as_string_view(reader.read_bytes(token_bytes));
  reply.has_more = reader.has(kScanHasMore);
  reply.has_marks = reader.has(kHasMarks);
  if (!reader.complete() || reserved != 0) {
    return reader.malformed("its length disagrees with its rows' and token's");
  }
  if (reply.has_more != decode_resume_token(reply.resume_token).ok() || reply.has_more != (token_bytes != 0)) {
    return reader.malformed("its resume token disagrees with its flags");
  }

  reply.is_count = reader.has(kScanIsCount);
  if (reply.is_count) {
    if (count == 0 || count > kScanRowsMax || rows_bytes != 0 || reply.has_marks) {
      return reader.malformed("a count is 0, or beyond kScanRowsMax, or has rows or marks");
    }
    reply.counted = count;
    return reply;
  }
  ByteReader row_reader(rows);
  std::string_view previous;
  for (uint32_t i = 0; i < count; ++i) {
    bool sound = false;
    const ScanRow row = read_row(row_reader, reply.has_marks, sound);
    if (!row_reader.ok() || !sound) return reader.malformed("it ends inside a row");
    if (row.key <= previous) return reader.malformed("its rows are not in key order");
    previous = row.key;
  }
  if (!row_reader.complete()) return reader.malformed("bytes follow its last row");
  reply.rows = ScanRows(rows, count, reply.has_marks);
  return reply;
}

absl::Status to_status(const ReplyHead& head) {
  if (head.status == KvStatus::kOk) return absl::OkStatus();
  return absl::Status(to_status_code(head.status), status_text(head.status, head.text));
}

}  // namespace skua::kv
