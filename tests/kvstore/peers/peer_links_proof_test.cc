// Who may speak: which sessions' messages a worker takes, and whom it asks about them (peer_links_proof.cc).
#include "kvstore/peers/peer_links.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "kvstore/peers/peer_identity.h"
#include "rpc/base/rng.h"
#include "tests/kvstore/peers/peer_world.h"

namespace skua::kv {
namespace {

using testing::FakeBootstrap;
using testing::kPeerCluster;
using testing::PeerNode;
using testing::PeerWorld;

TEST(PeerLinksTest, Refused_UnlessNodeIncarnationAndStorageAreTheKnownOnes) {
  PeerWorld world(2);
  PeerNode& sender = world.node(0);
  PeerNode& receiver = world.node(1);
  ASSERT_TRUE(world.connect(0, 1));
  const PeerLinksCounters& counters = receiver.links().counters();
  const auto refuses = [&](const ReplicaEnvelope& envelope) {
    const uint64_t failed = sender.links().counters().requests_failed;
    const uint64_t taken = receiver.received.size();
    EXPECT_TRUE(sender.links().send(PeerNode::address(1), sender.links().make_frame(envelope, Release{1})));
    EXPECT_TRUE(world.run_until(
        [&] { return sender.links().counters().requests_failed > failed || receiver.received.size() > taken; }));
    return receiver.received.size() == taken;
  };
  ReplicaEnvelope envelope = sender.envelope();
  EXPECT_FALSE(refuses(envelope));

  envelope.from += 1;
  EXPECT_TRUE(refuses(envelope));
  EXPECT_EQ(counters.refused_envelope, 1U);

  envelope = sender.envelope();
  envelope.incarnation += 1;
  EXPECT_TRUE(refuses(envelope));
  EXPECT_EQ(counters.refused_incarnation, 1U);

  PeerInfo info = sender.info();
  info.storage_incarnation = 0;  // not known yet
  ASSERT_TRUE(receiver.links().set_peer(info).ok());
  EXPECT_FALSE(refuses(envelope));

  info.incarnation = 2;  // the session is of the life before
  ASSERT_TRUE(receiver.links().set_peer(info).ok());
  EXPECT_TRUE(refuses(sender.envelope()));
  EXPECT_EQ(counters.refused_incarnation, 2U);

  receiver.links().drop_peer(PeerNode::id(0));
  EXPECT_TRUE(refuses(sender.envelope()));
  EXPECT_EQ(counters.refused_unknown, 1U);
  EXPECT_TRUE(sender.failed.empty());
  world.expect_balance();
}

/// A stranger's endpoint, with any name.
struct Stranger {
  Stranger(PeerWorld& world, const rpc::EndpointIdentity& identity)
      : world(world),
        transport(world.network.attach(77, identity, {.payload_max_bytes = 8192, .rx_ring = 4096})),
        endpoint(*transport, world.network.clock(), {}) {}

  /// A session with the node.
  rpc::SessionId open(PeerNode& node) {
    auto offer = endpoint.begin_connect(node.endpoint().local_descriptor()).value();
    const std::string answer = node.endpoint().accept_offer(as_byte_span(offer.bytes));
    EXPECT_TRUE(endpoint.finish_connect(offer.session, as_byte_span(answer)).ok());
    return offer.session;
  }
  /// What the node answers.
  absl::Status send(rpc::SessionId session, Method method, rpc::MessagePtr request) {
    std::optional<absl::Status> out;
    EXPECT_TRUE(endpoint
                    .call(session, static_cast<rpc::MethodId>(method), std::move(request), {.timeout_ns = 30 * kSecond},
                          [&](rpc::CallResult&& result) { out = result.status; })
                    .ok());
    EXPECT_TRUE(world.run_until([&] {
      endpoint.poll();
      return out.has_value();
    }));
    return out.value_or(absl::UnknownError("no answer"));
  }

