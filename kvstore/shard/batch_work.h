// The evaluation of one batch: several writes that are one record of the log. All of them are applied or none.
//
//    begin()         which keys' states the batch rests on: those whose first operation looks at the old state. Checks
//                    do not count as the first one, because they leave the key as it is
//    fetched()       the states that were read from the database for the batch
//    evaluate()      operation by operation; a later operation on a key sees the effect of the earlier one
//    encode()        the record: completion, results, the last effect of each key
//
// APPEND, PATCH and EXPIRE can make values far larger than the request. So the size of the record is checked after each
// operation: a record that the log cannot take is never built.
#ifndef SKUA_KVSTORE_SHARD_BATCH_WORK_H_
#define SKUA_KVSTORE_SHARD_BATCH_WORK_H_

#include <cstddef>
#include <cstdint>
#include <deque>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "absl/container/flat_hash_map.h"
#include "absl/functional/function_ref.h"
#include "absl/status/status.h"
#include "kvstore/codec/effect.h"
#include "kvstore/codec/key_hash.h"
#include "kvstore/shard/evaluate.h"
#include "kvstore/shard/key_places.h"
#include "kvstore/shard/write_op.h"
#include "kvstore/types/mutation.h"
#include "kvstore/types/pinned_value.h"
#include "rpc/base/bytes.h"

namespace skua::kv {

/// Keys are views into the batch's mutations, and later into the payload. Recycled with its WriteOp. Thread: one at a
/// time.
class BatchWork {
 public:
  /// A key whose state before the batch is needed.
  struct Needed {
    std::string_view key;
    bool value = false;  // true: the value is needed; false: its version is enough
  };

  /// Forgets the last batch, and finds the keys that `batch` needs.
  void begin(std::span<const Mutation> batch, KeyHasher hasher);
  [[nodiscard]] const std::vector<Needed>& needed() const { return needed_; }

  // --- Reads of the database
  /// A read of a needed key has begun.
  void begin_fetch(std::string_view key) {
    fetched_.try_emplace(key);
    ++fetching_;
  }
  [[nodiscard]] size_t fetching() const { return fetching_; }
  /// The read of `needed` is done. `status`: OK, NOT_FOUND, or why the database could not be read. If more than
  /// `bytes_max` bytes of values are kept for the batch, the batch fails.
  void take_fetched(const Needed& needed, const absl::Status& status, PinnedValue&& value, size_t bytes_max);
  void drop_fetched() {
    fetched_.clear();
    fetched_bytes_ = 0;
  }
  /// Not OK: the batch cannot be executed.
  [[nodiscard]] const absl::Status& failure() const { return failure_; }
  void fail(absl::Status why) { failure_ = std::move(why); }

  // --- The evaluation
  enum class Outcome : uint8_t {
    kApplied,     ///< all operations take effect; perhaps there is no effect
    kNotApplied,  ///< an operation is refused: op.results says which
    kTooLarge,    ///< the record would have more than the bytes that it may have
    kTooMuch,     ///< the operations make more than kMadeShare times these bytes of values, one after the other
  };
  /// Each APPEND to a value copies that value. So a small batch can make the worker copy very much.
  static constexpr size_t kMadeShare = 8;
  /// The state of a key that the batch has not changed yet. What it points to is kept by the pin.
  using StateBefore = absl::FunctionRef<CurrentState(const HashedKey& key, PinnedValue& pin)>;
  /// Fills in op.results. The batch will have the index op.index. `now_ms` is unix time.
  [[nodiscard]] Outcome evaluate(WriteOp& op, uint64_t now_ms, size_t payload_bytes_max, StateBefore before);
  /// What was read for the batch; nullopt: the key was not read.
  [[nodiscard]] std::optional<CurrentState> fetched(std::string_view key) const;
  /// Bytes of the record, as far as it was evaluated.
  [[nodiscard]] size_t record_bytes() const { return record_bytes_; }
  /// Builds the record's payload. From here on the effects are views into the payload.
  void encode(const WriteOp& op);

  /// The last effect of each key.
  [[nodiscard]] std::span<const HashedEffect> effects() const { return effects_; }
  /// After encode(); empty before.
  [[nodiscard]] ByteSpan payload() const { return {memory_.get(), payload_bytes_}; }
  /// Effects, payload and results are needed no longer. Keeps up to `bytes_kept` of the payload's memory.
  void release(size_t bytes_kept);
  /// After encode(): the results, as the completion record holds them; empty if there is none. A view of the payload.
  [[nodiscard]] ByteSpan results() const { return results_; }

 private:
  /// What the database has of a needed key.
  struct Fetched {
    CurrentState state;  // its value is that of `value`
    PinnedValue value;   // kept only if Needed::value
  };

  /// Of an effect: the value is in the request.
  static constexpr uint32_t kNotMade = UINT32_MAX;

  [[nodiscard]] CurrentState current(const WriteOp& op, const HashedKey& key, PinnedValue& pin, StateBefore before);
  [[nodiscard]] Evaluated evaluate_one(const WriteOp& op, const Mutation& mutation, const HashedKey& key,
                                       uint64_t now_ms, StateBefore before);
  void enter_effect(const HashedKey& key, const Evaluated& evaluated, uint32_t made);
  [[nodiscard]] auto is_of(std::string_view key) const {
    return [this, key](uint32_t effect) { return effects_[effect].key == key; };
  }

  std::vector<Needed> needed_;
  absl::flat_hash_map<std::string_view, size_t> seen_;  // where in needed_ the key is, while only checks look at it
  absl::flat_hash_map<std::string_view, Fetched> fetched_;
  size_t fetched_bytes_ = 0;  // of the values in fetched_
  size_t fetching_ = 0;
  absl::Status failure_;

  KeyHasher hasher_;
  std::vector<HashedEffect> effects_;
  KeyPlaces<uint32_t> effect_of_key_;
  std::vector<uint32_t> made_of_effect_;  // where in made_ the effect's value is, or kNotMade
  std::deque<std::string> made_;          // values that operations made; empty if a later operation replaced it
  size_t made_bytes_ = 0;                 // of all values that operations made, also of those that were replaced
  size_t record_bytes_ = 0;
  std::unique_ptr<std::byte[]> memory_;  // of payloads
  size_t memory_bytes_ = 0;
  size_t payload_bytes_ = 0;
  ByteSpan results_;
};

}  // namespace skua::kv

#endif  // SKUA_KVSTORE_SHARD_BATCH_WORK_H_
