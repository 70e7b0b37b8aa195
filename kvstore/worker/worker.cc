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

void Worker::post(absl::AnyInvocable<void(ShardServer&)> task) {
  // post_waiting() returns false if the worker has stopped. Then the task is not needed any more.
  static_cast<void>(mailbox_->post_waiting([this, task = std::move(task)]() mutable { task(*server_); }));
}

void Worker::set_view(ShardId id, const View& view, const ReplicaPlaces& places) {
  post([this, id, view, places](ShardServer& server) {
    replication_->set_places(id, places);
    server.shards().set_view(id, view);
  });
}

void Worker::set_peers(std::vector<PeerInfo> peers) {
  if (replication_ == nullptr) return;
  post([this, peers = std::move(peers)](ShardServer&) { replication_->set_peers(peers); });
}

void Worker::remove(ShardId id, std::function<void()> on_idle) {
  post([this, id, on_idle = std::move(on_idle)](ShardServer& server) mutable {
    if (replication_ != nullptr) replication_->forget(id);
    server.shards().remove(id, std::move(on_idle));
  });
}

template <typename T>
std::future<T> Worker::ask_later(std::function<T()> question) {
  const auto promise = std::make_shared<std::promise<T>>();
  std::future<T> answer = promise->get_future();
  if (!mailbox_->post([promise, question = std::move(question)] { promise->set_value(question()); })) return {};
  return answer;
}

template <typename T>
absl::StatusOr<T> Worker::ask(std::function<T()> question) {
  std::future<T> answer = ask_later(std::move(question));
  if (!answer.valid()) {
    return absl::UnavailableError(
        absl::StrCat("worker ", options_.index, " is stopping, or its mailbox is full; try again"));
  }
  if (answer.wait_for(std::chrono::nanoseconds(kWorkerAnswerTimeoutNs)) != std::future_status::ready) {
    return absl::UnavailableError(absl::StrCat("worker ", options_.index, " did not answer within ",
                                               kWorkerAnswerTimeoutNs / kMillisecond, " ms; try again"));
  }
  try {
    return answer.get();
  } catch (const std::future_error&) {
    // The mailbox was destroyed with the question in it.
    return absl::UnavailableError(absl::StrCat("worker ", options_.index, " has stopped"));
  }
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
  post([this, nodes = std::move(nodes),
        denied = std::set<std::string>(denied.begin(), denied.end())](ShardServer& server) {
    for (const rpc::SessionId session : server.owners().deny(denied)) endpoint_->close(session);
    // The loop closed the sessions that revoked identities opened. shut_out() ends the links to revoked nodes.
    if (replication_ != nullptr) replication_->shut_out(nodes);
  });
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

absl::StatusOr<WorkerStats> Worker::stats() {
  return ask<WorkerStats>([this] { return collect_stats(); });
}

std::future<WorkerStats> Worker::ask_stats() {
  return ask_later<WorkerStats>([this] { return collect_stats(); });
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

void Worker::stop() {
  if (!thread_.joinable()) return;
  post([this](ShardServer&) { stopping_ = true; });
  thread_.join();
}

}  // namespace skua::kv
