#include "kvstore/node/memory_budget.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

namespace skua::kv {
namespace {

using ::testing::HasSubstr;

constexpr size_t kMiB = size_t{1} << 20;

size_t sum(const MemoryBudget& budget, uint32_t workers) {
  return budget.program + budget.tier + budget.cache + workers * (budget.messages + budget.log_group);
}

TEST(SplitMemory, Any_SharesAddUpAndNoneIsBelowItsMinimum) {
  for (const uint32_t workers : {1U, 2U, 3U, 16U}) {
    const size_t minimum = (48 + 16 + workers * (12 + 16 + 16 + 4)) * kMiB;
    for (size_t more = 0; more < 70'000 * kMiB; more = 3 * more + kMiB + 12'345) {
      const auto budget = split_memory({.node = minimum + more, .workers = workers});
      ASSERT_TRUE(budget.ok()) << budget.status();
      EXPECT_EQ(sum(*budget, workers), minimum + more);
      EXPECT_GE(budget->tier, workers * 16 * kMiB);
      EXPECT_GE(budget->cache, 16 * kMiB);
      EXPECT_GE(budget->messages, 16 * kMiB);
      EXPECT_GE(budget->log_group, 4 * kMiB);
      EXPECT_LE(budget->log_group, 32 * kMiB);
      EXPECT_GE(budget->memtables, 4 * kMiB);
      EXPECT_LT(budget->memtables, budget->cache_min);
      EXPECT_LE(budget->cache_min, budget->cache);
      EXPECT_LE(budget->cache, budget->cache_max);
      EXPECT_EQ(budget->program + budget->tier + budget->cache_max, budget->node);
    }
  }
}

TEST(SplitMemory, Default_HalfIsForKeysAndValues) {
  const auto budget = split_memory({.node = 1024 * kMiB});
  ASSERT_TRUE(budget.ok());
  EXPECT_NEAR(static_cast<double>(budget->tier), 450.0 * kMiB, 20.0 * kMiB);
  EXPECT_NEAR(static_cast<double>(budget->cache), 350.0 * kMiB, 20.0 * kMiB);
}

TEST(SplitMemory, TooLittle_NamesTheMinimumWhichIsEnough) {
  MemoryWishes wishes{.node = 100 * kMiB, .workers = 2, .cache = 64 * kMiB};
  const absl::Status status = split_memory(wishes).status();
  EXPECT_EQ(status.code(), absl::StatusCode::kInvalidArgument);
  for (const char* word : {"--memory is 100 MiB", "2 workers", "--block-cache 64 MiB", "at least 208 MiB"}) {
    EXPECT_THAT(std::string(status.message()), HasSubstr(word));
  }
  wishes.node = 208 * kMiB;
  EXPECT_TRUE(split_memory(wishes).ok());
}

TEST(SplitMemory, Given_AreTakenAndTheOthersDivideTheRest) {
  const auto budget = split_memory(
      {.node = 600 * kMiB, .workers = 2, .cache = 100 * kMiB, .memtables = 30 * kMiB, .messages = 50 * kMiB});
  ASSERT_TRUE(budget.ok());
  EXPECT_EQ(budget->cache, 100 * kMiB);
  EXPECT_EQ(budget->cache_min, 100 * kMiB);
  EXPECT_EQ(budget->cache_max, 100 * kMiB);
  EXPECT_EQ(budget->memtables, 30 * kMiB);
  EXPECT_EQ(budget->messages, 50 * kMiB);
  EXPECT_EQ(sum(*budget, 2), 600 * kMiB);
}

TEST(SplitMemory, GivenTooSmall_NamesTheOption) {
  const auto why = [](const MemoryWishes& wishes) { return split_memory(wishes).status().ToString(); };
  EXPECT_THAT(why({.node = 1024 * kMiB, .cache = kMiB}), HasSubstr("--block-cache"));
  EXPECT_THAT(why({.node = 1024 * kMiB, .memtables = kMiB}), HasSubstr("--write-buffer"));
  EXPECT_THAT(why({.node = 1024 * kMiB, .cache = 64 * kMiB, .memtables = 49 * kMiB}), HasSubstr("--write-buffer"));
  EXPECT_THAT(why({.node = 1024 * kMiB, .messages = kMiB}), HasSubstr("--message-memory"));
}

TEST(SplitMemory, GivenMoreThanAll_NamesBoth) {
  const auto why = [](const MemoryWishes& wishes) { return split_memory(wishes).status().ToString(); };
  EXPECT_THAT(why({.node = 1024 * kMiB, .cache = 2048 * kMiB}),
              HasSubstr("--block-cache is 2048 MiB, which is a part of --memory"));
  // Times the workers it would be nothing at all.
  const std::string messages = why({.node = 1024 * kMiB, .workers = 4, .messages = size_t{1} << 62});
  EXPECT_THAT(messages, HasSubstr("--message-memory"));
  EXPECT_THAT(messages, HasSubstr("that is 1024 MiB"));
}

TEST(NextCacheBytes, TakesHalfOfWhatIsFreeAndGivesUpAtOnce) {
  const auto budget = split_memory({.node = 1024 * kMiB});
  ASSERT_TRUE(budget.ok());
  EXPECT_EQ(next_cache_bytes(*budget, 876 * kMiB, budget->cache), budget->cache + 50 * kMiB);
  EXPECT_EQ(next_cache_bytes(*budget, 1000 * kMiB, budget->cache), budget->cache) << "within the band";
  EXPECT_EQ(next_cache_bytes(*budget, 1028 * kMiB, budget->cache), budget->cache - 20 * kMiB);
  EXPECT_EQ(next_cache_bytes(*budget, 0, budget->cache), budget->cache_max);
  EXPECT_EQ(next_cache_bytes(*budget, 9000 * kMiB, budget->cache), budget->cache_min);
}

/// Whatever else is resident, the whole comes to rest within the budget, if the cache's range allows it.
TEST(NextCacheBytes, Repeated_ComesToRestWithinTheBudget) {
  const auto budget = split_memory({.node = 512 * kMiB});
  ASSERT_TRUE(budget.ok());
  for (size_t others = budget->node - budget->cache_max; others < budget->node - budget->cache_min; others += kMiB) {
    size_t cache = budget->cache;
    for (int second = 0; second < 40; ++second) cache = next_cache_bytes(*budget, others + cache, cache);
    EXPECT_LE(others + cache, budget->node) << others / kMiB;
    EXPECT_EQ(next_cache_bytes(*budget, others + cache, cache), cache) << others / kMiB;
    EXPECT_GT(others + cache, budget->node / 10 * 9) << others / kMiB;
  }
}

}  // namespace
}  // namespace skua::kv
