// The rules of view_manager.h for one shard. Each rule is a function of the context: it returns the shard's next
// record, or nothing if the rule does not apply.
#ifndef SKUA_CONTROL_CORE_SHARD_REPAIR_H_
#define SKUA_CONTROL_CORE_SHARD_REPAIR_H_

#include <map>
#include <optional>
#include <string>

#include "control/core/accusations.h"
#include "control/core/replica_placement.h"
#include "control/core/view_context.h"

namespace skua::control {

using NextRecord = std::optional<ShardRecord>;

/// Whether the shard belongs to a table with one replica, has at most one member, and no change of it is under way.
[[nodiscard]] bool is_single_copy(const ViewContext& context, const ShardRecord& record);

/// Whether the primary is alive, serves its data, and is not doubtful.
[[nodiscard]] bool primary_works(const ViewContext& context, const ShardRecord& record);

/// If the primary has lost its storage, has stopped, or has restarted: another member leads. A restarted primary leads
/// again if no other member can.
[[nodiscard]] NextRecord replace_lost_primary(const ViewContext& context, const ReplicaLoads& loads,
                                              const ShardRecord& record);

/// If the primary is doubtful or cannot open its data, and another member can lead: that member leads, and the old
/// primary stays a member.
[[nodiscard]] NextRecord replace_unfit_primary(const ViewContext& context, const ReplicaLoads& loads,
                                               const ShardRecord& record);

/// If all members are there and doubtful: the member with the longest log goes on alone, in a new fork.
[[nodiscard]] NextRecord go_on_after_doubt(const ViewContext& context, const ShardRecord& record);

/// `after`, which is to follow `before`, with its list of former members. The list is empty if the shard has all its
/// members. A control process that has just started knows nothing else of the past. A learner that is removed while
/// nobody serves the shard is noted there, too: it may have the only copy that is left.
[[nodiscard]] ShardRecord with_former(const ViewContext& context, const ShardRecord& before, ShardRecord after);

/// Whether nobody serves the shard and this node, which is no member, may have a copy of it: a learner or a former
/// member. Such a node keeps its data, so an operator can recover the shard from it.
[[nodiscard]] bool may_be_needed(const ViewContext& context, const ShardRecord& record, const std::string& uuid);

/// The record after a recovery: this replica goes on alone, in a new fork, with the data that its node has.
[[nodiscard]] ShardRecord recovered_from(const ViewContext& context, const ShardRecord& record, const Replica& replica);

/// Removes backups whose storage was lost or whose node has stopped. One that stopped stays until the primary is known
/// to have outlived it: otherwise a primary that is dead, but not suspected yet, would remove the only member that can
/// lead.
[[nodiscard]] NextRecord remove_lost_backups(const ViewContext& context, const ShardRecord& record);

/// The member that should lead when the primary's node stops soon: one that does not stop itself and is not to leave.
/// `must_be_heard`: it was heard of lately, so it can lead now. Otherwise it is alive, and can lead when it is heard.
[[nodiscard]] std::optional<std::string> next_leader(const ViewContext& context, const ReplicaLoads& loads,
                                                     const ShardRecord& record, bool must_be_heard);

/// The primary's node stops soon: next_leader() leads, if there is one that was heard of lately.
[[nodiscard]] NextRecord hand_over(const ViewContext& context, const ReplicaLoads& loads, const ShardRecord& record);

/// Removes members that are not to stay when there are enough others, or one that is more than needed. A primary that
/// is not to stay stops leading before that.
[[nodiscard]] NextRecord release_members(const ViewContext& context, const ReplicaLoads& loads,
                                         const ViewHistory& history, const ShardRecord& record);

/// Removes a learner that is not needed, cannot become a member, or has been gone for long. Ends the attempt to join of
/// a learner that is gone.
[[nodiscard]] NextRecord drop_learners(const ViewContext& context, const ShardRecord& record);

/// Adds a learner, or ends a move that cannot be completed. `incomplete_for`: how long there have been too few members
/// and learners.
[[nodiscard]] NextRecord add_learner(const ViewContext& context, const ReplicaLoads& loads, const ViewHistory& history,
                                     const ShardRecord& record, DurationNs incomplete_for);

/// Whether the shard has too few members that are to stay; whether it has too few of these and learners together.
[[nodiscard]] bool lacks_members(const ViewContext& context, const ShardRecord& record);
[[nodiscard]] bool lacks_learners(const ViewContext& context, const ShardRecord& record);

}  // namespace skua::control

#endif  // SKUA_CONTROL_CORE_SHARD_REPAIR_H_
