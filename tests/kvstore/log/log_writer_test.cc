#include "kvstore/log/log_writer.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <atomic>
#include <mutex>
#include <string>
#include <thread>
#include <vector>

#include "tests/kvstore/log/log_testing.h"

namespace skua::kv {
namespace {

using ::testing::ElementsAre;
using testing::header_of;
using ::testing::IsEmpty;
using testing::next_index;
using testing::scan;
using testing::small_options;

LogSubmission submission(LogShard shard, uint64_t index, std::string_view payload = "x") {
  LogSubmission one;
  one.header = header_of(shard, index);
  one.payload[1] = as_byte_span(payload);
  return one;
}

LogSubmission start_of(LogShard shard) {
  LogSubmission one;
  one.header = {shard, 0, 1, 0, RecordKind::kShardStart, Durability::kSync, 0};
  return one;
}

/// Collects what groups tell.
class Outcomes {
 public:
  LogWriter::GroupDone callback() {
    return [this](std::span<const LogSubmission> group, const absl::Status& health) {
      const std::lock_guard lock(mutex_);
      for (const LogSubmission& one : group) all_.push_back(one);
      if (group.empty()) between_groups_.push_back(health);
      count_.fetch_add(std::max<size_t>(group.size(), 1));
      count_.notify_all();
    };
  }
  /// `count`: records and calls without records.
  void wait_for(size_t count) {
    for (size_t seen = count_; seen < count; seen = count_) count_.wait(seen);
  }
  std::vector<LogSubmission> all() {
    const std::lock_guard lock(mutex_);
    return all_;
  }
  /// The log's health, as calls without records tell it.
  std::vector<absl::Status> between_groups() {
    const std::lock_guard lock(mutex_);
    return between_groups_;
  }

 private:
  std::mutex mutex_;
  std::vector<LogSubmission> all_;
  std::vector<absl::Status> between_groups_;
  std::atomic<size_t> count_{0};
};

class LogWriterTest : public ::testing::Test {
 protected:
  void start(const LogWriter::Options& options = {}) {
    writer_ = std::make_unique<LogWriter>(testing::open_log(device_, options_), options, outcomes_.callback());
  }

