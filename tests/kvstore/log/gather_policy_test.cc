#include "kvstore/log/gather_policy.h"

#include <gtest/gtest.h>

#include <optional>

namespace skua::kv {
namespace {

constexpr DurationNs kSync = 200 * kMicrosecond;

/// Groups one after the other, on a clock of its own.
class GatherPolicyTest : public ::testing::Test {
 protected:
  /// A group ends; the next may wait from when its first record is there.
  std::optional<GatherPolicy::Wait> after_group(int64_t records, int64_t waiting, DurationNs until_first = 0) {
    now_ += kSync;
    policy_.synced(now_, kSync, records, waiting);
    now_ += until_first;
    return policy_.wait(now_, waiting > 0 ? waiting : 1);
  }

  /// Of `groups` groups for which nobody comes back, those that were waited for.
  int fruitless_waits(int groups) {
    int waits = 0;
    for (int i = 0; i < groups; ++i) {
      if (!after_group(16, 16)) continue;
      ++waits;
      policy_.waited(17);
    }
    return waits;
  }

  GatherPolicy policy_{GatherPolicy::Options{}};
  TimeNs now_ = kSecond;
};

TEST_F(GatherPolicyTest, Wait_ForThoseWhoWereAnswered) {
  const auto wait = after_group(16, 16);
  ASSERT_TRUE(wait);
  EXPECT_EQ(wait->records, 32);
  EXPECT_EQ(wait->until, now_ + kSync / 4);
}

TEST_F(GatherPolicyTest, Wait_AllWereInTheGroupAndTheFirstIsBack) {
  const auto wait = after_group(32, 0, 20 * kMicrosecond);
  ASSERT_TRUE(wait);
  EXPECT_EQ(wait->records, 32);
}

TEST_F(GatherPolicyTest, Wait_NotForALoneWriter) {
  for (int i = 0; i < 100; ++i) EXPECT_FALSE(after_group(1, 0, 5 * kMicrosecond));
}

TEST_F(GatherPolicyTest, Wait_NotWhenTheFirstComesLate) {
  EXPECT_FALSE(after_group(32, 0, kSync + 1));
}

TEST_F(GatherPolicyTest, Wait_NotForMoreThanAGroupHolds) {
  EXPECT_FALSE(after_group(1024, 1024));
  EXPECT_EQ(after_group(1024, 1000)->records, 1024);
}

TEST_F(GatherPolicyTest, Wait_OncePerGroup) {
  ASSERT_TRUE(after_group(16, 16));
  policy_.waited(32);
  EXPECT_FALSE(policy_.wait(now_, 1));
}

TEST_F(GatherPolicyTest, Wait_NotOnADiskThatSyncsAtOnce) {
  policy_.synced(now_, 2 * kMicrosecond, 16, 16);
  EXPECT_FALSE(policy_.wait(now_, 16));
}

TEST_F(GatherPolicyTest, Wait_BoundedOnASlowDisk) {
  policy_.synced(now_, kSecond, 16, 16);
  EXPECT_EQ(policy_.wait(now_, 16)->until, now_ + GatherPolicy::Options{}.wait_max);
}

TEST_F(GatherPolicyTest, Written_WithoutASyncNothingIsWaitedFor) {
  policy_.synced(now_, kSync, 16, 16);
  policy_.written();
  EXPECT_FALSE(policy_.wait(now_, 16));
}

TEST_F(GatherPolicyTest, Waited_FewComeBackAndItGivesUpMoreAndMore) {
  EXPECT_LE(fruitless_waits(1000), 10);
  EXPECT_LE(fruitless_waits(10000), 10);
}

TEST_F(GatherPolicyTest, Waited_AfterAPauseItLearnsThatTheyDo) {
  fruitless_waits(20);
  int waits = 0;
  for (int i = 0; i < 1000; ++i) {
    if (!after_group(16, 16)) continue;
    ++waits;
    policy_.waited(32);
  }
  EXPECT_GT(waits, 900);
}

}  // namespace
}  // namespace skua::kv
