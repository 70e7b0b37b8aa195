#include "ycsb/core/measurement_options.h"

#include <gtest/gtest.h>

namespace skua::ycsb {
namespace {

absl::StatusOr<MeasurementOptions> parse(std::string_view text, bool scheduled = false) {
  Properties p;
  EXPECT_TRUE(p.parse(text).ok());
  return MeasurementOptions::parse(p, scheduled);
}

TEST(MeasurementOptions, Parse_Defaults) {
  const auto o = parse("");
  ASSERT_TRUE(o.ok()) << o.status();
  EXPECT_TRUE(o->hdr);
  EXPECT_FALSE(o->buckets || o->raw || o->time_series);
  EXPECT_EQ(o->interval, MeasurementInterval::kOp);
  EXPECT_EQ(o->percentiles, (std::vector<double>{50, 95, 99}));
}

TEST(MeasurementOptions, Parse_ScheduledReportsBothUnlessTold) {
  EXPECT_EQ(parse("", true)->interval, MeasurementInterval::kBoth);
  EXPECT_EQ(parse("measurement.interval=op", true)->interval, MeasurementInterval::kOp);
  EXPECT_EQ(parse("measurement.interval=intended")->interval, MeasurementInterval::kIntended);
}

TEST(MeasurementOptions, Parse_Types) {
  EXPECT_TRUE(parse("measurementtype=histogram")->buckets);
  EXPECT_FALSE(parse("measurementtype=histogram")->hdr);
  EXPECT_TRUE(parse("measurementtype=hdrhistogram+histogram")->hdr);
  EXPECT_TRUE(parse("measurementtype=hdrhistogram+raw")->raw);
  EXPECT_TRUE(parse("measurementtype=timeseries")->time_series);
  EXPECT_FALSE(parse("measurementtype=raw")->hdr);
}

TEST(MeasurementOptions, Parse_Lists) {
  EXPECT_EQ(parse("hdrhistogram.percentiles=50, 99.9,99.99")->percentiles, (std::vector<double>{50, 99.9, 99.99}));
  const auto o = parse("latencytrackederrors=NOT_FOUND,TIMEOUT");
  ASSERT_TRUE(o.ok());
  EXPECT_TRUE(o->tracked_errors[static_cast<size_t>(Status::kNotFound)]);
  EXPECT_TRUE(o->tracked_errors[static_cast<size_t>(Status::kTimeout)]);
  EXPECT_FALSE(o->tracked_errors[static_cast<size_t>(Status::kError)]);
}

TEST(MeasurementOptions, Parse_RefusesNonsense) {
  for (const char* text : {"measurementtype=hdr", "measurement.interval=sometimes", "hdrhistogram.percentiles=50,,99",
                           "hdrhistogram.percentiles=101", "latencytrackederrors=LOST", "histogram.buckets=0"}) {
    EXPECT_EQ(parse(text).status().code(), absl::StatusCode::kInvalidArgument) << text;
  }
}

}  // namespace
}  // namespace skua::ycsb
