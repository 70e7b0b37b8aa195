// The policies against a bottleneck in its dumbest form: a bucket that all flows pour into and that drains at a fixed
// rate.
//
//   window flows:  in flight = sum of windows;  queue = what exceeds capacity x base delay;  delay = base + queue / capacity
//   rate flows:    queue += (sum of rates - capacity) x step
#include "rpc/protocol/congestion.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <numeric>
#include <vector>

#include "rpc/protocol/congestion_swift.h"
#include "rpc/protocol/congestion_timely.h"
#include "rpc/protocol/pacer.h"

namespace skua::rpc {
namespace {

constexpr DurationNs kBaseNs = 10 * kMicrosecond;

/// Tight targets, whatever the defaults are.
SwiftOptions rack() {
  SwiftOptions out;
  out.queue_target_ns = 20 * kMicrosecond;
  out.scaling_range_ns = 40 * kMicrosecond;
  return out;
}

double jain_fairness(const std::vector<double>& shares) {
  const double sum = std::accumulate(shares.begin(), shares.end(), 0.0);
  double squares = 0;
  for (double share : shares) squares += share * share;
  return sum * sum / (static_cast<double>(shares.size()) * squares);
}

/// Flows with windows through a link that takes one packet in `packet_ns`.
class WindowBottleneck {
 public:
  WindowBottleneck(size_t flows, uint32_t window_max, DurationNs packet_ns, const SwiftOptions& options = rack())
      : packet_ns_(static_cast<double>(packet_ns)) {
    for (size_t i = 0; i < flows; ++i) {
      flows_.emplace_back(options, window_max);
      // Each has once seen the idle path.
      flows_.back().on_sample(kBaseNs, 1, now_);
    }
  }

  void run(int round_trips) {
    for (int i = 0; i < round_trips; ++i) {
      double in_flight = 0;
      for (const SwiftPolicy& flow : flows_) in_flight += flow.window();
      const double fits = static_cast<double>(kBaseNs) / packet_ns_;
      const double queue = std::max(in_flight - fits, 0.0);
      delay_ns_ = kBaseNs + static_cast<DurationNs>(queue * packet_ns_);
      use_ = std::min(in_flight / fits, 1.0);
      now_ += delay_ns_;
      for (SwiftPolicy& flow : flows_) {
        // Below one packet per round trip a flow gets a sample only now and then.
        if (flow.window() >= 1 || ++skipped_ % static_cast<int>(1 / flow.window()) == 0) {
          flow.on_sample(delay_ns_, std::max(static_cast<uint32_t>(flow.window()), 1u), now_);
        }
      }
    }
  }

  std::vector<double> windows() const {
    std::vector<double> out;
    for (const SwiftPolicy& flow : flows_) out.push_back(flow.window());
    return out;
  }

  std::vector<SwiftPolicy> flows_;
  TimeNs now_ = kSecond;
  DurationNs delay_ns_ = 0;
  double use_ = 0;

