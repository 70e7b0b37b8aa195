#include "kvstore/replication/confirm_rounds.h"

#include <gtest/gtest.h>

namespace skua::kv {
namespace {

TEST(ConfirmRounds, ReadsThatComeDuringARoundShareTheNext) {
  ConfirmRounds rounds;
  EXPECT_FALSE(rounds.begin()) << "nobody waits";
  EXPECT_EQ(rounds.want(), 1U);
  EXPECT_TRUE(rounds.begin());
  EXPECT_EQ(rounds.want(), 2U) << "round 1 began before this read";
  EXPECT_EQ(rounds.want(), 2U);
  EXPECT_FALSE(rounds.begin()) << "round 1 is under way";
  EXPECT_EQ(rounds.confirmed(), 0U);
  rounds.finish();
  EXPECT_EQ(rounds.confirmed(), 1U);
  EXPECT_TRUE(rounds.begin());
  EXPECT_EQ(rounds.asked(), 2U);
  rounds.finish();
  EXPECT_FALSE(rounds.begin());
}

TEST(ConfirmRounds, OfALeadershipThatEndedConfirmNothing) {
  ConfirmRounds rounds;
  EXPECT_EQ(rounds.want(), 1U);
  ASSERT_TRUE(rounds.begin());
  EXPECT_EQ(rounds.want(), 2U);
  rounds.abandon();
  EXPECT_EQ(rounds.confirmed(), 0U);
  EXPECT_FALSE(rounds.is_under_way());
  EXPECT_FALSE(rounds.begin());
}

}  // namespace
}  // namespace skua::kv
