// skuactl status: prints what the control plane knows of nodes and tables, and what is wrong with them.
#include <algorithm>
#include <memory>
#include <nlohmann/json.hpp>
#include <string>
#include <utility>
#include <vector>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_format.h"
#include "app/exit.h"
#include "app/signals.h"
#include "app/value_text.h"
#include "control/client/admin_client.h"
#include "kvstore/codec/text.h"
#include "kvstore/ctl/cluster_print.h"
#include "kvstore/ctl/commands.h"
#include "kvstore/ctl/with_client.h"
#include "rpc/base/clock.h"
#include "rpc/base/printable.h"

namespace skua::kv::ctl {
namespace {

using control::AdminClient;
using control::ClusterStatus;

/// A shard that is not settled; the report has a line for it.
struct Unsettled {
  std::string table;
  ShardView shard;
};

struct Report {
  ClusterStatus status;
  std::vector<Unsettled> unsettled;
};

constexpr size_t kLinesMax = 20;

bool all_settled(const ClusterStatus& status) {
  return std::all_of(status.tables.begin(), status.tables.end(), [](const control::TableSummary& summary) {
    return summary.settled_shard_count == summary.table.shard_count;
  });
}

absl::StatusOr<Report> look(AdminClient& admin) {
  absl::StatusOr<ClusterStatus> status = admin.status();
  if (!status.ok()) return status.status();
  Report report{*std::move(status), {}};
  if (all_settled(report.status)) return report;
  const absl::StatusOr<control::ShardMap> map = admin.shard_map();
  if (!map.ok()) return map.status();
  for (const control::MapTable& table : map->tables) {
    for (uint32_t shard = 0; shard < table.shard_count(); ++shard) {
      ShardView view = view_of(report.status, *map, table, shard);
      if (!view.settled) report.unsettled.push_back({table.name, std::move(view)});
    }
  }
  return report;
}

std::string text_of(const Report& report) {
  const ClusterStatus& status = report.status;
  std::string text =
      absl::StrFormat("cluster %s (%s), shard map revision %d, control up %.1f s\ncontrol plane's security: %s\n\n",
                      printable(status.cluster_name), status.cluster_id, status.map_revision,
                      static_cast<double>(status.uptime_ns) / 1e9, describe(status.security));
  if (status.security.admission == control::Admission::kAccept) {
    absl::StrAppend(&text, "without a certificate: ", status.anonymous_watcher_count, " of the ", status.watcher_count,
                    " nodes and clients that follow the shard map\n\n");
  }
  absl::StrAppend(&text, table(node_rows(status)), "\n", table(table_rows(status.tables)));
  for (const auto& node : status.nodes) {
    if (node.trouble.empty()) continue;
    absl::StrAppend(&text, "\nTROUBLE at ", printable(node.info.uuid), ": ", printable(node.trouble), "\n");
  }
  for (const std::string& trouble : status.troubles) absl::StrAppend(&text, "\nTROUBLE: ", printable(trouble), "\n");
  if (!report.unsettled.empty()) absl::StrAppend(&text, "\nNot settled:\n");
  for (size_t i = 0; i < std::min(report.unsettled.size(), kLinesMax); ++i) {
    const auto& [table, shard] = report.unsettled[i];
    absl::StrAppend(&text, "  shard ", shard.shard, " of table ", table, ": ", printable(shard.lacks), "\n");
  }
  if (report.unsettled.size() > kLinesMax) {
    absl::StrAppend(&text, "  and ", report.unsettled.size() - kLinesMax,
                    " more: skuactl shard show TABLE --unsettled\n");
  }
  return text + hints_text(status);
}

nlohmann::json json_of(const Report& report) {
  const ClusterStatus& status = report.status;
  nlohmann::json unsettled = json_list(report.unsettled, [](const Unsettled& one) -> nlohmann::json {
    return {{"table", one.table}, {"shard", one.shard.shard}, {"lacks", one.shard.lacks}};
  });
  return {{"cluster_id", status.cluster_id},
          {"cluster_name", status.cluster_name},
          {"map_revision", status.map_revision},
          {"uptime_s", static_cast<double>(status.uptime_ns) / 1e9},
          {"security", describe(status.security)},
          {"watchers", status.watcher_count},
          {"watchers_without_certificate", status.anonymous_watcher_count},
          {"settled", all_settled(status)},
          {"nodes", nodes_json(status)},
          {"tables", tables_json(status.tables)},
          {"unsettled_shards", std::move(unsettled)},
          {"troubles", status.troubles},
          {"hints", status.hints}};
}

/// What waiting came to.
struct Waited {
  Report report;     // the newest
  TimeNs asked = 0;  // when it was asked for
  bool stopped = false;
  absl::Status silence{};  // not OK: later looks failed, the last one with this
};

/// Waits until all shards are settled, the limit has passed, or Ctrl-C. If the first look fails, ends the program
/// without waiting: the address may be wrong.
Waited look_until_settled(AdminClient& admin, DurationNs limit_ns, app::StopSignal* stop) {
  const SteadyClock clock;
  const TimeNs end = clock.now_ns() + limit_ns;
  TimeNs asked = clock.now_ns();
  Waited waited{.report = must(look(admin)), .asked = asked};
  while (!all_settled(waited.report.status)) {
    if (stop == nullptr || clock.now_ns() + kLookPause >= end) break;
    waited.stopped = stop->wait_for(kLookPause).has_value();
    if (waited.stopped) break;
    // If the control plane does not answer, it may be restarting: the last report is kept.
    asked = clock.now_ns();
    absl::StatusOr<Report> newer = look(admin);
    waited.silence = newer.status();
    if (!newer.ok()) continue;
    waited.report = *std::move(newer);
    waited.asked = asked;
  }
  return waited;
}

/// Says how old the report is if the control plane has not answered since.
std::string age_of(const Waited& waited) {
  if (waited.silence.ok()) return "";
  const DurationNs age = (SteadyClock().now_ns() - waited.asked) / kSecond * kSecond;
  return absl::StrCat(". The control plane has not answered for ", app::format_duration(age),
                      ", and the report above is that old: ", waited.silence.message());
}

int print_status(const Globals& globals, const DurationNs& wait_settled_ns) {
  const std::unique_ptr<app::StopSignal> stop = stop_signal_of_wait(wait_settled_ns);
  AdminClient admin = admin_of(globals);
  const Waited waited = look_until_settled(admin, wait_settled_ns, stop.get());
  const Report& report = waited.report;
  answer(globals, json_of(report), text_of(report));
  if (wait_settled_ns == 0 || all_settled(report.status)) return app::kExitOk;
  const std::string shards = counted(report.unsettled.size(), "shard");
  const std::string more =
      absl::StrCat(": what they lack stands above; skuactl shard show TABLE --unsettled tells more", age_of(waited));
  if (waited.stopped)
    return report_failure(absl::CancelledError(absl::StrCat("no longer waiting: ", shards, " not settled", more)));
  return report_failure(absl::DeadlineExceededError(
      absl::StrCat(shards, " not settled within ", app::format_duration(wait_settled_ns), more)));
}

}  // namespace

void add_status_command(app::Program& program, const Globals& globals) {
  const auto [command, wait_settled_ns] = add_command(
      program, "status", "Prints nodes, tables, who is missing and what is unsettled.", globals, print_status);
  command.add_duration("wait-settled", &wait_settled_ns,
                       "Return when every shard has all its replicas, but no later than this, or on Ctrl-C (exit code "
                       "1); 0: do not wait.");
  command.example("skuactl status", "");
  command.example("skuactl status --wait-settled 2m", "before the next node is stopped");
}

}  // namespace skua::kv::ctl
