#include "ycsb/core/measurements.h"

#include <gtest/gtest.h>

#include <map>
#include <string>

namespace skua::ycsb {
namespace {

MeasurementOptions options(std::string_view text) {
  Properties p;
  EXPECT_TRUE(p.parse(text).ok());
  return *MeasurementOptions::parse(p, false);
}

std::map<std::string, uint64_t> counts(const Measurements& m) {
  std::map<std::string, uint64_t> out;
  m.for_each([&](const std::string& name, const Series& s) { out[name] = s.latencies().count(); });
  return out;
}

TEST(Measurements, Record_SuccessAndFailureInSeriesOfTheirOwn) {
  const auto o = options("");
  Measurements m(o);
  m.record(Metric::kRead, Status::kOk, 1'500, 0, 0);
  m.record(Metric::kRead, Status::kNotFound, 2'000, 0, 0);
  m.count_return(Metric::kRead, Status::kOk);
  m.count_return(Metric::kRead, Status::kNotFound);
  EXPECT_EQ(counts(m), (std::map<std::string, uint64_t>{{"READ", 1}, {"READ-FAILED", 1}}));
  m.for_each([](const std::string& name, const Series& s) {
    if (name != "READ") return;
    EXPECT_EQ(s.latencies().max(), 1U);  // microseconds, truncated
    EXPECT_EQ(s.returns()[static_cast<size_t>(Status::kOk)], 1U);
    EXPECT_EQ(s.returns()[static_cast<size_t>(Status::kNotFound)], 1U);
  });
}

TEST(Measurements, Record_TrackedErrors) {
  const auto each = options("reportlatencyforeacherror=true");
  Measurements all(each);
  all.record(Metric::kScan, Status::kError, 1, 1, 0);
  EXPECT_EQ(counts(all), (std::map<std::string, uint64_t>{{"SCAN-ERROR", 1}}));

  const auto one = options("latencytrackederrors=NOT_FOUND");
  Measurements some(one);
  some.record(Metric::kReadModifyWrite, Status::kNotFound, 1, 1, 0);
  some.record(Metric::kReadModifyWrite, Status::kError, 1, 1, 0);
  EXPECT_EQ(counts(some),
            (std::map<std::string, uint64_t>{{"READ-MODIFY-WRITE-FAILED", 1}, {"READ-MODIFY-WRITE-NOT_FOUND", 1}}));
}

TEST(Measurements, Record_Intervals) {
  const auto both = options("measurement.interval=both");
  Measurements m(both);
  m.record(Metric::kUpdate, Status::kOk, 1'000, 5'000, 0);
  EXPECT_EQ(counts(m), (std::map<std::string, uint64_t>{{"UPDATE", 1}, {"Intended-UPDATE", 1}}));
  m.for_each(
      [](const std::string& name, const Series& s) { EXPECT_EQ(s.latencies().max(), name == "UPDATE" ? 1U : 5U); });

  const auto intended = options("measurement.interval=intended");
  Measurements plain(intended);
  plain.record(Metric::kUpdate, Status::kOk, 1'000, 5'000, 0);
  plain.count_return(Metric::kUpdate, Status::kOk);
  EXPECT_EQ(counts(plain), (std::map<std::string, uint64_t>{{"UPDATE", 1}}));
}

TEST(Measurements, Record_NegativeLatencyCountsAsZero) {
  const auto o = options("");
  Measurements m(o);
  m.record(Metric::kRead, Status::kOk, -5, 0, 0);
  m.for_each([](const std::string&, const Series& s) { EXPECT_EQ(s.latencies().max(), 0U); });
}

TEST(Measurements, Add_SumsEverything) {
  const auto o = options("measurementtype=timeseries\ntimeseries.granularity=10");
  Measurements one(o);
  Measurements other(o);
  one.record(Metric::kRead, Status::kOk, 1'000, 0, 5 * kMillisecond);
  other.record(Metric::kRead, Status::kOk, 3'000, 0, 5 * kMillisecond);
  other.record(Metric::kRead, Status::kOk, 7'000, 0, 25 * kMillisecond);
  other.record(Metric::kScan, Status::kOk, 7'000, 0, 0);
  other.count_return(Metric::kRead, Status::kOk);
  one.add(other);
  EXPECT_EQ(counts(one), (std::map<std::string, uint64_t>{{"READ", 3}, {"SCAN", 1}}));
  one.for_each([](const std::string& name, const Series& s) {
    if (name != "READ") return;
    ASSERT_EQ(s.time_units().size(), 3U);
    EXPECT_EQ(s.time_units()[0].sum_us, 4U);
    EXPECT_EQ(s.time_units()[1].count, 0U);
    EXPECT_EQ(s.time_units()[2].sum_us, 7U);
    EXPECT_EQ(s.returns()[0], 1U);
  });
}

TEST(Measurements, Clear_KeepsTheSeries) {
  const auto o = options("measurementtype=raw");
  Measurements m(o);
  m.record(Metric::kRead, Status::kOk, 1'000, 0, 0);
  m.count_return(Metric::kRead, Status::kOk);
  m.clear();
  EXPECT_EQ(counts(m), (std::map<std::string, uint64_t>{{"READ", 0}}));
  m.for_each([](const std::string&, const Series& s) {
    EXPECT_TRUE(s.raw_points().empty());
    EXPECT_EQ(s.returns()[0], 0U);
  });
}

TEST(Series, Record_BucketsOfOneMillisecond) {
  const auto o = options("measurementtype=histogram\nhistogram.buckets=3");
  Series s(o);
  for (const uint64_t us : std::initializer_list<uint64_t>{0, 999, 1000, 2999, 3000, 1'000'000}) s.record(us, 0);
  EXPECT_EQ(s.buckets(), (std::vector<uint64_t>{2, 1, 1, 2}));
}

}  // namespace
}  // namespace skua::ycsb
