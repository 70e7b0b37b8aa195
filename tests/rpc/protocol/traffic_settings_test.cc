#include "rpc/protocol/traffic_settings.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "rpc/protocol/options.h"

namespace skua::rpc {
namespace {

using testing::HasSubstr;

ProtocolOptions applied(const TrafficSettings& settings) {
  ProtocolOptions options;
  settings.apply(options);
  return options;
}

TEST(TrafficSettings, DefaultsChangeNothing) {
  EXPECT_TRUE(TrafficSettings().check().ok());
  const ProtocolOptions untouched;
  const ProtocolOptions options = applied({});
  EXPECT_EQ(options.congestion, untouched.congestion);
  EXPECT_EQ(options.swift.queue_target_ns, untouched.swift.queue_target_ns);
  EXPECT_EQ(options.receive_budget_bytes, untouched.receive_budget_bytes);
  EXPECT_EQ(options.path_bytes, untouched.path_bytes);
  EXPECT_EQ(options.timely.rate_max_bytes_per_s, untouched.timely.rate_max_bytes_per_s);
}

TEST(TrafficSettings, LinkSetsBudgetCreditsAndTimelysRate) {
  TrafficSettings settings;
  settings.link_gigabits_per_s = 25;
  const ProtocolOptions options = applied(settings);
  EXPECT_EQ(options.receive_budget_bytes, 62'500u);
  EXPECT_EQ(options.path_bytes, 62'500u);
  EXPECT_EQ(options.timely.rate_max_bytes_per_s, 3.125e9);
  EXPECT_TRUE(is_valid(options.swift) && is_valid(options.timely));
}

TEST(TrafficSettings, GivenBudgetBeatsTheLinks) {
  TrafficSettings settings;
  settings.link_gigabits_per_s = 100;
  settings.path_delay_ns = 50 * kMicrosecond;
  settings.receive_budget_bytes = 4096;
  const ProtocolOptions options = applied(settings);
  EXPECT_EQ(options.receive_budget_bytes, 4096u);
  EXPECT_EQ(options.path_bytes, 625'000u);
}

TEST(TrafficSettings, EveryCheckedSettingMakesValidOptions) {
  for (const uint32_t link : {0u, 1u, TrafficSettings::kLinkGigabitsMax}) {
    for (const DurationNs delay : {kMicrosecond, TrafficSettings::kDelayMax}) {
      TrafficSettings settings;
      settings.link_gigabits_per_s = link;
      settings.path_delay_ns = settings.queue_target_ns = delay;
      ASSERT_TRUE(settings.check().ok());
      const ProtocolOptions options = applied(settings);
      EXPECT_TRUE(is_valid(options.swift) && is_valid(options.timely)) << link << " Gbit/s, " << delay << " ns";
      EXPECT_GT(options.receive_budget_bytes, 0u);
    }
  }
}

TEST(TrafficSettings, CheckNamesTheSetting) {
  TrafficSettings settings;
  settings.queue_target_ns = 0;
  EXPECT_THAT(std::string(settings.check().message()), HasSubstr("queue target"));
  settings = {};
  settings.path_delay_ns = 2 * kSecond;
  EXPECT_THAT(std::string(settings.check().message()), HasSubstr("path delay"));
  settings = {};
  settings.link_gigabits_per_s = TrafficSettings::kLinkGigabitsMax + 1;
  EXPECT_THAT(std::string(settings.check().message()), HasSubstr("Gbit/s"));
}

TEST(SessionCredits, AsGivenWithoutAPath) {
  ProtocolOptions options;
  options.credits = 16;
  EXPECT_EQ(session_credits(options, 1024, 10), 16u);
}

TEST(SessionCredits, BandwidthTimesDelayInPackets) {
  ProtocolOptions options;
  options.path_bytes = bandwidth_delay_bytes(100, 80 * kMicrosecond);  // 1,000,000
  EXPECT_EQ(session_credits(options, 1000, 1'000'000), 1000u);
  EXPECT_EQ(session_credits(options, 1001, 1'000'000), 1000u) << "a part of a packet is a packet";
}

TEST(SessionCredits, NeverBelowTheDefaultNorAboveWhatAWindowHolds) {
  ProtocolOptions options;
  options.path_bytes = 10'000;
  EXPECT_EQ(session_credits(options, 8000, 1'000'000), options.credits);
  options.path_bytes = bandwidth_delay_bytes(400, kMillisecond);
  EXPECT_EQ(session_credits(options, 1000, 1'000'000), kCreditsMax);
}

TEST(SessionCredits, NeverMoreThanHalfTheRing) {
  ProtocolOptions options;
  options.path_bytes = 1'000'000;
  EXPECT_EQ(session_credits(options, 1000, 1024), 512u);
  EXPECT_EQ(session_credits(options, 1000, 60), 30u) << "also below the default";
  EXPECT_EQ(session_credits(options, 1000, 1), 1u);
}

}  // namespace
}  // namespace skua::rpc
