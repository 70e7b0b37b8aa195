// status: what the control plane knows of nodes and tables.
#include <cstdio>
#include <nlohmann/json.hpp>
#include <string>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_format.h"
#include "app/exit.h"
#include "control/client/admin_client.h"
#include "kvstore/ctl/commands.h"

namespace skua::kv::ctl {
namespace {

std::string seconds(DurationNs ns) {
  return absl::StrFormat("%.1f s", static_cast<double>(ns) / 1e9);
}

void print_text(const control::ClusterStatus& status) {
  std::printf("cluster %s (%s), shard map revision %llu, control up %s\n\n", status.cluster_name.c_str(),
              status.cluster_id.c_str(), static_cast<unsigned long long>(status.map_revision),
              seconds(status.uptime_ns).c_str());
  std::vector<std::vector<std::string>> nodes = {
      {"NODE", "ADDRESS", "STATE", "WORKERS", "SHARDS", "MAP", "LAST HEARD"}};
  for (const auto& node : status.nodes) {
    nodes.push_back({node.info.uuid, node.info.grpc_address, liveness_name(node.liveness),
                     absl::StrCat(node.info.worker_count), absl::StrCat(node.owned_shard_count),
                     absl::StrCat(node.applied_revision), absl::StrCat(seconds(node.silent_ns), " ago")});
  }
  std::fputs(table(nodes).c_str(), stdout);
  for (const auto& node : status.nodes) {
    if (!node.trouble.empty()) std::printf("\nTROUBLE at %s: %s\n", node.info.uuid.c_str(), node.trouble.c_str());
  }
  std::vector<std::vector<std::string>> tables = {{"TABLE", "ID", "SHARDS", "AVAILABLE"}};
  for (const auto& summary : status.tables) {
    tables.push_back({summary.table.name, absl::StrCat(summary.table.id), absl::StrCat(summary.table.shard_count),
                      absl::StrCat(summary.available_shard_count)});
  }
  std::printf("\n%s", table(tables).c_str());
}

void print_json(const control::ClusterStatus& status) {
  nlohmann::json nodes = nlohmann::json::array();
  for (const auto& node : status.nodes) {
    nodes.push_back({{"uuid", node.info.uuid},
                     {"grpc_address", node.info.grpc_address},
                     {"state", liveness_name(node.liveness)},
                     {"workers", node.info.worker_count},
                     {"shards", node.owned_shard_count},
                     {"applied_revision", node.applied_revision},
                     {"trouble", node.trouble},
                     {"silent_s", static_cast<double>(node.silent_ns) / 1e9}});
  }
  nlohmann::json tables = nlohmann::json::array();
  for (const auto& summary : status.tables) {
    tables.push_back({{"name", summary.table.name},
                      {"id", summary.table.id},
                      {"shards", summary.table.shard_count},
                      {"available_shards", summary.available_shard_count}});
  }
  const nlohmann::json json = {{"cluster_id", status.cluster_id},
                               {"cluster_name", status.cluster_name},
                               {"map_revision", status.map_revision},
                               {"uptime_s", static_cast<double>(status.uptime_ns) / 1e9},
                               {"nodes", nodes},
                               {"tables", tables}};
  std::printf("%s\n", json.dump(2).c_str());
}

}  // namespace

void add_status_command(app::Program& program, const Globals& globals) {
  program.add_command("status", "Prints nodes, tables and who is missing.").action([&globals] {
    control::AdminClient admin(globals.control_address, globals.timeout_ns);
    const absl::StatusOr<control::ClusterStatus> status = admin.status();
    if (!status.ok()) return report_failure(status.status());
    globals.json ? print_json(*status) : print_text(*status);
    return app::kExitOk;
  });
}

}  // namespace skua::kv::ctl
