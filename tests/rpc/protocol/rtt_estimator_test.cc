#include "rpc/protocol/rtt_estimator.h"

#include <gtest/gtest.h>

#include "rpc/base/rng.h"

namespace skua::rpc {
namespace {

ProtocolOptions options() {
  ProtocolOptions out;
  out.rto_initial_ns = 5 * kMillisecond;
  out.rto_min_ns = 200 * kMicrosecond;
  out.rto_max_ns = 500 * kMillisecond;
  return out;
}

TEST(RttEstimator, ProbeTimeout_FirstGuessWithoutSamples) {
  const RttEstimator rtt;
  EXPECT_FALSE(rtt.has_sample());
  EXPECT_EQ(rtt.probe_timeout_ns(options(), 0), 5 * kMillisecond);
}

TEST(RttEstimator, AddSample_FirstOneAsRfc6298) {
  RttEstimator rtt;
  rtt.add_sample(kMillisecond);
  EXPECT_EQ(rtt.srtt_ns(), kMillisecond);
  EXPECT_EQ(rtt.probe_timeout_ns(options(), 0), 3 * kMillisecond);  // srtt + 4 * srtt / 2
}

TEST(RttEstimator, AddSample_LaterOnesAsRfc6298) {
  RttEstimator rtt;
  rtt.add_sample(8000);
  rtt.add_sample(16'000);
  // rttvar = 3/4 * 4000 + 1/4 * |8000 - 16000|, srtt = 7/8 * 8000 + 1/8 * 16000.
  EXPECT_EQ(rtt.srtt_ns(), 9000);
  ProtocolOptions fine = options();
  fine.rto_min_ns = 1;
  EXPECT_EQ(rtt.probe_timeout_ns(fine, 0), 9000 + 4 * 5000);
}

TEST(RttEstimator, AddSample_NegativeCountsAsZero) {
  RttEstimator rtt;
  rtt.add_sample(-5);
  EXPECT_TRUE(rtt.has_sample());
  EXPECT_EQ(rtt.srtt_ns(), 0);
}

TEST(RttEstimator, AddSample_ConvergesOnASteadyDelay) {
  RttEstimator rtt;
  rtt.add_sample(100 * kMillisecond);
  for (int i = 0; i < 200; ++i) rtt.add_sample(10 * kMicrosecond);
  EXPECT_NEAR(static_cast<double>(rtt.srtt_ns()), 10'000, 100);
  EXPECT_EQ(rtt.probe_timeout_ns(options(), 0), options().rto_min_ns);
}

TEST(RttEstimator, ProbeTimeout_DoublesUpToTheMaximum) {
  RttEstimator rtt;
  rtt.add_sample(kMillisecond);
  DurationNs expected = 3 * kMillisecond;
  for (uint32_t probes = 0; probes < 40; ++probes) {
    EXPECT_EQ(rtt.probe_timeout_ns(options(), probes), std::min(expected, options().rto_max_ns));
    if (expected < options().rto_max_ns) expected *= 2;
  }
  EXPECT_EQ(rtt.probe_timeout_ns(options(), UINT32_MAX), options().rto_max_ns);
}

TEST(RttEstimator, ProbeTimeout_WithinItsBoundsForAnySamples) {
  Rng rng(1);
  for (int round = 0; round < 200; ++round) {
    RttEstimator rtt;
    for (int i = 0; i < 50; ++i) {
      rtt.add_sample(static_cast<DurationNs>(rng.below(uint64_t{1} << rng.below(40))));
      const DurationNs timeout = rtt.probe_timeout_ns(options(), static_cast<uint32_t>(rng.below(20)));
      ASSERT_GE(timeout, options().rto_min_ns);
      ASSERT_LE(timeout, options().rto_max_ns);
      ASSERT_GE(rtt.reorder_window_ns(), 2 * kMicrosecond);
    }
  }
}

TEST(RttEstimator, ReorderWindow_QuarterOfTheRoundTrip) {
  RttEstimator rtt;
  EXPECT_EQ(rtt.reorder_window_ns(), kMillisecond);
  rtt.add_sample(400 * kMicrosecond);
  EXPECT_EQ(rtt.reorder_window_ns(), 100 * kMicrosecond);
}

}  // namespace
}  // namespace skua::rpc
