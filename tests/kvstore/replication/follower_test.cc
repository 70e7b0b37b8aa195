#include "kvstore/replication/follower.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <optional>
#include <vector>

#include "tests/kvstore/replication/replica_parts.h"

namespace skua::kv {
namespace {

using ::testing::ElementsAre;
using testing::find_message;
using ::testing::IsEmpty;
using testing::kBegan;
using testing::kOptions;
using testing::receivers;
using testing::StateOfOne;
using testing::view_of;
constexpr ReplicaId kPrimary{2, 1};
constexpr ReplicaId kOther{3, 1};

/// Replica 1 follows 2 in epoch 4.
struct Backup {
  explicit Backup(const View& view = view_of(4, 2, {1, 2, 3})) : state(view) {}

  /// Gives a message; `out` has what it leads to.
  template <typename Message>
  void take(const ReplicaId& from, const Message& message, TimeNs now = kBegan) {
    out.clear();
    follower.on(from, message, now, out);
  }
  /// The primary's entries of these epochs, behind `prev`.
  void append(EntryId prev, std::vector<uint64_t> epochs, uint64_t commit_index = 0) {
    take(kPrimary, Append{4, prev, std::move(epochs), commit_index, false});
  }
  void log_reaches(const LogLevels& levels) {
    out.clear();
    const LogLevels before = state.log.levels();
    state.log.set_levels(levels);
    follower.log_moved(before, out);
  }
  [[nodiscard]] uint64_t committed() const { return state.log.commit_index(); }

