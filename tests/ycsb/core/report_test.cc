#include "ycsb/core/report.h"

#include <gtest/gtest.h>

#include <sstream>

namespace skua::ycsb {
namespace {

MeasurementOptions options(std::string_view text) {
  Properties p;
  EXPECT_TRUE(p.parse(text).ok());
  return *MeasurementOptions::parse(p, false);
}

std::string exported(const Measurements& m) {
  std::ostringstream out;
  auto exporter = make_exporter("text", out);
  export_measurements(**exporter, m);
  (*exporter)->close();
  return out.str();
}

/// 1, 2, ... 100 microseconds, half a second apart from 0.
Measurements hundred(const MeasurementOptions& o) {
  Measurements m(o);
  for (int64_t us = 1; us <= 100; ++us) {
    m.record(Metric::kRead, Status::kOk, us * 1000, us * 1000, us * kSecond / 2);
    m.count_return(Metric::kRead, Status::kOk);
  }
  return m;
}

TEST(Report, ExportOverall_JavasLines) {
  std::ostringstream out;
  auto exporter = make_exporter("text", out);
  export_overall(**exporter, 2500 * kMillisecond, 1000);
  EXPECT_EQ(out.str(),
            "[OVERALL], RunTime(ms), 2500\n[OVERALL], Throughput(ops/sec), 400.0\n"
            "[TOTAL_GCs], Count, 0\n[TOTAL_GC_TIME], Time(ms), 0\n[TOTAL_GC_TIME_%], Time(%), 0.0\n");
}

TEST(Report, ExportMeasurements_Hdr) {
  const auto o = options("hdrhistogram.percentiles=50,95,99,99.9");
  Measurements m = hundred(o);
  m.count_return(Metric::kRead, Status::kNotFound);
  EXPECT_EQ(exported(m),
            "[READ], Operations, 100\n[READ], AverageLatency(us), 50.5\n[READ], MinLatency(us), 1\n"
            "[READ], MaxLatency(us), 100\n[READ], 50thPercentileLatency(us), 50\n"
            "[READ], 95thPercentileLatency(us), 95\n[READ], 99thPercentileLatency(us), 99\n"
            "[READ], 99.9PercentileLatency(us), 100\n[READ], Return=OK, 100\n"
            "[READ], Return=NOT_FOUND, 1\n");
}

TEST(Report, ExportMeasurements_HdrVerboseListsBuckets) {
  const auto o = options("measurement.histogram.verbose=true");
  Measurements m(o);
  m.record(Metric::kRead, Status::kOk, 7'000, 0, 0);
  m.record(Metric::kRead, Status::kOk, 7'000, 0, 0);
  EXPECT_NE(exported(m).find("[READ], 7, 2.0\n"), std::string::npos) << exported(m);
}

TEST(Report, ExportMeasurements_Histogram) {
  const auto o = options("measurementtype=histogram\nhistogram.buckets=2\nmeasurement.histogram.verbose=true");
  Measurements m(o);
  for (const int64_t us : std::initializer_list<int64_t>{500, 500, 2500, 2500})
    m.record(Metric::kUpdate, Status::kOk, us * 1000, 0, 0);
  m.count_return(Metric::kUpdate, Status::kOk);
  EXPECT_EQ(exported(m),
            "[UPDATE], Operations, 4\n[UPDATE], AverageLatency(us), 1500.0\n"
            "[UPDATE], LatencyVariance(us), 1000000.0\n[UPDATE], MinLatency(us), 500\n"
            "[UPDATE], MaxLatency(us), 2500\n[UPDATE], Return=OK, 1\n[UPDATE], 0, 2\n"
            "[UPDATE], 1, 0\n[UPDATE], >2, 2\n");
}

TEST(Report, ExportMeasurements_HistogramPercentilesAreBucketStarts) {
  const auto o = options("measurementtype=histogram");
  Measurements m(o);
  for (int i = 0; i < 99; ++i) m.record(Metric::kRead, Status::kOk, 2'500'000, 0, 0);
  m.record(Metric::kRead, Status::kOk, 7'500'000, 0, 0);
  const std::string text = exported(m);
  EXPECT_NE(text.find("95thPercentileLatency(us), 2000\n"), std::string::npos) << text;
  EXPECT_NE(text.find("99thPercentileLatency(us), 2000\n"), std::string::npos) << text;
}

TEST(Report, ExportMeasurements_TimeSeriesMeansPerUnit) {
  const auto o = options("measurementtype=timeseries");
  Measurements m(o);
  m.record(Metric::kRead, Status::kOk, 10'000, 0, 100 * kMillisecond);
  m.record(Metric::kRead, Status::kOk, 15'000, 0, 900 * kMillisecond);
  m.record(Metric::kRead, Status::kOk, 40'000, 0, 3500 * kMillisecond);
  const std::string text = exported(m);
  EXPECT_NE(text.find("[READ], 0, 12.5\n[READ], 3000, 40.0\n"), std::string::npos) << text;
  EXPECT_NE(text.find("[READ], Operations, 3\n"), std::string::npos) << text;
}

TEST(Report, ExportMeasurements_PairedTypesHaveTwoNames) {
  const auto o = options("measurementtype=hdrhistogram+raw");
  const std::string text = exported(hundred(o));
  EXPECT_NE(text.find("[HdrREAD], Operations, 100\n"), std::string::npos) << text;
  EXPECT_NE(text.find("[RawREAD], Total Operations, 100\n"), std::string::npos) << text;
  EXPECT_NE(text.find("[RawREAD], p50, 51\n"), std::string::npos) << text;
}

TEST(Report, WriteRawPoints_OneLineEach) {
  const auto o = options("measurementtype=raw");
  Measurements m(o);
  m.record(Metric::kRead, Status::kOk, 10'000, 0, 100 * kMillisecond);
  std::ostringstream out;
  write_raw_points(out, m, 1'700'000'000'000);
  EXPECT_EQ(out.str(), "READ latency raw data: op, timestamp(ms), latency(us)\nREAD,1700000000100,10\n");
}

TEST(Report, Summary_JavasWording) {
  const auto o = options("");
  Measurements m = hundred(o);
  m.record(Metric::kUpdate, Status::kOk, 5'000, 0, 0);
  EXPECT_EQ(summary(m),
            "[READ: Count=100, Max=100, Min=1, Avg=50.5, 50=50, 90=90, 99=99, 99.9=100, 99.99=100] "
            "[UPDATE: Count=1, Max=5, Min=5, Avg=5, 50=5, 90=5, 99=5, 99.9=5, 99.99=5] ");
  m.clear();
  EXPECT_EQ(summary(m).substr(0, 37), "[READ: Count=0, Max=0, Min=0, Avg=0, ");
}

TEST(Report, Summary_OtherTypes) {
  const auto series = options("measurementtype=timeseries");
  EXPECT_EQ(summary(hundred(series)), "[READ AverageLatency(us)=50.5] ");
  const auto raw = options("measurementtype=raw");
  EXPECT_EQ(summary(hundred(raw)), "READ count: 100, average latency(us): 50.50 ");
}

TEST(Report, StatusLine_AtTheStart) {
  Progress p;
  p.wall_time = "2024-05-06 07:08:09:010";
  p.operations_left = 1000;
  EXPECT_EQ(status_line(p, ""), "2024-05-06 07:08:09:010 0 sec: 0 operations; est completion in 0 second ");
  p.since_start = 2 * kMillisecond;
  EXPECT_EQ(status_line(p, ""),
            "2024-05-06 07:08:09:010 0 sec: 0 operations; est completion in 106751991167300 days "
            "15 hours ");
}

TEST(Report, StatusLine_InTheMiddleAndAtTheEnd) {
  Progress p{.label = "x ",
             .wall_time = "2024-05-06 07:08:09:010",
             .since_start = 10'500 * kMillisecond,
             .interval = 10 * kSecond,
             .operations = 21'000,
             .interval_operations = 20'005,
             .operations_left = 240'000};
  EXPECT_EQ(status_line(p, "[READ: ...] "),
            "x 2024-05-06 07:08:09:010 10 sec: 21000 operations; 2000.5 current ops/sec; est "
            "completion in 2 minutes [READ: ...] ");
  p.operations_left = 0;
  EXPECT_EQ(status_line(p, "[READ: ...] "),
            "x 2024-05-06 07:08:09:010 10 sec: 21000 operations; 2000.5 current ops/sec; [READ: "
            "...] ");
}

}  // namespace
}  // namespace skua::ycsb
