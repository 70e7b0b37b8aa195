#include "kvstore/service/shard_server.h"

#include <algorithm>
#include <utility>

#include "absl/strings/str_cat.h"
#include "kvstore/service/service_limits.h"
#include "rpc/base/check.h"
#include "rpc/base/status.h"

namespace skua::kv {

using rpc::IncomingCall;
using rpc::MessagePtr;
using rpc::MethodId;
using rpc::ReplyToken;

namespace {

/// The engine is told the time at most once in this time.
constexpr TimeNs kTimeStepNs = kMillisecond;

}  // namespace

absl::StatusOr<std::unique_ptr<ShardServer>> ShardServer::create(rpc::Endpoint& endpoint, ReaderPool& readers,
                                                                 const Options& options, OpenLog log) {
  std::unique_ptr<ShardServer> server(new ShardServer(endpoint, readers, options));
  if (absl::Status started = server->start(options, std::move(log)); !started.ok()) return started;
  return server;
}

ShardServer::ShardServer(rpc::Endpoint& endpoint, ReaderPool& readers, const Options& options)
    : endpoint_(endpoint),
      mailbox_(endpoint.mailbox()),
      readers_(readers),
      pool_(*this, options.pending_max),
      replica_options_(options.replica),
      replica_host_(options.replica_host),
      clock_(*options.clock) {}

absl::Status ShardServer::start(const Options& options, OpenLog log) {
  WorkerEngine::Options engine = options.engine;
  engine.log_wake = LogWriter::Wake::kLater;
  engine.memory.on_map = [this](MutableByteSpan region) { return endpoint_.register_memory(region); };
  WorkerEngine::Events events;
  // post_waiting() returns false if the endpoint is gone. Then nobody waits for the task.
  events.post = [this](absl::AnyInvocable<void()> task) { static_cast<void>(mailbox_->post_waiting(std::move(task))); };
  events.write_done = [this](WriteOp& op) { write_done(op); };
  events.fetch_done = [this](FetchOp& op) { fetch_done(op); };
  events.applied = [this](AppliedWait& wait) { applied(wait); };
  events.group_done = [this](size_t writes) { stats_.commit_groups.record(writes); };
  auto created = WorkerEngine::create(engine, std::move(events), std::move(log.device), std::move(log.log), readers_);
  if (!created.ok()) return created.status();
  engine_ = *std::move(created);
  endpoint_.on_burst_end([this] { answer_gathered(); });
  serve<&ShardServer::on_get>(Method::kGet);
  serve<&ShardServer::on_multi_get>(Method::kMultiGet);
  serve<&ShardServer::on_scan>(Method::kScan);
  serve<&ShardServer::on_put>(Method::kPut);
  serve<&ShardServer::on_delete>(Method::kDelete);
  serve<&ShardServer::on_patch>(Method::kPatch);
  serve<&ShardServer::on_add>(Method::kAdd);
  serve<&ShardServer::on_append>(Method::kAppend);
  serve<&ShardServer::on_expire>(Method::kExpire);
  serve<&ShardServer::on_batch>(Method::kBatch);
  return absl::OkStatus();
}

ShardServer::~ShardServer() {
  SKUA_CHECK(waiting_count_ == 0 && gathered_count_ == 0,
             "stop the engine and the reader pool, and poll, before the server");
}

DurationNs ShardServer::tick() {
  tell_time(endpoint_.now_ns());
  engine_->tick();
  const DurationNs wait = replica_count_ == 0 ? kTimeNever : tick_replicas();
  if (engine_->log_waits()) {
    // Messages to peers are sent first, so that the peers' logs and this log work at the same time. The log's thread,
    // once awake, would take the processor first.
    endpoint_.transmit();
    engine_->wake_log();
  }
  if (on_drained_ && waiting_count_ == 0) std::exchange(on_drained_, {})();
  return wait;
}

void ShardServer::drain(absl::AnyInvocable<void()> on_drained) {
  draining_ = true;
  on_drained_ = std::move(on_drained);
  engine_->drain();
  for (const auto& shard : shards_) {
    shard->plain_epoch = 0;
    retire_replica(*shard);
  }
}

// --- The shards

void ShardServer::expect(ShardId id, uint64_t epoch) {
  if (HeldShard* held = table_.find(id); held != nullptr) {
    held->epoch = epoch;
    if (held->plain_epoch != 0) held->plain_epoch = epoch;
    return;
  }
  shards_.push_back(std::make_unique<HeldShard>());
  HeldShard& shard = *shards_.back();
  shard.id = id;
  shard.epoch = epoch;
  table_.insert(id, &shard);
}

void ShardServer::serve(ShardId id, ShardDb& db) {
  HeldShard* const shard = table_.find(id);
  if (shard == nullptr) return;
  shard->shard = &engine_->open_shard(db, shard->epoch);
  shard->why.clear();
  shard->state = HeldShard::State::kServing;
  if (!draining_) shard->plain_epoch = shard->epoch;
}

void ShardServer::set_failed(ShardId id, std::string why) {
  HeldShard* const shard = table_.find(id);
  if (shard == nullptr) return;
  shard->why = std::move(why);
  shard->state = HeldShard::State::kFailed;
  shard->plain_epoch = 0;
}

void ShardServer::remove(ShardId id, absl::AnyInvocable<void()> on_idle) {
  HeldShard* const shard = table_.remove(id);
  if (shard == nullptr) return;
  retire_replica(*shard);
  shard->on_idle = std::move(on_idle);
  shard->removed_ms = engine_->now_ms();
  forget_if_idle(*shard);
}

void ShardServer::forget_if_idle(HeldShard& shard) {
  if (!shard.on_idle || shard.use_count > 0) return;
  auto on_idle = std::move(shard.on_idle);
  Shard* const closing = shard.shard;
  if (closing != nullptr) closing->set_observer(nullptr);
  if (shard.replica != nullptr) --replica_count_;
  std::erase_if(shards_, [&](const auto& held) { return held.get() == &shard; });
  if (closing == nullptr) return on_idle();
  engine_->close_shard(*closing, std::move(on_idle));
}

// --- What all methods share

void ShardServer::tell_time(TimeNs now) {
  if (now < next_time_ns_) [[likely]] {
    return;
  }
  next_time_ns_ = now + kTimeStepNs;
  engine_->set_time(clock_.unix_ms(), lived_.at(now));
}

HeldShard* ShardServer::admit(IncomingCall& call, Method method) {
  const absl::StatusOr<Route> route = decode_route(call.request.bytes());
  if (route.ok()) [[likely]] {
    return admit(call, method, *route);
  }
  stats_.request_bytes += call.request.size();
  answer_error(call.reply, method,
               {KvStatus::kInvalidArgument, 0, 0, map_revision_, 0, std_view(route.status().message())});
  return nullptr;
}

HeldShard* ShardServer::admit(IncomingCall& call, Method method, const Route& route) {
  const TimeNs now = endpoint_.now_ns();
  tell_time(now);
  stats_.request_bytes += call.request.size();
  if (call.deadline_ns <= now) [[unlikely]] {
    ++stats_.deadline_expired;
    call.reply.fail(
        absl::DeadlineExceededError("the deadline had passed when the node read the request; it was not executed"));
    return nullptr;
  }
  HeldShard* const shard = table_.find({route.table_id, route.shard});
  if (shard == nullptr) [[unlikely]] {
    return refuse(call, method, route, shard);
  }
  if (shard->plain_epoch == route.epoch && route.epoch != 0) [[likely]] {
    return shard;
  }
  if (shard->epoch != route.epoch || draining_ || shard->state != HeldShard::State::kServing ||
      (shard->replica != nullptr && !serves(*shard, method))) {
    return refuse(call, method, route, shard);
  }
  return shard;
}

/// Answers WRONG_SHARD, whatever the reason. This status says to reads and writes alike: certainly not executed, and
/// try again, perhaps elsewhere.
HeldShard* ShardServer::refuse(IncomingCall& call, Method method, const Route& route, const HeldShard* shard) {
  ReplyHead head{KvStatus::kWrongShard, 0, shard == nullptr ? 0 : shard->epoch, map_revision_, 0, {}};
  std::string why;
  const bool wrong = shard == nullptr || shard->epoch != route.epoch;
  if (draining_) {
    head.text = "the node is shutting down";
  } else if (wrong && route.map_revision > map_revision_) {
    head.text = "the node has not applied the shard map that the request names; try again";
    tell_of_newer_map();
  } else if (wrong) {
    head.text = "this worker does not serve the shard in that epoch; refresh the shard map";
  } else if (shard->state == HeldShard::State::kOpening) {
    head.text = "the shard is being opened; try again";
  } else if (shard->replica != nullptr) {
    why = shard->replica->why_not();
    head.text = why;
  } else {
    head.text = shard->why;
  }
  answer_error(call.reply, method, head);
  return nullptr;
}

/// Hints are limited by time, and not by the highest revision that was named. A revision is only a client's claim:
/// after a claim of the highest possible revision, no later one would count as new.
void ShardServer::tell_of_newer_map() {
  const TimeNs now = endpoint_.now_ns();
  if (!newer_map_observer_ || now < next_map_hint_ns_) return;
  next_map_hint_ns_ = now + kMapHintPauseNs;
  newer_map_observer_();
}

void ShardServer::answer(ReplyToken& reply, Method method, KvStatus status, MessagePtr message) {
  stats_.count(method, status);
  stats_.reply_bytes += message->size();
  reply.reply(std::move(message));
}

void ShardServer::answer_error(ReplyToken& reply, Method method, const ReplyHead& head) {
  HeadBuffer buffer;
  MessagePtr message = endpoint_.make_message();
  message->append_copy(encode_error_reply(head, buffer));
  answer(reply, method, head.status, std::move(message));
}

void ShardServer::answer_failure(ReplyToken& reply, Method method, const HeldShard& shard, const absl::Status& why) {
  answer_error(reply, method, head_of(shard, from_status_code(why.code()), 0, std_view(why.message())));
}

PendingRequest* ShardServer::begin(rpc::Lease& request, ReplyToken& reply, Method method, HeldShard& shard) {
  PendingRequest* const pending = pool_.acquire();
  if (pending == nullptr) {
    answer_error(reply, method,
                 head_of(shard, KvStatus::kResourceExhausted, 0,
                         "the worker has kPendingRequestsMax requests waiting; try again later"));
    return nullptr;
  }
  pending->method = method;
  pending->shard = &shard;
  pending->epoch = shard.read_epoch();
  pending->request = std::move(request);
  pending->reply = std::move(reply);
  ++shard.use_count;
  return pending;
}

void ShardServer::end(PendingRequest& pending) {
  HeldShard& shard = *pending.shard;
  pool_.release(pending);
  --shard.use_count;
  forget_if_idle(shard);
}

std::vector<LeavingShard> ShardServer::leaving() const {
  std::vector<LeavingShard> leaving;
  for (const auto& shard : shards_) {
    if (!shard->on_idle) continue;
    leaving.push_back({shard->id, shard->removed_ms,
                       absl::StrCat(shard->use_count, " requests that it has taken wait for the log or the disk")});
  }
  for (const ClosingShard& closing : engine_->closing_shards()) {
    std::string waits_for = "what it was given is being written to its database";
    if (!closing.held_up.ok()) waits_for = absl::StrCat("its database has no room: ", closing.held_up.message());
    if (!closing.failure.ok()) {
      waits_for = absl::StrCat("its database lacks what only a start of the node can bring there; start it again: ",
                               closing.failure.message());
    }
    leaving.push_back({closing.id, closing.since_ms, std::move(waits_for)});
  }
  return leaving;
}

WorkerStats ShardServer::stats() const {
  WorkerStats stats;
  stats.shards = table_.size();
  stats.pending_requests = pool_.in_use_count();
  stats.requests = stats_;
  stats.storage = engine_->counters();
  stats.leaving = leaving();
  stats.troubled = engine_->troubled_shards();
  return stats;
}

}  // namespace skua::kv
