// Keeps every shard at its number of replicas, with a primary that can lead. It proposes new records and never writes
// them.
//
//      reports of nodes ──> facts (soft) ──┐
//      state, liveness, time ──────────────┴──> plan() ──> records ──> compare-and-swap ──> committed()
//
// The manager does not remember which changes it began. Each plan looks at the present records and takes one step for
// each shard that is not as it should be. So a restarted or a second control process can go on from the records alone,
// and a step that was not stored is proposed again. For each shard the first rule that applies is used:
//
//   doubts                control/core/doubts.h
//   accusations           control/core/accusations.h
//   primary cannot open   another member that can open its data leads; the old primary stays a member
//   data (heartbeats)
//   the primary is lost   its storage was lost, it restarted, or it stopped: another live member leads. A restarted
//                         primary leads again if no other member can. If no member can lead, the view stays, and
//                         the first member that returns with its storage will lead
//   backups are lost      removed; one that stopped, when the primary is known to have outlived it
//   primary stops soon    (it says so in its heartbeats) another live member leads, of the manager's choice; it stays a
//   (heartbeats)          member. A node can only give its own leads away by this. They come back by balance alone,
//                         whose pace bounds how often a node that says so again and again moves them
//   unwanted members      (draining node, move): they stop leading at once; removed when enough others are members
//   learners              not needed: removed; caught up: joining; ready: a member
//   too few members       a removed member comes back as a learner as soon as it may; another node gets a copy
//                         after ViewOptions::replace_after_ns. The record lists those who were removed
//                         (ShardRecord::former)
//   nothing is wrong      control/core/rebalance.h
//
// If nothing goes wrong, plan() reaches a state in which it proposes nothing: each step either repairs, or lowers a sum
// that only repairs raise (rebalance.h).
#ifndef SKUA_CONTROL_CORE_VIEW_MANAGER_H_
#define SKUA_CONTROL_CORE_VIEW_MANAGER_H_

#include <cstdint>
#include <map>
#include <optional>
#include <string>
#include <vector>

#include "control/core/accusations.h"
#include "control/core/doubts.h"
#include "control/core/events.h"
#include "control/core/replica_placement.h"
#include "control/core/view_context.h"

namespace skua::control {

/// Thread: one at a time.
class ViewManager {
 public:
  /// Notes a report, which must come from the registered process of `report.uuid`.
  void note(const ViewContext& context, const ReplicaReport& report);

  /// This node is alive again.
  void note_return(const std::string& uuid, TimeNs now) { doubts_.note_return(uuid, now); }

  /// The records to be stored next: at most one per shard, and at most ViewOptions::records_per_change_max. Empty if
  /// everything is as it should be, or must wait for time or reports. `reasons`, if not null, gets each record's
  /// reason, for people.
  [[nodiscard]] std::vector<ShardRecord> plan(const ViewContext& context, std::vector<std::string>* reasons = nullptr);

  /// These records were stored and are about to become part of the state. `context` still has the state before them.
  void committed(const ViewContext& context, const std::vector<ShardRecord>& records);

  /// The doubts, for the contexts that are passed to this manager.
  [[nodiscard]] const Doubts& doubts() const { return doubts_; }

  /// Something on which plans depend has changed: the next plan() looks at all shards.
  void note_change() { dirty_ = true; }

 private:
  struct JoinFact {
    uint64_t epoch = 0;
    std::string learner;
    uint64_t join = 0;
  };
  struct Setback {
    uint32_t count = 0;
    TimeNs at = 0;
  };
  class Planner;

  /// Whether enough time has passed since an attempt to join this shard failed.
  [[nodiscard]] bool may_join(const ViewContext& context, const ShardKey& shard) const;
  void prune(const ViewContext& context);

  Accusations accusations_;
  Doubts doubts_;
  ViewHistory history_;
  /// For a learner that has caught up: the epoch, and when this was last reported. A fact that is not repeated is
  /// forgotten: the learner may have fallen behind, and would keep others from joining.
  struct CaughtUpFact {
    uint64_t epoch = 0;
    TimeNs at = 0;
  };
  std::map<ShardKey, std::map<std::string, CaughtUpFact>> caught_up_;
  std::map<ShardKey, JoinFact> ready_;
  /// The number of the attempt to join that is under way, and when this process first saw it.
  std::map<ShardKey, std::pair<uint64_t, TimeNs>> joining_since_;
  std::map<ShardKey, Setback> join_setbacks_;
  std::optional<TimeNs> trouble_at_;
  TimeNs next_scan_ = 0;
  TimeNs next_rebalance_ = 0;
  bool dirty_ = true;
};

/// Why nobody serves this shard, and what to do about it; empty if its primary is alive and serves its data.
[[nodiscard]] std::string shard_trouble(const ViewContext& context, const ShardRecord& record);

/// Whether the shard has all its members, on live nodes that serve it and are not draining, no member is doubtful, and
/// no change is under way.
[[nodiscard]] bool is_settled(const ViewContext& context, const ShardRecord& record);

}  // namespace skua::control

#endif  // SKUA_CONTROL_CORE_VIEW_MANAGER_H_
