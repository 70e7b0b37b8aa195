#include "kvstore/shard/entry_log.h"

#include <gtest/gtest.h>

#include <string>
#include <string_view>
#include <vector>

#include "kvstore/codec/effect.h"
#include "kvstore/shard/worker_engine.h"
#include "tests/kvstore/shard/engine_lives.h"
#include "tests/kvstore/types/mutations.h"

namespace skua::kv {
namespace {

using testing::put_of;
using testing::World;

/// A replicated shard, and what it tells about its entries.
class EntryLogTest : public ::testing::Test, public EntryObserver {
 protected:
  EntryLogTest() {
    world_.start();
    shard().replicate();
    entries().set_observer(this);
  }
  Shard& shard() { return world_.shard(0); }
  EntryLog& entries() { return shard().entries(); }
  void wait_until_synced(uint64_t index) {
    world_.tasks().run_until([&] { return shard().indices().synced >= index && moves > 0; });
  }

  void proposed(const ReplicaEntry& entry) override { proposals.push_back(entry); }
  void log_moved(bool refused) override {
    ++moves;
    EXPECT_FALSE(refused);
  }
  [[nodiscard]] std::string why_no_marks() const override { return {}; }

  World world_{60};
  std::vector<ReplicaEntry> proposals;  // their payloads are views
  size_t moves = 0;
};

TEST_F(EntryLogTest, Refusal_OnlyAPrimaryThatMayProposeTakesWrites) {
  EXPECT_NE(entries().refusal().find("primary"), std::string_view::npos);
  shard().lead(2);
  EXPECT_EQ(entries().refusal(), "");
  entries().hold_writes(true);
  EXPECT_NE(entries().refusal().find("members"), std::string_view::npos);
  world_.write(0, put_of("key0", "value"));
  EXPECT_EQ(world_.counts[KvStatus::kWrongShard], 1U);
  shard().follow();
  EXPECT_NE(entries().refusal().find("primary"), std::string_view::npos);
  shard().lead(3);
  EXPECT_EQ(entries().refusal(), "") << "who begins to lead holds nothing";
  EXPECT_TRUE(entries().stop_leading());
  EXPECT_FALSE(entries().stop_leading());
  EXPECT_TRUE(proposals.empty());
}

TEST_F(EntryLogTest, Propose_AnEntryOfTheEpochThatIsAtLeastWritten) {
  shard().lead(5);
  world_.write(0, put_of("key0", "one"), Durability::kMemory);
  world_.write(0, put_of("key1", "two"), Durability::kSync);
  ASSERT_EQ(proposals.size(), 2U);
  EXPECT_EQ(proposals[0].index, 1U);
  EXPECT_EQ(proposals[0].epoch, 5U);
  EXPECT_EQ(proposals[0].durability, Durability::kFlush);
  EXPECT_EQ(proposals[1].index, 2U);
  EXPECT_EQ(proposals[1].durability, Durability::kSync);
  wait_until_synced(2);
  EXPECT_EQ(world_.unanswered(), 2U) << "they are not committed";
  EXPECT_EQ(world_.read(0, "key0").value, "(none)");
  shard().commit_entries(2);
  EXPECT_EQ(world_.unanswered(), 0U);
  EXPECT_EQ(world_.counts[KvStatus::kOk], 2U);
  EXPECT_EQ(world_.read(0, "key0").value, "one");
}

/// The log takes an entry with its head. A primary whose log gives an entry back leads no longer.
TEST_F(EntryLogTest, Propose_TheLargestThatTheLogTakesWithAHead) {
  const size_t bytes_max = shard().worker().log->payload_bytes_max();
  shard().lead(5);
  for (size_t bytes = bytes_max - 64; bytes <= bytes_max; ++bytes) {
    world_.write(0, put_of("key0", std::string(bytes, 'x')));
    const size_t proposed = proposals.size();
    world_.tasks().run_until([&] { return shard().indices().written == proposed; });
    shard().commit_entries(proposed);
  }
  world_.wait_for_answers();
  EXPECT_GT(world_.counts[KvStatus::kOk], 0U);
  EXPECT_GT(world_.counts[KvStatus::kInvalidArgument], kEntryHeadBytes);
  EXPECT_NE(world_.last_why.find("--log-segment"), std::string::npos) << world_.last_why;
  EXPECT_EQ(entries().refusal(), "");
}

TEST_F(EntryLogTest, StopLeading_WhatWasProposedIsAborted) {
  shard().lead(5);
  world_.write(0, put_of("key0", "one"));
  shard().follow();
  EXPECT_EQ(world_.unanswered(), 0U);
  EXPECT_EQ(world_.counts[KvStatus::kAborted], 1U);
  wait_until_synced(1);
  shard().commit_entries(1);
  EXPECT_EQ(world_.read(0, "key0").value, "one") << "the entry was committed all the same";
}

/// The state of the keys is only in the database.
class ColdEntryLogTest : public EntryLogTest {
 protected:
  ColdEntryLogTest() {
    world_.stop();
    world_.start();
    for (const char* key : {"key0", "key1", "key2"}) world_.put(0, key, "1");
    world_.stop();
    world_.start();
    shard().replicate();
    entries().set_observer(this);
    shard().lead(2);
  }
  /// Another primary leads, and then this replica again.
  void lead_again() {
    shard().follow();
    shard().lead(3);
  }
};

TEST_F(ColdEntryLogTest, Lead_WritesThatWaitForTheDatabaseSinceBeforeAreRefused) {
  const Mutation batch[] = {mutations::add("key1", 1), mutations::add("key2", 1)};
  world_.write(0, mutations::add("key0", 1));
  world_.write_batch(0, batch);
  world_.write(0, put_of("key3", "blind"));
  ASSERT_EQ(world_.unanswered(), 3U) << "they wait for the database";
  lead_again();
  world_.wait_for_answers();
  EXPECT_EQ(world_.counts[KvStatus::kWrongShard], 3U);
  EXPECT_TRUE(proposals.empty()) << "their clients may have repeated them at the other primary";
}

TEST_F(ColdEntryLogTest, Lead_WritesBehindThemAreEvaluated) {
  world_.write(0, mutations::add("key0", 1));
  lead_again();
  world_.write(0, mutations::add("key0", 5));  // waits for the same read
  world_.tasks().run_until([&] { return world_.unanswered() == 1; });
  EXPECT_EQ(world_.counts[KvStatus::kWrongShard], 1U);
  ASSERT_EQ(proposals.size(), 1U);
  wait_until_synced(4);
  shard().commit_entries(4);
  EXPECT_EQ(world_.read(0, "key0").value, "6");
}

TEST_F(EntryLogTest, Close_TheObserverIsNotCalledAnyMore) {
  shard().lead(1);
  world_.write(0, put_of("key0", "one"));
  shard().follow();
  const size_t before = moves;
  bool closed = false;
  world_.engine().close_shard(shard(), [&] { closed = true; });
  world_.tasks().run_until([&] { return closed; });
  EXPECT_EQ(moves, before);
}

}  // namespace
}  // namespace skua::kv
