// Who gets what a shard holds: its copies (FETCH_CHUNK) and the end of its log (FETCH_TAIL). Only a node that has a
// replica of the shard, on the worker that the session is of, and that says itself that the session is its own.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <array>
#include <memory>
#include <optional>
#include <string>
#include <utility>

#include "kvstore/node/node.h"
#include "kvstore/replication/copy_codec.h"
#include "tests/fuzz/node_world.h"

namespace skua::kv {
namespace {

using fuzz::NodeWorld;
using ::testing::HasSubstr;

constexpr uint32_t kStrangersAddress = 77;

std::string fetch_of(ShardId shard, Method method) {
  if (method == Method::kFetchTail) {
    std::array<std::byte, kFetchTailBytes> buffer;
    return std::string(as_string_view(encode_fetch_tail({shard.table_id, shard.shard, 0, 1000}, buffer)));
  }
  std::array<std::byte, kFetchChunkBytes> buffer;
  return std::string(as_string_view(encode_fetch_chunk({shard.table_id, shard.shard, 0, 0, 0, 1000}, buffer).value()));
}

class CopyGatesTest : public ::testing::TestWithParam<Method> {
 protected:
  /// What the peer is answered. The worker asks it first whether the session is its own.
  absl::Status peer_asks(ShardId shard) {
    return ask([&](rpc::CompletionFn done) {
      world_.call(GetParam(), fetch_of(shard, GetParam()), false, 10 * kSecond, std::move(done));
    });
  }
  /// Asks until the worker knows whose the session is. `poll` gives an endpoint that is not the world's a turn.
  template <typename Call>
  absl::Status ask(
      Call call, absl::AnyInvocable<void()> poll = [] {}) {
    absl::Status status = absl::UnknownError("never asked");
    for (int tries = 0; tries < kTriesMax; ++tries) {
      std::optional<absl::Status> got;
      call([&got](rpc::CallResult&& result) { got = result.status; });
      for (int turns = 0; turns < kTurnsMax && !got; ++turns) {
        poll();
        world_.pass(kMillisecond);
      }
      if (!got) return absl::DeadlineExceededError("no answer");
      status = *got;
      if (!is_asked_meanwhile(status)) break;
      world_.pass(10 * kMillisecond);
    }
    return status;
  }
  static bool is_asked_meanwhile(const absl::Status& status) {
    return absl::IsUnavailable(status) && status.message().find("is being asked") != std::string::npos;
  }

  static constexpr int kTriesMax = 200;
  static constexpr int kTurnsMax = 10'000;
  NodeWorld world_;
};

/// An endpoint with any name, on the world's network.
class Stranger {
 public:
  Stranger(NodeWorld& world, const rpc::EndpointIdentity& identity)
      : transport_(world.network().attach(kStrangersAddress, identity, {})),
        endpoint_(*transport_, world.network().clock(), {}) {
    auto offer = endpoint_.begin_connect(world.worker().local_descriptor()).value();
    const std::string answer = world.worker().accept_offer(as_byte_span(offer.bytes));
    session_ = offer.session;
    EXPECT_TRUE(endpoint_.finish_connect(session_, as_byte_span(answer)).ok());
    EXPECT_TRUE(endpoint_.is_connected(session_));
  }
  void call(Method method, const std::string& request, rpc::CompletionFn done) {
    EXPECT_TRUE(endpoint_
                    .call(session_, static_cast<rpc::MethodId>(method), rpc::MessagePtr::copy_of(as_byte_span(request)),
                          {.timeout_ns = 10 * kSecond}, std::move(done))
                    .ok());
    endpoint_.poll();
  }
  void poll() { endpoint_.poll(); }

