#include "kvstore/storage/applier.h"

#include <pthread.h>

#include <algorithm>
#include <utility>

#include "kvstore/codec/size_limits.h"
#include "kvstore/storage/shard_life.h"
#include "kvstore/storage/sort_effects.h"
#include "kvstore/types/mutants.h"
#include "rpc/base/check.h"

namespace skua::kv {
namespace {

/// The memory tier that the defaults of Applier::Options are made for.
constexpr size_t kFullTierBytes = size_t{1} << 30;
constexpr size_t kLeastEffects = 16;
constexpr size_t kLeastBytes = 4096;
/// Items of the largest record: the effects and the completion of a batch.
constexpr size_t kRecordItemsMax = kBatchOpsMax + 1;

/// True if the database did not change, and the operation may be tried again.
bool is_passing(const absl::Status& status) {
  return absl::IsResourceExhausted(status) || absl::IsUnavailable(status);
}

}  // namespace

void Applier::Options::fit(size_t tier_bytes) {
  const size_t tier_kib = std::min(tier_bytes, kFullTierBytes) / 1024;
  const auto shrink = [tier_kib](size_t& limit, size_t whole, size_t least) {
    limit = std::min(limit, std::max(least, whole * tier_kib / (kFullTierBytes / 1024)));
  };
  const Options whole;
  shrink(batch_effects, whole.batch_effects, kLeastEffects);
  shrink(batch_bytes, whole.batch_bytes, kLeastBytes);
  shrink(age_effects, whole.age_effects, kLeastEffects);
  shrink(age_bytes, whole.age_bytes, kLeastBytes);
}

Applier::Applier(const Options& options, LogWriter& log, OnRound on_round)
    : options_(options),
      log_(log),
      ring_(2 * std::max(options.queue_max, kRecordItemsMax)),
      reports_(std::move(on_round)) {
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

/// The item is made where it lies in the queue.
template <typename What>
void Applier::push(AppliedShard& shard, What&& what, bool continues) {
  const bool added = ring_.try_fill([&](Item& item) {
    item.shard = &shard;
    item.what = std::forward<What>(what);
    item.continues = continues;
  });
  SKUA_CHECK(added, "add() comes after has_room()");
  ++pushed_count_;
  ++queued_;
  ++unannounced_;
}

/// The ring has twice the room that has_room() gives out. The second half is for orders: it is far more than there can
/// be shards that open, close or keep at a time, and each of them has one order at a time.
void Applier::push_order(AppliedShard& shard, Order order) {
  const bool added = ring_.try_push({&shard, order, false});
  SKUA_CHECK(added, "more orders for shards at a time than the applier's queue has room for");
  ++pushed_count_;
}

void Applier::open(AppliedShard& shard) {
  push_order(shard, Order::kOpen);  // the thread need not wake up for this
}

void Applier::add(AppliedShard& shard, const AppliedEffect& effect, bool continues) {
  push(shard, effect, continues);
  unannounced_bytes_ += effect.key.size() + (effect.value ? effect.value->size() : 0);
  if (continues) return;
  if (unannounced_ >= options_.wake_effects || unannounced_bytes_ >= options_.wake_bytes) announce();
}

void Applier::add(AppliedShard& shard, AppliedCompletion completion) {
  push(shard, std::move(completion), true);
}

void Applier::take_now() {
  if (unannounced_ > 0) announce();
}

void Applier::hurry(AppliedShard& shard) {
  make_due(shard.due_count);
}

void Applier::hurry_all() {
  make_due(all_due_count_);
}

/// The effects among all items that were added are due now.
void Applier::make_due(std::atomic<uint64_t>& due_count) {
  if (due_count.load(std::memory_order_relaxed) == pushed_count_) return;
  due_count.store(pushed_count_, std::memory_order_release);
  hurries_.store(true, std::memory_order_release);
  announce();
}

/// Wakes the thread: it takes all that was added.
void Applier::announce() {
  unannounced_ = 0;
  unannounced_bytes_ = 0;
  due_count_.store(pushed_count_, std::memory_order_release);
  wake_up_.signal();
}

void Applier::free_log() {
  free_log_.store(true, std::memory_order_release);
  announce();
}

void Applier::close(AppliedShard& shard) {
  push_order(shard, Order::kClose);
  announce();
}

void Applier::keep(AppliedShard& shard) {
  push_order(shard, Order::kKeep);
  announce();
}

void Applier::try_again() {
  try_again_.store(true, std::memory_order_release);
  wake_up_.signal();
}

void Applier::set_short_of_room(bool is_short) {
  is_short_of_room_.store(is_short, std::memory_order_relaxed);
  makes_room_.store(true, std::memory_order_release);
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
    if ((last_round || is_due()) && step()) continue;
    if (last_round) break;
    wake_up_.wait();
  }
  for (AppliedShard* shard : attached_) {
    write_batch(*shard);
    // What the database does not have is in the log.
    if (shard->held_up.ok() && end_life(*shard).ok()) static_cast<void>(flush(*shard));
  }
}

/// Something is to be done now.
bool Applier::is_due() const {
  return taken_count_ < due_count_.load(std::memory_order_acquire) || hurries_.load(std::memory_order_relaxed) ||
         free_log_.load(std::memory_order_relaxed) || try_again_.load(std::memory_order_relaxed) ||
         makes_room_.load(std::memory_order_relaxed);
}

bool Applier::step() {
  // Read before the queue, so that what was added before these calls is in it.
  const bool frees_log = free_log_.exchange(false, std::memory_order_acq_rel);
  const bool tries_again = try_again_.exchange(false, std::memory_order_acq_rel);
  const bool makes_room = makes_room_.exchange(false, std::memory_order_acq_rel);
  hurries_.exchange(false, std::memory_order_acq_rel);
  const bool took = take_round();
  reports_.give();
  const bool applied = apply_due();
  if (!took && !applied && !frees_log && !tries_again && !makes_room) return false;
  for (AppliedShard* shard : std::exchange(keeping_, {})) keep_in_round(*shard);
  for (AppliedShard* shard : std::exchange(closing_, {})) close_in_round(*shard);
  if (tries_again) try_held_up();
  if (makes_room) make_room();
  reports_.give();
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
    const bool full = count >= options_.round_effects_max || bytes >= options_.round_bytes_max;
    if (full && (!in_record || mutant(Mutant::kSplitBatch))) break;
    if (!ring_.try_pop(item)) {
      if (!in_record) break;
      std::this_thread::yield();  // the worker is just adding the rest of the record
      continue;
    }
    ++count;
    ++taken_count_;
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
  const auto* const order = std::get_if<Order>(&item.what);
  if (order != nullptr && *order == Order::kOpen) return 0;
  Report& report = reports_.of(shard);
  if (order != nullptr) {
    (*order == Order::kClose ? closing_ : keeping_).push_back(&shard);
    return 0;
  }
  ++report.effects;
  if (auto* const completion = std::get_if<AppliedCompletion>(&item.what)) {
    shard.completion = std::move(*completion);
    return 0;
  }
  const AppliedEffect& effect = std::get<AppliedEffect>(item.what);
  if (shard.batch.empty()) {
    if (shard.batch.capacity() == 0) shard.batch = batch_memory_.take(shard.last_batch_effects);
    shard.first_count = taken_count_;
    shard.first_bytes = taken_bytes_;
  }
  shard.batch.push_back(effect);
  if (shard.completion.id.client_id != 0) {
    const auto& results = shard.completion.batch_results;
    const ByteSpan batch_results = results == nullptr ? ByteSpan{} : as_byte_span(*results);
    shard.completions.record({shard.completion.id, shard.completion.value, batch_results}, effect.version,
                             shard.completion.time_ms);
    shard.completion = {};
  }
  const size_t bytes = effect.key.size() + (effect.value ? effect.value->size() : 0);
  shard.batch_bytes += bytes;
  taken_bytes_ += bytes;
  return bytes;
}

/// Whether the shard's batch is to be written now, or its state is to be told.
bool Applier::is_due(const AppliedShard& shard) const {
  const uint64_t due = shard.due_count.load(std::memory_order_acquire);
  if (shard.written_count < due && taken_count_ >= due) return true;
  // What the disk has no room for is tried now and then (try_again()).
  if (shard.batch.empty() || !shard.held_up.ok()) return false;
  return shard.batch.size() >= options_.batch_effects || shard.batch_bytes >= options_.batch_bytes ||
         taken_count_ - shard.first_count >= options_.age_effects ||
         taken_bytes_ - shard.first_bytes >= options_.age_bytes;
}

/// Writes the batches that are due. False: none is.
bool Applier::apply_due() {
  const uint64_t all_due = all_due_count_.load(std::memory_order_acquire);
  const bool is_all = written_count_ < all_due && taken_count_ >= all_due;
  bool any = is_all;
  // By index: what is taken meanwhile may bring further shards.
  for (size_t i = 0; i < attached_.size(); ++i) {
    AppliedShard& shard = *attached_[i];
    if (!is_all && !is_due(shard)) continue;
    apply(shard);
    any = true;
    // Many shards may be due together, and the worker waits for room: it hears of what was taken after each of them.
    take_round();
    reports_.give();
  }
  if (is_all) written_count_ = all_due;
  for (const auto* orders : {&keeping_, &closing_}) {
    for (AppliedShard* shard : *orders) apply(*shard);
  }
  return any;
}

void Applier::apply(AppliedShard& shard) {
  shard.written_count = taken_count_;
  // A batch that waits for room is tried now and then, not in each round, because it grows with each round.
  if (shard.held_up.ok()) write_batch(shard);
  reports_.tell(shard);
}

void Applier::write_batch(AppliedShard& shard) {
  shard.held_up = absl::OkStatus();
  if (!shard.batch.empty() && shard.failure.ok()) {
    sort_last_of_key(shard.batch, coalesced_);
    const size_t coalesced = coalesced_.size();
    shard.completions.collect(shard.batch.back().version, coalesced_);
    absl::Status applied = shard.db->apply(coalesced_, shard.batch.back().version);
    if (BatchMemory::is_wasteful(coalesced_)) std::vector<AppliedEffect>().swap(coalesced_);
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
  shard.batch_bytes = 0;
  if (!shard.batch.empty()) shard.last_batch_effects = shard.batch.size();
  batch_memory_.give(shard.batch);
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
  Report& report = reports_.of(shard);
  report.failure = shard.failure;
  report.kept = flushed.ok();
}

void Applier::close_in_round(AppliedShard& shard) {
  shard.closing = true;
  absl::Status flushed = shard.held_up.ok() ? end_life(shard) : shard.held_up;
  if (flushed.ok() && !mutant(Mutant::kCloseUnflushed)) flushed = flush(shard);
  Report& report = reports_.of(shard);
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
      reports_.tell(*shard);
    }
    if (shard->keeping) keep_in_round(*shard);
    if (shard->closing) close_in_round(*shard);
  }
}

