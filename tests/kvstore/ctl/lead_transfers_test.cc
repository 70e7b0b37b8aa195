#include "kvstore/ctl/lead_transfers.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <string>

namespace skua::kv::ctl {
namespace {

using control::ClusterStatus;
using control::Liveness;
using control::MapShard;
using ::testing::ElementsAre;
using ::testing::IsEmpty;

/// Nodes a, b and c. A shard's members are given by their numbers, the primary first.
class LeadTransfersTest : public ::testing::Test {
 protected:
  LeadTransfersTest() {
    for (const char* uuid : {"a", "b", "c"}) {
      ClusterStatus::Node node;
      node.info.uuid = uuid;
      node.liveness = Liveness::kAlive;
      status_.nodes.push_back(node);
      map_.nodes.push_back({.uuid = uuid, .incarnation = 1, .grpc_address = "", .worker_count = 1});
    }
  }

  void add_table(const std::string& name, const std::vector<std::vector<uint32_t>>& shards) {
    control::MapTable table;
    table.id = static_cast<control::TableId>(map_.tables.size() + 1);
    table.name = name;
    table.replicas = 3;
    for (const std::vector<uint32_t>& members : shards) {
      MapShard shard;
      shard.primary = control::MapReplica{members[0], 0};
      for (size_t i = 1; i < members.size(); ++i) shard.backups.push_back({members[i], 0});
      table.shards.push_back(shard);
    }
    map_.tables.push_back(table);
  }

  [[nodiscard]] LeadTransfers from(const std::string& uuid) const { return lead_transfers_from(status_, map_, uuid); }

  ClusterStatus status_;
  control::ShardMap map_;
};

TEST_F(LeadTransfersTest, ANodeThatLeadsNothingHasNothingToGive) {
  add_table("t", {{1, 0, 2}, {2, 0, 1}});
  EXPECT_THAT(from("a").transfers, IsEmpty());
  EXPECT_EQ(from("a").staying_count, 0u);
}

TEST_F(LeadTransfersTest, GoToThoseThatLeadTheFewest) {
  add_table("t", {{0, 1, 2}, {0, 1, 2}, {0, 1, 2}, {1, 0, 2}});
  add_table("u", {{2, 0, 1}, {0, 2, 1}});
  EXPECT_THAT(from("a").transfers, ElementsAre(LeadTransfer{"t", 0, "b"}, LeadTransfer{"t", 1, "c"},
                                               LeadTransfer{"t", 2, "b"}, LeadTransfer{"u", 1, "c"}));
}

TEST_F(LeadTransfersTest, GoToNobodyWhoIsAwayOrDrains) {
  add_table("t", {{0, 1, 2}});
  status_.nodes[1].liveness = Liveness::kSuspected;
  EXPECT_THAT(from("a").transfers, ElementsAre(LeadTransfer{"t", 0, "c"}));
  status_.nodes[2].info.draining = true;
  EXPECT_THAT(from("a").transfers, IsEmpty());
  EXPECT_EQ(from("a").staying_count, 1u);
}

TEST_F(LeadTransfersTest, AShardWithOneReplicaStays) {
  add_table("t", {{0}, {1}});
  EXPECT_THAT(from("a").transfers, IsEmpty());
  EXPECT_EQ(from("a").staying_count, 1u);
}

}  // namespace
}  // namespace skua::kv::ctl
