#include "kvstore/replication/gray_failures.h"

#include <gtest/gtest.h>

#include "kvstore/replication/view.h"
#include "tests/kvstore/replication/replica_group.h"

namespace skua::kv {
namespace {

constexpr ReplicaOptions kDefaults{};
constexpr LogLevels kNothing{};

class SlowMembers : public ::testing::Test {
 protected:
  SlowMembers() { peers_.match(testing::view_of(1, 1, {1, 2, 3}), 1, {}); }
  /// The members' latencies from now on.
  void measure(DurationNs of_2, DurationNs of_3) {
    for (const auto& [node, latency] : {std::pair{NodeId{2}, of_2}, std::pair{NodeId{3}, of_3}}) {
      peers_.find(node)->latency.begin(++index_, Durability::kMemory, 0);
      peers_.find(node)->latency.acked(LogLevels::all(index_), latency);
    }
  }
  bool slow(NodeId node, TimeNs now) { return GrayFailures::is_slow(*peers_.find(node), peers_, kDefaults, now); }

  PeerReplicas peers_;
  uint64_t index_ = 0;
};

TEST_F(SlowMembers, AreMuchSlowerThanTheFastestForSomeTime) {
  measure(kDefaults.slow_floor_ns, kDefaults.slow_floor_ns * kDefaults.slow_ratio + 1);
  EXPECT_FALSE(slow(3, 0));
  EXPECT_FALSE(slow(3, kDefaults.slow_after_ns));
  EXPECT_TRUE(slow(3, kDefaults.slow_after_ns + 1));
  EXPECT_FALSE(slow(2, 0));
  EXPECT_FALSE(slow(2, kDefaults.slow_after_ns + 1));
}

TEST_F(SlowMembers, AreNotThoseThatAreFastEnough) {
  measure(1, kDefaults.slow_floor_ns);
  EXPECT_FALSE(slow(3, 0));
  EXPECT_FALSE(slow(3, kDefaults.slow_after_ns + 1));
}

TEST_F(SlowMembers, AreNotAllOfThem) {
  measure(kSecond, 2 * kSecond);
  for (const NodeId node : {NodeId{2}, NodeId{3}}) {
    EXPECT_FALSE(slow(node, 0));
    EXPECT_FALSE(slow(node, kDefaults.slow_after_ns + 1));
  }
}

TEST(GrayFailures, ALogHangsIfItAloneLacksTheSameEntryForSomeTime) {
  GrayFailures watch;
  const DurationNs time = kDefaults.hung_after_ns;
  EXPECT_FALSE(watch.is_hung(2, 7, kDefaults, 100));
  EXPECT_FALSE(watch.is_hung(2, 7, kDefaults, 100 + time));
  EXPECT_TRUE(watch.is_hung(2, 7, kDefaults, 101 + time));
  EXPECT_FALSE(watch.is_hung(2, 8, kDefaults, 102 + time)) << "it gets on";
  EXPECT_FALSE(watch.is_hung(3, 8, kDefaults, 103 + 2 * time)) << "another one";
  EXPECT_FALSE(watch.is_hung(0, 8, kDefaults, 104 + 3 * time)) << "nobody";
  EXPECT_FALSE(watch.is_hung(0, 8, kDefaults, 105 + 5 * time));
}

TEST(GrayFailures, APauseIsNoHungLog) {
  GrayFailures watch;
  EXPECT_FALSE(watch.is_hung(2, 7, kDefaults, 100));
  watch.paused({200, 200 + kSecond * 9});
  EXPECT_FALSE(watch.is_hung(2, 7, kDefaults, 201 + kSecond * 9));
  EXPECT_TRUE(watch.is_hung(2, 7, kDefaults, 201 + kSecond * 9 + kDefaults.hung_after_ns));
}

TEST(GrayFailures, OnlyOneBehindIsFoundIfTheOthersHaveTheEntry) {
  PeerReplicas peers;
  peers.match(testing::view_of(1, 1, {1, 2, 3}), 1, {});
  const CommitQueue::Entry entry{7, Durability::kSync};
  EXPECT_EQ(peers.only_one_behind(entry, 1, kNothing), 0U) << "all lack it";
  peers.find(NodeId{2})->log.acknowledge(LogLevels::all(7));
  EXPECT_EQ(peers.only_one_behind(entry, 1, LogLevels::all(7)), 0U) << "3 has not received it: its link may be slow";
  peers.find(NodeId{3})->log.acknowledge({7, 0, 0});
  EXPECT_EQ(peers.only_one_behind(entry, 1, LogLevels::all(7)), 3U);
  EXPECT_EQ(peers.only_one_behind(entry, 1, kNothing), 0U) << "so has this log not";
  peers.find(NodeId{3})->log.acknowledge(LogLevels::all(7));
  EXPECT_EQ(peers.only_one_behind(entry, 1, kNothing), 1U) << "its own log";
  PeerReplicas nobody;
  EXPECT_EQ(nobody.only_one_behind(entry, 1, kNothing), 0U);
}

}  // namespace
}  // namespace skua::kv
