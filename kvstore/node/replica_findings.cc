#include "kvstore/node/replica_findings.h"

#include <utility>
#include <vector>

namespace skua::kv {

void ReplicaFindings::set_nodes(std::map<NodeId, std::string> uuids) {
  const std::lock_guard lock(mutex_);
  uuids_ = std::move(uuids);
}

/// Publishes all findings, without the lock, if `what`, under the lock, has changed one.
void ReplicaFindings::change(absl::FunctionRef<bool()> what) {
  control::ReplicaReport all;
  {
    const std::lock_guard lock(mutex_);
    if (!what()) return;
    all = gather();
  }
  publish_(std::move(all));
}

void ReplicaFindings::report(ShardId shard, const ReplicaReport& report, TimeNs now) {
  change([&] {
    const auto first = findings_.lower_bound({shard, ReplicaReport::Kind{}, 0});
    for (auto it = first; it != findings_.end() && std::get<0>(it->first) == shard;) {
      it = it->second.report.epoch < report.epoch ? findings_.erase(it) : std::next(it);
    }
    const auto [known, is_new] = findings_.try_emplace({shard, report.kind, report.node});
    const bool changes = is_new || known->second.report != report;
    known->second = {report, now};
    return changes;
  });
}

void ReplicaFindings::restored(ShardId shard) {
  change([&] {
    return std::erase_if(findings_, [shard](const auto& found) {
             return std::get<0>(found.first) == shard && found.second.report.kind == ReplicaReport::Kind::kDoubtful;
           }) > 0;
  });
}

void ReplicaFindings::sweep(TimeNs now) {
  change([&] {
    if (now < next_sweep_ns_) return false;
    next_sweep_ns_ = now + kForgetNs / 4;
    return std::erase_if(findings_, [now](const auto& found) { return now - found.second.found_ns > kForgetNs; }) > 0;
  });
}

control::ReplicaReport ReplicaFindings::gather() const {
  control::ReplicaReport all;
  std::map<std::pair<NodeId, std::string>, std::vector<control::ShardAtEpoch>> suspicions;
  for (const auto& [key, found] : findings_) {
    const ReplicaReport& finding = found.report;
    const auto uuid = uuids_.find(finding.node);
    if (uuid == uuids_.end()) continue;
    const ShardId id = std::get<0>(key);
    const control::ShardAtEpoch shard{{id.table_id, id.shard}, finding.epoch};
    switch (finding.kind) {
      case ReplicaReport::Kind::kSuspect: suspicions[{finding.node, "does not answer"}].push_back(shard); break;
      case ReplicaReport::Kind::kSlow: suspicions[{finding.node, "is slow"}].push_back(shard); break;
      case ReplicaReport::Kind::kNeedsEpoch:
        suspicions[{finding.node, "cannot go on leading in this epoch"}].push_back(shard);
        break;
      case ReplicaReport::Kind::kCaughtUp: all.caught_up.push_back({shard, uuid->second}); break;
      case ReplicaReport::Kind::kDoubtful: all.doubts.push_back({shard, finding.last.epoch, finding.last.index}); break;
      case ReplicaReport::Kind::kJoinReady: all.join_ready.push_back({shard, uuid->second, finding.join}); break;
    }
  }
  for (auto& [accusation, shards] : suspicions) {
    all.suspicions.push_back({uuids_.at(accusation.first), std::move(shards), accusation.second});
  }
  return all;
}

}  // namespace skua::kv
