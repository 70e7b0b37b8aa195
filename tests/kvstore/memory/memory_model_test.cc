#include <gtest/gtest.h>

#include <cinttypes>
#include <cstdio>
#include <cstdlib>
#include <string>

#include "kvstore/types/mutants.h"
#include "tests/kvstore/memory/memory_world.h"

namespace skua::kv {

namespace {

constexpr int kSteps = 8000;
constexpr uint64_t kSeeds = 150;

TEST(MemoryModelTest, Property_AgreesWithTheModel) {
  MemoryTier::Counters sum;
  uint64_t large_worlds = 0;
  for (uint64_t seed = 1; seed <= kSeeds; ++seed) {
    MemoryWorld world(seed);
    ASSERT_EQ(world.run(kSteps), "") << "seed " << seed;
    sum.hits += world.counters().hits;
    sum.absent_hits += world.counters().absent_hits;
    sum.misses += world.counters().misses;
    sum.fills += world.counters().fills;
    sum.puts_refused += world.counters().puts_refused;
    sum.evicted_regions += world.counters().evicted_regions;
    sum.forwarded_items += world.counters().forwarded_items;
    if (world.data_bytes() > 4 * world.budget_bytes()) ++large_worlds;
  }
  // That the worlds have all of it in them, or the checks above are of little worth.
  EXPECT_GT(sum.hits, kSeeds * 1000);
  EXPECT_GT(sum.absent_hits, kSeeds * 10);
  EXPECT_GT(sum.misses, kSeeds * 500);
  EXPECT_GT(sum.fills, kSeeds * 100);
  EXPECT_GT(sum.puts_refused, 0U);
  EXPECT_GT(sum.evicted_regions, kSeeds * 20);
  EXPECT_GT(sum.forwarded_items, kSeeds * 100);
  EXPECT_GT(large_worlds, 0U);
  RecordProperty("large_worlds", static_cast<int>(large_worlds));
}

/// Exits with 1 when a world finds a fault, with 0 when none does.
[[noreturn]] void look_for(Mutant fault) {
  active_mutant<Mutant> = fault;
  for (uint64_t seed = 1; seed <= kSeeds; ++seed) {
    const std::string failure = MemoryWorld(seed).run(kSteps);
    if (failure.empty()) continue;
    std::fprintf(stderr, "seed %" PRIu64 ": %s\n", seed, failure.c_str());
    std::_Exit(1);
  }
  std::_Exit(0);
}

class MemoryMutantTest : public testing::TestWithParam<Mutant> {};

// In a process of its own, because some faults run into a SKUA_CHECK before the model notices.
TEST_P(MemoryMutantTest, Mutant_IsCaught) {
  EXPECT_EXIT(
      look_for(GetParam()), [](int status) { return status != 0; }, "seed|check failed");
}

INSTANTIATE_TEST_SUITE_P(All, MemoryMutantTest,
                         testing::Values(Mutant::kReuseRegionEarly, Mutant::kEvictDirty, Mutant::kDropTombstone,
                                         Mutant::kStaleFill, Mutant::kIgnoreTicket, Mutant::kMarkCleanTooFar,
                                         Mutant::kForwardDropsExpiry, Mutant::kKeepDroppedShard,
                                         Mutant::kLoseItemOnSplit));

}  // namespace
}  // namespace skua::kv
