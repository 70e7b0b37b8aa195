#include "kvstore/completions/completion_floor.h"

#include <gtest/gtest.h>

#include <cstdint>

namespace skua::kv {
namespace {

TEST(CompletionFloorTest, RefusesNothingBeforeItRises) {
  const CompletionFloor floor;
  EXPECT_EQ(floor.at(5), 0U);
  EXPECT_EQ(floor.first_taken(5), 1U);
  EXPECT_EQ(floor.seq(), 0U);
}

TEST(CompletionFloorTest, NeverFallsAndEndsAfterAnHour) {
  CompletionFloor floor;
  floor.raise(90, 1000);
  floor.raise(40, 2000);
  EXPECT_EQ(floor.at(2000), 90U);
  EXPECT_EQ(floor.first_taken(2000), 90 + kCompletionSeqMargin);
  EXPECT_EQ(floor.at(2000 + kClientSilentMsMax), 90U);
  EXPECT_EQ(floor.at(2001 + kClientSilentMsMax), 0U);
  EXPECT_EQ(floor.first_taken(2001 + kClientSilentMsMax), 1U);
  EXPECT_EQ(floor.seq(), 90U) << "it is still stored";
}

TEST(CompletionFloorTest, IsFar_CountsFromTheFloor) {
  CompletionFloor floor;
  EXPECT_FALSE(floor.is_far(kCompletionSeqStepMax));
  EXPECT_TRUE(floor.is_far(kCompletionSeqStepMax + 1));
  floor.raise(10, 1);
  EXPECT_FALSE(floor.is_far(5));
  EXPECT_FALSE(floor.is_far(kCompletionSeqStepMax + 10));
  EXPECT_TRUE(floor.is_far(kCompletionSeqStepMax + 11));
}

TEST(CompletionFloorTest, FirstTaken_DoesNotRunOver) {
  CompletionFloor floor;
  floor.raise(UINT64_MAX - 5, 1);
  EXPECT_EQ(floor.first_taken(1), UINT64_MAX);
}

TEST(CompletionFloorTest, BoundTime_OfAStoredFloor) {
  CompletionFloor floor(90, 5000);
  EXPECT_FALSE(floor.bound_time(5000));
  EXPECT_TRUE(floor.bound_time(3000));
  EXPECT_EQ(floor.raised_ms(), 3000U);
  EXPECT_EQ(floor.at(3000), 90U);
}

}  // namespace
}  // namespace skua::kv
