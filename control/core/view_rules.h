// The rules by which one record of a shard may follow another, without any policy.
//
// A record has the view (primary and members, in an epoch) and the learners that may become members:
//
//                           with_learner            with_join                  promoted
//      no part in the shard ───────────> following ───────────> joining (no. N) ───────────> member
//             ^                            │   ^                   │                           │
//             │      without_learner       │   └───────────────────┘                           │
//             ├────────────────────────────┘     without_join, or any new epoch                │
//             └────────────────────────────────────────────────────────────────────────────────┘
//                                        next_view
//
// Only `promoted`, `next_view`, `forked`, `orphaned` and `with_worker` of a member make a new epoch; every step counts
// `change` up. While a learner is joining, the primary needs the learner's acknowledgement for every commit. So the old
// members cannot commit an entry without the new member, whether or not the compare-and-swap of `promoted` has
// succeeded. An attempt that was given up never counts again: its number is not reused, and a JoinReady with that
// number is ignored.
//
//   primary(v+1) in members(v)            an entry committed in v needed every member's
//   members(v+1) within members(v)        acknowledgement, so each of them has it and v+1 starts with it
//              + joining learners(v)
//
// `forked` may break these rules on purpose; it counts `fork` up to say so.
#ifndef SKUA_CONTROL_CORE_VIEW_RULES_H_
#define SKUA_CONTROL_CORE_VIEW_RULES_H_

#include <cstddef>
#include <cstdint>
#include <set>
#include <string>
#include <vector>

#include "control/core/cluster_state.h"

namespace skua::control {

[[nodiscard]] ShardKey key_of(const ShardRecord& record);
/// The primary, if there is one, and the backups.
[[nodiscard]] std::vector<Replica> members_of(const ShardRecord& record);
[[nodiscard]] size_t member_count(const ShardRecord& record);
/// The member or learner on this node, or null. Points into the record.
[[nodiscard]] const Replica* find_member(const ShardRecord& record, const std::string& uuid);
[[nodiscard]] const Learner* find_learner(const ShardRecord& record, const std::string& uuid);
[[nodiscard]] bool is_primary(const ShardRecord& record, const std::string& uuid);
[[nodiscard]] bool is_leaving(const ShardRecord& record, const std::string& uuid);

/// A new epoch: the member `primary` leads as process `incarnation`, and the members on the nodes in `removed` are
/// removed. Ends every attempt to join.
[[nodiscard]] ShardRecord next_view(const ShardRecord& record, const std::string& primary, uint64_t incarnation,
                                    const std::set<std::string>& removed);
/// A new epoch in which the joining learner is a member. Ends other attempts to join.
[[nodiscard]] ShardRecord promoted(const ShardRecord& record, const std::string& learner, uint64_t incarnation);
/// A new epoch and fork with `sole` as the only member.
[[nodiscard]] ShardRecord forked(const ShardRecord& record, const Replica& sole, uint64_t incarnation);
/// A new epoch without any member: nobody serves the shard.
[[nodiscard]] ShardRecord orphaned(const ShardRecord& record);

[[nodiscard]] ShardRecord with_learner(const ShardRecord& record, const Replica& replica);
[[nodiscard]] ShardRecord without_learner(const ShardRecord& record, const std::string& uuid);
/// Begins an attempt to join, with a new number.
[[nodiscard]] ShardRecord with_join(const ShardRecord& record, const std::string& learner);
[[nodiscard]] ShardRecord without_join(const ShardRecord& record, const std::string& learner);
/// `to` becomes a learner, and member `from` is to leave when `to` is a member.
[[nodiscard]] ShardRecord with_move(const ShardRecord& record, const std::string& from, const Replica& to);
/// The replica on this node moves to another worker. A new epoch if it is a member.
[[nodiscard]] ShardRecord with_worker(const ShardRecord& record, const std::string& uuid, uint32_t worker);
[[nodiscard]] ShardRecord without_leaving(const ShardRecord& record);

/// Whether no node has two parts in the shard, there are no backups without a primary, and all leaving nodes are
/// members.
[[nodiscard]] bool is_well_formed(const ShardRecord& record);
/// Checks the rules above for two records. Empty if `after` may follow `before`, else the rule that is broken.
[[nodiscard]] std::string check_successor(const ShardRecord& before, const ShardRecord& after);

}  // namespace skua::control

#endif  // SKUA_CONTROL_CORE_VIEW_RULES_H_
