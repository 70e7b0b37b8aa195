#include "kvstore/client/client_core.h"

#include <algorithm>
#include <utility>

#include "absl/strings/str_cat.h"
#include "kvstore/client/client_limits.h"
#include "rpc/base/check.h"

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
      endpoint_(transport, clock, endpoint_options(options, simulation_seed)),
      runner_(endpoint_, clock, cluster, pools_, counters_, options.exactly_once ? client_id : 0, options.seed) {
  cluster_.start([inbox = inbox_, mailbox = endpoint_.mailbox()](std::shared_ptr<const control::ShardMap> map) {
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
  runner_.close();
  // A turn runs only some of the tasks that wait. Those that they post in turn must not go on for ever.
  constexpr int kTurnsMax = 100;
  for (int turns = 0; turns < kTurnsMax && endpoint_.poll() > 0; ++turns) continue;
  SKUA_CHECK(runner_.in_flight() == 0, "an operation outlives its client");
}

// --- Submission

absl::Status ClientCore::admit(bool has_table, std::chrono::nanoseconds timeout) {
  SKUA_CHECK(!waiting_, "an operation was submitted between begin_wait() and end_wait()");
  absl::Status refusal;
  if (!has_table) {
    refusal = absl::InvalidArgumentError("the table's name is empty");
  } else if (closing_) {
    refusal = absl::CancelledError("the client is closing");
  } else if (runner_.in_flight() >= options_.operations_max) {
    refusal = absl::ResourceExhaustedError(absl::StrCat("operations in flight reached operations_max (",
                                                        options_.operations_max,
                                                        "): wait for callbacks (poll), or raise it"));
  } else if (timeout.count() < 0 || timeout.count() > kClientTimeoutMax) {
    refusal = absl::InvalidArgumentError("a timeout must be above 0 (or 0 for the client's own) and at most one hour");
  }
  if (!refusal.ok()) ++counters_.operations_refused;
  return refusal;
}

// --- The loop

size_t ClientCore::poll(DurationNs max_wait_ns) {
  SKUA_CHECK(!waiting_, "poll() was called between begin_wait() and end_wait()");
  const size_t finished_before = runner_.finished();
  if (inbox_->fresh.load(std::memory_order_acquire)) take_map();
  DurationNs wait_ns = max_wait_ns;
  if (wait_ns > 0) wait_ns = std::clamp<DurationNs>(runner_.next_timer_ns() - clock_.now_ns(), 0, wait_ns);
  runner_.set_in_turn(true);
  polled_ = endpoint_.poll_or_wait(wait_ns);
  runner_.set_in_turn(false);
  if (inbox_->fresh.load(std::memory_order_acquire)) take_map();
  runner_.work_off();
  return runner_.finished() - finished_before;
}

std::optional<std::chrono::nanoseconds> ClientCore::begin_wait() {
  SKUA_CHECK(!waiting_, "begin_wait() was called twice");
  if (inbox_->fresh.load(std::memory_order_acquire)) return std::nullopt;
  const DurationNs longest_ns = wait_fd() < 0 ? kBlindWaitMaxNs : kForeignWaitMaxNs;
  const DurationNs until_timer = std::min(runner_.next_timer_ns() - clock_.now_ns(), longest_ns);
  const DurationNs wait_ns = until_timer > 0 ? endpoint_.begin_wait(until_timer, polled_) : 0;
  if (wait_ns == 0) return std::nullopt;
  waiting_ = true;
  return std::chrono::nanoseconds(wait_ns);
}

void ClientCore::end_wait() {
  SKUA_CHECK(waiting_, "end_wait() without begin_wait()");
  waiting_ = false;
  endpoint_.end_wait();
}

absl::Status ClientCore::warm_up(std::string_view table, DurationNs timeout_ns) {
  if (timeout_ns > kClientTimeoutMax) {
    return absl::InvalidArgumentError("a timeout must be at most one hour");
  }
  const TimeNs deadline = clock_.now_ns() + timeout_ns;
  for (;;) {
    absl::Status ready = runner_.readiness(table);
    const TimeNs time = clock_.now_ns();
    if (ready.ok() || time >= deadline) return ready;
    const absl::Status control = runner_.has_map() ? absl::OkStatus() : cluster_.connection();
    if (!control.ok() && !absl::IsUnknown(control)) return absl::Status(control.code(), ready.message());
    poll(std::min<DurationNs>(deadline - time, 10 * kMillisecond));
  }
}

TimeNs ClientCore::next_timer_ns() {
  return std::min(runner_.next_timer_ns(), endpoint_.next_timer_ns());
}

void ClientCore::take_map() {
  std::shared_ptr<const control::ShardMap> map;
  {
    std::lock_guard lock(inbox_->mutex);
    map = std::move(inbox_->newest);
    inbox_->fresh.store(false, std::memory_order_release);
  }
  if (map != nullptr) runner_.take_map(*map);
}

}  // namespace skua::kv
