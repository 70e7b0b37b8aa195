#include "tests/kvstore/cluster/control_process.h"

#include <algorithm>
#include <utility>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "control/core/cluster_progress.h"

namespace skua::kv::sim {
namespace {

constexpr DurationNs kTick = 100 * kMillisecond;
constexpr DurationNs kCampaign = 500 * kMillisecond;
constexpr DurationNs kReloadInterval = kSecond;
constexpr DurationNs kLateCommit = 10 * kSecond;
constexpr int kAttemptsMax = 5;
constexpr size_t kQueueMax = 4096;

absl::Status not_leading() {
  return absl::CancelledError("does not lead");
}

}  // namespace

// --- Life

void ControlProcess::start() {
  up_ = true;
  ++life_;
  kernel_.note("control starts", number_);
  clock_offset_ = kernel_.between(0, 1'000'000 * kSecond);
  campaign();
  tick();
}

void ControlProcess::crash() {
  kernel_.note("control crashes", number_);
  up_ = false;
  ++life_;
  paused_until_ = 0;
  leads_ = busy_ = ticking_ = must_reload_ = false;
  next_reload_ = renewed_ns_ = 0;  // of a clock that starts anew
  look_again_ = kTimeNever;
  queue_.clear();
  core_.reset();
}

void ControlProcess::run(TimeNs at, absl::AnyInvocable<void()> then) {
  kernel_.queue.at(at, [this, life = life_, then = std::move(then)]() mutable {
    if (life != life_) return;
    if (kernel_.now() < paused_until_) return run(paused_until_, std::move(then));
    then();
  });
}

template <typename Arg>
std::function<void(const Arg&)> ControlProcess::here(std::function<void(const Arg&)> then) {
  return [this, life = life_, then = std::move(then)](const Arg& arg) {
    if (life != life_) return;
    if (kernel_.now() >= paused_until_) return then(arg);
    run(paused_until_, [then, arg] { then(arg); });
  };
}

// --- Who leads

void ControlProcess::campaign() {
  if (leads_) {
    if (now() - renewed_ns_ > options_.leader_lease_ns) follow();
    store_.renew(term_, here<bool>([this, term = term_, asked = now()](const bool& leads) {
                   if (term != term_ || !leads_) return;
                   leads ? static_cast<void>(renewed_ns_ = asked) : follow();
                 }));
  } else {
    store_.campaign(number_, here<uint64_t>([this](const uint64_t& term) {
                      if (term != 0) take_over(term);
                    }));
  }
  run(kernel_.now() + kCampaign + kernel_.between(0, kCampaign / 2), [this] { campaign(); });
}

void ControlProcess::take_over(uint64_t term) {
  term_ = term;
  renewed_ns_ = now();
  store_.load(
      here<std::optional<control::ClusterState>>([this, term](const std::optional<control::ClusterState>& state) {
        if (term != term_ || leads_) return;
        if (!state) return;  // the lease runs out, and somebody campaigns again
        leads_ = true;
        must_reload_ = false;
        look_again_ = kTimeNever;
        core_.emplace(options_.core, *state, now());
        publish();
      }));
}

void ControlProcess::follow() {
  leads_ = false;
  core_.reset();
  ++operation_;
  busy_ = false;
  for (Command& command : std::exchange(queue_, {})) command.done(not_leading());
}

// --- Requests

void ControlProcess::on_request(const ControlRequest& request) {
  run(kernel_.now(), [this, request] {
    const auto answer = [this, request](const absl::Status& status) {
      ControlReply reply{request.number, number_, status, leads_, store_.leader(), nullptr};
      if (leads_ && request.map_revision < core_->state().map_revision) {
        reply.map = std::make_shared<const control::ShardMap>(control::build_shard_map(core_->state()));
      }
      world_.answer(number_, request, reply);
    };
    if (!leads_) return answer(not_leading());
    if (!request.event) return answer(absl::OkStatus());
    submit(*request.event, answer);
  });
}

void ControlProcess::tick() {
  if (leads_ && !ticking_) {
    if (now() >= look_again_) {
      look_again_ = kTimeNever;
      must_reload_ = true;
    }
    ticking_ = true;
    submit(control::Tick{}, [this](const absl::Status&) { ticking_ = false; });
  }
  run(kernel_.now() + kTick, [this] { tick(); });
}

void ControlProcess::submit(control::Event event, Done done) {
  if (queue_.size() >= kQueueMax) return done(absl::ResourceExhaustedError("too many requests wait"));
  queue_.push_back({std::move(event), std::move(done)});
  next();
}

void ControlProcess::next() {
  if (busy_ || queue_.empty()) return;
  busy_ = true;
  attempts_ = 0;
  attempt();
}

void ControlProcess::attempt() {
  const control::Event& event = queue_.front().event;
  // Heartbeats need no store: nodes stay alive while it is out of order.
  if (must_reload_ && !std::holds_alternative<control::NodeHeartbeat>(event)) return reload();
  control::Decision decision = core_->step(event, now());
  if (!decision.status.ok() || decision.changes.empty()) return finish(decision.status, false);
  const uint64_t base = core_->state().map_revision;
  store_.commit(term_, base, decision.changes,
                here<ClusterStore::Outcome>(
                    [this, operation = ++operation_, changes = decision.changes](const ClusterStore::Outcome& outcome) {
                      if (operation == operation_) committed(outcome, changes);
                    }));
}

void ControlProcess::reload() {
  const bool is_tick = std::holds_alternative<control::Tick>(queue_.front().event);
  if (is_tick && now() < next_reload_) {
    // Whatever the store does, silence is noticed.
    static_cast<void>(core_->step(control::Tick{}, now()));
    return finish(absl::OkStatus(), false);
  }
  store_.load(here<std::optional<control::ClusterState>>(
      [this, operation = ++operation_](const std::optional<control::ClusterState>& state) {
        if (operation != operation_) return;
        if (!state) {
          next_reload_ = now() + kReloadInterval;
          return finish(absl::UnavailableError("the metadata store cannot be read"), false);
        }
        must_reload_ = false;
        const uint64_t before = core_->state().map_revision;
        core_->reload(*state, now());
        if (core_->state().map_revision != before) publish();
        attempt();
      }));
}

void ControlProcess::committed(ClusterStore::Outcome outcome, const control::Changes& changes) {
  const bool ignores = kernel_.mutant == WorldMutant::kIgnoreCasFailure;
  if (outcome == ClusterStore::Outcome::kDone || ignores) {
    core_->committed(changes, now());
    publish();
    return finish(absl::OkStatus(), true);
  }
  must_reload_ = true;
  if (outcome == ClusterStore::Outcome::kUnknown) look_again_ = now() + kLateCommit;
  if (outcome == ClusterStore::Outcome::kConflict && ++attempts_ < kAttemptsMax) return attempt();
  finish(outcome == ClusterStore::Outcome::kDeposed ? not_leading()
                                                    : absl::UnavailableError("the change may or may not be stored"),
         false);
}

void ControlProcess::finish(const absl::Status& status, bool changed) {
  busy_ = false;
  const Command command = std::move(queue_.front());
  queue_.pop_front();
  command.done(status);
  if (changed && leads_ && !ticking_) {  // the views may have to follow at once
    ticking_ = true;
    submit(control::Tick{}, [this](const absl::Status&) { ticking_ = false; });
  }
  next();
}

std::string ControlProcess::describe() const {
  if (!up_) return absl::StrCat("control ", number_, " is down");
  if (!leads_) return absl::StrCat("control ", number_, " follows");
  const std::vector<std::string> troubles = shard_troubles(core_->context(), 10);
  return absl::StrCat("control ", number_, " leads: map ", core_->state().map_revision, busy_ ? ", busy" : "",
                      ticking_ ? ", ticks" : "", must_reload_ ? ", must reload" : "", ", ", queue_.size(), " wait",
                      troubles.empty() ? "" : "; ", absl::StrJoin(troubles, "; "));
}

void ControlProcess::publish() {
  world_.publish(number_, std::make_shared<const control::ShardMap>(control::build_shard_map(core_->state())));
}

}  // namespace skua::kv::sim
