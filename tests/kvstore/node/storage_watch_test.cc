#include "kvstore/node/storage_watch.h"

#include <gtest/gtest.h>

namespace skua::kv {
namespace {

constexpr uint64_t kMiB = uint64_t{1} << 20;

TEST(GrowthGate, Look_TellsChangesOnlyAndWhatIsFull) {
  GrowthGate gate("/data", 80 * kMiB);
  EXPECT_FALSE(gate.look(100 * kMiB).has_value());
  EXPECT_FALSE(gate.look(80 * kMiB).has_value());
  const auto closed = gate.look(79 * kMiB);
  ASSERT_TRUE(closed.has_value());
  EXPECT_TRUE(absl::IsResourceExhausted(*closed));
  for (const char* word : {"/data", "79 MiB", "80 MiB", "--disk-reserve"}) {
    EXPECT_NE(closed->ToString().find(word), std::string::npos) << word;
  }
  EXPECT_FALSE(gate.look(0).has_value());
}

TEST(GrowthGate, Look_OpensAgainAnEighthAbove) {
  GrowthGate gate("/data", 80 * kMiB);
  ASSERT_TRUE(gate.look(0).has_value());
  EXPECT_FALSE(gate.look(89 * kMiB).has_value());
  const auto open = gate.look(90 * kMiB);
  ASSERT_TRUE(open.has_value());
  EXPECT_TRUE(open->ok());
  EXPECT_FALSE(gate.look(85 * kMiB).has_value());
}

TEST(SlowToLeave, TellsWhatAShardWaitsForAfterAWhile) {
  const std::vector<LeavingShard> leaving = {{{3, 1}, 1'000, "a disk"}, {{3, 2}, 9'000, "a request"}};
  EXPECT_EQ(slow_to_leave(leaving, 10'999), "");
  EXPECT_EQ(slow_to_leave(leaving, 11'000), "shard 3-1 has been leaving for 10 s: a disk");
  EXPECT_EQ(slow_to_leave(leaving, 20'000),
            "shard 3-1 has been leaving for 19 s: a disk; shard 3-2 has been leaving for 11 s: a request");
  EXPECT_EQ(slow_to_leave({}, 20'000), "");
}

TEST(RefusedByPeers, TellsTheFirstAndHowManyMoreAndTheWayOut) {
  EXPECT_EQ(refused_by_peers({}), "");
  const std::string one = refused_by_peers({"worker 1 of node abc refuses"});
  EXPECT_EQ(one.find("worker 1 of node abc refuses; shards go on"), 0U) << one;
  EXPECT_NE(one.find("--message-memory"), std::string::npos);
  const std::string many = refused_by_peers({"worker 1 of node abc refuses", "worker 2", "worker 3"});
  EXPECT_EQ(many.find("worker 1 of node abc refuses; so do 2 more workers; shards go on"), 0U) << many;
}

TEST(TroubledDatabases, TellsWhichAndWhyAndTheWayOut) {
  EXPECT_EQ(troubled_databases({}), "");
  const absl::Status full = absl::ResourceExhaustedError("No space left on device");
  const std::string passing = troubled_databases({{{3, 1}, full, absl::OkStatus()}});
  for (const char* word : {"shard 3-1", "No space left", "tried again", "Free space"}) {
    EXPECT_NE(passing.find(word), std::string::npos) << word;
  }
  const std::string failed =
      troubled_databases({{{3, 2}, absl::OkStatus(), absl::InternalError("Input/output error")}});
  for (const char* word : {"shard 3-2", "Input/output error", "start the node again"}) {
    EXPECT_NE(failed.find(word), std::string::npos) << word;
  }
  EXPECT_EQ(failed.find("tried again"), std::string::npos);
  const std::vector<TroubledShard> many(100, {{3, 1}, full, absl::OkStatus()});
  EXPECT_NE(troubled_databases(many).find("so do 97 more shards"), std::string::npos);
  const std::string damaged =
      troubled_databases({{{3, 3}, absl::OkStatus(), absl::DataLossError("its data are of no use to a replica")}});
  EXPECT_NE(damaged.find("skuactl store verify"), std::string::npos) << damaged;
  EXPECT_EQ(damaged.find("What was acknowledged is kept"), std::string::npos) << damaged;
}

TEST(UnservedShards, TellsWhichAndWhyAndTheWayOut) {
  EXPECT_EQ(unserved_shards({}), "");
  const UnservedShard full{absl::ResourceExhaustedError("No space left on device"), true};
  const std::string told = unserved_shards({{{3, 1}, full}, {{3, 2}, full}, {{3, 3}, full}, {{3, 4}, full}});
  for (const char* word : {"shard 3-1 is not served", "No space left", "1 more", "free space", "tried again"}) {
    EXPECT_NE(told.find(word), std::string::npos) << word;
  }
  const std::string damaged = unserved_shards({{{3, 1}, {absl::DataLossError("bad block"), false}}});
  for (const char* word : {"shard 3-1", "bad block", "skuactl store verify", "restore"}) {
    EXPECT_NE(damaged.find(word), std::string::npos) << word;
  }
  EXPECT_EQ(damaged.find("tried again"), std::string::npos);
  const std::string other = unserved_shards({{{3, 1}, {absl::FailedPreconditionError("newer format"), false}}});
  EXPECT_NE(other.find("start the node again"), std::string::npos);
}

TEST(FreeBytesOf, Any_NamesThePathThatIsMissing) {
  EXPECT_TRUE(disk_space_of("/").ok());
  EXPECT_NE(disk_space_of("/no/such").status().ToString().find("/no/such"), std::string::npos);
}

}  // namespace
}  // namespace skua::kv
