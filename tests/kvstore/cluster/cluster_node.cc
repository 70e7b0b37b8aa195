#include "tests/kvstore/cluster/cluster_node.h"

#include <algorithm>
#include <cstdlib>
#include <utility>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_format.h"
#include "control/core/uuid.h"
#include "kvstore/codec/effect.h"
#include "kvstore/peers/peer_identity.h"
#include "kvstore/storage/recovery.h"
#include "rpc/base/status.h"
#include "tests/kvstore/cluster/node_request.h"

namespace skua::kv::sim {
namespace {

constexpr DurationNs kHousekeeping = 50 * kMillisecond;
/// A restarted process is looked at again after so long, if its log has failed.
constexpr DurationNs kRepairMax = 4 * kSecond;
/// The machines' wall clocks differ by less than an hour: a client that was silent for so long is forgotten.
constexpr int64_t kWallMs = 1'700'000'000'000;
constexpr int64_t kWallOffMsMax = int64_t{100} * 24 * 3600 * 1000;

std::string uuid_of(size_t number, uint64_t wipes) {
  return control::uuid_from_random(uint64_t{number} << 32 | wipes << 16, number);
}

}  // namespace

ClusterNode::ClusterNode(SimKernel& kernel, Oracle& oracle, const ClusterSimOptions& options, NodeSurroundings& world,
                         size_t number)
    : kernel_(kernel), oracle_(oracle), options_(options), world_(world), number_(number) {
  machine_ = std::make_unique<Machine>(kernel_.rng.next(), 1, 0);
  machine_->end_now(Machine::End::kKill);
  info_.uuid = uuid_of(number, 0);
  info_.grpc_address = absl::StrCat("host-", number, ":7500");
  info_.host = absl::StrCat("host-", number);
  info_.worker_count = 1;
  info_.versions = control::kProtocolVersions;
  info_.storage_incarnation = 1;
  info_.incarnation = 1;
  info_.instance = control::uuid_from_random(number, 1);
  id_ = node_id_of(info_.uuid);
  clock_base_ = kernel_.between(0, 1'000'000 * kSecond);
  change_clock();
}

ClusterNode::~ClusterNode() {
  if (up_) end_process(Machine::End::kKill);
}

// --- Life

bool ClusterNode::start() {
  if (up_) return true;
  ++life_;
  if (life_ > 1) {
    ++info_.incarnation;
    info_.instance = control::uuid_from_random(number_, info_.incarnation);
  }
  machine_->restart();
  set_disk_full(false);
  auto device = machine_->open_log_device(0);
  const RecoveryOptions recovery{
      .log = options_.log, .shards_dir = "", .chunk_bytes = kernel_.rng.below(4000), .threads = 1};
  auto recovered = recover_log(*device, recovery, machine_->databases());
  if (!recovered.ok()) {
    kernel_.hit(Probe::kStartFailed);
    kernel_.note("start fails", number_, life_);
    machine_->end_now(Machine::End::kKill);
    return false;
  }
  kernel_.note("start", number_, life_, recovered->records_replayed, recovered->refused.size());
  refused_ = std::move(recovered->refused);
  for (size_t i = 0; i < refused_.size(); ++i) kernel_.hit(Probe::kShardRefused);
  readers_ = std::make_unique<ReaderPool>(ReaderPool::Options{.threads = 0, .queue_jobs_max = 64});
  WorkerEngine::Events events;
  events.post = [this](absl::AnyInvocable<void()> task) {
    tasks_.push_back(std::move(task));
    if (up_) kick();
  };
  events.write_done = [this](WriteOp& op) { written(op); };
  events.fetch_done = [this](FetchOp& op) { found(*static_cast<Request*>(op.context)); };
  events.applied = [](AppliedWait&) {};
  const auto of = [this](const EngineShard& shard) -> Held& {
    return *std::ranges::find_if(held_, [&shard](const Held& held) { return held.shard == &shard; });
  };
  events.proposed = [this, of](EngineShard& shard, const ReplicaEntry& entry) {
    if (!of(shard).replica->replica().can_propose()) kernel_.break_promise("I10: a write is taken that must not be");
    of(shard).replica->proposed(entry, now());
  };
  events.log_moved = [of](EngineShard& shard, bool refused) {
    if (of(shard).replica != nullptr) of(shard).replica->log_moved(refused);
  };
  auto engine =
      WorkerEngine::create(options_.engine, std::move(events), std::move(device), std::move(recovered->log), *readers_);
  engine_ = *std::move(engine);
  held_.clear();
  held_.resize(options_.shards);
  lived_ = {};
  findings_ = std::make_unique<ReplicaFindings>([this](control::ReplicaReport found) {
    report_ = std::move(found);
    hurry_agent();
  });
  map_.reset();
  report_ = {};
  heard_lives_.clear();
  registered_ = false;
  awaited_ = 0;
  poll_scheduled_ = log_scheduled_ = applier_scheduled_ = log_failed_ = false;
  timer_at_ = kTimeNever;
  map_asked_ns_ = 0;
  up_ = true;
  if (kernel_.mutant == WorldMutant::kForgetView) views_.clear();
  disown_damaged();
  agent_tick();
  ask_map();
  return true;
}

/// As kvstore/node/node.cc: what is damaged may lack what was acknowledged.
void ClusterNode::disown_damaged() {
  bool lacks_some = false;
  bool alone = false;
  for (const auto& [shard, view] : views_) {
    const bool damaged = refused_.contains(shard_id(shard));
    lacks_some = lacks_some || (damaged && view.mentions(replica_id()));
    alone = alone || (!damaged && view.members.size() == 1 && view.is_member(replica_id()));
  }
  if (lacks_some && !alone) ++info_.storage_incarnation;
  if (!lacks_some || !alone) return;
  // Somebody sees that in its status, and starts it again later.
  run(kernel_.now() + kRepairMax, [this] { world_.process_ended(*this); });
}

void ClusterNode::stop(End how) {
  kernel_.note("stop", number_, static_cast<uint64_t>(how));
  if (up_) end_process(how == End::kKill ? Machine::End::kKill : Machine::End::kPowerCut);
  paused_until_ = 0;
  fail_syncs(false);
  if (how == End::kPowerCut) {
    ++boot_;
    clock_base_ = kernel_.between(0, kernel_.rng.chance(0.5) ? kSecond : 1'000'000 * kSecond);
    clock_since_ = kernel_.now();
  }
  if (how != End::kWiped) return;
  machine_ = std::make_unique<Machine>(kernel_.rng.next(), 1, 0);
  machine_->end_now(Machine::End::kKill);
  views_.clear();
  unsynced_.clear();
  info_.uuid = uuid_of(number_, ++wipes_);
  info_.incarnation = 0;
  info_.storage_incarnation = 1;
  id_ = node_id_of(info_.uuid);
}

/// As kill -9, or as the power goes: what is under way comes back as failed, and nobody hears of it.
void ClusterNode::end_process(Machine::End how) {
  machine_->end_now(how);
  if (!engine_->log_health().ok()) {
    for (size_t shard = 0; shard < held_.size(); ++shard) put_in_doubt(shard_id(shard));
  }
  up_ = false;
  ++life_;
  for (Held& held : held_) {
    if (held.replica != nullptr) held.replica->retire();
  }
  engine_->drain();
  for (int i = 0; i < 1000 && (i < 10 || engine_->counters().unfinished > 0); ++i) {
    run_tasks();
    static_cast<void>(engine_->step_log());
    run_tasks();
    static_cast<void>(engine_->step_applier());
    static_cast<void>(readers_->step());
    run_tasks();
    engine_->tick();
  }
  requests_.clear();
  for (Held& held : held_) held.replica.reset();
  engine_.reset();
  tasks_.clear();
  readers_.reset();
  held_.clear();
}

void ClusterNode::change_clock() {
  clock_base_ = now();
  clock_since_ = kernel_.now();
  if (options_.clocks_step && kernel_.rng.chance(0.3)) {
    kernel_.hit(Probe::kClockStep);
    wall_off_ms_ = kernel_.between(-kWallOffMsMax, kWallOffMsMax);
  }
  if (!options_.clocks_drift) return;
  const int64_t most = options_.replica.replica.lease.drift_ppm;
  clock_ppm_ = kernel_.rng.chance(0.5) ? kernel_.between(-most, most) : (kernel_.rng.chance(0.5) ? most : -most);
}

TimeNs ClusterNode::now() const {
  const TimeNs passed = kernel_.now() - clock_since_;
  return clock_base_ + passed + passed * clock_ppm_ / 1'000'000;
}

void ClusterNode::set_disk_full(bool full) {
  machine_->log_disk(0).set_capacity(full ? 0 : options_.log.segment_bytes * options_.disk_segments);
}

void ClusterNode::fail_syncs(bool fail) {
  machine_->set_faults({.sync_error = fail ? 0.5 : 0}, {});
}

/// Damage that recovery can tell from a write that the end of the process cut off: in a segment that others follow.
bool ClusterNode::rot() {
  SimDevice& disk = machine_->log_disk(0);
  if (up_) return false;
  machine_->restart();
  const auto device = machine_->open_log_device(0);
  std::vector<LogSegmentInfo> segments;
  if (auto log = LogRecovery::scan(*device, options_.log.identity, [](const LogProgress&) {}); log.ok()) {
    segments = (*log)->segments();
  }
  machine_->end_now(Machine::End::kKill);
  if (segments.size() < 2) return false;
  const LogSegmentInfo& segment = segments[kernel_.rng.below(segments.size() - 1)];
  if (segment.used_bytes <= kPageBytes) return false;
  const std::string name = segment.path.substr(segment.path.rfind('/') + 1);
  disk.flip_bit(name, kernel_.rng.below(segment.used_bytes), static_cast<unsigned>(kernel_.rng.below(8)));
  kernel_.hit(Probe::kBitRot);
  kernel_.note("bit rot", number_, segment.sequence);
  return true;
}

void ClusterNode::heal() {
  paused_until_ = disk_hangs_until_ = 0;
  machine_->cancel_end();
  set_disk_full(false);
  fail_syncs(false);
}

void ClusterNode::run(TimeNs at, absl::AnyInvocable<void()> then) {
  kernel_.queue.at(at, [this, life = life_, then = std::move(then)]() mutable {
    if (life != life_ || !up_) return;
    if (kernel_.now() < paused_until_) return run(paused_until_, std::move(then));
    then();
  });
}

void ClusterNode::later(DurationNs after, absl::AnyInvocable<void()> then) {
  const DurationNs passes = after - after * clock_ppm_ / 1'000'000;
  run(kernel_.now() + std::max<DurationNs>(passes, 0), std::move(then));
}

// --- What the worker's loop does

void ClusterNode::kick(DurationNs after) {
  if (std::exchange(poll_scheduled_, true)) return;
  if (kernel_.rng.chance(0.2)) after += kernel_.between(0, 50 * kMicrosecond);
  run(kernel_.now() + after, [this] { poll(); });
}

void ClusterNode::run_tasks() {
  while (!tasks_.empty()) {
    auto task = std::move(tasks_.front());
    tasks_.pop_front();
    task();
  }
}

void ClusterNode::poll() {
  poll_scheduled_ = false;
  if (!machine_->running()) return world_.process_ended(*this);
  const TimeNs time = now();
  engine_->set_time(static_cast<uint64_t>(kWallMs + wall_off_ms_ + kernel_.now() / kMillisecond), lived_.at(time));
  run_tasks();
  while (readers_->step()) {
  }
  run_tasks();
  engine_->tick();
  for (size_t shard = 0; shard < held_.size(); ++shard) {
    if (held(shard).replica == nullptr) continue;
    held(shard).replica->tick(time);
    observe(shard);
    close_if_idle(shard);
  }
  findings_->sweep(time);
  if (!engine_->log_health().ok() && !std::exchange(log_failed_, true)) {
    kernel_.hit(Probe::kSyncFailed);
    run(kernel_.now() + kernel_.between(kSecond, kRepairMax), [this] { world_.process_ended(*this); });
  }
  set_timer();
}

void ClusterNode::step_log() {
  log_scheduled_ = false;
  if (kernel_.now() < disk_hangs_until_) {
    log_scheduled_ = true;
    return run(disk_hangs_until_, [this] { step_log(); });
  }
  const bool more = machine_->running() && engine_->step_log();
  if (more) housekeeping_ns_ = 0;
  kick();
}

void ClusterNode::step_applier() {
  applier_scheduled_ = false;
  if (machine_->running() && engine_->step_applier()) housekeeping_ns_ = 0;
  kick();
}

/// When the log, the applier and the replicas have something to do.
void ClusterNode::set_timer() {
  const TimeNs time = now();
  TimeNs wake = time + kHousekeeping;
  bool log = false;
  bool sync = false;
  bool apply = false;
  for (const Held& held : held_) {
    if (held.replica == nullptr || held.phase == Phase::kLeaving) {
      log = apply = log || held.phase == Phase::kLeaving;
      continue;
    }
    const ReplicaLevels levels = engine_->replica_levels(*held.shard);
    log = log || engine_->last_entry(*held.shard) > levels.written;
    sync = sync || engine_->last_entry(*held.shard) > levels.synced;
    apply = apply || held.db->applied_index() < WorkerEngine::committed_index(*held.shard);
    const TimeNs at = held.replica->wake_at();
    wake = std::min(wake, at <= time ? time + 5 * kMillisecond : at);
  }
  if (kernel_.now() >= housekeeping_ns_) {
    housekeeping_ns_ = kernel_.now() + kHousekeeping;
    log = apply = true;
  }
  if (log && !std::exchange(log_scheduled_, true)) {
    run(kernel_.now() + options_.sync_ns + kernel_.between(0, options_.disk_jitter_ns), [this] { step_log(); });
  } else if (sync && !std::exchange(log_scheduled_, true)) {
    run(kernel_.now() + options_.sync_ns + kernel_.between(0, 20 * kMillisecond), [this] { step_log(); });
  }
  if (apply && !std::exchange(applier_scheduled_, true)) {
    run(kernel_.now() + kernel_.between(0, options_.apply_ns), [this] { step_applier(); });
  }
  if (wake >= timer_at_) return;
  timer_at_ = wake;
  later(wake - time, [this, wake] {
    if (timer_at_ != wake) return;
    timer_at_ = kTimeNever;
    poll();
  });
}

// --- Peers

void ClusterNode::on_peer(const NodeMessage& message) {
  uint64_t& heard = heard_lives_[message.from];
  if (message.from_life < heard) return;
  heard = message.from_life;
  Held& to = held(message.shard);
  if (to.replica == nullptr || !machine_->running()) return;
  if (std::holds_alternative<AskCopy>(message.body)) return on_copy_asked(message.shard, message.from);
  if (const auto* copy = std::get_if<ShardCopy>(&message.body)) {
    // Written to disk for a while, then taken.
    return run(kernel_.now() + options_.sync_ns + kernel_.between(0, 300 * kMillisecond),
               [this, shard = message.shard, from = message.from, copy = *copy] { on_copy(shard, from, copy); });
  }
  const auto& body = std::get<ReplicaMessage>(message.body);
  kernel_.note("message", message.shard, message.from >> 32, number_, body.index());
  to.replica->on_message(message.from, body, message.entries, now());
  observe(message.shard);
  kick();
}

void ClusterNode::on_peer_failed(NodeId peer) {
  for (Held& held : held_) {
    if (held.replica != nullptr) held.replica->peer_failed(peer, now());
  }
  kick();
}

void ClusterNode::send_body(size_t shard, NodeId to, std::variant<ReplicaMessage, AskCopy, ShardCopy> body) {
  auto message = std::make_shared<NodeMessage>();
  message->from = id_;
  message->from_life = life_;
  message->to = to;
  message->shard = shard;
  message->body = std::move(body);
  world_.to_peer(*this, std::move(message));
}

void ClusterNode::send(ShardId shard, NodeId to, const ReplicaMessage& message) {
  check_epoch_durable(shard.shard, message);
  send_body(shard.shard, to, message);
}

void ClusterNode::check_epoch_durable(size_t shard, const ReplicaMessage& message) const {
  const uint64_t epoch = std::visit(
      [](const auto& body) {
        if constexpr (requires { body.view; }) {
          return body.view.epoch;
        } else {
          return body.epoch;
        }
      },
      message);
  const auto durable = views_.find(shard);
  if (durable != views_.end() && epoch <= durable->second.epoch) return;
  kernel_.break_promise(
      absl::StrFormat("I2: shard %d node %d speaks in epoch %d before it is durable", shard, number_, epoch));
}

size_t ClusterNode::send_entries(ShardId shard, NodeId to, const Append& append,
                                 std::span<ReplicaRecord* const> entries) {
  check_epoch_durable(shard.shard, append);
  auto message = std::make_shared<NodeMessage>();
  message->from = id_;
  message->from_life = life_;
  message->to = to;
  message->shard = shard.shard;
  message->body = ReplicaMessage(append);
  for (ReplicaRecord* record : entries) {
    ReplicaEntry entry = WorkerEngine::entry_of_record(*record);
    entry.payload = as_byte_span(message->payloads.emplace_back(as_string_view(entry.payload)));
    message->entries.push_back(entry);
    WorkerEngine::release_entry_pin(record);
  }
  if (kernel_.rng.chance(options_.refusals)) {
    // A way that is full: of the message nothing goes, and some time later there is room.
    run(kernel_.now() + kernel_.between(kMillisecond, 20 * kMillisecond), [this, shard = shard.shard, to] {
      if (held(shard).replica == nullptr) return;
      held(shard).replica->peer_ready(to, now());
      kick();
    });
    return 0;
  }
  world_.to_peer(*this, std::move(message));
  return entries.size();
}

// --- The rest of ReplicaHost

void ClusterNode::persist_view(ShardId shard, const View& view) {
  kernel_.note("adopt", shard.shard, number_, view.epoch, view.primary >> 32);
  run(kernel_.now() + options_.sync_ns + kernel_.between(0, 20 * kMillisecond), [this, shard = shard.shard, view] {
    if (views_[shard].newer_than(view)) return;  // one after the other, in production
    const uint64_t fork = views_[shard].fork;    // peers do not tell it
    views_[shard] = view;
    views_[shard].fork = fork;
    if (held(shard).replica == nullptr) return;
    held(shard).replica->view_persisted(view.epoch, now());
    observe(shard);
    kick();
  });
}

void ClusterNode::allow_unsynced(ShardId shard) {
  run(kernel_.now() + options_.sync_ns + kernel_.between(0, 20 * kMillisecond), [this, shard = shard.shard] {
    unsynced_.try_emplace(shard, boot_);
    if (held(shard).replica == nullptr || unsynced_[shard] != boot_) return;
    held(shard).replica->unsynced_allowed(now());
    observe(shard);
    kick();
  });
}

/// At once: production takes it that a process whose disk has just failed lives for some milliseconds.
void ClusterNode::put_in_doubt(ShardId shard) {
  const auto known = unsynced_.find(shard.shard);
  if (known != unsynced_.end() && known->second == boot_) known->second = boot_ + (uint64_t{1} << 32);
}

void ClusterNode::restored(ShardId shard) {
  kernel_.hit(Probe::kRestored);
  kernel_.note("restored", shard.shard, number_);
  findings_->restored(shard);
  run(kernel_.now() + options_.sync_ns + kernel_.between(0, 20 * kMillisecond),
      [this, shard = shard.shard] { unsynced_.erase(shard); });
}

void ClusterNode::report(ShardId shard, const ReplicaReport& report) {
  kernel_.note("report", shard.shard, number_, static_cast<uint64_t>(report.kind), report.node >> 32);
  findings_->report(shard, report, now());
}

void ClusterNode::fetch_view(ShardId /*shard*/) {
  ask_map();
}

void ClusterNode::fetch_snapshot(ShardId shard, NodeId from) {
  Held& to = held(shard.shard);
  if (now() < to.copy_asked_ns + kSecond) return;
  to.copy_asked_ns = now();
  send_body(shard.shard, from, AskCopy{});
}

void ClusterNode::replica_failed(ShardId shard, const absl::Status& /*why*/) {
  // Only a copy would help; until somebody restarts the process, the others go on without it.
  kernel_.note("replica fails", shard.shard, number_);
  run(kernel_.now() + kernel_.between(kSecond, kRepairMax), [this] { world_.process_ended(*this); });
}

// --- What the oracle sees

LogEntry ClusterNode::entry_of(const ReplicaEntry& entry) const {
  LogEntry out;
  out.epoch = entry.epoch;
  EffectReader reader(entry.payload);
  if (reader.completion()) {
    out.request = {reader.completion()->id.client_id, reader.completion()->id.seq};
    out.result = reader.completion()->value;
  }
  while (const auto effect = reader.next()) {
    out.has_effect = true;
    out.key = key_number(effect->key);
    out.value = effect->value ? value_number(as_string_view(*effect->value)) : 0;
  }
  return out;
}

void ClusterNode::observe(size_t shard) {
  Held& at = held(shard);
  if (at.replica == nullptr || at.phase != Phase::kServing || !engine_->log_health().ok()) return;
  const Replica& replica = at.replica->replica();
  const uint64_t last = engine_->last_entry(*at.shard);
  if (at.seen_epoch != replica.view().epoch) {
    at.seen_epoch = replica.view().epoch;
    at.seen_last = std::min(at.seen_last, at.seen_commit);  // what is behind it may have been replaced
  }
  at.seen_last = std::min(at.seen_last, last);
  while (at.seen_last < last) {
    const uint64_t index = ++at.seen_last;
    const auto entry = engine_->replica_entry(*at.shard, index);
    const auto previous = replica.log().epoch_of(index - 1);
    if (entry && (previous || index == 1)) oracle_.appended(shard, index, previous.value_or(0), entry_of(*entry));
  }
  while (at.seen_commit < replica.commit_index()) {
    const uint64_t index = ++at.seen_commit;
    const auto entry = engine_->replica_entry(*at.shard, index);
    if (entry) world_.entry_committed(shard, index, entry_of(*entry), replica);
  }
}

const ShardReplica* ClusterNode::replica(size_t shard) const {
  return up_ && held_[shard].phase == Phase::kServing ? held_[shard].replica.get() : nullptr;
}

bool ClusterNode::has_data(size_t shard) const {
  return replica(shard) != nullptr && engine_->log_health().ok() && WorkerEngine::health(*held_[shard].shard).ok();
}

bool ClusterNode::has_received(size_t shard, EntryId entry) const {
  const EpochRuns& log = held_[shard].replica->replica().log();
  return entry.index <= log.base().index || log.epoch_of(entry.index) == entry.epoch;
}

bool ClusterNode::has_damaged() const {
  return std::ranges::any_of(refused_, [this](const auto& refused) {
    const auto known = views_.find(refused.first.shard);
    return known != views_.end() && known->second.mentions(replica_id());
  });
}

bool ClusterNode::holds(size_t shard, EntryId entry, Durability level) const {
  const EpochRuns& log = held_[shard].replica->replica().log();
  if (entry.index <= log.base().index) return true;
  const ReplicaLevels levels = engine_->replica_levels(*held_[shard].shard);
  return log.epoch_of(entry.index) == entry.epoch &&
         (level == Durability::kSync ? levels.synced : levels.written) >= entry.index;
}

bool ClusterNode::is_doubtful(size_t shard) const {
  return replica(shard) != nullptr && replica(shard)->replica().is_doubtful();
}

uint64_t ClusterNode::contents_of(const Database& database) {
  uint64_t contents = 0;
  for (const auto& [key, row] : database.rows()) {
    const uint32_t number = key_number(key);
    contents ^= Item{value_number(row.value), row.version}.hash(number);
  }
  return contents;
}

std::string ClusterNode::describe(size_t shard) const {
  std::string out = absl::StrCat("node ", number_, up_ ? "" : " is down");
  if (!up_) return out;
  const Held& at = held_[shard];
  absl::StrAppend(&out, " phase ", static_cast<int>(at.phase));
  if (!engine_->log_health().ok()) absl::StrAppend(&out, ", log: ", engine_->log_health().message());
  if (at.replica == nullptr) return out;
  const Replica& replica = at.replica->replica();
  absl::StrAppend(&out, ": ", replica_role_name(replica.role()), " epoch ", replica.view().epoch, ".",
                  replica.view().change, " last ", replica.last_index(), " commit ", replica.commit_index(),
                  " applied ", WorkerEngine::committed_index(*at.shard), " base ", replica.log().base().index,
                  " written ", engine_->replica_levels(*at.shard).written, " synced ",
                  engine_->replica_levels(*at.shard).synced, at.replica->is_serving() ? " serving" : "",
                  replica.is_doubtful() ? " in doubt" : "");
  if (!WorkerEngine::health(*at.shard).ok()) {
    absl::StrAppend(&out, ", ", WorkerEngine::health(*at.shard).message());
  }
  for (const ReplicaId& member : replica.view().members) {
    if (const auto levels = replica.peer_levels(member.node)) {
      absl::StrAppend(&out, " [", member.node >> 32, ": ", levels->received, " ", levels->durable, "]");
    }
  }
  return out;
}

}  // namespace skua::kv::sim
