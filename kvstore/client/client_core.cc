#include "kvstore/client/client_core.h"

#include <algorithm>
#include <utility>

#include "absl/strings/str_cat.h"
#include "kvstore/client/client_limits.h"
#include "rpc/base/check.h"
#include "rpc/base/status.h"

namespace skua::kv {
namespace {

rpc::EndpointOptions endpoint_options(const ClientOptions& options, uint64_t simulation_seed) {
  rpc::EndpointOptions out;
  options.traffic.apply(out.protocol);
  out.protocol.window = options.session_window;
  out.protocol.backlog_max = std::max(options.operations_max, 4096u);
  out.memory_limit_bytes = options.memory_limit_bytes;
  out.mailbox_max = kClientMailboxMax;
  out.spin_ns = options.spin.count();
  out.accept_sessions = false;
  out.simulation_seed = simulation_seed;
  return out;
}

}  // namespace

ClientCore::ClientCore(rpc::Transport& transport, const Clock& clock, ClusterAccess& cluster,
                       const ClientOptions& options, uint64_t client_id, uint64_t simulation_seed)
    : clock_(clock),
      cluster_(cluster),
      options_(options),
      rng_(options.seed),
      lanes_(options.exactly_once ? client_id : 0) {
  endpoint_ = std::make_unique<rpc::Endpoint>(transport, clock, endpoint_options(options, simulation_seed));
  sessions_ = std::make_unique<Sessions>(static_cast<SessionHost&>(*this), *endpoint_, cluster_, routes_, counters_,
                                         rng_.next());
  cluster_.start([inbox = inbox_, mailbox = endpoint_->mailbox()](std::shared_ptr<const control::ShardMap> map) {
    {
      std::lock_guard lock(inbox->mutex);
      inbox->newest = std::move(map);
      inbox->fresh.store(true, std::memory_order_release);
    }
    // Wakes a poll() that sleeps. A full mailbox may refuse the task: then poll() does not sleep anyway.
    static_cast<void>(mailbox->post([] {}));
  });
}

ClientCore::~ClientCore() {
  close();
}

void ClientCore::close() {
  if (std::exchange(closing_, true)) return;
  cluster_.stop();
  wake_parked([](const Operation&) { return true; });
  sessions_->close_all();
  sessions_->clean_up();
  endpoint_->poll();
  SKUA_CHECK(in_flight_ == 0, "an operation outlives its client");
}

// --- Submission

absl::Status ClientCore::admit(std::string_view table, std::chrono::nanoseconds timeout) {
  absl::Status refusal;
  if (table.empty()) {
    refusal = absl::InvalidArgumentError("the table's name is empty");
  } else if (closing_) {
    refusal = absl::CancelledError("the client is closing");
  } else if (in_flight_ >= options_.operations_max) {
    refusal = absl::ResourceExhaustedError(absl::StrCat("operations in flight reached operations_max (",
                                                        options_.operations_max,
                                                        "): wait for callbacks (poll), or raise it"));
  } else if (timeout.count() < 0 || timeout.count() > kClientTimeoutMax) {
    refusal = absl::InvalidArgumentError("a timeout must be above 0 (or 0 for the client's own) and at most one hour");
  }
  if (!refusal.ok()) ++counters_.operations_refused;
  return refusal;
}

Operation& ClientCore::begin(Method method, std::string_view table, std::string_view key,
                             std::chrono::nanoseconds timeout) {
  Operation& operation = pool_.take();
  operation.kind = Kind::kSingle;
  operation.method = method;
  if (operation.table != table) [[unlikely]] {  // usually the table of the operation's last use
    operation.table.assign(table);
    operation.routes_revision = 0;
  }
  operation.key.assign(key);
  operation.started_ns = now();
  operation.deadline_ns = operation.started_ns + (timeout.count() == 0 ? options_.timeout : timeout).count();
  ++in_flight_;
  ++counters_.operations_started;
  return operation;
}

absl::Status ClientCore::submit(Operation& operation) {
  ++submitting_;
  dispatch(operation);
  --submitting_;
  return absl::OkStatus();
}

void ClientCore::take_back(Operation& operation) {
  --in_flight_;
  --counters_.operations_started;
  OperationPool::drop(operation);
}

absl::Status ClientCore::get(std::string_view table, std::string_view key, const ReadOptions& options,
                             GetCallback&& done) {
  if (absl::Status status = admit(table, options.timeout); !status.ok()) return status;
  if (absl::Status status = check_key(key); !status.ok()) return status;
  Operation& operation = begin(Method::kGet, table, key, options.timeout);
  operation.at_least = options.at_least;
  operation.wants_ttl = options.with_ttl;
  operation.on_get = std::move(done);
  return submit(operation);
}

// --- The loop

size_t ClientCore::poll(DurationNs max_wait_ns) {
  const size_t finished_before = finished_;
  if (inbox_->fresh.load(std::memory_order_acquire)) take_map();
  DurationNs wait_ns = max_wait_ns;
  if (next_wake_ns_ != kTimeNever) {
    wait_ns = std::clamp<DurationNs>(next_wake_ns_ - clock_.now_ns(), 0, max_wait_ns);
  }
  if (wait_ns > 0 && !calls_.empty()) {
    wait_ns = std::clamp<DurationNs>(next_look_ns() - endpoint_->now_ns(), 0, wait_ns);
  }
  in_turn_ = true;
  endpoint_->poll_or_wait(wait_ns);
  in_turn_ = false;
  if (inbox_->fresh.load(std::memory_order_acquire)) take_map();
  if (next_wake_ns_ != kTimeNever && clock_.now_ns() >= next_wake_ns_) {
    const TimeNs time = clock_.now_ns();
    wake_parked([time](const Operation& operation) { return operation.wake_at_ns <= time; });
  }
  if (endpoint_->now_ns() >= next_look_ns()) look_for_a_map();
  sessions_->clean_up();
  return finished_ - finished_before;
}

absl::Status ClientCore::warm_up(std::string_view table, DurationNs timeout_ns) {
  const TimeNs deadline = clock_.now_ns() + timeout_ns;
  for (;;) {
    absl::Status ready = readiness(table);
    const TimeNs time = clock_.now_ns();
    if (ready.ok() || time >= deadline) return ready;
    const absl::Status control = routes_.revision() == 0 ? cluster_.connection() : absl::OkStatus();
    if (!control.ok() && !absl::IsUnknown(control)) return absl::Status(control.code(), ready.message());
    poll(std::min<DurationNs>(deadline - time, 10 * kMillisecond));
  }
}

absl::Status ClientCore::readiness(std::string_view table) {
  const TableRoutes* routes = routes_.find_table(table);
  if (routes == nullptr) {
    return absl::DeadlineExceededError(
        absl::StrCat("table ", absl_view(table), " cannot be reached: ", why_no_table(table)));
  }
  absl::Status status;
  for (const ShardRoute& shard : routes->shards) {
    if (shard.target == kNoTarget) {
      status.Update(absl::DeadlineExceededError("a shard has no owner: see skuactl status"));
    } else if (!sessions_->is_open(shard.target)) {
      sessions_->ensure_open(shard.target, now());
      status.Update(
          absl::DeadlineExceededError(absl::StrCat("no session with ", routes_.target(shard.target).describe(),
                                                   " yet: ", sessions_->last_error(shard.target).message())));
    }
    // Sessions with backups are useful, but not waited for.
    for (const TargetId backup : routes->backups_of(shard)) sessions_->ensure_open(backup, now());
  }
  return status;
}

TimeNs ClientCore::next_timer_ns() {
  return std::min({next_wake_ns_, next_look_ns(), endpoint_->next_timer_ns()});
}

void ClientCore::take_map() {
  std::shared_ptr<const control::ShardMap> map;
  {
    std::lock_guard lock(inbox_->mutex);
    map = std::move(inbox_->newest);
    inbox_->fresh.store(false, std::memory_order_release);
  }
  if (map == nullptr || map->revision <= routes_.revision()) return;
  ++counters_.map_updates;
  for (TargetId target : routes_.update(*map)) sessions_->drop(target);
  lanes_.forget_dropped([&](uint32_t table) { return map->find_table(control::TableId{table}) != nullptr; });
  give_up_moved();
  // Also operations that wait for a session: the node may hang, and may no longer lead the shard.
  wake_parked([](const Operation& operation) {
    return operation.awaits == Awaits::kMap || operation.awaits == Awaits::kSession;
  });
}

// --- Parking

void ClientCore::park(Operation& operation, Awaits awaits, TimeNs wake_at_ns) {
  operation.state = State::kParked;
  operation.awaits = awaits;
  operation.wake_at_ns = std::min(wake_at_ns, operation.deadline_ns);
  next_wake_ns_ = std::min(next_wake_ns_, operation.wake_at_ns);
  parked_.push_back(operation);
}

template <typename Predicate>
void ClientCore::wake_parked(Predicate wanted) {
  // Takes the operations out of parked_ first: resume() and callbacks change parked_.
  IntrusiveList<Operation, &Operation::parked_hook> woken;
  next_wake_ns_ = kTimeNever;
  for (Operation* at = parked_.empty() ? nullptr : &parked_.front(); at != nullptr;) {
    Operation* following = parked_.next(*at);
    if (wanted(*at)) {
      at->parked_hook.unlink();
      woken.push_back(*at);
    } else {
      next_wake_ns_ = std::min(next_wake_ns_, at->wake_at_ns);
    }
    at = following;
  }
  while (Operation* operation = woken.pop_front()) resume(*operation);
}

void ClientCore::resume(Operation& operation) {
  if (operation.awaits == Awaits::kCallback) {
    finish(operation, std::move(operation.failure));
  } else if (now() >= operation.deadline_ns && !closing_) {
    expire(operation);
  } else {
    dispatch(operation);
  }
}

void ClientCore::session_ready(TargetId target) {
  wake_parked([target](const Operation& operation) {
    return operation.awaits == Awaits::kSession && (operation.target == target || operation.spreads);
  });
}

void ClientCore::session_lost(TargetId target) {
  session_ready(target);
}

void ClientCore::session_failed(TargetId target, const absl::Status& why) {
  for (Operation* at = parked_.empty() ? nullptr : &parked_.front(); at != nullptr; at = parked_.next(*at)) {
    if (at->awaits == Awaits::kSession && at->target == target) note_attempt(*at, now(), why);
  }
  // Each woken operation calls ensure_open(), which says when the next opening may begin, and parks until then.
  session_ready(target);
}

}  // namespace skua::kv
