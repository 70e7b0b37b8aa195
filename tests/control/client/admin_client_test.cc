#include "control/client/admin_client.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <thread>

#include "control/client/shard_map_cache.h"
#include "tests/control/client/control_harness.h"

namespace skua::control {
namespace {

using absl::StatusCode;
using testing::ElementsAre;
using testing::HasSubstr;
using testing::IsEmpty;

TEST(CreateTable, ListAndDrop) {
  ControlHarness control;
  const auto node = start_node(control, 1);
  AdminClient admin(control.address(), kGenerous);
  const auto created = admin.create_table({.name = "orders", .shard_count = 8});
  ASSERT_TRUE(created.ok()) << created.status();
  EXPECT_TRUE(created->created);
  EXPECT_EQ(created->table.table.shard_count, 8u);
  EXPECT_EQ(created->table.available_shard_count, 8u);
  EXPECT_FALSE(created->ready);
  EXPECT_THAT(created->waiting_for, ElementsAre(test_uuid(1)));

  const auto tables = admin.list_tables();
  ASSERT_TRUE(tables.ok());
  ASSERT_EQ(tables->size(), 1u);
  EXPECT_EQ(tables->front().table, created->table.table);

  EXPECT_EQ(admin.create_table({.name = "orders", .shard_count = 8}).status().code(), StatusCode::kAlreadyExists);
  const auto again = admin.create_table({.name = "orders", .if_not_exists = true});
  ASSERT_TRUE(again.ok());
  EXPECT_FALSE(again->created);

  EXPECT_TRUE(admin.drop_table("orders").ok());
  EXPECT_EQ(admin.drop_table("orders").status().code(), StatusCode::kNotFound);
  EXPECT_TRUE(admin.list_tables()->empty());
}

TEST(CreateTable, WaitsUntilTheNodesServeIt) {
  ControlHarness control;
  const auto node = start_node(control, 1);
  // What a storage node does: follow the map, open the shards, report.
  ShardMapCache cache(
      {.control_address = control.address(),
       .on_change = [&](const std::shared_ptr<const ShardMap>& map) { node->set_applied_revision(map->revision); }});
  cache.start();
  AdminClient admin(control.address(), kGenerous);
  const auto created = admin.create_table({.name = "t", .shard_count = 4, .wait_ready_ms = 60'000});
  ASSERT_TRUE(created.ok()) << created.status();
  EXPECT_TRUE(created->ready);
  EXPECT_THAT(created->waiting_for, IsEmpty());
  cache.stop();
}

TEST(CreateTable, SaysWhoIsNotReadyInTime) {
  ControlHarness control;
  const auto node = start_node(control, 1);
  AdminClient admin(control.address(), kGenerous);
  const auto created = admin.create_table({.name = "t", .shard_count = 4, .wait_ready_ms = 20});
  ASSERT_TRUE(created.ok());
  EXPECT_FALSE(created->ready);
  EXPECT_THAT(created->waiting_for, ElementsAre(test_uuid(1)));
}

TEST(CreateTable, ErrorsAreTheControlPlanesOwn) {
  ControlHarness control;
  AdminClient admin(control.address(), kGenerous);
  const auto status = admin.create_table({.name = "t"}).status();
  EXPECT_EQ(status.code(), StatusCode::kFailedPrecondition);
  EXPECT_THAT(std::string(status.message()), HasSubstr("Start a skuad"));
  EXPECT_EQ(admin.create_table({.name = "not a name"}).status().code(), StatusCode::kInvalidArgument);
}

TEST(Status, ShowsAStoppedNodesShardsAsUnavailable) {
  ControlHarness control;
  AdminClient admin(control.address(), kGenerous);
  const auto one = start_node(control, 1);
  auto two = start_node(control, 2);
  ASSERT_TRUE(admin.create_table({.name = "t", .shard_count = 8}).ok());
  two.reset();
  EXPECT_EQ(liveness_of(admin, 2), Liveness::kStopped);
  const auto status = admin.status();
  ASSERT_TRUE(status.ok());
  EXPECT_EQ(status->cluster_id, kClusterId);
  ASSERT_EQ(status->nodes.size(), 2u);
  EXPECT_EQ(status->nodes[1].owned_shard_count, 4u);
  EXPECT_EQ(status->tables[0].table.shard_count, 8u);
  EXPECT_EQ(status->tables[0].available_shard_count, 4u);
}

TEST(RemoveNode, NeedsAStoppedNode) {
  ControlHarness control;
  AdminClient admin(control.address(), kGenerous);
  auto node = start_node(control, 1);
  EXPECT_EQ(admin.remove_node(test_uuid(1), true).code(), StatusCode::kFailedPrecondition);
  node->stop();
  EXPECT_TRUE(admin.remove_node(test_uuid(1), false).ok());
  EXPECT_EQ(admin.remove_node(test_uuid(1), false).code(), StatusCode::kNotFound);
}

TEST(ShardMap, CanBeFetchedOnce) {
  ControlHarness control;
  const auto node = start_node(control, 1);
  AdminClient admin(control.address(), kGenerous);
  ASSERT_TRUE(admin.create_table({.name = "t", .shard_count = 2}).ok());
  const auto map = admin.shard_map();
  ASSERT_TRUE(map.ok()) << map.status();
  EXPECT_EQ(map->find_table("t")->shard_count(), 2u);
}

TEST(AdminClient, NobodyThereIsUnavailableWithTheWayOut) {
  AdminClient admin("127.0.0.1:1");
  const auto status = admin.status().status();
  EXPECT_EQ(status.code(), StatusCode::kUnavailable);
  EXPECT_THAT(std::string(status.message()), HasSubstr("127.0.0.1:1"));
  EXPECT_THAT(std::string(status.message()), HasSubstr("Check that it runs"));
}

}  // namespace
}  // namespace skua::control
