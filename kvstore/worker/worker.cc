#include "kvstore/worker/worker.h"

#include <pthread.h>

#include <algorithm>
#include <chrono>
#include <future>
#include <set>
#include <string_view>
#include <utility>

#include "absl/strings/str_cat.h"
#include "kvstore/peers/peer_identity.h"
#include "rpc/base/check.h"

namespace skua::kv {
namespace {

/// At shutdown, replies that are under way have this time to leave.
constexpr DurationNs kFlushTimeoutNs = 500 * kMillisecond;
/// If there is no traffic for this time, they are taken to have left.
constexpr DurationNs kFlushQuietNs = 20 * kMillisecond;

/// The longest sleep of the thread. Everything that matters wakes the thread before.
constexpr DurationNs kIdleWaitNs = 100 * kMillisecond;

}  // namespace

absl::StatusOr<std::unique_ptr<Worker>> Worker::create(const WorkerOptions& options,
                                                       std::unique_ptr<rpc::Transport> transport, const Clock& clock,
                                                       ReaderPool& readers, OpenLog log) {
  std::unique_ptr<Worker> worker(new Worker(options, std::move(transport), clock));
  ShardServer::Options server_options = options.server;
  if (options.bootstrap != nullptr) {
    worker->replication_ = std::make_unique<WorkerReplication>(options.self, options.replication);
    server_options.replica_host = worker->replication_.get();
  }
  auto server = ShardServer::create(*worker->endpoint_, readers, server_options, std::move(log));
  if (!server.ok()) return server.status();
  worker->server_ = *std::move(server);
  if (worker->replication_ != nullptr) {
    worker->replication_->start(*worker->endpoint_, *options.bootstrap, *worker->server_, options.links, readers,
                                options.copying);
  }
  worker->thread_ = std::thread([self = worker.get()] { self->run(); });
  return worker;
}

Worker::Worker(const WorkerOptions& options, std::unique_ptr<rpc::Transport> transport, const Clock& clock)
    : options_(options),
      clock_(clock),
      transport_(std::move(transport)),
      endpoint_(std::make_unique<rpc::Endpoint>(*transport_, clock, options.endpoint)),
      mailbox_(endpoint_->mailbox()),
      descriptor_(endpoint_->local_descriptor()) {}

Worker::~Worker() {
  if (!thread_.joinable()) return;
  drain();
  stop_engine();
  stop();
}

void Worker::run() {
  // The name is for people who look at top(1). A failure changes nothing.
  static_cast<void>(pthread_setname_np(pthread_self(), absl::StrCat("worker-", options_.index).c_str()));
  endpoint_->adopt_thread();
  server_->engine().bind_to_this_thread();
  DurationNs wait_ns = kIdleWaitNs;
  while (!stopping_) {
    const size_t polled = guest_ == nullptr ? endpoint_->poll_or_wait(wait_ns) : endpoint_->poll();
    wait_ns = tick();
    if (guest_ != nullptr && !guest_->turn(wait_ns, polled)) guest_.reset();
  }
  SKUA_CHECK(guest_ == nullptr, "a worker stopped before the loop that it hosts");
  if (replication_ != nullptr) replication_->stop();
  flush();
  endpoint_.reset();
}

/// What is due without a request. Returns how long the thread may sleep.
DurationNs Worker::tick() {
  DurationNs wait_ns = std::min(kIdleWaitNs, server_->tick());
  if (replication_ != nullptr) wait_ns = std::min(wait_ns, replication_->tick());
  server_->owners().tick(endpoint_->now_ns(), [this](rpc::SessionId owned) { return has_ended(owned); });
  return wait_ns;
}

/// Lets replies that are under way leave, for a limited time.
void Worker::flush() {
  const TimeNs started = clock_.now_ns();
  TimeNs last_work = started;
  for (TimeNs now = started; now - last_work < kFlushQuietNs && now - started < kFlushTimeoutNs;
       now = clock_.now_ns()) {
    if (endpoint_->poll_or_wait(kMillisecond) > 0) last_work = now;
  }
}

void Worker::post(absl::AnyInvocable<void()> task) {
  // post_waiting() returns false if the worker has stopped. Then the task is not needed any more.
  static_cast<void>(mailbox_->post_waiting(std::move(task)));
}

void Worker::expect(ShardId id, uint64_t epoch) {
  post([this, id, epoch] { server_->shards().expect(id, epoch); });
}

void Worker::serve(ShardId id, ShardDb& db) {
  post([this, id, &db] { server_->shards().serve(id, db); });
}

void Worker::serve_replica(ShardId id, ShardDb& db, const ReplicaNotes& notes) {
  post([this, id, &db, notes] { server_->shards().serve_replica(id, db, options_.self, notes); });
}

void Worker::set_view(ShardId id, const View& view, const ReplicaPlaces& places) {
  post([this, id, view, places] {
    replication_->set_places(id, places);
    server_->shards().set_view(id, view);
  });
}

void Worker::view_persisted(ShardId id, uint64_t epoch) {
  post([this, id, epoch] { server_->shards().view_persisted(id, epoch); });
}

void Worker::unsynced_allowed(ShardId id) {
  post([this, id] { server_->shards().unsynced_allowed(id); });
}

void Worker::set_peers(std::vector<PeerInfo> peers) {
  if (replication_ == nullptr) return;
  post([this, peers = std::move(peers)] { replication_->set_peers(peers); });
}

void Worker::set_failed(ShardId id, std::string why) {
  post([this, id, why = std::move(why)]() mutable { server_->shards().set_failed(id, std::move(why)); });
}

void Worker::remove(ShardId id, std::function<void()> on_idle) {
  post([this, id, on_idle = std::move(on_idle)]() mutable {
    if (replication_ != nullptr) replication_->forget(id);
    server_->shards().remove(id, std::move(on_idle));
  });
}

void Worker::set_map_revision(uint64_t revision) {
  post([this, revision] { server_->set_map_revision(revision); });
}

void Worker::set_growth(const absl::Status& growth) {
  post([this, growth] { server_->set_growth(growth); });
}

void Worker::on_newer_map(std::function<void()> observer) {
  post([this, observer = std::move(observer)]() mutable { server_->on_newer_map(std::move(observer)); });
}

template <typename T>
absl::StatusOr<T> Worker::ask(std::function<T()> question) {
  const auto promise = std::make_shared<std::promise<T>>();
  std::future<T> answer = promise->get_future();
  if (!mailbox_->post([promise, question = std::move(question)] { promise->set_value(question()); })) {
    return absl::UnavailableError(
        absl::StrCat("worker ", options_.index, " is stopping, or its mailbox is full; try again"));
  }
  if (answer.wait_for(std::chrono::nanoseconds(kWorkerAnswerTimeoutNs)) != std::future_status::ready) {
    return absl::UnavailableError(absl::StrCat("worker ", options_.index, " did not answer within ",
                                               kWorkerAnswerTimeoutNs / kMillisecond, " ms; try again"));
  }
  return answer.get();
}

absl::StatusOr<std::string> Worker::accept_offer(const std::string& offer, const rpc::OfferOrigin& origin) {
  const auto answer = ask<absl::StatusOr<std::string>>([this, offer, origin] { return accept(offer, origin); });
  return answer.ok() ? *answer : answer.status();
}

absl::StatusOr<std::string> Worker::accept(const std::string& offer, const rpc::OfferOrigin& origin) {
  absl::StatusOr<SessionPlace> place = server_->owners().admit(origin.principal);
  if (!place.ok()) return place.status();
  rpc::SessionId session;
  std::string answer = endpoint_->accept_offer(as_byte_span(offer), origin, &session);
  if (session == rpc::SessionId{}) return answer;  // a refusal
  server_->owners().forget_ended(endpoint_->session_count(), [this](rpc::SessionId owned) { return has_ended(owned); });
  server_->owners().add(session, origin.principal, *std::move(place));
  return answer;
}

void Worker::set_denied(std::vector<std::string> denied) {
  constexpr std::string_view kNode = "node/";
  std::set<NodeId> nodes;
  for (const std::string& principal : denied) {
    if (principal.starts_with(kNode)) nodes.insert(node_id_of(principal.substr(kNode.size())));
  }
  post([this, nodes = std::move(nodes), denied = std::set<std::string>(denied.begin(), denied.end())] {
    for (const rpc::SessionId session : server_->owners().deny(denied)) endpoint_->close(session);
    // What other nodes opened ends here, too, and what this one opened to them.
    if (replication_ != nullptr) replication_->shut_out(nodes);
  });
}

void Worker::set_grants(std::shared_ptr<const Grants> grants) {
  post([this, grants = std::move(grants)] { server_->set_grants(grants); });
}

void Worker::set_quotas(std::shared_ptr<const Quotas> quotas) {
  post([this, quotas = std::move(quotas)] { server_->set_quotas(quotas); });
}

absl::StatusOr<uint64_t> Worker::hold_entries(ShardId id) {
  const auto held = ask<absl::StatusOr<uint64_t>>([this, id] { return server_->shards().hold_entries(id); });
  return held.ok() ? *held : held.status();
}

uint64_t Worker::epoch_of(ShardId id, uint64_t index) {
  return ask<uint64_t>([this, id, index] {
           const Replica* const replica = server_->shards().replica(id);
           return replica == nullptr ? 0 : replica->log().epoch_of(index).value_or(0);
         })
      .value_or(0);
}

void Worker::release_entries(ShardId id, uint64_t hold) {
  post([this, id, hold] { server_->shards().release_entries(id, hold); });
}

absl::StatusOr<WorkerStats> Worker::stats() {
  return ask<WorkerStats>([this] { return collect_stats(); });
}

std::future<WorkerStats> Worker::ask_stats() {
  const auto promise = std::make_shared<std::promise<WorkerStats>>();
  std::future<WorkerStats> answer = promise->get_future();
  if (!mailbox_->post([this, promise] { promise->set_value(collect_stats()); })) return {};
  return answer;
}

WorkerStats Worker::collect_stats() const {
  WorkerStats stats = server_->stats();
  stats.worker = options_.index;
  stats.sessions = endpoint_->session_count();
  stats.endpoint = endpoint_->counters();
  stats.transport = transport_->counters();
  if (replication_ != nullptr) stats.refusals = replication_->refusals();
  return stats;
}

absl::StatusOr<std::future<void>> Worker::host(HostedLoop& loop) {
  std::promise<void> ended;
  std::future<void> end = ended.get_future();
  const bool is_posted = mailbox_->post_waiting([this, &loop, ended = std::move(ended)]() mutable {
    SKUA_CHECK(guest_ == nullptr, "a worker hosts one loop");
    guest_ = std::make_unique<WorkerGuest>(*endpoint_, loop, options_.endpoint.spin_ns != kTimeNever, std::move(ended));
  });
  if (!is_posted) return absl::UnavailableError(absl::StrCat("worker ", options_.index, " is stopping"));
  return end;
}

void Worker::drain() {
  // Waits, because the engine may only be stopped when no request needs it any longer.
  const auto done = std::make_shared<std::promise<void>>();
  const bool posted = mailbox_->post_waiting([this, done] {
    if (replication_ != nullptr) replication_->drain();
    server_->drain([done] { done->set_value(); });
  });
  if (posted) done->get_future().wait();
}

bool Worker::stop_engine() {
  return server_->engine().stop();
}

void Worker::stop() {
  if (!thread_.joinable()) return;
  post([this] { stopping_ = true; });
  thread_.join();
}

}  // namespace skua::kv
