#include "kvstore/replication/ack_latency.h"

#include <gtest/gtest.h>

namespace skua::kv {
namespace {

TEST(AckLatency, MeasuresOneEntryUntilItIsAsSafeAsAsked) {
  AckLatency latency;
  EXPECT_EQ(latency.at(10), 0);
  latency.begin(7, Durability::kFlush, 100);
  latency.acked({7, 6, 6}, 150);
  EXPECT_TRUE(latency.is_measuring()) << "it is received only";
  EXPECT_EQ(latency.at(160), 60);
  latency.acked({7, 7, 6}, 180);
  EXPECT_FALSE(latency.is_measuring());
  EXPECT_EQ(latency.at(500), 80);
  latency.begin(8, Durability::kMemory, 500);
  latency.acked({8, 7, 7}, 500);
  EXPECT_EQ(latency.at(500), 70) << "an eighth of the way to the new sample";
}

TEST(AckLatency, APauseIsNotThePeersDelay) {
  AckLatency latency;
  latency.begin(7, Durability::kSync, 100);
  latency.paused({120, 1120});
  EXPECT_EQ(latency.at(1130), 30);
  latency.abandon();
  EXPECT_EQ(latency.at(9999), 0);
}

TEST(AckLatency, IsSlowForLongIfItIsSlowAtEachCheck) {
  AckLatency latency;
  EXPECT_FALSE(latency.is_slow_for_long(true, 100, 50));
  EXPECT_FALSE(latency.is_slow_for_long(true, 150, 50));
  EXPECT_TRUE(latency.is_slow_for_long(true, 151, 50));
  EXPECT_FALSE(latency.is_slow_for_long(false, 160, 50));
  EXPECT_FALSE(latency.is_slow_for_long(true, 170, 50));
  EXPECT_FALSE(latency.is_slow_for_long(true, 220, 50)) << "it was not slow at 160";
  latency.paused({220, 230});
  EXPECT_FALSE(latency.is_slow_for_long(true, 260, 50));
}

}  // namespace
}  // namespace skua::kv
