// Exactly once: a repetition of a write is answered and not executed again. A shard's table of completions
// (completions.h), and the first attempts that are not answered yet.
//
//    write --- a first attempt is under way ----------> waits for its answer       (WriteOp::repetition)
//          --- an answer is kept ---------------------> gets that answer
//          --- forgotten, too many, no room ----------> refused
//          --- new -----------------------------------> evaluated; end() keeps an answer without effect
#ifndef SKUA_KVSTORE_SHARD_ATTEMPTS_H_
#define SKUA_KVSTORE_SHARD_ATTEMPTS_H_

#include <cstdint>
#include <span>
#include <utility>

#include "absl/container/flat_hash_map.h"
#include "absl/functional/function_ref.h"
#include "absl/status/status.h"
#include "kvstore/completions/completions.h"
#include "kvstore/shard/write_op.h"
#include "kvstore/storage/completion_rows.h"
#include "kvstore/storage/shard_db.h"
#include "kvstore/types/request_id.h"

namespace skua::kv {

/// Times are in ms, by the shard's clock (shard_clock.h). Thread: one at a time.
class Attempts {
 public:
  explicit Attempts(const CompletionLimits& limits) { completions_.set_limits(limits); }

  /// Loads the completions from a database's rows. Errors: DATA_LOSS.
  [[nodiscard]] absl::Status load(std::span<const InternalRow> rows) { return load_completions(rows, completions_); }
  /// The newest time of a completion; 0: there is none.
  [[nodiscard]] uint64_t newest_ms() const { return completions_.newest_ms(); }

  /// True: a write with this id is under way, or was answered and its answer is kept.
  [[nodiscard]] bool is_repetition(const RequestId& id, uint64_t now_ms) const;

  enum class Begin : uint8_t {
    kNew,       ///< the write must be evaluated; end() ends the attempt
    kWaits,     ///< an attempt under way has the write as a repetition
    kAnswered,  ///< the write has its answer
  };
  /// `achieved`: how durable the record of this index is known to be.
  [[nodiscard]] Begin begin(WriteOp& op, uint64_t now_ms, absl::FunctionRef<Durability(uint64_t index)> achieved);
  /// The write is answered. Ends the attempt, if the write is one, and answers the repetitions that wait for it in the
  /// same way. Returns them, linked by WriteOp::repetition.
  [[nodiscard]] WriteOp* end(WriteOp& op, uint64_t now_ms);

  /// A record with this completion is committed.
  void record(const Completion& completion, uint64_t index, uint64_t record_ms) {
    completions_.record(completion, index, record_ms);
  }
  /// This replica begins to lead: see CompletionTable.
  void forget_refusals() { completions_.forget_refusals(); }

 private:
  void refuse(WriteOp& op, CompletionTable::Verdict verdict, uint64_t now_ms) const;
  void keep_refusal(const WriteOp& op, uint64_t now_ms);

  CompletionTable completions_;
  /// First attempts that are not answered yet, by (client, seq).
  absl::flat_hash_map<std::pair<uint64_t, uint64_t>, WriteOp*> under_way_;
};

}  // namespace skua::kv

#endif  // SKUA_KVSTORE_SHARD_ATTEMPTS_H_
