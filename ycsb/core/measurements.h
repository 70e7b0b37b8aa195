// Latencies and return codes of a run, one series per name in the report.
//
//   READ                 latencies of reads that succeeded; return codes of all reads
//   READ-FAILED          latencies of those that did not
//   READ-NOT_FOUND       instead, for an error that is tracked by itself
//   Intended-READ        the same reads, measured from when they were meant to start
//
// Each driver thread records into Measurements of its own; add() merges them. So nothing is shared
// on the hot path.
#ifndef SKUA_YCSB_CORE_MEASUREMENTS_H_
#define SKUA_YCSB_CORE_MEASUREMENTS_H_

#include <array>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <string>
#include <string_view>
#include <vector>

#include "rpc/base/clock.h"
#include "rpc/base/histogram.h"
#include "ycsb/core/measurement_options.h"
#include "ycsb/core/status.h"

namespace skua::ycsb {

enum class Metric : uint8_t {
  kRead,
  kUpdate,
  kInsert,
  kScan,
  kDelete,
  kReadModifyWrite,
  kCleanup,
  kVerify,
  kScanPerRecord,
};

inline constexpr std::array<std::string_view, 9> kMetricNames = {
    "READ", "UPDATE", "INSERT", "SCAN", "DELETE", "READ-MODIFY-WRITE", "CLEANUP", "VERIFY", "SCAN-LATENCY-PER-RECORD"};

/// One name's latencies in microseconds. Thread: one at a time.
class Series {
 public:
  struct RawPoint {
    TimeNs since_start;
    uint64_t latency_us;
  };
  struct TimeUnit {
    uint64_t sum_us = 0;
    uint64_t count = 0;
  };

  explicit Series(const MeasurementOptions& options);

  void record(uint64_t latency_us, TimeNs since_start) {
    latencies_.record(latency_us);
    if (extras_) [[unlikely]]
      record_extras(latency_us, since_start);
  }
  void count_return(Status status) { ++returns_[static_cast<size_t>(status)]; }
  void add(const Series& other);
  void clear();

  [[nodiscard]] const Histogram& latencies() const { return latencies_; }
  [[nodiscard]] const std::array<uint64_t, kStatusCount>& returns() const { return returns_; }
  /// measurementtype with histogram: operations per millisecond of latency; the last bucket holds
  /// what is beyond.
  [[nodiscard]] const std::vector<uint64_t>& buckets() const { return buckets_; }
  /// measurementtype=timeseries: one unit per granularity since the start.
  [[nodiscard]] const std::vector<TimeUnit>& time_units() const { return time_units_; }
  /// measurementtype with raw: every point, as far as they are kept.
  [[nodiscard]] const std::vector<RawPoint>& raw_points() const { return raw_points_; }

 private:
  void record_extras(uint64_t latency_us, TimeNs since_start);

  const bool extras_;
  const bool raw_;
  const DurationNs granularity_ns_;  // 0 without time series
  Histogram latencies_;
  std::array<uint64_t, kStatusCount> returns_{};
  std::vector<uint64_t> buckets_;
  std::vector<TimeUnit> time_units_;
  std::vector<RawPoint> raw_points_;
};

class Measurements {
 public:
  explicit Measurements(const MeasurementOptions& options) : options_(options) {}

  /// An operation has ended. `since_start` is when, counted from the start of the run.
  void record(Metric metric, Status outcome, DurationNs op, DurationNs intended, TimeNs since_start) {
    const size_t slot = slot_of(metric, outcome);
    if (options_.interval != MeasurementInterval::kIntended) series(op_, slot).record(to_us(op), since_start);
    if (options_.interval != MeasurementInterval::kOp) series(intended_, slot).record(to_us(intended), since_start);
  }
  /// Something that has no intended start (a verification); not kept when only intended latencies
  /// are.
  void record_unscheduled(Metric metric, DurationNs duration, TimeNs since_start);
  /// The operation's return code; always under the metric's plain name.
  void count_return(Metric metric, Status status) {
    Slots& slots = options_.interval == MeasurementInterval::kIntended ? intended_ : op_;
    series(slots, slot_of(metric, Status::kOk)).count_return(status);
  }

  /// Both must have been made with the same options.
  void add(const Measurements& other);
  /// Empties every series; they stay, so that reports go on listing them.
  void clear();

  /// Calls visit(name, series) for each series there is: plain ones, then intended ones.
  template <typename Visitor>
  void for_each(Visitor&& visit) const {
    const bool plain_intended = options_.interval == MeasurementInterval::kIntended;
    for (size_t i = 0; i < kSlots; ++i)
      if (op_[i]) visit(series_name(i), *op_[i]);
    for (size_t i = 0; i < kSlots; ++i)
      if (intended_[i]) visit((plain_intended ? "" : "Intended-") + series_name(i), *intended_[i]);
  }

  [[nodiscard]] const MeasurementOptions& options() const { return options_; }

 private:
  // Slot of a series: metric, then kind of outcome: success, failed, or one particular status.
  static constexpr size_t kOutcomes = 2 + kStatusCount;
  static constexpr size_t kSlots = kMetricNames.size() * kOutcomes;
  using Slots = std::array<std::unique_ptr<Series>, kSlots>;

  [[nodiscard]] size_t slot_of(Metric metric, Status outcome) const {
    const size_t base = static_cast<size_t>(metric) * kOutcomes;
    return is_ok(outcome) ? base : failure_slot(base, outcome);
  }
  [[nodiscard]] size_t failure_slot(size_t base, Status outcome) const;
  [[nodiscard]] static std::string series_name(size_t slot);
  Series& series(Slots& slots, size_t slot) {
    if (!slots[slot]) [[unlikely]]
      slots[slot] = std::make_unique<Series>(options_);
    return *slots[slot];
  }
  [[nodiscard]] static uint64_t to_us(DurationNs duration) {
    return duration <= 0 ? 0 : static_cast<uint64_t>(duration) / 1000;
  }

  const MeasurementOptions& options_;
  Slots op_;
  Slots intended_;
};

}  // namespace skua::ycsb

#endif  // SKUA_YCSB_CORE_MEASUREMENTS_H_
