// Shards, reads, and what comes back from the applier.
#include "kvstore/shard/worker_engine.h"

#include <algorithm>
#include <utility>

#include "absl/strings/str_cat.h"
#include "kvstore/shard/engine_limits.h"
#include "kvstore/shard/engine_shard.h"
#include "rpc/base/check.h"

namespace skua::kv {

// --- Beginning and end

absl::StatusOr<std::unique_ptr<WorkerEngine>> WorkerEngine::create(const Options& options, Events events,
                                                                   std::unique_ptr<Device> device,
                                                                   std::unique_ptr<Log> log, ReaderPool& readers) {
  auto memory = MemoryTier::create(options.memory);
  if (!memory.ok()) return memory.status();
  std::unique_ptr<WorkerEngine> engine(
      new WorkerEngine(options, std::move(events), std::move(device), *std::move(memory), readers));
  engine->start(std::move(log));
  return engine;
}

WorkerEngine::WorkerEngine(const Options& options, Events events, std::unique_ptr<Device> device,
                           std::unique_ptr<MemoryTier> memory, ReaderPool& readers)
    : options_(options),
      events_(std::move(events)),
      device_(std::move(device)),
      memory_(std::move(memory)),
      readers_(readers) {}

void WorkerEngine::start(std::unique_ptr<Log> log) {
  log_ = std::make_unique<LogWriter>(std::move(log), options_.log,
                                     [this](std::span<const LogSubmission> group) { group_done(group); });
  applier_ = std::make_unique<Applier>(options_.applier, *log_, [this](std::vector<Applier::Report> reports) {
    events_.post([this, reports = std::move(reports)]() mutable { round_done(reports); });
  });
}

WorkerEngine::~WorkerEngine() {
  SKUA_CHECK(unfinished_ == 0, "stop the engine when every write was answered");
  applier_.reset();  // uses the log
  log_.reset();
}

void WorkerEngine::stop() {
  applier_->stop();
  log_->stop();
}

void WorkerEngine::tick() {
  if (!stalled_.empty()) retry_stalled();
  if (!applier_->is_held_up() || !has_passed(applied_again_ms_, kApplyAgainMs)) return;
  applied_again_ms_ = steady_ms_;
  applier_->try_again();
}

absl::Status WorkerEngine::submit_to_log(LogSubmission&& submission) {
  log_waits_ = options_.log_wake == LogWriter::Wake::kLater;
  return log_->submit(std::move(submission), options_.log_wake);
}

void WorkerEngine::wake_log() {
  if (std::exchange(log_waits_, false)) log_->wake();
}

WorkerEngine::Counters WorkerEngine::counters() const {
  Counters now;
  now.memory = memory_->counters();
  now.log = log_->counters();
  now.applier = applier_->counters();
  now.writes_refused = writes_refused_;
  now.writes_repeated = writes_repeated_;
  now.fetches = fetch_count_;
  now.fetches_shared = fetches_shared_;
  now.unfinished = unfinished_;
  now.unfinished_bytes = unfinished_bytes_;
  now.applier_queue = applier_->queued();
  now.log_health = log_->health();
  return now;
}

// --- Shards

absl::Status WorkerEngine::load_life(std::span<const InternalRow> rows, EngineShard& shard) {
  auto life = read_life(rows);
  if (!life.ok()) return life.status();
  shard.life = *std::move(life);
  shard.life.closed = true;
  if (shard.life.is_known) shard.applied.closed_row = encode_life(shard.life);
  return absl::OkStatus();
}

EngineShard& WorkerEngine::open_shard(ShardDb& db, uint64_t epoch) {
  EngineShard& shard = *shards_.emplace_back(std::make_unique<EngineShard>());
  const ShardId id = db.id();
  shard.db = &db;
  shard.log_shard = uint64_t{id.table_id} << 32 | id.shard;
  shard.epoch = epoch;
  shard.last_index = db.applied_index();
  shard.written_index = shard.committed_index = shard.applied_index = shard.synced_index = shard.last_index;
  shard.number = memory_->add_shard(shard.last_index);
  shard.applied.db = &db;
  shard.applied.log_shard = shard.log_shard;
  shard.applied.context = &shard;
  shard.end_op.shard = &shard;
  const std::vector<InternalRow> rows = db.take_internal_rows();
  shard.completions.set_limits(options_.completions);
  shard.applied.completions.set_limits(options_.completions);
  shard.failure = load_completions(rows, shard.completions);
  if (const uint64_t newest_ms = shard.completions.newest_ms()) shard.clock.saw(newest_ms, steady_ms_);
  if (shard.failure.ok()) shard.failure = shard.applied.completions.load(rows);
  if (shard.failure.ok()) shard.failure = shard.rows.load(rows);
  if (shard.failure.ok()) shard.failure = load_life(rows, shard);
  applier_->open(shard.applied);
  return shard;
}

void WorkerEngine::close_shard(EngineShard& shard, absl::AnyInvocable<void()> closed) {
  SKUA_CHECK(shard.front == nullptr && shard.parked.empty() && shard.barrier == nullptr && shard.reading.empty() &&
                 shard.waits.empty(),
             "close a shard when nothing of it is unfinished");
  shard.on_closed = std::move(closed);
  shard.closing_since_ms = std::max<uint64_t>(now_ms_, 1);
  if (shard.replica != nullptr) {
    shard.replica->closed = true;
    keep_tail(shard, UINT64_MAX);
  }
  go_on_closing(shard);
}

void WorkerEngine::go_on_closing(EngineShard& shard) {
  if (shard.replica != nullptr && !hand_on_tail(shard)) return closing_.push_back(&shard);
  applier_->close(shard.applied);
}

/// The applier has let go of the shard: ends the shard's part in the log, or keeps the shard as unclosed.
void WorkerEngine::finish_close(EngineShard& shard, const absl::Status& flushed) {
  const bool whole = flushed.ok() && shard.failure.ok() && !shard.has_apply_gap && !shard.in_doubt;
  // Only recovery can bring the database what it lacks. And an index that is in doubt in this log must not be given out
  // again in another log. So nobody may open the shard before a restart.
  if (!whole) {
    shard.on_closed = nullptr;
    absl::Status why = flushed.ok() ? shard.failure : flushed;
    if (why.ok()) why = log_failure_;
    if (why.ok()) why = absl::DataLossError("a write that was answered is not in the database");
    unclosed_.push_back({shard.db->id(), shard.closing_since_ms, absl::OkStatus(), std::move(why)});
  }
  shard.leaving = true;
  if (whole && log_failure_.ok() && shard.started) {
    LogSubmission end;
    end.header = {.shard = shard.log_shard, .kind = RecordKind::kShardEnd};
    end.context = &shard.end_op;
    // If the log refuses the end, it keeps a shard that needs nothing of the log. Recovery finds that out.
    shard.ending = submit_to_log(std::move(end)).ok();
  }
  if (!shard.ending && shard.in_log == 0) forget(shard);
}

void WorkerEngine::forget(EngineShard& shard) {
  auto closed = std::move(shard.on_closed);
  memory_->drop_shard(shard.number);
  std::erase(touched_, &shard);  // the log may report a start that no write followed
  std::erase(stalled_, &shard);
  std::erase(unsynced_, &shard);
  for (RelaxedRecord* record : shard.unlogged) release_relaxed(*record);
  if (shard.replica != nullptr) forget_entries(shard);
  std::erase_if(shards_, [&](const auto& held) { return held.get() == &shard; });
  if (closed) closed();
}

std::vector<ClosingShard> WorkerEngine::closing_shards() const {
  std::vector<ClosingShard> closing = unclosed_;
  for (const auto& shard : shards_) {
    if (shard->on_closed)
      closing.push_back({shard->db->id(), shard->closing_since_ms, shard->held_up, absl::OkStatus()});
  }
  return closing;
}

std::vector<TroubledShard> WorkerEngine::troubled_shards() const {
  std::vector<TroubledShard> troubled;
  for (const auto& shard : shards_) {
    if (shard->on_closed || (shard->held_up.ok() && shard->failure.ok())) continue;
    troubled.push_back({shard->db->id(), shard->held_up, shard->failure});
  }
  return troubled;
}

const absl::Status& WorkerEngine::health(const EngineShard& shard) {
  return shard.failure;
}

ShardDb& WorkerEngine::db(const EngineShard& shard) {
  return *shard.db;
}

uint64_t WorkerEngine::committed_index(const EngineShard& shard) {
  return shard.committed_index;
}

bool WorkerEngine::has_state(const EngineShard& shard, uint64_t index) {
  return index <= shard.committed_index && !shard.life.is_lost(index);
}

// --- Reads

MemoryTier::Lookup WorkerEngine::get(const EngineShard& shard, std::string_view key) {
  return memory_->get(ItemKey(shard.number, key), now_ms_);
}

void WorkerEngine::get_batch(std::span<const ItemKey> keys, std::span<MemoryTier::Lookup> out) {
  memory_->get_batch(keys, now_ms_, out);
}

ItemKey WorkerEngine::item_key(const EngineShard& shard, std::string_view key) {
  return {shard.number, key};
}

void WorkerEngine::fill(const EngineShard& shard, std::string_view key, const PinnedValue& value,
                        MemoryTier::Ticket ticket) {
  static_cast<void>(memory_->fill_from_disk(ItemKey(shard.number, key), value.bytes(),
                                            {.index = value.version(), .expiry = value.expires_at(), .dirty = false},
                                            ticket));
}

EngineFetch& WorkerEngine::acquire_fetch(EngineShard& shard, std::string_view key, MemoryTier::Ticket ticket) {
  if (free_fetch_ == nullptr) free_fetch_ = fetches_.emplace_back(std::make_unique<EngineFetch>(*this)).get();
  EngineFetch& fetch = *std::exchange(free_fetch_, free_fetch_->next_free);
  fetch.shard = &shard;
  fetch.key = key;
  fetch.ticket = ticket;
  ++fetch_count_;
  return fetch;
}

void WorkerEngine::release_fetch(EngineFetch& fetch) {
  fetch.shard = nullptr;
  fetch.first_read = fetch.last_read = nullptr;
  fetch.first_write = fetch.last_write = nullptr;
  fetch.for_batch = nullptr;
  fetch.status = absl::OkStatus();
  fetch.value.reset();
  fetch.is_copy = false;
  fetch.next_free = std::exchange(free_fetch_, &fetch);
}

void WorkerEngine::fetch(EngineShard& shard, FetchOp& op, MemoryTier::Ticket ticket) {
  op.behind = nullptr;
  op.status = absl::OkStatus();
  const auto under_way = shard.reading.find(op.key);
  if (under_way != shard.reading.end() && under_way->second->ticket == ticket) {
    EngineFetch& shared = *under_way->second;
    shared.last_read = shared.last_read->behind = &op;
    ++fetches_shared_;
    return;
  }
  EngineFetch& fetch = acquire_fetch(shard, op.key, ticket);
  fetch.first_read = fetch.last_read = &op;
  if (absl::Status submitted = readers_.submit(fetch); !submitted.ok()) {
    release_fetch(fetch);
    op.status = std::move(submitted);
    return events_.fetch_done(op);
  }
  if (under_way != shard.reading.end()) shard.reading.erase(under_way);  // its key is a view into the other fetch
  shard.reading.emplace(fetch.key, &fetch);
}

void EngineFetch::run() {
  status = shard->db->get(key, value);
  if (status.ok() && value.bytes().size() > kCopiedByReaderBytes) {
    value = value.copied();
    is_copy = true;
  }
  engine_.events_.post([this] { engine_.fetch_done(*this); });
}

void WorkerEngine::fetch_done(EngineFetch& fetch) {
  EngineShard& shard = *fetch.shard;
  const bool filled =
      fetch.status.ok() &&
      memory_->fill_from_disk(ItemKey(shard.number, fetch.key), fetch.value.bytes(),
                              {.index = fetch.value.version(), .expiry = fetch.value.expires_at(), .dirty = false},
                              fetch.ticket);
  if (fetch.for_batch != nullptr) {
    batch_fetched(shard, fetch);
  } else if (fetch.first_write != nullptr) {
    unpark(shard, fetch);
  } else {
    const auto under_way = shard.reading.find(fetch.key);
    if (under_way != shard.reading.end() && under_way->second == &fetch) shard.reading.erase(under_way);
    answer_reads(fetch, filled);
  }
  release_fetch(fetch);
}

/// A value that memory took is sent from memory. A value that memory did not take goes to the first read only, as a
/// copy, because the receiver may keep the value for longer than the shard is open. The other reads try again.
void WorkerEngine::answer_reads(EngineFetch& fetch, bool filled) {
  EngineShard& shard = *fetch.shard;
  for (FetchOp *op = fetch.first_read, *next = nullptr; op != nullptr; op = next) {
    next = op->behind;
    op->expires_at = fetch.value.expires_at();
    if (!fetch.status.ok()) {
      op->status = fetch.status;
    } else if (is_expired(fetch.value.expires_at(), now_ms_)) {
      op->status = absl::NotFoundError("no such key");
    } else if (!filled && op == fetch.first_read) {
      op->value = fetch.is_copy ? std::move(fetch.value) : fetch.value.copied();
    } else {
      MemoryTier::Lookup found = get(shard, op->key);
      if (found.found == MemoryTier::Found::kMiss) {
        this->fetch(shard, *op, found.ticket);
        continue;
      }
      if (found.found == MemoryTier::Found::kAbsent) op->status = absl::NotFoundError("no such key");
      op->expires_at = found.expiry;
      op->value = std::move(found.value);
    }
    events_.fetch_done(*op);
  }
}

bool WorkerEngine::is_applied(EngineShard& shard, AppliedWait& wait) {
  wait.status = absl::OkStatus();
  if (shard.applied_index >= shard.committed_index) return true;
  wait.index = shard.committed_index;
  if (!shard.failure.ok() || !shard.held_up.ok()) {
    wait.status = shard.failure.ok() ? shard.held_up : shard.failure;
    events_.applied(wait);
    return false;
  }
  shard.waits.push_back(&wait);
  applier_->hurry();
  return false;
}

// --- What the applier reports

void WorkerEngine::round_done(std::vector<Applier::Report>& reports) {
  for (const Applier::Report& report : reports) {
    applier_->taken(report.effects);
    auto& shard = *static_cast<EngineShard*>(report.shard->context);
    applied(shard, report);
    if (report.closed) finish_close(shard, report.failure);
  }
  retry_stalled();
  for (EngineShard* shard : std::exchange(closing_, {})) go_on_closing(*shard);
}

void WorkerEngine::applied(EngineShard& shard, const Applier::Report& report) {
  if (report.applied_index > shard.applied_index) {
    shard.applied_index = report.applied_index;
    memory_->mark_clean(shard.number, report.applied_index);
    if (shard.replica != nullptr) {
      auto& rows = shard.replica->row_bytes;
      while (!rows.empty() && rows.front().index <= report.applied_index) rows.pop_front();
    }
  }
  if (report.kept) tail_kept(shard);
  if (report.pinned_index > shard.committed_index) keep_pinning(shard, report.pinned_index);
  if (!report.failure.ok() && shard.failure.ok()) {
    shard.failure = absl::Status(report.failure.code(),
                                 absl::StrCat("the shard's database failed, and the shard refuses writes until it is "
                                              "opened again: ",
                                              report.failure.message()));
  }
  shard.held_up = report.held_up;
  const absl::Status& in_vain = shard.failure.ok() ? shard.held_up : shard.failure;
  for (size_t i = 0; i < shard.waits.size();) {
    AppliedWait& wait = *shard.waits[i];
    if (wait.index > shard.applied_index && in_vain.ok()) {
      ++i;
      continue;
    }
    if (wait.index > shard.applied_index) wait.status = in_vain;
    shard.waits.erase(shard.waits.begin() + static_cast<std::ptrdiff_t>(i));
    events_.applied(wait);
  }
}

}  // namespace skua::kv
