// BATCH: up to kBatchOpsMax mutations of keys of one shard in one request. Either all of them are applied or none.
//
//   request   header, count = operations | mutation head | operations, one after the other:
//
//    0  u8  kind            1 put, 2 delete, 3 add, 4 append, 5 patch, 6 expire, 7 check
//    1  u8  condition       0 none, 1 if_version, 2 if_absent, 3 if_present; check: 1
//    2  u8  flags           1 = create if missing (patch), 2 = keep the time to live (put),
//                           4 = mark follows (put, patch)
//    3  u8  0
//    4  u16 key bytes
//    6  u16 0
//    8  u32 value bytes     put, append: the value; patch: the fields; else 0
//   12  u64 version         of if_version; else 0
//   20  u64 ttl_ms          put, expire; add: i64 delta; else 0
//   28  [u64 mark], key, value
//
// A patch in a batch does not edit the row: it removes no fields, and counts none.
//
// A check writes nothing. It lets the batch be applied only if the key has the version; version 0: only if it is
// absent. Nodes of before checks refuse the batch as malformed.
//
//   reply     header, count = operations, the flags of a write reply, and flag 8: nothing was applied, because some
//             operation could not be | { u8 status, u8 0, u16 0, u32 0, u64 version, i64 value } x count
//
// Operations are evaluated in their order. Each operation sees the effects of the operations before it. A key may occur
// more than once. A check of a key stands before the batch's writes of that key, because nobody knows their version
// before. The rules for conditions and times to live are those of the single mutations (request.h).
//
// Errors, lifetimes of views, and threads are as in request.h and reply.h.
#ifndef SKUA_KVSTORE_CODEC_BATCH_H_
#define SKUA_KVSTORE_CODEC_BATCH_H_

#include <cstddef>
#include <cstdint>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "kvstore/codec/reply.h"
#include "kvstore/codec/request.h"
#include "kvstore/types/encoded_items.h"
#include "rpc/base/bytes.h"

namespace skua::kv {

inline constexpr size_t kBatchOpHeaderBytes = 28;
inline constexpr std::byte kBatchOpMarkFollows{4};  ///< a flag of the head
inline constexpr size_t kBatchEntryBytes = 24;

/// Reads an operation that was checked.
void read_batch_op(ByteReader& reader, Mutation& op);

/// A view of encoded operations, which were checked.
class BatchOps : public EncodedItems<Mutation, read_batch_op> {
 public:
  using EncodedItems::EncodedItems;
  /// Calls `use` with the key of each operation. Reads no more than that takes.
  template <typename Use>
  void for_each_key(Use use) const;
};

template <typename Use>
void BatchOps::for_each_key(Use use) const {
  const std::byte* at = bytes().data();
  for (size_t i = 0; i < size(); ++i) {
    const size_t mark_bytes = (at[2] & kBatchOpMarkFollows) != std::byte{0} ? sizeof(uint64_t) : 0;
    const size_t key_bytes = load_le<uint16_t>(at + 4);
    const size_t value_bytes = load_le<uint32_t>(at + 8);
    at += kBatchOpHeaderBytes + mark_bytes;
    use(std::string_view(reinterpret_cast<const char*>(at), key_bytes));
    at += key_bytes + value_bytes;
  }
}

/// Encodes operations one after the other. Owns the bytes; clear() keeps their capacity. Thread: one at a time.
class BatchOpsBuilder {
 public:
  /// Appends an operation; copies key and value. INVALID_ARGUMENT if the operation breaks a limit or its method's
  /// rules, or if the batch would exceed kBatchOpsMax or kBatchBytesMax; then nothing was added.
  [[nodiscard]] absl::Status add(const Mutation& op);
  void clear();

  [[nodiscard]] size_t size() const { return count_; }
  [[nodiscard]] bool has_checks() const { return has_checks_; }
  [[nodiscard]] bool has_marks() const { return has_marks_; }
  /// Valid until the next add() or clear().
  [[nodiscard]] BatchOps ops() const { return {as_byte_span(bytes_), count_}; }

 private:
  std::string bytes_;
  size_t count_ = 0;
  bool has_checks_ = false;
  bool has_marks_ = false;
};

struct BatchRequest {
  Route route{};
  BatchOps ops{};  ///< 1..kBatchOpsMax; all keys are in route.shard (not checked here)
  RequestId id{};
  Durability durability = Durability::kDefault;
};

/// Encodes what stands before the operations, and returns it as a view of `buffer`. The sender puts
/// `request.ops.bytes()` behind it.
[[nodiscard]] absl::StatusOr<ByteSpan> encode_batch_head(const BatchRequest& request, HeadBuffer& buffer);
/// `ops`: if not null, gets the operations in place of what it has, as views of `bytes`, so that nobody decodes them
/// again. After an error its contents mean nothing.
[[nodiscard]] absl::StatusOr<BatchRequest> decode_batch(ByteSpan bytes, std::vector<Mutation>* ops = nullptr);

/// Reads a result of a BATCH reply that was checked.
void read_batch_entry(ByteReader& reader, MutationResult& entry);

/// The operations' results of a decoded BATCH reply, in the operations' order. If the batch was not applied: kOk for an
/// operation that could have been applied, with version and value 0.
using BatchEntries = EncodedItems<MutationResult, read_batch_entry>;

struct BatchReply {
  ReplyHead head;  ///< version: that of the batch, which its operations share; 0: nothing was changed
  bool applied = false;
  Durability durability = Durability::kDefault;  ///< what was achieved; kDefault if not applied
  bool from_record = false;                      ///< see WriteReply
  BatchEntries entries;
};

/// Size of the OK reply to a BATCH.
[[nodiscard]] inline size_t batch_reply_bytes(size_t entries) {
  return kReplyHeaderBytes + entries * kBatchEntryBytes;
}

/// Encodes the OK reply with `entries` into `buffer`, which has at least batch_reply_bytes() (checked). Ignores
/// `reply.entries`.
[[nodiscard]] ByteSpan encode_batch_reply(const BatchReply& reply, std::span<const MutationResult> entries,
                                          MutableByteSpan buffer);
[[nodiscard]] absl::StatusOr<BatchReply> decode_batch_reply(ByteSpan bytes);

}  // namespace skua::kv

#endif  // SKUA_KVSTORE_CODEC_BATCH_H_
