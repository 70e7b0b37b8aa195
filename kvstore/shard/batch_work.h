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
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "absl/container/flat_hash_map.h"
#include "absl/functional/function_ref.h"
#include "absl/status/status.h"
#include "kvstore/codec/effect.h"
#include "kvstore/shard/evaluate.h"
#include "kvstore/types/mutation.h"
#include "kvstore/types/pinned_value.h"

namespace skua::kv {

struct WriteOp;

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
  void begin(std::span<const Mutation> batch);
  [[nodiscard]] const std::vector<Needed>& needed() const { return needed_; }

  // --- Reads of the database
  /// A read of a needed key has begun.
  void begin_fetch(std::string_view key);
  [[nodiscard]] size_t fetching() const { return fetching_; }
  /// The read of `needed` is done. `status`: OK, NOT_FOUND, or why the database could not be read. If more than
  /// `bytes_max` bytes of values are kept for the batch, the batch fails.
  void take_fetched(const Needed& needed, const absl::Status& status, PinnedValue&& value, size_t bytes_max);
  void drop_fetched();
  /// Not OK: the batch cannot be executed.
  [[nodiscard]] const absl::Status& failure() const { return failure_; }
  void fail(absl::Status why) { failure_ = std::move(why); }

  // --- The evaluation
  enum class Outcome : uint8_t {
    kApplied,     ///< all operations take effect; perhaps there is no effect
    kNotApplied,  ///< an operation is refused: op.results says which
    kTooLarge,    ///< the record would have more than the bytes that it may have
  };
  /// The state of a key that the batch has not changed yet. What it points to is kept by the pin.
  using StateBefore = absl::FunctionRef<CurrentState(std::string_view key, PinnedValue& pin)>;
  /// Fills in op.results. The batch will have the index op.index. `now_ms` is unix time.
  [[nodiscard]] Outcome evaluate(WriteOp& op, uint64_t now_ms, size_t payload_bytes_max, StateBefore before);
  /// What was read for the batch; nullopt: the key was not read.
  [[nodiscard]] std::optional<CurrentState> fetched(std::string_view key) const;
  /// Bytes of the record, as far as it was evaluated.
  [[nodiscard]] size_t record_bytes() const { return record_bytes_; }
  /// Builds the record's payload. From here on the effects are views into the payload.
  void encode(const WriteOp& op);

  /// The last effect of each key.
  [[nodiscard]] std::span<const Effect> effects() const { return effects_; }
  [[nodiscard]] const std::string& payload() const { return payload_; }
  /// The results, as the completion record holds them.
  [[nodiscard]] const std::string& results() const { return results_; }

 private:
  /// What the database has of a needed key.
  struct Fetched {
    uint64_t version = 0;  // 0: absent
    uint64_t expires_at = 0;
    RecordMark mark;
    PinnedValue value;  // kept only if Needed::value
  };

  [[nodiscard]] CurrentState current(const WriteOp& op, std::string_view key, PinnedValue& pin, StateBefore before);
  void enter_effect(size_t operation, const Effect& effect);
  void append_effect(Effect& effect);

  std::vector<Needed> needed_;
  absl::flat_hash_map<std::string_view, size_t> seen_;  // where in needed_ the key is, while only checks look at it
  absl::flat_hash_map<std::string_view, Fetched> fetched_;
  size_t fetched_bytes_ = 0;  // of the values in fetched_
  size_t fetching_ = 0;
  absl::Status failure_;

  std::vector<Effect> effects_;
  absl::flat_hash_map<std::string_view, size_t> effect_of_key_;
  std::vector<size_t> operation_of_effect_;  // the last operation that made the effect
  std::deque<std::string> made_;  // the value that each operation made; empty if a later operation replaced it
  size_t record_bytes_ = 0;
  std::string results_;
  std::string payload_;
};

}  // namespace skua::kv

#endif  // SKUA_KVSTORE_SHARD_BATCH_WORK_H_
