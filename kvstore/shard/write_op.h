// A write on its way through a shard: the request, its evaluation, its record, and its answer.
#ifndef SKUA_KVSTORE_SHARD_WRITE_OP_H_
#define SKUA_KVSTORE_SHARD_WRITE_OP_H_

#include <array>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "kvstore/codec/effect.h"
#include "kvstore/codec/key_hash.h"
#include "kvstore/shard/log_op.h"
#include "kvstore/types/durability.h"
#include "kvstore/types/mutation.h"
#include "kvstore/types/request_id.h"
#include "rpc/base/bytes.h"

namespace skua::kv {

class BatchWork;
struct Entry;

/// What a write does to one of its keys, and the hash of that key (KeyHasher).
struct HashedEffect : Effect {
  uint64_t key_hash = 0;

  [[nodiscard]] HashedKey hashed_key() const { return {key, key_hash}; }
};

/// The submitter owns the op, and keeps it and the bytes of the mutation until EngineEvents::write_done. Then the op
/// may be reused.
struct WriteOp final : LogOp {
  WriteOp();
  ~WriteOp();

  Mutation mutation{};
  std::span<const Mutation> batch{};  ///< not empty: an atomic batch, executed instead of `mutation`
  RequestId id{};                     ///< client 0: repetitions are not recognized, and are executed
  Durability durability = Durability::kDefault;
  void* context = nullptr;

  /// Of a batch: OK if the batch was applied or `not_applied` is set; otherwise why the whole batch failed.
  MutationResult result{};
  /// A batch's results, one for each operation. If an operation cannot be applied, the batch is `not_applied`: that
  /// operation has its own result, and the others have OK without a version. Deleting an absent key gives NOT_FOUND and
  /// does not stop the batch. A check that holds has the key's version.
  std::vector<MutationResult> results{};
  bool not_applied = false;
  bool from_record = false;  ///< `result` is the answer of an earlier attempt
  Durability achieved = Durability::kDefault;
  std::string why;  ///< for people, if the status needs it; empty otherwise

  // --- The following is the shard's.
  /// Forgets what an earlier use of the op left.
  void reset(Shard& owner);
  /// The write has no effect as a whole, and this is its answer. A batch's results are dropped.
  void answer(KvStatus status, std::string_view text);
  /// The write is answered: gives back the memory that only its evaluation needed.
  void drop_scratch();

  [[nodiscard]] bool is_batch() const { return !batch.empty(); }
  /// What the write does to its keys.
  [[nodiscard]] std::span<const HashedEffect> effects() const;
  /// Bytes of the record's payload.
  [[nodiscard]] size_t payload_bytes() const;
  /// What the record says about the write's request.
  [[nodiscard]] Completion completion() const;
  /// The record's payload. The pieces are views of the op and of the request.
  [[nodiscard]] std::array<ByteSpan, 3> encode_record();

  enum class State : uint8_t { kAnswered, kInLog, kWritten, kFailed };  // replicated shards: kInLog until committed
  State state = State::kAnswered;
  bool is_unchanged = false;  // it was done without an effect: `result` is of the state that it found
  bool is_attempt = false;    // the completion table counts this op as an attempt under way
  uint64_t leadership = 0;    // replicated shards: EntryLog::leadership() when the write came
  uint64_t index = 0;
  size_t counted_bytes = 0;   // of the request's keys and values; of the record if that is larger
  uint64_t evaluated_ms = 0;  // unix time in ms, by which keys expired for this write
  uint64_t record_ms = 0;     // the record's time (shard_clock.h)
  HashedEffect effect{};
  EffectHead head{};
  std::string scratch{};
  std::unique_ptr<BatchWork> work{};
  Entry* entry = nullptr;         // durability "memory": the record, which owns its bytes
  WriteOp* repetition = nullptr;  // the next repetition that waits for the same answer
  WriteOp* behind = nullptr;      // the next op: in the shard's queue, behind a batch, or waiting for the same read
};

/// A list of writes, linked by WriteOp::behind. Does not own the writes.
class WriteList {
 public:
  [[nodiscard]] bool empty() const { return front_ == nullptr; }
  [[nodiscard]] WriteOp* front() const { return front_; }
  void push(WriteOp& op) {
    op.behind = nullptr;
    (front_ == nullptr ? front_ : back_->behind) = &op;
    back_ = &op;
  }
  /// The list must not be empty.
  WriteOp& pop() {
    WriteOp& op = *front_;
    front_ = op.behind;
    op.behind = nullptr;
    return op;
  }

 private:
  WriteOp* front_ = nullptr;
  WriteOp* back_ = nullptr;
};

}  // namespace skua::kv

#endif  // SKUA_KVSTORE_SHARD_WRITE_OP_H_
