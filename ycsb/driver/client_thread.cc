#include "ycsb/driver/client_thread.h"

#include <time.h>

#include <algorithm>

#include "ycsb/core/text.h"

namespace skua::ycsb {
namespace {

/// Operations started before completions, stop and hand-off are looked at again.
constexpr size_t kStartsPerRound = 64;
/// Longest wait in one go, so that stop and hand-off are noticed.
constexpr DurationNs kWaitMax = 20 * kMillisecond;
/// Waits end this much early; the rest is spun through, for timers are not that exact.
constexpr DurationNs kTimerMargin = 60 * kMicrosecond;
/// How long outstanding operations may take once the run is to stop.
constexpr DurationNs kDrainMax = 10 * kSecond;

Metric metric_of(OpKind kind) {
  switch (kind) {
    case OpKind::kRead: return Metric::kRead;
    case OpKind::kUpdate: return Metric::kUpdate;
    case OpKind::kInsert: return Metric::kInsert;
    case OpKind::kScan: return Metric::kScan;
    case OpKind::kDelete: return Metric::kDelete;
    case OpKind::kReadModifyWrite: break;
  }
  return Metric::kReadModifyWrite;
}

/// "READ user7: NOT_FOUND", or with what the store said: "INSERT user7: ERROR: out of memory".
std::string failure_text(const Operation& op, const OpResult& result) {
  return concat(kMetricNames.at(static_cast<size_t>(metric_of(op.kind))), " ", op.key, ": ", status_name(result.status),
                result.message.empty() ? "" : ": ", result.message);
}

/// For a load that stopped; empty where trying again is of no use.
std::string_view way_on(Status status) {
  const bool may_pass = status == Status::kError || status == Status::kTimeout || status == Status::kServiceUnavailable;
  return may_pass ? ". With core_workload_insertion_retry_limit=N it is tried again, with "
                    "core_workload_insertion_keep_going_on_error=true the load goes on"
                  : "";
}

}  // namespace

ClientThread::ClientThread(const DriverOptions& options, const MeasurementOptions& measurements, CoreWorkload& workload,
                           const RunControl& control, uint64_t index, Rng rng)
    : options_(options),
      workload_(workload),
      control_(control),
      index_(index),
      quota_(options.operations_of(index)),
      verify_(workload.options().data_integrity),
      source_(workload, rng),
      measurements_(measurements),
      slots_(new Slot[options.in_flight]) {
  free_.reserve(options.in_flight);
  continued_.reserve(options.in_flight);
  retrying_.reserve(options.in_flight);
  for (uint64_t i = options.in_flight; i-- > 0;) {
    slots_[i].owner = this;
    free_.push_back(&slots_[i]);
  }
}

ClientThread::~ClientThread() = default;

uint64_t ClientThread::operations_left() const {
  const uint64_t done = operations_done();
  return quota_ > done ? quota_ - done : 0;
}

absl::Status ClientThread::open(Binding& binding) {
  absl::StatusOr<std::unique_ptr<BindingSession>> session = binding.open_session(
      {.in_flight_max = options_.in_flight, .return_fields = verify_, .seed = source_.rng().next()});
  if (!session.ok()) return session.status();
  session_ = *std::move(session);
  return absl::OkStatus();
}

absl::Status ClientThread::run() {
  if (options_.target > 0) {
    const double gap_ns = static_cast<double>(kSecond) * static_cast<double>(options_.threads) / options_.target;
    Rng& rng = source_.rng();
    switch (options_.arrival) {
      case Arrival::kClosed: {
        // YCSB spreads slow threads out so that they do not all begin together.
        const double delay = gap_ns >= kMillisecond ? rng.uniform() * gap_ns : 0;
        pacer_ = Pacer::ticks(control_.start + static_cast<TimeNs>(delay), gap_ns);
        break;
      }
      case Arrival::kUniform: {
        const double shift = gap_ns * static_cast<double>(index_) / static_cast<double>(options_.threads);
        pacer_ = Pacer::ticks(control_.start + static_cast<TimeNs>(shift), gap_ns);
        break;
      }
      case Arrival::kPoisson: pacer_ = Pacer::poisson(control_.start, gap_ns, rng); break;
    }
  }
  TimeNs drain_end = kTimeNever;
  for (;;) {
    measurements_.serve();
    const TimeNs now = clock_.now_ns();
    if (!stopping_ && (now >= control_.end || control_.stop.load(std::memory_order_relaxed))) stopping_ = true;
    if (stopping_ && drain_end == kTimeNever) drain_end = now + kDrainMax;
    resume_slots(now);
    start_operations(now);
    const bool all_started = stopping_ || (quota_ != 0 && started_ == quota_);
    if (all_started && in_flight_ == 0 && continued_.empty() && retrying_.empty()) break;
    if (now > drain_end) {
      return absl::DeadlineExceededError(concat(counted(in_flight_, "operation"), " got no answer within ",
                                                kDrainMax / kSecond, " s after the run was to stop, and ",
                                                in_flight_ == 1 ? "is" : "are", " not counted"));
    }
    if (absl::Status status = wait(now); !status.ok()) return status;
  }
  return failure_;
}

void ClientThread::close() {
  measurements_.serve();
  const TimeNs before = clock_.now_ns();
  session_.reset();
  ended_ = clock_.now_ns();
  const DurationNs took = ended_ - before;
  measurements_.active().record(Metric::kCleanup, Status::kOk, took, took, ended_ - control_.start);
}

bool ClientThread::may_start(TimeNs now) const {
  return !stopping_ && !free_.empty() && (quota_ == 0 || started_ < quota_) && pacer_.due() <= now;
}

void ClientThread::start_operations(TimeNs now) {
  for (size_t i = 0; i < kStartsPerRound && may_start(now); ++i) {
    Slot& slot = *free_.back();
    if (!options_.transactions) {
      source_.next_load(slot.op);
    } else if (!source_.next_transaction(slot.op)) {
      break;  // too many inserts outstanding: let some complete
    }
    free_.pop_back();
    ++started_;
    slot.read_modify_write = slot.op.kind == OpKind::kReadModifyWrite;
    if (slot.read_modify_write) slot.op.kind = OpKind::kRead;
    slot.retries = 0;
    slot.outcome = Status::kOk;
    slot.due = pacer_.due();
    slot.started = slot.first_started = clock_.now_ns();
    if (pacer_.paced() && slot.due <= last_full_) ++late_starts_;
    pacer_.advance(source_.rng());
    submit(slot);
  }
  if (free_.empty()) last_full_ = now;
}

void ClientThread::submit(Slot& slot) {
  ++in_flight_;
  session_->submit(slot.op, {&on_complete, &slot});
}

void ClientThread::resume_slots(TimeNs now) {
  while (!continued_.empty()) {
    Slot& slot = *continued_.back();
    continued_.pop_back();
    slot.started = clock_.now_ns();
    submit(slot);
  }
  for (size_t i = 0; i < retrying_.size();) {
    Slot& slot = *retrying_[i];
    if (slot.retry_at > now && !stopping_) {
      ++i;
      continue;
    }
    retrying_[i] = retrying_.back();
    retrying_.pop_back();
    if (stopping_) {
      free_.push_back(&slot);
      continue;
    }
    slot.started = clock_.now_ns();
    submit(slot);
  }
}

TimeNs ClientThread::next_wake(TimeNs now) const {
  TimeNs wake = now + kWaitMax;
  if (!continued_.empty()) return now;
  if (!stopping_ && !free_.empty() && (quota_ == 0 || started_ < quota_)) wake = std::min(wake, pacer_.due());
  for (const Slot* slot : retrying_) wake = std::min(wake, slot->retry_at);
  if (!stopping_) wake = std::min(wake, control_.end);
  return std::max(wake, now);
}

absl::Status ClientThread::wait(TimeNs now) {
  DurationNs pause = next_wake(now) - now;
  if (pause < kWaitMax) pause = pause > 2 * kTimerMargin ? pause - kTimerMargin : 0;
  if (options_.spin_sleep) pause = 0;
  if (in_flight_ > 0) return session_->poll(pause);
  if (pause > 0) {
    const timespec duration = {pause / kSecond, pause % kSecond};
    nanosleep(&duration, nullptr);
  }
  return session_->poll(0);
}

void ClientThread::on_complete(void* slot, const OpResult& result) {
  auto& self = *static_cast<Slot*>(slot);
  self.owner->complete(self, result);
}

void ClientThread::complete(Slot& slot, const OpResult& result) {
  --in_flight_;
  const TimeNs now = clock_.now_ns();
  const Operation& op = slot.op;
  const Metric metric = metric_of(op.kind);
  Measurements& measurements = measurements_.active();
  const TimeNs since_start = now - control_.start;
  measurements.record(metric, result.status, now - slot.started, now - intended_start(slot, slot.started), since_start);
  measurements.count_return(metric, result.status);
  if (!is_ok(result.status)) [[unlikely]]
    note_failure(slot, result);
  switch (op.kind) {
    case OpKind::kRead:
      if (!verify_ && !slot.read_modify_write) break;
      complete_read(slot, result, now);
      if (slot.op.kind == OpKind::kUpdate) return;  // goes on as a read-modify-write
      break;
    case OpKind::kScan:
      if (is_ok(result.status) && result.row_count != 0) {
        const auto us = (now - slot.started) / kMicrosecond;
        measurements.record_unscheduled(Metric::kScanPerRecord,
                                        us / static_cast<DurationNs>(result.row_count) * kMicrosecond, since_start);
      }
      break;
    case OpKind::kInsert:
      if (options_.transactions) {
        workload_.acknowledge(op);
      } else if (!is_ok(result.status) && handle_load_failure(slot, result, now)) {
        return;
      }
      break;
    default: break;
  }
  if (slot.read_modify_write) {
    // Always under the plain name and without a return code, as in Java: its parts have theirs.
    measurements.record(Metric::kReadModifyWrite, Status::kOk, now - slot.first_started,
                        now - intended_start(slot, slot.first_started), since_start);
  }
  finish(slot);
}

void ClientThread::complete_read(Slot& slot, const OpResult& result, TimeNs now) {
  if (verify_) {
    const Status verified = workload_.verify(slot.op.key, result.fields);
    Measurements& measurements = measurements_.active();
    measurements.record_unscheduled(Metric::kVerify, clock_.now_ns() - now, now - control_.start);
    measurements.count_return(Metric::kVerify, verified);
    if (!is_ok(verified)) {
      OpResult wrong(verified);
      wrong.message = verified == Status::kError ? "no data came back, which dataintegrity=true checks"
                                                 : "the data is not what dataintegrity=true expects";
      note_failure(slot, wrong);
    }
  }
  if (!slot.read_modify_write) return;
  slot.op.kind = OpKind::kUpdate;
  continued_.push_back(&slot);
}

bool ClientThread::handle_load_failure(Slot& slot, const OpResult& result, TimeNs now) {
  if (slot.retries < options_.insert_retries && !stopping_) {
    ++slot.retries;
    slot.outcome = Status::kOk;
    const double spread = 0.8 + 0.4 * source_.rng().uniform();
    slot.retry_at = now + static_cast<DurationNs>(static_cast<double>(options_.insert_retry_interval) * spread);
    retrying_.push_back(&slot);
    return true;
  }
  if (options_.keep_going_on_insert_error) return false;
  // YCSB ends the loading thread at the first insert that fails for good.
  if (failure_.ok()) {
    const std::string retries =
        slot.retries == 0 ? "" : concat(" after ", slot.retries, slot.retries == 1 ? " retry" : " retries");
    failure_ =
        absl::AbortedError(concat("load stopped", retries, ": ", failure_text(slot.op, result), way_on(result.status)));
  }
  stopping_ = true;
  free_.push_back(&slot);
  return true;
}

void ClientThread::finish(Slot& slot) {
  if (!is_ok(slot.outcome)) ++failures_.at(static_cast<size_t>(slot.outcome));
  free_.push_back(&slot);
  // One writer: no need for an atomic read-modify-write.
  operations_done_.store(operations_done_.load(std::memory_order_relaxed) + 1, std::memory_order_relaxed);
}

void ClientThread::note_failure(Slot& slot, const OpResult& result) {
  if (is_ok(slot.outcome)) slot.outcome = result.status;
  if (!first_failure_.empty()) return;
  first_failure_ = failure_text(slot.op, result);
}

}  // namespace skua::ycsb
