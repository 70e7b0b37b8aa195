#include "kvstore/log/log_recovery.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <string>

#include "tests/kvstore/log/log_testing.h"

namespace skua::kv {
namespace {

using testing::append;
using ::testing::ElementsAre;
using ::testing::HasSubstr;
using testing::next_index;
using testing::open_log;
using testing::replayed;
using testing::scan;
using testing::small_options;

constexpr LogShard kA = 11;
constexpr LogShard kB = 12;

/// A: group 2; B: group 3; A: group 4, in the first segment behind its header of one page.
void write_three(Device& device, bool close) {
  auto log = open_log(device, small_options());
  EXPECT_TRUE(log->start_shard(kA, 0, 1, 0).ok());
  EXPECT_TRUE(log->start_shard(kB, 0, 1, 0).ok());
  EXPECT_TRUE(log->commit().ok());
  EXPECT_TRUE(append(*log, kA, 1, "a1").ok());
  EXPECT_TRUE(log->commit().ok());
  EXPECT_TRUE(append(*log, kB, 1, "b1").ok());
  EXPECT_TRUE(log->commit().ok());
  EXPECT_TRUE(append(*log, kA, 2, "a2").ok());
  EXPECT_TRUE(log->commit().ok());
  if (!close) return;
  EXPECT_TRUE(log->close().ok());
}

constexpr uint64_t kGroup2 = kPageBytes + kSectorBytes;
constexpr uint64_t kGroup3 = kGroup2 + kSectorBytes;
constexpr uint64_t kGroup4 = kGroup3 + kSectorBytes;

TEST(LogRecovery, Scan_EmptyDirectory) {
  sim::SimDevice device(1, uint64_t{1} << 20);
  auto recovery = scan(device);
  EXPECT_EQ(recovery->next_group_number(), 1U);
  EXPECT_EQ(next_index(*recovery, {kA, 7}), 8U);
  EXPECT_TRUE(recovery->status({kA, 7}).ok());
}

TEST(LogRecovery, Scan_RefusesForeignSegments) {
  sim::SimDevice device(1, uint64_t{1} << 20);
  write_three(device, false);
  LogIdentity other;
  other.node_id.fill(std::byte{1});
  const auto refused = LogRecovery::scan(device, other, [](const LogProgress&) {});
  EXPECT_TRUE(absl::IsFailedPrecondition(refused.status()));
  EXPECT_THAT(std::string(refused.status().message()), HasSubstr(segment_name(1)));
}

TEST(LogRecovery, Scan_TellsProgress) {
  sim::SimDevice device(1, uint64_t{1} << 20);
  write_three(device, false);
  LogProgress last;
  ASSERT_TRUE(LogRecovery::scan(device, {}, [&](const LogProgress& progress) { last = progress; }).ok());
  EXPECT_EQ(last.bytes_done, small_options().segment_bytes);
  EXPECT_EQ(last.bytes_total, last.bytes_done);
}

TEST(LogRecovery, Replay_AboveTheAppliedIndexOnly) {
  sim::SimDevice device(1, uint64_t{1} << 20);
  write_three(device, false);
  auto recovery = scan(device);
  EXPECT_THAT(replayed(*recovery, {{kA, 1}, {kB, 0}}), ElementsAre("12:1=b1", "11:2=a2"));
}

TEST(LogRecovery, Status_DamageConcernsItsShardAlone) {
  sim::SimDevice device(1, uint64_t{1} << 20);
  write_three(device, true);
  device.flip_bit(segment_name(1), kGroup3 + 100, 3);
  auto recovery = scan(device);
  ASSERT_EQ(recovery->damages().size(), 1U);
  EXPECT_EQ(recovery->damages()[0].offset, kGroup3);
  EXPECT_EQ(recovery->damages()[0].first_group, 3U);
  EXPECT_TRUE(recovery->status({kA, 0}).ok());
  const absl::Status status = recovery->status({kB, 0});
  EXPECT_TRUE(absl::IsDataLoss(status));
  EXPECT_THAT(std::string(status.message()), HasSubstr(device.path_of(segment_name(1))));
  EXPECT_THAT(std::string(status.message()), HasSubstr(std::to_string(kGroup3)));
  EXPECT_THAT(replayed(*recovery, {{kA, 0}, {kB, 0}}), ElementsAre("11:1=a1", "11:2=a2"));
}

TEST(LogRecovery, Status_AGapThatWasAppliedIsHarmless) {
  sim::SimDevice device(1, uint64_t{1} << 20);
  write_three(device, true);
  device.flip_bit(segment_name(1), kGroup2, 3);
  auto recovery = scan(device);
  EXPECT_TRUE(absl::IsDataLoss(recovery->status({kA, 0})));
  EXPECT_TRUE(recovery->status({kA, 1}).ok());
  EXPECT_THAT(replayed(*recovery, {{kA, 1}}), ElementsAre("11:2=a2"));
}

TEST(LogRecovery, Tail_TornGroupIsCutAndStaysCut) {
  sim::SimDevice device(1, uint64_t{1} << 20);
  write_three(device, false);
  device.flip_bit(segment_name(1), kGroup4 + 100, 3);
  auto recovery = scan(device);
  EXPECT_TRUE(recovery->tail().torn);
  EXPECT_EQ(recovery->tail().offset, kGroup4);
  EXPECT_TRUE(recovery->damages().empty());
  EXPECT_EQ(next_index(*recovery, {kA, 0}), 2U);
  auto log = open_log(device, small_options());
  ASSERT_TRUE(append(*log, kA, 2, "again").ok());
  ASSERT_TRUE(log->commit().ok());
  device.flip_bit(segment_name(1), kGroup4 + 100, 3);  // sound again, and yet not part of the log
  auto later = scan(device);
  EXPECT_THAT(replayed(*later, {{kA, 0}}), ElementsAre("11:1=a1", "11:2=again"));
}

TEST(LogRecovery, Status_TheLogBeginsAfterWhatWasApplied) {
  sim::SimDevice device(1, uint64_t{1} << 20);
  {
    auto log = open_log(device, small_options());
    ASSERT_TRUE(log->start_shard(kA, 50, 1, 0).ok());
    ASSERT_TRUE(append(*log, kA, 51, "x").ok());
    ASSERT_TRUE(log->commit().ok());
  }
  auto recovery = scan(device);
  EXPECT_TRUE(recovery->status({kA, 50}).ok());
  EXPECT_TRUE(absl::IsDataLoss(recovery->status({kA, 49})));
}

TEST(LogRecovery, Status_WhatMayBeMissingStaysSoUntilTheShardIsStartedAnew) {
  sim::SimDevice device(1, uint64_t{1} << 20);
  write_three(device, true);
  device.flip_bit(segment_name(1), kGroup3 + 100, 3);
  ASSERT_TRUE(absl::IsDataLoss(scan(device)->status({kB, 0})));
  auto log = open_log(device, small_options());
  ASSERT_TRUE(append(*log, kA, 3, "a3").ok());
  ASSERT_TRUE(log->commit().ok());
  EXPECT_TRUE(absl::IsDataLoss(scan(device)->status({kB, 0}))) << "the next segment's header proves nothing";
  log->set_durable(kA, 3);
  ASSERT_TRUE(log->recycle().ok());
  ASSERT_TRUE(scan(device)->damages().empty());
  EXPECT_TRUE(absl::IsDataLoss(scan(device)->status({kB, 0})));
  log = open_log(device, small_options());
  ASSERT_TRUE(append(*log, kA, 4, "a4").ok());
  ASSERT_TRUE(log->commit().ok());
  EXPECT_TRUE(absl::IsDataLoss(scan(device)->status({kB, 0})));
  EXPECT_TRUE(scan(device)->status({kA, 3}).ok());
  ASSERT_TRUE(log->start_shard(kB, 5, 2, 0).ok());
  ASSERT_TRUE(log->commit().ok());
  EXPECT_TRUE(scan(device)->status({kB, 5}).ok());
}

TEST(LogRecovery, Status_DamageMayHaveTakenTheStartOfAShardThatTheLogDoesNotName) {
  sim::SimDevice device(1, uint64_t{1} << 20);
  auto log = open_log(device, small_options());
  for (const LogShard shard : {kA, kB}) {
    ASSERT_TRUE(log->start_shard(shard, 0, 1, 0).ok());
    ASSERT_TRUE(log->commit().ok());
  }
  device.flip_bit(segment_name(1), kPageBytes + 70, 3);
  EXPECT_TRUE(absl::IsDataLoss(scan(device)->status({kA, 7})));
  EXPECT_TRUE(scan(device)->status({kB, 0}).ok());
  EXPECT_FALSE(scan(device)->ends_sound());
  ASSERT_TRUE(log->end_shard(kA, 0).ok());
  ASSERT_TRUE(log->commit().ok());
  EXPECT_TRUE(scan(device)->status({kA, 7}).ok()) << "it left behind the damage";
}

TEST(LogRecovery, Status_TheHeaderBehindTheDamageRemembersTheShardsThatItMayHaveTaken) {
  sim::SimDevice device(1, uint64_t{1} << 20);
  write_three(device, false);
  device.flip_bit(segment_name(1), 60, 3);
  {
    auto recovery = scan(device);
    EXPECT_TRUE(absl::IsDataLoss(recovery->status({kA, 7})));
    EXPECT_TRUE(absl::IsDataLoss(recovery->status({kB, 0})));
    auto log = Log::open(device, small_options(), *recovery).value();
    ASSERT_TRUE(log->leave_gap(kA, 7).ok());
    ASSERT_TRUE(log->begin_segment().ok());
    ASSERT_TRUE(log->recycle().ok());
  }
  auto recovery = scan(device);
  EXPECT_TRUE(recovery->ends_sound());
  EXPECT_TRUE(absl::IsDataLoss(recovery->status({kA, 7})));
  EXPECT_TRUE(recovery->status({kB, 0}).ok());
}

TEST(LogRecovery, Scan_MissingSegmentIsDamage) {
  sim::SimDevice device(1, uint64_t{1} << 20);
  {
    auto log = open_log(device, small_options());
    ASSERT_TRUE(log->start_shard(kA, 0, 1, 0).ok());
    for (uint64_t index = 1; index <= 15; ++index) {
      ASSERT_TRUE(append(*log, kA, index, std::string(4000, 'x')).ok());
      ASSERT_TRUE(log->commit().ok());
    }
    ASSERT_GE(log->counters().segments_in_use, 3U);
  }
  ASSERT_TRUE(device.remove(segment_name(2)).ok());
  auto recovery = scan(device);
  EXPECT_EQ(recovery->damages().size(), 1U);
  EXPECT_TRUE(absl::IsDataLoss(recovery->status({kA, 0})));
}

}  // namespace
}  // namespace skua::kv
