// What a record of the log says: the effects of one mutation or batch, evaluated, so that replay decides nothing; and, if
// it is to happen exactly once, whose it was and what it was answered.
//
//    record payload = [entry] [completion] effect effect ...      the record's index is the version of all of them; no key twice
//                   | [entry] barrier
//
//    effect (little endian)                          completion
//     0 u8  kind (1 put, 2 delete)                    0 u8  kind 3
//     1 u8  flags (1: expires_at follows the head)    1 u8  0
//     2 u16 key bytes                                 2 u16 results of a batch; 0: not a batch
//     4 u32 value bytes; 0 for a delete               4 u32 0
//     8 [u64 expires_at: unix time in ms],            8 u64 client_id   16 u64 seq   24 u64 first_incomplete
//       key, value                                   32 i64 value: a counter's
//                                                    40 { u8 status, 7 zeros, i64 value } per result
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
#include "kvstore/types/request_id.h"
#include "rpc/base/bytes.h"

namespace skua::kv {

/// Views into the decoder's input, or the submitter's bytes.
struct Effect {
  std::string_view key{};
  std::optional<ByteSpan> value{};  ///< nullopt: the key is deleted
  uint64_t expires_at = 0;          ///< 0: never; not for a deletion
};

/// What a mutation that took effect was answered, apart from its version, which is the record's index.
struct Completion {
  RequestId id{};
  int64_t value = 0;         ///< MutationResult's
  ByteSpan batch_results{};  ///< encoded, kBatchResultBytes each; empty: not a batch
};

/// Of an entry of a replicated shard in a replica's own log.
struct EntryHead {
  uint64_t epoch = 0;         ///< that made it; the record's own epoch is the one in which this log took it
  uint64_t commit_index = 0;  ///< at least so much was committed then

  friend bool operator==(const EntryHead&, const EntryHead&) = default;
};

inline constexpr size_t kEntryHeadBytes = 24;
inline constexpr size_t kEffectHeadBytesMax = 16;
inline constexpr size_t kCompletionHeadBytes = 40;
inline constexpr size_t kBatchResultBytes = 16;

/// Holds what stands before an effect's key, and a completion of a single mutation before that.
using EffectHead = std::array<std::byte, kCompletionHeadBytes + kEffectHeadBytesMax>;

/// What stands before key and value, which are within codec/size_limits.h.
void encode_effect_head(const Effect& effect, ByteWriter& out);

/// Of head, key and value.
[[nodiscard]] size_t encoded_bytes(const Effect& effect);

/// All but the results of a batch, which follow.
void encode_completion_head(const Completion& completion, ByteWriter& out);

/// A batch's results: their status is OK, or NOT_FOUND for the deletion of what was not there.
void append_batch_result(const MutationResult& result, std::string& out);
/// The result of operation `at` of a batch that got `version`.
[[nodiscard]] MutationResult batch_result(ByteSpan results, size_t at, uint64_t version);

void encode_entry_head(const EntryHead& entry, ByteWriter& out);
/// The payload of a barrier, without an entry's head.
[[nodiscard]] std::string encode_barrier(ByteSpan bytes);

/// The bytes of the barrier that a payload without an entry's head is; nullopt: it is none.
[[nodiscard]] std::optional<ByteSpan> read_barrier(ByteSpan payload);

/// Walks through a payload.
class EffectReader {
 public:
  explicit EffectReader(ByteSpan payload);

  /// What the payload begins with.
  [[nodiscard]] const std::optional<EntryHead>& entry() const { return entry_; }
  [[nodiscard]] const std::optional<Completion>& completion() const { return completion_; }
  /// All that there is then.
  [[nodiscard]] const std::optional<ByteSpan>& barrier() const { return barrier_; }
  /// The next effect; nullopt at the end, and at what is no effect.
  [[nodiscard]] std::optional<Effect> next();
  /// After nullopt: everything was read.
  [[nodiscard]] bool complete() const { return rest_.empty(); }

 private:
  ByteSpan rest_;
  std::optional<EntryHead> entry_;
  std::optional<Completion> completion_;
  std::optional<ByteSpan> barrier_;
};

}  // namespace skua::kv

#endif  // SKUA_KVSTORE_CODEC_EFFECT_H_
