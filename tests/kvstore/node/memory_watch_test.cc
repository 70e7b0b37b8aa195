#include "kvstore/node/memory_watch.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <vector>

#include "rpc/base/rng.h"

namespace skua::kv {
namespace {

constexpr size_t kWatchedMiB = size_t{1} << 20;

/// An engine that has a cache and nothing else.
class CacheAlone final : public RocksdbEngine {
 public:
  size_t used = 0;
  std::vector<size_t> sizes;  // that were set

  absl::StatusOr<std::unique_ptr<ShardDb>> open_db(const std::string&, ShardId, IfMissing) override {
    return absl::UnimplementedError("it has a cache alone");
  }
  absl::Status destroy_shard(const std::string&, ShardId) override { return absl::OkStatus(); }
  absl::StatusOr<std::vector<ShardId>> list_shards(const std::string&) override { return std::vector<ShardId>(); }
  void set_cache_bytes(size_t bytes) override { sizes.push_back(bytes); }
  [[nodiscard]] size_t cache_used_bytes() const override { return used; }
};

class ElasticCacheTest : public ::testing::Test {
 protected:
  const MemoryBudget budget = split_memory({.node = 1024 * kWatchedMiB}).value();
  const size_t within = budget.node / 64 * 62;  // resident memory that asks for no change
  CacheAlone engine;
};

TEST_F(ElasticCacheTest, WithinTheBudget_NothingChanges) {
  ElasticCache cache(budget, engine, budget.program);
  engine.used = budget.cache;
  EXPECT_FALSE(cache.look(within));
  EXPECT_TRUE(engine.sizes.empty());
}

TEST_F(ElasticCacheTest, AFullCacheGetsWhatOthersLeave_StepByStep) {
  ElasticCache cache(budget, engine, budget.program);
  engine.used = budget.cache;
  const size_t resident = budget.node / 64 * 61 - 100 * kWatchedMiB;
  EXPECT_FALSE(cache.look(resident)) << "it is larger";
  EXPECT_EQ(engine.sizes, std::vector<size_t>({budget.cache + 50 * kWatchedMiB}));
  engine.used = budget.cache + 50 * kWatchedMiB;
  EXPECT_FALSE(cache.look(resident));
  EXPECT_EQ(engine.sizes.back(), budget.cache + 100 * kWatchedMiB) << "from the size that it has now";
}

TEST_F(ElasticCacheTest, ACacheThatIsNotFull_DoesNotGrow) {
  ElasticCache cache(budget, engine, budget.program);
  engine.used = budget.cache / 32 * 31 - 1;
  EXPECT_FALSE(cache.look(0));
  EXPECT_TRUE(engine.sizes.empty());
  engine.used = budget.cache / 32 * 31;
  EXPECT_FALSE(cache.look(0));
  EXPECT_EQ(engine.sizes, std::vector<size_t>({budget.cache_max}));
}

TEST_F(ElasticCacheTest, AboveTheBudget_TheCacheShrinksAtOnce_FullOrNot) {
  ElasticCache cache(budget, engine, budget.program);
  EXPECT_TRUE(cache.look(budget.node / 64 * 63 + 20 * kWatchedMiB));
  EXPECT_EQ(engine.sizes, std::vector<size_t>({budget.cache - 20 * kWatchedMiB}));
  EXPECT_TRUE(cache.look(SIZE_MAX));
  EXPECT_EQ(engine.sizes.back(), budget.cache_min);
  EXPECT_FALSE(cache.look(SIZE_MAX)) << "it cannot be smaller";
  EXPECT_EQ(engine.sizes.size(), 2u) << "what stays is not set again";
}

TEST_F(ElasticCacheTest, WhatWasThereBeforeTheNode_IsNotCounted) {
  constexpr size_t kForeign = 5000 * kWatchedMiB;
  ElasticCache cache(budget, engine, budget.program + kForeign);
  engine.used = budget.cache;
  EXPECT_FALSE(cache.look(within + kForeign));
  EXPECT_TRUE(engine.sizes.empty());
  EXPECT_TRUE(cache.look(budget.node / 64 * 63 + kForeign + kWatchedMiB));
  EXPECT_EQ(engine.sizes, std::vector<size_t>({budget.cache - kWatchedMiB}));
  EXPECT_FALSE(cache.look(kForeign / 2)) << "some of it may be gone later";
}

TEST_F(ElasticCacheTest, TheProgramsShareIsCounted) {
  ElasticCache cache(budget, engine, budget.program / 2);
  engine.used = budget.cache;
  EXPECT_FALSE(cache.look(within));
  EXPECT_TRUE(engine.sizes.empty()) << "as if nothing had been there";
}

/// Against next_cache_bytes() alone, in all states.
TEST_F(ElasticCacheTest, AgreesWithItsTwin) {
  Rng rng(1);
  const size_t foreign = 300 * kWatchedMiB;
  ElasticCache cache(budget, engine, budget.program + foreign);
  size_t size = budget.cache;
  size_t changes = 0;
  for (int i = 0; i < 10'000; ++i) {
    const size_t resident = foreign + budget.node / 2 + rng.below(budget.node);
    engine.used = rng.below(2) == 0 ? size : rng.below(size);
    const size_t wanted = next_cache_bytes(budget, resident - foreign, size);
    const bool is_set = wanted < size || (wanted > size && engine.used >= size / 32 * 31);
    ASSERT_EQ(cache.look(resident), wanted < size);
    changes += is_set ? 1 : 0;
    ASSERT_EQ(engine.sizes.size(), changes);
    if (!is_set) continue;
    ASSERT_EQ(engine.sizes.back(), wanted);
    size = wanted;
  }
  EXPECT_GT(changes, 100u);
}

TEST(ResidentBytes, GrowWithMemoryThatIsUsed) {
  const auto before = resident_bytes();
  ASSERT_TRUE(before.ok());
  EXPECT_GT(*before, kWatchedMiB);
  const std::vector<char> used(64 * kWatchedMiB, 'x');
  const auto after = resident_bytes();
  ASSERT_TRUE(after.ok());
  EXPECT_GE(*after, *before + 60 * kWatchedMiB);
  EXPECT_EQ(used.back(), 'x');
}

TEST(MemoryWatch, EndsItsThread) {
  const MemoryBudget budget = split_memory({.node = 1024 * kWatchedMiB}).value();
  CacheAlone engine;
  const MemoryWatch watch(budget, engine);
}

}  // namespace
}  // namespace skua::kv
