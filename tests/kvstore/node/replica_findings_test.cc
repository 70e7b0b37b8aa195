#include "kvstore/node/replica_findings.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <utility>
#include <vector>

namespace skua::kv {
namespace {

using ::testing::ElementsAre;
using ::testing::IsEmpty;
using Kind = ReplicaReport::Kind;

constexpr ShardId kShard{7, 0};
constexpr ShardId kOtherShard{7, 1};

/// A node that knows nodes 2 and 3.
class ReplicaFindingsTest : public ::testing::Test {
 protected:
  ReplicaFindingsTest() { findings_.set_nodes({{2, "two"}, {3, "three"}}); }

  void report(ShardId shard, Kind kind, NodeId node, uint64_t epoch = 4, TimeNs now = 0) {
    findings_.report(shard, {kind, epoch, node, 0, {}}, now);
  }
  /// What the control plane was told last.
  [[nodiscard]] const control::ReplicaReport& newest() const { return published_.back(); }

  std::vector<control::ReplicaReport> published_;
  ReplicaFindings findings_{[this](control::ReplicaReport all) { published_.push_back(std::move(all)); }};
};

TEST_F(ReplicaFindingsTest, AreToldWhenOneIsNewAndNotWhenItIsRepeated) {
  report(kShard, Kind::kSuspect, 2);
  report(kShard, Kind::kSuspect, 2);
  ASSERT_EQ(published_.size(), 1U);
  ASSERT_EQ(newest().suspicions.size(), 1U);
  EXPECT_EQ(newest().suspicions[0].accused, "two");
  EXPECT_EQ(newest().suspicions[0].reason, "does not answer");
  EXPECT_EQ(newest().suspicions[0].shards[0].epoch, 4U);
}

TEST_F(ReplicaFindingsTest, AreToldTogether) {
  report(kShard, Kind::kSuspect, 2);
  report(kOtherShard, Kind::kSuspect, 2);
  report(kShard, Kind::kSlow, 2);
  findings_.report(kShard, {Kind::kJoinReady, 4, 3, 9, {}}, 0);
  ASSERT_EQ(newest().suspicions.size(), 2U) << "one for each reason";
  EXPECT_EQ(newest().suspicions[0].shards.size(), 2U);
  EXPECT_EQ(newest().suspicions[1].reason, "is slow");
  ASSERT_EQ(newest().join_ready.size(), 1U);
  EXPECT_EQ(newest().join_ready[0].learner, "three");
  EXPECT_EQ(newest().join_ready[0].join, 9U);
}

TEST_F(ReplicaFindingsTest, OfAFormerEpochAreDropped) {
  report(kShard, Kind::kSuspect, 2, 4);
  report(kShard, Kind::kSuspect, 3, 5);
  ASSERT_EQ(newest().suspicions.size(), 1U);
  EXPECT_EQ(newest().suspicions[0].accused, "three");
}

TEST_F(ReplicaFindingsTest, AboutNodesThatTheMapDoesNotHaveAreNotTold) {
  report(kShard, Kind::kSuspect, 9);
  EXPECT_THAT(newest().suspicions, IsEmpty());
}

TEST_F(ReplicaFindingsTest, ADoubtEndsWhenTheReplicaIsRestored) {
  findings_.report(kShard, {Kind::kDoubtful, 4, 2, 0, {17, 3}}, 0);
  findings_.report(kOtherShard, {Kind::kDoubtful, 4, 2, 0, {18, 3}}, 0);
  ASSERT_EQ(newest().doubts.size(), 2U);
  EXPECT_EQ(newest().doubts[0].last_index, 17U);
  EXPECT_EQ(newest().doubts[0].last_epoch, 3U);
  findings_.restored(kShard);
  ASSERT_EQ(newest().doubts.size(), 1U);
  EXPECT_EQ(newest().doubts[0].last_index, 18U);
  const size_t told = published_.size();
  findings_.restored(kShard);
  EXPECT_EQ(published_.size(), told) << "nothing has changed";
}

TEST_F(ReplicaFindingsTest, ThatNobodyRepeatsAreForgotten) {
  constexpr DurationNs kForget = ReplicaFindings::kForgetNs;
  report(kShard, Kind::kSuspect, 2, 4, 0);
  report(kShard, Kind::kSuspect, 3, 4, 0);
  report(kShard, Kind::kSuspect, 3, 4, kForget);
  const size_t told = published_.size();
  findings_.sweep(kForget);
  EXPECT_EQ(published_.size(), told);
  findings_.sweep(2 * kForget);
  ASSERT_EQ(published_.size(), told + 1);
  ASSERT_EQ(newest().suspicions.size(), 1U);
  EXPECT_EQ(newest().suspicions[0].accused, "three");
}

}  // namespace
}  // namespace skua::kv
