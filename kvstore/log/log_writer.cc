#include "kvstore/log/log_writer.h"

#include <linux/futex.h>
#include <pthread.h>
#include <sys/syscall.h>
#include <unistd.h>

#include <algorithm>
#include <atomic>
#include <mutex>
#include <optional>
#include <thread>
#include <utility>

#include "absl/container/flat_hash_map.h"
#include "absl/strings/str_cat.h"
#include "kvstore/log/gather_policy.h"
#include "kvstore/types/mutants.h"
#include "rpc/base/clock.h"
#include "rpc/base/mpsc_ring.h"
#include "rpc/base/short_slices.h"

namespace skua::kv {
namespace {

/// Lets one thread sleep until another thread signals or a deadline passes. A signal before the wait is not lost. The
/// futex is called directly because std::atomic's wait has no deadline.
class Signal {
 public:
  void raise() {
    if (state_.exchange(kRaised, std::memory_order_acq_rel) == kSleeping) futex(FUTEX_WAKE_PRIVATE, 1, nullptr);
  }

  void wait() { wait_until(kTimeNever); }

  /// `deadline` is a SteadyClock time. May return early.
  void wait_until(TimeNs deadline) {
    const timespec until{.tv_sec = deadline / kSecond, .tv_nsec = deadline % kSecond};
    int expected = kIdle;
    if (state_.compare_exchange_strong(expected, kSleeping, std::memory_order_acq_rel)) {
      while (state_.load(std::memory_order_acquire) == kSleeping) {
        futex(FUTEX_WAIT_BITSET_PRIVATE, kSleeping, deadline == kTimeNever ? nullptr : &until);
        if (deadline != kTimeNever) break;
      }
    }
    state_.exchange(kIdle, std::memory_order_acq_rel);
  }

 private:
  static constexpr int kIdle = 0;
  static constexpr int kSleeping = 1;
  static constexpr int kRaised = 2;

  void futex(int operation, int value, const timespec* until) {
    static_assert(sizeof state_ == sizeof(int) && std::atomic<int>::is_always_lock_free);
    (void)::syscall(SYS_futex, reinterpret_cast<int*>(&state_), operation, value, until, nullptr,
                    FUTEX_BITSET_MATCH_ANY);
  }

  std::atomic<int> state_{kIdle};
};

size_t payload_bytes(const LogSubmission& submission) {
  size_t bytes = 0;
  for (ByteSpan piece : submission.payload) bytes += piece.size();
  return bytes;
}

GatherPolicy::Options gather_options(const LogWriter::Options& options) {
  GatherPolicy::Options gather;
  gather.records_max = static_cast<int64_t>(options.group_records_max);
  return gather;
}

}  // namespace

class LogWriter::Impl {
 public:
  Impl(std::unique_ptr<Log> log, const Options& options, GroupDone on_group_done)
      : options_(options),
        on_group_done_(std::move(on_group_done)),
        log_(std::move(log)),
        ring_(options.queue_records_max),
        policy_(gather_options(options)) {
    group_.reserve(options_.group_records_max);
    publish(true);
    if (options_.own_thread) thread_ = std::thread([this] { run(); });
  }

