// Rehearsals: who makes them, when, and that nobody else notices.
#include "gtest/gtest.h"
#include "tests/rpc/endpoint/small_calls_net.h"

namespace skua::rpc::testing {
namespace {

class RehearsalTest : public SmallCallsNet {
 protected:
  RehearsalTest() { caller_options_.spin_ns = server_options_.spin_ns = kTimeNever; }

  /// Looks at the wire every millisecond, as an endpoint that never sleeps does more often still.
  void spin_for(DurationNs time_ns) {
    for (DurationNs spent = 0; spent < time_ns; spent += kMillisecond) run_for(kMillisecond);
  }
  [[nodiscard]] size_t rehearsals() const {
    return static_cast<size_t>(std::count_if(records_.begin(), records_.end(), [](const Record& one) {
      return one.head.kind == RecordKind::kRequest && one.head.method == kRehearsalMethod;
    }));
  }
};

TEST_F(RehearsalTest, WithoutCalls_OneAnInterval) {
  join();
  const EndpointCounters caller = caller_->counters();
  const EndpointCounters server = server_->counters();
  spin_for(20 * caller_options_.rehearsal_interval_ns);
  EXPECT_GE(rehearsals(), 15u);
  EXPECT_LE(rehearsals(), 20u);
  EXPECT_EQ(records(RecordKind::kResponse), rehearsals());
  EXPECT_EQ(caller_->counters().calls_started, caller.calls_started);
  EXPECT_EQ(caller_->counters().calls_completed, caller.calls_completed);
  EXPECT_EQ(server_->counters().requests_served, server.requests_served);
  EXPECT_TRUE(echoes("and then a call"));
  expect_rest();
}
TEST_F(RehearsalTest, WithCalls_None) {
  join();
  for (int i = 0; i < 100; ++i) {
    EXPECT_TRUE(echoes("a call"));
    spin_for(kMillisecond);
  }
  EXPECT_LE(rehearsals(), 1u) << "the first interval began before the calls";
  expect_rest();
}
TEST_F(RehearsalTest, WhoSleeps_MakesNone) {
  caller_options_.spin_ns = 50 * kMicrosecond;
  join();
  spin_for(kSecond);
  EXPECT_EQ(rehearsals(), 0u);
}
TEST_F(RehearsalTest, ZeroIsNever) {
  caller_options_.rehearsal_interval_ns = 0;
  join();
  spin_for(kSecond);
  EXPECT_EQ(rehearsals(), 0u);
}
TEST_F(RehearsalTest, APeerWithoutBundles_IsLeftAlone) {
  server_options_.bundles = false;
  start();
  packets_.clear();
  spin_for(200 * kMillisecond);
  EXPECT_EQ(packets(PacketType::kRequest), 0u);
  EXPECT_TRUE(echoes("a call"));
  expect_rest();
}
TEST_F(RehearsalTest, ALostOne_EndsLikeAnyCall) {
  join();
  loses_bundles_ = true;
  spin_for(3 * caller_options_.rehearsal_interval_ns);
  loses_bundles_ = false;
  spin_for(2 * kSecond);
  EXPECT_TRUE(echoes("a call"));
  expect_rest();
}

}  // namespace
}  // namespace skua::rpc::testing
