#include "kvstore/log/log_writer.h"

#include <pthread.h>

#include <algorithm>
#include <utility>

#include "absl/strings/str_cat.h"
#include "kvstore/types/mutants.h"
#include "rpc/base/short_slices.h"

namespace skua::kv {
namespace {

size_t payload_bytes(const LogSubmission& submission) {
  size_t bytes = 0;
  for (ByteSpan piece : submission.payload) bytes += piece.size();
  return bytes;
}

}  // namespace

LogWriter::LogWriter(std::unique_ptr<Log> log, const Options& options, GroupDone on_group_done)
    : options_(options),
      on_group_done_(std::move(on_group_done)),
      log_(std::move(log)),
      ring_(options.queue_records_max),
      policy_({.records_max = static_cast<int64_t>(options.group_records_max)}) {
  group_.reserve(options_.group_records_max);
  publish(true);
  if (options_.own_thread) thread_ = std::thread([this] { run(); });
}

LogWriter::~LogWriter() {
  stop();
}

absl::Status LogWriter::submit(LogSubmission submission, Wake when) {
  if (stopping_.load(std::memory_order_relaxed)) {
    return absl::UnavailableError("the log has been stopped; the record was not written");
  }
  const size_t bytes = payload_bytes(submission);
  if (queued_bytes_.fetch_add(bytes, std::memory_order_relaxed) + bytes > options_.queue_bytes_max && bytes > 0) {
    queued_bytes_.fetch_sub(bytes, std::memory_order_relaxed);
    return absl::ResourceExhaustedError(absl::StrCat("the log's queue holds its limit queue_bytes_max of ",
                                                     options_.queue_bytes_max, " bytes; the disk is behind"));
  }
  if (!ring_.try_push(std::move(submission))) {
    queued_bytes_.fetch_sub(bytes, std::memory_order_relaxed);
    return absl::ResourceExhaustedError(absl::StrCat("the log's queue holds its limit queue_records_max of ",
                                                     ring_.capacity(), " records; the disk is behind"));
  }
  queued_records_.fetch_add(1);
  if (when == Wake::kNow) wake();
  return absl::OkStatus();
}

/// The loads are sequentially consistent, as in await_more(): either this call sees the new wake_at_, or the log's
/// thread sees the new records.
void LogWriter::wake() {
  if (queued_records_.load() >= wake_at_.load()) submitted_.signal();
}

void LogWriter::sync() {
  sync_wanted_.store(true, std::memory_order_release);
  submitted_.signal();
}

size_t LogWriter::payload_bytes_max() const {
  return std::min(log_->payload_bytes_max(), options_.queue_bytes_max);
}

void LogWriter::set_durable(LogShard shard, uint64_t index) {
  {
    const std::lock_guard lock(mutex_);
    uint64_t& durable = durable_[shard];
    durable = std::max(durable, index);
  }
  has_durable_.store(true, std::memory_order_release);
  submitted_.signal();
}

void LogWriter::set_kept(LogShard shard, uint64_t index, uint64_t epoch) {
  {
    const std::lock_guard lock(mutex_);
    kept_[shard] = {index, epoch};
  }
  has_durable_.store(true, std::memory_order_release);
  submitted_.signal();
}

void LogWriter::stop() {
  if (stopping_.exchange(true, std::memory_order_acq_rel)) return;
  if (!options_.own_thread) return run();
  submitted_.signal();
  thread_.join();
}

absl::Status LogWriter::health() const {
  const std::lock_guard lock(mutex_);
  return health_;
}

LogCounters LogWriter::counters() const {
  const std::lock_guard lock(mutex_);
  return counters_;
}

std::vector<AppliedIndex> LogWriter::pins() const {
  const std::lock_guard lock(mutex_);
  return pins_;
}

bool LogWriter::step() {
  // Read before the ring: so records submitted before sync() are gathered now, unless the group is full.
  const bool sync = sync_wanted_.exchange(false, std::memory_order_acq_rel);
  gather();
  if (group_.empty()) return (sync && sync_alone()) || truncate();
  const bool all = !left_over_ && group_.size() < options_.group_records_max;
  if (sync && !all) sync_wanted_.store(true, std::memory_order_release);
  const uint64_t syncs = log_->counters().syncs;
  const TimeNs started = clock_.now_ns();
  const bool early = mutant(Mutant::kReportBeforeCommit);
  if (!early) commit(sync);
  const TimeNs committed = clock_.now_ns();
  const auto records = static_cast<int64_t>(group_.size());
  const bool told =
      std::ranges::any_of(group_, [](const LogSubmission& one) { return one.outcome.ok() && is_synced(one.achieved); });
  finish_group();
  if (early) commit(sync);
  truncate();
  if (log_->counters().syncs == syncs) {
    policy_.written();
  } else {
    policy_.synced(clock_.now_ns(), committed - started, records, queued_records_.load());
  }
  if (sync && !told) sync_alone();  // no record of the group was written, so none tells of the records before
  return true;
}

void LogWriter::run() {
  if (options_.own_thread) {
    static_cast<void>(pthread_setname_np(pthread_self(), "log"));  // for people looking at top(1)
    ask_for_short_slices();
  }
  for (;;) {
    // Read before the ring: so the gathering that follows sees all records submitted before stop().
    const bool last_round = stopping_.load(std::memory_order_acquire);
    if (!last_round) await_more();
    if (step()) continue;
    if (last_round) break;
    submitted_.wait();
  }
  const absl::Status closed = log_->close();
  const std::lock_guard lock(mutex_);
  if (health_.ok()) health_ = closed;
}

/// If the policy expects more records soon, sleeps until they have come or the wait ends. Single records do not wake
/// the thread meanwhile.
void LogWriter::await_more() {
  const int64_t queued = queued_records_.load();
  if (queued <= 0 || left_over_) return;
  const auto wait = policy_.wait(clock_.now_ns(), queued);
  if (!wait) return;
  wake_at_.store(wait->records);
  while (queued_records_.load() < wait->records && clock_.now_ns() < wait->until && !stopping_.load()) {
    submitted_.wait_until(wait->until);
  }
  wake_at_.store(1);
  policy_.waited(queued_records_.load());
}

/// Moves queued records into the log's group buffer, as many as one group holds.
void LogWriter::gather() {
  while (group_.size() < options_.group_records_max) {
    LogSubmission next;
    if (left_over_) {
      next = std::move(*left_over_);
      left_over_.reset();
    } else if (!ring_.try_pop(next)) {
      return;
    }
    if (!group_.empty() && !log_->fits(payload_bytes(next))) {
      left_over_ = std::move(next);
      return;
    }
    queued_records_.fetch_sub(1);
    next.outcome = add(next);
    group_.push_back(std::move(next));
  }
}

absl::Status LogWriter::add(const LogSubmission& submission) {
  const RecordHeader& header = submission.header;
  switch (header.kind) {
    case RecordKind::kData: return log_->append(header, submission.payload, submission.urgent);
    case RecordKind::kShardStart: return log_->start_shard(header.shard, header.index, header.epoch, header.time);
    case RecordKind::kShardEnd: return log_->end_shard(header.shard, header.time);
  }
  return absl::InvalidArgumentError("unknown record kind");
}

void LogWriter::commit(bool sync) {
  absl::StatusOr<Durability> written = log_->commit();
  if (sync && written.ok() && !is_synced(*written)) {
    written = Durability::kSync;
    if (absl::Status synced = log_->sync(); !synced.ok()) written = std::move(synced);
  }
  settle(written);
  if (!absl::IsResourceExhausted(written.status())) return;
  // There was no room for the whole group. Records that free space are tried again alone: they may use the reserve.
  bool any = false;
  for (LogSubmission& one : group_) {
    if (!one.urgent && one.header.kind == RecordKind::kData) continue;
    if (!absl::IsResourceExhausted(one.outcome)) continue;
    one.outcome = add(one);
    any = true;
  }
  if (any) settle(log_->commit());
}

/// Syncs without a group.
bool LogWriter::sync_alone() {
  (void)log_->sync();  // a failure shows in the log's health
  publish(false);
  on_group_done_({}, log_->health());
  return true;
}

void LogWriter::settle(const absl::StatusOr<Durability>& written) {
  for (LogSubmission& one : group_) {
    if (!one.outcome.ok()) continue;
    one.outcome = written.status();
    if (written.ok()) one.achieved = *written;
  }
}

void LogWriter::finish_group() {
  size_t bytes = 0;
  for (const LogSubmission& one : group_) bytes += payload_bytes(one);
  queued_bytes_.fetch_sub(bytes, std::memory_order_relaxed);
  publish(false);
  on_group_done_(group_, log_->health());
  group_.clear();
}

bool LogWriter::truncate() {
  const bool has_durable = has_durable_.exchange(false, std::memory_order_acq_rel);
  if (!has_durable && !log_->may_recycle()) return false;
  {
    const std::lock_guard lock(mutex_);
    for (const auto& [shard, index] : durable_) log_->set_durable(shard, index);
    durable_.clear();
    for (const auto& [shard, kept] : kept_) log_->set_kept(shard, kept.index, kept.epoch);
    kept_.clear();
  }
  const bool had_failed = !log_->health().ok();
  (void)log_->recycle();  // a failure shows in the log's health
  publish(true);
  if (!had_failed && !log_->health().ok()) on_group_done_({}, log_->health());
  return true;
}

void LogWriter::publish(bool truncated) {
  const std::lock_guard lock(mutex_);
  if (health_.ok()) health_ = log_->health();
  const bool rotated = counters_.rotations != log_->counters().rotations;
  counters_ = log_->counters();
  if (rotated || truncated) pins_ = log_->pins();
}

}  // namespace skua::kv