  PeerWorld& world;
  std::unique_ptr<rpc::SimTransport> transport;
  rpc::Endpoint endpoint;
};

/// Uuids, incarnations and cluster are known to everybody.
TEST(PeerLinksTest, Refused_WhoSaysToBeANodeThatKnowsNothingOfIt) {
  PeerWorld world(3);
  PeerNode& receiver = world.node(1);
  Stranger stranger(world, worker_identity(PeerNode::uuid(0), 1, kPeerCluster, 0).value());
  const rpc::SessionId session = stranger.open(receiver);
  const PeerNode& claimed = world.node(0);
  FrameBuffer buffer;
  const ByteSpan frame = encode_frame(claimed.envelope(), Release{1}, buffer).value();
  for (int i = 0; i < 3; ++i) {
    const absl::Status answer = stranger.send(session, Method::kReplicate, rpc::MessagePtr::copy_of(frame));
    EXPECT_EQ(answer.code(), absl::StatusCode::kPermissionDenied) << answer;
    EXPECT_THAT(std::string(answer.message()), ::testing::HasSubstr(PeerNode::uuid(0)));
  }
  EXPECT_EQ(receiver.received.size(), 0U);
  EXPECT_EQ(receiver.links().counters().refused_unproven, 3U);
  // Who it says to be is heard all the same.
  ASSERT_TRUE(world.node(0).send(receiver, Release{5}) || world.connect(0, 1));
  ASSERT_TRUE(world.run_until([&] {
    static_cast<void>(world.node(0).send(receiver, Release{6}));
    return !receiver.received.empty();
  }));
  EXPECT_EQ(receiver.received[0].from, PeerNode::address(0));
}

TEST(PeerLinksTest, Refused_WhileTheNodeThatItNamesCannotBeAsked) {
  PeerWorld world(2);
  PeerNode& receiver = world.node(1);
  Stranger stranger(world, worker_identity(PeerNode::uuid(0), 1, kPeerCluster, 0).value());
  const rpc::SessionId session = stranger.open(receiver);
  world.stop(0);
  const absl::Status answer = stranger.send(session, Method::kReplicate, rpc::MessagePtr::copy_of(as_byte_span("x")));
  EXPECT_EQ(answer.code(), absl::StatusCode::kUnavailable) << answer;
  EXPECT_EQ(receiver.received.size(), 0U);
}

/// The last sessions are for nodes: who only says to be one does not keep them.
TEST(PeerLinksTest, Refused_SessionsAreClosedWhereTheyAreFew) {
  PeerWorld world(2);
  world.endpoint_options.sessions_reserved = world.endpoint_options.sessions_max;
  world.stop(1);
  world.start(1, 2);
  world.introduce_all();
  PeerNode& receiver = world.node(1);
  Stranger stranger(world, worker_identity(PeerNode::uuid(0), 1, kPeerCluster, 0).value());
  const rpc::SessionId session = stranger.open(receiver);
  EXPECT_TRUE(stranger.endpoint.is_connected(session));
  EXPECT_TRUE(world.run_until([&] {
    stranger.endpoint.poll();
    return !stranger.endpoint.is_connected(session);
  }));
}

TEST(PeerLinksTest, Refused_SessionsOfWhomNobodyCanAskAreClosedWhereTheyAreFew) {
  PeerWorld world(2);
  world.endpoint_options.sessions_reserved = world.endpoint_options.sessions_max;
  world.stop(1);
  world.start(1, 2);
  world.introduce_all();
  PeerNode& receiver = world.node(1);
  Stranger stranger(world, worker_identity(PeerNode::uuid(0), 1, kPeerCluster, 0).value());
  world.stop(0);
  const rpc::SessionId session = stranger.open(receiver);
  EXPECT_TRUE(world.run_until([&] {
    stranger.endpoint.poll();
    return !stranger.endpoint.is_connected(session);
  }));
}

/// Of a node that leaves the map, nothing is asked any more.
TEST(PeerLinksTest, Refused_WhenTheNodeThatItNamesLeaves) {
  PeerWorld world(2);
  PeerNode& receiver = world.node(1);
  Stranger stranger(world, worker_identity(PeerNode::uuid(0), 1, kPeerCluster, 0).value());
  const rpc::SessionId session = stranger.open(receiver);
  world.stop(0);
  std::optional<absl::Status> out;
  ASSERT_TRUE(stranger.endpoint
                  .call(session, static_cast<rpc::MethodId>(Method::kReplicate),
                        rpc::MessagePtr::copy_of(as_byte_span("x")), {.timeout_ns = 30 * kSecond},
                        [&](rpc::CallResult&& result) { out = result.status; })
                  .ok());
  for (int i = 0; i < 20; ++i) {
    stranger.endpoint.poll();
    world.run_for(kMillisecond);
  }
  ASSERT_FALSE(out.has_value()) << "it is held";
  receiver.links().drop_peer(PeerNode::id(0));
  EXPECT_TRUE(world.run_until([&] {
    stranger.endpoint.poll();
    return out.has_value();
  }));
  EXPECT_FALSE(out->ok());
  EXPECT_EQ(stranger.send(session, Method::kReplicate, rpc::MessagePtr::copy_of(as_byte_span("x"))).code(),
            absl::StatusCode::kFailedPrecondition);
}

/// What strangers send while nobody can say who they are is bounded.
TEST(PeerLinksTest, Held_NoMoreThanItsBounds) {
  PeerWorld world(2);
  PeerNode& receiver = world.node(1);
  Stranger stranger(world, worker_identity(PeerNode::uuid(0), 1, kPeerCluster, 0).value());
  world.stop(0);
  std::vector<rpc::SessionId> sessions;
  for (int i = 0; i < 8; ++i) sessions.push_back(stranger.open(receiver));
  size_t refused = 0;
  size_t given_up = 0;
  const std::string large(size_t{2} << 20, 'x');
  for (const rpc::SessionId session : sessions) {
    const auto started = stranger.endpoint.call(
        session, static_cast<rpc::MethodId>(Method::kReplicate), rpc::MessagePtr::copy_of(as_byte_span(large)),
        {.timeout_ns = 60 * kSecond},
        [&](rpc::CallResult&& result) { (absl::IsResourceExhausted(result.status) ? refused : given_up) += 1; });
    ASSERT_TRUE(started.ok());
  }
  ASSERT_TRUE(world.run_until([&] {
    stranger.endpoint.poll();
    return refused + given_up == sessions.size();
  }));
  EXPECT_EQ(given_up, kHeldBytesMax / large.size());
}

/// Nodes of a release that does not know the question, as far as the control plane knows.
TEST(PeerLinksTest, OlderReleases_AreTakenAtTheirWord) {
  PeerWorld world(2);
  PeerInfo older = world.node(0).info();
  older.vouches = false;
  ASSERT_TRUE(world.node(1).links().set_peer(older).ok());
  world.node(0).endpoint().serve(static_cast<rpc::MethodId>(Method::kVouch), nullptr);
  ASSERT_TRUE(world.connect(0, 1));
  ASSERT_TRUE(world.node(0).send(world.node(1), Release{1}));
  EXPECT_TRUE(world.run_until([&] { return world.node(1).received.size() == 1; }));
}

TEST(PeerLinksTest, ANodeThatShouldKnowTheQuestion_IsNotBelievedWithoutAnAnswer) {
  PeerWorld world(2);
  world.node(0).endpoint().serve(static_cast<rpc::MethodId>(Method::kVouch), nullptr);
  ASSERT_TRUE(world.connect(0, 1));
  ASSERT_TRUE(world.node(0).send(world.node(1), Release{1}));
  ASSERT_TRUE(world.run_until([&] { return world.node(0).links().counters().requests_failed == 1; }));
  EXPECT_TRUE(world.node(1).received.empty());
}

TEST(PeerLinksTest, Refused_WhatIsNoMessage) {
  PeerWorld world(2);
  ASSERT_TRUE(world.connect(0, 1));
  PeerNode& sender = world.node(0);
  for (const std::string_view bytes : {"", "x", "this is not a message between replicas at all"}) {
    ASSERT_TRUE(sender.links().send(PeerNode::address(1), rpc::MessagePtr::copy_of(as_byte_span(bytes))));
  }
  ASSERT_TRUE(world.run_until([&] { return sender.links().counters().requests_failed == 3; }));
  EXPECT_EQ(world.node(1).links().counters().refused_malformed, 3U);
  EXPECT_TRUE(world.node(1).received.empty());
  world.expect_balance();
}

TEST(PeerLinksTest, Refused_ReplyThatIsNoMessageOrSomebodyElses) {
  PeerWorld world(2);
  ASSERT_TRUE(world.connect(0, 1));
  PeerNode& other = world.node(1);
  other.answer = [] { return rpc::MessagePtr::copy_of(as_byte_span("junk")); };
  ASSERT_TRUE(world.node(0).send(other, Release{1}));
  ASSERT_TRUE(world.run_until([&] { return world.node(0).links().counters().refused_malformed == 1; }));
  other.answer = [&] { return other.links().make_frame(world.node(0).envelope(), Release{1}); };
  ASSERT_TRUE(world.node(0).send(other, Release{1}));
  ASSERT_TRUE(world.run_until([&] { return world.node(0).links().counters().refused_envelope == 1; }));
  EXPECT_TRUE(world.node(0).received.empty());
  world.expect_balance();
}

/// Whoever knows a node's name can claim to be any of its workers: no link is opened for one that it cannot have.
TEST(PeerLinksTest, Refused_WhoNamesAWorkerThatTheNodeCannotHave) {
  PeerWorld world(2);
  PeerNode& receiver = world.node(1);
  PeerInfo two_workers = world.node(0).info();
  two_workers.worker_count = 2;
  ASSERT_TRUE(receiver.links().set_peer(two_workers).ok());
  Stranger stranger(world, worker_identity(PeerNode::uuid(0), 1, kPeerCluster, 2).value());
  const rpc::SessionId session = stranger.open(receiver);
  const absl::Status answer = stranger.send(session, Method::kReplicate, rpc::MessagePtr::copy_of(as_byte_span("x")));
  EXPECT_EQ(answer.code(), absl::StatusCode::kFailedPrecondition) << answer;
  EXPECT_THAT(std::string(answer.message()), ::testing::HasSubstr("has no worker 2"));
  EXPECT_EQ(receiver.links().counters().refused_unknown, 1U);
  EXPECT_EQ(receiver.links().link_count(), 0U);
  EXPECT_TRUE(world.bootstrap.describe_times.empty()) << "nobody is asked";
}

}  // namespace
}  // namespace skua::kv