/// One database at a time, because a compaction needs room itself. The one whose deletes are the newest comes first.
void Applier::make_room() {
  if (!is_short_of_room_.load(std::memory_order_relaxed)) {
    for (AppliedShard* shard : attached_) shard->db->set_short_of_room(false);
    return;
  }
  for (AppliedShard* shard : std::vector(attached_)) write_waiting(*shard);  // deletes may be among them
  const auto rounds = [](const AppliedShard* shard) { return shard->db->room_rounds_left(); };
  const auto most = std::ranges::max_element(attached_, {}, rounds);
  if (most == attached_.end() || rounds(*most) == 0 || !(*most)->held_up.ok()) return;
  AppliedShard& shard = **most;
  flush_outside_of_round(shard);
  if (shard.failure.ok() && !shard.no_room) shard.db->set_short_of_room(true);
}

/// Keeps the log's window small: flushes the shards that pin its oldest segment.
void Applier::flush_pinning() {
  if (log_.counters().segments_in_use <= options_.flush_segments) return;
  for (const AppliedIndex& pin : log_.pins()) {
    const auto pinning = std::ranges::find(attached_, pin.shard, &AppliedShard::log_shard);
    if (pinning == attached_.end()) continue;
    write_waiting(**pinning);
    if ((*pinning)->db->applied_index() < pin.index) continue;
    if (mutant(Mutant::kTruncateUnflushed)) {
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
  if (!reports.empty()) reports_.give_alone(std::move(reports));
}

/// Outside of a round: the batch, though nothing has asked for it.
void Applier::write_waiting(AppliedShard& shard) {
  if (shard.batch.empty() || !shard.held_up.ok()) return;
  apply(shard);
  reports_.give();
}

void Applier::flush_outside_of_round(AppliedShard& shard) {
  write_waiting(shard);
  if (!shard.failure.ok() || shard.no_room || shard.flushed_index == shard.db->applied_index()) return;
  static_cast<void>(flush(shard));
  if (!shard.failure.ok()) reports_.give_alone({RoundReports::state_of(shard)});
}

}  // namespace skua::kv