 private:
  std::unique_ptr<rpc::SimTransport> transport_;
  rpc::Endpoint endpoint_;
  rpc::SessionId session_;
};

TEST_P(CopyGatesTest, NodeWithAReplica_IsServed) {
  const absl::Status status = peer_asks(fuzz::kAlone);
  EXPECT_TRUE(status.ok()) << status;
}

TEST_P(CopyGatesTest, NodeWithoutAReplica_IsRefused) {
  world_.place_peer(fuzz::kAlone, std::nullopt);
  const absl::Status status = peer_asks(fuzz::kAlone);
  EXPECT_EQ(status.code(), absl::StatusCode::kFailedPrecondition) << status;
  EXPECT_THAT(std::string(status.message()), HasSubstr("the shard has no replica on that worker of that node"));
  EXPECT_EQ(world_.exports(), 0U);
}

TEST_P(CopyGatesTest, NodeWithItsReplicaOnAnotherWorker_IsRefused) {
  world_.place_peer(fuzz::kAlone, 1);
  const absl::Status status = peer_asks(fuzz::kAlone);
  EXPECT_EQ(status.code(), absl::StatusCode::kFailedPrecondition) << status;
  EXPECT_THAT(std::string(status.message()), HasSubstr("the shard has no replica on that worker of that node"));
  EXPECT_EQ(world_.exports(), 0U);
}

TEST_P(CopyGatesTest, NodeWhoseStorageWasReplaced_IsRefused) {
  world_.tell_peers(true, 1, fuzz::kStorage + 1);
  const absl::Status status = peer_asks(fuzz::kAlone);
  EXPECT_EQ(status.code(), absl::StatusCode::kFailedPrecondition) << status;
  EXPECT_THAT(std::string(status.message()), HasSubstr("with the storage that the node has now"));
  EXPECT_EQ(world_.exports(), 0U);
}

TEST_P(CopyGatesTest, NodeThatAsksForAShardOfNobody_IsRefused) {
  const absl::Status status = peer_asks(fuzz::kPlain);
  EXPECT_EQ(status.code(), absl::StatusCode::kFailedPrecondition) << status;
  EXPECT_EQ(world_.exports(), 0U);
}

TEST_P(CopyGatesTest, WhoOnlySaysToBeTheNode_IsRefused) {
  Stranger stranger(world_, NodeWorld::identity(NodeWorld::kPeer));
  const absl::Status status = ask(
      [&](rpc::CompletionFn done) { stranger.call(GetParam(), fetch_of(fuzz::kAlone, GetParam()), std::move(done)); },
      [&] { stranger.poll(); });
  EXPECT_EQ(status.code(), absl::StatusCode::kPermissionDenied) << status;
  EXPECT_EQ(world_.exports(), 0U);
}

TEST_P(CopyGatesTest, WhoOnlySaysToBeTheNode_IsNotServedWhileItIsAsked) {
  world_.vouching = NodeWorld::Vouching::kSilence;
  Stranger stranger(world_, NodeWorld::identity(NodeWorld::kPeer));
  std::optional<absl::Status> got;
  stranger.call(GetParam(), fetch_of(fuzz::kAlone, GetParam()), [&](rpc::CallResult&& result) { got = result.status; });
  for (int turns = 0; turns < kTurnsMax && !got; ++turns) {
    world_.pass(kMillisecond);
    stranger.poll();
  }
  ASSERT_TRUE(got.has_value());
  EXPECT_EQ(got->code(), absl::StatusCode::kUnavailable) << *got;
  EXPECT_EQ(world_.exports(), 0U);
}

TEST_P(CopyGatesTest, WhoIsNoNodeOfTheMap_IsRefused) {
  Stranger stranger(world_, NodeWorld::identity(NodeWorld::kStranger));
  const absl::Status status = ask(
      [&](rpc::CompletionFn done) { stranger.call(GetParam(), fetch_of(fuzz::kAlone, GetParam()), std::move(done)); },
      [&] { stranger.poll(); });
  EXPECT_EQ(status.code(), absl::StatusCode::kFailedPrecondition) << status;
  EXPECT_THAT(std::string(status.message()), HasSubstr("this node knows no"));
  EXPECT_EQ(world_.exports(), 0U);
}

INSTANTIATE_TEST_SUITE_P(Methods, CopyGatesTest, ::testing::Values(Method::kFetchChunk, Method::kFetchTail),
                         [](const auto& method) { return method.param == Method::kFetchTail ? "Tail" : "Chunk"; });

}  // namespace
}  // namespace skua::kv
