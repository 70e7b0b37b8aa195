// Accusations (a node says that it cannot work with another one), and the recent history of shards. Both are soft
// state, which is learnt anew after a restart.
//
// An accusation is about one shard in one epoch. It counts while it is repeated and the epoch is the record's. Any
// change of the view ends it. A report of the accuser that does not repeat it ends it, too: the accused answers again,
// so a member that works must not be removed later. How accusations are judged:
//
//   the primary is accused                                                     result
//   ----------------------------------------------------------------------    ---------------------------
//   by itself: it cannot go on in this epoch                                   replaced, and stays a member
//   by all other members that are not gone                                     removed, even soon after another removal
//   and the control plane does not hear it either                              removed
//   and the control plane heard it since, and the others had time to agree     the accuser is removed
//   otherwise                                                                  nothing yet
//
//   a backup is accused by the primary, or by anyone while it is gone          removed
//   (not by members that are all doubtful: doubts.h)
//   a joining learner is accused by the primary                                back to following
//
// So if two members do not hear each other, at most one of them leaves: the first change makes a new epoch, in which
// the other one's accusation does not count.
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

/// What happened to shards and nodes lately: it limits how often views are changed. Its size is bounded by the number
/// of shards and nodes.
class ViewHistory {
 public:
  /// The record `after` was committed in place of `before`.
  void observe(const ViewContext& context, const ShardRecord& before, const ShardRecord& after);
  /// Forgets events that are too old to matter, and shards that no longer exist.
  void prune(const ViewContext& context);

  /// Whether the shard's primary may be changed now although it is alive.
  [[nodiscard]] bool primary_is_stable(const ViewContext& context, const ShardKey& shard) const;
  /// Whether a backup that the control plane hears of may be ejected (removed because others accuse it) now.
  [[nodiscard]] bool may_eject(const ViewContext& context, const ShardKey& shard, const std::string& uuid) const;
  /// Members that were removed from the shard: true if the node may come back now, false if it must still wait. Those
  /// that only the record remembers need not wait: how often they failed is not known.
  [[nodiscard]] std::map<std::string, bool> former_members(const ViewContext& context, const ShardRecord& record) const;

  /// Measures how long a condition has held for each shard. lasting() is told whether the condition holds now and
  /// returns for how long it has; with `holds` false it forgets the shard.
  class Timer {
   public:
    DurationNs lasting(const ShardKey& shard, bool holds, TimeNs now);
    void forget_unknown(const ClusterState& state);

   private:
    std::map<ShardKey, TimeNs> since_;
  };
  /// Condition: the shard has fewer members and learners than it should have.
  Timer incomplete;

 private:
  struct Removal {
    TimeNs at = 0;
    /// Number of ejections, and of removals that followed an earlier removal.
    uint32_t setbacks = 0;
  };

  std::map<ShardKey, TimeNs> primary_changed_;
  std::map<ShardKey, TimeNs> ejected_;
  std::map<ShardKey, std::map<std::string, Removal>> removals_;
  std::map<std::string, TimeNs> ejected_nodes_;
};

class Accusations {
 public:
  /// Notes all suspicions that `accuser` has now; it must be the registered process of its node. Suspicions that it
  /// does not repeat are withdrawn. Ignores suspicions that are not about the current epoch of a shard of which both
  /// nodes are part. True if an accusation was noted or withdrawn.
  bool note(const ViewContext& context, const std::string& accuser, const std::vector<Suspicion>& suspicions);
  void prune(const ViewContext& context);
  /// Forgets the accusations against `accused`: they have been acted upon within the epoch.
  void forget(const ShardKey& shard, const std::string& accused);

  [[nodiscard]] bool empty() const { return shards_.empty(); }
  [[nodiscard]] std::set<ShardKey> accused_shards() const;

  /// The record that the accusations in this shard demand now; nothing if they do not count, or not yet.
  [[nodiscard]] std::optional<ShardRecord> judge(const ViewContext& context, const ReplicaLoads& loads,
                                                 const ViewHistory& history, const ShardRecord& record) const;
  /// Why judge() returned `next`, for people.
  [[nodiscard]] std::string why(const ShardRecord& record, const ShardRecord& next) const;

 private:
  struct Times {
    TimeNs first = 0;
    TimeNs last = 0;
    std::string reason{};  // the accuser's words
  };
  /// A shard's accusations: by accused, then by accuser.
  struct OfShard {
    uint64_t epoch = 0;
    std::map<std::string, std::map<std::string, Times>> accused;
  };

  [[nodiscard]] std::optional<ShardRecord> judge_primary(const ViewContext& context, const ReplicaLoads& loads,
                                                         const ViewHistory& history, const ShardRecord& record,
                                                         const std::map<std::string, Times>& accusers) const;
  [[nodiscard]] std::optional<ShardRecord> judge_backup(const ViewContext& context, const ViewHistory& history,
                                                        const ShardRecord& record, const std::string& accused,
                                                        const std::map<std::string, Times>& accusers) const;

  /// All accused of one accuser: (shard, node).
  using Accused = std::set<std::pair<ShardKey, std::string>>;
  void note(const ViewContext& context, const std::string& accuser, const Suspicion& suspicion, Accused& noted);
  [[nodiscard]] bool withdraw(const std::string& accuser, const Accused& still);

  std::map<ShardKey, OfShard> shards_;
};

}  // namespace skua::control

#endif  // SKUA_CONTROL_CORE_ACCUSATIONS_H_
