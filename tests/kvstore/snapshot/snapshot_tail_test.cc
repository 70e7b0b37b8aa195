// What a copy takes for the entries behind it.
#include "kvstore/snapshot/snapshot_tail.h"

#include <gtest/gtest.h>

#include <cstdint>
#include <string>
#include <vector>

#include "tests/kvstore/replication/message_codec_testing.h"

namespace skua::kv {
namespace {

constexpr NodeId kFrom = 4;

/// From the copy's source: so many entries behind `prev`.
std::string piece(EntryId prev, size_t entries, uint64_t commit_index) {
  Append append;
  append.epoch = prev.epoch;
  append.prev = prev;
  append.commit_index = commit_index;
  const std::vector<AppendEntry> all(entries, {prev.epoch, 1, Durability::kSync, 0, as_byte_span("payload")});
  return testing::plain_append({7, 0, kFrom, 1}, append, all);
}

TEST(SnapshotTail, TakesWhatFollowsAndIsCommitted) {
  SnapshotTail tail({}, {7, 0}, kFrom, {10, 3}, 0);
  ReplicaFrame frame;
  ASSERT_TRUE(tail.poll(0));
  EXPECT_FALSE(tail.on_piece(as_byte_span(piece({10, 3}, 3, 12)), frame, 0).ok()) << "the last one is not committed";
  ASSERT_TRUE(tail.poll(kSecond));
  EXPECT_TRUE(tail.on_piece(as_byte_span(piece({10, 3}, 3, 13)), frame, kSecond).ok());
  EXPECT_EQ(tail.end(), (EntryId{13, 3}));
  EXPECT_TRUE(tail.at_end());
}

TEST(SnapshotTail, BehindTheHighestIndexThereIsNothing) {
  constexpr EntryId kEnd{UINT64_MAX - 1, 3};
  SnapshotTail tail({}, {7, 0}, kFrom, kEnd, 0);
  ReplicaFrame frame;
  ASSERT_TRUE(tail.poll(0));
  EXPECT_FALSE(tail.on_piece(as_byte_span(piece(kEnd, 3, UINT64_MAX)), frame, 0).ok());
  EXPECT_EQ(tail.end(), kEnd);
}

}  // namespace
}  // namespace skua::kv
