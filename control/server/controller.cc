#include "control/server/controller.h"

#include <algorithm>
#include <chrono>
#include <utility>
#include <variant>

#include "absl/strings/str_cat.h"
#include "control/core/cluster_limits.h"
#include "control/core/cluster_progress.h"
#include "control/core/identity_rules.h"
#include "control/core/revocation.h"
#include "control/core/text.h"
#include "control/proto/redirect.h"
#include "control/server/controller_limits.h"
#include "control/server/decision_text.h"
#include "rpc/base/printable.h"
#include "rpc/base/status.h"

namespace skua::control {
namespace {

/// How often a decision is taken anew because another control process was faster.
constexpr int kAttemptsMax = 5;
/// How often a store that failed is asked again.
constexpr DurationNs kReloadInterval = 1 * kSecond;
/// By then a transaction that was given up has happened, or never will.
constexpr DurationNs kLateCommit = 10 * kSecond;

absl::Status stopping_error() {
  return absl::UnavailableError("the control plane is shutting down. Try again in a few seconds");
}

/// The registered process that an event claims to be from.
struct Sender {
  std::string uuid;
  uint64_t incarnation = 0;
  std::string instance;
  NodeRoll::Kind kind = NodeRoll::Kind::kReport;
};

std::optional<Sender> sender_of(const Event& event) {
  if (const auto* heartbeat = std::get_if<NodeHeartbeat>(&event)) {
    return Sender{heartbeat->uuid, heartbeat->incarnation, heartbeat->instance,
                  heartbeat->stopping ? NodeRoll::Kind::kGoodbye : NodeRoll::Kind::kHeartbeat};
  }
  if (const auto* report = std::get_if<ReplicaReport>(&event)) {
    return Sender{report->uuid, report->incarnation, report->instance};
  }
  return std::nullopt;
}

ControllerOptions with_proof(ControllerOptions options, bool claims_need_proof) {
  options.core.claims_need_proof = claims_need_proof;
  return options;
}

}  // namespace

Controller::Controller(ControllerOptions options, StateStore store, ClusterState state, const Clock& clock, MapHub& hub,
                       std::unique_ptr<NodeProbe> probe)
    : options_(with_proof(std::move(options), probe != nullptr)),
      clock_(clock),
      hub_(hub),
      last_step_ns_(clock.now_ns()),
      store_(store),
      core_(std::in_place, options_.core, std::move(state), clock.now_ns()),
      not_leading_(options_.alone ? absl::OkStatus() : not_leading("", "")) {
  if (probe == nullptr) return;
  claims_ = std::make_unique<ClaimDesk>(
      std::move(probe), [this](uint64_t claim, ClaimAnswer answer) { post_answer(claim, std::move(answer)); });
}

Controller::~Controller() {
  stop();
}

void Controller::start() {
  if (not_leading_.ok()) {
    publish_state(true);
  } else {
    roll_.suspend(not_leading_);
    hub_.suspend(not_leading_);
  }
  thread_ = std::thread([this] { run(); });
}

void Controller::set_leadership(Leadership leadership) {
  std::lock_guard lock(mutex_);
  leadership_ = std::move(leadership);
}

void Controller::stop() {
  {
    std::lock_guard lock(mutex_);
    stopping_ = true;
  }
  wake_.notify_all();
  if (thread_.joinable()) thread_.join();
}

absl::Status Controller::submit(Event event, DoneFn done, const std::string& source, const std::string& principal,
                                CheckFn check) {
  const std::optional<Sender> sender = sender_of(event);
  const bool joins = std::holds_alternative<RegisterNode>(event) || std::holds_alternative<NodeLeave>(event);
  Command command = [this, event = std::move(event), done = std::move(done), source, principal,
                     check](bool stopping) mutable {
    Decision refused;
    refused.status = stopping ? stopping_error() : judge(event, principal, check);
    if (!refused.status.ok()) return done(refused, *core_);
    auto* registration = std::get_if<RegisterNode>(&event);
    if (registration == nullptr) return execute(event, done, source);
    register_node({std::move(*registration), source, std::move(done)});
  };
  const auto lane = joins ? CommandQueue::Lane::kJoining : CommandQueue::Lane::kOthers;
  if (!sender) return enqueue(lane, std::move(command), source);

  const auto& [uuid, incarnation, instance, kind] = *sender;
  if (auto status = roll_.admit(uuid, incarnation, instance, kind); !status.ok()) return status;
  absl::Status status =
      enqueue(CommandQueue::Lane::kNodes, [this, sender, command = std::move(command)](bool stopping) {
        roll_.served(sender->uuid, sender->kind);
        command(stopping);
      });
  if (!status.ok()) roll_.served(uuid, kind);
  return status;
}

/// Who leads comes first: what a process knew of who is revoked may be out of date while another one leads, and must
/// not keep anybody from being sent there.
absl::Status Controller::judge(const Event& event, const std::string& principal, CheckFn check) const {
  if (!not_leading_.ok()) return not_leading_;
  if (auto allowed = check_allowed(principal, core_->state()); !allowed.ok()) return allowed;
  return check == nullptr ? absl::OkStatus() : check(event, core_->state());
}

absl::Status Controller::query(QueryFn done, std::function<void(const absl::Status&)> failed) {
  return enqueue(CommandQueue::Lane::kOthers,
                 [this, done = std::move(done), failed = std::move(failed)](bool stopping) {
                   if (stopping) {
                     failed(stopping_error());
                   } else if (!not_leading_.ok()) {
                     failed(not_leading_);
                   } else {
                     done(*core_, clock_.now_ns());
                   }
                 });
}

void Controller::when_ready(TableId table, uint64_t revision, TimeNs deadline, ReadyFn done) {
  if (waiters_.size() >= kReadyWaitersMax) deadline = clock_.now_ns();
  waiters_.push_back({table, revision, deadline, std::move(done)});
}

absl::Status Controller::enqueue(CommandQueue::Lane lane, Command command, const std::string& source) {
  {
    std::lock_guard lock(mutex_);
    if (stopping_) return stopping_error();
    if (auto status = commands_.push(lane, std::move(command), source); !status.ok()) return status;
  }
  wake_.notify_one();
  return absl::OkStatus();
}

void Controller::run() {
  TimeNs next_tick = 0;
  std::unique_lock lock(mutex_);
  while (!stopping_) {
    wake_.wait_for(lock, std::chrono::nanoseconds(options_.tick_ns), [&] { return stopping_ || !commands_.empty(); });
    const std::vector<Command> round = commands_.take_round();
    lock.unlock();
    note_step();
    apply_leadership();
    for (const Command& command : round) {
      command(false);
      note_step();
    }
    if (not_leading_.ok() && (changed_ || clock_.now_ns() >= next_tick)) {
      tick();
      next_tick = clock_.now_ns() + options_.tick_ns;
    }
    serve_waiters(false);
    lock.lock();
  }
  const std::vector<Command> rest = commands_.take_all();
  lock.unlock();
  for (const Command& command : rest) command(true);
  give_up_claims(stopping_error());
  serve_waiters(true);
}

void Controller::apply_leadership() {
  std::optional<Leadership> now;
  {
    std::lock_guard lock(mutex_);
    now = std::exchange(leadership_, std::nullopt);
  }
  if (!now) return;
  if (!now->leads) {
    follow(*now);
  } else if (!take_over(*now)) {
    // Try again at the next tick, unless there is news by then.
    std::lock_guard lock(mutex_);
    if (!leadership_) leadership_ = now;
  }
}

bool Controller::take_over(const Leadership& leadership) {
  auto state = store_.load();
  if (!state.ok()) {
    const std::string trouble(state.status().message());
    if (std::exchange(take_over_trouble_, trouble) != trouble) {
      log(true, absl::StrCat("leads, but cannot read the metadata store: ", trouble));
    }
    return false;
  }
  take_over_trouble_.clear();
  core_.emplace(options_.core, *std::move(state), clock_.now_ns());
  must_reload_ = false;
  next_reload_ = 0;
  not_leading_ = absl::OkStatus();
  publish_state(true);
  log(false, absl::StrCat("leads, term ", leadership.term, ", map revision ", core_->state().map_revision));
  return true;
}

void Controller::follow(const Leadership& leadership) {
  not_leading_ = not_leading(leadership.leader, leadership.trouble);
  serve_waiters(true);
  give_up_claims(not_leading_);
  roll_.suspend(not_leading_);
  hub_.suspend(not_leading_);
  // Who is revoked may have changed at the new leader. Until it leads again this process only says who does.
  if (options_.on_denied) options_.on_denied(core_->state().map_revision, {});
  ++generation_;
  if (!leadership.leader.empty()) {
    log(false, absl::StrCat("follows ", leadership.leader));
  } else {
    log(true, absl::StrCat("follows nobody", leadership.trouble.empty() ? "" : ": ", leadership.trouble));
  }
}

void Controller::publish_state(bool nodes_changed) {
  if (nodes_changed) roll_.publish(core_->state());
  const ShardMap map = build_shard_map(core_->state());
  if (options_.on_denied) options_.on_denied(map.revision, map.denied);
  hub_.publish(map);
  ++generation_;
}

void Controller::execute(const Event& event, const DoneFn& done, const std::string& source) {
  if (const auto* heartbeat = std::get_if<NodeHeartbeat>(&event)) {
    const auto known = core_->node_status(heartbeat->uuid);
    if (known && known->applied_revision != heartbeat->applied_revision) ++generation_;
  }
  const Decision decision = decide(event);
  note(event, decision, source);
  done(decision, *core_);
}

void Controller::register_node(Claim claim) {
  Decision decision = decide(claim.event);
  // Asked once. Whatever changed meanwhile, the node's next try finds.
  if (!decision.ask.empty() && claims_ != nullptr && claim.event.answers.empty()) {
    decision.status = claims_->ask(claim, decision.ask);
    if (decision.status.ok()) return;
    mark_leaders_answer(decision.status);
  }
  note(claim.event, decision, claim.source);
  claim.done(decision, *core_);
}

/// Who waits for what is found at an address need not wait for somebody else to decide.
void Controller::give_up_claims(const absl::Status& why) {
  if (claims_ == nullptr) return;
  Decision decision;
  decision.status = why;
  for (const Claim& claim : claims_->take_all()) claim.done(decision, *core_);
}

void Controller::post_answer(uint64_t claim, ClaimAnswer answer) {
  // After stop() nobody wants it.
  (void)enqueue(CommandQueue::Lane::kNodes, [this, claim, answer = std::move(answer)](bool stopping) mutable {
    if (stopping) return;
    if (auto decided = claims_->answered(claim, std::move(answer))) register_node(*std::move(decided));
  });
}

/// Before it is looked who is silent. Whoever speaks again meanwhile is heard, too, but not without end.
void Controller::hear_nodes() {
  for (int round = 0; round < kHearRoundsMax; ++round) {
    std::vector<Command> waiting;
    {
      std::lock_guard lock(mutex_);
      if (!stopping_) waiting = commands_.take_nodes();
    }
    if (waiting.empty()) return;
    for (const Command& command : waiting) {
      command(false);
      note_step();
    }
  }
}

void Controller::tick() {
  if (clock_.now_ns() >= look_again_) {
    look_again_ = kTimeNever;
    must_reload_ = true;
  }
  for (int i = 0; i < kViewChangesPerTickMax; ++i) {
    changed_ = false;
    Decision decision;
    // A store that does not answer holds this thread up, and heartbeats with it: ask it now and then.
    const bool wait = must_reload_ && clock_.now_ns() < next_tick_reload_;
    if (!wait) decision = decide(Tick{});
    const bool failed = wait || !decision.status.ok();
    if (failed) {
      if (!wait) next_tick_reload_ = clock_.now_ns() + kReloadInterval;
      // Whatever the store does, silence is noticed. It may have taken long to fail.
      hear_nodes();
      Decision silence = core_->step(Tick{}, clock_.now_ns());
      for (LivenessChange& change : silence.liveness_changes) decision.liveness_changes.push_back(std::move(change));
      if (tick_failed_) decision.status = absl::OkStatus();
      decision.changes = {};
    }
    if (tick_failed_ != failed) ++generation_;
    tick_failed_ = failed;
    if (!failed && look_again_ == kTimeNever) store_trouble_.clear();
    note(Tick{}, decision);
    if (failed || decision.changes.empty()) return;
  }
}

Decision Controller::decide(const Event& event) {
  Decision decision;
  if (!not_leading_.ok()) {
    decision.status = not_leading_;
    return decision;
  }
  for (int attempt = 0; attempt < kAttemptsMax; ++attempt) {
    // Heartbeats need no store: nodes stay alive while it is out of order.
    if (must_reload_ && !std::holds_alternative<NodeHeartbeat>(event)) {
      decision = {};
      decision.status = reload();
      if (!decision.status.ok()) return decision;
    }
    if (std::holds_alternative<Tick>(event)) hear_nodes();
    decision = core_->step(event, clock_.now_ns());
    if (!decision.status.ok()) mark_leaders_answer(decision.status);
    if (!decision.status.ok() || decision.changes.empty()) return decision;
    bool retry = false;
    decision.status = commit(decision, retry);
    if (retry) continue;
    if (!decision.status.ok() || !decision.unfinished) return decision;
    note(event, decision);
    attempt = -1;
  }
  decision.status =
      absl::AbortedError("other control processes changed the cluster at the same time again and again. Try again");
  return decision;
}

absl::Status Controller::commit(Decision& decision, bool& retry) {
  const Changes& changes = decision.changes;
  const auto committed = store_.commit(changes);
  if (!committed.ok()) {
    must_reload_ = true;
    look_again_ = clock_.now_ns() + kLateCommit;
    // The store knew before us that another process leads.
    if (committed.status().code() == absl::StatusCode::kFailedPrecondition) return not_leading("", "");
    if (committed.status().code() == absl::StatusCode::kInvalidArgument) {  // beyond the store's limits: not stored
      return absl::ResourceExhaustedError(committed.status().message());
    }
    store_trouble_ = std::string(committed.status().message());
    ++generation_;
    return absl::UnavailableError(
        absl::StrCat("the change may or may not have been stored: ", std::string(committed.status().message()),
                     ". Look at the result before trying again"));
  }
  if (!*committed) {
    retry = true;
    must_reload_ = true;
    return absl::OkStatus();
  }
  for (LivenessChange& change : core_->committed(changes, clock_.now_ns())) {
    decision.liveness_changes.push_back(std::move(change));
  }
  changed_ = true;
  store_trouble_.clear();
  publish_state(!changes.put_nodes.empty() || !changes.delete_nodes.empty());
  return absl::OkStatus();
}

/// A store that is away may take seconds to say so. It is not asked for each command that waits: the thread would hang
/// for as long as there are any.
absl::Status Controller::reload() {
  if (clock_.now_ns() < next_reload_) return reload_trouble_;
  auto state = store_.load();
  if (!state.ok()) {
    next_reload_ = clock_.now_ns() + kReloadInterval;
    reload_trouble_ = absl::UnavailableError(
        absl::StrCat("the metadata store cannot be read: ", std::string(state.status().message())));
    store_trouble_ = std::string(state.status().message());
    return reload_trouble_;
  }
  must_reload_ = false;
  const uint64_t before = core_->state().map_revision;
  core_->reload(*std::move(state), clock_.now_ns());
  if (core_->state().map_revision != before) publish_state(true);
  return absl::OkStatus();
}

void Controller::serve_waiters(bool give_up) {
  const TimeNs now = clock_.now_ns();
  for (auto waiter = waiters_.begin(); waiter != waiters_.end();) {
    const auto lagging = lagging_owners(core_->context(), waiter->table, waiter->revision);
    if (!lagging.empty() && now < waiter->deadline && !give_up) {
      ++waiter;
      continue;
    }
    waiter->done(lagging);
    waiter = waiters_.erase(waiter);
  }
}

void Controller::note(const Event& event, const Decision& decision, const std::string& source) {
  if (!decision.liveness_changes.empty()) ++generation_;
  for (const LivenessChange& change : decision.liveness_changes) {
    const auto node = core_->state().nodes.find(change.uuid);
    if (node == core_->state().nodes.end()) continue;
    log(change.to == Liveness::kSuspected, absl::StrCat(describe_node(node->second), " is ", liveness_name(change.to),
                                                        ", was ", liveness_name(change.from)));
  }
  if (std::holds_alternative<NodeHeartbeat>(event) || redirected_to(decision.status)) return;
  if (!decision.status.ok()) {
    const std::string text = printable(std_view(decision.status.message()), kRefusalTextMax);
    if (const auto line = refusals_.note(source, text, clock_.now_ns())) log(true, *line);
  } else if (!decision.changes.empty()) {
    const Changes& changes = decision.changes;
    for (const NodeInfo& node : changes.put_nodes) {
      log(false, absl::StrCat("registered ", describe_node(node)));
    }
    for (const std::string& uuid : changes.delete_nodes) log(true, absl::StrCat("removed node ", uuid));
    for (const Table& table : changes.put_tables) {
      log(false, absl::StrCat("created table ", table.name, " with ", count_of(table.shard_count, "shard")));
    }
    if (changes.put_tables.empty() && !changes.put_shards.empty()) log(false, views_text(changes, core_->state()));
    if (const std::string line = access_text(event, decision); !line.empty()) log(true, line);
    if (changes.put_join_tokens && !decision.principal.empty()) {
      const char* const what = std::holds_alternative<AddJoinToken>(event)   ? "a join token was made for "
                               : std::holds_alternative<UseJoinToken>(event) ? "joined by a token: "
                                                                             : "a join token was taken back, for ";
      log(false, absl::StrCat(what, decision.principal));
    }
    if (!changes.delete_tables.empty() && decision.table) {
      log(false, absl::StrCat("dropped table ", decision.table->name));
    }
  }
}

void Controller::log(bool warning, const std::string& line) const {
  if (options_.log) options_.log(warning, line);
}

}  // namespace skua::control
