#include "control/proto/convert.h"

#include <gtest/gtest.h>

#include "control/core/limits.h"

namespace skua::control {
namespace {

TEST(ReplicaReport, SurvivesTheWire) {
  ReplicaReport report{"u", 3, "i", {}, {}, {}};
  report.suspicions.push_back({"accused", {{{1, 2}, 3}, {{1, 4}, 5}}, "slow"});
  report.caught_up.push_back({{{1, 2}, 3}, "learner"});
  report.join_ready.push_back({{{1, 2}, 3}, "learner", 8});
  report.doubts.push_back({{{1, 2}, 3}, 4, 5});
  report.doubts.push_back({{{6, 7}, 8}, 9, ~uint64_t{0}});
  const auto read = from_proto(to_proto(report));
  ASSERT_TRUE(read.ok()) << read.status();
  EXPECT_EQ(read->uuid, "u");
  EXPECT_EQ(read->incarnation, 3u);
  EXPECT_EQ(read->instance, "i");
  ASSERT_EQ(read->suspicions.size(), 1u);
  EXPECT_EQ(read->suspicions[0].shards.size(), 2u);
  ASSERT_EQ(read->caught_up.size(), 1u);
  EXPECT_EQ(read->caught_up[0].learner, "learner");
  ASSERT_EQ(read->join_ready.size(), 1u);
  EXPECT_EQ(read->join_ready[0].join, 8u);
  ASSERT_EQ(read->doubts.size(), 2u);
  for (size_t i = 0; i < 2; ++i) {
    EXPECT_EQ(read->doubts[i].shard.shard, report.doubts[i].shard.shard);
    EXPECT_EQ(read->doubts[i].shard.epoch, report.doubts[i].shard.epoch);
    EXPECT_EQ(read->doubts[i].last_epoch, report.doubts[i].last_epoch);
    EXPECT_EQ(read->doubts[i].last_index, report.doubts[i].last_index);
  }
}

TEST(ReplicaReport, OfTooManyDoubtsIsRefused) {
  ReplicaReport report{"u", 3, "i", {}, {}, {}};
  report.doubts.resize(kReportShardsMax);
  EXPECT_TRUE(from_proto(to_proto(report)).ok());
  report.doubts.emplace_back();
  EXPECT_EQ(from_proto(to_proto(report)).status().code(), absl::StatusCode::kInvalidArgument);
}

}  // namespace
}  // namespace skua::control
