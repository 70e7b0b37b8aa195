#include "kvstore/storage/batch_memory.h"

#include <gtest/gtest.h>

namespace skua::kv {
namespace {

constexpr size_t kLarge = 2 * BatchMemory::kSmallEffects;

TEST(BatchMemory, LargeBatchesLeaveTheirMemoryToLargeOnes) {
  BatchMemory memory;
  std::vector<AppliedEffect> batch(kLarge);
  const AppliedEffect* const place = batch.data();
  memory.give(batch);
  EXPECT_EQ(batch.capacity(), 0U);
  EXPECT_EQ(memory.take(BatchMemory::kSmallEffects).capacity(), 0U);
  const std::vector<AppliedEffect> next = memory.take(kLarge);
  EXPECT_EQ(next.data(), place);
  EXPECT_TRUE(next.empty());
  EXPECT_EQ(memory.take(kLarge).capacity(), 0U);
}

TEST(BatchMemory, ASmallBatchKeepsItsMemory) {
  BatchMemory memory;
  std::vector<AppliedEffect> batch(10);
  const size_t capacity = batch.capacity();
  memory.give(batch);
  EXPECT_TRUE(batch.empty());
  EXPECT_EQ(batch.capacity(), capacity);
}

TEST(BatchMemory, KeepsNeitherManyNorWhatWasHardlyUsed) {
  BatchMemory memory;
  std::vector<AppliedEffect> wasteful;
  wasteful.reserve(kLarge);
  wasteful.resize(kLarge / 4 - 1);
  memory.give(wasteful);
  EXPECT_EQ(wasteful.capacity(), 0U);
  EXPECT_EQ(memory.take(kLarge).capacity(), 0U);
  for (size_t i = 0; i < BatchMemory::kSpareMax + 1; ++i) {
    std::vector<AppliedEffect> batch(kLarge);
    memory.give(batch);
  }
  for (size_t i = 0; i < BatchMemory::kSpareMax; ++i) EXPECT_GE(memory.take(kLarge).capacity(), kLarge);
  EXPECT_EQ(memory.take(kLarge).capacity(), 0U);
}

}  // namespace
}  // namespace skua::kv
