// Writes that leave marks, in a shard some of whose replicas are on nodes that do not know marks.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <memory>
#include <span>
#include <string>
#include <utility>
#include <vector>

#include "kvstore/codec/batch.h"
#include "kvstore/service/shard_server.h"
#include "tests/kvstore/node/server_testing.h"
#include "tests/kvstore/service/quiet_replica_host.h"
#include "tests/kvstore/shard/engine_testing.h"
#include "tests/kvstore/types/mutations.h"

namespace skua::kv {
namespace {

using testing::Answer;
using testing::encoded_mutation;
using testing::FakeDbEngine;
using ::testing::HasSubstr;
using testing::ServerWorld;

constexpr ShardId kShard{3, 1};
constexpr Route kRoute{3, 1, 1, 40};
constexpr NodeId kSelf = 2;
constexpr NodeId kOther = 3;

/// The peers are as the test says. They are sent nothing.
struct HostOfMarks final : testing::QuietReplicaHost {
  size_t send_entries(ShardId, NodeId, const Append&, std::span<Entry* const>) override { return 0; }
  [[nodiscard]] const PeerInfo* peer(NodeId node) const override {
    return node == kOther && is_known ? &other : nullptr;
  }

  PeerInfo other{.uuid = "the-other", .grpc_address = "other:1", .takes_marks = false};
  bool is_known = true;
};

ShardServer::Options options_with(ReplicaHost& host) {
  ShardServer::Options options;
  options.replica_host = &host;
  return options;
}

/// A shard that this node leads as its only member. The other node is a learner.
class MarksOfMembersTest : public ::testing::Test {
 protected:
  MarksOfMembersTest() {
    server_.shards().expect(kShard, 1);
    server_.shards().serve_replica(kShard, *db_, {kSelf, 1}, {});
    tell({{{kOther, 1}, 0}});
    world_.wait_for([this] { return write(mutations::put("plain", as_byte_span("v"))).status == KvStatus::kOk; });
  }
  void tell(std::vector<Learner> learners) {
    View view;
    view.epoch = 1;
    view.change = ++change_;
    view.primary = kSelf;
    view.members = {{kSelf, 1}};
    view.learners = std::move(learners);
    server_.shards().set_view(kShard, view);
    for (const uint64_t persisted : std::exchange(host_.to_persist, {}))
      server_.shards().view_persisted(kShard, persisted);
  }
  struct Told {
    KvStatus status;
    std::string why;
  };
  Told told(Method method, std::string request) {
    const Answer answer = world_.ask(method, std::move(request));
    const ReplyHead head = answer.head();
    return {head.status, std::string(head.text)};
  }
  Told write(const Mutation& mutation) {
    return told(mutation.kind == Mutation::Kind::kAppend  ? Method::kAppend
                : mutation.kind == Mutation::Kind::kPatch ? Method::kPatch
                                                          : Method::kPut,
                encoded_mutation({kRoute, mutation}));
  }
  static Mutation marked_put() {
    Mutation put = mutations::put("marked", as_byte_span("v"));
    put.mark.tag = 7;
    return put;
  }

  FakeDbEngine databases_;
  std::unique_ptr<ShardDb> db_ = databases_.open_db("", kShard, RocksdbEngine::IfMissing::kCreate).value();
  HostOfMarks host_;
  ServerWorld world_{options_with(host_)};
  ShardServer& server_ = world_.server();
  uint64_t change_ = 0;
};

TEST_F(MarksOfMembersTest, AnOlderReplicaKeepsMarksOutOfTheLogAndLetsOtherWritesGoOn) {
  const Told refused = write(marked_put());
  EXPECT_EQ(refused.status, KvStatus::kUnimplemented);
  EXPECT_THAT(refused.why, HasSubstr("the-other"));
  const uint64_t last = server_.shards().replica(kShard)->last_index();
  EXPECT_EQ(write(mutations::put("plain", as_byte_span("w"))).status, KvStatus::kOk);
  EXPECT_EQ(server_.shards().replica(kShard)->last_index(), last + 1);
  host_.other.takes_marks = true;
  EXPECT_EQ(write(marked_put()).status, KvStatus::kOk) << "the node was upgraded";
}

TEST_F(MarksOfMembersTest, AWriteThatKeepsAMarkIsRefusedLikeOneThatSetsIt) {
  host_.other.takes_marks = true;
  ASSERT_EQ(write(marked_put()).status, KvStatus::kOk);
  host_.other.takes_marks = false;
  EXPECT_EQ(write(mutations::append("marked", as_byte_span("x"))).status, KvStatus::kUnimplemented);
  EXPECT_EQ(write(mutations::append("plain", as_byte_span("x"))).status, KvStatus::kOk);
  EXPECT_EQ(write(mutations::put("marked", as_byte_span("v"))).status, KvStatus::kOk) << "which clears the mark";
}

TEST_F(MarksOfMembersTest, ABatchWithOneMarkIsRefusedAsAWhole) {
  BatchOpsBuilder ops;
  ASSERT_TRUE(ops.add(mutations::put("a", as_byte_span("v"))).ok());
  ASSERT_TRUE(ops.add(marked_put()).ok());
  HeadBuffer buffer;
  const auto head = encode_batch_head({.route = kRoute, .ops = ops.ops()}, buffer);
  ASSERT_TRUE(head.ok()) << head.status();
  const std::string request = std::string(as_string_view(*head)) + std::string(as_string_view(ops.ops().bytes()));
  EXPECT_EQ(told(Method::kBatch, request).status, KvStatus::kUnimplemented);
}

TEST_F(MarksOfMembersTest, NodesWithoutAReplicaAndNodesThatAreNotKnownDoNotCount) {
  ASSERT_EQ(write(marked_put()).status, KvStatus::kUnimplemented);
  host_.is_known = false;
  EXPECT_EQ(write(marked_put()).status, KvStatus::kOk);
  host_.is_known = true;
  EXPECT_EQ(write(marked_put()).status, KvStatus::kUnimplemented);
  tell({});
  EXPECT_EQ(write(marked_put()).status, KvStatus::kOk);
}

}  // namespace
}  // namespace skua::kv
