#include "kvstore/log/log.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <string>

#include "tests/kvstore/log/log_testing.h"

namespace skua::kv {
namespace {

using testing::append;
using ::testing::ElementsAre;
using ::testing::HasSubstr;
using testing::header_of;
using ::testing::IsEmpty;
using testing::next_index;
using ::testing::Not;
using testing::open_log;
using testing::replayed;
using testing::scan;
using testing::small_options;

constexpr LogShard kA = 11;
constexpr LogShard kB = 12;

class LogTest : public ::testing::Test {
 protected:
  void open() {
    log_.reset();
    log_ = open_log(device_, options_);
  }
  void start(LogShard shard, uint64_t index = 0) {
    ASSERT_TRUE(log_->start_shard(shard, index, 1, 0).ok());
    ASSERT_TRUE(log_->commit().ok());
  }
  absl::Status write(LogShard shard, uint64_t index, size_t bytes = 1) {
    if (absl::Status added = append(*log_, shard, index, std::string(bytes, 'x')); !added.ok()) return added;
    return log_->commit().status();
  }
  /// Writes 4,000-byte records from `index` on until the first refusal; returns it and the next index.
  absl::Status fill(LogShard shard, uint64_t& index) {
    for (;; ++index) {
      if (absl::Status written = write(shard, index, 4000); !written.ok()) return written;
    }
  }

