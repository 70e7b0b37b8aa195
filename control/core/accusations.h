// Who said of whom that it cannot be worked with, and what has happened to shards lately: soft state, learnt anew
// after a restart.
//
// An accusation is about one shard in one epoch. It counts while it is repeated and the epoch is the
// record's. Any change of the view ends it, and so does a report of the accuser that does not have it: the accused
// answers again, and what had to wait is not done to a member that works. How it is judged:
//
//   the primary is accused                                                     it is
//   ----------------------------------------------------------------------    ---------------------------
//   by itself: it cannot go on in this epoch                                   replaced, and stays a member
//   by all other members that are not gone                                     replaced, whoever was removed before
//   and the control plane does not hear it either                              replaced
//   and the control plane heard it since, and the others had time to agree     believed: the accuser is removed
//   otherwise                                                                  waited for
//
//   a backup is accused by the primary, or by anyone while it is gone          removed
//   (not by members that are all doubtful: doubts.h)
//   a joining learner is accused by the primary                                back to following
//
// So of two members that do not hear each other at most one leaves: whichever change comes first makes
// a new epoch, in which the other one's complaint does not count.
#ifndef SKUA_CONTROL_CORE_ACCUSATIONS_H_
#define SKUA_CONTROL_CORE_ACCUSATIONS_H_

#include <cstddef>
#include <cstdint>
#include <map>
#include <optional>
#include <set>
#include <string>
#include <utility>
#include <vector>

#include "control/core/events.h"
#include "control/core/replica_placement.h"
#include "control/core/view_context.h"

namespace skua::control {

/// What happened to shards and nodes, as far as rates depend on it. Bounded by the number of shards and
/// nodes.
class ViewHistory {
 public:
  /// A record was committed.
  void observe(const ViewContext& context, const ShardAssignment& before, const ShardAssignment& after);
  /// Forgets what is too old to matter and shards that are no more.
  void prune(const ViewContext& context);

  /// May the primary of this shard, which is alive, be changed now?
  [[nodiscard]] bool primary_is_stable(const ViewContext& context, const ShardKey& shard) const;
  /// May this backup, which the control plane hears of, be removed against its will now?
  [[nodiscard]] bool may_eject(const ViewContext& context, const ShardKey& shard, const std::string& uuid) const;
  /// Members that were removed from the shard and may come back: true, or may not yet: false.
  [[nodiscard]] std::map<std::string, bool> former_members(const ViewContext& context, const ShardKey& shard) const;

  /// Since when `what` holds for the shard, `now` if it begins to; `holds` false ends it.
  class Timer {
   public:
    DurationNs lasting(const ShardKey& shard, bool holds, TimeNs now);
    void forget_unknown(const ClusterState& state);

   private:
    std::map<ShardKey, TimeNs> since_;
  };
  /// Fewer members and learners than there should be.
  Timer incomplete;

 private:
  struct Removal {
    TimeNs at = 0;
    /// Removals against its will, or soon after another one.
    uint32_t setbacks = 0;
  };

  std::map<ShardKey, TimeNs> primary_changed_;
  std::map<ShardKey, TimeNs> ejected_;
  std::map<ShardKey, std::map<std::string, Removal>> removals_;
  std::map<std::string, TimeNs> ejected_nodes_;
};

class Accusations {
 public:
  /// All that `accuser`, which must be the registered process of its node, suspects now. Ignores what is not about the
  /// current epoch of a shard that both are part of. True if an accusation stands or was withdrawn.
  bool note(const ViewContext& context, const std::string& accuser, const std::vector<Suspicion>& suspicions);
  void prune(const ViewContext& context);
  /// What was said of `accused` has been acted upon within the epoch.
  void forget(const ShardKey& shard, const std::string& accused);

  [[nodiscard]] bool empty() const { return shards_.empty(); }
  [[nodiscard]] std::set<ShardKey> accused_shards() const;

  /// What is to be done about the accusations in this shard now: a new record, or nothing yet.
  [[nodiscard]] std::optional<ShardAssignment> judge(const ViewContext& context, const ReplicaLoads& loads,
                                                     const ViewHistory& history, const ShardAssignment& record) const;
  /// Why judge() said `next`, for people.
  [[nodiscard]] std::string why(const ShardAssignment& record, const ShardAssignment& next) const;

 private:
  struct Times {
    TimeNs first = 0;
    TimeNs last = 0;
    std::string reason{};  // the accuser's words
  };
  /// Accused, then accuser.
  struct OfShard {
    uint64_t epoch = 0;
    std::map<std::string, std::map<std::string, Times>> accused;
  };

  [[nodiscard]] std::optional<ShardAssignment> judge_primary(const ViewContext& context, const ReplicaLoads& loads,
                                                             const ViewHistory& history, const ShardAssignment& record,
                                                             const std::map<std::string, Times>& accusers) const;
  [[nodiscard]] std::optional<ShardAssignment> judge_backup(const ViewContext& context, const ViewHistory& history,
                                                            const ShardAssignment& record, const std::string& accused,
                                                            const std::map<std::string, Times>& accusers) const;

  /// Whom the accuser accuses, by shard.
  using Accused = std::set<std::pair<ShardKey, std::string>>;
  void note(const ViewContext& context, const std::string& accuser, const Suspicion& suspicion, Accused& noted);
  [[nodiscard]] bool withdraw(const std::string& accuser, const Accused& still);

  std::map<ShardKey, OfShard> shards_;
};

}  // namespace skua::control

#endif  // SKUA_CONTROL_CORE_ACCUSATIONS_H_
