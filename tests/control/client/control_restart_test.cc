// The control plane goes away and comes back: nothing that runs notices more than it must.
#include <gtest/gtest.h>

#include <atomic>

#include "control/client/shard_map_cache.h"
#include "tests/control/client/control_harness.h"

namespace skua::control {
namespace {

TEST(ControlRestart, DataSurvives) {
  ControlHarness control;
  const auto node = start_node(control, 1);
  ShardMap before;
  {
    AdminClient admin(control.address(), kGenerous);
    ASSERT_TRUE(admin.create_table({.name = "t", .shard_count = 4}).ok());
    before = *admin.shard_map();
  }
  control.stop();
  control.start();
  AdminClient admin(control.address(), kGenerous);
  const auto after = admin.shard_map();
  ASSERT_TRUE(after.ok()) << after.status();
  EXPECT_EQ(*after, before);
}

TEST(ControlRestart, CacheServesTheLastMapAndCatchesUp) {
  ControlHarness control;
  const auto node = start_node(control, 1);
  ShardMapCache cache({.control_address = control.address()});
  cache.start();
  {
    AdminClient admin(control.address(), kGenerous);
    const auto created = admin.create_table({.name = "t", .shard_count = 4});
    ASSERT_TRUE(cache.wait_for_revision(created->map_revision, kGenerous).ok());
  }
  control.stop();
  ASSERT_TRUE(eventually([&] { return !cache.connection().ok(); }));
  EXPECT_NE(cache.snapshot()->find_table("t"), nullptr);

  control.start();
  ASSERT_TRUE(eventually([&] { return cache.connection().ok(); })) << "a watch that has the newest map counts as open";
  AdminClient admin(control.address(), kGenerous);
  ASSERT_TRUE(eventually([&] { return liveness_of(admin, 1) == Liveness::kAlive; }))
      << "the agent goes on after a restart";
  const auto created = admin.create_table({.name = "u", .shard_count = 4});
  ASSERT_TRUE(created.ok()) << created.status();
  EXPECT_TRUE(cache.wait_for_revision(created->map_revision, kGenerous).ok());
}

TEST(ControlRestart, ChangesMadeWhileAClientWasAwayArrive) {
  ControlHarness control;
  const auto node = start_node(control, 1);
  ShardMapCache cache({.control_address = control.address()});
  cache.start();
  ASSERT_TRUE(cache.wait_for_revision(1, kGenerous).ok());
  control.stop();
  control.start();
  AdminClient admin(control.address(), kGenerous);
  ASSERT_TRUE(eventually([&] { return admin.create_table({.name = "t"}).ok(); }));
  cache.hurry();
  EXPECT_TRUE(cache.wait_until([](const ShardMap& map) { return map.find_table("t") != nullptr; }, kGenerous).ok());
}

TEST(ControlRestart, LostDataDoesNotTakeServingNodesAndClientsDown) {
  ControlHarness control;
  std::atomic<bool> refused = false;
  NodeAgentOptions options = agent_options(control, 1);
  options.on_refused = [&](const absl::Status&) { refused = true; };
  std::atomic<bool> foreign = false;
  options.on_trouble = [&](const absl::Status& status) {
    if (status.code() == absl::StatusCode::kFailedPrecondition) foreign = true;
  };
  NodeAgent agent(options);
  agent.start();
  ASSERT_TRUE(agent.wait_registered(kGenerous).ok());
  ShardMapCache cache({.control_address = control.address()});
  cache.start();
  ASSERT_TRUE(cache.wait_for_revision(2, kGenerous).ok());

  control.lose_everything();
  control.start();
  EXPECT_TRUE(eventually([&] { return foreign.load(); }));
  EXPECT_TRUE(eventually([&] { return cache.connection().code() == absl::StatusCode::kFailedPrecondition; }));
  EXPECT_FALSE(refused);
  EXPECT_EQ(cache.snapshot()->cluster_id, kClusterId);
  EXPECT_NE(cache.snapshot()->find_node(test_uuid(1)), nullptr);
}

}  // namespace
}  // namespace skua::control
