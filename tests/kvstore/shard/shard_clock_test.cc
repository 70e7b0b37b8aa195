#include "kvstore/shard/shard_clock.h"

#include <gtest/gtest.h>

#include <vector>

#include "rpc/base/rng.h"

namespace skua::kv {
namespace {

constexpr uint64_t kUnix = uint64_t{1'700'000'000'000};

TEST(ShardClock, BeginsWithTheWallClock) {
  const ShardClock clock;
  EXPECT_EQ(clock.now_ms(5, kUnix), kUnix);
  EXPECT_EQ(clock.stamp_ms(5, kUnix), kUnix);
}

TEST(ShardClock, GoesOnFromTheLastRecord) {
  ShardClock clock;
  clock.saw(1000, 50);
  EXPECT_EQ(clock.now_ms(50, kUnix), 1000);
  EXPECT_EQ(clock.now_ms(57, 0), 1007);
  clock.saw(900, 60);
  EXPECT_EQ(clock.now_ms(61, kUnix), 901);
}

TEST(ShardClock, StampsStayWithinWhatAReplicaTakes) {
  ShardClock clock;
  clock.saw(kEntryTimeMsMax, 50);
  EXPECT_EQ(clock.stamp_ms(60, kUnix), kEntryTimeMsMax);
  EXPECT_EQ(clock.now_ms(60, kUnix), kEntryTimeMsMax + 10) << "and clients are forgotten all the same";
}

/// Nodes lead in turn, get records late, restart, and have wall clocks that show anything.
TEST(ShardClock, NeverShowsMoreThanThePassedTime) {
  struct Node {
    ShardClock clock;
    uint64_t booted_ms = 0;
    size_t has = 0;  // records
  };
  struct Record {
    uint64_t made_ms;  // by a clock that is right
    uint64_t stamp_ms;
  };
  for (uint64_t seed = 0; seed < 200; ++seed) {
    Rng rng(seed);
    std::vector<Node> nodes(3);
    std::vector<Record> log;
    for (uint64_t now_ms = 1; now_ms < 100'000; now_ms += rng.below(2000)) {
      Node& node = nodes[rng.below(nodes.size())];
      const auto steady_ms = [&] { return now_ms - node.booted_ms; };
      if (rng.chance(0.1)) node = {.clock = {}, .booted_ms = now_ms};
      while (node.has < log.size()) node.clock.saw(log[node.has++].stamp_ms, steady_ms());
      const uint64_t unix_ms = rng.below(1'000'000'000);
      for (const Record& record : log) {
        const uint64_t shown_ms = node.clock.now_ms(steady_ms(), unix_ms);
        ASSERT_LE(shown_ms, record.stamp_ms + (now_ms - record.made_ms)) << "seed " << seed;
      }
      if (!rng.chance(0.5)) continue;
      log.push_back({now_ms, node.clock.stamp_ms(steady_ms(), unix_ms)});
      node.clock.saw(log.back().stamp_ms, steady_ms());
      ++node.has;
    }
  }
}

TEST(LivedTime, CountsWhatPassed) {
  LivedTime lived;
  EXPECT_EQ(lived.at(700 * kSecond), 0);
  EXPECT_EQ(lived.at(700 * kSecond + 1500 * kMicrosecond), 1);
  EXPECT_EQ(lived.at(700 * kSecond + 2000 * kMicrosecond), 2);
}

TEST(LivedTime, AWorkerThatStoodStillIsNoOlder) {
  LivedTime lived;
  EXPECT_EQ(lived.at(kSecond), 0);
  EXPECT_EQ(lived.at(3600 * kSecond), 1000);
  EXPECT_EQ(lived.at(2 * kSecond), 1000) << "a clock that goes back";
}

}  // namespace
}  // namespace skua::kv