 private:
  const double packet_ns_;
  int skipped_ = 0;
};

// --- Swift -----------------------------------------------------------------------------------------------------------

TEST(Swift, IdlePath_IsNoLimitAndQuiet) {
  SwiftPolicy policy(rack(), 64);
  policy.on_sample(kBaseNs, 1, kSecond);
  const CongestionLimits limits = policy.limits();
  EXPECT_GE(limits.window_packets, 64u);
  EXPECT_FALSE(limits.paced());
  EXPECT_EQ(limits.quiet_from_ns, kBaseNs);
  EXPECT_EQ(limits.quiet_until_ns, policy.target_ns());
  EXPECT_GT(limits.quiet_until_ns, kBaseNs);
}

TEST(Swift, Limits_BeforeTheFirstSampleNothingIsQuiet) {
  const CongestionLimits limits = SwiftPolicy(rack(), 64).limits();
  EXPECT_LE(limits.quiet_until_ns, limits.quiet_from_ns);
  EXPECT_GE(limits.window_packets, 64u);
}

TEST(Swift, Sample_AboveTargetShrinksOncePerRoundTrip) {
  SwiftPolicy policy(rack(), 64);
  policy.on_sample(kBaseNs, 1, kSecond);
  const DurationNs high = 4 * policy.target_ns();
  policy.on_sample(high, 1, kSecond + high);
  const double once = policy.window();
  EXPECT_LT(once, 64);
  policy.on_sample(high, 1, kSecond + high + high / 2);
  EXPECT_EQ(policy.window(), once);
  policy.on_sample(high, 1, kSecond + 2 * high);
  EXPECT_LT(policy.window(), once);
}

TEST(Swift, Sample_ShrinksInProportionAndAtMostByHalf) {
  const SwiftOptions options = rack();
  SwiftPolicy slightly(options, 64);
  slightly.on_sample(kBaseNs, 1, kSecond);
  const DurationNs target = slightly.target_ns();
  slightly.on_sample(target + target / 10, 1, 2 * kSecond);
  EXPECT_NEAR(slightly.window(), 64 * (1 - options.decrease * (0.1 / 1.1)), 0.1);
  SwiftPolicy badly(options, 64);
  badly.on_sample(kBaseNs, 1, kSecond);
  badly.on_sample(kSecond, 1, 2 * kSecond);
  EXPECT_DOUBLE_EQ(badly.window(), 64 * (1 - options.decrease_max));
}

TEST(Swift, Window_BelowOneBecomesAGap) {
  SwiftPolicy policy(rack(), 1);
  policy.on_sample(kBaseNs, 1, kSecond);
  TimeNs now = 2 * kSecond;
  for (int i = 0; i < 2; ++i) policy.on_sample(100 * kMicrosecond, 1, now += kMillisecond);
  EXPECT_LT(policy.window(), 1);
  const CongestionLimits limits = policy.limits();
  EXPECT_EQ(limits.window_packets, 1u);
  EXPECT_TRUE(limits.paced());
  EXPECT_GT(limits.packet_gap_ns, kBaseNs);
}

TEST(Swift, Window_NeverBelowItsLeastNorGapsAboveTheirs) {
  const SwiftOptions options = rack();
  SwiftPolicy policy(options, 64);
  policy.on_sample(kBaseNs, 1, kSecond);
  for (int i = 1; i < 100; ++i) policy.on_sample(10 * kMillisecond, 1, kSecond + i * 20 * kMillisecond);
  EXPECT_DOUBLE_EQ(policy.window(), options.window_min_packets);
  EXPECT_EQ(policy.limits().packet_gap_ns, options.gap_max_ns);
}

TEST(Swift, Window_ComesBackFromItsLeastInAFewRoundTrips) {
  SwiftPolicy policy(rack(), 64);
  policy.on_sample(kBaseNs, 1, kSecond);
  for (int i = 1; i < 100; ++i) policy.on_sample(10 * kMillisecond, 1, kSecond + i * 20 * kMillisecond);
  TimeNs now = 10 * kSecond;
  int round_trips = 0;
  for (; policy.limits().window_packets < 64; ++round_trips) {
    ASSERT_LT(round_trips, 200);
    policy.on_sample(kBaseNs, std::max(static_cast<uint32_t>(policy.window()), 1u), now += kBaseNs);
  }
  EXPECT_LE(round_trips, 70);  // one packet per round trip
}

TEST(Swift, Loss_OfAFewWithoutDelayIsDamage) {
  SwiftPolicy policy(rack(), 64);
  policy.on_sample(kBaseNs, 1, kSecond);
  for (int i = 0; i < 1000; ++i) policy.on_loss(1, 99, kSecond + i * kMillisecond);
  EXPECT_EQ(policy.window(), 64);
}

TEST(Swift, Loss_OfManyOrWithDelayShrinks) {
  SwiftPolicy many(rack(), 64);
  many.on_sample(kBaseNs, 1, kSecond);
  for (int i = 0; i < 100; ++i) many.on_loss(1, 9, kSecond + i * kMillisecond);
  EXPECT_LT(many.window(), 32);

  SwiftPolicy delayed(rack(), 64);
  delayed.on_sample(kBaseNs, 1, kSecond);
  const DurationNs high = 2 * delayed.target_ns();
  delayed.on_sample(high, 1, 2 * kSecond);
  const double before = delayed.window();
  delayed.on_loss(1, 1000, 2 * kSecond + kMicrosecond);
  EXPECT_EQ(delayed.window(), before) << "twice in one round trip";
  delayed.on_sample(high, 1, 2 * kSecond + high - kMicrosecond);
  delayed.on_loss(1, 1000, 2 * kSecond + high);
  EXPECT_LT(delayed.window(), before);
}

TEST(Swift, Timeout_ManyInARowLeaveTheLeast) {
  const SwiftOptions options = rack();
  SwiftPolicy policy(options, 64);
  policy.on_sample(kBaseNs, 1, kSecond);
  policy.on_timeout(2 * kSecond);
  EXPECT_DOUBLE_EQ(policy.window(), 32);
  policy.on_sample(kBaseNs, 1, 2 * kSecond + kMillisecond);  // an answer: the row begins anew
  for (uint32_t i = 0; i + 1 < options.timeouts_to_reset; ++i) policy.on_timeout(3 * kSecond + i * kMillisecond);
  EXPECT_GT(policy.window(), options.window_min_packets);
  policy.on_timeout(4 * kSecond);
  EXPECT_DOUBLE_EQ(policy.window(), options.window_min_packets);
}

TEST(Swift, Path_IsForgottenWhenTheRouteChanges) {
  SwiftPolicy policy(rack(), 64);
  policy.on_sample(kBaseNs, 1, kSecond);
  const DurationNs longer = 10 * kBaseNs;
  TimeNs now = kSecond;
  for (int i = 0; i < 1000; ++i) policy.on_sample(longer, 10, now += 100 * kMillisecond);
  EXPECT_EQ(policy.path_ns(), longer);
  EXPECT_EQ(policy.window(), 64);
}

TEST(Swift, Path_ConfiguredIsBelieved) {
  SwiftOptions options = rack();
  options.path_ns = 5 * kBaseNs;
  SwiftPolicy policy(options, 64);
  policy.on_sample(kBaseNs, 1, kSecond);
  EXPECT_EQ(policy.path_ns(), 5 * kBaseNs);
  EXPECT_EQ(policy.limits().quiet_from_ns, 0);
  EXPECT_GT(policy.limits().quiet_until_ns, 5 * kBaseNs);
}

TEST(Swift, Path_IsRememberedOverAPause) {
  SwiftPolicy policy(rack(), 64);
  policy.on_sample(kBaseNs, 1, kSecond);
  policy.on_sample(50 * kBaseNs, 1, 3600 * kSecond);
  EXPECT_EQ(policy.path_ns(), kBaseNs);
  EXPECT_LT(policy.window(), 64);
}

TEST(Swift, Bottleneck_QueueStaysAtTheTargetAndTheLinkIsFull) {
  // 25 Gbit/s and packets of 1 KiB: the path alone holds 30 packets.
  for (const size_t flows : {1u, 4u, 16u, 64u}) {
    SCOPED_TRACE(flows);
    WindowBottleneck link(flows, 256, 335);
    link.run(2000);
    for (int i = 0; i < 50; ++i) {
      link.run(1);
      EXPECT_GE(link.use_, 0.95);
      EXPECT_LE(link.delay_ns_, 2 * link.flows_.front().target_ns());
    }
    EXPECT_GE(jain_fairness(link.windows()), 0.9);
  }
}

TEST(Swift, Bottleneck_HundredsOfFlowsShareByFractions) {
  WindowBottleneck link(1000, 64, 335);
  link.run(5000);
  EXPECT_LT(link.flows_.front().window(), 1);
  EXPECT_GE(link.use_, 0.95);
  // Fluid flows that all see one delay move together and overshoot together: within a few targets is what can be asked.
  EXPECT_LE(link.delay_ns_, 5 * link.flows_.front().target_ns());
}

TEST(Swift, Bottleneck_ALateFlowGetsItsShare) {
  WindowBottleneck link(2, 256, 335);
  for (int i = 0; i < 5; ++i) link.flows_[1].on_timeout(link.now_ + i * kMillisecond);
  EXPECT_LT(link.flows_[1].window(), 1);
  link.run(5000);
  EXPECT_GE(jain_fairness(link.windows()), 0.9);
}

// --- Timely ----------------------------------------------------------------------------------------------------------

TEST(Timely, FullRate_IsNoLimitAndQuietBelowLow) {
  const TimelyOptions options;
  TimelyPolicy policy(options);
  EXPECT_FALSE(policy.limits().paced());
  EXPECT_EQ(policy.limits().quiet_until_ns, options.low_ns);
}

TEST(Timely, Sample_AboveHighShrinksTowardsIt) {
  const TimelyOptions options;
  TimelyPolicy policy(options);
  policy.on_sample(2 * options.high_ns, 1, kSecond);
  policy.on_sample(2 * options.high_ns, 1, kSecond + kMillisecond);
  EXPECT_NEAR(policy.rate_bytes_per_s(), options.rate_max_bytes_per_s * (1 - options.decrease * 0.5), 1);
  EXPECT_TRUE(policy.limits().paced());
}

TEST(Timely, Sample_GrowsBelowLowAndFasterWhenCalm) {
  const TimelyOptions options;
  TimelyPolicy policy(options);
  TimeNs now = kSecond;
  for (int i = 0; i < 200; ++i) policy.on_sample(10 * options.high_ns, 1, now += kMillisecond);
  EXPECT_DOUBLE_EQ(policy.rate_bytes_per_s(), options.rate_min_bytes_per_s);
  const double least = policy.rate_bytes_per_s();
  policy.on_sample(options.low_ns - 1, 1, now += kMillisecond);
  EXPECT_NEAR(policy.rate_bytes_per_s(), least + options.add_bytes_per_s, 1);
  // Between low and high with a falling delay: after five samples five steps at once.
  const double before = policy.rate_bytes_per_s();
  for (int i = 0; i < 5; ++i) policy.on_sample(options.low_ns, 1, now += kMillisecond);
  EXPECT_NEAR(policy.rate_bytes_per_s(), before + 9 * options.add_bytes_per_s, 1);
}

TEST(Timely, Sample_RisingDelayShrinksByItsGradient) {
  const TimelyOptions options;
  TimelyPolicy policy(options);
  policy.on_sample(100 * kMicrosecond, 1, kSecond);
  policy.on_sample(101 * kMicrosecond, 1, kSecond + kMillisecond);
  const double gradient = options.ewma * 1000 / static_cast<double>(options.min_rtt_ns);
  EXPECT_NEAR(policy.rate_bytes_per_s(), options.rate_max_bytes_per_s * (1 - options.decrease * gradient), 1);
}

TEST(Timely, Sample_NoneTakesAwayMoreThanHalf) {
  TimelyPolicy policy({});
  policy.on_sample(60 * kMicrosecond, 1, kSecond);
  policy.on_sample(900 * kMicrosecond, 1, kSecond + kMillisecond);
  EXPECT_GE(policy.rate_bytes_per_s(), TimelyOptions().rate_max_bytes_per_s / 2);
}

TEST(Timely, Bottleneck_QueueStaysBoundedAndTheLinkBusy) {
  constexpr double kCapacity = 3.125e9;  // 25 Gbit/s
  constexpr DurationNs kStepNs = 20 * kMicrosecond;
  for (const size_t flows : {1u, 4u, 16u}) {
    SCOPED_TRACE(flows);
    TimelyOptions options;
    options.min_rtt_ns = 20 * kMicrosecond;
    options.rate_max_bytes_per_s = kCapacity;
    std::vector<TimelyPolicy> policies(flows, TimelyPolicy(options));
    double queue_bytes = 0;
    double carried = 0;
    TimeNs now = kSecond;
    constexpr int kSteps = 50'000;
    for (int step = 0; step < kSteps; ++step) {
      double rate = 0;
      for (const TimelyPolicy& policy : policies) rate += policy.rate_bytes_per_s();
      const double arrived = rate * kStepNs / 1e9;
      const double drained = std::min(queue_bytes + arrived, kCapacity * kStepNs / 1e9);
      queue_bytes += arrived - drained;
      if (step >= kSteps / 2) carried += drained;
      const auto delay = kBaseNs + static_cast<DurationNs>(queue_bytes / kCapacity * 1e9);
      now += kStepNs;
      for (TimelyPolicy& policy : policies) policy.on_sample(delay, 1, now);
      if (step >= kSteps / 2) {
        EXPECT_LE(delay, 2 * options.high_ns);
      }
    }
    EXPECT_GE(carried / (kCapacity * (kSteps / 2.0) * kStepNs / 1e9), 0.8);
  }
}

// --- The factory, the pacer ------------------------------------------------------------------------------------------

TEST(MakeCongestionPolicy, ByName) {
  ProtocolOptions options;
  options.congestion = CongestionControl::kNone;
  EXPECT_EQ(make_congestion_policy(options, 64), nullptr);
  options.congestion = CongestionControl::kSwift;
  EXPECT_NE(dynamic_cast<SwiftPolicy*>(make_congestion_policy(options, 64).get()), nullptr);
  options.congestion = CongestionControl::kTimely;
  EXPECT_NE(dynamic_cast<TimelyPolicy*>(make_congestion_policy(options, 64).get()), nullptr);
}

TEST(IsValid, DefaultsAreAndNonsenseIsNot) {
  EXPECT_TRUE(is_valid(SwiftOptions()));
  EXPECT_TRUE(is_valid(TimelyOptions()));
  SwiftOptions swift;
  swift.scaling_window_min = swift.scaling_window_max;
  EXPECT_FALSE(is_valid(swift));
  TimelyOptions timely;
  timely.low_ns = timely.high_ns + 1;
  EXPECT_FALSE(is_valid(timely));
}

TEST(Pacer, GapPerPacketAndPerByte) {
  Pacer pacer;
  CongestionLimits limits;
  limits.packet_gap_ns = 100 * kMicrosecond;
  limits.byte_gap_ps = 8000;  // 1 Gbit/s
  TimeNs now = kSecond;
  ASSERT_TRUE(pacer.due(now));
  pacer.charge(limits, 1000, now);
  EXPECT_FALSE(pacer.due(now));
  EXPECT_EQ(pacer.departure_ns(), now - Pacer::kBurstNs + 108 * kMicrosecond);
}

TEST(Pacer, Burst_RateHoldsAlthoughTurnsAreLate) {
  Pacer pacer;
  CongestionLimits limits;
  limits.packet_gap_ns = kMicrosecond;
  int sent = 0;
  for (TimeNs now = kSecond; now < kSecond + kMillisecond; now += 7300) {
    while (pacer.due(now)) {
      pacer.charge(limits, 0, now);
      ++sent;
    }
  }
  EXPECT_NEAR(sent, 1000, 15);
}

TEST(Pacer, Idle_ForAnHourSavesOneBurst) {
  Pacer pacer;
  CongestionLimits limits;
  limits.packet_gap_ns = kMicrosecond;
  pacer.charge(limits, 0, kSecond);
  const TimeNs later = 3600 * kSecond;
  int sent = 0;
  for (; pacer.due(later); ++sent) pacer.charge(limits, 0, later);
  EXPECT_EQ(sent, 1 + Pacer::kBurstNs / kMicrosecond);
}

}  // namespace
}  // namespace skua::rpc
