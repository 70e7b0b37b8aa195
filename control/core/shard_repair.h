// The rules of view_manager.h for one shard, each a function of what is seen: the record that should be next,
// or nothing if the rule does not apply.
#ifndef SKUA_CONTROL_CORE_SHARD_REPAIR_H_
#define SKUA_CONTROL_CORE_SHARD_REPAIR_H_

#include <map>
#include <optional>
#include <string>

#include "control/core/accusations.h"
#include "control/core/replica_placement.h"
#include "control/core/view_context.h"

namespace skua::control {

using NextRecord = std::optional<ShardAssignment>;

/// A shard of a table with one replica: nothing can happen to it but that its owner's storage is lost.
[[nodiscard]] bool is_plain(const ViewContext& context, const ShardAssignment& record);

/// The primary is alive and serves its data, which is all of it as far as is known.
[[nodiscard]] bool primary_works(const ViewContext& context, const ShardAssignment& record);

/// The primary can lead no more: another member does, or a restarted primary does again.
[[nodiscard]] NextRecord replace_lost_primary(const ViewContext& context, const ReplicaLoads& loads,
                                              const ShardAssignment& record);

/// The primary may lack what it acknowledged, or cannot open its data, and another member is better off. It stays a
/// member.
[[nodiscard]] NextRecord replace_unfit_primary(const ViewContext& context, const ReplicaLoads& loads,
                                               const ShardAssignment& record);

/// All members are there and may lack what they acknowledged: the one with the longest log goes on.
[[nodiscard]] NextRecord go_on_after_doubt(const ViewContext& context, const ShardAssignment& record);

/// What this replica's node has of the shard goes on, alone, in a new fork.
[[nodiscard]] ShardAssignment recovered_from(const ViewContext& context, const ShardAssignment& record,
                                             const Replica& replica);

/// Backups whose storage was lost or whose node stopped.
[[nodiscard]] NextRecord remove_lost_backups(const ViewContext& context, const ShardAssignment& record);

/// Members that are not to stay, or one too many.
[[nodiscard]] NextRecord release_members(const ViewContext& context, const ReplicaLoads& loads,
                                         const ViewHistory& history, const ShardAssignment& record);

/// Learners that are of no use.
[[nodiscard]] NextRecord drop_learners(const ViewContext& context, const ShardAssignment& record);

/// A new learner, or the end of a move that cannot be completed. `incomplete_for`: how long members and
/// learners together have been too few.
[[nodiscard]] NextRecord add_learner(const ViewContext& context, const ReplicaLoads& loads, const ViewHistory& history,
                                     const ShardAssignment& record, DurationNs incomplete_for);

/// Members, and learners, that are missing.
[[nodiscard]] bool lacks_members(const ViewContext& context, const ShardAssignment& record);
[[nodiscard]] bool lacks_learners(const ViewContext& context, const ShardAssignment& record);

}  // namespace skua::control

#endif  // SKUA_CONTROL_CORE_SHARD_REPAIR_H_
