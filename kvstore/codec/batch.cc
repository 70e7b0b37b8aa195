#include "kvstore/codec/batch.h"

#include "absl/strings/str_cat.h"
#include "kvstore/codec/methods.h"
#include "kvstore/codec/reply_header.h"
#include "kvstore/codec/request_header.h"
#include "rpc/base/check.h"

namespace skua::kv {
namespace {

constexpr uint8_t kOpCreateIfMissing = 1;
constexpr uint8_t kOpKeepTtl = 2;
constexpr auto kOpMarkFollows = static_cast<uint8_t>(kBatchOpMarkFollows);
constexpr uint8_t kOpFlags = kOpCreateIfMissing | kOpKeepTtl | kOpMarkFollows;

static_assert(kRequestHeaderBytes + kMutationHeadBytes + kBatchBytesMax <= kMessageBytesMax);

// An operation's head. Little endian.
//
//   offset  size  field
//        0     1  kind of the mutation
//        1     1  kind of its condition
//        2     1  flags
//        3     1  0
//        4     2  bytes of the key
//        6     2  0
//        8     4  bytes of the value
//       12     8  version of the condition, or 0
//       20     8  an ADD's delta; of others the time to live in ms
//
// Behind the head: with kOpMarkFollows the mark (8), key, value.
static_assert(kBatchOpHeaderBytes == 28);

/// Reads an operation into `op`, which is a Mutation(). False: the bytes are no operation.
bool read_op(ByteReader& reader, Mutation& op) {
  const ByteSpan head = reader.read_bytes(kBatchOpHeaderBytes);
  if (head.empty()) return false;
  const std::byte* const at = head.data();
  const auto flags = static_cast<uint8_t>(at[2]);
  const bool is_marked = (flags & kOpMarkFollows) != 0;
  if (is_marked) {
    const auto mark = RecordMark::of_word(reader.read<uint64_t>());
    if (!mark.has_value() || mark->empty()) return false;
    op.mark = *mark;
  }
  op.key = as_string_view(reader.read_bytes(load_le<uint16_t>(at + 4)));
  op.value = reader.read_bytes(load_le<uint32_t>(at + 8));
  op.kind = static_cast<Mutation::Kind>(at[0]);
  op.condition.kind = static_cast<Condition::Kind>(at[1]);
  op.condition.version = load_le<uint64_t>(at + 12);
  op.create_if_missing = (flags & kOpCreateIfMissing) != 0;
  op.keep_ttl = (flags & kOpKeepTtl) != 0;
  const auto number = load_le<uint64_t>(at + 20);
  if (op.kind == Mutation::Kind::kAdd) {
    op.delta = static_cast<int64_t>(number);
  } else {
    op.ttl_ms = number;
  }
  const bool are_reserved_clear = at[3] == std::byte{0} && load_le<uint16_t>(at + 6) == 0 && (flags & ~kOpFlags) == 0;
  return reader.ok() && are_reserved_clear && op.kind >= Mutation::Kind::kPut && op.kind <= Mutation::Kind::kCheck &&
         op.condition.kind <= Condition::Kind::kIfPresent &&
         (op.condition.kind == Condition::Kind::kIfVersion || op.condition.version == 0);
}

/// Writes an operation to where there is room for it.
void write_op(const Mutation& op, std::byte* at) {
  at[0] = static_cast<std::byte>(op.kind);
  at[1] = static_cast<std::byte>(op.condition.kind);
  at[2] = static_cast<std::byte>((op.create_if_missing ? kOpCreateIfMissing : 0) | (op.keep_ttl ? kOpKeepTtl : 0) |
                                 (op.mark.empty() ? 0 : kOpMarkFollows));
  at[3] = std::byte{0};
  store_le(at + 4, static_cast<uint16_t>(op.key.size()));
  store_le(at + 6, uint16_t{0});
  store_le(at + 8, static_cast<uint32_t>(op.value.size()));
  store_le(at + 12, op.condition.kind == Condition::Kind::kIfVersion ? op.condition.version : uint64_t{0});
  store_le(at + 20, op.kind == Mutation::Kind::kAdd ? static_cast<uint64_t>(op.delta) : op.ttl_ms);
  at += kBatchOpHeaderBytes;
  if (!op.mark.empty()) {
    store_le(at, op.mark.word());
    at += kMarkBytes;
  }
  copy_bytes(at, as_byte_span(op.key));
  copy_bytes(at + op.key.size(), op.value);
}

absl::Status check_size(size_t ops, size_t bytes) {
  if (ops < 1 || ops > kBatchOpsMax) return beyond_limit("a BATCH", "operation", ops, kBatchOpsMax, 1);
  return check_limit("a BATCH", "byte", bytes, kBatchBytesMax);
}

}  // namespace

void read_batch_op(ByteReader& reader, Mutation& op) {
  op = Mutation();
  static_cast<void>(read_op(reader, op));
}

absl::Status BatchOpsBuilder::add(const Mutation& op) {
  if (op.edits_row) return absl::InvalidArgumentError("a PATCH in a batch removes and counts no fields");
  if (absl::Status status = check_mutation(op); !status.ok()) return status;
  const size_t mark_bytes = op.mark.empty() ? 0 : kMarkBytes;
  const size_t bytes = kBatchOpHeaderBytes + mark_bytes + op.key.size() + op.value.size();
  if (absl::Status status = check_size(count_ + 1, bytes_.size() + bytes); !status.ok()) return status;
  bytes_.resize(bytes_.size() + bytes);
  write_op(op, reinterpret_cast<std::byte*>(bytes_.data()) + bytes_.size() - bytes);
  ++count_;
  has_checks_ |= op.kind == Mutation::Kind::kCheck;
  has_marks_ |= !op.mark.empty();
  return absl::OkStatus();
}

void BatchOpsBuilder::clear() {
  bytes_.clear();
  count_ = 0;
  has_checks_ = has_marks_ = false;
}

absl::StatusOr<ByteSpan> encode_batch_head(const BatchRequest& request, HeadBuffer& buffer) {
  if (absl::Status status = check_size(request.ops.size(), request.ops.bytes().size()); !status.ok()) return status;
  if (absl::Status status = check_request_id(request.id); !status.ok()) return status;
  ByteWriter writer(buffer);
  write_mutation_head(writer, {.route = request.route, .count = static_cast<uint32_t>(request.ops.size())},
                      {request.id, request.durability});
  return writer.written();
}

absl::StatusOr<BatchRequest> decode_batch(ByteSpan bytes, std::vector<Mutation>* ops) {
  RequestReader reader(Method::kBatch, bytes);
  MutationHead head;
  if (absl::Status status = reader.read_mutation_head(0, head); !status.ok()) return status;
  const RequestHeader& header = reader.header();
  if (absl::Status status = check_rules(Method::kBatch, head.condition, head.ttl_ms); !status.ok()) return status;
  if (header.key_bytes != 0) return reader.malformed("reserved bits are set");
  const ByteSpan encoded = bytes.subspan(kRequestHeaderBytes + kMutationHeadBytes);
  if (absl::Status status = check_size(header.count, encoded.size()); !status.ok()) return status;
  if (ops != nullptr) ops->clear();
  Mutation alone;
  for (uint32_t i = 0; i < header.count; ++i) {
    Mutation& op = ops != nullptr ? ops->emplace_back() : (alone = Mutation());
    if (!read_op(reader, op)) return reader.malformed("one of its operations is none");
    if (absl::Status status = check_mutation(op); !status.ok()) return status;
  }
  if (!reader.complete()) return reader.malformed("bytes follow its last operation");
  return BatchRequest{header.route, BatchOps(encoded, header.count), head.id, head.durability};
}

void read_batch_entry(ByteReader& reader, MutationResult& entry) {
  entry.status = static_cast<KvStatus>(reader.read<uint64_t>());
  entry.version = reader.read<uint64_t>();
  entry.value = reader.read<int64_t>();
}

ByteSpan encode_batch_reply(const BatchReply& reply, std::span<const MutationResult> entries, MutableByteSpan buffer) {
  SKUA_CHECK(reply.head.status == KvStatus::kOk, "use encode_error_reply");
  SKUA_CHECK(reply.applied == (reply.durability != Durability::kDefault), "say what durability an applied batch has");
  SKUA_CHECK(!entries.empty() && entries.size() <= kBatchOpsMax, "as many entries as the request has operations");
  SKUA_CHECK(buffer.size() >= batch_reply_bytes(entries.size()), "size the buffer with batch_reply_bytes");
  ByteWriter writer(buffer);
  const auto flags =
      static_cast<uint16_t>(static_cast<uint16_t>(reply.durability) | (reply.from_record ? kFromRecordBit : 0) |
                            (reply.applied ? 0 : kNotAppliedBit));
  write_reply_header(writer, reply.head, flags, entries.size());
  std::byte* at = buffer.data() + writer.size();
  for (const MutationResult& entry : entries) {
    store_le(at, static_cast<uint64_t>(entry.status));
    store_le(at + sizeof(uint64_t), entry.version);
    store_le(at + 2 * sizeof(uint64_t), entry.value);
    at += kBatchEntryBytes;
  }
  return buffer.first(batch_reply_bytes(entries.size()));
}

absl::StatusOr<BatchReply> decode_batch_reply(ByteSpan bytes) {
  ReplyReader reader(bytes);
  BatchReply reply;
  constexpr uint16_t kAllowed = kAchievedBits | kFromRecordBit | kNotAppliedBit;
  if (absl::Status status = reader.read_header(kAllowed, reply.head); !status.ok()) return status;
  if (reply.head.status != KvStatus::kOk) return reply;
  reply.applied = !reader.has(kNotAppliedBit);
  reply.durability = static_cast<Durability>(reader.flags() & kAchievedBits);
  reply.from_record = reader.has(kFromRecordBit);
  if (reply.applied != (reply.durability != Durability::kDefault)) {
    return reader.malformed("its durability disagrees with whether it was applied");
  }
  const uint32_t count = reader.count();
  if (count < 1 || count > kBatchOpsMax) return reader.malformed("it has 0 or too many entries");
  const ByteSpan table = reader.read_bytes(count * kBatchEntryBytes);
  if (!reader.complete()) return reader.malformed("its length disagrees with its entries'");
  for (size_t at = 0; at < table.size(); at += kBatchEntryBytes) {
    if (load_le<uint64_t>(table.data() + at) > UINT8_MAX) return reader.malformed("reserved bits are set");
  }
  reply.entries = BatchEntries(table, count);
  return reply;
}

}  // namespace skua::kv