  StateOfOne state;
  Follower follower{state};
  ReplicaOutput out;
};

TEST(Follower, TellsItsPrimaryWhereItsLogEnds) {
  Backup backup;
  backup.state.log.append(3);
  backup.state.sync_log();
  backup.state.doubt = 77;
  backup.take(kPrimary, StartView{backup.state.view});
  ASSERT_THAT(receivers<TailReport>(backup.out), ElementsAre(kPrimary.node));
  const TailReport& tail = *find_message<TailReport>(backup.out);
  EXPECT_EQ(tail.epoch, 4U);
  EXPECT_EQ(tail.log.last(), (EntryId{1, 3}));
  EXPECT_EQ(tail.levels, LogLevels::all(1));
  EXPECT_EQ(tail.doubt, 77U);
}

TEST(Follower, TellsAFormerPrimaryThatItsViewIsOld) {
  Backup backup;
  backup.take(kOther, StartView{view_of(3, 3, {1, 2, 3})});
  ASSERT_THAT(receivers<StaleEpoch>(backup.out), ElementsAre(kOther.node));
  EXPECT_EQ(find_message<StaleEpoch>(backup.out)->view.epoch, 4U);
}

TEST(Follower, AsksTheControlPlaneForANewerView) {
  Backup backup;
  backup.take(kOther, StartView{view_of(5, 3, {1, 3})});
  EXPECT_TRUE(backup.out.fetch_view);
  EXPECT_THAT(backup.out.messages, IsEmpty());
}

TEST(Follower, TakesOverThePrimarysEntries) {
  Backup backup;
  backup.append({0, 0}, {4, 4});
  EXPECT_EQ(backup.out.accept_first, 1U);
  EXPECT_FALSE(backup.out.truncate_after.has_value());
  EXPECT_THAT(backup.out.messages, IsEmpty()) << "they are acknowledged when the log has them";
  backup.log_reaches({2, 2, 0});
  ASSERT_THAT(receivers<AppendReply>(backup.out), ElementsAre(kPrimary.node));
  EXPECT_EQ(find_message<AppendReply>(backup.out)->levels, (LogLevels{2, 2, 0}));
}

TEST(Follower, AcknowledgesReceivedEntriesIfThePrimaryAsks) {
  Backup backup;
  backup.take(kPrimary, Append{4, {0, 0}, {4, 4}, 0, true});
  ASSERT_THAT(receivers<AppendReply>(backup.out), ElementsAre(kPrimary.node));
  EXPECT_EQ(find_message<AppendReply>(backup.out)->levels, (LogLevels{2, 0, 0}));
}

TEST(Follower, ReplacesItsEntriesThatDiffer) {
  Backup backup;
  for (int i = 0; i < 3; ++i) backup.state.log.append(2);
  backup.append({1, 2}, {4});
  EXPECT_EQ(backup.out.truncate_after, std::optional<uint64_t>(1));
  EXPECT_EQ(backup.out.accept_first, 2U);
  EXPECT_EQ(backup.state.log.entries().last(), (EntryId{2, 4}));
}

TEST(Follower, ReportsAGapOncePerWhile) {
  Backup backup;
  backup.append({5, 4}, {4});
  EXPECT_THAT(receivers<TailReport>(backup.out), ElementsAre(kPrimary.node));
  EXPECT_EQ(backup.out.accept_first, 0U);
  backup.append({6, 4}, {4});
  EXPECT_THAT(backup.out.messages, IsEmpty());
  backup.take(kPrimary, Append{4, {7, 4}, {4}, 0, false}, kBegan + kOptions.tail_again_ns);
  EXPECT_THAT(receivers<TailReport>(backup.out), ElementsAre(kPrimary.node));
}

TEST(Follower, IgnoresEntriesThatNoLogCanHave) {
  Backup backup;
  backup.append({0, 0}, {4, 3});
  EXPECT_EQ(backup.out.accept_first, 0U) << "epochs do not fall";
  backup.append({0, 0}, {5});
  EXPECT_EQ(backup.out.accept_first, 0U) << "this epoch has not begun";
  backup.append({EpochHistory::kIndexMax, 4}, {4});
  EXPECT_EQ(backup.out.accept_first, 0U);
  EXPECT_THAT(backup.out.messages, IsEmpty());
}

TEST(Follower, FollowsItsPrimaryOnly) {
  Backup backup;
  backup.take(kOther, Append{4, {0, 0}, {4}, 1, true});
  EXPECT_EQ(backup.out.accept_first, 0U);
  EXPECT_THAT(backup.out.messages, IsEmpty());
  backup.take(kOther, SnapshotNeeded{4});
  EXPECT_FALSE(backup.out.fetch_snapshot);
}

TEST(Follower, CommitsWhatAgreesAndIsWritten) {
  Backup backup;
  backup.state.log.append(2);
  backup.state.sync_log();
  backup.follower.learn_commit(3);
  EXPECT_EQ(backup.committed(), 0U) << "its entry may differ from the primary's";
  backup.append({1, 2}, {4, 4}, 3);
  EXPECT_EQ(backup.committed(), 1U) << "the log has not written the others yet";
  backup.log_reaches({3, 2, 1});
  EXPECT_EQ(backup.committed(), 2U);
}

TEST(Follower, FetchesASnapshotIfThePrimaryKnowsItsLog) {
  Backup backup;
  backup.append({0, 0}, {4});
  backup.take(kPrimary, SnapshotNeeded{4});
  EXPECT_FALSE(backup.out.fetch_snapshot);
  EXPECT_THAT(receivers<TailReport>(backup.out), ElementsAre(kPrimary.node))
      << "the logs agreed: an old report came late";
  backup.take(kPrimary, SnapshotNeeded{4});
  EXPECT_TRUE(backup.out.fetch_snapshot);
}

TEST(Follower, ItsDoubtIsOverWhenThePrimaryNamesIt) {
  Backup backup;
  backup.state.doubt = 77;
  backup.take(kPrimary, Restored{4, 76});
  EXPECT_FALSE(backup.out.restored);
  backup.take(kOther, Restored{4, 77});
  EXPECT_FALSE(backup.out.restored);
  backup.take(kPrimary, Restored{4, 77});
  EXPECT_TRUE(backup.out.restored);
  EXPECT_EQ(backup.state.doubt, 0U);
}

TEST(Follower, RepeatsItsReportUntilAnAppendContinuesIt) {
  Backup backup;
  for (int i = 0; i < 2; ++i) {
    backup.out.clear();
    backup.follower.heartbeat(kBegan, backup.out);
    EXPECT_THAT(receivers<TailReport>(backup.out), ElementsAre(kPrimary.node));
  }
  backup.append({0, 0}, {});
  backup.out.clear();
  backup.follower.heartbeat(kBegan, backup.out);
  EXPECT_THAT(backup.out.messages, IsEmpty());
}

TEST(Follower, ThatServesReadsAsksAllMembersForPromises) {
  View view = view_of(4, 2, {1, 2, 3});
  view.read_anywhere = true;
  Backup backup(view);
  backup.follower.heartbeat(kBegan, backup.out);
  EXPECT_THAT(receivers<Heartbeat>(backup.out), ElementsAre(2, 3));
}

}  // namespace
}  // namespace skua::kv
