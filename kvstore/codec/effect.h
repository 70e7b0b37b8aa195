// The payload of a log record. It holds the effects of one mutation or batch. The effects are evaluated already, so
// replay decides nothing. If the mutation must happen exactly once, the payload also has its completion: whose mutation
// it was, and what the client was answered.
//
//    record payload = [entry] [completion] effect effect ...   the record's index is the version of all effects;
//                   | [entry] barrier                          no key occurs twice
//
//    effect (little endian)                          completion
//     0 u8  kind (1 put, 2 delete)                    0 u8  kind 3
//     1 u8  flags (1: expires_at follows the head,    1 u8  0
//                  2: mark follows)
//     2 u16 key bytes                                 2 u16 results of a batch; 0: not a batch
//     4 u32 value bytes; 0 for a delete               4 u32 0
//     8 [u64 expires_at: unix time in ms],            8 u64 client_id   16 u64 seq   24 u64 first_incomplete
//       [u64 mark (record_mark.h)], key, value       32 i64 value: a counter's; counts of an edit
//                                                    40 { u8 status, 7 zeros, i64 value } per result
//
//    entry                                           barrier
//     0 u64 4   8 u64 epoch   16 u64 commit_index     0 u32 5   4 u32 size   8 bytes (replication/epoch_history.h)
#ifndef SKUA_KVSTORE_CODEC_EFFECT_H_
#define SKUA_KVSTORE_CODEC_EFFECT_H_

#include <array>
#include <cstddef>
#include <cstdint>
#include <optional>
#include <span>
#include <string>
#include <string_view>

#include "kvstore/types/mutation.h"
#include "kvstore/types/record_mark.h"
#include "kvstore/types/request_id.h"
#include "rpc/base/bytes.h"

namespace skua::kv {

/// The state of one key after a mutation. The members are views into the decoder's input, or into the submitter's
/// bytes.
struct Effect {
  std::string_view key{};
  std::optional<ByteSpan> value{};  ///< nullopt: the key is deleted
  uint64_t expires_at = 0;          ///< 0: never; not for a deletion
  RecordMark mark{};                ///< not for a deletion
};

/// The answer to a mutation that took effect. Its version is not stored: it is the index of the record.
struct Completion {
  RequestId id{};
  int64_t value = 0;         ///< MutationResult::value
  ByteSpan batch_results{};  ///< encoded, kBatchResultBytes per operation; empty: not a batch
};

/// What stands before an entry of a replicated shard, in a replica's own log.
struct EntryHead {
  uint64_t epoch = 0;         ///< of the entry; the epoch of the record is the one in which this log took the entry
  uint64_t commit_index = 0;  ///< when the record was written, at least the entries up to this index were committed

  friend bool operator==(const EntryHead&, const EntryHead&) = default;
};

inline constexpr size_t kEntryHeadBytes = 24;
inline constexpr size_t kEffectHeadBytesMax = 24;
inline constexpr size_t kCompletionHeadBytes = 40;
inline constexpr size_t kBatchResultBytes = 16;

/// Holds what stands before an effect's key: the head of the effect, and before it the completion of a single mutation.
using EffectHead = std::array<std::byte, kCompletionHeadBytes + kEffectHeadBytesMax>;

/// Writes what stands before key and value. Both must be within codec/size_limits.h.
void encode_effect_head(const Effect& effect, ByteWriter& out);

/// Size of an encoded effect: head, key and value.
[[nodiscard]] size_t encoded_bytes(const Effect& effect);

/// Writes the whole effect to `to`, where encoded_bytes() have room. `effect` is a view of these bytes then. Returns
/// where they end. Key and value must be within codec/size_limits.h.
[[nodiscard]] std::byte* encode_effect(Effect& effect, std::byte* to);

/// Writes a completion without the results of a batch, which must follow.
void encode_completion_head(const Completion& completion, ByteWriter& out);

/// Writes the results of all operations of a batch to `to`, which has kBatchResultBytes for each of them. Their status
/// is OK, or NOT_FOUND for a DELETE of a key that was absent.
void encode_batch_results(std::span<const MutationResult> results, MutableByteSpan to);
/// The result of operation `at` of a batch whose version is `version`.
[[nodiscard]] MutationResult batch_result(ByteSpan results, size_t at, uint64_t version);

void encode_entry_head(const EntryHead& entry, ByteWriter& out);
/// The payload of a barrier with these bytes, without an entry's head.
[[nodiscard]] std::string encode_barrier(ByteSpan bytes);

/// The bytes of a barrier, as a view of `payload`, which has no entry's head; nullopt if the payload is no barrier.
[[nodiscard]] std::optional<ByteSpan> read_barrier(ByteSpan payload);

/// Reads a payload. What it returns are views of the payload.
class EffectReader {
 public:
  explicit EffectReader(ByteSpan payload);

  /// What the payload begins with; nullopt if it has none.
  [[nodiscard]] const std::optional<EntryHead>& entry() const { return entry_; }
  [[nodiscard]] const std::optional<Completion>& completion() const { return completion_; }
  /// If the payload is a barrier: its bytes. Then there is no completion and no effect.
  [[nodiscard]] const std::optional<ByteSpan>& barrier() const { return barrier_; }
  /// The next effect; nullopt at the end, and at bytes that are no effect.
  [[nodiscard]] std::optional<Effect> next();
  /// After next() returned nullopt: true if everything was read, false if bytes follow that are no effect.
  [[nodiscard]] bool complete() const { return rest_.empty(); }

 private:
  ByteSpan rest_;
  std::optional<EntryHead> entry_;
  std::optional<Completion> completion_;
  std::optional<ByteSpan> barrier_;
};

}  // namespace skua::kv

#endif  // SKUA_KVSTORE_CODEC_EFFECT_H_
