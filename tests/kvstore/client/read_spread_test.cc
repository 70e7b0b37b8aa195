#include "kvstore/client/read_spread.h"

#include <gtest/gtest.h>

#include <array>
#include <map>
#include <set>

namespace skua::kv {
namespace {

constexpr TargetId kPrimary = 0;
constexpr std::array<TargetId, 2> kBackups = {1, 2};

class ReadSpreadTest : public ::testing::Test {
 protected:
  TargetId choose(TimeNs now) {
    return spread_.choose(kPrimary, kBackups, now, rng_, [this](TargetId target) { return open_.contains(target); });
  }
  /// How often each is chosen of 3,000 times.
  std::map<TargetId, int> choose_often(TimeNs now) {
    std::map<TargetId, int> chosen;
    for (int i = 0; i < 3000; ++i) ++chosen[choose(now)];
    return chosen;
  }

  ReadSpread spread_;
  Rng rng_{1};
  std::set<TargetId> open_ = {0, 1, 2};
};

TEST_F(ReadSpreadTest, ReadsGoToAllReplicasAlike) {
  const auto chosen = choose_often(0);
  ASSERT_EQ(chosen.size(), 3u);
  for (const auto& [target, count] : chosen) EXPECT_NEAR(count, 1000, 150) << target;
}

TEST_F(ReadSpreadTest, ReplicasWithoutSessionGetNone) {
  open_ = {0, 2};
  EXPECT_FALSE(choose_often(0).contains(1));
  open_ = {};
  EXPECT_EQ(choose(0), kPrimary) << "it waits for its session";
}

TEST_F(ReadSpreadTest, ReplicaThatFailedPausesLongerEachTimeUntilItAnswers) {
  DurationNs before_ns = 0;
  TimeNs now = 0;
  for (int i = 0; i < 12; ++i) {
    spread_.failed(1, now);
    DurationNs pause_ns = kMillisecond;
    while (!choose_often(now + pause_ns).contains(1)) pause_ns += kMillisecond;
    EXPECT_GE(pause_ns, before_ns);
    EXPECT_LE(pause_ns, kSecond + kMillisecond);
    before_ns = pause_ns;
    now += pause_ns;
  }
  EXPECT_GE(before_ns, kSecond / 2) << "twice as long each time, up to a second";
  spread_.failed(1, now);
  spread_.answered(1);
  EXPECT_TRUE(choose_often(now).contains(1));
}

TEST_F(ReadSpreadTest, PrimaryIsAskedIfAllPause) {
  for (const TargetId target : {TargetId{0}, TargetId{1}, TargetId{2}}) spread_.failed(target, 0);
  EXPECT_EQ(choose(1), kPrimary);
}

}  // namespace
}  // namespace skua::kv
