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
  new_machine();
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

void ClusterNode::new_machine() {
  machine_ = std::make_unique<Machine>(kernel_.rng.next(), 1, 0);
  machine_->end_now(Machine::End::kKill);
  files_ = std::make_unique<SimFiles>(*machine_);
  tree_ = std::make_unique<SimFileTree>(*machine_);
}

// --- Life

bool ClusterNode::start() {
  if (up_) return true;
  ++life_;
  machine_->restart();
  set_disk_full(false);
  if (absl::Status started = start_copying(); !started.ok()) {
    kernel_.break_promise(absl::StrCat("node ", number_, " cannot make copies: ", started.message()));
    return false;
  }
  auto device = machine_->open_log_device(0);
  const RecoveryOptions recovery{.log = options_.log,
                                 .shards_dir = "",
                                 .made = made_databases(durable_views(), {id_, state_.storage_incarnation}),
                                 .chunk_bytes = kernel_.rng.below(4000),
                                 .threads = 1};
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
  if (absl::Status read = read_files(); !read.ok()) {
    kernel_.break_promise(absl::StrCat("node ", number_, " cannot read its files: ", read.message()));
    return false;
  }
  start_worker({std::move(device), std::move(recovered->log)});
  start_lifecycle();
  findings_ = std::make_unique<ReplicaFindings>([this](control::ReplicaReport found) {
    report_ = std::move(found);
    hurry_agent();
  });
  map_.reset();
  report_ = {};
  heard_lives_.clear();
  registered_ = false;
  awaited_ = 0;
  applied_revision_ = 0;
  unserved_.clear();
  poll_scheduled_ = step_scheduled_ = log_scheduled_ = applier_scheduled_ = log_failed_ = false;
  timer_at_ = kTimeNever;
  map_asked_ns_ = 0;
  up_ = true;
  agent_tick();
  ask_map();
  return true;
}

void ClusterNode::start_worker(OpenLog log) {
  SimWorkerOptions options;
  options.self = replica_id();
  const auto identity = worker_identity(info_.uuid, info_.incarnation, cluster_uuid(), 0);
  SKUA_CHECK(identity.ok(), "a node's uuid is a uuid");
  options.identity = *identity;
  options.address = number_ - 1;
  options.endpoint = options_.endpoint_of(number_, life_);
  options.server.engine = options_.engine;
  options.server.replica = options_.replica;
  options.server.replica_host = this;
  options.server.clock = this;
  options.links = options_.links;
  options.links.cluster_id = cluster_uuid();
  options.links.node_uuid = info_.uuid;
  options.links.seed = kernel_.rng.next();
  options.copying = copy_resources();
  seen_.assign(options_.shards, {});
  PeerBootstrap& bootstrap = *this;
  SimWorkerHost& host = *this;
  worker_ = std::make_unique<SimWorker>(wire_, options, bootstrap, host, std::move(log));
  worker_->server().on_newer_map([this] { ask_map(); });
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
  new_machine();
  info_.uuid = uuid_of(number_, ++wipes_);
  info_.incarnation = 0;
  info_.storage_incarnation = 1;
  id_ = node_id_of(info_.uuid);
}

/// As kill -9, or as the power goes. A disk that fails a sync and a process that ends before it has noted its doubt are
/// two faults at one moment, which the design does not cover: the doubt is noted here.
void ClusterNode::end_process(Machine::End how) {
  if (!engine().log_writer_health().ok()) {
    for (size_t shard = 0; shard < options_.shards; ++shard) put_in_doubt(shard_id(shard));
  }
  machine_->end_now(how);
  count_probes();
  up_ = false;
  ++life_;
  worker_.reset();
  lifecycle_.reset();
  news_ = {};
  copying_.reset();
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

void ClusterNode::poll() {
  poll_scheduled_ = false;
  if (!machine_->running()) return world_.process_ended(*this);
  wire_.enter();
  SimWorker::Turn turn = worker_->take_turn();
  for (int i = 0; turn.work > 0 && i < kTurnsMax; ++i) {
    observe_all();
    turn = worker_->take_turn();
  }
  worker_->endpoint().transmit();
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

bool ClusterNode::disk_reads() const {
  return kernel_.now() >= std::max(disk_hangs_until_, readers_busy_until_);
}

void ClusterNode::step_log() {
  log_scheduled_ = false;
  if (kernel_.now() < disk_hangs_until_) {
    log_scheduled_ = true;
    return run(disk_hangs_until_, [this] { step_log(); });
  }
  const bool more = machine_->running() && worker_->server().engine().step_log();
  if (more) housekeeping_ns_ = 0;
  kick();
}

void ClusterNode::step_applier() {
  applier_scheduled_ = false;
  if (machine_->running() && worker_->server().engine().step_applier()) housekeeping_ns_ = 0;
  kick();
}

void ClusterNode::hurry_applier() {
  run(kernel_.now(), [this] {
    if (machine_->running()) worker_->server().engine().hurry_applier();
    kick();
  });
}

/// When the log and the applier have something to do.
void ClusterNode::plan_disk() {
  bool log = false;
  bool sync = false;
  bool apply = engine().is_applier_due();
  if (!engine().closing_shards().empty()) log = apply = true;
  for (size_t shard = 0; shard < options_.shards; ++shard) {
    const HeldShard* const at = serving(shard);
    if (at == nullptr) continue;
    const ShardIndices& levels = at->shard->indices();
    const uint64_t last = levels.last;
    log = log || last > levels.written;
    sync = sync || last > levels.synced;
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
  const TimeNs wake =
      std::min(kernel_.now() + passes(wait_ns), SimWire::kernel_time(worker_->endpoint().next_timer_ns()));
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
  const HeldShard* const at = worker_->server().shards().find(shard_id(shard));
  return at == nullptr || at->replica == nullptr || at->state != HeldShard::State::kServing ? nullptr : at;
}

}  // namespace skua::kv::sim
