#include "control/core/view_rules.h"

#include <algorithm>
#include <utility>

#include "rpc/base/check.h"

namespace skua::control {
namespace {

ShardRecord successor(const ShardRecord& record) {
  ShardRecord next = record;
  next.change += 1;
  return next;
}

void end_joins(ShardRecord& record) {
  for (Learner& learner : record.learners) learner.join = 0;
}

void drop_learner(ShardRecord& record, const std::string& uuid) {
  std::erase_if(record.learners, [&](const Learner& learner) { return learner.replica.node_uuid == uuid; });
}

/// Removes nodes that are no longer members from `leaving`.
void keep_leaving_members(ShardRecord& record) {
  std::erase_if(record.leaving, [&](const std::string& uuid) { return find_member(record, uuid) == nullptr; });
}

Learner& learner_at(ShardRecord& record, const std::string& uuid) {
  const auto found = std::find_if(record.learners.begin(), record.learners.end(),
                                  [&](const Learner& learner) { return learner.replica.node_uuid == uuid; });
  SKUA_CHECK(found != record.learners.end(), "not a learner of this shard");
  return *found;
}

using Name = std::pair<std::string, uint64_t>;

Name name_of(const Replica& replica) {
  return {replica.node_uuid, replica.storage_incarnation};
}

std::set<Name> names(const std::vector<Replica>& replicas) {
  std::set<Name> result;
  for (const Replica& replica : replicas) result.insert(name_of(replica));
  return result;
}

bool same_view(const ShardRecord& a, const ShardRecord& b) {
  return a.primary == b.primary && a.backups == b.backups && a.primary_incarnation == b.primary_incarnation &&
         a.fork == b.fork;
}

std::string check_members(const ShardRecord& before, const ShardRecord& after) {
  const std::set<Name> old = names(members_of(before));
  if (after.primary && !old.contains(name_of(*after.primary))) return "the new primary was no member";
  for (const Name& member : names(members_of(after))) {
    const Learner* learner = find_learner(before, member.first);
    const bool joining =
        learner != nullptr && learner->join != 0 && learner->replica.storage_incarnation == member.second;
    if (!old.contains(member) && !joining) return "a new member was not joining";
  }
  return {};
}

std::string check_joins(const ShardRecord& before, const ShardRecord& after) {
  uint64_t next = before.next_join;
  for (const Learner& learner : after.learners) {
    if (learner.join == 0) continue;
    if (after.epoch != before.epoch) return "an attempt to join outlived its epoch";
    const Learner* old = find_learner(before, learner.replica.node_uuid);
    if (old != nullptr && *old == learner) continue;
    if (learner.join != next) return "an attempt to join has a used number";
    ++next;
  }
  return after.next_join == next ? "" : "the count of attempts to join is wrong";
}

}  // namespace

ShardKey key_of(const ShardRecord& record) {
  return {record.table_id, record.shard};
}

std::vector<Replica> members_of(const ShardRecord& record) {
  std::vector<Replica> members;
  members.reserve(member_count(record));
  if (record.primary) members.push_back(*record.primary);
  members.insert(members.end(), record.backups.begin(), record.backups.end());
  return members;
}

size_t member_count(const ShardRecord& record) {
  return record.backups.size() + (record.primary ? 1 : 0);
}

const Replica* find_member(const ShardRecord& record, const std::string& uuid) {
  if (is_primary(record, uuid)) return &*record.primary;
  const auto found = std::find_if(record.backups.begin(), record.backups.end(),
                                  [&](const Replica& backup) { return backup.node_uuid == uuid; });
  return found == record.backups.end() ? nullptr : &*found;
}

const Learner* find_learner(const ShardRecord& record, const std::string& uuid) {
  const auto found = std::find_if(record.learners.begin(), record.learners.end(),
                                  [&](const Learner& learner) { return learner.replica.node_uuid == uuid; });
  return found == record.learners.end() ? nullptr : &*found;
}

bool is_primary(const ShardRecord& record, const std::string& uuid) {
  return record.primary && record.primary->node_uuid == uuid;
}

bool is_leaving(const ShardRecord& record, const std::string& uuid) {
  return std::find(record.leaving.begin(), record.leaving.end(), uuid) != record.leaving.end();
}

ShardRecord next_view(const ShardRecord& record, const std::string& primary, uint64_t incarnation,
                      const std::set<std::string>& removed) {
  ShardRecord next = successor(record);
  next.epoch += 1;
  next.primary.reset();
  next.backups.clear();
  for (const Replica& member : members_of(record)) {
    if (member.node_uuid == primary) {
      next.primary = member;
    } else if (!removed.contains(member.node_uuid)) {
      next.backups.push_back(member);
    }
  }
  SKUA_CHECK(next.primary.has_value(), "only a member may become primary");
  next.primary_incarnation = incarnation;
  end_joins(next);
  keep_leaving_members(next);
  return next;
}

ShardRecord promoted(const ShardRecord& record, const std::string& learner, uint64_t incarnation) {
  ShardRecord next = successor(record);
  const Learner joining = learner_at(next, learner);
  SKUA_CHECK(joining.join != 0 && record.primary, "only a joining learner of a served shard becomes a member");
  next.epoch += 1;
  next.backups.push_back(joining.replica);
  next.primary_incarnation = incarnation;
  drop_learner(next, learner);
  end_joins(next);
  return next;
}

ShardRecord forked(const ShardRecord& record, const Replica& sole, uint64_t incarnation) {
  ShardRecord next = successor(record);
  next.epoch += 1;
  next.fork += 1;
  next.primary = sole;
  next.backups.clear();
  next.primary_incarnation = incarnation;
  drop_learner(next, sole.node_uuid);
  end_joins(next);
  keep_leaving_members(next);
  return next;
}

ShardRecord orphaned(const ShardRecord& record) {
  ShardRecord next = successor(record);
  next.epoch += 1;
  next.primary.reset();
  next.backups.clear();
  next.learners.clear();
  next.leaving.clear();
  next.former.clear();
  next.primary_incarnation = 0;
  return next;
}

ShardRecord with_learner(const ShardRecord& record, const Replica& replica) {
  SKUA_CHECK(find_member(record, replica.node_uuid) == nullptr && find_learner(record, replica.node_uuid) == nullptr,
             "a node has one part in a shard");
  ShardRecord next = successor(record);
  next.learners.push_back({replica, 0});
  return next;
}

ShardRecord without_learner(const ShardRecord& record, const std::string& uuid) {
  ShardRecord next = successor(record);
  drop_learner(next, uuid);
  return next;
}

ShardRecord with_join(const ShardRecord& record, const std::string& learner) {
  ShardRecord next = successor(record);
  learner_at(next, learner).join = next.next_join++;
  return next;
}

ShardRecord without_join(const ShardRecord& record, const std::string& learner) {
  ShardRecord next = successor(record);
  learner_at(next, learner).join = 0;
  return next;
}

ShardRecord with_move(const ShardRecord& record, const std::string& from, const Replica& to) {
  SKUA_CHECK(find_member(record, from) != nullptr, "only a member can be moved");
  ShardRecord next = with_learner(record, to);
  if (!is_leaving(record, from)) next.leaving.push_back(from);
  return next;
}

ShardRecord without_leaving(const ShardRecord& record) {
  ShardRecord next = successor(record);
  next.leaving.clear();
  return next;
}

ShardRecord with_worker(const ShardRecord& record, const std::string& uuid, uint32_t worker) {
  ShardRecord next = successor(record);
  for (Learner& learner : next.learners) {
    if (learner.replica.node_uuid == uuid) learner.replica.worker = worker;
  }
  if (find_member(record, uuid) == nullptr) {
    // The attempt to join ends: replicas that waited for the learner must first find it at its new worker.
    learner_at(next, uuid).join = 0;
    return next;
  }
  next.epoch += 1;
  end_joins(next);
  if (is_primary(next, uuid)) next.primary->worker = worker;
  for (Replica& backup : next.backups) {
    if (backup.node_uuid == uuid) backup.worker = worker;
  }
  return next;
}

bool is_well_formed(const ShardRecord& record) {
  std::set<std::string> nodes;
  for (const Replica& member : members_of(record)) {
    if (!nodes.insert(member.node_uuid).second) return false;
  }
  if (!record.primary && !record.backups.empty()) return false;
  for (const std::string& uuid : record.leaving) {
    if (!nodes.contains(uuid)) return false;
  }
  return std::all_of(record.learners.begin(), record.learners.end(),
                     [&](const Learner& learner) { return nodes.insert(learner.replica.node_uuid).second; });
}

std::string check_successor(const ShardRecord& before, const ShardRecord& after) {
  if (before.table_id != after.table_id || before.shard != after.shard) return "another shard's record";
  if (after.change != before.change + 1) return "`change` did not grow by one";
  // A new epoch with the same view is allowed. It ends everything that is under way in the old epoch.
  if (after.epoch != before.epoch + 1 && (after.epoch != before.epoch || !same_view(before, after))) {
    return "the epoch does not tell the views apart";
  }
  if (!is_well_formed(after)) return "a node has two parts in the shard";
  if (after.fork != before.fork && after.fork != before.fork + 1) return "`fork` did not grow by one";
  if (after.fork == before.fork) {
    if (auto broken = check_members(before, after); !broken.empty()) return broken;
  }
  return check_joins(before, after);
}

}  // namespace skua::control
