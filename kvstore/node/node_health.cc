// What a node says of itself: its counters, and whether it lives and may get work.
#include <algorithm>
#include <ctime>
#include <utility>

#include "absl/strings/str_cat.h"
#include "kvstore/node/node.h"
#include "rpc/base/metrics_text.h"

namespace skua::kv {
namespace {

/// How many of the table's shards have a replica on the node that is catching up.
uint32_t learning_shards(const control::ShardMap& map, const control::MapTable& table, const std::string& node_uuid) {
  const auto is_here = [&](const control::MapLearner& learner) {
    return map.nodes[learner.replica.node].uuid == node_uuid;
  };
  return static_cast<uint32_t>(std::ranges::count_if(
      table.shards, [&](const control::MapShard& shard) { return std::ranges::any_of(shard.learners, is_here); }));
}

void add_readiness(MetricsText& out, bool is_ready, bool is_starting) {
  out.single("skua_ready", "1 if all checks of /readyz pass.", is_ready ? 1 : 0);
  out.single("skua_starting", "1 until the node has recovered its data and listens.", is_starting ? 1 : 0);
}

}  // namespace

/// Thread: the map cache's.
void Node::note_map(const control::ShardMap& map) {
  uint32_t learning = 0;
  for (const control::MapTable& table : map.tables) learning += learning_shards(map, table, options_.node_uuid);
  learning_shards_.store(learning);
  newest_revision_.store(map.revision);
}

WorkerAnswers Node::poll_workers() {
  std::vector<WorkerPoll::AskFn> questions;
  for (Worker* const worker : workers()) questions.emplace_back([worker] { return worker->ask_stats(); });
  return poll_.ask(questions);
}

std::string metrics_of_starting_node() {
  MetricsText out;
  add_readiness(out, false, true);
  return out.text();
}

std::string Node::metrics() {
  const WorkerAnswers answers = poll_workers();
  MetricsText own;
  own.family("skua_worker_up", "1 if the worker answered; the counters of a worker that did not are left out.");
  for (const WorkerStats& stats : answers.stats) own.sample(absl::StrCat("worker=\"", stats.worker, "\""), 1);
  for (const uint32_t worker : answers.silent) own.sample(absl::StrCat("worker=\"", worker, "\""), 0);
  add_readiness(own, std::ranges::all_of(readiness(), &HealthCheck::passes), false);
  own.single("skua_map_revision", "Revision of the newest shard map whose shards are all served here; 0: none yet.",
             applied_revision_.load());
  if (options_.credentials != nullptr) {
    if (const auto expires_s = options_.credentials->expires_s(std::time(nullptr)); expires_s.has_value()) {
      own.single("skua_certificate_expires_seconds", "When the node's certificate expires: seconds since 1970.",
                 static_cast<uint64_t>(std::max<int64_t>(*expires_s, 0)));
    }
  }
  return format_metrics(answers.stats) + own.text();
}

std::vector<HealthCheck> Node::readiness() {
  std::string no_room;
  bool is_serving = false;
  {
    const std::lock_guard lock(mutex_);
    is_serving = joined_ && !stopping_;
    if (!is_serving) no_room = no_room_;
  }
  const bool has_registered = has_registered_.load();
  const uint64_t applied = applied_revision_.load();
  const uint64_t newest = newest_revision_.load();
  // The manager lives until stop(), which comes after the last caller.
  const size_t unserved = is_serving ? manager_->unserved().size() : 0;
  const uint32_t learning = learning_shards_.load();
  return {{"registered", has_registered, has_registered ? "" : "the control plane has not registered this node yet"},
          {"recovered", is_serving,
           is_serving        ? ""
           : no_room.empty() ? "the workers do not run"
                             : no_room},
          {"map-applied", applied != 0 && applied >= newest,
           newest == 0 ? "no shard map came yet" : absl::StrCat("revision ", applied, " of ", newest)},
          {"shards-open", unserved == 0, unserved == 0 ? "" : absl::StrCat(unserved, " shards cannot be opened")},
          {"replicas-current", learning == 0,
           learning == 0 ? "" : absl::StrCat(learning, " replicas of this node are catching up")}};
}

}  // namespace skua::kv
