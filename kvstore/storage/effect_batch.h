// Effects of a log's records on their way into a database that nobody serves: at recovery, and behind a copy of a shard.
//
//    take(record), take(record), ... --> the last effect of each key, by key --> apply(): a batch, or a table file if they are many
//
#ifndef SKUA_KVSTORE_STORAGE_EFFECT_BATCH_H_
#define SKUA_KVSTORE_STORAGE_EFFECT_BATCH_H_

#include <cstdint>
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
  /// CompletionTable::set_limits().
  void set_limits(const CompletionLimits& limits) { completions_.set_limits(limits); }

  /// The database's completions, none of them as later than `latest_ms`. DATA_LOSS if they are damaged.
  [[nodiscard]] absl::Status load(std::span<const InternalRow> rows, uint64_t latest_ms = UINT64_MAX) {
    return completions_.load(rows, latest_ms);
  }

  /// What the record at `index` did, without an entry's head. The bytes stay where they are until apply(). False: the payload is none
  /// of this build's.
  [[nodiscard]] bool take(uint64_t index, int64_t time_ms, ByteSpan payload);
  /// A row of the engine's own; its bytes stay, too.
  void add(const AppliedEffect& row) { effects_.push_back(row); }
  /// Brings into `db` what was taken; `index` is the last record's. Once it has failed the database takes nothing more.
  [[nodiscard]] absl::Status apply(ShardDb& db, uint64_t index);

 private:
  std::vector<AppliedEffect> effects_;
  CompletionRows completions_;
  std::string runs_;  // of the last barrier, if `has_runs_`
  bool has_runs_ = false;
};

}  // namespace skua::kv

#endif  // SKUA_KVSTORE_STORAGE_EFFECT_BATCH_H_
