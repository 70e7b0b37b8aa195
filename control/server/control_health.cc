#include "control/server/control_health.h"

#include <algorithm>
#include <chrono>
#include <ctime>
#include <memory>
#include <utility>

#include "absl/strings/str_cat.h"
#include "control/core/cluster_progress.h"
#include "control/core/node_status.h"
#include "control/proto/redirect.h"
#include "rpc/base/metrics_text.h"

namespace skua::control {
namespace {

ControlFigures figures_of(const ClusterCore& core, bool is_store_reachable) {
  ControlFigures figures;
  figures.is_store_reachable = is_store_reachable;
  figures.map_revision = core.state().map_revision;
  for (const auto& [uuid, node] : core.state().nodes) {
    ++figures.nodes[static_cast<size_t>(core.node_status(uuid).value_or(NodeStatus{}).liveness)];
  }
  figures.tables = core.state().tables.size();
  for (const auto& [id, table] : core.state().tables) {
    figures.shards += table.shard_count;
    figures.available_shards += available_shard_count(core.context(), id);
    figures.settled_shards += settled_shard_count(core.context(), id);
  }
  return figures;
}

bool leads(const std::optional<ControlFigures>& figures) {
  return figures.has_value() && figures->leading.ok();
}

void add_cluster(MetricsText& out, const ControlFigures* figures) {
  out.family("skua_control_nodes", "Nodes of the cluster, by what is known of their life.");
  for (size_t i = 0; figures != nullptr && i < kLivenessCount; ++i) {
    out.sample(absl::StrCat("liveness=\"", liveness_name(static_cast<Liveness>(i)), "\""), figures->nodes[i]);
  }
  out.family("skua_control_shards",
             "Shards of all tables. settled: all members on live nodes, nothing under way. unsettled: served, but not "
             "settled. unavailable: without a live primary.");
  if (figures != nullptr) {
    const uint64_t settled = std::min(figures->settled_shards, figures->available_shards);
    out.sample("state=\"settled\"", settled);
    out.sample("state=\"unsettled\"", figures->available_shards - settled);
    out.sample("state=\"unavailable\"", figures->shards - std::min(figures->available_shards, figures->shards));
  }
  out.family("skua_control_tables", "Tables.");
  if (figures != nullptr) out.sample({}, figures->tables);
  out.family("skua_control_map_revision", "Revision of the newest shard map.");
  if (figures != nullptr) out.sample({}, figures->map_revision);
}

HealthCheck role_check(const ControlFigures& figures) {
  if (figures.leading.ok()) return {.name = "leader", .passes = true, .detail = "leads"};
  const std::string leader = redirected_to(figures.leading).value_or(std::string());
  if (!leader.empty()) return {.name = "leader", .passes = true, .detail = absl::StrCat("follows ", leader)};
  return {.name = "leader", .passes = false, .detail = std::string(figures.leading.message())};
}

}  // namespace

std::string format_control_metrics(const std::optional<ControlFigures>& figures, uint64_t watchers,
                                   std::optional<WallSeconds> certificate_expires_s) {
  MetricsText out;
  out.single("skua_control_up", "1 if the control thread answered.", figures.has_value() ? 1 : 0);
  out.single("skua_control_leader", "1 if this process leads; the figures of the cluster are the leader's to give.",
             leads(figures) ? 1 : 0);
  out.single("skua_control_metadata_reachable", "1 if the metadata store answered at the last try.",
             figures.has_value() && figures->is_store_reachable ? 1 : 0);
  out.single("skua_control_watchers", "Nodes and clients that follow the shard map.", watchers);
  add_cluster(out, leads(figures) ? &*figures : nullptr);
  if (certificate_expires_s.has_value()) {
    out.single("skua_certificate_expires_seconds", "When the process's certificate expires: seconds since 1970.",
               static_cast<uint64_t>(std::max<WallSeconds>(*certificate_expires_s, 0)));
  }
  return out.text();
}

std::string ControlHealth::metrics() {
  const auto expires_s = credentials_ == nullptr ? std::nullopt : credentials_->expires_s(std::time(nullptr));
  return format_control_metrics(look(), hub_.watcher_count(), expires_s);
}

std::vector<HealthCheck> control_readiness(const std::optional<ControlFigures>& figures) {
  const bool answers = figures.has_value();
  std::vector<HealthCheck> checks = {
      {.name = "control-thread", .passes = answers, .detail = answers ? "" : "does not answer"}};
  if (!answers) return checks;
  checks.push_back(role_check(*figures));
  checks.push_back({.name = "metadata",
                    .passes = figures->is_store_reachable,
                    .detail = figures->is_store_reachable ? "" : "the metadata store does not answer"});
  return checks;
}

std::optional<ControlFigures> ControlHealth::look() {
  const std::lock_guard lock(mutex_);
  // What came after nobody waited any more may be as old as the last time that somebody asked.
  if (asked_.valid() && asked_.wait_for(std::chrono::seconds(0)) == std::future_status::ready) asked_ = {};
  if (!asked_.valid()) {
    const auto promise = std::make_shared<std::promise<ControlFigures>>();
    std::future<ControlFigures> answer = promise->get_future();
    const absl::Status queued = controller_.query(
        [this, promise](const ClusterCore& core, TimeNs /*now*/) {
          promise->set_value(figures_of(core, !controller_.has_store_trouble()));
        },
        [promise](const absl::Status& why) {
          ControlFigures figures;
          figures.leading = why;
          promise->set_value(std::move(figures));
        });
    if (!queued.ok()) return std::nullopt;
    asked_ = std::move(answer);
  }
  if (asked_.wait_for(std::chrono::nanoseconds(timeout_ns_)) != std::future_status::ready) return std::nullopt;
  return asked_.get();
}

}  // namespace skua::control