  sim::SimDevice device_{1, uint64_t{16} << 20};
  LogOptions options_ = small_options();
  Outcomes outcomes_;
  std::unique_ptr<LogWriter> writer_;
};

TEST_F(LogWriterTest, Submit_WrittenInOrderAndReported) {
  start();
  ASSERT_TRUE(writer_->submit(start_of(1)).ok());
  for (uint64_t index = 1; index <= 50; ++index) ASSERT_TRUE(writer_->submit(submission(1, index)).ok());
  writer_->stop();
  const auto all = outcomes_.all();
  ASSERT_EQ(all.size(), 51U);
  for (size_t i = 0; i < all.size(); ++i) {
    EXPECT_TRUE(all[i].outcome.ok()) << all[i].outcome;
    EXPECT_EQ(all[i].achieved, Durability::kSync);
    EXPECT_EQ(all[i].header.index, i);
  }
  device_.restart();
  auto recovery = scan(device_);
  EXPECT_TRUE(recovery->tail().closed);
  EXPECT_EQ(next_index(*recovery, {1, 0}), 51U);
}

TEST_F(LogWriterTest, Submit_ManyThreadsAShardEach) {
  options_.segments_max = 64;
  start({.queue_records_max = 64});
  constexpr uint64_t kRecords = 300;
  std::vector<std::thread> threads;
  for (LogShard shard = 1; shard <= 4; ++shard) {
    threads.emplace_back([this, shard] {
      while (!writer_->submit(start_of(shard)).ok()) std::this_thread::yield();
      for (uint64_t index = 1; index <= kRecords; ++index) {
        while (!writer_->submit(submission(shard, index, "some bytes")).ok()) std::this_thread::yield();
        if (index % 50 == 0) writer_->set_durable(shard, index - 49);
      }
    });
  }
  for (std::thread& thread : threads) thread.join();
  writer_->stop();
  for (const LogSubmission& one : outcomes_.all()) ASSERT_TRUE(one.outcome.ok()) << one.outcome;
  EXPECT_EQ(writer_->counters().records, 4 * (kRecords + 1));
  auto recovery = scan(device_);
  for (LogShard shard = 1; shard <= 4; ++shard) EXPECT_EQ(next_index(*recovery, {shard, 0}), kRecords + 1);
}

TEST_F(LogWriterTest, Submit_GroupsLargerThanTheBufferAreSplit) {
  start();
  const std::string large(5000, 'x');
  ASSERT_TRUE(writer_->submit(start_of(1)).ok());
  for (uint64_t index = 1; index <= 4; ++index) ASSERT_TRUE(writer_->submit(submission(1, index, large)).ok());
  writer_->stop();
  for (const LogSubmission& one : outcomes_.all()) EXPECT_TRUE(one.outcome.ok()) << one.outcome;
}

TEST_F(LogWriterTest, Submit_AWrongIndexConcernsItsOwnRecord) {
  start();
  ASSERT_TRUE(writer_->submit(start_of(1)).ok());
  ASSERT_TRUE(writer_->submit(submission(1, 7)).ok());
  ASSERT_TRUE(writer_->submit(submission(1, 1)).ok());
  writer_->stop();
  const auto all = outcomes_.all();
  EXPECT_TRUE(absl::IsFailedPrecondition(all[1].outcome));
  EXPECT_TRUE(all[2].outcome.ok());
}

TEST_F(LogWriterTest, Submit_BytesAreBounded) {
  start({.queue_bytes_max = 10});
  EXPECT_TRUE(absl::IsResourceExhausted(writer_->submit(submission(1, 1, "eleven bytes"))));
}

TEST_F(LogWriterTest, Submit_AfterStopIsRefused) {
  start();
  writer_->stop();
  EXPECT_TRUE(absl::IsUnavailable(writer_->submit(submission(1, 1))));
}

TEST_F(LogWriterTest, NoSpace_UrgentRecordsOfTheSameGroupPass) {
  start();
  const std::string large(4000, 'x');
  ASSERT_TRUE(writer_->submit(start_of(1)).ok());
  ASSERT_TRUE(writer_->submit(start_of(2)).ok());
  outcomes_.wait_for(2);
  uint64_t index = 0;
  do {
    ASSERT_TRUE(writer_->submit(submission(1, ++index, large)).ok());
    outcomes_.wait_for(2 + index);
  } while (outcomes_.all().back().outcome.ok());
  EXPECT_TRUE(absl::IsResourceExhausted(outcomes_.all().back().outcome));
  ASSERT_TRUE(writer_->submit(submission(1, index, large)).ok());
  LogSubmission urgent = submission(2, 1);
  urgent.urgent = true;
  ASSERT_TRUE(writer_->submit(urgent).ok());
  outcomes_.wait_for(4 + index);
  EXPECT_TRUE(outcomes_.all().back().outcome.ok()) << outcomes_.all().back().outcome;
  EXPECT_FALSE(writer_->pins().empty());
  writer_->set_durable(1, index - 1);
  writer_->set_durable(2, 1);
  writer_->stop();
  EXPECT_TRUE(writer_->pins().empty());
  EXPECT_TRUE(writer_->health().ok());
}

TEST_F(LogWriterTest, Failure_EveryRecordAndHealthTell) {
  start();
  ASSERT_TRUE(writer_->submit(start_of(1)).ok());
  outcomes_.wait_for(1);
  device_.set_faults({.sync_error = 1});
  ASSERT_TRUE(writer_->submit(submission(1, 1)).ok());
  outcomes_.wait_for(2);
  ASSERT_TRUE(writer_->submit(submission(1, 2)).ok());
  outcomes_.wait_for(3);
  EXPECT_TRUE(absl::IsInternal(outcomes_.all()[1].outcome));
  EXPECT_EQ(outcomes_.all()[2].outcome, writer_->health());
}

TEST_F(LogWriterTest, End_GivesBackTheSegmentsThatTheShardAloneKept) {
  start({.own_thread = false});
  ASSERT_TRUE(writer_->submit(start_of(1)).ok());
  const std::string large(4000, 'x');
  for (uint64_t index = 1; writer_->counters().segments_in_use < 3; ++index) {
    ASSERT_TRUE(writer_->submit(submission(1, index, large)).ok());
    while (writer_->step()) continue;
  }
  LogSubmission end;
  end.header = {.shard = 1, .kind = RecordKind::kShardEnd};
  ASSERT_TRUE(writer_->submit(end).ok());
  while (writer_->step()) continue;
  EXPECT_EQ(writer_->counters().segments_in_use, 1U);
  EXPECT_THAT(writer_->pins(), IsEmpty());
}

TEST_F(LogWriterTest, Sync_ItsEndIsToldWithoutRecords) {
  start();
  ASSERT_TRUE(writer_->submit(start_of(1)).ok());
  LogSubmission unsynced = submission(1, 1);
  unsynced.header.durability = Durability::kFlush;
  ASSERT_TRUE(writer_->submit(unsynced).ok());
  outcomes_.wait_for(2);
  writer_->sync();
  outcomes_.wait_for(3);
  EXPECT_THAT(outcomes_.between_groups(), ElementsAre(absl::OkStatus()));
}

TEST_F(LogWriterTest, Sync_ItsEndIsToldWithAGroupThatHasNoRoom) {
  start({.own_thread = false});
  ASSERT_TRUE(writer_->submit(start_of(1)).ok());
  const std::string large(4000, 'x');
  LogSubmission unsynced = submission(1, 0, large);
  unsynced.header.durability = Durability::kFlush;
  do {
    ++unsynced.header.index;
    ASSERT_TRUE(writer_->submit(unsynced).ok());
    while (writer_->step()) continue;
  } while (outcomes_.all().back().outcome.ok());
  ASSERT_THAT(outcomes_.between_groups(), IsEmpty());
  const uint64_t syncs = writer_->counters().syncs;
  writer_->sync();
  ASSERT_TRUE(writer_->submit(unsynced).ok());
  while (writer_->step()) continue;
  EXPECT_TRUE(absl::IsResourceExhausted(outcomes_.all().back().outcome));
  EXPECT_THAT(outcomes_.between_groups(), ElementsAre(absl::OkStatus()));
  EXPECT_EQ(writer_->counters().syncs, syncs + 1);
}

// Nobody submits a record afterwards that would tell of the failure.
TEST_F(LogWriterTest, Failure_OfASyncWithoutRecordsIsTold) {
  start();
  ASSERT_TRUE(writer_->submit(start_of(1)).ok());
  outcomes_.wait_for(1);
  LogSubmission unsynced = submission(1, 1);
  unsynced.header.durability = Durability::kFlush;
  ASSERT_TRUE(writer_->submit(unsynced).ok());
  outcomes_.wait_for(2);
  device_.set_faults({.sync_error = 1});
  writer_->sync();
  outcomes_.wait_for(3);
  EXPECT_FALSE(writer_->health().ok());
  EXPECT_THAT(outcomes_.between_groups(), ElementsAre(writer_->health()));
}

TEST_F(LogWriterTest, Failure_WhenSegmentsAreGivenBackIsTold) {
  start({.own_thread = false});
  ASSERT_TRUE(writer_->submit(start_of(1)).ok());
  const std::string large(4000, 'x');
  uint64_t index = 1;
  for (; writer_->counters().segments_in_use < 2; ++index) {
    ASSERT_TRUE(writer_->submit(submission(1, index, large)).ok());
    while (writer_->step()) continue;
  }
  LogSubmission unsynced = submission(1, index);
  unsynced.header.durability = Durability::kFlush;
  ASSERT_TRUE(writer_->submit(unsynced).ok());
  while (writer_->step()) continue;
  ASSERT_THAT(outcomes_.between_groups(), IsEmpty());
  device_.set_faults({.sync_error = 1});
  writer_->set_durable(1, index - 1);  // the oldest segment goes, and what replaces its records is synced before
  while (writer_->step()) continue;
  EXPECT_FALSE(writer_->health().ok());
  EXPECT_THAT(outcomes_.between_groups(), ElementsAre(writer_->health()));
  writer_->set_durable(1, index);
  while (writer_->step()) continue;
  EXPECT_EQ(outcomes_.between_groups().size(), 1U) << "once";
}

}  // namespace
}  // namespace skua::kv
