#include "kvstore/client/request_lanes.h"

#include <gtest/gtest.h>

#include <map>
#include <memory>
#include <set>
#include <vector>

#include "kvstore/client/write_operation.h"
#include "rpc/base/rng.h"

namespace skua::kv {
namespace {

TEST(RequestLanes, FirstIncompleteIsTheOldestOfTheShard) {
  WriteOperation a;
  WriteOperation b;
  WriteOperation c;
  RequestLanes lanes(7);
  EXPECT_EQ(lanes.identify(a, 1, 0, 4), (RequestId{7, 1, 1}));
  EXPECT_EQ(lanes.identify(b, 1, 0, 4), (RequestId{7, 2, 1}));
  EXPECT_EQ(lanes.identify(c, 1, 3, 4), (RequestId{7, 1, 1})) << "another shard waits for nothing";
  RequestLanes::complete(a);
  EXPECT_EQ(lanes.identify(b, 1, 0, 4), (RequestId{7, 2, 2})) << "the same seq in a repetition";
  EXPECT_EQ(lanes.identify(a, 1, 0, 4), (RequestId{7, 3, 2})) << "a new operation in a recycled object";
  RequestLanes::complete(b);
  EXPECT_EQ(lanes.identify(a, 1, 0, 4), (RequestId{7, 3, 3}));
  RequestLanes::complete(a);
  RequestLanes::complete(c);
  RequestLanes::complete(c);
}

TEST(RequestLanes, ATableMadeAnewIsAnotherLane) {
  WriteOperation a;
  RequestLanes lanes(7);
  EXPECT_EQ(lanes.identify(a, 1, 2, 4).seq, 1u);
  EXPECT_EQ(lanes.identify(a, 2, 0, 1).seq, 1u);
  EXPECT_EQ(lanes.table_count(), 2u);
  lanes.forget_dropped([](uint32_t table) { return table == 2; });
  EXPECT_EQ(lanes.table_count(), 1u);
  EXPECT_EQ(lanes.identify(a, 2, 0, 1).seq, 1u);
  lanes.forget_dropped([](uint32_t) { return false; });
  EXPECT_EQ(lanes.table_count(), 1u) << "it has an operation";
  RequestLanes::complete(a);
  lanes.forget_dropped([](uint32_t) { return false; });
  EXPECT_EQ(lanes.table_count(), 0u);
}

/// A number that was used is not used again, however long nothing was written.
TEST(RequestLanes, AnIdleTableKeepsItsNumbers) {
  WriteOperation a;
  RequestLanes lanes(7);
  EXPECT_EQ(lanes.identify(a, 1, 2, 4).seq, 1u);
  RequestLanes::complete(a);
  lanes.forget_dropped([](uint32_t) { return true; });
  EXPECT_EQ(lanes.identify(a, 1, 2, 4).seq, 2u);
  RequestLanes::complete(a);
}

/// One shard's floor is no other shard's.
TEST(RequestLanes, Renumber_LeavesOtherShardsAlone) {
  WriteOperation a;
  WriteOperation b;
  RequestLanes lanes(7);
  EXPECT_EQ(lanes.identify(a, 1, 0, 4).seq, 1u);
  ASSERT_TRUE(lanes.renumber(a, 1'000));
  EXPECT_EQ(lanes.identify(a, 1, 0, 4).seq, 1'000u);
  EXPECT_EQ(lanes.identify(b, 1, 1, 4).seq, 1u);
  RequestLanes::complete(a);
  RequestLanes::complete(b);
}

TEST(RequestLanes, MoreShardsThanBeforeShareLanes) {
  WriteOperation a;
  WriteOperation b;
  RequestLanes lanes(7);
  EXPECT_EQ(lanes.identify(a, 1, 1, 2), (RequestId{7, 1, 1}));
  EXPECT_EQ(lanes.identify(b, 1, 5, 8), (RequestId{7, 2, 1}));
  RequestLanes::complete(a);
  EXPECT_EQ(lanes.identify(b, 1, 5, 8), (RequestId{7, 2, 2}));
  RequestLanes::complete(b);
}

TEST(RequestLanes, WithoutAClientIdNothingIsIdentified) {
  WriteOperation a;
  RequestLanes lanes(0);
  EXPECT_EQ(lanes.identify(a, 1, 0, 4), RequestId{});
  EXPECT_EQ(a.seq, 0u);
}

/// Against a set of seqs for each shard.
TEST(RequestLanes, AgreesWithItsDumbTwin) {
  Rng rng(3);
  std::vector<std::unique_ptr<WriteOperation>> operations(200);
  for (auto& operation : operations) operation = std::make_unique<WriteOperation>();
  std::vector<uint32_t> shards(operations.size());
  std::map<uint32_t, std::set<uint64_t>> twin;
  RequestLanes lanes(9);
  std::map<uint32_t, uint64_t> last_seq;
  for (int round = 0; round < 20'000; ++round) {
    const size_t i = rng.below(operations.size());
    WriteOperation& operation = *operations[i];
    if (operation.seq == 0) {
      shards[i] = static_cast<uint32_t>(rng.below(8));
      twin[shards[i]].insert(++last_seq[shards[i]]);
      ASSERT_EQ(lanes.identify(operation, 5, shards[i], 8).seq, last_seq[shards[i]]);
    } else if (rng.chance(0.5)) {
      twin[shards[i]].erase(operation.seq);
      RequestLanes::complete(operation);
      continue;
    }
    ASSERT_EQ(lanes.identify(operation, 5, shards[i], 8).first_incomplete, *twin[shards[i]].begin());
  }
  for (auto& operation : operations) RequestLanes::complete(*operation);
}

}  // namespace
}  // namespace skua::kv
