// Brings the effects of log records into a database that is not served: at recovery, and when records follow a copy of
// a shard.
//
//    take(record), take(record), ... --> the last effect of each key, by key --> apply(): a batch, or a table file for
//                                                                                many effects
//
#ifndef SKUA_KVSTORE_STORAGE_EFFECT_BATCH_H_
#define SKUA_KVSTORE_STORAGE_EFFECT_BATCH_H_

#include <cstdint>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "absl/status/status.h"
#include "kvstore/storage/completion_rows.h"
#include "kvstore/storage/shard_db.h"

namespace skua::kv {

/// Thread: one at a time.
class EffectBatch {
 public:
  /// See CompletionTable::set_limits().
  void set_limits(const CompletionLimits& limits) { completions_.set_limits(limits); }

  /// Loads the database's completions; none counts as later than `latest_ms`. DATA_LOSS if a row is damaged.
  [[nodiscard]] absl::Status load(std::span<const InternalRow> rows, uint64_t latest_ms = UINT64_MAX) {
    return completions_.load(rows, latest_ms);
  }

  /// Takes the effects and the completion of the record at `index`. `payload` has no entry's head; its bytes must stay
  /// valid until apply(). False: this build does not know the payload.
  [[nodiscard]] bool take(uint64_t index, int64_t time_ms, ByteSpan payload);
  /// Takes a row of the engine's own. Its bytes must stay valid until apply(), too.
  void add(const AppliedEffect& row) { effects_.push_back(row); }
  /// Brings what was taken into `db`. `index` is that of the last record. After an error nothing more may be applied to
  /// the database.
  [[nodiscard]] absl::Status apply(ShardDb& db, uint64_t index);

 private:
  std::vector<AppliedEffect> effects_;
  std::vector<AppliedEffect> sorted_;  // of these: the last of each key
  CompletionRows completions_;
  std::optional<std::string> runs_;  // the bytes of the last barrier
};

}  // namespace skua::kv

#endif  // SKUA_KVSTORE_STORAGE_EFFECT_BATCH_H_
