#include "ycsb/core/measurements.h"

#include <algorithm>

#include "ycsb/core/text.h"
#include "ycsb/core/workload_limits.h"

namespace skua::ycsb {
Series::Series(const MeasurementOptions& options)
    : extras_(options.buckets || options.time_series || options.raw),
      raw_(options.raw),
      granularity_ns_(options.time_series ? static_cast<DurationNs>(options.granularity_ms) * kMillisecond : 0),
      latencies_(kLatencyMaxUs),
      buckets_(options.buckets ? options.bucket_count + 1 : 0) {}

void Series::record_extras(uint64_t latency_us, TimeNs since_start) {
  if (!buckets_.empty()) ++buckets_[std::min(latency_us / 1000, buckets_.size() - 1)];
  if (granularity_ns_ != 0) {
    const auto elapsed = static_cast<uint64_t>(std::max<TimeNs>(since_start, 0));
    const size_t unit = std::min(elapsed / static_cast<uint64_t>(granularity_ns_), kTimeUnitsMax - 1);
    if (time_units_.size() <= unit) time_units_.resize(unit + 1);
    time_units_[unit].sum_us += latency_us;
    ++time_units_[unit].count;
  }
  if (raw_ && raw_points_.size() < kRawPointsMax) raw_points_.push_back({since_start, latency_us});
}

void Series::add(const Series& other) {
  latencies_.add(other.latencies_);
  for (size_t i = 0; i < kStatusCount; ++i) returns_.at(i) += other.returns_.at(i);
  for (size_t i = 0; i < buckets_.size(); ++i) buckets_[i] += other.buckets_[i];
  if (time_units_.size() < other.time_units_.size()) time_units_.resize(other.time_units_.size());
  for (size_t i = 0; i < other.time_units_.size(); ++i) {
    time_units_[i].sum_us += other.time_units_[i].sum_us;
    time_units_[i].count += other.time_units_[i].count;
  }
  const size_t room = kRawPointsMax - raw_points_.size();
  const size_t taken = std::min(room, other.raw_points_.size());
  raw_points_.insert(raw_points_.end(), other.raw_points_.begin(),
                     other.raw_points_.begin() + static_cast<std::ptrdiff_t>(taken));
}

void Series::clear() {
  if (latencies_.count() != 0) latencies_.reset();
  returns_.fill(0);
  std::fill(buckets_.begin(), buckets_.end(), 0);
  time_units_.clear();
  raw_points_.clear();
}

size_t Measurements::failure_slot(size_t base, Status outcome) const {
  const auto index = static_cast<size_t>(outcome);
  const bool by_itself = options_.report_each_error || options_.tracked_errors.at(index);
  return base + (by_itself ? 2 + index : 1);
}

std::string Measurements::series_name(size_t slot) {
  const std::string_view metric = kMetricNames.at(slot / kOutcomes);
  switch (const size_t outcome = slot % kOutcomes) {
    case 0: return std::string(metric);
    case 1: return concat(metric, "-FAILED");
    default: return concat(metric, "-", kStatusNames.at(outcome - 2));
  }
}

void Measurements::record_unscheduled(Metric metric, DurationNs duration, TimeNs since_start) {
  if (options_.interval == MeasurementInterval::kIntended) return;
  series(op_, slot_of(metric, Status::kOk)).record(to_us(duration), since_start);
}

void Measurements::add(const Measurements& other) {
  for (size_t i = 0; i < kSlots; ++i) {
    if (other.op_.at(i)) series(op_, i).add(*other.op_.at(i));
    if (other.intended_.at(i)) series(intended_, i).add(*other.intended_.at(i));
  }
}

void Measurements::clear() {
  for (size_t i = 0; i < kSlots; ++i) {
    if (op_.at(i)) op_.at(i)->clear();
    if (intended_.at(i)) intended_.at(i)->clear();
  }
}

}  // namespace skua::ycsb
