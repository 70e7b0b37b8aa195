// Which record of a shard may follow which: the arithmetic of views, without any policy.
//
// A record names the view (primary and members, in an epoch) and who is on the way into it:
//
//                           with_learner            with_join                  promoted
//      no part in the shard ───────────> following ───────────> joining (no. N) ───────────> member
//             ^                            │   ^                   │                           │
//             │      without_learner       │   └───────────────────┘                           │
//             ├────────────────────────────┘     without_join, or any new epoch                │
//             └────────────────────────────────────────────────────────────────────────────────┘
//                                        next_view
//
// Only `promoted` and `next_view` (and `forked`) change the view, and so the epoch; every step counts `change` up. While
// a learner is joining, the primary requires its acknowledgement for every commit, so that whichever
// way the compare-and-swap of `promoted` ends, nothing was committed without the member-to-be: an
// entry committed by the old members after the store had taken the new record cannot exist. An attempt
// that is given up never counts again: its number is not reused, and a JoinReady that names it is
// ignored.
//
//   primary(v+1) in members(v)            an entry committed in v needed every member's
//   members(v+1) within members(v)        acknowledgement, so each of them has it and v+1 starts with it
//              + joining learners(v)
//
// `forked` breaks the first rule on purpose and says so by counting `fork` up.
#ifndef SKUA_CONTROL_CORE_VIEW_RULES_H_
#define SKUA_CONTROL_CORE_VIEW_RULES_H_

#include <cstddef>
#include <cstdint>
#include <set>
#include <string>
#include <vector>

#include "control/core/cluster_state.h"

namespace skua::control {

/// The primary, if there is one, and the backups.
[[nodiscard]] std::vector<Replica> members_of(const ShardAssignment& record);
[[nodiscard]] size_t member_count(const ShardAssignment& record);
/// The member or learner on this node, or null. Points into the record.
[[nodiscard]] const Replica* find_member(const ShardAssignment& record, const std::string& uuid);
[[nodiscard]] const Learner* find_learner(const ShardAssignment& record, const std::string& uuid);
[[nodiscard]] bool is_primary(const ShardAssignment& record, const std::string& uuid);
[[nodiscard]] bool is_leaving(const ShardAssignment& record, const std::string& uuid);

/// A new epoch: `primary`, a member, leads as process `incarnation`; the members on `removed` are
/// gone. Ends every attempt to join.
[[nodiscard]] ShardAssignment next_view(const ShardAssignment& record, const std::string& primary, uint64_t incarnation,
                                        const std::set<std::string>& removed);
/// A new epoch in which the joining learner is a member. Ends other attempts to join.
[[nodiscard]] ShardAssignment promoted(const ShardAssignment& record, const std::string& learner, uint64_t incarnation);
/// A new epoch and fork with `sole` as the only member.
[[nodiscard]] ShardAssignment forked(const ShardAssignment& record, const Replica& sole, uint64_t incarnation);
/// A new epoch without any member: nobody serves the shard.
[[nodiscard]] ShardAssignment orphaned(const ShardAssignment& record);

[[nodiscard]] ShardAssignment with_learner(const ShardAssignment& record, const Replica& replica);
[[nodiscard]] ShardAssignment without_learner(const ShardAssignment& record, const std::string& uuid);
/// Begins an attempt to join with a number of its own.
[[nodiscard]] ShardAssignment with_join(const ShardAssignment& record, const std::string& learner);
[[nodiscard]] ShardAssignment without_join(const ShardAssignment& record, const std::string& learner);
/// `to` becomes a learner that is to take the place of member `from`.
[[nodiscard]] ShardAssignment with_move(const ShardAssignment& record, const std::string& from, const Replica& to);
/// The replica on this node moves to another worker; a new epoch if it is a member's.
[[nodiscard]] ShardAssignment with_worker(const ShardAssignment& record, const std::string& uuid, uint32_t worker);
[[nodiscard]] ShardAssignment without_leaving(const ShardAssignment& record);

/// No node has two parts in the shard, backups only beside a primary, leaving nodes are members.
[[nodiscard]] bool is_well_formed(const ShardAssignment& record);
/// Empty if `after` may follow `before`, otherwise the rule that it breaks. The rules above, checked
/// from the outside.
[[nodiscard]] std::string check_successor(const ShardAssignment& before, const ShardAssignment& after);

}  // namespace skua::control

#endif  // SKUA_CONTROL_CORE_VIEW_RULES_H_
