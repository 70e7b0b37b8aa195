#include "kvstore/shard/worker_engine.h"

#include <algorithm>
#include <utility>

#include "absl/strings/str_cat.h"
#include "rpc/base/check.h"

namespace skua::kv {

// --- Beginning and end

absl::StatusOr<std::unique_ptr<WorkerEngine>> WorkerEngine::create(const Options& options, Events events,
                                                                   std::unique_ptr<Device> device,
                                                                   std::unique_ptr<Log> log, ReaderPool& readers) {
  auto memory = MemoryTier::create(options.memory);
  if (!memory.ok()) return memory.status();
  return std::unique_ptr<WorkerEngine>(
      new WorkerEngine(options, std::move(events), std::move(device), std::move(log), *std::move(memory), readers));
}

WorkerEngine::WorkerEngine(const Options& options, Events events, std::unique_ptr<Device> device,
                           std::unique_ptr<Log> log, std::unique_ptr<MemoryTier> memory, ReaderPool& readers)
    : device_(std::move(device)), worker_(options, std::move(events), std::move(memory), readers) {
  worker_.log = std::make_unique<LogWriter>(
      std::move(log), worker_.options.log,
      [this](std::span<const LogSubmission> group, const absl::Status& health) { group_done(group, health); });
  Applier::Options applier = worker_.options.applier;
  applier.fit(worker_.options.memory.budget_bytes);
  worker_.applier = std::make_unique<Applier>(applier, *worker_.log, [this](std::vector<Applier::Report> reports) {
    worker_.events.post([this, reports = std::move(reports)]() mutable { round_done(reports); });
  });
}

WorkerEngine::~WorkerEngine() {
  SKUA_CHECK(worker_.counters.unfinished == 0, "stop the engine when every write was answered");
  worker_.applier.reset();  // uses the log
  worker_.log.reset();
}

bool WorkerEngine::stop() {
  worker_.applier->stop();
  worker_.log->stop();
  return log_writer_health().ok();
}

void WorkerEngine::set_short_of_room(bool is_short) {
  is_short_of_room_ = is_short;
  room_made_ms_ = worker_.steady_ms;
  worker_.applier->set_short_of_room(is_short);
}

void WorkerEngine::tick() {
  if (!worker_.stalled.empty()) retry_stalled();
  if (is_short_of_room_ && worker_.has_passed(room_made_ms_, kMakeRoomMs)) set_short_of_room(true);
  if (!worker_.applier->is_held_up() || !worker_.has_passed(applied_again_ms_, kApplyAgainMs)) return;
  applied_again_ms_ = worker_.steady_ms;
  worker_.applier->try_again();
}

void WorkerEngine::wake_log() {
  if (std::exchange(worker_.log_waits, false)) worker_.log->wake();
}

void WorkerEngine::retry_stalled() {
  for (Shard* shard : std::exchange(worker_.stalled, {})) shard->retry();
}

WorkerEngine::Counters WorkerEngine::counters() const {
  return {worker_.counters,          worker_.memory->counters(), worker_.log->counters(), worker_.applier->counters(),
          worker_.applier->queued(), worker_.log->health()};
}

// --- Shards

Shard& WorkerEngine::open_shard(ShardDb& db, uint64_t epoch) {
  return *shards_.emplace_back(std::make_unique<Shard>(worker_, db, epoch));
}

void WorkerEngine::forget(Shard& shard) {
  auto closed = shard.closing().leave();
  std::erase_if(shards_, [&](const auto& held) { return held.get() == &shard; });
  if (closed) closed();
}

std::vector<ClosingShard> WorkerEngine::closing_shards() const {
  std::vector<ClosingShard> closing = unclosed_;
  for (const auto& shard : shards_) {
    if (auto state = shard->closing().state()) closing.push_back(*std::move(state));
  }
  return closing;
}

std::vector<TroubledShard> WorkerEngine::troubled_shards() const {
  std::vector<TroubledShard> troubled;
  for (const auto& shard : shards_) {
    if (auto trouble = shard->trouble()) troubled.push_back(*std::move(trouble));
  }
  return troubled;
}

// --- What comes back

/// On the log's thread. The ops belong to this thread until the posted task runs.
void WorkerEngine::group_done(std::span<const LogSubmission> group, const absl::Status& health) {
  LogOp* first = nullptr;
  size_t writes = 0;
  bool synced = group.empty() && health.ok();
  for (size_t i = group.size(); i-- > 0;) {
    auto* op = static_cast<LogOp*>(group[i].context);
    op->outcome = group[i].outcome;
    op->log_durability = group[i].achieved;
    op->next = std::exchange(first, op);
    synced = synced || (op->outcome.ok() && is_synced(op->log_durability));
    if (op->kind == LogOp::Kind::kWrite || op->kind == LogOp::Kind::kEntry) ++writes;
  }
  worker_.events.post([this, first, writes, synced, health] { finish_group(first, writes, synced, health); });
}

void WorkerEngine::finish_group(LogOp* first, size_t writes, bool synced, const absl::Status& health) {
  // The shards must know of the failure before the records come back because of it.
  if (!health.ok() && worker_.log_failure.ok()) {
    worker_.log_failure = absl::Status(
        health.code(),
        absl::StrCat("the worker's log failed, and its shards refuse writes until the node is started again: ",
                     health.message()));
  }
  for (LogOp *op = first, *next = nullptr; op != nullptr; op = next) {
    next = op->next;
    if (op->kind == LogOp::Kind::kShardEnd) {
      forget(*op->shard);
    } else {
      op->shard->take_back(*op);
    }
  }
  // A sync makes all records of the log durable, those of all shards.
  if (synced) {
    for (Shard* shard : std::exchange(worker_.unsynced, {})) shard->synced();
  }
  if (writes > 0 && worker_.events.group_done) worker_.events.group_done(writes);
  for (Shard* shard : std::exchange(worker_.touched, {})) {
    shard->end_group();
    if (shard->closing().is_gone()) forget(*shard);
  }
}

void WorkerEngine::round_done(std::vector<Applier::Report>& reports) {
  for (const Applier::Report& report : reports) {
    worker_.applier->taken(report.effects);
    auto& shard = *static_cast<Shard*>(report.shard->context);
    shard.take_report(report);
    if (!report.closed) continue;
    if (auto lacks = shard.closing().let_go(report.failure)) unclosed_.push_back(*std::move(lacks));
    if (shard.closing().is_gone()) forget(shard);
  }
  retry_stalled();
  for (ShardClosing* closing : std::exchange(worker_.closing, {})) closing->go_on();
}

}  // namespace skua::kv
