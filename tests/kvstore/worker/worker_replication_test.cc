// What becomes of Appends that wait to be answered with an AppendReply, and of the links of nodes that are revoked.
#include "kvstore/worker/worker_replication.h"

#include <gtest/gtest.h>

#include <string>
#include <utility>

#include "kvstore/codec/effect.h"
#include "tests/fuzz/node_world.h"
#include "tests/kvstore/replication/message_codec_testing.h"

namespace skua::kv {
namespace {

using fuzz::NodeWorld;

/// From the peer; of one entry behind `prev`.
std::string append_frame(ShardId shard, uint64_t epoch, EntryId prev) {
  EpochHistory runs(prev);
  runs.append(epoch);
  const std::string payload = encode_barrier(as_byte_span(encode_epoch_history(runs)));
  Append append;
  append.epoch = epoch;
  append.prev = prev;
  append.epochs = {epoch};
  return testing::plain_append({shard.table_id, shard.shard, NodeWorld::node_id(NodeWorld::kPeer), fuzz::kStorage},
                               append, {{epoch, 1, Durability::kSync, 0, as_byte_span(payload)}});
}

class WorkerReplicationTest : public ::testing::Test {
 protected:
  /// Handlers that are left when the request has been handled, and once more when some time has passed.
  std::pair<size_t, size_t> handlers_after(const std::string& frame) {
    world_.call(Method::kReplicate, frame, false, 10 * kSecond);
    world_.rest();
    const size_t at_once = world_.worker().balance().handlers;
    world_.pass(kSecond);
    return {at_once, world_.worker().balance().handlers};
  }
  NodeWorld world_;
};

TEST_F(WorkerReplicationTest, AppendOfANodeThatDoesNotLead_IsAnswered) {
  const uint64_t epoch = world_.view(fuzz::kLed).epoch;
  const auto [at_once, later] = handlers_after(append_frame(fuzz::kLed, epoch, {0, 0}));
  EXPECT_LE(at_once, 1U);
  EXPECT_EQ(later, 0U);
}

TEST_F(WorkerReplicationTest, AppendsOfEntriesThatAreNotTaken_AreAnswered) {
  const uint64_t epoch = world_.view(fuzz::kBacked).epoch;
  // Of two gaps in a row the second one is not complained of.
  world_.call(Method::kReplicate, append_frame(fuzz::kBacked, epoch, {100, epoch}), false, 10 * kSecond);
  const auto [at_once, later] = handlers_after(append_frame(fuzz::kBacked, epoch, {100, epoch}));
  EXPECT_LE(at_once, 2U);
  EXPECT_EQ(later, 0U);
}

/// So that the primary's node says why the shard waits.
TEST_F(WorkerReplicationTest, AppendOfAnEntryThatIsNeverTaken_IsRefused) {
  const uint64_t epoch = world_.view(fuzz::kBacked).epoch;
  Append append{.epoch = epoch, .prev = {0, 0}, .epochs = {epoch}};
  const std::string frame = testing::plain_append(
      {fuzz::kBacked.table_id, fuzz::kBacked.shard, NodeWorld::node_id(NodeWorld::kPeer), fuzz::kStorage}, append,
      {{epoch, 1, Durability::kSync, 0, as_byte_span("no effect")}});
  absl::Status answer = absl::UnknownError("none");
  world_.call(Method::kReplicate, frame, false, 10 * kSecond,
              [&](rpc::CallResult&& result) { answer = result.status; });
  world_.rest();
  world_.pass(kSecond);
  EXPECT_TRUE(absl::IsInvalidArgument(answer)) << answer;
  EXPECT_EQ(world_.worker().balance().handlers, 0U);
}

TEST_F(WorkerReplicationTest, AppendsOfAFormerPrimary_AreAnswered) {
  const uint64_t epoch = world_.view(fuzz::kBacked).epoch;
  world_.call(Method::kReplicate, append_frame(fuzz::kBacked, epoch, {100, epoch}), false, 10 * kSecond);
  world_.call(Method::kReplicate, append_frame(fuzz::kBacked, epoch, {100, epoch}), false, 10 * kSecond);
  world_.rest();
  world_.change_view(fuzz::kBacked, false);
  world_.close_peer_session();
  world_.pass(kSecond);
  EXPECT_EQ(world_.worker().balance().handlers, 0U);
}

/// The log has its entry, and before the replica says so it is in another epoch: it reports its log's end then.
TEST_F(WorkerReplicationTest, AppendThatAnEpochOvertakes_IsAnswered) {
  const Replica* const replica = world_.server().shards().replica(fuzz::kBacked);
  const uint64_t epoch = world_.view(fuzz::kBacked).epoch;
  world_.call(Method::kReplicate, append_frame(fuzz::kBacked, epoch, {0, 0}), false, 10 * kSecond);
  for (int i = 0; i < 100 && replica->last_index() == 0; ++i) world_.turn();
  ASSERT_EQ(replica->last_index(), 1U);
  world_.change_view(fuzz::kBacked, true);
  world_.close_peer_session();
  world_.pass(kSecond);
  EXPECT_EQ(world_.worker().balance().handlers, 0U);
}

/// The links of a revoked node end at once, whatever the shard map says of the node.
TEST_F(WorkerReplicationTest, NodeThatIsShutOut_HasNoLinksAndIsNotHeard) {
  world_.rest();
  const uint64_t before = world_.link_nonce();
  ASSERT_NE(before, 0U);
  world_.shut_out_peer(true);
  const uint64_t heard = world_.replication().counters().messages_received;
  const uint64_t epoch = world_.view(fuzz::kBacked).epoch;
  world_.call(Method::kReplicate, append_frame(fuzz::kBacked, epoch, {0, 0}), false, 10 * kSecond);
  world_.rest();
  EXPECT_EQ(world_.replication().counters().messages_received, heard);
  world_.tell_peers(true, 1);
  world_.call(Method::kReplicate, append_frame(fuzz::kBacked, epoch, {0, 0}), false, 10 * kSecond);
  world_.rest();
  world_.pass(kSecond);
  EXPECT_EQ(world_.link_nonce(), before) << "a link to a node that is shut out";
  EXPECT_EQ(world_.replication().counters().messages_received, heard);
  EXPECT_EQ(world_.server().shards().replica(fuzz::kBacked)->last_index(), 0U);

  world_.shut_out_peer(false);
  world_.tell_peers(true, 1);
  world_.rest();
  world_.pass(kSecond);
  EXPECT_NE(world_.link_nonce(), before);
  world_.call(Method::kReplicate, append_frame(fuzz::kBacked, epoch, {0, 0}), false, 10 * kSecond);
  world_.rest();
  EXPECT_GT(world_.replication().counters().messages_received, heard);
}

}  // namespace
}  // namespace skua::kv
