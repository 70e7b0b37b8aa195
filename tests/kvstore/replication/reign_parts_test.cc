// The small parts of a reign: entries that wait for commit, rounds of Confirm, and the time of the next heartbeat.
#include <gtest/gtest.h>

#include "kvstore/replication/commit_queue.h"
#include "kvstore/replication/confirm_rounds.h"
#include "kvstore/replication/heartbeat_timer.h"

namespace skua::kv {
namespace {

TEST(CommitQueue, KeepsTheOrderOfIndices) {
  CommitQueue queue;
  queue.add(7, Durability::kSync);
  queue.add(8, Durability::kMemory);
  EXPECT_EQ(queue.oldest().index, 7U);
  queue.drop_oldest();
  EXPECT_EQ(queue.oldest().index, 8U);
  EXPECT_EQ(queue.oldest().level, Durability::kMemory);
  queue.clear();
  EXPECT_TRUE(queue.empty());
}

TEST(CommitQueue, FindsOnlyWhatWaits) {
  CommitQueue queue;
  for (const uint64_t index : {7U, 9U, 10U}) queue.add(index, Durability::kFlush);
  queue.drop_oldest();
  EXPECT_EQ(queue.find(7), nullptr);
  EXPECT_EQ(queue.find(8), nullptr);
  ASSERT_NE(queue.find(9), nullptr);
  EXPECT_EQ(queue.find(9)->level, Durability::kFlush);
  EXPECT_EQ(queue.find(11), nullptr);
}

TEST(CommitQueue, KnowsWhoseEntriesAreEnoughInMemory) {
  CommitQueue queue;
  queue.add(7, Durability::kSync);
  queue.add(8, Durability::kMemory);
  queue.add(9, Durability::kFlush);
  EXPECT_TRUE(queue.any_in_memory(7, 9));
  EXPECT_TRUE(queue.any_in_memory(1, 8));
  EXPECT_FALSE(queue.any_in_memory(1, 7));
  EXPECT_FALSE(queue.any_in_memory(9, 20));
  EXPECT_FALSE(queue.any_in_memory(9, 8)) << "no entries";
}

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

TEST(ConfirmRounds, OfAReignThatEndedConfirmNothing) {
  ConfirmRounds rounds;
  EXPECT_EQ(rounds.want(), 1U);
  ASSERT_TRUE(rounds.begin());
  EXPECT_EQ(rounds.want(), 2U);
  rounds.abandon();
  EXPECT_EQ(rounds.confirmed(), 0U);
  EXPECT_FALSE(rounds.is_under_way());
  EXPECT_FALSE(rounds.begin());
}

TEST(HeartbeatTimer, IsDueRegularly) {
  HeartbeatTimer timer;
  timer.set(100);
  EXPECT_FALSE(timer.take_if_due(99, 50));
  EXPECT_TRUE(timer.take_if_due(100, 50));
  EXPECT_EQ(timer.wake_at(), 150);
  EXPECT_FALSE(timer.take_if_due(149, 50));
}

TEST(HeartbeatTimer, IsDueEarlierToTellOfACommit) {
  HeartbeatTimer timer;
  timer.set(1000);
  timer.tell_commit_by(200);
  timer.tell_commit_by(300);
  EXPECT_EQ(timer.wake_at(), 200) << "the first commit must not wait for the second";
  EXPECT_FALSE(timer.take_if_due(199, 50));
  EXPECT_TRUE(timer.take_if_due(200, 50));
  EXPECT_EQ(timer.wake_at(), 250) << "the heartbeat has told of the commit";
  timer.tell_commit_by(220);
  timer.commit_is_told();
  EXPECT_EQ(timer.wake_at(), 250);
}

}  // namespace
}  // namespace skua::kv
