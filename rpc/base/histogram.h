// A log-linear histogram of non-negative 64-bit values with a bounded relative error.
//
// As in HdrHistogram, values below 2^11 have a bucket each. Above, every power of two is cut into 2^10 equal buckets,
// so a reported value is at most 1/1024 (0.1 %, three significant digits) above the recorded one.
//
//   value        0 ... 2047 | 2048 ... 4095 | 4096 ... 8191 | ...
//   bucket width     1      |      2        |      4        | ...
//
// Recording is a count-leading-zeros, a shift and an increment: no allocation after construction.
#ifndef SKUA_RPC_BASE_HISTOGRAM_H_
#define SKUA_RPC_BASE_HISTOGRAM_H_

#include <cstddef>
#include <cstdint>
#include <vector>

namespace skua {

/// Thread: one at a time; merge per-thread histograms with add().
class Histogram {
 public:
  /// Values above `max_value` are recorded as `max_value`.
  explicit Histogram(uint64_t max_value = uint64_t{1} << 40);

  void record(uint64_t value) { record_n(value, 1); }
  void record_n(uint64_t value, uint64_t times);

  /// Adds all of `other`'s records; both must have the same max_value.
  void add(const Histogram& other);
  void reset();

  [[nodiscard]] uint64_t count() const { return count_; }
  /// Smallest and largest recorded values, exact; 0 if empty.
  [[nodiscard]] uint64_t min() const { return count_ == 0 ? 0 : min_; }
  [[nodiscard]] uint64_t max() const { return max_; }
  [[nodiscard]] double mean() const;
  [[nodiscard]] double stddev() const;

  /// The smallest bucket top below which at least `percentile` per cent of the records lie
  /// (0..100); 0 if empty.
  [[nodiscard]] uint64_t percentile(double percentile) const;

  /// Calls visit(lowest value of bucket, highest value of bucket, count) for each non-empty bucket
  /// in rising order.
  template <typename Visitor>
  void for_each_bucket(Visitor&& visit) const {
    for (size_t i = 0; i < counts_.size(); ++i) {
      if (counts_[i] != 0) visit(lowest_value(i), highest_value(i), counts_[i]);
    }
  }

 private:
  static constexpr int kSubBits = 10;  // 2^10 buckets per power of two

  static size_t bucket_of(uint64_t value);
  static uint64_t lowest_value(size_t bucket);
  static uint64_t highest_value(size_t bucket);

  uint64_t max_value_;
  std::vector<uint64_t> counts_;
  uint64_t count_ = 0;
  uint64_t min_ = UINT64_MAX;
  uint64_t max_ = 0;
  double sum_ = 0;
  double sum_of_squares_ = 0;
};

}  // namespace skua

#endif  // SKUA_RPC_BASE_HISTOGRAM_H_
