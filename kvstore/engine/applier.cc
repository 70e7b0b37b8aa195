#include "kvstore/engine/applier.h"

#include <pthread.h>

#include <algorithm>
#include <utility>

#include "kvstore/codec/limits.h"
#include "kvstore/engine/mutants.h"
#include "kvstore/engine/shard_life.h"
#include "rpc/base/check.h"

namespace skua::kv {
namespace {

/// Effects and completion of the largest batch.
constexpr size_t kRecordItemsMax = kBatchOpsMax + 1;

}  // namespace

Applier::Applier(const Options& options, LogWriter& log, OnRound on_round)
    : options_(options),
      log_(log),
      on_round_(std::move(on_round)),
      ring_(2 * std::max(options.queue_max, kRecordItemsMax)) {
  if (!options_.own_thread) return;
  thread_ = std::thread([this] {
    // For people looking at top(1); a failure changes nothing.
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
  // There is room as for closes (below). Nobody needs to wake for it.
  const bool added = ring_.try_push({&shard, Open{}, false});
  SKUA_CHECK(added, "more shards open at a time than the applier's queue has room for");
}

void Applier::add(AppliedShard& shard, const AppliedEffect& effect, bool continues) {
  push({&shard, effect, continues});
  unannounced_bytes_ += effect.key.size() + (effect.value ? effect.value->size() : 0);
  if (continues) return;
  if (unannounced_ >= options_.batch_min || unannounced_bytes_ >= options_.batch_bytes_min) hurry();
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
  unannounced_ = 0;
  unannounced_bytes_ = 0;
  wake_up_.signal();
}

void Applier::free_log() {
  free_log_.store(true, std::memory_order_release);
  unannounced_ = 0;
  unannounced_bytes_ = 0;
  wake_up_.signal();
}

void Applier::close(AppliedShard& shard) {
  // The ring has as much room again as has_room() lets in: far more than there can be shards to close.
  const bool added = ring_.try_push({&shard, Close{}, false});
  SKUA_CHECK(added, "more shards close at a time than the applier's queue has room for");
  unannounced_ = 0;
  wake_up_.signal();
}

Applier::Counters Applier::counters() const {
  return {effects_.load(std::memory_order_relaxed), effects_written_.load(std::memory_order_relaxed),
          batches_.load(std::memory_order_relaxed), flushes_.load(std::memory_order_relaxed)};
}

// --- The thread

void Applier::run() {
  for (;;) {
    // Read before the queue: what was added before stop() is seen by the round that follows.
    const bool last_round = stopping_.load(std::memory_order_acquire);
    if (step()) continue;
    if (last_round) break;
    wake_up_.wait();
  }
  for (AppliedShard* shard : attached_) {
    end_life(*shard);
    flush(*shard);
  }
}

bool Applier::step() {
  // Read before the queue: what was added before free_log() is flushed, too.
  const bool frees_log = free_log_.exchange(false, std::memory_order_acq_rel);
  if (!take_round() && !frees_log) return false;
  for (size_t i = 0; i < reports_.size(); ++i) apply(*reports_[i].shard);
  for (AppliedShard* shard : closing_) close_in_round(*shard);
  closing_.clear();
  if (!reports_.empty()) on_round_(std::exchange(reports_, {}));
  if (frees_log) {
    for (AppliedShard* shard : attached_) flush_outside_of_round(*shard);
  } else {
    flush_pinning();
  }
  return true;
}

/// Sorts what is queued, as much as a round carries, by shard.
bool Applier::take_round() {
  size_t count = 0;
  size_t bytes = 0;
  bool in_record = false;
  Item item;
  for (;;) {
    const bool full = count >= options_.batch_max || bytes >= options_.batch_bytes_max;
    if (full && (!in_record || engine_mutant(EngineMutant::kSplitBatch))) break;
    if (!ring_.try_pop(item)) {
      if (!in_record) break;
      std::this_thread::yield();  // the worker is adding the rest just now
      continue;
    }
    ++count;
    in_record = item.continues;
    bytes += take(item);
  }
  return count > 0;
}

/// Returns the bytes of an effect.
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

void Applier::apply(AppliedShard& shard) {
  Report& report = report_of(shard);
  if (!shard.batch.empty() && shard.failure.ok()) {
    // Backwards, so that the first one seen of a key is its last.
    for (size_t i = shard.batch.size(); i-- > 0;) {
      const size_t at = engine_mutant(EngineMutant::kCoalesceFirst) ? shard.batch.size() - 1 - i : i;
      if (last_of_key_.try_emplace(shard.batch[at].key, at).second) coalesced_.push_back(shard.batch[at]);
    }
    last_of_key_.clear();
    std::reverse(coalesced_.begin(), coalesced_.end());
    effects_.fetch_add(shard.batch.size(), std::memory_order_relaxed);
    effects_written_.fetch_add(coalesced_.size(), std::memory_order_relaxed);
    batches_.fetch_add(1, std::memory_order_relaxed);
    shard.completions.collect(shard.batch.back().version, coalesced_);
    shard.failure = shard.db->apply(coalesced_, shard.batch.back().version);
    coalesced_.clear();
  }
  shard.batch.clear();
  report.applied_index = shard.db->applied_index();
  report.failure = shard.failure;
}

/// Behind everything that the database was given, so that it is there only with all of that.
void Applier::end_life(AppliedShard& shard) {
  if (!shard.failure.ok() || shard.closed_row.empty() || shard.lacks_one.load(std::memory_order_acquire)) return;
  const std::string key = life_key();
  const uint64_t index = shard.db->applied_index();
  const AppliedEffect row{.key = key, .value = as_byte_span(shard.closed_row), .version = index};
  shard.failure = shard.db->apply({&row, 1}, index);
}

void Applier::flush(AppliedShard& shard) {
  if (!shard.failure.ok()) return;
  absl::StatusOr<uint64_t> durable = shard.db->flush();
  flushes_.fetch_add(1, std::memory_order_relaxed);
  if (!durable.ok()) {
    shard.failure = durable.status();
    return;
  }
  shard.flushed_index = *durable;
  log_.set_durable(shard.log_shard, *durable);
}

void Applier::close_in_round(AppliedShard& shard) {
  end_life(shard);
  if (!engine_mutant(EngineMutant::kCloseUnflushed)) flush(shard);
  Report& report = report_of(shard);
  report.failure = shard.failure;
  report.closed = true;
  std::erase(attached_, &shard);
  shard.attached = false;
}

/// Keeps the log's window small: flushes the shards that hold its oldest segment.
void Applier::flush_pinning() {
  if (log_.counters().segments_in_use <= options_.flush_segments) return;
  for (const AppliedIndex& pin : log_.pins()) {
    const auto pinning = std::find_if(attached_.begin(), attached_.end(),
                                      [&](const AppliedShard* shard) { return shard->log_shard == pin.shard; });
    if (pinning == attached_.end() || (*pinning)->db->applied_index() < pin.index) continue;
    if (engine_mutant(EngineMutant::kTruncateUnflushed)) {
      log_.set_durable(pin.shard, pin.index);
      continue;
    }
    flush_outside_of_round(**pinning);
  }
}

void Applier::flush_outside_of_round(AppliedShard& shard) {
  if (!shard.failure.ok() || shard.flushed_index == shard.db->applied_index()) return;
  flush(shard);
  if (shard.failure.ok()) return;
  on_round_({Report{.shard = &shard, .applied_index = shard.db->applied_index(), .failure = shard.failure}});
}

}  // namespace skua::kv
