#include "rpc/base/histogram.h"

#include <algorithm>
#include <bit>
#include <cmath>

#include "rpc/base/check.h"

namespace skua {

Histogram::Histogram(uint64_t max_value) : max_value_(max_value), counts_(bucket_of(max_value) + 1, 0) {}

size_t Histogram::bucket_of(uint64_t value) {
  if (value < (uint64_t{2} << kSubBits)) return static_cast<size_t>(value);
  const int shift = static_cast<int>(std::bit_width(value)) - 1 - kSubBits;
  return (static_cast<size_t>(shift) << kSubBits) + static_cast<size_t>(value >> shift);
}

uint64_t Histogram::lowest_value(size_t bucket) {
  if (bucket < (size_t{2} << kSubBits)) return bucket;
  const size_t shift = (bucket >> kSubBits) - 1;
  return static_cast<uint64_t>(bucket - (shift << kSubBits)) << shift;
}

uint64_t Histogram::highest_value(size_t bucket) {
  return lowest_value(bucket + 1) - 1;
}

void Histogram::record_n(uint64_t value, uint64_t times) {
  if (times == 0) return;
  value = std::min(value, max_value_);
  counts_[bucket_of(value)] += times;
  count_ += times;
  min_ = std::min(min_, value);
  max_ = std::max(max_, value);
  const auto v = static_cast<double>(value);
  const auto n = static_cast<double>(times);
  sum_ += v * n;
  sum_of_squares_ += v * v * n;
}

void Histogram::add(const Histogram& other) {
  SKUA_CHECK(other.max_value_ == max_value_, "histograms to be added must cover the same range");
  for (size_t i = 0; i < counts_.size(); ++i) counts_[i] += other.counts_[i];
  count_ += other.count_;
  min_ = std::min(min_, other.min_);
  max_ = std::max(max_, other.max_);
  sum_ += other.sum_;
  sum_of_squares_ += other.sum_of_squares_;
}

void Histogram::reset() {
  *this = Histogram(max_value_);
}

double Histogram::mean() const {
  return count_ == 0 ? 0 : sum_ / static_cast<double>(count_);
}

double Histogram::stddev() const {
  if (count_ == 0) return 0;
  const double average = mean();
  return std::sqrt(std::max(0.0, sum_of_squares_ / static_cast<double>(count_) - average * average));
}

uint64_t Histogram::percentile(double percentile) const {
  if (count_ == 0) return 0;
  const double wanted = std::ceil(static_cast<double>(count_) * std::clamp(percentile, 0.0, 100.0) / 100);
  const uint64_t rank = std::clamp<uint64_t>(static_cast<uint64_t>(wanted), 1, count_);
  uint64_t seen = 0;
  for (size_t i = 0; i < counts_.size(); ++i) {
    seen += counts_[i];
    if (seen >= rank) return std::clamp(highest_value(i), min_, max_);
  }
  return max_;
}

}  // namespace skua
