#include "control/core/shard_map.h"

#include <gtest/gtest.h>

namespace skua::control {
namespace {

ClusterState two_nodes_two_tables() {
  ClusterState state;
  state.cluster_id = "c";
  state.cluster_name = "name";
  state.map_revision = 7;
  state.nodes["a"] = {"a", 1, "i", "host-a:1", "host-a", 2, {}};
  state.nodes["b"] = {"b", 4, "j", "host-b:1", "host-b", 1, {}};
  state.tables[3] = {3, "t", 2};
  state.tables[9] = {9, "u", 1};
  state.shards[{3, 0}] = {3, 0, 5, Replica{"b", 0}, {Replica{"a", 1}}};
  state.shards[{3, 1}] = {3, 1, 1, Replica{"a", 1}, {}};
  state.shards[{9, 0}] = {9, 0, 2, std::nullopt, {}};
  return state;
}

TEST(BuildShardMap, CarriesEverything) {
  const ShardMap map = build_shard_map(two_nodes_two_tables());
  EXPECT_TRUE(map.valid());
  EXPECT_EQ(map.cluster_id, "c");
  EXPECT_EQ(map.revision, 7u);
  ASSERT_EQ(map.nodes.size(), 2u);
  EXPECT_EQ(map.nodes[1], (MapNode{"b", 4, "host-b:1", 1}));
  ASSERT_EQ(map.tables.size(), 2u);
  EXPECT_EQ(map.tables[0].shards[0], (MapShard{5, MapReplica{1, 0}, {MapReplica{0, 1}}}));
}

TEST(FindTable, ByNameAndById) {
  const ShardMap map = build_shard_map(two_nodes_two_tables());
  EXPECT_EQ(map.find_table("u")->id, 9u);
  EXPECT_EQ(map.find_table("nope"), nullptr);
  EXPECT_EQ(map.find_table(TableId{3})->name, "t");
  EXPECT_EQ(map.find_table(TableId{4}), nullptr);
  EXPECT_EQ(map.find_table(TableId{10}), nullptr);
}

TEST(Owner, NamesNodeWorkerEpochAndRevision) {
  const ShardMap map = build_shard_map(two_nodes_two_tables());
  const auto owner = map.owner(3, 1);
  ASSERT_TRUE(owner.has_value());
  EXPECT_EQ(owner->node->grpc_address, "host-a:1");
  EXPECT_EQ(owner->worker, 1u);
  EXPECT_EQ(owner->epoch, 1u);
  EXPECT_EQ(owner->map_revision, 7u);
}

TEST(Owner, IsNothingForUnknownTableShardOrOwner) {
  const ShardMap map = build_shard_map(two_nodes_two_tables());
  EXPECT_FALSE(map.owner(4, 0).has_value());
  EXPECT_FALSE(map.owner(3, 2).has_value());
  EXPECT_FALSE(map.owner(9, 0).has_value());
}

TEST(Valid, RefusesBadIndicesAndOrder) {
  const ShardMap good = build_shard_map(two_nodes_two_tables());
  ShardMap bad = good;
  bad.tables[0].shards[0].primary->node = 2;
  EXPECT_FALSE(bad.valid());
  bad = good;
  bad.tables[0].shards[0].primary->worker = 1;
  EXPECT_FALSE(bad.valid());
  bad = good;
  bad.tables[0].shards[0].backups[0].node = 9;
  EXPECT_FALSE(bad.valid());
  bad = good;
  std::swap(bad.nodes[0], bad.nodes[1]);
  EXPECT_FALSE(bad.valid());
  bad = good;
  bad.tables[1].id = 3;
  EXPECT_FALSE(bad.valid());
  bad = good;
  bad.tables[1].shards.clear();
  EXPECT_FALSE(bad.valid());
}

}  // namespace
}  // namespace skua::control
