#include "rpc/base/histogram.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <vector>

#include "rpc/base/rng.h"

namespace skua {
namespace {

// The twin: every value kept, percentiles by rank in the sorted list.
class SortedValues {
 public:
  void record(uint64_t value) { values_.push_back(value); }
  uint64_t percentile(double percentile) {
    std::sort(values_.begin(), values_.end());
    const auto rank = static_cast<size_t>(std::ceil(static_cast<double>(values_.size()) * percentile / 100));
    return values_[std::clamp<size_t>(rank, 1, values_.size()) - 1];
  }
  double mean() const {
    double sum = 0;
    for (const uint64_t value : values_) sum += static_cast<double>(value);
    return sum / static_cast<double>(values_.size());
  }
  double stddev() const {
    double sum = 0;
    for (const uint64_t value : values_) {
      sum += (static_cast<double>(value) - mean()) * (static_cast<double>(value) - mean());
    }
    return std::sqrt(sum / static_cast<double>(values_.size()));
  }

 private:
  std::vector<uint64_t> values_;
};

constexpr double kPercentiles[] = {0, 1, 10, 25, 50, 75, 90, 95, 99, 99.9, 99.99, 100};

TEST(Histogram, Record_EmptyIsAllZero) {
  const Histogram histogram;
  EXPECT_EQ(histogram.count(), 0u);
  EXPECT_EQ(histogram.min(), 0u);
  EXPECT_EQ(histogram.max(), 0u);
  EXPECT_EQ(histogram.mean(), 0);
  EXPECT_EQ(histogram.stddev(), 0);
  EXPECT_EQ(histogram.percentile(50), 0u);
}

TEST(Histogram, Record_SmallValuesAreExact) {
  for (uint64_t value = 0; value < 2048; ++value) {
    Histogram histogram(1 << 20);
    histogram.record(0);
    histogram.record(value);
    histogram.record(1 << 20);
    ASSERT_EQ(histogram.percentile(60), value);
  }
}

TEST(Histogram, Record_BoundedRelativeErrorAtEveryPowerOfTwo) {
  for (int bits = 1; bits < 64; ++bits) {
    for (const uint64_t value :
         {(uint64_t{1} << bits) - 1, uint64_t{1} << bits, (uint64_t{1} << bits) + 1, (uint64_t{1} << bits) / 3 * 4}) {
      Histogram histogram(UINT64_MAX);
      histogram.record(value);
      histogram.record(UINT64_MAX);  // else max() would make it exact
      const uint64_t reported = histogram.percentile(50);
      ASSERT_GE(reported, value);
      ASSERT_LE(static_cast<double>(reported - value), static_cast<double>(value) / 1024) << value;
    }
  }
}

TEST(Histogram, Record_AboveMaximumCountsAsMaximum) {
  Histogram histogram(1000);
  histogram.record(UINT64_MAX);
  EXPECT_EQ(histogram.max(), 1000u);
  EXPECT_EQ(histogram.percentile(100), 1000u);
}

TEST(Histogram, RecordN_SameAsRepeating) {
  Histogram once(1 << 30);
  Histogram repeated(1 << 30);
  once.record_n(12345, 7);
  once.record_n(99, 0);
  for (int i = 0; i < 7; ++i) repeated.record(12345);
  EXPECT_EQ(once.count(), repeated.count());
  EXPECT_EQ(once.min(), repeated.min());
  EXPECT_EQ(once.percentile(50), repeated.percentile(50));
  EXPECT_DOUBLE_EQ(once.mean(), repeated.mean());
}

TEST(Histogram, Percentile_AgreesWithSortedValues) {
  Rng rng(2);
  for (int round = 0; round < 40; ++round) {
    Histogram histogram;
    SortedValues twin;
    const uint64_t count = 1 + rng.below(3000);
    const int bits = 1 + static_cast<int>(rng.below(40));
    for (uint64_t i = 0; i < count; ++i) {
      const uint64_t value = rng.next() >> (64 - 1 - rng.below(static_cast<uint64_t>(bits)));
      histogram.record(value);
      twin.record(value);
    }
    for (const double percentile : kPercentiles) {
      const uint64_t exact = twin.percentile(percentile);
      const uint64_t reported = histogram.percentile(percentile);
      ASSERT_GE(reported, exact) << percentile;
      ASSERT_LE(reported, exact + exact / 1024) << percentile;
    }
    EXPECT_NEAR(histogram.mean(), twin.mean(), twin.mean() * 1e-9);
    EXPECT_NEAR(histogram.stddev(), twin.stddev(), twin.mean() * 1e-6 + 1e-6);
  }
}

TEST(Histogram, Percentile_NeverOutsideMinAndMax) {
  Histogram histogram;
  histogram.record(1'000'001);
  EXPECT_EQ(histogram.percentile(0), 1'000'001u);
  EXPECT_EQ(histogram.percentile(-5), 1'000'001u);
  EXPECT_EQ(histogram.percentile(250), 1'000'001u);
}

TEST(Histogram, Add_SameAsRecordingAllInOne) {
  Rng rng(3);
  Histogram all;
  Histogram a;
  Histogram b;
  for (int i = 0; i < 1000; ++i) {
    const uint64_t value = rng.below(uint64_t{1} << 35);
    all.record(value);
    (i % 3 == 0 ? a : b).record(value);
  }
  a.add(b);
  a.add(Histogram());
  EXPECT_EQ(a.count(), all.count());
  EXPECT_EQ(a.min(), all.min());
  EXPECT_EQ(a.max(), all.max());
  EXPECT_NEAR(a.mean(), all.mean(), 1e-3);
  for (const double percentile : kPercentiles) {
    EXPECT_EQ(a.percentile(percentile), all.percentile(percentile));
  }
}

TEST(HistogramDeathTest, Add_AnotherRange) {
  Histogram a(1000);
  EXPECT_DEATH(a.add(Histogram(1001)), "same range");
}

TEST(Histogram, Reset_ForgetsEverything) {
  Histogram histogram(5000);
  histogram.record(4000);
  histogram.reset();
  EXPECT_EQ(histogram.count(), 0u);
  EXPECT_EQ(histogram.max(), 0u);
  histogram.record(100'000);
  EXPECT_EQ(histogram.max(), 5000u);
}

TEST(Histogram, ForEachBucket_CoversTheRecordsInRisingOrder) {
  Rng rng(4);
  Histogram histogram(UINT64_MAX);
  for (int i = 0; i < 5000; ++i) histogram.record(rng.next() >> rng.below(64));
  uint64_t total = 0;
  uint64_t next_lowest = 0;
  histogram.for_each_bucket([&](uint64_t lowest, uint64_t highest, uint64_t count) {
    EXPECT_GE(lowest, next_lowest);
    EXPECT_GE(highest, lowest);
    next_lowest = highest + 1;
    total += count;
  });
  EXPECT_EQ(total, 5000u);
}

}  // namespace
}  // namespace skua
