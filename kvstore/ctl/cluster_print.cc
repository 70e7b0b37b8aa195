#include "kvstore/ctl/cluster_print.h"

#include "absl/strings/str_cat.h"
#include "absl/strings/str_format.h"
#include "absl/strings/str_join.h"
#include "kvstore/codec/text.h"

namespace skua::kv::ctl {
namespace {

using control::ClusterStatus;

/// The state of a node in one word or two.
std::string state_of(const ClusterStatus::Node& node) {
  std::string liveness = control::liveness_name(node.liveness);
  if (!node.info.draining) return liveness;
  return absl::StrCat(liveness, node.replica_count == 0 ? ", drained" : ", draining");
}

/// The version of the replication protocol that the node speaks.
std::string replication_of(const control::NodeInfo& node) {
  const std::string version = absl::StrCat("v", node.replication_version);
  return node.replicates() ? version : version + ", too old";
}

std::string name_of(const ClusterStatus& status, const ReplicaView& replica) {
  return absl::StrCat(short_uuid(status, replica.uuid), "/", replica.worker);
}

std::string names_of(const ClusterStatus& status, const ShardView& shard, ReplicaView::Role role) {
  std::vector<std::string> names;
  for (const ReplicaView& replica : shard.replicas) {
    if (replica.role == role) names.push_back(name_of(status, replica));
  }
  return names.empty() ? "-" : absl::StrJoin(names, " ");
}

std::string learners_of(const ClusterStatus& status, const ShardView& shard) {
  std::vector<std::string> names;
  for (const ReplicaView& replica : shard.replicas) {
    if (replica.role == ReplicaView::Role::kLearner) names.push_back(name_of(status, replica) + " copying");
    if (replica.role == ReplicaView::Role::kJoining) {
      names.push_back(absl::StrCat(name_of(status, replica), " joining (no. ", replica.join, ")"));
    }
  }
  return names.empty() ? "-" : absl::StrJoin(names, ", ");
}

const char* state_of(const ShardView& shard) {
  if (shard.settled) return "settled";
  if (!shard.available) return "unavailable";
  return shard.writable ? "unsettled" : "read-only";
}

nlohmann::json replica_json(const ReplicaView& replica) {
  nlohmann::json json = {{"role", role_name(replica.role)},
                         {"uuid", replica.uuid},
                         {"grpc_address", replica.grpc_address},
                         {"worker", replica.worker},
                         {"state", control::liveness_name(replica.liveness)},
                         {"draining", replica.draining},
                         {"lost_storage", replica.lost_storage},
                         {"unserved", replica.unserved}};
  if (!replica.unserved_why.empty()) json["unserved_why"] = replica.unserved_why;
  if (replica.join != 0) json["join"] = replica.join;
  if (!replica.copy.empty()) json["copy"] = replica.copy;
  return json;
}

nlohmann::json shard_json(const ShardView& shard) {
  return {{"shard", shard.shard},
          {"epoch", shard.epoch},
          {"fork", shard.fork},
          {"members", shard.member_count},
          {"available", shard.available},
          {"writable", shard.writable},
          {"settled", shard.settled},
          {"lacks", shard.lacks},
          {"replicas", json_list(shard.replicas, replica_json)}};
}

}  // namespace

TableRows node_rows(const ClusterStatus& status) {
  TableRows rows = {{"NODE", "ADDRESS", "STATE", "WORKERS", "REPLICATION", "LEADS", "HOLDS", "MAP", "LAST HEARD",
                     "DRAIN", "SECURITY"}};
  for (const auto& node : status.nodes) {
    const double silent_s = static_cast<double>(node.silent_ns) / 1e9;
    rows.push_back({node.info.uuid, node.info.grpc_address, state_of(node), absl::StrCat(node.info.worker_count),
                    replication_of(node.info), absl::StrCat(node.owned_shard_count), absl::StrCat(node.replica_count),
                    absl::StrCat(node.applied_revision), absl::StrFormat("%.1f s ago", silent_s),
                    node.drain_progress.empty() ? "-" : node.drain_progress, describe(node.security)});
  }
  return rows;
}

TableRows table_rows(const std::vector<control::TableSummary>& tables) {
  TableRows rows = {{"TABLE", "ID", "SHARDS", "REPLICAS", "MIN INSYNC", "AVAILABLE", "SETTLED"}};
  for (const control::TableSummary& summary : tables) {
    const control::Table& info = summary.table;
    rows.push_back({info.name, absl::StrCat(info.id), absl::StrCat(info.shard_count), absl::StrCat(info.replicas),
                    absl::StrCat(info.min_insync), absl::StrCat(summary.available_shard_count),
                    absl::StrCat(summary.settled_shard_count)});
  }
  return rows;
}

std::string shards_text(const ClusterStatus& status, const control::MapTable& table_of_shards,
                        const std::vector<ShardView>& shards) {
  std::string text = absl::StrCat("table ", table_of_shards.name, ": ", counted(table_of_shards.shard_count(), "shard"),
                                  ", ", counted(table_of_shards.replicas, "replica"), ", min_insync ",
                                  table_of_shards.min_insync, table_of_shards.read_anywhere ? ", read anywhere" : "",
                                  table_of_shards.hash_tags ? ", hash tags" : "", "\n");
  TableRows rows = {{"SHARD", "EPOCH", "STATE", "PRIMARY", "BACKUPS", "LEARNERS", "LACKS"}};
  for (const ShardView& shard : shards) {
    rows.push_back({absl::StrCat(shard.shard), absl::StrCat(shard.epoch), state_of(shard),
                    names_of(status, shard, ReplicaView::Role::kPrimary),
                    names_of(status, shard, ReplicaView::Role::kBackup), learners_of(status, shard),
                    shard.lacks.empty() ? "-" : shard.lacks});
  }
  return text + table(rows);
}

nlohmann::json nodes_json(const ClusterStatus& status) {
  const auto unserved_json = [](const control::ShardRef& shard) -> nlohmann::json {
    return {{"table_id", shard.shard.first}, {"shard", shard.shard.second}, {"why", shard.why}};
  };
  return json_list(status.nodes, [&](const ClusterStatus::Node& node) -> nlohmann::json {
    return {{"uuid", node.info.uuid},
            {"grpc_address", node.info.grpc_address},
            {"zone", node.info.zone},
            {"state", control::liveness_name(node.liveness)},
            {"workers", node.info.worker_count},
            {"replication_version", node.info.replication_version},
            {"replicates", node.info.replicates()},
            {"shards", node.owned_shard_count},
            {"replicas", node.replica_count},
            {"draining", node.info.draining},
            {"drain_progress", node.drain_progress},
            {"applied_revision", node.applied_revision},
            {"trouble", node.trouble},
            {"security", describe(node.security)},
            {"unserved", json_list(node.unserved, unserved_json)},
            {"silent_s", static_cast<double>(node.silent_ns) / 1e9}};
  });
}

nlohmann::json table_json(const control::TableSummary& summary) {
  const control::Table& table = summary.table;
  return {{"id", table.id},
          {"name", table.name},
          {"shards", table.shard_count},
          {"replicas", table.replicas},
          {"min_insync", table.min_insync},
          {"read_anywhere", table.read_anywhere},
          {"hash_tags", table.hash_tags},
          {"available_shards", summary.available_shard_count},
          {"settled_shards", summary.settled_shard_count}};
}

nlohmann::json tables_json(const std::vector<control::TableSummary>& tables) {
  return json_list(tables, table_json);
}

nlohmann::json shards_json(const control::MapTable& table, uint64_t map_revision,
                           const std::vector<ShardView>& shards) {
  return {{"table", table.name},
          {"id", table.id},
          {"map_revision", map_revision},
          {"replicas", table.replicas},
          {"min_insync", table.min_insync},
          {"read_anywhere", table.read_anywhere},
          {"hash_tags", table.hash_tags},
          {"shards", json_list(shards, shard_json)}};
}

}  // namespace skua::kv::ctl
