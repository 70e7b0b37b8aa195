#include "kvstore/replication/peer_log.h"

#include <gtest/gtest.h>

#include <optional>

namespace skua::kv {
namespace {

constexpr ReplicaOptions small() {
  ReplicaOptions options;
  options.append_entries_max = 4;
  options.window_entries_max = 10;
  return options;
}
constexpr ReplicaOptions kSmall = small();

using Report = PeerLog::Report;

/// A member whose log agrees up to `index`, all durable.
PeerLog matched_at(uint64_t index) {
  PeerLog log;
  EXPECT_EQ(log.take_report(EntryId{index, 1}, 1, true), Report::kAgrees);
  log.acknowledge(LogLevels::all(index));
  return log;
}

TEST(PeerLog, EntriesFlowBehindTheLastCommonOne) {
  PeerLog log = matched_at(5);
  EXPECT_TRUE(log.is_matched());
  const auto first = log.send_next(11, kSmall, 100);
  ASSERT_TRUE(first);
  EXPECT_EQ(first->first, 6U);
  EXPECT_EQ(first->last, 9U) << "no Append has more entries";
  const auto second = log.send_next(11, kSmall, 100);
  ASSERT_TRUE(second);
  EXPECT_EQ(second->first, 10U);
  EXPECT_EQ(second->last, 11U);
  EXPECT_FALSE(log.send_next(11, kSmall, 100));
}

TEST(PeerLog, SendsNoMoreThanItsWindow) {
  PeerLog log = matched_at(5);
  uint64_t last = 0;
  while (const auto range = log.send_next(100, kSmall, 100)) last = range->last;
  EXPECT_EQ(last, 15U);
  log.acknowledge({7, 5, 5});
  const auto range = log.send_next(100, kSmall, 100);
  ASSERT_TRUE(range);
  EXPECT_EQ(range->first, 16U);
  EXPECT_EQ(range->last, 17U) << "received entries make room";
}

TEST(PeerLog, AMemberThatHasLostEntriesIsAskedTwice) {
  PeerLog log = matched_at(5);
  EXPECT_EQ(log.take_report(EntryId{4, 1}, 1, true), Report::kTooShort);
  EXPECT_EQ(log.take_report(EntryId{5, 1}, 1, true), Report::kAgrees) << "the short one was overtaken";
  EXPECT_EQ(log.take_report(EntryId{4, 1}, 1, true), Report::kTooShort);
  EXPECT_EQ(log.take_report(EntryId{4, 1}, 1, true), Report::kHasLost);
  EXPECT_EQ(log.acked().durable, 5U);
  EXPECT_EQ(log.take_report(EntryId{4, 1}, 1, false), Report::kAgrees) << "nobody counts on a learner";
}

TEST(PeerLog, WhatWasNotDurableMayBeLost) {
  PeerLog log = matched_at(5);
  log.acknowledge({9, 8, 5});
  EXPECT_EQ(log.take_report(EntryId{6, 1}, 1, true), Report::kAgrees);
  EXPECT_EQ(log.acked(), (LogLevels{6, 6, 5}));
  EXPECT_EQ(log.next(), 7U);
}

TEST(PeerLog, ASnapshotIsNeededForWhatCannotBeReadHere) {
  PeerLog log;
  EXPECT_EQ(log.take_report(std::nullopt, 1, true), Report::kTooFarBehind);
  EXPECT_TRUE(log.needs_snapshot());
  EXPECT_EQ(log.take_report(EntryId{5, 1}, 7, true), Report::kTooFarBehind) << "entry 6 is gone";
  EXPECT_FALSE(log.is_matched());
  EXPECT_EQ(log.take_report(EntryId{6, 1}, 7, true), Report::kAgrees);
  EXPECT_FALSE(log.needs_snapshot());
  EXPECT_FALSE(log.is_out_of_reach(7, 9));
  EXPECT_TRUE(log.is_out_of_reach(8, 9));
  EXPECT_FALSE(log.is_out_of_reach(8, 6)) << "there is no next entry";
}

TEST(PeerLog, EntriesLostOnTheWayAreSentAgain) {
  PeerLog log = matched_at(5);
  ASSERT_TRUE(log.send_next(8, kSmall, 100));
  EXPECT_FALSE(log.take_heartbeat_reply(100, 5, 0));
  EXPECT_EQ(log.next(), 9U) << "the heartbeat may have overtaken them";
  EXPECT_FALSE(log.take_heartbeat_reply(101, 6, 0));
  EXPECT_EQ(log.next(), 7U);
}

TEST(PeerLog, AgreedEntriesAreNotSentAgain) {
  PeerLog log = matched_at(5);
  ASSERT_TRUE(log.send_next(8, kSmall, 100));
  EXPECT_TRUE(log.take_heartbeat_reply(101, 3, 0)) << "it does not know that they agree";
  EXPECT_EQ(log.next(), 6U);
  ASSERT_TRUE(log.send_next(8, kSmall, 100));
  EXPECT_TRUE(log.take_heartbeat_reply(101, 3, 6));
  EXPECT_EQ(log.next(), 7U) << "nothing below the base is sent";
}

TEST(PeerLog, NothingIsSentWhileTheConnectionIsFull) {
  PeerLog log = matched_at(5);
  ASSERT_TRUE(log.send_next(8, kSmall, 100));
  log.refuse(7);
  EXPECT_TRUE(log.is_refused());
  EXPECT_EQ(log.next(), 7U);
  log.refuse(8);
  EXPECT_EQ(log.next(), 7U);
  log.end_refusal();
  EXPECT_FALSE(log.is_refused());
  log.refuse(8);
  log.disconnect();
  EXPECT_FALSE(log.is_refused());
  EXPECT_FALSE(log.is_matched());
}

TEST(PeerLog, NothingOfAFormerReignCounts) {
  PeerLog log = matched_at(5);
  log.forget();
  EXPECT_FALSE(log.is_matched());
  EXPECT_EQ(log.acked(), LogLevels{});
  EXPECT_EQ(log.agreed(), 0U);
}

}  // namespace
}  // namespace skua::kv
