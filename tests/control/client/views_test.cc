// Views end to end: nodes' findings over gRPC, the store, and the shard map that comes back.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "control/client/shard_map_cache.h"
#include "tests/control/client/control_harness.h"

namespace skua::control {
namespace {

using testing::HasSubstr;

/// Four nodes, a table with one shard of three replicas, and a client of the shard map.
class ViewsTest : public testing::Test {
 protected:
  ViewsTest() : admin_(control_.address(), kGenerous), cache_({.control_address = control_.address()}) {
    for (uint64_t n = 1; n <= 4; ++n) agents_.push_back(start_node(control_, n));
    CreateTableOptions table;
    table.name = "t";
    table.shard_count = 1;
    table.replicas = 3;
    const auto created = admin_.create_table(table);
    EXPECT_TRUE(created.ok()) << created.status();
    table_ = created->table.table.id;
    cache_.start();
  }

  /// The map once it has what is wanted.
  std::shared_ptr<const ShardMap> wait_for(const std::function<bool(const MapShard&)>& wanted) {
    const absl::Status status = cache_.wait_until(
        [&](const ShardMap& map) {
          const MapTable* table = map.find_table(table_);
          return table != nullptr && wanted(table->shards[0]);
        },
        kGenerous);
    EXPECT_TRUE(status.ok()) << status;
    return cache_.snapshot();
  }
  static uint64_t number(const ShardMap& map, const MapReplica& replica) {
    return std::stoull(map.nodes[replica.node].uuid.substr(24), nullptr, 16);
  }
  NodeAgent& agent(uint64_t n) { return *agents_.at(n - 1); }
  ShardAtEpoch at(uint64_t epoch) const { return {{table_, 0}, epoch}; }

  ControlHarness control_;
  AdminClient admin_;
  ShardMapCache cache_;
  std::vector<std::unique_ptr<NodeAgent>> agents_;
  TableId table_ = 0;
};

TEST_F(ViewsTest, AMemberIsEjectedComesBackAndJoins) {
  auto map = wait_for([](const MapShard& shard) { return shard.backups.size() == 2; });
  const MapShard first = map->find_table(table_)->shards[0];
  EXPECT_EQ(map->find_table(table_)->min_insync, 2u);
  EXPECT_EQ(first.primary_incarnation, 1u);
  const uint64_t primary = number(*map, *first.primary);
  const std::string accused = map->nodes[first.backups[0].node].uuid;

  ReplicaReport findings;
  findings.suspicions.push_back({accused, {at(first.epoch)}, "no acknowledgements"});
  agent(primary).set_findings(findings);
  map = wait_for([&](const MapShard& shard) { return shard.epoch == first.epoch + 1; });
  EXPECT_EQ(map->find_table(table_)->shards[0].backups.size(), 1u);

  // It may return after a second, still under the old suspicion, which is about another epoch.
  map = wait_for([](const MapShard& shard) { return shard.learners.size() == 1; });
  findings = {};
  findings.caught_up.push_back({at(first.epoch + 1), accused});
  agent(primary).set_findings(findings);
  map = wait_for([](const MapShard& shard) { return shard.learners.size() == 1 && shard.learners[0].join == 1; });
  findings = {};
  findings.join_ready.push_back({at(first.epoch + 1), accused, 1});
  agent(primary).set_findings(findings);
  map = wait_for([&](const MapShard& shard) { return shard.epoch == first.epoch + 2; });
  const MapShard last = map->find_table(table_)->shards[0];
  EXPECT_EQ(last.backups.size(), 2u);
  EXPECT_TRUE(last.learners.empty());
  EXPECT_GT(last.change, first.change);
}

TEST_F(ViewsTest, AStoppedPrimaryHandsOverAndViewsSurviveARestart) {
  auto map = wait_for([](const MapShard& shard) { return shard.backups.size() == 2; });
  const MapShard first = map->find_table(table_)->shards[0];
  agent(number(*map, *first.primary)).stop();
  map = wait_for([&](const MapShard& shard) { return shard.epoch > first.epoch; });
  const MapShard second = map->find_table(table_)->shards[0];
  EXPECT_EQ(second.backups.size(), 1u);
  control_.stop();
  control_.start();
  const auto reread = admin_.shard_map();
  ASSERT_TRUE(reread.ok()) << reread.status();
  EXPECT_EQ(reread->find_table(table_)->shards[0], second);
}

TEST_F(ViewsTest, OperatorsMoveTransferAndDrain) {
  const auto map = wait_for([](const MapShard& shard) { return shard.backups.size() == 2; });
  const MapShard first = map->find_table(table_)->shards[0];
  const std::string primary = map->nodes[first.primary->node].uuid;
  const std::string backup = map->nodes[first.backups[0].node].uuid;
  EXPECT_EQ(admin_.transfer_primary("t", 0, backup), absl::OkStatus());
  wait_for([&](const MapShard& shard) { return shard.epoch == first.epoch + 1; });
  EXPECT_EQ(admin_.drain_node(primary), absl::OkStatus());
  wait_for([](const MapShard& shard) { return shard.learners.size() == 1; });
  const auto status = admin_.status();
  ASSERT_TRUE(status.ok());
  for (const auto& node : status->nodes) {
    EXPECT_EQ(node.info.draining, node.info.uuid == primary);
    EXPECT_THAT(node.drain_progress, HasSubstr(node.info.draining ? "1 shard still to be moved" : ""));
  }
  EXPECT_EQ(status->tables.at(0).table.replicas, 3u);
  EXPECT_EQ(status->tables.at(0).settled_shard_count, 0u);
  EXPECT_EQ(admin_.undrain_node(primary), absl::OkStatus());
  wait_for([](const MapShard& shard) { return shard.learners.empty(); });
  EXPECT_THAT(std::string(admin_.move_shard("t", 0, primary, backup).message()), HasSubstr("already"));
  EXPECT_THAT(std::string(admin_.recover_shard("t", 0, primary).message()), HasSubstr("Nothing needs to be forced"));
}

}  // namespace
}  // namespace skua::control
