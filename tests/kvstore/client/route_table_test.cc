#include "kvstore/client/route_table.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>

namespace skua::kv {
namespace {

using ::testing::ElementsAre;
using ::testing::IsEmpty;

control::ShardMap map_of(uint64_t revision, std::vector<control::MapNode> nodes,
                         std::vector<std::optional<control::MapReplica>> owners) {
  control::ShardMap map;
  map.revision = revision;
  map.cluster_id = "c";
  map.nodes = std::move(nodes);
  control::MapTable table;
  table.id = 3;
  table.name = "users";
  for (const auto& owner : owners) table.shards.push_back({.epoch = revision, .primary = owner, .backups = {}});
  map.tables.push_back(table);
  return map;
}

control::MapReplica at(uint32_t node, uint32_t worker) {
  return {node, worker};
}

const control::MapNode kA{"a", 1, "host-a:1", 2};
const control::MapNode kB{"b", 1, "host-b:1", 2};

TEST(Update, NumbersEachWorkerOnce) {
  RouteTable routes;
  EXPECT_THAT(routes.update(map_of(1, {kA, kB}, {at(0, 0), at(0, 1), at(1, 0), at(0, 0)})), IsEmpty());
  const TableRoutes* table = routes.find_table("users");
  ASSERT_NE(table, nullptr);
  EXPECT_EQ(table->id, 3u);
  EXPECT_EQ(table->shards[0].target, table->shards[3].target);
  EXPECT_NE(table->shards[0].target, table->shards[1].target);
  EXPECT_LT(std::max({table->shards[0].target, table->shards[1].target, table->shards[2].target}), 3u);
  EXPECT_EQ(routes.target(table->shards[1].target).describe(), "node a worker 1 (host-a:1)");
}

TEST(Update, KeepsNumbersOverMaps) {
  RouteTable routes;
  routes.update(map_of(1, {kA, kB}, {at(0, 0), at(1, 0)}));
  const TargetId b = routes.find_table("users")->shards[1].target;
  EXPECT_THAT(routes.update(map_of(2, {kA, kB}, {at(1, 0), at(1, 0)})), IsEmpty());
  EXPECT_EQ(routes.find_table("users")->shards[0].target, b);
  EXPECT_EQ(routes.find_table("users")->shards[0].epoch, 2u);
}

TEST(Update, TellsRestartedMovedAndGoneNodes) {
  RouteTable routes;
  routes.update(map_of(1, {kA, kB}, {at(0, 0), at(1, 0)}));
  control::MapNode restarted = kA;
  restarted.incarnation = 2;
  EXPECT_THAT(routes.update(map_of(2, {restarted, kB}, {at(0, 0), at(1, 0)})), ElementsAre(0));
  control::MapNode moved = kB;
  moved.grpc_address = "elsewhere:1";
  EXPECT_THAT(routes.update(map_of(3, {restarted, moved}, {at(0, 0), at(1, 0)})), ElementsAre(1));
  EXPECT_THAT(routes.update(map_of(4, {restarted}, {at(0, 0), std::nullopt})), ElementsAre(1));
  EXPECT_FALSE(routes.target(1).present);
  EXPECT_EQ(routes.find_table("users")->shards[1].target, kNoTarget);
  EXPECT_THAT(routes.update(map_of(5, {restarted, moved}, {at(0, 0), at(1, 0)})), IsEmpty());
  EXPECT_TRUE(routes.target(1).present);
}

TEST(Update, KnowsBackupsOfTablesThatAreReadAnywhere) {
  control::ShardMap map = map_of(1, {kA, kB}, {at(0, 0), at(1, 1)});
  map.tables[0].shards[1].backups = {at(0, 1)};
  RouteTable routes;
  routes.update(map);
  EXPECT_THAT(routes.find_table("users")->backups_of(routes.find_table("users")->shards[1]), IsEmpty());
  map.revision = 2;
  map.tables[0].read_anywhere = true;
  routes.update(map);
  const TableRoutes& table = *routes.find_table("users");
  EXPECT_THAT(table.backups_of(table.shards[0]), IsEmpty());
  ASSERT_EQ(table.backups_of(table.shards[1]).size(), 1u);
  EXPECT_EQ(routes.target(table.backups_of(table.shards[1])[0]).describe(), "node a worker 1 (host-a:1)");
}

/// Its sessions are dead and no request goes there, until it is let in again.
TEST(Update, ARevokedNodeIsAsGone) {
  const control::MapNode a{"a0000000-0000-4000-8000-000000000001", 1, "host-a:1", 2};
  control::ShardMap map = map_of(1, {a, kB}, {at(0, 0), at(1, 0)});
  map.tables[0].read_anywhere = true;
  map.tables[0].shards[1].backups = {at(0, 0)};
  RouteTable routes;
  routes.update(map);
  map.revision = 2;
  map.denied = {"client/x", "node/" + a.uuid};
  EXPECT_THAT(routes.update(map), ElementsAre(0));
  EXPECT_FALSE(routes.target(0).present);
  EXPECT_EQ(routes.find_table("users")->shards[0].target, kNoTarget);
  EXPECT_EQ(routes.find_table("users")->shards[1].target, 1u);
  EXPECT_EQ(routes.find_table("users")->shards[1].backup_count, 0u);
  map.revision = 3;
  map.denied.clear();
  EXPECT_THAT(routes.update(map), IsEmpty());
  EXPECT_EQ(routes.find_table("users")->shards[0].target, 0u);
  EXPECT_EQ(routes.find_table("users")->shards[1].backup_count, 1u);
}

TEST(Update, IgnoresMapsThatAreNotNewer) {
  RouteTable routes;
  routes.update(map_of(5, {kA}, {at(0, 0)}));
  routes.update(map_of(4, {kB}, {at(0, 1)}));
  EXPECT_EQ(routes.revision(), 5u);
  EXPECT_EQ(routes.target(routes.find_table("users")->shards[0].target).node_uuid, "a");
}

TEST(FindTable, FindsByNameAndForgetsDropped) {
  RouteTable routes;
  EXPECT_EQ(routes.find_table("users"), nullptr);
  routes.update(map_of(1, {kA}, {at(0, 0)}));
  EXPECT_NE(routes.find_table("users"), nullptr);
  EXPECT_NE(routes.find_table("users"), nullptr);
  EXPECT_EQ(routes.find_table("user"), nullptr);
  control::ShardMap without = map_of(2, {kA}, {});
  without.tables.clear();
  routes.update(without);
  EXPECT_EQ(routes.find_table("users"), nullptr);
}

}  // namespace
}  // namespace skua::kv
