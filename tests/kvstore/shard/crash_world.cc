// Lives: recovery, what runs when, and the ends.
#include "tests/kvstore/shard/crash_world.h"

#include <algorithm>
#include <utility>

#include "absl/strings/str_cat.h"
#include "kvstore/storage/shard_life.h"
#include "rpc/base/check.h"
#include "tests/kvstore/types/mutations.h"

namespace skua::kv::sim {
namespace {

constexpr int kLives = 5;
constexpr int kRoundsMax = 100000;

}  // namespace

simulation::Summary CrashWorld::summary() const {
  return {.counts = {{"writes", tally_.writes},
                     {"acknowledged", tally_.acknowledged},
                     {"refused", tally_.refused},
                     {"in doubt", tally_.doubtful},
                     {"repeated", tally_.repeated},
                     {"reads", tally_.reads},
                     {"reads of databases", tally_.disk_reads},
                     {"kills", tally_.kills},
                     {"power cuts", tally_.power_cuts},
                     {"orderly ends", tally_.orderly},
                     {"recoveries cut short", tally_.torn_recoveries},
                     {"records replayed", tally_.replayed},
                     {"shards moved", tally_.moves},
                     {"logs failed", tally_.log_failures},
                     {"databases failed", tally_.database_failures},
                     {"items evicted", tally_.evictions},
                     {"segments recycled", tally_.recycled}}};
}

CrashWorld::CrashWorld(uint64_t seed) : rng_(seed), machine_(mix64(seed), kWorkers, 0) {
  draw_options(seed);
  for (uint32_t i = 0, count = static_cast<uint32_t>(rng_.between(1, 4)); i < count; ++i) {
    Shard& shard = shards_.emplace_back();
    shard.id = {7, i};
    machine_.make_database(shard.id);
  }
  for (size_t i = 0; i < clients_.size(); ++i) clients_[i].id = 100 + i;
}

CrashWorld::~CrashWorld() {
  if (workers_[0].engine != nullptr) stop_engines();
}

void CrashWorld::draw_options(uint64_t seed) {
  keys_ = rng_.between(3, rng_.chance(0.5) ? 30 : 150);
  value_bytes_max_ = rng_.chance(0.3) ? 3000 : rng_.between(8, 400);
  end_share_ = rng_.uniform();

  log_options_.identity.cluster_id[0] = static_cast<std::byte>(seed);
  log_options_.segment_bytes = kPageBytes * rng_.between(8, 16);
  log_options_.group_bytes_max = rng_.between(5000, log_options_.segment_bytes / 2);
  log_options_.unsynced_bytes_max = rng_.between(0, 40000);
  log_options_.reserve_segments = rng_.between(1, 2);
  log_options_.segments_max = rng_.between(3, 10);
  log_options_.spares_at_open = rng_.between(0, 3);
  log_options_.spares_max = log_options_.reserve_segments + rng_.between(1, 3);
  capacity_bytes_ = log_options_.segment_bytes * rng_.between(log_options_.reserve_segments + 4, 16);

  engine_options_.memory.region_bytes = 4 << 10;
  engine_options_.memory.budget_bytes = kPageBytes * rng_.between(10, 50);
  engine_options_.memory.try_huge_pages = false;
  engine_options_.log.own_thread = false;
  engine_options_.log.queue_records_max = rng_.between(8, 128);
  engine_options_.log.group_records_max = rng_.between(1, 32);
  engine_options_.applier.own_thread = false;
  engine_options_.applier.queue_max = rng_.between(8, 256);
  engine_options_.applier.round_effects_max = rng_.between(2, 64);
  engine_options_.applier.wake_effects = engine_options_.applier.round_effects_max / 4 + 1;
  engine_options_.applier.batch_effects = engine_options_.applier.round_effects_max / 2;
  engine_options_.applier.age_effects = engine_options_.applier.round_effects_max;
  engine_options_.applier.flush_segments = rng_.between(1, 4);
  engine_options_.unfinished_max = rng_.chance(0.2) ? rng_.between(2, 20) : 1000;
  if (rng_.chance(0.3)) engine_options_.batch_read_bytes_max = rng_.between(10, 2000);

  if (rng_.chance(0.2)) log_faults_.write_error = 0.003;
  if (rng_.chance(0.2)) log_faults_.sync_error = 0.005;
  if (rng_.chance(0.15)) database_faults_.apply_error = 0.02;
  if (rng_.chance(0.15)) database_faults_.flush_error = 0.05;
  if (rng_.chance(0.15)) database_faults_.get_error = 0.05;
}

std::optional<std::string> CrashWorld::run() {
  for (int life = 0; life < kLives && !broken_; ++life) {
    while (!broken_ && !start()) {
      ++tally_.torn_recoveries;
      lost_cache_ |= machine_.last_end() == Machine::End::kPowerCut;
      machine_.restart();
    }
    if (!broken_) live();
    if (!broken_) end_life();
  }
  return broken_;
}

// --- A life begins

bool CrashWorld::start() {
  machine_.set_faults({}, {});
  for (size_t i = 0; i < kWorkers; ++i) machine_.log_disk(i).set_capacity(capacity_bytes_);
  if (rng_.chance(0.15)) {
    machine_.end_after(rng_.below(40), rng_.chance(0.5) ? Machine::End::kKill : Machine::End::kPowerCut);
  }
  std::array<std::unique_ptr<Device>, kWorkers> devices;
  std::array<std::unique_ptr<Log>, kWorkers> logs;
  for (size_t i = 0; i < kWorkers; ++i) {
    if (!recover(i, devices[i], logs[i])) return false;
  }
  if (!machine_.running()) return false;
  machine_.cancel_end();
  for (Shard& shard : shards_) adopt(shard);
  if (broken_) return false;
  lost_cache_ = killed_ = false;
  engine_options_.durability = rng_.chance(0.25) ? Durability::kFlush : Durability::kSync;
  readers_ = std::make_unique<ReaderPool>(ReaderPool::Options{.threads = 0, .queue_jobs_max = 64});
  for (size_t i = 0; i < kWorkers; ++i) {
    Worker& worker = workers_[i];
    worker.refused = worker.repeated = 0;
    WorkerEngine::Events events;
    events.post = [this, &worker](absl::AnyInvocable<void()> task) {
      worker.tasks[producer_].push_back(std::move(task));
    };
    events.write_done = [this](WriteOp& op) { written(*static_cast<Write*>(op.context)); };
    events.fetch_done = [this](FetchOp& op) { fetched(*static_cast<Read*>(op.context)); };
    events.applied = [this](AppliedWait& op) { applied(*static_cast<Wait*>(op.context)); };
    auto engine =
        WorkerEngine::create(engine_options_, std::move(events), std::move(devices[i]), std::move(logs[i]), *readers_);
    SKUA_CHECK(engine.ok(), "the options are too small");
    worker.engine = *std::move(engine);
    worker.engine->set_time(now_ms_, now_ms_);
  }
  for (Shard& shard : shards_) open(shard);
  machine_.set_faults(log_faults_, database_faults_);
  return true;
}

bool CrashWorld::recover(size_t worker, std::unique_ptr<Device>& device, std::unique_ptr<Log>& log) {
  device = machine_.open_log_device(worker);
  RecoveryOptions options{.log = log_options_, .shards_dir = "", .chunk_bytes = rng_.below(4000), .threads = 1};
  options.log.identity.log_number = static_cast<uint32_t>(worker);
  auto recovered = recover_log(*device, options, machine_.databases());
  if (!machine_.running()) return false;
  if (!recovered.ok()) {
    broken(absl::StrCat("recovery fails: ", recovered.status().ToString()));
    return false;
  }
  for (const auto& [id, why] : recovered->refused) {
    broken(absl::StrCat("shard ", id.shard, " is refused by recovery: ", why.ToString()));
  }
  tally_.replayed += recovered->records_replayed;
  log = std::move(recovered->log);
  return !broken_;
}

/// What recovery made of a shard must be its twin after some write.
void CrashWorld::adopt(Shard& shard) {
  const Database& database = machine_.database(shard.id);
  const uint64_t index = database.index();
  note(index);
  const uint64_t least = lost_cache_ ? shard.synced_index : killed_ ? shard.flushed_index : shard.twin.last_index();
  if (index < least) {
    return broken(absl::StrCat("shard ", shard.id.shard, " stands at ", index, ", but ", least, " was acknowledged",
                               lost_cache_ ? " as synced"
                               : killed_   ? " as written"
                                           : "",
                               shard.database_failed ? ", its database had failed" : ""));
  }
  for (auto& write : shard.doubtful) shard.history.push_back(std::move(write));
  shard.doubtful.clear();
  testing::TwinShard twin = shard.base;
  for (const auto& write : shard.history) {
    if (write->op.index > index) break;
    const Verdict verdict = apply(twin, *write);
    if (!verdict.has_effect || verdict.result.version != write->op.index) {
      return broken(absl::StrCat("shard ", shard.id.shard, ": write ", write->op.index, " should not have been"));
    }
  }
  if (twin.last_index() != index) {
    return broken(absl::StrCat("shard ", shard.id.shard, " stands at ", index, ", only ", twin.last_index(),
                               " was ever written"));
  }
  Database::Rows rows;
  for (const auto& [key, row] : twin.rows()) rows[key] = {row.version, row.value, row.expires_at, row.mark};
  if (rows != database.rows()) {
    for (const auto& [key, row] : rows) {
      const auto found = database.rows().find(key);
      if (found != database.rows().end() && found->second == row) continue;
      return broken(absl::StrCat("shard ", shard.id.shard, " at ", index, ": ", key, " should have version ",
                                 row.version, ", has ",
                                 found == database.rows().end() ? "none" : absl::StrCat(found->second.version)));
    }
    return broken(absl::StrCat("shard ", shard.id.shard, " at ", index, " has a key that should not be there"));
  }
  forget_lost(static_cast<size_t>(&shard - shards_.data()), index);
  shard.history.clear();
  shard.base = twin;
  shard.twin = std::move(twin);
  shard.synced_index = shard.flushed_index = index;
}

void CrashWorld::open(Shard& shard) {
  shard.worker = rng_.below(kWorkers);
  if (rng_.chance(0.5)) ++shard.epoch;
  auto db = machine_.databases().open_db("", shard.id, RocksdbEngine::IfMissing::kFail);
  if (!db.ok()) return;  // the end
  shard.db = *std::move(db);
  const uint64_t left = shard.db->applied_index();
  shard.database_failed = !begin_life(*shard.db).ok();
  if (shard.database_failed) return shard.db.reset();
  forget_refused(shard);
  shard.open = &workers_[shard.worker].engine->open_shard(*shard.db, shard.epoch);
  check_life(shard, left);
}

/// `left`: where the shard stood when its database was opened.
void CrashWorld::check_life(Shard& shard, uint64_t left) {
  const uint64_t index = shard.db->applied_index();
  if (index < shard.told_index) {
    return broken(
        absl::StrCat("shard ", shard.id.shard, " goes on at ", index, ", but ", shard.told_index, " was given out"));
  }
  for (uint64_t lost = shard.told_index; lost > left; --lost) {
    if (shard.open->has_state(lost)) broken(absl::StrCat("the lost index ", lost, " passes for one that is there"));
  }
  if (!shard.open->has_state(left) || !shard.open->has_state(index)) {
    broken(absl::StrCat("index ", left, " or ", index, " passes for lost"));
  }
  if (index == left) return;
  if (left != shard.base.last_index() || !shard.history.empty())
    broken("a life begins behind a gap after an orderly end");
  shard.base.pass_over(index);
  shard.twin.pass_over(index);
  shard.synced_index = shard.flushed_index = shard.told_index = index;
}

// --- A life

void CrashWorld::live() {
  if (rng_.chance(end_share_)) {
    machine_.end_after(rng_.below(rng_.chance(0.5) ? 40 : 400),
                       rng_.chance(0.5) ? Machine::End::kKill : Machine::End::kPowerCut);
  }
  for (double& speed : speed_) speed = rng_.chance(0.2) ? 0.05 : rng_.uniform();
  for (uint64_t i = rng_.between(50, 800); i > 0 && machine_.running() && !broken_; --i) {
    if (rng_.chance(0.3)) act();
    for (uint8_t producer = 0; producer < kProducers; ++producer) {
      if (rng_.chance(speed_[producer])) step(workers_[rng_.below(kWorkers)], static_cast<Producer>(producer));
    }
    if (rng_.chance(speed_[kProducers])) run_task(workers_[rng_.below(kWorkers)]);
  }
}

/// What one of the engine's threads does in one round.
bool CrashWorld::step(Worker& worker, Producer producer) {
  producer_ = producer;
  switch (producer) {
    case kLog: return worker.engine->step_log();
    case kApplier: return worker.engine->step_applier();
    default: return readers_->step();
  }
}

/// The oldest task of one of those who post.
bool CrashWorld::run_task(Worker& worker) {
  const uint64_t first = rng_.below(kProducers);
  for (uint64_t i = 0; i < kProducers; ++i) {
    auto& tasks = worker.tasks[(first + i) % kProducers];
    if (tasks.empty()) continue;
    auto task = std::move(tasks.front());
    tasks.pop_front();
    task();
    return true;
  }
  return false;
}

bool CrashWorld::all_answered() const {
  return writes_.empty() && reads_.empty() && waits_.empty();
}

bool CrashWorld::settle() {
  int nudged = 0;
  for (int round = 0; round < kRoundsMax && !broken_; ++round) {
    bool moved = false;
    for (Worker& worker : workers_) {
      for (uint8_t producer = 0; producer < kProducers; ++producer) {
        moved |= step(worker, static_cast<Producer>(producer));
      }
      while (run_task(worker)) moved = true;
    }
    if (moved && nudged < 5) nudged = 0;
    if (moved) continue;
    if (all_answered()) return true;
    if (++nudged > 5) return false;
    release_some(1);
    move_time(20);  // what is answered and had no room in the log is given to it again now and then
    for (Worker& worker : workers_) worker.engine->tick();
  }
  broken("the engines never come to rest");
  return false;
}

bool CrashWorld::databases_healthy() const {
  return std::ranges::none_of(shards_, [](const Shard& shard) {
    return shard.database_failed || (shard.open != nullptr && !shard.open->health().ok());
  });
}

/// As when a shard leaves and comes back, perhaps to another worker.
void CrashWorld::close_and_open(Shard& shard) {
  if (shard.open == nullptr || !settle()) return;
  bool closed = false;
  workers_[shard.worker].engine->close_shard(*std::exchange(shard.open, nullptr), [&closed] { closed = true; });
  if (!settle() || !closed) {  // its database failed, or it is the end
    shard.database_failed = true;
    return;
  }
  ++tally_.moves;
  shard.db.reset();
  open(shard);
}

/// Everything was answered: memory and databases show it.
void CrashWorld::check_at_rest() {
  for (Shard& shard : shards_) {
    if (shard.open == nullptr) continue;
    wait_applied(shard);
    for (uint64_t key = 0; key < keys_; ++key) read(shard, absl::StrCat("key", key));
  }
  if (!settle() || broken_ || !machine_.running() || !databases_healthy()) return;
  for (Shard& shard : shards_) {
    if (shard.open == nullptr || !shard.open->health().ok()) continue;
    Database::Rows rows;
    for (const auto& [key, row] : shard.twin.rows()) rows[key] = {row.version, row.value, row.expires_at, row.mark};
    if (rows != machine_.database(shard.id).rows())
      broken(absl::StrCat("shard ", shard.id.shard, " was not applied as answered"));
  }
  for (Worker& worker : workers_) {
    const WorkerEngine::Counters counters = worker.engine->counters();
    if (counters.unfinished != 0 || counters.unfinished_bytes != 0) broken("counters see unfinished writes at rest");
    if (counters.writes_refused != worker.refused) broken("writes_refused counts other refusals than were answered");
    if (counters.applier_queue != 0) broken("the applier's queue does not count down");
    if (counters.writes_repeated != worker.repeated) broken("writes_repeated counts other answers than were given");
  }
}

/// There is room again: so there must be for every shard that is whole.
void CrashWorld::check_writable() {
  for (size_t i = 0; i < kWorkers; ++i) machine_.log_disk(i).set_capacity(capacity_bytes_ * 4);
  for (Shard& shard : shards_) {
    if (shard.open == nullptr || !shard.open->health().ok()) continue;
    if (!workers_[shard.worker].engine->counters().log_health.ok()) continue;
    const uint64_t before = shard.twin.last_index();
    // The first one may be refused: the log's window may be full, which is when the engine begins to empty it.
    for (int attempt = 0; attempt < 4 && shard.twin.last_index() == before; ++attempt) {
      auto put = std::make_unique<Write>();
      put->mutations = {mutations::put("key0", as_byte_span("room"))};
      put->op.durability = Durability::kSync;
      move_time(20);
      for (Worker& worker : workers_) worker.engine->tick();
      if (!settle()) return;
      write(shard, std::move(put));
      if (!settle() || !machine_.running() || broken_) return;
    }
    if (shard.twin.last_index() == before && shard.open->health().ok() &&
        workers_[shard.worker].engine->counters().log_health.ok()) {
      return broken(absl::StrCat("shard ", shard.id.shard, " takes no write although there is room: ", last_why_));
    }
  }
}

// --- A life ends

void CrashWorld::end_life() {
  if (machine_.running() && rng_.chance(0.5)) {
    const bool rests = settle();
    if (!rests && !broken_ && machine_.running() && databases_healthy()) broken("writes wait for what does not come");
    if (rests && !broken_) check_at_rest();
    if (rests && !broken_ && machine_.running() && databases_healthy()) check_writable();
    if (broken_) return;
  }
  if (machine_.running() && rng_.chance(0.6)) {
    machine_.end_now(rng_.chance(0.5) ? Machine::End::kKill : Machine::End::kPowerCut);
  }
  stop_engines();
  if (machine_.running()) {
    ++tally_.orderly;
    // What was answered as "memory" may have had no room in the log, and then needs the database.
    killed_ |= database_faults_.apply_error > 0 || database_faults_.flush_error > 0;
    // And what was written needs the sync of the log's end, of whose failure nobody is told.
    lost_cache_ |= log_faults_.write_error > 0 || log_faults_.sync_error > 0;
  } else {
    ++(machine_.last_end() == Machine::End::kKill ? tally_.kills : tally_.power_cuts);
    lost_cache_ |= machine_.last_end() == Machine::End::kPowerCut;
    killed_ = true;
  }
  machine_.restart();
}

void CrashWorld::stop_engines() {
  release_some(1);
  for (Worker& worker : workers_) worker.engine->drain();
  if (!settle() && !broken_) broken("writes are not answered at the end");
  for (Worker& worker : workers_) {
    producer_ = kApplier;
    const WorkerEngine::Counters counters = worker.engine->counters();
    tally_.evictions += counters.memory.evicted_items;
    tally_.recycled += counters.log.segments_recycled;
    if (!counters.log_health.ok() && machine_.running()) ++tally_.log_failures;
    lost_cache_ |= !counters.log_health.ok();
    worker.engine->stop();
    while (run_task(worker)) continue;
  }
  if (broken_) return;
  for (Worker& worker : workers_) worker.engine.reset();
  for (Shard& shard : shards_) {
    if (shard.database_failed && machine_.running()) ++tally_.database_failures;
    shard.open = nullptr;
    shard.db.reset();
  }
  readers_.reset();
}

void CrashWorld::broken(const std::string& what) {
  if (!broken_) broken_ = what;
}

}  // namespace skua::kv::sim
