#include "kvstore/service/shard_server.h"

#include <utility>

#include "rpc/base/check.h"

namespace skua::kv {

absl::StatusOr<std::unique_ptr<ShardServer>> ShardServer::create(rpc::Endpoint& endpoint, ReaderPool& readers,
                                                                 const Options& options, OpenLog log) {
  std::unique_ptr<ShardServer> server(new ShardServer(endpoint, readers, options));
  if (absl::Status started = server->start(options, readers, std::move(log)); !started.ok()) return started;
  return server;
}

ShardServer::ShardServer(rpc::Endpoint& endpoint, ReaderPool& readers, const Options& options)
    : endpoint_(endpoint),
      shards_(options),
      replies_(endpoint),
      admission_(endpoint, owners_, shards_, replies_, options.pending_max),
      reads_(endpoint, readers, shards_, admission_, replies_),
      writes_(admission_, replies_) {}

absl::Status ShardServer::start(const Options& options, ReaderPool& readers, OpenLog log) {
  WorkerEngine::Options engine = options.engine;
  engine.log_wake = LogWriter::Wake::kLater;
  engine.memory.on_map = [this](MutableByteSpan region) { return endpoint_.register_memory(region); };
  WorkerEngine::Events events;
  // post_waiting() returns false if the endpoint is gone. Then nobody waits for the task.
  events.post = [mailbox = endpoint_.mailbox()](absl::AnyInvocable<void()> task) {
    static_cast<void>(mailbox->post_waiting(std::move(task)));
  };
  events.write_done = [this](WriteOp& op) { writes_.write_done(op); };
  events.fetch_done = [this](FetchOp& op) { reads_.fetch_done(op); };
  events.applied = [this](AppliedWait& wait) { reads_.applied(wait); };
  events.group_done = [this](size_t writes) { replies_.stats().commit_groups.record(writes); };
  auto created = WorkerEngine::create(engine, std::move(events), std::move(log.device), std::move(log.log), readers);
  if (!created.ok()) return created.status();
  engine_ = *std::move(created);
  shards_.set_engine(*engine_);
  endpoint_.on_burst_end([this] { reads_.burst_end(); });
  serve<&ReadService::on_get>(Method::kGet, reads_);
  serve<&ReadService::on_multi_get>(Method::kMultiGet, reads_);
  serve<&ReadService::on_scan>(Method::kScan, reads_);
  for (const Method method :
       {Method::kPut, Method::kDelete, Method::kPatch, Method::kAdd, Method::kAppend, Method::kExpire}) {
    serve<&WriteService::on_mutation>(method, writes_);
  }
  serve<&WriteService::on_batch>(Method::kBatch, writes_);
  return absl::OkStatus();
}

ShardServer::~ShardServer() {
  SKUA_CHECK(waiting_count() == 0, "stop the engine and the reader pool, and poll, before the server");
}

void ShardServer::set_grants(const std::shared_ptr<const Grants>& grants) {
  shards_.set_grants(grants);
  owners_.set_grants(grants);
}

void ShardServer::set_quotas(const std::shared_ptr<const Quotas>& quotas) {
  owners_.set_quotas(quotas, endpoint_.now_ns());
  shards_.set_quotas_in_force(!quotas->empty());
  replies_.set_accounts(quotas->empty() ? nullptr : &owners_);
}

DurationNs ShardServer::tick() {
  shards_.tell_time(endpoint_.now_ns());
  engine_->tick();
  const DurationNs wait = shards_.tick();
  if (engine_->log_waits()) {
    // Messages to peers are sent first, so that the peers' logs and this log work at the same time. The log's thread,
    // once awake, would take the processor first.
    endpoint_.transmit();
    engine_->wake_log();
  }
  if (on_drained_ && waiting_count() == 0) std::exchange(on_drained_, {})();
  return wait;
}

void ShardServer::drain(absl::AnyInvocable<void()> on_drained) {
  on_drained_ = std::move(on_drained);
  engine_->drain();
  shards_.drain();
}

WorkerStats ShardServer::stats() const {
  WorkerStats stats;
  stats.shards = shards_.count();
  stats.pending_requests = admission_.pending_count();
  stats.requests = replies_.stats();
  stats.quota_refusals = owners_.ledger().refusals();
  stats.storage = engine_->counters();
  stats.leaving = shards_.leaving();
  stats.troubled = engine_->troubled_shards();
  for (TroubledShard& shard : shards_.without_replica()) stats.troubled.push_back(std::move(shard));
  return stats;
}

}  // namespace skua::kv
