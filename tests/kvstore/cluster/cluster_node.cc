#include "tests/kvstore/cluster/cluster_node.h"

#include <algorithm>
#include <cstdlib>
#include <utility>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_format.h"
#include "control/core/uuid.h"
#include "kvstore/peers/peer_identity.h"
#include "kvstore/storage/recovery.h"
#include "rpc/base/check.h"
#include "rpc/base/status.h"

namespace skua::kv::sim {
namespace {

constexpr DurationNs kHousekeeping = 50 * kMillisecond;
/// A replica whose deadline has passed is looked at again after so long.
constexpr DurationNs kOverdue = 5 * kMillisecond;
/// Turns of a worker's loop at one moment.
constexpr int kTurnsMax = 50;
/// The machines' wall clocks differ by less than an hour: a client that was silent for so long is forgotten.
constexpr int64_t kWallMs = 1'700'000'000'000;
constexpr int64_t kWallOffMsMax = int64_t{100} * 24 * 3600 * 1000;

std::string uuid_of(size_t number, uint64_t wipes) {
  return control::uuid_from_random(uint64_t{number} << 32 | wipes << 16, number);
}

}  // namespace

ClusterNode::ClusterNode(SimKernel& kernel, Oracle& oracle, SimWire& wire, const ClusterSimOptions& options,
                         NodeSurroundings& world, size_t number)
    : kernel_(kernel), oracle_(oracle), wire_(wire), options_(options), world_(world), number_(number) {
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
  held_.clear();
  held_.resize(options_.shards);
  if (kernel_.mutant == WorldMutant::kForgetView) views_.clear();
  disown_damaged();
  start_worker({std::move(device), std::move(recovered->log)});
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
  agent_tick();
  ask_map();
  return true;
}

/// As worker.cc, without its thread.
void ClusterNode::start_worker(OpenLog log) {
  readers_ = std::make_unique<ReaderPool>(ReaderPool::Options{.threads = 0, .queue_jobs_max = 64});
  const auto identity = worker_identity(info_.uuid, info_.incarnation, cluster_uuid(), 0);
  SKUA_CHECK(identity.ok(), "a node's uuid is a uuid");
  transport_ = wire_.attach(number_ - 1, *identity, [this] { kick(); });
  endpoint_ = std::make_unique<rpc::Endpoint>(*transport_, wire_.clock(), options_.endpoint_of(number_, life_));
  ReplicationEvents events;
  events.tick = [] {};
  events.log = [](LogSeverity, const std::string&) {};
  replication_ = std::make_unique<WorkerReplication>(replica_id(), std::move(events));
  ShardServer::Options options;
  options.engine = options_.engine;
  options.replica = options_.replica;
  options.replica_host = this;
  options.clock = this;
  server_ = *ShardServer::create(*endpoint_, *readers_, options, std::move(log));
  server_->on_newer_map([this] { ask_map(); });
  PeerLinksOptions links = options_.links;
  links.cluster_id = cluster_uuid();
  links.node_uuid = info_.uuid;
  links.seed = kernel_.rng.next();
  replication_->start(*endpoint_, *this, *server_, links, *readers_, options_.copying());
  server_->bind_to_this_thread();
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
  restart_by_operator(kRepairMax);
}

/// The process has failed, and its status says so.
void ClusterNode::restart_by_operator(DurationNs after) {
  run(kernel_.now() + after, [this] { world_.process_ended(*this); });
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
  if (!engine().log_health().ok()) {
    for (size_t shard = 0; shard < held_.size(); ++shard) put_in_doubt(shard_id(shard));
  }
  up_ = false;
  ++life_;
  transport_->cut_off();
  wind_down();
}

void ClusterNode::wind_down() {
  wire_.enter();
  count_probes();
  bool drained = false;
  replication_->drain();
  server_->drain([&drained] { drained = true; });
  for (int i = 0; i < 1000 && (i < 10 || !drained || engine().counters().unfinished > 0); ++i) {
    static_cast<void>(take_turn());
    static_cast<void>(server_->step_engine());
  }
  SKUA_CHECK(drained, "a worker whose disk has failed answers all requests");
  replication_->stop();
  static_cast<void>(take_turn());
  wire_.detach(number_ - 1);
  endpoint_.reset();
  server_.reset();
  replication_.reset();
  transport_.reset();
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

uint64_t ClusterNode::unix_ms() const {
  return static_cast<uint64_t>(kWallMs + wall_off_ms_ + kernel_.now() / kMillisecond);
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

DurationNs ClusterNode::passes(DurationNs by_boot_clock) const {
  return std::max<DurationNs>(by_boot_clock - by_boot_clock * clock_ppm_ / 1'000'000, 0);
}

void ClusterNode::later(DurationNs after, absl::AnyInvocable<void()> then) {
  run(kernel_.now() + passes(after), std::move(then));
}

// --- What the worker's loop does

void ClusterNode::kick(DurationNs after) {
  if (std::exchange(poll_scheduled_, true)) return;
  if (kernel_.rng.chance(0.2)) after += kernel_.between(0, 50 * kMicrosecond);
  run(kernel_.now() + after, [this] { poll(); });
}

ClusterNode::Turn ClusterNode::take_turn() {
  Turn turn;
  turn.work = endpoint_->poll();
  turn.wait_ns = std::min(server_->tick(), replication_->tick());
  while (readers_->step()) ++turn.work;
  return turn;
}

void ClusterNode::poll() {
  poll_scheduled_ = false;
  if (!machine_->running()) return world_.process_ended(*this);
  wire_.enter();
  Turn turn = take_turn();
  for (int i = 0; turn.work > 0 && i < kTurnsMax; ++i) {
    observe_all();
    turn = take_turn();
  }
  endpoint_->transmit();
  wire_.leave();
  observe_all();
  findings_->sweep(now());
  if (!engine().log_health().ok() && !std::exchange(log_failed_, true)) {
    kernel_.hit(Probe::kSyncFailed);
    restart_by_operator(kernel_.between(kSecond, kRepairMax));
  }
  plan_disk();
  turn.work > 0 ? kick() : set_timer(turn.wait_ns);
}

void ClusterNode::step_log() {
  log_scheduled_ = false;
  if (kernel_.now() < disk_hangs_until_) {
    log_scheduled_ = true;
    return run(disk_hangs_until_, [this] { step_log(); });
  }
  const bool more = machine_->running() && server_->step_log();
  if (more) housekeeping_ns_ = 0;
  kick();
}

void ClusterNode::step_applier() {
  applier_scheduled_ = false;
  if (machine_->running() && server_->step_applier()) housekeeping_ns_ = 0;
  kick();
}

/// When the log and the applier have something to do.
void ClusterNode::plan_disk() {
  bool log = false;
  bool sync = false;
  bool apply = false;
  for (size_t shard = 0; shard < held_.size(); ++shard) {
    if (held(shard).phase == Phase::kLeaving) log = apply = true;
    const HeldShard* const at = serving(shard);
    if (at == nullptr) continue;
    const ReplicaLevels levels = engine().replica_levels(*at->engine);
    const uint64_t last = engine().last_entry(*at->engine);
    log = log || last > levels.written;
    sync = sync || last > levels.synced;
    apply = apply || held(shard).db->applied_index() < WorkerEngine::committed_index(*at->engine);
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
}

/// The next turn, if nothing happens before. `wait_ns`: by the boot clock.
void ClusterNode::set_timer(DurationNs wait_ns) {
  wait_ns = wait_ns <= 0 ? kOverdue : std::min(wait_ns, kHousekeeping);
  const TimeNs wake = std::min(kernel_.now() + passes(wait_ns), SimWire::kernel_time(endpoint_->next_timer_ns()));
  if (wake >= timer_at_) return;
  timer_at_ = wake;
  run(wake, [this, wake] {
    if (timer_at_ != wake) return;
    timer_at_ = kTimeNever;
    poll();
  });
}

const HeldShard* ClusterNode::serving(size_t shard) const {
  if (!up_) return nullptr;
  const HeldShard* const at = server_->shard(shard_id(shard));
  return at == nullptr || at->replica == nullptr || at->state != HeldShard::State::kServing ? nullptr : at;
}

}  // namespace skua::kv::sim