  absl::Status submit(LogSubmission&& submission, Wake when) {
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
  void wake() {
    if (queued_records_.load() >= wake_at_.load()) submitted_.raise();
  }

  void sync() {
    sync_wanted_.store(true, std::memory_order_release);
    submitted_.raise();
  }

  size_t payload_bytes_max() const { return std::min(log_->payload_bytes_max(), options_.queue_bytes_max); }

  void set_durable(LogShard shard, uint64_t index) {
    {
      const std::lock_guard lock(mutex_);
      uint64_t& durable = durable_[shard];
      durable = std::max(durable, index);
    }
    has_durable_.store(true, std::memory_order_release);
    submitted_.raise();
  }

  void set_kept(LogShard shard, uint64_t index, uint64_t epoch) {
    {
      const std::lock_guard lock(mutex_);
      kept_[shard] = {index, epoch};
    }
    has_durable_.store(true, std::memory_order_release);
    submitted_.raise();
  }

  void stop() {
    if (stopping_.exchange(true, std::memory_order_acq_rel)) return;
    if (!options_.own_thread) return run();
    submitted_.raise();
    thread_.join();
  }

  absl::Status health() const {
    const std::lock_guard lock(mutex_);
    return health_;
  }
  LogCounters counters() const {
    const std::lock_guard lock(mutex_);
    return counters_;
  }
  std::vector<AppliedIndex> pins() const {
    const std::lock_guard lock(mutex_);
    return pins_;
  }

  bool step() {
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
    finish_group();
    if (early) commit(sync);
    truncate();
    if (log_->counters().syncs == syncs) {
      policy_.written();
    } else {
      policy_.synced(clock_.now_ns(), committed - started, records, queued_records_.load());
    }
    return true;
  }

 private:
  void run() {
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
  void await_more() {
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
  void gather() {
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

  absl::Status add(const LogSubmission& submission) {
    const RecordHeader& header = submission.header;
    switch (header.kind) {
      case RecordKind::kData: return log_->append(header, submission.payload, submission.urgent);
      case RecordKind::kShardStart: return log_->start_shard(header.shard, header.index, header.epoch, header.time);
      case RecordKind::kShardEnd: return log_->end_shard(header.shard, header.time);
    }
    return absl::InvalidArgumentError("unknown record kind");
  }

  void commit(bool sync) {
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
  bool sync_alone() {
    (void)log_->sync();  // a failure shows in the log's health
    publish(false);
    on_group_done_({}, log_->health());
    return true;
  }

  void settle(const absl::StatusOr<Durability>& written) {
    for (LogSubmission& one : group_) {
      if (!one.outcome.ok()) continue;
      one.outcome = written.status();
      if (written.ok()) one.achieved = *written;
    }
  }

  void finish_group() {
    size_t bytes = 0;
    for (const LogSubmission& one : group_) bytes += payload_bytes(one);
    queued_bytes_.fetch_sub(bytes, std::memory_order_relaxed);
    publish(false);
    on_group_done_(group_, log_->health());
    group_.clear();
  }

  bool truncate() {
    if (!has_durable_.exchange(false, std::memory_order_acq_rel)) return false;
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

  void publish(bool truncated) {
    const std::lock_guard lock(mutex_);
    if (health_.ok()) health_ = log_->health();
    const bool rotated = counters_.rotations != log_->counters().rotations;
    counters_ = log_->counters();
    if (rotated || truncated) pins_ = log_->pins();
  }

  const Options options_;
  const GroupDone on_group_done_;
  const std::unique_ptr<Log> log_;

  // Shared between the log's thread and other threads.
  MpscRing<LogSubmission> ring_;
  Signal submitted_;
  std::atomic<bool> stopping_{false};
  std::atomic<size_t> queued_bytes_{0};
  std::atomic<int64_t> queued_records_{0};  // may lag behind the ring, and be below 0, for a moment
  std::atomic<int64_t> wake_at_{1};         // this many queued records wake the thread
  std::atomic<bool> has_durable_{false};
  std::atomic<bool> sync_wanted_{false};
  mutable std::mutex mutex_;
  absl::flat_hash_map<LogShard, uint64_t> durable_;
  struct Kept {
    uint64_t index = 0;
    uint64_t epoch = 0;
  };
  absl::flat_hash_map<LogShard, Kept> kept_;
  absl::Status health_;
  LogCounters counters_;
  std::vector<AppliedIndex> pins_;

  // Used by the log's thread only.
  std::vector<LogSubmission> group_;
  std::optional<LogSubmission> left_over_;
  const SteadyClock clock_;
  GatherPolicy policy_;
  std::thread thread_;
};

LogWriter::LogWriter(std::unique_ptr<Log> log, const Options& options, GroupDone on_group_done)
    : impl_(std::make_unique<Impl>(std::move(log), options, std::move(on_group_done))) {}

LogWriter::~LogWriter() {
  stop();
}

absl::Status LogWriter::submit(LogSubmission submission, Wake wake) {
  return impl_->submit(std::move(submission), wake);
}

void LogWriter::wake() {
  impl_->wake();
}

size_t LogWriter::payload_bytes_max() const {
  return impl_->payload_bytes_max();
}

void LogWriter::sync() {
  impl_->sync();
}

void LogWriter::set_durable(LogShard shard, uint64_t index) {
  impl_->set_durable(shard, index);
}

void LogWriter::set_kept(LogShard shard, uint64_t index, uint64_t epoch) {
  impl_->set_kept(shard, index, epoch);
}

void LogWriter::stop() {
  impl_->stop();
}

bool LogWriter::step() {
  return impl_->step();
}

absl::Status LogWriter::health() const {
  return impl_->health();
}

LogCounters LogWriter::counters() const {
  return impl_->counters();
}

std::vector<AppliedIndex> LogWriter::pins() const {
  return impl_->pins();
}

}  // namespace skua::kv
