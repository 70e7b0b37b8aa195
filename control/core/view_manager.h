// Keeps every shard at its number of replicas, led by somebody who can: proposes new records, never
// writes them.
//
//      reports of nodes ──> facts (soft) ──┐
//      state, liveness, time ──────────────┴──> plan() ──> records ──> compare-and-swap ──> committed()
//
// Nothing here is a memory of what was begun: each plan looks at records as they are and takes one step for
// each shard that is not as it should be. So a restarted, or a second, control process goes on from the
// records alone, and a step that was not stored is proposed again. First match wins:
//
//   doubts                control/core/doubts.h
//   accusations           control/core/accusations.h
//   it cannot open its    another member that can leads; it stays a member
//   data (heartbeats)
//   the primary is lost   its storage was lost, it restarted, or it said goodbye: another live member leads;
//                         a restarted one leads again if there is no other. If nobody can: the view stays, and
//                         whichever member returns with its storage will lead
//   backups are lost      removed
//   unwanted members      (draining node, move): they stop leading at once and go when enough others are members
//   learners              dropped when useless; caught up: joining; ready: a member
//   too few               a member that was removed comes back as a learner as soon as it may; another
//                         node gets a copy after ViewOptions::replace_after_ns
//   all is well           control/core/rebalance.h
//
// A plan ends, with nothing wrong, in a state where plan() proposes nothing: each step either repairs, or
// lowers a sum that only repairs raise (rebalance.h).
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

/// Thread: none of its own.
class ViewManager {
 public:
  /// Takes note of what the registered process of `report.uuid` says.
  void note(const ViewContext& context, const ReplicaReport& report);

  /// This node is alive, and was not just now.
  void note_return(const std::string& uuid, TimeNs now) { doubts_.note_return(uuid, now); }

  /// Records to be stored next, at most one per shard and ViewOptions::records_per_change_max in all. Empty
  /// if everything is as it should be, or must wait for time or news. `reasons`: of each record why, for people.
  [[nodiscard]] std::vector<ShardAssignment> plan(const ViewContext& context,
                                                  std::vector<std::string>* reasons = nullptr);

  /// These records are about to become the state that `context` still shows without them.
  void committed(const ViewContext& context, const std::vector<ShardAssignment>& records);

  /// Who is doubtful: for the contexts of this manager's calls.
  [[nodiscard]] const Doubts& doubts() const { return doubts_; }

  /// Something that plans depend on has changed: the next plan() looks at everything.
  void touch() { dirty_ = true; }

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

  /// Enough time has passed since attempts to join this shard failed.
  [[nodiscard]] bool may_join(const ViewContext& context, const ShardKey& shard) const;
  void prune(const ViewContext& context);

  Accusations accusations_;
  Doubts doubts_;
  ViewHistory history_;
  /// By shard, then learner: in which epoch it had caught up, and when that was last said. Not repeated, it is forgotten: the learner
  /// may have fallen behind, and would keep others that have not from joining.
  struct CaughtUpFact {
    uint64_t epoch = 0;
    TimeNs at = 0;
  };
  std::map<ShardKey, std::map<std::string, CaughtUpFact>> caught_up_;
  std::map<ShardKey, JoinFact> ready_;
  /// When this process first saw the attempt to join that is under way.
  std::map<ShardKey, std::pair<uint64_t, TimeNs>> joining_since_;
  std::map<ShardKey, Setback> join_setbacks_;
  std::optional<TimeNs> trouble_at_;
  TimeNs next_scan_ = 0;
  TimeNs next_rebalance_ = 0;
  bool dirty_ = true;
};

/// Why nobody serves this shard, and what to do about it; empty if its primary is alive and serves its data.
[[nodiscard]] std::string shard_trouble(const ViewContext& context, const ShardAssignment& record);

/// The shard has all its members, on live nodes that serve it and are to keep them, none is doubtful, and nothing is
/// under way.
[[nodiscard]] bool is_settled(const ViewContext& context, const ShardAssignment& record);

}  // namespace skua::control

#endif  // SKUA_CONTROL_CORE_VIEW_MANAGER_H_
