#include "kvstore/storage/applier.h"

#include <pthread.h>

#include <algorithm>
#include <numeric>
#include <utility>

#include "kvstore/codec/size_limits.h"
#include "kvstore/storage/shard_life.h"
#include "kvstore/types/engine_mutants.h"
#include "rpc/base/check.h"

namespace skua::kv {
namespace {

/// Items of the largest record: the effects and the completion of a batch.
constexpr size_t kRecordItemsMax = kBatchOpsMax + 1;

/// True if the database did not change, and the operation may be tried again.
bool is_passing(const absl::Status& status) {
  return absl::IsResourceExhausted(status) || absl::IsUnavailable(status);
}

}  // namespace

Applier::Applier(const Options& options, LogWriter& log, OnRound on_round)
    : options_(options),
      log_(log),
      on_round_(std::move(on_round)),
      ring_(2 * std::max(options.queue_max, kRecordItemsMax)),
      wakes_at_(options.batch_min) {
  if (!options_.own_thread) return;
  thread_ = std::thread([this] {
    // The name is for people who look at top(1). If it cannot be set, nothing else changes.
    static_cast<void>(pthread_setname_np(pthread_self(), "applier"));
    run();
  });
}

Applier::~Applier() {
  stop();
}

void Applier::stop() {
  if (stopping_.exchange(true, std::memory_order_acq_rel)) return;
  if (!options_.own_thread) return run();
  wake_up_.signal();
  thread_.join();
}

// --- The worker's side

void Applier::open(AppliedShard& shard) {
  // There is room, for the reason in close(). The thread need not wake up for this.
  const bool added = ring_.try_push({&shard, Open{}, false});
  SKUA_CHECK(added, "more shards open at a time than the applier's queue has room for");
}

void Applier::add(AppliedShard& shard, const AppliedEffect& effect, bool continues) {
  push({&shard, effect, continues});
  unannounced_bytes_ += effect.key.size() + (effect.value ? effect.value->size() : 0);
  if (continues) return;
  if (unannounced_ < wakes_at_ && unannounced_bytes_ < options_.batch_bytes_min) return;
  wakes_at_ = std::clamp(2 * wakes_at_, options_.batch_min, std::max(options_.batch_min, options_.batch_most));
  announce();
}

void Applier::add(AppliedShard& shard, AppliedCompletion completion) {
  push({&shard, std::move(completion), true});
}

void Applier::push(Item item) {
  const bool added = ring_.try_push(std::move(item));
  SKUA_CHECK(added, "add() comes after has_room()");
  ++queued_;
  ++unannounced_;
}

void Applier::hurry() {
  if (unannounced_ == 0) return;
  wakes_at_ = options_.batch_min;
  announce();
}

/// Wakes the thread: it takes all that was added.
void Applier::announce() {
  unannounced_ = 0;
  unannounced_bytes_ = 0;
  wake_up_.signal();
}

void Applier::free_log() {
  free_log_.store(true, std::memory_order_release);
  announce();
}

void Applier::close(AppliedShard& shard) {
  // The ring has twice the room that has_room() gives out. The second half is far more than there can be shards to
  // close.
  const bool added = ring_.try_push({&shard, Close{}, false});
  SKUA_CHECK(added, "more shards close at a time than the applier's queue has room for");
  unannounced_ = 0;
  wake_up_.signal();
}

void Applier::keep(AppliedShard& shard) {
  // There is room, for the reason in close(): each shard has one keep() at a time.
  const bool added = ring_.try_push({&shard, Keep{}, false});
  SKUA_CHECK(added, "more shards keep rows at a time than the applier's queue has room for");
  unannounced_ = 0;
  wake_up_.signal();
}

void Applier::try_again() {
  try_again_.store(true, std::memory_order_release);
  wake_up_.signal();
}

Applier::Counters Applier::counters() const {
  return {effects_.load(std::memory_order_relaxed), effects_written_.load(std::memory_order_relaxed),
          batches_.load(std::memory_order_relaxed), flushes_.load(std::memory_order_relaxed)};
}

// --- The thread

void Applier::run() {
  for (;;) {
    // Read before the queue, so that the round that follows sees what was added before stop().
    const bool last_round = stopping_.load(std::memory_order_acquire);
    if (step()) continue;
    if (last_round) break;
    wake_up_.wait();
  }
  for (AppliedShard* shard : attached_) {
    if (!shard->held_up.ok()) write_batch(*shard);
    // What the database does not have is in the log.
    if (shard->held_up.ok() && end_life(*shard).ok()) static_cast<void>(flush(*shard));
  }
}

bool Applier::step() {
  // Read before the queue, so that what was added before free_log() is flushed, too.
  const bool frees_log = free_log_.exchange(false, std::memory_order_acq_rel);
  const bool tries_again = try_again_.exchange(false, std::memory_order_acq_rel);
  if (!take_round() && !frees_log && !tries_again) return false;
  for (size_t i = 0; i < reports_.size(); ++i) apply(*reports_[i].shard);
  for (AppliedShard* shard : std::exchange(keeping_, {})) keep_in_round(*shard);
  for (AppliedShard* shard : std::exchange(closing_, {})) close_in_round(*shard);
  if (tries_again) try_held_up();
  if (!reports_.empty()) on_round_(std::exchange(reports_, {}));
  if (frees_log) {
    for (AppliedShard* shard : attached_) flush_outside_of_round(*shard);
    tell_pinning();
  } else {
    flush_pinning();
  }
  return true;
}

/// Takes queued items, as many as a round carries, and sorts them by shard. False: the queue was empty.
bool Applier::take_round() {
  size_t count = 0;
  size_t bytes = 0;
  bool in_record = false;
  Item item;
  for (;;) {
    const bool full = count >= options_.batch_max || bytes >= options_.batch_bytes_max;
    if (full && (!in_record || mutant(EngineMutant::kSplitBatch))) break;
    if (!ring_.try_pop(item)) {
      if (!in_record) break;
      std::this_thread::yield();  // the worker is just adding the rest of the record
      continue;
    }
    ++count;
    in_record = item.continues;
    bytes += take(item);
  }
  return count > 0;
}

/// Hands one item to its shard. Returns the bytes of an effect, 0 for other items.
size_t Applier::take(Item& item) {
  AppliedShard& shard = *item.shard;
  if (!shard.attached) {
    shard.attached = true;
    attached_.push_back(&shard);
  }
  if (std::holds_alternative<Open>(item.what)) return 0;
  Report& report = report_of(shard);
  if (std::holds_alternative<Close>(item.what)) {
    closing_.push_back(&shard);
    return 0;
  }
  if (std::holds_alternative<Keep>(item.what)) {
    keeping_.push_back(&shard);
    return 0;
  }
  ++report.effects;
  if (auto* const completion = std::get_if<AppliedCompletion>(&item.what)) {
    shard.completion = std::move(*completion);
    return 0;
  }
  const AppliedEffect& effect = std::get<AppliedEffect>(item.what);
  shard.batch.push_back(effect);
  if (shard.completion.id.client_id != 0) {
    const auto& results = shard.completion.batch_results;
    const ByteSpan batch_results = results == nullptr ? ByteSpan{} : as_byte_span(*results);
    shard.completions.record({shard.completion.id, shard.completion.value, batch_results}, effect.version,
                             shard.completion.time_ms);
    shard.completion = {};
  }
  return effect.key.size() + (effect.value ? effect.value->size() : 0);
}

Applier::Report& Applier::report_of(AppliedShard& shard) {
  for (Report& report : reports_) {
    if (report.shard == &shard) return report;
  }
  return reports_.emplace_back(Report{.shard = &shard, .applied_index = shard.db->applied_index()});
}

void Applier::tell(AppliedShard& shard) {
  Report& report = report_of(shard);
  report.applied_index = shard.db->applied_index();
  report.held_up = shard.held_up;
  report.failure = shard.failure;
}

void Applier::apply(AppliedShard& shard) {
  // A batch that waits for room is tried now and then, not in each round, because it grows with each round.
  if (shard.held_up.ok()) write_batch(shard);
  tell(shard);
}

/// Takes the last effect of each key, in the order of the keys: a memtable's skip list looks for a key from the place
/// of the key before (rocksdb_engine.cc).
void Applier::coalesce(const std::vector<AppliedEffect>& batch) {
  by_key_.resize(batch.size());
  std::iota(by_key_.begin(), by_key_.end(), 0u);
  std::sort(by_key_.begin(), by_key_.end(), [&batch](uint32_t a, uint32_t b) {
    const auto order = batch[a].key <=> batch[b].key;
    return order == 0 ? a < b : order < 0;
  });
  for (size_t first = 0; first < by_key_.size();) {
    size_t last = first;
    while (last + 1 < by_key_.size() && batch[by_key_[last + 1]].key == batch[by_key_[first]].key) ++last;
    coalesced_.push_back(batch[by_key_[mutant(EngineMutant::kCoalesceFirst) ? first : last]]);
    first = last + 1;
  }
}

void Applier::write_batch(AppliedShard& shard) {
  shard.held_up = absl::OkStatus();
  if (!shard.batch.empty() && shard.failure.ok()) {
    coalesce(shard.batch);
    const size_t coalesced = coalesced_.size();
    shard.completions.collect(shard.batch.back().version, coalesced_);
    absl::Status applied = shard.db->apply(coalesced_, shard.batch.back().version);
    coalesced_.clear();
    if (is_passing(applied)) {
      shard.held_up = std::move(applied);
      is_held_up_.store(true, std::memory_order_relaxed);
      return;
    }
    effects_.fetch_add(shard.batch.size(), std::memory_order_relaxed);
    effects_written_.fetch_add(coalesced, std::memory_order_relaxed);
    batches_.fetch_add(1, std::memory_order_relaxed);
    shard.completions.written();
    shard.failure = std::move(applied);
  }
  shard.batch.clear();
}

/// Writes closed_row as the last row, so that the database has it only together with everything before.
absl::Status Applier::end_life(AppliedShard& shard) {
  if (!shard.failure.ok() || shard.closed_row.empty() || shard.lacks_one.load(std::memory_order_acquire)) {
    return absl::OkStatus();
  }
  const std::string key = life_key();
  const uint64_t index = shard.db->applied_index();
  const AppliedEffect row{.key = key, .value = as_byte_span(shard.closed_row), .version = index};
  absl::Status ended = shard.db->apply({&row, 1}, index);
  if (!is_passing(ended)) shard.failure = ended;
  return ended;
}

absl::Status Applier::flush(AppliedShard& shard) {
  if (!shard.failure.ok()) return shard.failure;
  absl::StatusOr<uint64_t> durable = shard.db->flush();
  flushes_.fetch_add(1, std::memory_order_relaxed);
  if (!durable.ok()) {
    shard.no_room = is_passing(durable.status());
    if (!shard.no_room) shard.failure = durable.status();
    if (shard.no_room) is_held_up_.store(true, std::memory_order_relaxed);
    return durable.status();
  }
  shard.flushed_index = *durable;
  log_.set_durable(shard.log_shard, *durable);
  return absl::OkStatus();
}

void Applier::keep_in_round(AppliedShard& shard) {
  shard.keeping = true;
  const absl::Status flushed = shard.held_up.ok() ? flush(shard) : shard.held_up;
  if (is_passing(flushed)) return;  // try_held_up() tries again
  shard.keeping = false;
  Report& report = report_of(shard);
  report.failure = shard.failure;
  report.kept = flushed.ok();
}

void Applier::close_in_round(AppliedShard& shard) {
  shard.closing = true;
  absl::Status flushed = shard.held_up.ok() ? end_life(shard) : shard.held_up;
  if (flushed.ok() && !mutant(EngineMutant::kCloseUnflushed)) flushed = flush(shard);
  Report& report = report_of(shard);
  if (is_passing(flushed)) {
    report.held_up = std::move(flushed);
    return is_held_up_.store(true, std::memory_order_relaxed);
  }
  report.failure = shard.failure;
  report.closed = true;
  std::erase(attached_, &shard);
  shard.attached = shard.closing = shard.keeping = false;
}

/// Goes on with the shards whose disk was full.
void Applier::try_held_up() {
  is_held_up_.store(false, std::memory_order_relaxed);
  for (AppliedShard* shard : std::vector(attached_)) {
    shard->no_room = false;  // the next flush that is needed tries again
    if (!shard->held_up.ok()) {
      write_batch(*shard);
      tell(*shard);
    }
    if (shard->keeping) keep_in_round(*shard);
    if (shard->closing) close_in_round(*shard);
  }
}

/// Keeps the log's window small: flushes the shards that pin its oldest segment.
void Applier::flush_pinning() {
  if (log_.counters().segments_in_use <= options_.flush_segments) return;
  for (const AppliedIndex& pin : log_.pins()) {
    const auto pinning = std::find_if(attached_.begin(), attached_.end(),
                                      [&](const AppliedShard* shard) { return shard->log_shard == pin.shard; });
    if (pinning == attached_.end() || (*pinning)->db->applied_index() < pin.index) continue;
    if (mutant(EngineMutant::kTruncateUnflushed)) {
      log_.set_durable(pin.shard, pin.index);
      continue;
    }
    flush_outside_of_round(**pinning);
  }
  tell_pinning();
}

/// Reports records that pin the oldest segment and that the database does not have. A flush does not help against them.
void Applier::tell_pinning() {
  std::vector<Report> reports;
  for (const AppliedIndex& pin : log_.pins()) {
    for (AppliedShard* shard : attached_) {
      const uint64_t applied = shard->db->applied_index();
      if (shard->log_shard != pin.shard || applied >= pin.index || shard->keeping || !shard->failure.ok()) continue;
      reports.push_back(
          {.shard = shard, .applied_index = applied, .held_up = shard->held_up, .pinned_index = pin.index});
    }
  }
  if (!reports.empty()) on_round_(std::move(reports));
}

void Applier::flush_outside_of_round(AppliedShard& shard) {
  if (!shard.failure.ok() || shard.no_room || shard.flushed_index == shard.db->applied_index()) return;
  static_cast<void>(flush(shard));
  if (shard.failure.ok()) return;
  on_round_({Report{.shard = &shard, .applied_index = shard.db->applied_index(), .failure = shard.failure}});
}

}  // namespace skua::kv