  sim::SimDevice device_{1, uint64_t{1} << 20};
  LogOptions options_ = small_options();
  std::unique_ptr<Log> log_;
};

TEST_F(LogTest, Open_RefusesContradictions) {
  options_.group_bytes_max = options_.segment_bytes;
  EXPECT_TRUE(absl::IsInvalidArgument(Log::open(device_, options_, *scan(device_)).status()));
}

TEST_F(LogTest, Append_IndicesFollow) {
  open();
  EXPECT_TRUE(absl::IsFailedPrecondition(write(kA, 1)));  // not started
  start(kA, 5);
  EXPECT_TRUE(absl::IsFailedPrecondition(write(kA, 5)));
  EXPECT_TRUE(absl::IsFailedPrecondition(write(kA, 7)));
  EXPECT_TRUE(write(kA, 6).ok());
  EXPECT_EQ(log_->last_index(kA), 6U);
}

TEST_F(LogTest, Append_TooLargeAndFull) {
  open();
  start(kA);
  EXPECT_TRUE(absl::IsInvalidArgument(append(*log_, kA, 1, std::string(options_.group_bytes_max, 'x'))));
  EXPECT_TRUE(append(*log_, kA, 1, std::string(5000, 'x')).ok());
  EXPECT_FALSE(log_->fits(5000));
  EXPECT_TRUE(absl::IsResourceExhausted(append(*log_, kA, 2, std::string(5000, 'x'))));
  EXPECT_TRUE(log_->commit().ok());
  EXPECT_TRUE(write(kA, 2, 5000).ok());
}

TEST_F(LogTest, Commit_StrongestDurabilityOfTheGroup) {
  open();
  start(kA);
  ASSERT_TRUE(append(*log_, kA, 1, "a", Durability::kMemory).ok());
  EXPECT_EQ(*log_->commit(), Durability::kFlush);
  const uint64_t syncs = log_->counters().syncs;
  ASSERT_TRUE(append(*log_, kA, 2, "b", Durability::kFlush).ok());
  ASSERT_TRUE(append(*log_, kA, 3, "c", Durability::kSync).ok());
  EXPECT_EQ(*log_->commit(), Durability::kSync);
  EXPECT_EQ(log_->counters().syncs, syncs + 1);
  EXPECT_EQ(log_->synced_group(), log_->last_group());
}

TEST_F(LogTest, Commit_AfterAPowerCutSyncedRecordsAreThere) {
  open();
  start(kA);
  ASSERT_TRUE(append(*log_, kA, 1, "one").ok());
  ASSERT_TRUE(append(*log_, kA, 2, "two").ok());
  ASSERT_TRUE(log_->commit().ok());
  device_.restart();
  auto recovery = scan(device_);
  EXPECT_THAT(replayed(*recovery, {{kA, 0}}), ElementsAre("11:1=one", "11:2=two"));
  EXPECT_EQ(next_index(*recovery, {kA, 0}), 3U);
}

TEST_F(LogTest, Commit_FailedSyncIsFatalAndNeverRetried) {
  open();
  start(kA);
  device_.set_faults({.sync_error = 1});
  const absl::Status failed = write(kA, 1);
  EXPECT_TRUE(absl::IsInternal(failed)) << failed;
  device_.set_faults({});
  const uint64_t operations = device_.operations();
  EXPECT_EQ(write(kA, 2), log_->health());
  EXPECT_EQ(log_->commit().status(), log_->health());
  EXPECT_EQ(log_->close(), log_->health());
  EXPECT_EQ(device_.operations(), operations);
  EXPECT_THAT(std::string(failed.message()), HasSubstr("the log has failed"));
}

TEST_F(LogTest, Commit_NoRoomForASegmentsNamePasses) {
  open();
  start(kA);
  device_.set_room_for_names(false);
  uint64_t index = 1;
  const absl::Status refused = fill(kA, index);
  EXPECT_TRUE(absl::IsResourceExhausted(refused)) << refused;
  EXPECT_TRUE(log_->health().ok()) << log_->health();
  const uint64_t spares = log_->counters().segments_spare;
  EXPECT_TRUE(absl::IsResourceExhausted(write(kA, index, 4000)));
  EXPECT_EQ(log_->counters().segments_spare, spares) << "the segment that got no name is a spare again";
  device_.set_room_for_names(true);
  EXPECT_TRUE(write(kA, index, 4000).ok());
}

TEST_F(LogTest, Commit_NoSpaceIsTypedAndPasses) {
  device_.set_capacity(3 * options_.segment_bytes);
  open();
  start(kA);
  uint64_t index = 1;
  const absl::Status refused = fill(kA, index);
  EXPECT_TRUE(absl::IsResourceExhausted(refused)) << refused;
  EXPECT_TRUE(log_->health().ok());
  EXPECT_EQ(log_->last_index(kA), index - 1);  // as before the refused group
  EXPECT_EQ(log_->counters().segments_spare, 1U);
  const ByteSpan none[] = {ByteSpan()};
  ASSERT_TRUE(log_->append(header_of(kA, index), none, true).ok());
  EXPECT_TRUE(log_->commit().ok()) << "the reserve is for urgent records";
  ++index;
  log_->set_durable(kA, index - 1);
  ASSERT_TRUE(log_->recycle().ok());
  uint64_t more = index;
  EXPECT_TRUE(absl::IsResourceExhausted(fill(kA, more)));
  EXPECT_GT(more, index);
}

TEST_F(LogTest, Commit_WindowIsALimitOfItsOwn) {
  open();
  start(kA);
  uint64_t index = 1;
  const absl::Status refused = fill(kA, index);
  EXPECT_TRUE(absl::IsResourceExhausted(refused));
  EXPECT_THAT(std::string(refused.message()), HasSubstr("segments_max"));
  EXPECT_EQ(log_->counters().segments_in_use, options_.segments_max);
}

TEST_F(LogTest, Commit_TheRefusalNamesAShardThatKeepsTheLogSinceItWasOpened) {
  open();
  const LogShard refused_one = LogShard{7} << 32 | 3;
  start(refused_one);
  ASSERT_TRUE(write(refused_one, 1).ok());
  open();
  start(kA);
  uint64_t index = 1;
  EXPECT_THAT(std::string(fill(kA, index).message()), HasSubstr("is kept for shard 7-3,"));
  log_->set_durable(refused_one, 1);
  log_->set_durable(kA, 1);
  EXPECT_THAT(std::string(fill(kA, index).message()), Not(HasSubstr("is kept for")));
}

TEST_F(LogTest, Recycle_OnlyWhatIsDurableElsewhereAndAnIdleShardPinsNothing) {
  open();
  start(kA);
  start(kB);
  ASSERT_TRUE(write(kB, 1).ok());  // and then idle
  uint64_t index = 1;
  (void)fill(kA, index);
  log_->set_durable(kA, index - 1);
  ASSERT_TRUE(log_->recycle().ok());
  EXPECT_EQ(log_->counters().segments_in_use, options_.segments_max);
  const auto pins = log_->pins();
  ASSERT_EQ(pins.size(), 1U);
  EXPECT_EQ(pins[0].shard, kB);
  EXPECT_EQ(pins[0].index, 1U);
  log_->set_durable(kB, 1);
  ASSERT_TRUE(log_->recycle().ok());
  EXPECT_EQ(log_->counters().segments_in_use, 1U);
  EXPECT_THAT(log_->pins(), IsEmpty());
  device_.restart();
  EXPECT_EQ(next_index(*scan(device_), {kB, 1}), 2U);
}

TEST_F(LogTest, Recycle_ReusesFiles) {
  open();
  start(kA);
  for (uint64_t index = 1; index < 100; ++index) {
    ASSERT_TRUE(write(kA, index, 4000).ok());
    log_->set_durable(kA, index);
    ASSERT_TRUE(log_->recycle().ok());
  }
  EXPECT_GT(log_->counters().rotations, 10U);
  EXPECT_LE(device_.list()->size(), 3U);
}

TEST_F(LogTest, EndShard_UnpinsAndForgets) {
  open();
  start(kA);
  start(kB);
  ASSERT_TRUE(write(kB, 1).ok());
  uint64_t index = 1;
  (void)fill(kA, index);
  log_->set_durable(kA, index - 1);
  ASSERT_TRUE(log_->end_shard(kB, 0).ok());
  ASSERT_TRUE(log_->commit().ok()) << "may use the reserve";
  ASSERT_TRUE(log_->recycle().ok());
  EXPECT_LE(log_->counters().segments_in_use, 2U);
  device_.restart();
  auto recovery = scan(device_);
  EXPECT_THAT(replayed(*recovery, {{kB, 0}}), IsEmpty());
}

TEST_F(LogTest, Append_HigherEpochReplacesASuffix) {
  open();
  start(kA);
  ASSERT_TRUE(append(*log_, kA, 1, "one").ok());
  ASSERT_TRUE(append(*log_, kA, 2, "old").ok());
  ASSERT_TRUE(append(*log_, kA, 3, "old").ok());
  ASSERT_TRUE(log_->commit().ok());
  const ByteSpan piece[] = {as_byte_span("new")};
  EXPECT_TRUE(absl::IsFailedPrecondition(log_->append(header_of(kA, 2), piece)));
  ASSERT_TRUE(log_->append(header_of(kA, 2, Durability::kSync, 2), piece).ok());
  ASSERT_TRUE(log_->commit().ok());
  EXPECT_EQ(log_->last_index(kA), 2U);
  device_.restart();
  auto recovery = scan(device_);
  EXPECT_THAT(replayed(*recovery, {{kA, 0}}), ElementsAre("11:1=one", "11:2=new"));
}

TEST_F(LogTest, Close_TellsRecovery) {
  open();
  start(kA);
  ASSERT_TRUE(append(*log_, kA, 1, "a", Durability::kFlush).ok());
  ASSERT_TRUE(log_->commit().ok());
  ASSERT_TRUE(log_->close().ok());
  EXPECT_TRUE(absl::IsFailedPrecondition(write(kA, 2)));
  device_.restart();
  auto recovery = scan(device_);
  EXPECT_TRUE(recovery->tail().closed);
  EXPECT_THAT(replayed(*recovery, {{kA, 0}}), ElementsAre("11:1=a"));
}

}  // namespace
}  // namespace skua::kv
