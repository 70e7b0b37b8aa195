#include "kvstore/node/shard_plan.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "tests/kvstore/node/map_testing.h"

namespace skua::kv {
namespace {

using ::testing::ElementsAre;
using ::testing::IsEmpty;
using testing::kCluster;
using testing::kThem;
using testing::kUs;
using testing::MapMaker;

TEST(WantedShards, OnlyWhatWeOwn) {
  const control::ShardMap map = MapMaker(5).table(1, {{0, 0, 3}, {1, 0, 1}, {0, 1, 1}}).table(4, {{1, 1, 1}}).map();
  EXPECT_THAT(wanted_shards(map, kUs), ElementsAre(WantedShard{{1, 0}, 3, 0}, WantedShard{{1, 2}, 1, 1}));
  EXPECT_THAT(wanted_shards(map, kThem), ElementsAre(WantedShard{{1, 1}, 1, 0}, WantedShard{{4, 0}, 1, 1}));
  EXPECT_THAT(wanted_shards(map, "somebody else"), IsEmpty());
}

TEST(WantedShards, NoOwnerAndTooLargeIdsAreNobodys) {
  control::ShardMap map = MapMaker(5).table(1, {{0, 0, 1}}).table(uint64_t{1} << 32, {{0, 0, 1}}).map();
  map.tables[0].shards[0].primary.reset();
  EXPECT_THAT(wanted_shards(map, kUs), IsEmpty());
}

class DroppedShards : public ::testing::Test {
 protected:
  const DropEvidence evidence_{kCluster, kUs, 10};
  const std::vector<ShardId> on_disk_ = {{1, 0}, {1, 1}, {2, 0}};
};

TEST_F(DroppedShards, TableIsGoneFromANewerMap) {
  const control::ShardMap map = MapMaker(11).table(2, {{0, 0, 1}}).map();
  EXPECT_THAT(dropped_shards(map, evidence_, on_disk_), ElementsAre(ShardId{1, 0}, ShardId{1, 1}));
}

TEST_F(DroppedShards, LastTableIsGoneFromANewerMap) {
  EXPECT_THAT(dropped_shards(MapMaker(11).map(), evidence_, on_disk_),
              ElementsAre(ShardId{1, 0}, ShardId{1, 1}, ShardId{2, 0}));
}

TEST_F(DroppedShards, AShardThatWasMovedAwayIsKept) {
  const control::ShardMap map = MapMaker(11).table(1, {{1, 0, 2}, {1, 0, 2}}).table(2, {{0, 0, 1}}).map();
  EXPECT_THAT(dropped_shards(map, evidence_, on_disk_), IsEmpty());
}

TEST_F(DroppedShards, AnOlderMapDeletesNothing) {
  EXPECT_THAT(dropped_shards(MapMaker(9).map(), evidence_, on_disk_), IsEmpty());
}

TEST_F(DroppedShards, AnEmptyMapDeletesNothing) {
  EXPECT_THAT(dropped_shards(control::ShardMap{}, DropEvidence{}, on_disk_), IsEmpty());
  EXPECT_THAT(dropped_shards(control::ShardMap{}, {kCluster, kUs, 0}, on_disk_), IsEmpty());
}

TEST_F(DroppedShards, AnotherClustersMapDeletesNothing) {
  control::ShardMap map = MapMaker(11).map();
  map.cluster_id = kThem;
  EXPECT_THAT(dropped_shards(map, evidence_, on_disk_), IsEmpty());
}

TEST_F(DroppedShards, AMapThatDoesNotKnowUsDeletesNothing) {
  control::ShardMap map = MapMaker(11).map();
  map.nodes.erase(map.nodes.begin());
  EXPECT_THAT(dropped_shards(map, evidence_, on_disk_), IsEmpty());
}

View view_with(std::vector<ReplicaId> members) {
  View view;
  view.epoch = view.change = 1;
  view.primary = members.front().node;
  view.members = std::move(members);
  return view;
}

TEST(MustLearnAgain, WhoeverMayLackWhatItAcknowledged) {
  const ReplicaId self{7, 2};
  const ReplicaId other{8, 1};
  const std::map<ShardId, absl::Status> damaged = {{{1, 0}, absl::DataLossError("rotten")}};
  EXPECT_FALSE(must_learn_again({{{1, 0}, view_with({self, other})}}, {}, self));
  EXPECT_TRUE(must_learn_again({{{1, 0}, view_with({self, other})}}, damaged, self));
  // No part of the view under the present incarnation, or at all: nothing was acknowledged.
  EXPECT_FALSE(must_learn_again({{{1, 0}, view_with({{7, 1}, other})}}, damaged, self));
  EXPECT_FALSE(must_learn_again({{{1, 0}, view_with({other})}}, damaged, self));
  EXPECT_FALSE(must_learn_again({}, damaged, self));
}

TEST(MadeDatabases, OfMembersAndOfShardsWithoutReplicas) {
  const ReplicaId self{7, 2};
  const ReplicaId other{9, 1};
  View learns = view_with({other});
  learns.learners = {{self, 0}};
  View given_up = kMadeUnreplicated;
  given_up.fork = 1;
  const ShardViews views = {{{1, 0}, kMadeUnreplicated},
                            {{1, 1}, view_with({self, other})},
                            {{1, 2}, view_with({other})},
                            {{1, 3}, view_with({{7, 1}, other})},
                            {{1, 4}, learns},
                            {{1, 5}, given_up}};
  EXPECT_THAT(made_databases(views, self), ::testing::ElementsAre(ShardId{1, 0}, ShardId{1, 1}));
}

TEST(MustLearnAgain, NotIfNobodyElseHasAnotherShard) {
  const ReplicaId self{7, 2};
  const ReplicaId other{8, 1};
  const std::map<ShardId, absl::Status> damaged = {{{1, 0}, absl::DataLossError("rotten")}};
  const ShardViews alone = {{{1, 0}, view_with({self, other})}, {{1, 1}, view_with({self})}};
  EXPECT_FALSE(must_learn_again(alone, damaged, self));
  const ShardViews not_alone = {{{1, 0}, view_with({self, other})}, {{1, 1}, view_with({other})}};
  EXPECT_TRUE(must_learn_again(not_alone, damaged, self));
}

}  // namespace
}  // namespace skua::kv
