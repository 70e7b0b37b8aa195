// What the applier (applier.h) reports of its shards: one report for each shard of a round, and reports between rounds.
#ifndef SKUA_KVSTORE_STORAGE_ROUND_REPORTS_H_
#define SKUA_KVSTORE_STORAGE_ROUND_REPORTS_H_

#include <cstddef>
#include <cstdint>
#include <functional>
#include <utility>
#include <vector>

#include "absl/status/status.h"

namespace skua::kv {

struct AppliedShard;

/// What the applier reports of a shard.
struct ApplierReport {
  AppliedShard* shard = nullptr;
  size_t effects = 0;          ///< effects and completions that were taken from the queue
  uint64_t applied_index = 0;  ///< the database has everything up to this index
  absl::Status held_up{};      ///< not OK: why the database does not have more yet
  absl::Status failure{};      ///< not OK: why the database gets nothing more
  /// Not 0: the log needs room, and this record of the shard, which the database does not have, pins its oldest
  /// segment.
  uint64_t pinned_index = 0;
  bool kept = false;    ///< what was added before keep() is durable
  bool closed = false;  ///< the last report of this shard
};

/// Thread: the applier's.
class RoundReports {
 public:
  using Give = std::function<void(std::vector<ApplierReport>)>;
  explicit RoundReports(Give give) : give_(std::move(give)) {}

  /// The shard's report in this round. Valid until the next call.
  ApplierReport& of(AppliedShard& shard);
  /// Brings the shard's report up to date.
  void tell(AppliedShard& shard);
  /// Gives the reports since the last call, if there are any.
  void give();

  /// Gives reports between rounds: `reports` alone.
  void give_alone(std::vector<ApplierReport> reports) const { give_(std::move(reports)); }
  [[nodiscard]] static ApplierReport state_of(AppliedShard& shard);

 private:
  const Give give_;
  std::vector<ApplierReport> reports_;
};

}  // namespace skua::kv

#endif  // SKUA_KVSTORE_STORAGE_ROUND_REPORTS_H_
