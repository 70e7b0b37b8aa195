#include "kvstore/ctl/cluster_view.h"

#include <algorithm>
#include <set>
#include <utility>

#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "rpc/base/printable.h"
#include "rpc/base/status.h"

namespace skua::kv::ctl {
namespace {

using control::ClusterStatus;
using control::Liveness;

constexpr size_t kShortUuid = 8;
// Most nodes that a message lists: a cluster may have a thousand, and a message is one line.
constexpr size_t kNamesMax = 8;

std::string names_of(const std::vector<const ClusterStatus::Node*>& nodes) {
  std::vector<std::string> names;
  for (const ClusterStatus::Node* node : nodes) {
    if (names.size() == kNamesMax) {
      names.emplace_back("...");
      break;
    }
    names.push_back(absl::StrCat(node->info.uuid, " (", node->info.grpc_address, ")"));
  }
  return absl::StrJoin(names, ", ");
}

const ClusterStatus::Node* node_of(const ClusterStatus& status, const std::string& uuid) {
  const auto found = std::find_if(status.nodes.begin(), status.nodes.end(),
                                  [&](const ClusterStatus::Node& node) { return node.info.uuid == uuid; });
  return found == status.nodes.end() ? nullptr : &*found;
}

ReplicaView replica_view(const ClusterStatus& status, const control::ShardMap& map, const control::MapReplica& replica,
                         const control::ShardKey& shard, ReplicaView::Role role) {
  const control::MapNode& there = map.nodes[replica.node];
  ReplicaView view{.role = role, .uuid = there.uuid, .grpc_address = there.grpc_address, .worker = replica.worker};
  view.lost_storage = there.storage_incarnation != replica.storage_incarnation;
  if (const ClusterStatus::Node* node = node_of(status, there.uuid)) {
    view.liveness = node->liveness;
    view.draining = node->info.draining;
    const auto unserved = std::ranges::find(node->unserved, shard, &control::ShardRef::shard);
    view.unserved = unserved != node->unserved.end();
    if (view.unserved) view.unserved_why = unserved->why;
  }
  return view;
}

std::string copy_of(const ClusterStatus& status, const std::string& uuid, const control::ShardKey& shard) {
  const ClusterStatus::Node* const node = node_of(status, uuid);
  if (node == nullptr) return {};
  const auto found = std::ranges::find(node->copies, shard, &control::CopyReport::shard);
  return found == node->copies.end() ? std::string() : found->text;
}

bool is_member(const ReplicaView& replica) {
  return replica.role == ReplicaView::Role::kPrimary || replica.role == ReplicaView::Role::kBackup;
}

/// What is wrong with a replica, or what it is doing (joining, copying, draining). Empty: nothing.
std::string remark_on(const ClusterStatus& status, const ReplicaView& replica) {
  const std::string who = absl::StrCat("node ", short_uuid(status, replica.uuid));
  if (is_member(replica) && replica.lost_storage) return absl::StrCat(who, " lost its storage");
  if (replica.liveness != Liveness::kAlive) return absl::StrCat(who, " is ", liveness_name(replica.liveness));
  if (replica.unserved) {
    return absl::StrCat(who, " cannot open its data", replica.unserved_why.empty() ? "" : ": ", replica.unserved_why);
  }
  if (replica.role == ReplicaView::Role::kJoining) return absl::StrCat(who, " is joining");
  if (replica.role == ReplicaView::Role::kLearner) {
    return absl::StrCat(who, " is copying", replica.copy.empty() ? "" : ": ", replica.copy);
  }
  return replica.draining ? absl::StrCat(who, " is draining") : std::string();
}

/// If a shard has too few replicas and no node can take a further one: the reason. Otherwise empty.
std::string why_nobody_copies(const ClusterStatus& status, const control::MapTable& table, const ShardView& view) {
  if (view.replicas.size() >= table.replicas) return {};
  std::vector<std::string> away;
  for (const ClusterStatus::Node& node : status.nodes) {
    if (std::ranges::find(view.replicas, node.info.uuid, &ReplicaView::uuid) != view.replicas.end()) continue;
    if (node.liveness == Liveness::kAlive && !node.info.draining) return {};
    if (away.size() > kNamesMax) continue;
    away.push_back(away.size() == kNamesMax
                       ? "..."
                       : absl::StrCat("node ", short_uuid(status, node.info.uuid), " is ",
                                      node.info.draining ? "draining" : liveness_name(node.liveness)));
  }
  return absl::StrCat("no other live node can hold one more",
                      away.empty() ? "" : absl::StrCat(" (", absl::StrJoin(away, ", "), ")"),
                      ": start the missing nodes, or another skuad");
}

std::string what_lacks(const ClusterStatus& status, const control::MapTable& table, const ShardView& view) {
  std::vector<std::string> remarks;
  if (view.member_count != table.replicas) {
    remarks.push_back(absl::StrCat(view.member_count, " of ", table.replicas, " members"));
  }
  for (const ReplicaView& replica : view.replicas) {
    std::string remark = remark_on(status, replica);
    if (!remark.empty()) remarks.push_back(std::move(remark));
  }
  if (std::string why = why_nobody_copies(status, table, view); !why.empty()) remarks.push_back(std::move(why));
  if (view.available && !view.writable) {
    remarks.push_back(absl::StrCat("takes no writes before it has ", table.min_insync, " members"));
  }
  if (!view.available) remarks.emplace_back("not served");
  return absl::StrJoin(remarks, "; ");
}

}  // namespace

absl::StatusOr<ClusterStatus::Node> find_node(const ClusterStatus& status, std::string_view name) {
  std::vector<const ClusterStatus::Node*> all;
  std::vector<const ClusterStatus::Node*> meant;
  for (const ClusterStatus::Node& node : status.nodes) {
    if (node.info.uuid == name) return node;
    all.push_back(&node);
    const bool is_prefix = !name.empty() && std::string_view(node.info.uuid).substr(0, name.size()) == name;
    if (is_prefix || node.info.grpc_address == name) meant.push_back(&node);
  }
  const std::string said = printable(name);
  if (meant.size() == 1 && name.size() < kNodePrefixMin && meant.front()->info.grpc_address != name) {
    return absl::InvalidArgumentError(absl::StrCat("\"", said, "\" is too short to name a node: give ", kNodePrefixMin,
                                                   " characters of its uuid at least. Meant was ", names_of(meant),
                                                   "?"));
  }
  if (meant.size() == 1) return *meant.front();
  if (meant.size() > 1) {
    return absl::InvalidArgumentError(
        absl::StrCat("\"", said, "\" may be any of ", names_of(meant), ". Give the uuid, or more of it"));
  }
  if (all.empty()) return absl::NotFoundError(absl::StrCat("no node \"", said, "\": the cluster has none yet"));
  return absl::NotFoundError(absl::StrCat("no node \"", said, "\". Name one by uuid, the beginning of its uuid, or ",
                                          "its gRPC address. There are ", names_of(all)));
}

std::string hints_text(const control::ClusterStatus& status) {
  std::string text;
  for (const std::string& hint : status.hints) absl::StrAppend(&text, "\nHint: ", printable(hint), "\n");
  return text;
}

std::string short_uuid(const ClusterStatus& status, const std::string& uuid) {
  size_t length = kShortUuid;
  const auto shared = [&](const ClusterStatus::Node& node) {
    return node.info.uuid != uuid && node.info.uuid.substr(0, length) == uuid.substr(0, length);
  };
  while (length < uuid.size() && std::ranges::any_of(status.nodes, shared)) ++length;
  return uuid.substr(0, length);
}

const char* role_name(ReplicaView::Role role) {
  switch (role) {
    case ReplicaView::Role::kPrimary: return "primary";
    case ReplicaView::Role::kBackup: return "backup";
    case ReplicaView::Role::kLearner: return "learner";
    case ReplicaView::Role::kJoining: return "joining";
  }
  return "?";
}

ShardView view_of(const ClusterStatus& status, const control::ShardMap& map, const control::MapTable& table,
                  uint32_t shard) {
  using Role = ReplicaView::Role;
  const control::ShardKey key{table.id, shard};
  const control::MapShard& record = table.shards[shard];
  ShardView view{.shard = shard, .epoch = record.epoch, .fork = record.fork};
  if (record.primary) view.replicas.push_back(replica_view(status, map, *record.primary, key, Role::kPrimary));
  for (const control::MapReplica& backup : record.backups) {
    view.replicas.push_back(replica_view(status, map, backup, key, Role::kBackup));
  }
  view.member_count = static_cast<uint32_t>(view.replicas.size());
  for (const control::MapLearner& learner : record.learners) {
    const Role role = learner.join != 0 ? Role::kJoining : Role::kLearner;
    view.replicas.push_back(replica_view(status, map, learner.replica, key, role));
    view.replicas.back().join = learner.join;
    view.replicas.back().copy = copy_of(status, view.replicas.back().uuid, key);
  }
  const auto serves = [](const ReplicaView& replica) {
    return replica.liveness == Liveness::kAlive && !replica.lost_storage && !replica.unserved;
  };
  view.available = record.primary.has_value() && serves(view.replicas.front());
  view.writable = view.available && view.member_count >= table.min_insync;
  view.settled = view.available && view.member_count == table.replicas &&
                 std::ranges::all_of(view.replicas, [&](const ReplicaView& replica) {
                   return is_member(replica) && serves(replica) && !replica.draining;
                 });
  if (!view.settled) view.lacks = what_lacks(status, table, view);
  return view;
}

std::optional<std::vector<std::string>> nodes_not_serving(const ClusterStatus& status, const control::ShardMap& map,
                                                          control::TableId table, uint64_t revision) {
  const control::MapTable* const found = map.find_table(table);
  const bool listed = std::ranges::any_of(
      status.tables, [&](const control::TableSummary& summary) { return summary.table.id == table; });
  if (found == nullptr || !listed) return std::nullopt;
  std::set<std::string> missing;
  for (uint32_t shard = 0; shard < found->shard_count(); ++shard) {
    for (const ReplicaView& replica : view_of(status, map, *found, shard).replicas) {
      if (!is_member(replica)) continue;
      const ClusterStatus::Node* const node = node_of(status, replica.uuid);
      const bool current = node != nullptr && node->applied_revision >= revision;
      if (!current || replica.liveness != Liveness::kAlive || replica.unserved) missing.insert(replica.uuid);
    }
  }
  return std::vector<std::string>(missing.begin(), missing.end());
}

}  // namespace skua::kv::ctl
