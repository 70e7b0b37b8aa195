#include "kvstore/replication/commit_queue.h"

#include <gtest/gtest.h>

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

}  // namespace
}  // namespace skua::kv
