#include "kvstore/replication/own_log.h"

#include <gtest/gtest.h>

#include <optional>

#include "kvstore/replication/epoch_history.h"
#include "kvstore/replication/log_levels.h"
#include "kvstore/replication/messages.h"

namespace skua::kv {
namespace {

/// Entries 1 to `count`, of epoch 1.
OwnLog log_of(uint64_t count, uint64_t commit_index) {
  EpochHistory entries({0, 0});
  for (uint64_t i = 0; i < count; ++i) entries.append(1);
  return {entries, commit_index};
}

TEST(LogLevels, AnEntryIsAsSafeAsItsWriterAsks) {
  const LogLevels levels{9, 6, 3};
  EXPECT_TRUE(levels.reaches(9, Durability::kMemory));
  EXPECT_FALSE(levels.reaches(9, Durability::kFlush));
  EXPECT_TRUE(levels.reaches(6, Durability::kFlush));
  EXPECT_FALSE(levels.reaches(6, Durability::kSync));
  EXPECT_TRUE(levels.reaches(3, Durability::kSync));
  EXPECT_FALSE(levels.reaches(4, Durability::kDefault));
  EXPECT_EQ(levels.up_to(5), (LogLevels{5, 5, 3}));
}

TEST(LogLevels, NoLevelFalls) {
  LogLevels levels{9, 6, 3};
  levels.raise_to({8, 7, 4});
  EXPECT_EQ(levels, (LogLevels{9, 7, 4}));
}

TEST(OwnLog, WhatItFindsAtTheStartIsDurable) {
  const OwnLog log = log_of(4, 2);
  EXPECT_EQ(log.levels(), LogLevels::all(4));
  EXPECT_EQ(log.commit_index(), 2U);
  EXPECT_EQ(log.first_available(), 1U);
  const OwnLog from_base(EpochHistory({7, 3}), 2);
  EXPECT_EQ(from_base.commit_index(), 7U) << "the base is committed";
  EXPECT_EQ(from_base.first_available(), 8U);
}

TEST(OwnLog, LevelsNameOnlyEntriesThatItHas) {
  OwnLog log = log_of(4, 2);
  log.append(1);
  EXPECT_EQ(log.levels(), (LogLevels{5, 4, 4}));
  log.set_levels({9, 9, 5});
  EXPECT_EQ(log.levels(), LogLevels::all(5));
  log.truncate_after(3);
  EXPECT_EQ(log.levels(), LogLevels::all(3));
}

TEST(OwnLog, OthersHearOfNoCommitThatReadsDoNotShow) {
  OwnLog log = log_of(4, 2);
  EXPECT_EQ(log.told_commit_index(), 2U);
  log.set_shown(3);
  log.commit(4);
  EXPECT_EQ(log.told_commit_index(), 3U);
  log.commit(1);
  EXPECT_EQ(log.commit_index(), 4U) << "it never falls";
}

TEST(OwnLog, AnAppendFitsBehindAnEntryThatBothHave) {
  const OwnLog log = log_of(4, 2);
  EXPECT_TRUE(log.continues(Append{2, {4, 1}, {2}}));
  EXPECT_FALSE(log.continues(Append{2, {4, 2}, {2}}));
  EXPECT_FALSE(log.continues(Append{2, {5, 1}, {2}})) << "a gap";
  EXPECT_TRUE(log.continues(Append{2, {2, 0}, {1}})) << "committed entries agree with every primary's log";
}

TEST(OwnLog, EntriesOfThePrimaryReplaceThoseThatDiffer) {
  OwnLog log = log_of(5, 2);
  const OwnLog::Change same = log.follow(Append{2, {2, 1}, {1, 1}});
  EXPECT_EQ(same.truncate_after, std::nullopt);
  EXPECT_EQ(same.accept_first, 0U);
  EXPECT_EQ(log.last_index(), 5U) << "what is behind them may still be the primary's";
  const OwnLog::Change change = log.follow(Append{2, {2, 1}, {1, 2, 2, 2}});
  EXPECT_EQ(change.truncate_after, 3U);
  EXPECT_EQ(change.accept_first, 4U);
  EXPECT_EQ(log.entries().last(), (EntryId{6, 2}));
  EXPECT_EQ(log.entries().epoch_of(3), 1U);
  EXPECT_EQ(log.levels(), (LogLevels{6, 3, 3})) << "the levels of those that were replaced do not count";
}

TEST(OwnLog, CommittedEntriesAreNeverReplaced) {
  OwnLog log = log_of(3, 3);
  const OwnLog::Change change = log.follow(Append{2, {1, 1}, {2, 2, 2}});
  EXPECT_EQ(change.truncate_after, std::nullopt);
  EXPECT_EQ(change.accept_first, 4U);
  EXPECT_EQ(log.entries().epoch_of(3), 1U);
  EXPECT_EQ(log.entries().last(), (EntryId{4, 2}));
}

TEST(OwnLog, ASnapshotKeepsTheEntriesBehindItIfItsLastIsTheLogs) {
  OwnLog log = log_of(5, 2);
  log.append(1);
  EXPECT_EQ(log.snapshot_fit({1, 1}), SnapshotFit::kNone);
  EXPECT_EQ(log.snapshot_fit({4, 1}), SnapshotFit::kKeepsLog);
  EXPECT_EQ(log.snapshot_fit({4, 2}), SnapshotFit::kReplacesLog);
  EXPECT_EQ(log.snapshot_fit({9, 2}), SnapshotFit::kReplacesLog);
  OwnLog replaced = log;
  log.install_snapshot({4, 1}, SnapshotFit::kKeepsLog);
  EXPECT_EQ(log.levels(), (LogLevels{6, 5, 5}));
  EXPECT_EQ(log.commit_index(), 4U);
  EXPECT_EQ(log.first_available(), 5U);
  replaced.install_snapshot({4, 2}, SnapshotFit::kReplacesLog);
  EXPECT_EQ(replaced.levels(), LogLevels::all(4));
  EXPECT_EQ(replaced.entries().last(), (EntryId{4, 2}));
}

}  // namespace
}  // namespace skua::kv
