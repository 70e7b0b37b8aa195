#include "control/core/placement.h"

#include <gtest/gtest.h>

#include <map>
#include <utility>

namespace skua::control {
namespace {

using Shards = std::map<ShardKey, ShardRecord>;

void place_table(const std::vector<PlacementNode>& nodes, Shards& shards, TableId table, uint32_t count) {
  Placer placer(nodes, shards, table);
  for (uint32_t shard = 0; shard < count; ++shard) {
    shards[{table, shard}] = {table, shard, 1, placer.place(), {}};
  }
}

std::map<std::string, int> per_node(const Shards& shards, TableId table) {
  std::map<std::string, int> counts;
  for (const auto& [key, shard] : shards) {
    if (key.first == table) ++counts[shard.primary->node_uuid];
  }
  return counts;
}

std::map<std::pair<std::string, uint32_t>, int> per_worker(const Shards& shards) {
  std::map<std::pair<std::string, uint32_t>, int> counts;
  for (const auto& [key, shard] : shards) {
    ++counts[{shard.primary->node_uuid, shard.primary->worker}];
  }
  return counts;
}

TEST(Placer, SpreadsOverNodesAndWorkers) {
  Shards shards;
  place_table({{"a", 2}, {"b", 2}, {"c", 2}}, shards, 1, 12);
  const auto counts = per_worker(shards);
  EXPECT_EQ(counts.size(), 6u);
  for (const auto& [worker, count] : counts) EXPECT_EQ(count, 2) << worker.first;
}

TEST(Placer, UsesManyNodesBeforeManyWorkers) {
  Shards shards;
  place_table({{"a", 8}, {"b", 8}, {"c", 8}}, shards, 1, 3);
  EXPECT_EQ(per_node(shards, 1), (std::map<std::string, int>{{"a", 1}, {"b", 1}, {"c", 1}}));
}

TEST(Placer, GivesANodeWithMoreWorkersMoreShards) {
  Shards shards;
  place_table({{"a", 4}, {"b", 2}}, shards, 1, 12);
  EXPECT_EQ(per_node(shards, 1), (std::map<std::string, int>{{"a", 8}, {"b", 4}}));
}

TEST(Placer, BalancesTheTotalOverManySmallTables) {
  Shards shards;
  const std::vector<PlacementNode> nodes = {{"a", 2}, {"b", 2}, {"c", 2}};
  for (TableId table = 1; table <= 12; ++table) place_table(nodes, shards, table, 1);
  for (const auto& [worker, count] : per_worker(shards)) EXPECT_EQ(count, 2) << worker.first;
}

TEST(Placer, FillsANewNodeFirst) {
  Shards shards;
  place_table({{"a", 1}, {"b", 1}}, shards, 1, 4);
  place_table({{"a", 1}, {"b", 1}, {"c", 1}}, shards, 2, 4);
  EXPECT_EQ(per_node(shards, 2), (std::map<std::string, int>{{"a", 1}, {"b", 1}, {"c", 2}}));
}

TEST(Placer, DoesNotDependOnTheOrderOfCandidates) {
  Shards one;
  Shards two;
  place_table({{"a", 3}, {"b", 1}, {"c", 2}}, one, 1, 50);
  place_table({{"c", 2}, {"a", 3}, {"b", 1}}, two, 1, 50);
  EXPECT_EQ(one, two);
}

TEST(Placer, HasNoCandidatesWithoutWorkers) {
  EXPECT_FALSE(Placer({}, {}, 1).has_candidates());
  EXPECT_FALSE(Placer({{"a", 0}}, {}, 1).has_candidates());
}

}  // namespace
}  // namespace skua::control
