// Nodes of a build that cannot hold replicas.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "tests/control/core/replicated_cluster.h"

namespace skua::control {
namespace {

using ::testing::AllOf;
using ::testing::HasSubstr;
using ::testing::Not;

class OldNodes : public TestCluster {
 public:
  OldNodes(uint64_t able, uint64_t old) {
    for (uint64_t n = 1; n <= able + old; ++n) {
      NodeInfo node = test_node(n);
      if (n > able) node.replication_version = kReplicationVersionNeeded - 1;
      EXPECT_TRUE(register_node(node).ok());
    }
  }
  std::string refusal(const Event& event) { return step(event).status.ToString(); }
};

TEST(ReplicationVersion, TablesAreNotPlacedOnNodesBelowTheNeededOne) {
  OldNodes cluster(3, 2);
  ASSERT_TRUE(cluster.step(CreateTable{"t", 8, false, 3}).status.ok());
  for (const auto& [key, record] : cluster.core.state().shards) {
    for (const Replica& member : members_of(record)) {
      EXPECT_TRUE(cluster.core.state().nodes.at(member.node_uuid).replicates()) << member.node_uuid;
    }
  }
}

TEST(ReplicationVersion, TooFewNodesSaysWhatToUpgrade) {
  OldNodes cluster(2, 2);
  EXPECT_THAT(cluster.refusal(CreateTable{"t", 8, false, 3}),
              AllOf(HasSubstr("2 can take shards"), HasSubstr("2 more are of a build that cannot hold replicas"),
                    HasSubstr("upgrade them"), HasSubstr("create it with 2 replicas")));
  EXPECT_THAT(cluster.refusal(CreateTable{"t", 8, false, 5}), HasSubstr("or start 3 more skuad"));
  OldNodes none(0, 3);
  EXPECT_THAT(none.refusal(CreateTable{"t", 8, false, 3}), Not(HasSubstr("with 0 replicas")));
  OldNodes all(2, 0);
  EXPECT_THAT(all.refusal(CreateTable{"t", 8, false, 3}), Not(HasSubstr("build")));
}

TEST(ReplicationVersion, TablesWithoutReplicasAreForAnyNode) {
  OldNodes cluster(0, 2);
  ASSERT_TRUE(cluster.create_table("t", 8).ok());
  std::set<std::string> used;
  for (const auto& [key, record] : cluster.core.state().shards) used.insert(record.primary->node_uuid);
  EXPECT_EQ(used.size(), 2U);
}

TEST(ReplicationVersion, LostMembersAreNotReplacedByNodesBelowTheNeededOne) {
  ReplicatedCluster cluster(4);
  const uint64_t outsider = cluster.outsider();
  cluster.node(outsider).replication_version = 0;
  cluster.restart(outsider);
  const uint64_t lost = cluster.backup(0);
  cluster.silence(lost);
  cluster.pass(5 * kSecond);
  cluster.accuse(cluster.primary(), lost);
  cluster.pass(60 * kSecond);
  EXPECT_FALSE(cluster.members().contains(lost));
  EXPECT_TRUE(cluster.record().learners.empty());
  EXPECT_THAT(cluster.step(MoveShard{"t", 0, test_uuid(cluster.primary()), test_uuid(outsider)}).status.ToString(),
              AllOf(HasSubstr("replication version 0"), HasSubstr("Upgrade it")));
  // Upgraded, it is as good as any.
  cluster.node(outsider).replication_version = kReplicationVersion;
  cluster.restart(outsider);
  cluster.pass(10 * kSecond);
  ASSERT_EQ(cluster.record().learners.size(), 1U);
  EXPECT_EQ(ReplicatedCluster::number(cluster.record().learners[0].replica), outsider);
}

TEST(ReplicationVersion, AMemberOfAnOlderBuildLeadsOnlyIfNobodyElseCan) {
  ReplicatedCluster cluster(3);
  const uint64_t old = cluster.backup(0);
  const uint64_t other = cluster.backup(1);
  cluster.node(old).replication_version = 0;
  cluster.restart(old);
  cluster.pass(2 * kSecond);
  ASSERT_TRUE(cluster.members().contains(old));
  cluster.restart(cluster.primary());
  EXPECT_EQ(cluster.primary(), other);
}

}  // namespace
}  // namespace skua::control
