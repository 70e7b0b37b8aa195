#include "kvstore/storage/round_reports.h"

#include "kvstore/storage/applier.h"

namespace skua::kv {

ApplierReport& RoundReports::of(AppliedShard& shard) {
  for (ApplierReport& report : reports_) {
    if (report.shard == &shard) return report;
  }
  return reports_.emplace_back(state_of(shard));
}

void RoundReports::tell(AppliedShard& shard) {
  ApplierReport& report = of(shard);
  report.applied_index = shard.db->applied_index();
  report.held_up = shard.held_up;
  report.failure = shard.failure;
}

void RoundReports::give() {
  if (!reports_.empty()) give_(std::exchange(reports_, {}));
}

ApplierReport RoundReports::state_of(AppliedShard& shard) {
  return {
      .shard = &shard, .applied_index = shard.db->applied_index(), .held_up = shard.held_up, .failure = shard.failure};
}

}  // namespace skua::kv
