#include "control/core/cluster_core.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "control/core/cluster_limits.h"
#include "control/core/cluster_progress.h"
#include "control/core/shard_map.h"
#include "tests/control/core/core_fixture.h"

namespace skua::control {
namespace {

using absl::StatusCode;
using testing::HasSubstr;
using testing::IsEmpty;

TEST(Register, NewNodeIsAliveAndInTheMap) {
  TestCluster cluster;
  EXPECT_TRUE(cluster.register_node(test_node(1)).ok());
  EXPECT_EQ(cluster.liveness(1), Liveness::kAlive);
  EXPECT_EQ(cluster.revision(), 2u);
  EXPECT_EQ(cluster.core.state().nodes.at(test_uuid(1)), test_node(1));
}

TEST(Register, ProposesWithoutChangingTheState) {
  TestCluster cluster;
  const Decision decision = cluster.core.step(RegisterNode{"", test_node(1), 0}, cluster.now);
  EXPECT_FALSE(decision.changes.empty());
  EXPECT_THAT(cluster.core.state().nodes, IsEmpty());
  EXPECT_FALSE(cluster.core.node_status(test_uuid(1)).has_value());
}

TEST(Register, SameProcessAgainChangesNothing) {
  TestCluster cluster;
  ASSERT_TRUE(cluster.register_node(test_node(1)).ok());
  EXPECT_TRUE(cluster.register_node(test_node(1)).ok());
  EXPECT_EQ(cluster.revision(), 2u);
}

TEST(Register, RestartAtTheSameAddressReplacesALiveProcess) {
  TestCluster cluster;
  ASSERT_TRUE(cluster.register_node(test_node(1, 1)).ok());
  EXPECT_TRUE(cluster.register_node(test_node(1, 2)).ok());
  EXPECT_EQ(cluster.core.state().nodes.at(test_uuid(1)).incarnation, 2u);
  EXPECT_EQ(cluster.revision(), 3u);
}

TEST(Register, CopyAtAnotherAddressIsRefusedWhileTheFirstLives) {
  TestCluster cluster;
  ASSERT_TRUE(cluster.register_node(test_node(1, 1)).ok());
  NodeInfo copy = test_node(1, 2);
  copy.grpc_address = "host-9:7500";
  copy.host = "host-9";
  const absl::Status status = cluster.register_node(copy);
  EXPECT_EQ(status.code(), StatusCode::kAlreadyExists);
  EXPECT_THAT(message_of(status), HasSubstr("host-1:7500"));
  EXPECT_THAT(message_of(status), HasSubstr("empty data directory"));
  EXPECT_THAT(message_of(status), HasSubstr("try again in 3.0 s"));

  // The node moved: once its old process is silent for long enough, the new address is taken.
  cluster.advance(4 * kSecond);
  EXPECT_TRUE(cluster.register_node(copy).ok());
  EXPECT_EQ(cluster.core.state().nodes.at(test_uuid(1)).grpc_address, "host-9:7500");
}

TEST(Register, MovedNodeIsTakenAtOnceAfterACleanStop) {
  TestCluster cluster;
  const NodeInfo node = test_node(1, 1);
  ASSERT_TRUE(cluster.register_node(node).ok());
  ASSERT_TRUE(cluster.step(NodeHeartbeat{node.uuid, 1, node.instance, 0, true}).status.ok());
  EXPECT_EQ(cluster.liveness(1), Liveness::kStopped);
  NodeInfo moved = test_node(1, 2);
  moved.grpc_address = "host-9:7500";
  EXPECT_TRUE(cluster.register_node(moved).ok());
}

TEST(Heartbeat, WhatArrivesAfterTheGoodbyeIsNoSignOfLife) {
  TestCluster cluster;
  const NodeInfo node = test_node(1, 1);
  ASSERT_TRUE(cluster.register_node(node).ok());
  const NodeHeartbeat goodbye{node.uuid, 1, node.instance, 0, true};
  ASSERT_TRUE(cluster.step(goodbye).status.ok());
  EXPECT_EQ(cluster.heartbeat(node).code(), StatusCode::kNotFound) << "an agent that goes on registers";
  ReplicaReport report;
  report.uuid = node.uuid;
  report.incarnation = 1;
  report.instance = node.instance;
  EXPECT_EQ(cluster.step(report).status.code(), StatusCode::kNotFound);
  EXPECT_EQ(cluster.liveness(1), Liveness::kStopped);
  EXPECT_TRUE(cluster.step(goodbye).status.ok()) << "a goodbye may be said again";
  ASSERT_TRUE(cluster.register_node(node).ok());
  EXPECT_TRUE(cluster.heartbeat(node).ok());
  EXPECT_EQ(cluster.liveness(1), Liveness::kAlive);
}

TEST(Heartbeat, TroubleIsShownUntilItEndsAndIsBounded) {
  TestCluster cluster;
  const NodeInfo node = test_node(1, 1);
  ASSERT_TRUE(cluster.register_node(node).ok());
  const auto tell = [&](const std::string& trouble) {
    EXPECT_TRUE(cluster.step(NodeHeartbeat{node.uuid, 1, node.instance, 0, false, trouble}).status.ok());
    return cluster.core.node_status(node.uuid)->trouble;
  };
  EXPECT_EQ(tell("the log failed"), "the log failed");
  EXPECT_EQ(tell(""), "");
  EXPECT_EQ(tell(std::string(kTroubleBytesMax + 5, 'x')), std::string(kTroubleBytesMax, 'x'));
  ASSERT_TRUE(cluster.register_node(test_node(1, 2)).ok());
  EXPECT_EQ(cluster.core.node_status(node.uuid)->trouble, "");
}

TEST(Heartbeat, NoNodeHasAppliedAMapOfTheFuture) {
  TestCluster cluster;
  const NodeInfo node = test_node(1, 1);
  ASSERT_TRUE(cluster.register_node(node).ok());
  ASSERT_TRUE(cluster.step(NodeHeartbeat{node.uuid, 1, node.instance, UINT64_MAX, false, ""}).status.ok());
  EXPECT_EQ(cluster.core.node_status(node.uuid)->applied_revision, cluster.core.state().map_revision);
}

TEST(Heartbeat, CopiesAreRemembered) {
  TestCluster cluster;
  const NodeInfo node = test_node(1, 1);
  ASSERT_TRUE(cluster.register_node(node).ok());
  NodeHeartbeat heartbeat{node.uuid, 1, node.instance, 0, false, ""};
  heartbeat.copies.assign(kCopiesShownMax + 1, {{7, 2}, std::string(kCopyTextMax + 1, 'x')});
  ASSERT_TRUE(cluster.step(heartbeat).status.ok());
  const auto copies = cluster.core.node_status(node.uuid)->copies;
  ASSERT_EQ(copies.size(), kCopiesShownMax);
  EXPECT_EQ(copies[0].shard, ShardKey(7, 2));
  EXPECT_EQ(copies[0].text.size(), kCopyTextMax);
}

TEST(Heartbeat, AClockThatIsFarOffIsATrouble) {
  TestCluster cluster;
  const NodeInfo node = test_node(1, 1);
  ASSERT_TRUE(cluster.register_node(node).ok());
  const auto trouble = [&](DurationNs ahead_ns, const std::string& other) {
    NodeHeartbeat heartbeat{node.uuid, 1, node.instance, 0, false, other};
    heartbeat.clock_ahead_ns = ahead_ns;
    EXPECT_TRUE(cluster.step(heartbeat).status.ok());
    return trouble_of(*cluster.core.node_status(node.uuid));
  };
  EXPECT_EQ(trouble(kClockAheadMax, ""), "");
  EXPECT_EQ(trouble(-kClockAheadMax, "disk"), "disk");
  EXPECT_THAT(trouble(600 * kSecond, "disk"),
              HasSubstr("disk; the node's clock is 600 s ahead of the control plane's"));
  EXPECT_THAT(trouble(-600 * kSecond, ""), HasSubstr("600 s too late; set the clocks"));
  EXPECT_EQ(trouble(0, ""), "");
}

TEST(Heartbeat, TextsAreCutBetweenCharacters) {
  TestCluster cluster;
  const NodeInfo node = test_node(1);
  ASSERT_TRUE(cluster.register_node(node).ok());
  // Two bytes each, and the bounds are even: after one more byte they fall inside a character.
  std::string text = "x";
  while (text.size() <= kTroubleBytesMax) text += "\u00e9";
  NodeHeartbeat heartbeat{node.uuid, 1, node.instance};
  heartbeat.trouble = text;
  heartbeat.copies = {{{1, 0}, text}};
  ASSERT_TRUE(cluster.step(heartbeat).status.ok());
  const auto status = cluster.core.node_status(node.uuid);
  EXPECT_EQ(status->trouble, text.substr(0, kTroubleBytesMax - 1));
  EXPECT_EQ(status->copies.at(0).text, text.substr(0, kCopyTextMax - 1));
}

TEST(Register, SameIncarnationOfAnotherProcessIsRefused) {
  TestCluster cluster;
  ASSERT_TRUE(cluster.register_node(test_node(1)).ok());
  NodeInfo copy = test_node(1);
  copy.instance = test_uuid(77);
  const absl::Status status = cluster.register_node(copy);
  EXPECT_EQ(status.code(), StatusCode::kFailedPrecondition);
  EXPECT_THAT(message_of(status), HasSubstr("identity of another process"));
  EXPECT_THAT(message_of(status), HasSubstr("host-1"));
}

TEST(Register, OlderIncarnationIsRefused) {
  TestCluster cluster;
  ASSERT_TRUE(cluster.register_node(test_node(1, 5)).ok());
  cluster.advance(10 * kSecond);
  const absl::Status status = cluster.register_node(test_node(1, 4));
  EXPECT_EQ(status.code(), StatusCode::kFailedPrecondition);
  EXPECT_THAT(message_of(status), HasSubstr("old copy"));
}

TEST(Register, ForeignClusterIsRefused) {
  TestCluster cluster;
  const absl::Status status = cluster.step(RegisterNode{"other-cluster", test_node(1), 0}).status;
  EXPECT_EQ(status.code(), StatusCode::kFailedPrecondition);
  EXPECT_THAT(message_of(status), HasSubstr("other-cluster"));
  EXPECT_THAT(message_of(status), HasSubstr(kClusterId));
  EXPECT_THAT(message_of(status), HasSubstr("empty data directory"));
  EXPECT_THAT(cluster.core.state().nodes, IsEmpty());
}

TEST(Register, DisjointVersionsAreRefusedWithBothRanges) {
  TestCluster cluster;
  NodeInfo node = test_node(1);
  node.versions = {7, 9};
  const absl::Status status = cluster.register_node(node);
  EXPECT_EQ(status.code(), StatusCode::kFailedPrecondition);
  EXPECT_THAT(message_of(status), HasSubstr("7 to 9"));
  EXPECT_THAT(message_of(status), HasSubstr("1 to 1"));
  EXPECT_THAT(message_of(status), HasSubstr("Upgrade"));
}

TEST(Register, AProcessIsAliveOnceItsRegistrationIsStored) {
  TestCluster cluster;
  ASSERT_TRUE(cluster.register_node(test_node(1)).ok());
  cluster.advance(4 * kSecond);
  ASSERT_EQ(cluster.liveness(1), Liveness::kSuspected);
  const RegisterNode restarted{kClusterId, test_node(1, 2), 0};
  const Decision decision = cluster.core.step(restarted, cluster.now);
  ASSERT_TRUE(decision.status.ok());
  EXPECT_EQ(cluster.liveness(1), Liveness::kSuspected) << "the store may fail";
  EXPECT_EQ(cluster.step(restarted).liveness_changes.size(), 1u);
  EXPECT_EQ(cluster.liveness(1), Liveness::kAlive);
}

TEST(Register, MalformedDescriptionsAreRefused) {
  TestCluster cluster;
  const auto refused = [&](auto&& spoil) {
    NodeInfo node = test_node(1);
    spoil(node);
    return cluster.register_node(node).code() == StatusCode::kInvalidArgument;
  };
  EXPECT_TRUE(refused([](NodeInfo& n) { n.uuid = "x"; }));
  EXPECT_TRUE(refused([](NodeInfo& n) { n.uuid = "00000000-0000-0000-9a55-0d7a3a4f8b10"; }));
  EXPECT_TRUE(refused([](NodeInfo& n) { n.instance.clear(); }));
  EXPECT_TRUE(refused([](NodeInfo& n) { n.incarnation = 0; }));
  EXPECT_TRUE(refused([](NodeInfo& n) { n.secret = std::string(1 << 20, 'x'); }));
  EXPECT_TRUE(refused([](NodeInfo& n) { n.worker_count = 0; }));
  EXPECT_TRUE(refused([](NodeInfo& n) { n.worker_count = kWorkersPerNodeMax + 1; }));
  for (const char* address :
       {"", "host", ":7500", "host:", "host:0", "0.0.0.0:7500", "[::]:7500", "host:x", "unix:/tmp/x:80",
        "dns://8.8.8.8/host:80", "ipv4:1.2.3.4:1,5.6.7.8:2", "::1:7500", "a b:1"}) {
    EXPECT_TRUE(refused([&](NodeInfo& n) { n.grpc_address = address; })) << address;
  }
  EXPECT_TRUE(refused([](NodeInfo& n) { n.grpc_address = std::string(kAddressMax, 'h') + ":1"; }));
  EXPECT_TRUE(refused([](NodeInfo& n) { n.host = std::string(kAddressMax + 1, 'h'); }));
}

TEST(Register, StopsAtTheNodeLimit) {
  TestCluster cluster;
  for (uint64_t n = 1; n <= kNodesMax; ++n) ASSERT_TRUE(cluster.register_node(test_node(n)).ok());
  EXPECT_EQ(cluster.register_node(test_node(kNodesMax + 1)).code(), StatusCode::kResourceExhausted);
  EXPECT_TRUE(cluster.register_node(test_node(1)).ok());
}

TEST(Register, FewerWorkersMoveTheirShardsWithinTheNode) {
  TestCluster cluster;
  ASSERT_TRUE(cluster.register_node(test_node(1, 1, 4)).ok());
  ASSERT_TRUE(cluster.create_table("t", 8).ok());
  ASSERT_TRUE(cluster.register_node(test_node(1, 2, 2)).ok());
  int moved = 0;
  int per_worker[2] = {0, 0};
  for (const auto& [key, shard] : cluster.core.state().shards) {
    ASSERT_LT(shard.primary->worker, 2u);
    ++per_worker[shard.primary->worker];
    if (shard.epoch == 2) ++moved;
  }
  EXPECT_EQ(moved, 4);
  EXPECT_EQ(per_worker[0], 4);
  EXPECT_EQ(per_worker[1], 4);
  EXPECT_TRUE(build_shard_map(cluster.core.state()).valid());
}

TEST(Heartbeat, KeepsANodeAliveAndSilenceSuspectsIt) {
  TestCluster cluster;
  ASSERT_TRUE(cluster.register_node(test_node(1)).ok());
  for (int i = 0; i < 5; ++i) {
    cluster.advance(2 * kSecond);
    ASSERT_TRUE(cluster.heartbeat(test_node(1)).ok());
  }
  EXPECT_EQ(cluster.liveness(1), Liveness::kAlive);
  cluster.advance(3 * kSecond);
  EXPECT_EQ(cluster.liveness(1), Liveness::kAlive);
  cluster.advance(1);
  EXPECT_EQ(cluster.liveness(1), Liveness::kSuspected);
  ASSERT_TRUE(cluster.heartbeat(test_node(1)).ok());
  EXPECT_EQ(cluster.liveness(1), Liveness::kAlive);
}

TEST(Heartbeat, ReportsLivenessChangesOnce) {
  TestCluster cluster;
  ASSERT_TRUE(cluster.register_node(test_node(1)).ok());
  cluster.now += 4 * kSecond;
  const Decision first = cluster.step(Tick{});
  ASSERT_EQ(first.liveness_changes.size(), 1u);
  EXPECT_EQ(first.liveness_changes[0].to, Liveness::kSuspected);
  EXPECT_THAT(cluster.step(Tick{}).liveness_changes, IsEmpty());
}

TEST(Heartbeat, SuspicionLeavesShardsAssignedAndShowsThemUnavailable) {
  TestCluster cluster;
  ASSERT_TRUE(cluster.register_node(test_node(1)).ok());
  ASSERT_TRUE(cluster.create_table("t", 4).ok());
  const TableId id = cluster.core.state().find_table("t")->id;
  EXPECT_EQ(available_shard_count(cluster.core.context(), id), 4u);
  const uint64_t revision = cluster.revision();
  cluster.advance(4 * kSecond);
  EXPECT_EQ(available_shard_count(cluster.core.context(), id), 0u);
  EXPECT_EQ(cluster.core.state().owned_shard_count(test_uuid(1)), 4u);
  EXPECT_EQ(cluster.revision(), revision);
}

TEST(Heartbeat, UnknownNodeIsAskedToRegister) {
  TestCluster cluster;
  EXPECT_EQ(cluster.heartbeat(test_node(1)).code(), StatusCode::kNotFound);
  ASSERT_TRUE(cluster.register_node(test_node(1, 1)).ok());
  EXPECT_EQ(cluster.heartbeat(test_node(1, 2)).code(), StatusCode::kNotFound);
}

TEST(Heartbeat, ReplacedProcessIsToldToStop) {
  TestCluster cluster;
  ASSERT_TRUE(cluster.register_node(test_node(1, 1)).ok());
  ASSERT_TRUE(cluster.register_node(test_node(1, 2)).ok());
  const absl::Status status = cluster.heartbeat(test_node(1, 1));
  EXPECT_EQ(status.code(), StatusCode::kFailedPrecondition);
  EXPECT_THAT(message_of(status), HasSubstr("Stop this process"));
}

TEST(Restart, NodesAreUnknownUntilTheyAreHeardOf) {
  TestCluster before;
  ASSERT_TRUE(before.register_node(test_node(1)).ok());
  ASSERT_TRUE(before.register_node(test_node(2)).ok());
  TestCluster after(before.core.state());
  EXPECT_EQ(after.liveness(1), Liveness::kUnknown);
  EXPECT_EQ(after.create_table("t", 1).code(), StatusCode::kUnavailable);
  ASSERT_TRUE(after.heartbeat(test_node(1)).ok());
  EXPECT_EQ(after.liveness(1), Liveness::kAlive);
  after.advance(2 * kSecond);
  ASSERT_TRUE(after.heartbeat(test_node(1)).ok());
  after.advance(2 * kSecond);
  EXPECT_EQ(after.liveness(1), Liveness::kAlive);
  EXPECT_EQ(after.liveness(2), Liveness::kSuspected);
}

TEST(Restart, UnknownNodeCountsAsAliveForIdentity) {
  TestCluster before;
  ASSERT_TRUE(before.register_node(test_node(1, 1)).ok());
  TestCluster after(before.core.state());
  NodeInfo copy = test_node(1, 2);
  copy.grpc_address = "host-9:7500";
  EXPECT_EQ(after.register_node(copy).code(), StatusCode::kAlreadyExists);
}

}  // namespace
}  // namespace skua::control
