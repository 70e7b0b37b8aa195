#include "kvstore/service/shard_table.h"

#include <gtest/gtest.h>

#include <map>

#include "rpc/base/rng.h"

namespace skua::kv {
namespace {

TEST(ShardTable, Find_NothingInAnEmptyTable) {
  const ShardTable<int> table;
  EXPECT_EQ(table.find({0, 0}), nullptr);
  EXPECT_EQ(table.find({7, 9}), nullptr);
}

TEST(ShardTable, Insert_RefusesAnIdThatIsThere) {
  ShardTable<int> table;
  int first = 1;
  int second = 2;
  EXPECT_TRUE(table.insert({1, 2}, &first));
  EXPECT_FALSE(table.insert({1, 2}, &second));
  EXPECT_EQ(table.find({1, 2}), &first);
  EXPECT_EQ(table.size(), 1u);
}

TEST(ShardTable, Remove_TellsWhatItRemoved) {
  ShardTable<int> table;
  int shard = 1;
  EXPECT_EQ(table.remove({1, 2}), nullptr);
  table.insert({1, 2}, &shard);
  EXPECT_EQ(table.remove({1, 2}), &shard);
  EXPECT_EQ(table.find({1, 2}), nullptr);
  EXPECT_EQ(table.size(), 0u);
}

TEST(ShardTable, Any_AgreesWithAMap) {
  ShardTable<int> table;
  std::map<ShardId, int*> twin;
  std::vector<int> shards(5000);
  Rng rng(3);
  for (int step = 0; step < 5000; ++step) {
    const ShardId id{static_cast<uint32_t>(rng.below(12)), static_cast<uint32_t>(rng.below(64))};
    if (rng.chance(0.6)) {
      int* const shard = &shards[static_cast<size_t>(step)];
      EXPECT_EQ(table.insert(id, shard), twin.emplace(id, shard).second);
    } else {
      const auto it = twin.find(id);
      EXPECT_EQ(table.remove(id), it == twin.end() ? nullptr : it->second);
      if (it != twin.end()) twin.erase(it);
    }
    ASSERT_EQ(table.size(), twin.size());
  }
  for (uint32_t t = 0; t < 12; ++t) {
    for (uint32_t s = 0; s < 64; ++s) {
      const auto it = twin.find({t, s});
      EXPECT_EQ(table.find({t, s}), it == twin.end() ? nullptr : it->second);
    }
  }
  size_t visited = 0;
  table.for_each([&](int&) { ++visited; });
  EXPECT_EQ(visited, twin.size());
}

}  // namespace
}  // namespace skua::kv
