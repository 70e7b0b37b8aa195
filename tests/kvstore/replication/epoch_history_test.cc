#include "kvstore/replication/epoch_history.h"

#include <gtest/gtest.h>

#include <vector>

#include "rpc/base/rng.h"

namespace skua::kv {
namespace {

/// An epoch per entry.
struct DumbLog {
  std::vector<uint64_t> epochs{0};  // by index; entry 0 is the base

  [[nodiscard]] std::optional<EntryId> last_common(const DumbLog& other) const {
    for (size_t at = std::min(epochs.size(), other.epochs.size()); at-- > 0;) {
      if (epochs[at] == other.epochs[at]) return EntryId{at, epochs[at]};
    }
    return std::nullopt;
  }
};

TEST(EpochHistory, EmptyLogsAgreeInNothing) {
  const EpochHistory empty;
  EXPECT_EQ(empty.last_index(), 0U);
  EXPECT_EQ(empty.epoch_of(0), 0U);
  EXPECT_EQ(empty.epoch_of(1), std::nullopt);
  EXPECT_EQ(empty.last_common(EpochHistory{}), (EntryId{0, 0}));
}

TEST(EpochHistory, CompactedLogsThatDoNotMeetTellNothing) {
  EpochHistory ahead(EntryId{100, 3});
  EpochHistory behind;
  for (int i = 0; i < 50; ++i) behind.append(2);
  EXPECT_EQ(ahead.last_common(behind), std::nullopt);
}

TEST(EpochHistory, FollowsItsDumbTwin) {
  Rng rng(7);
  for (int round = 0; round < 500; ++round) {
    EpochHistory runs[2];
    DumbLog dumb[2];
    for (int step = 0; step < 60; ++step) {
      const size_t which = rng.below(2);
      const uint64_t kind = rng.below(10);
      if (kind < 8) {
        const uint64_t epoch = 1 + rng.below(4);
        runs[which].append(epoch);
        dumb[which].epochs.push_back(epoch);
      } else if (kind == 8) {
        const uint64_t keep = rng.below(dumb[which].epochs.size());
        runs[which].truncate(keep);
        dumb[which].epochs.resize(keep + 1);
      } else {
        runs[which] = runs[1 - which];
        dumb[which] = dumb[1 - which];
      }
      for (size_t index = 0; index < dumb[which].epochs.size(); ++index) {
        ASSERT_EQ(runs[which].epoch_of(index), dumb[which].epochs[index]);
      }
      ASSERT_EQ(runs[which].last_index() + 1, dumb[which].epochs.size());
      ASSERT_EQ(runs[0].last_common(runs[1]), dumb[0].last_common(dumb[1]));
    }
  }
}

TEST(EpochHistory, CompactionKeepsWhatIsAboveTheBase) {
  EpochHistory log;
  for (uint64_t epoch = 1; epoch <= 50; ++epoch) {
    log.append(epoch);
    log.append(epoch);
  }
  log.compact_to(8, 30);
  EXPECT_EQ(log.base(), (EntryId{30, 15}));
  log.compact_to(8, 100);
  EXPECT_EQ(log.runs().size(), 8U);
  EXPECT_EQ(log.epoch_of(100), 50U);
  EXPECT_EQ(log.epoch_of(log.base().index), log.base().epoch);
  const auto copy = EpochHistory::from_parts(log.base(), log.runs(), log.last_index());
  ASSERT_TRUE(copy.has_value());
  EXPECT_EQ(*copy, log);
}

TEST(EpochHistory, PartsThatAreNoneAreRefused) {
  const std::vector<EntryId> falling{{5, 1}, {4, 2}};
  EXPECT_EQ(EpochHistory::from_parts({0, 0}, falling, 9), std::nullopt);
  const std::vector<EntryId> beyond{{5, 1}};
  EXPECT_EQ(EpochHistory::from_parts({0, 0}, beyond, 4), std::nullopt);
  EXPECT_EQ(EpochHistory::from_parts({5, 1}, {}, 4), std::nullopt);
  EXPECT_TRUE(EpochHistory::from_parts({5, 1}, {}, EpochHistory::kIndexMax).has_value());
  EXPECT_EQ(EpochHistory::from_parts({5, 1}, {}, EpochHistory::kIndexMax + 1), std::nullopt);
}

TEST(EpochHistory, ALongWayCostsNoMoreThanAShortOne) {
  EpochHistory log({3, 1});
  log.append(2);
  log.extend_to(uint64_t{1} << 60);
  EXPECT_EQ(log.last(), (EntryId{uint64_t{1} << 60, 2}));
  EXPECT_EQ(log.epoch_of(uint64_t{1} << 59), 2U);
  log.extend_to(5);
  EXPECT_EQ(log.last_index(), uint64_t{1} << 60);
}

TEST(EpochHistory, ABarrierTellsOfItsOwnLog) {
  EpochHistory log({3, 1});
  for (const uint64_t epoch : std::vector<uint64_t>{1, 4, 4, 6}) log.append(epoch);
  const std::string bytes = encode_epoch_history(log);
  EXPECT_TRUE(are_runs_of_barrier(as_byte_span(bytes), {7, 6}));
  EXPECT_TRUE(are_runs_of_barrier(as_byte_span(bytes), {7, 0})) << "its sender does not know";
  EXPECT_FALSE(are_runs_of_barrier(as_byte_span(bytes), {8, 6}));
  EXPECT_FALSE(are_runs_of_barrier(as_byte_span(bytes), {6, 6}));
  EXPECT_FALSE(are_runs_of_barrier(as_byte_span(bytes), {7, 7}));
  EXPECT_FALSE(are_runs_of_barrier(as_byte_span(bytes).first(bytes.size() - 1), {7, 6}));
  EXPECT_FALSE(are_runs_of_barrier(as_byte_span(encode_epoch_history(EpochHistory({7, 6}))), {7, 6}))
      << "it is in the log";
  EpochHistory falling({3, 5});
  for (const uint64_t epoch : std::vector<uint64_t>{1, 6}) falling.append(epoch);
  EXPECT_FALSE(are_runs_of_barrier(as_byte_span(encode_epoch_history(falling)), {5, 6}));
  EpochHistory many;
  for (uint64_t epoch = 1; epoch <= EpochHistory::kRunsStoredMax + 1; ++epoch) many.append(epoch);
  EXPECT_FALSE(are_runs_of_barrier(as_byte_span(encode_epoch_history(many)), many.last()));
}

}  // namespace
}  // namespace skua::kv
