#include "kvstore/storage/replica_tail.h"

#include <gtest/gtest.h>

#include <array>
#include <functional>
#include <map>
#include <string>
#include <utility>

#include "kvstore/codec/effect.h"
#include "kvstore/storage/replica_rows.h"

namespace skua::kv {
namespace {

/// A record of a replica's log; its bytes stay.
struct LoggedEntry {
  LoggedEntry(uint64_t index, uint64_t epoch, uint64_t commit_index, std::string_view text) {
    std::array<std::byte, kEntryHeadBytes> head;
    ByteWriter writer(head);
    encode_entry_head({epoch, commit_index}, writer);
    payload = std::string(as_string_view(writer.written())).append(text);
    view.header = {.shard = 1, .index = index, .epoch = epoch};
    view.payload = as_byte_span(payload);
  }
  std::string payload;
  RecordView view{};
};

class ReplicaTailTest : public ::testing::Test {
 protected:
  absl::Status take(uint64_t index, uint64_t epoch, uint64_t commit_index, std::string_view text) {
    const LoggedEntry entry(index, epoch, commit_index, text);
    const absl::Status taken = tail_.take(entry.view, visitor(committed_));
    tail_.release();
    return taken;
  }
  /// What was committed since the last call.
  std::string committed() { return std::exchange(committed_, {}); }
  std::string uncommitted() const {
    std::string out;
    tail_.visit_uncommitted(visitor(out));
    return out;
  }

  static std::function<void(uint64_t, int64_t, ByteSpan)> visitor(std::string& out) {
    return [&out](uint64_t index, int64_t /*time_ms*/, ByteSpan payload) {
      out.append(std::to_string(index)).append(as_string_view(payload)).append(" ");
    };
  }

  std::string committed_;
  ReplicaTail tail_;
};

TEST_F(ReplicaTailTest, EntriesAreVisitedOnceTheyAreKnownToBeCommitted) {
  ASSERT_TRUE(tail_.load({}, 10).ok());
  EXPECT_FALSE(tail_.active());
  ASSERT_TRUE(take(11, 1, 10, "a").ok());
  EXPECT_TRUE(tail_.active());
  EXPECT_EQ(committed(), "");
  ASSERT_TRUE(take(12, 1, 11, "b").ok());
  EXPECT_EQ(committed(), "11a ");
  EXPECT_EQ(committed(), "") << "once";
  EXPECT_EQ(uncommitted(), "12b ");
  EXPECT_EQ(tail_.last_index(), 12u);
}

TEST_F(ReplicaTailTest, ReplacementTruncatesWhatIsBehindIt) {
  ASSERT_TRUE(tail_.load({}, 0).ok());
  for (uint64_t index = 1; index <= 4; ++index) ASSERT_TRUE(take(index, 1, 1, "old").ok());
  EXPECT_EQ(committed(), "1old ");
  ASSERT_TRUE(take(3, 2, 1, "new").ok());
  EXPECT_EQ(uncommitted(), "2old 3new ");
  EXPECT_EQ(tail_.last_index(), 3u);
}

TEST_F(ReplicaTailTest, GapsAndAppliedIndicesAreRefused) {
  ASSERT_TRUE(tail_.load({}, 5).ok());
  EXPECT_TRUE(absl::IsDataLoss(take(5, 1, 5, "a"))) << "it was applied";
  EXPECT_TRUE(absl::IsDataLoss(take(7, 1, 5, "a"))) << "6 is missing";
  ASSERT_TRUE(take(6, 1, 6, "a").ok());
  EXPECT_EQ(committed(), "6a ");
  EXPECT_TRUE(absl::IsDataLoss(take(6, 2, 6, "b"))) << "what was committed is not replaced";
}

TEST_F(ReplicaTailTest, RowsAreTheTailAndDeleteWhatIsNoneAnyMore) {
  const auto row = [](uint64_t index) {
    return InternalRow{replica_tail_key(index), encode_tail_row({.epoch = 1, .payload = "row"}), 3};
  };
  const std::vector<InternalRow> rows = {row(4), row(5), row(6)};
  ASSERT_TRUE(tail_.load(rows, 3).ok());
  EXPECT_TRUE(tail_.active());
  EXPECT_EQ(uncommitted(), "4row 5row 6row ");
  ASSERT_TRUE(take(5, 2, 4, "new").ok());
  EXPECT_EQ(committed(), "4row ");
  std::map<std::string, bool> kept;
  for (const AppliedEffect& effect : tail_.rows()) kept[std::string(effect.key)] = effect.value.has_value();
  const std::map<std::string, bool> expected = {
      {replica_tail_key(4), false}, {replica_tail_key(5), true}, {replica_tail_key(6), false}};
  EXPECT_EQ(kept, expected);
}

TEST(BarrierTest, OnlyRunsThatEndWithItAreTaken) {
  EpochHistory log({3, 1});
  log.append(2);
  const std::string barrier = encode_barrier(as_byte_span(encode_epoch_history(log)));
  EXPECT_TRUE(check_barrier({4, 2}, as_byte_span(barrier)).ok());
  EXPECT_TRUE(absl::IsInvalidArgument(check_barrier({5, 2}, as_byte_span(barrier)))) << "of another index";
  EXPECT_TRUE(absl::IsInvalidArgument(check_barrier({4, 3}, as_byte_span(barrier)))) << "of another epoch";
  EXPECT_TRUE(check_barrier({4, 2}, {}).ok()) << "no barrier";
}

}  // namespace
}  // namespace skua::kv
