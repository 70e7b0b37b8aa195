#include "control/core/revocation.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <string>

#include "absl/strings/str_cat.h"
#include "control/core/cluster_limits.h"
#include "control/core/shard_map.h"
#include "tests/control/core/core_fixture.h"

namespace skua::control {
namespace {

using absl::StatusCode;
using testing::ElementsAre;
using testing::HasSubstr;
using testing::IsEmpty;

absl::Status revoke(TestCluster& cluster, const std::string& principal) {
  return cluster.step(RevokeIdentity{principal}).status;
}

TEST(Revoke, IsInTheNextMapUntilItIsTakenBack) {
  TestCluster cluster;
  const uint64_t before = cluster.revision();
  ASSERT_TRUE(revoke(cluster, "client/app-7").ok());
  ASSERT_TRUE(revoke(cluster, "admin/eve").ok());
  EXPECT_EQ(cluster.revision(), before + 2);
  const ShardMap map = build_shard_map(cluster.core.state());
  EXPECT_THAT(map.denied, ElementsAre("admin/eve", "client/app-7"));
  EXPECT_TRUE(map.valid());
  ASSERT_TRUE(cluster.step(UnrevokeIdentity{"client/app-7"}).status.ok());
  EXPECT_EQ(cluster.revision(), before + 3);
  EXPECT_THAT(build_shard_map(cluster.core.state()).denied, ElementsAre("admin/eve"));
}

TEST(Revoke, AgainChangesNothing) {
  TestCluster cluster;
  ASSERT_TRUE(revoke(cluster, "client/a").ok());
  const uint64_t revision = cluster.revision();
  EXPECT_TRUE(revoke(cluster, "client/a").ok());
  EXPECT_EQ(cluster.revision(), revision);
}

TEST(Unrevoke, OfSomebodyWhoIsNot_SaysHowToLook) {
  TestCluster cluster;
  const absl::Status status = cluster.step(UnrevokeIdentity{"client/a"}).status;
  EXPECT_EQ(status.code(), StatusCode::kNotFound);
  EXPECT_THAT(std::string(status.message()), HasSubstr("skuactl cert revoked"));
}

TEST(Revoke, TakesIdentitiesOnly_AndNoneOfTheControlPlane) {
  TestCluster cluster;
  const std::string long_name = absl::StrCat("client/", std::string(kPrincipalMax, 'a'));
  for (const std::string& principal : {std::string(), std::string("app"), std::string("/app"), std::string("client/"),
                                       std::string("control/c1"), long_name}) {
    EXPECT_EQ(revoke(cluster, principal).code(), StatusCode::kInvalidArgument) << principal;
  }
  EXPECT_THAT(std::string(revoke(cluster, "control/c1").message()), HasSubstr("replace the authority"));
  EXPECT_THAT(cluster.core.state().denied, IsEmpty());
}

TEST(Revoke, HasABound) {
  ClusterState state = empty_cluster();
  for (size_t i = 0; i < kDeniedMax; ++i) state.denied.insert(absl::StrCat("client/", i));
  TestCluster cluster(state);
  EXPECT_EQ(revoke(cluster, "client/more").code(), StatusCode::kResourceExhausted);
  EXPECT_TRUE(revoke(cluster, "client/7").ok()) << "is there already";
  ASSERT_TRUE(cluster.step(UnrevokeIdentity{"client/7"}).status.ok());
  EXPECT_TRUE(revoke(cluster, "client/more").ok());
}

TEST(RevokedNode, IsNotAliveAndDoesNotComeBack) {
  TestCluster cluster;
  ASSERT_TRUE(cluster.register_node(test_node(1)).ok());
  ASSERT_TRUE(cluster.register_node(test_node(2)).ok());
  ASSERT_TRUE(revoke(cluster, node_principal(test_uuid(1))).ok());
  EXPECT_EQ(cluster.liveness(1), Liveness::kSuspected);
  EXPECT_EQ(cluster.liveness(2), Liveness::kAlive);
  EXPECT_THAT(cluster.core.node_status(test_uuid(1))->trouble, HasSubstr("revoked"));
  // What it sent just before it was revoked may come later.
  EXPECT_EQ(cluster.heartbeat(test_node(1)).code(), StatusCode::kPermissionDenied);
  EXPECT_EQ(cluster.register_node(test_node(1)).code(), StatusCode::kPermissionDenied);
  EXPECT_EQ(cluster.register_node(test_node(1, 2)).code(), StatusCode::kPermissionDenied);
  const NodeInfo node = test_node(1);
  EXPECT_EQ(cluster.step(ReplicaReport{node.uuid, node.incarnation, node.instance, {}, {}, {}}).status.code(),
            StatusCode::kPermissionDenied);
  EXPECT_EQ(cluster.liveness(1), Liveness::kSuspected);
  const ShardMap map = build_shard_map(cluster.core.state());
  EXPECT_TRUE(map.is_denied(*map.find_node(test_uuid(1))));
  EXPECT_FALSE(map.is_denied(*map.find_node(test_uuid(2))));

  ASSERT_TRUE(cluster.step(UnrevokeIdentity{node_principal(test_uuid(1))}).status.ok());
  EXPECT_TRUE(cluster.heartbeat(test_node(1)).ok());
  EXPECT_EQ(cluster.liveness(1), Liveness::kAlive);
  EXPECT_EQ(cluster.core.node_status(test_uuid(1))->trouble, "");
}

TEST(RevokedNode, GetsNoShardsAndCanBeRemoved) {
  TestCluster cluster;
  ASSERT_TRUE(cluster.register_node(test_node(1)).ok());
  ASSERT_TRUE(cluster.register_node(test_node(2)).ok());
  ASSERT_TRUE(revoke(cluster, node_principal(test_uuid(1))).ok());
  ASSERT_TRUE(cluster.create_table("t", 4).ok());
  EXPECT_EQ(cluster.core.state().replica_count(test_uuid(1)), 0u);
  EXPECT_EQ(cluster.core.state().replica_count(test_uuid(2)), 4u);
  EXPECT_TRUE(cluster.step(NodeLeave{test_uuid(1), "", false}).status.ok());
}

/// A control plane that has just started knows it from the stored state.
TEST(RevokedNode, IsNotAliveAfterARestartOfTheControlPlane) {
  ClusterState state = empty_cluster();
  state.nodes[test_uuid(1)] = test_node(1);
  state.denied.insert(node_principal(test_uuid(1)));
  TestCluster cluster(state);
  EXPECT_EQ(cluster.liveness(1), Liveness::kSuspected);
  EXPECT_EQ(cluster.heartbeat(test_node(1)).code(), StatusCode::kPermissionDenied);
}

TEST(ShardMapOfRevoked, IsCheckedBeforeUse) {
  ShardMap map = build_shard_map(empty_cluster());
  map.denied = {"client/b", "client/a"};
  EXPECT_FALSE(map.valid()) << "it is searched, so it must be sorted";
  map.denied.assign(kDeniedMax + 1, "client/a");
  EXPECT_FALSE(map.valid());
  map.denied.resize(kDeniedMax);
  EXPECT_TRUE(map.valid());
}

}  // namespace
}  // namespace skua::control
