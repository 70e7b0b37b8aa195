#include "control/core/tables.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <vector>

#include "control/core/cluster_limits.h"
#include "control/core/shard_map.h"
#include "control/core/table_names.h"
#include "tests/control/core/core_fixture.h"

namespace skua::control {
namespace {

using absl::StatusCode;
using testing::AllOf;
using testing::HasSubstr;

TEST(CreateTable, PlacesOverLiveNodesOnly) {
  TestCluster cluster;
  for (uint64_t n = 1; n <= 3; ++n) ASSERT_TRUE(cluster.register_node(test_node(n)).ok());
  cluster.advance(2 * kSecond);
  ASSERT_TRUE(cluster.heartbeat(test_node(1)).ok());
  ASSERT_TRUE(cluster.heartbeat(test_node(2)).ok());
  cluster.advance(2 * kSecond);
  ASSERT_TRUE(cluster.create_table("t", 8).ok());
  EXPECT_EQ(cluster.core.state().owned_shard_count(test_uuid(1)), 4u);
  EXPECT_EQ(cluster.core.state().owned_shard_count(test_uuid(2)), 4u);
  EXPECT_EQ(cluster.core.state().owned_shard_count(test_uuid(3)), 0u);
}

TEST(CreateTable, DefaultsToAFewShardsPerWorker) {
  TestCluster cluster;
  for (uint64_t n = 1; n <= 3; ++n) ASSERT_TRUE(cluster.register_node(test_node(n)).ok());
  const Decision decision = cluster.step(CreateTable{"t", 0, false});
  ASSERT_TRUE(decision.status.ok());
  EXPECT_EQ(decision.table->shard_count, 6 * kDefaultShardsPerWorker);
}

TEST(CreateTable, NeverReusesAnId) {
  TestCluster cluster;
  ASSERT_TRUE(cluster.register_node(test_node(1)).ok());
  ASSERT_TRUE(cluster.create_table("t", 1).ok());
  const TableId first = cluster.core.state().find_table("t")->id;
  ASSERT_TRUE(cluster.step(DropTable{"t"}).status.ok());
  ASSERT_TRUE(cluster.create_table("t", 1).ok());
  EXPECT_GT(cluster.core.state().find_table("t")->id, first);
}

TEST(CreateTable, ExistingNameIsRefusedUnlessAskedFor) {
  TestCluster cluster;
  ASSERT_TRUE(cluster.register_node(test_node(1)).ok());
  ASSERT_TRUE(cluster.create_table("t", 3).ok());
  const uint64_t revision = cluster.revision();
  EXPECT_EQ(cluster.create_table("t", 3).code(), StatusCode::kAlreadyExists);
  EXPECT_EQ(cluster.step(CreateTable{"t", 4, true}).status.code(), StatusCode::kAlreadyExists);
  const Decision found = cluster.step(CreateTable{"t", 3, true});
  EXPECT_TRUE(found.status.ok());
  EXPECT_EQ(found.table->shard_count, 3u);
  EXPECT_TRUE(cluster.step(CreateTable{"t", 0, true}).status.ok());
  EXPECT_EQ(cluster.revision(), revision);
}

TEST(CreateTable, HashTagsAreKeptAndWanted) {
  TestCluster cluster;
  ASSERT_TRUE(cluster.register_node(test_node(1)).ok());
  CreateTable tagged{"tagged", 3, true};
  tagged.hash_tags = true;
  ASSERT_TRUE(cluster.step(tagged).status.ok());
  EXPECT_TRUE(cluster.core.state().find_table("tagged")->hash_tags);
  EXPECT_TRUE(build_shard_map(cluster.core.state()).tables[0].hash_tags);
  EXPECT_TRUE(cluster.step(tagged).status.ok()) << "it is there, as wanted";
  EXPECT_TRUE(cluster.step(CreateTable{"tagged", 3, true}).status.ok()) << "nothing was said of tags";
  ASSERT_TRUE(cluster.create_table("plain", 3).ok());
  tagged.name = "plain";
  const absl::Status refused = cluster.step(tagged).status;
  EXPECT_EQ(refused.code(), StatusCode::kAlreadyExists);
  EXPECT_THAT(refused.message(), HasSubstr("without hash tags"));
}

TEST(CreateTable, ReadAnywhereIsWantedOfAnExistingTable) {
  TestCluster cluster;
  for (uint64_t n = 1; n <= 2; ++n) ASSERT_TRUE(cluster.register_node(test_node(n)).ok());
  CreateTable wanted{"t", 3, true, 2};
  ASSERT_TRUE(cluster.step(wanted).status.ok());
  wanted.read_anywhere = true;
  const absl::Status refused = cluster.step(wanted).status;
  EXPECT_EQ(refused.code(), StatusCode::kAlreadyExists);
  EXPECT_THAT(refused.message(), HasSubstr("without read_anywhere"));
  wanted.name = "anywhere";
  ASSERT_TRUE(cluster.step(wanted).status.ok());
  EXPECT_TRUE(cluster.step(wanted).status.ok()) << "it is there, as wanted";
  wanted.read_anywhere = false;
  EXPECT_TRUE(cluster.step(wanted).status.ok()) << "nothing was said of it";
}

TEST(CreateTable, BadNamesAndSizesAreRefused) {
  TestCluster cluster;
  ASSERT_TRUE(cluster.register_node(test_node(1)).ok());
  for (const std::string& name :
       {std::string(), std::string("a b"), std::string("a/b"), std::string(kTableNameMax + 1, 'x')}) {
    EXPECT_EQ(cluster.create_table(name, 1).code(), StatusCode::kInvalidArgument) << name;
  }
  EXPECT_TRUE(cluster.create_table(std::string(kTableNameMax, 'x'), 1).ok());
  EXPECT_EQ(cluster.create_table("t", kShardsPerTableMax + 1).code(), StatusCode::kInvalidArgument);
  EXPECT_TRUE(cluster.create_table("t", kShardsPerTableMax).ok());
}

TEST(CreateTable, StopsAtTheShardLimit) {
  TestCluster cluster;
  ASSERT_TRUE(cluster.register_node(test_node(1)).ok());
  for (size_t i = 0; i < kShardsMax / kShardsPerTableMax; ++i) {
    ASSERT_TRUE(cluster.create_table("t" + std::to_string(i), kShardsPerTableMax).ok());
  }
  EXPECT_EQ(cluster.create_table("more", 1).code(), StatusCode::kResourceExhausted);
}

TEST(CreateTable, WithoutLiveNodesSaysWhatToDo) {
  TestCluster cluster;
  const absl::Status status = cluster.create_table("t", 1);
  EXPECT_EQ(status.code(), StatusCode::kFailedPrecondition);
  EXPECT_THAT(message_of(status), HasSubstr("Start a skuad"));
}

TEST(DropTable, RemovesTheTableAndItsShardsOnly) {
  TestCluster cluster;
  ASSERT_TRUE(cluster.register_node(test_node(1)).ok());
  ASSERT_TRUE(cluster.create_table("a", 3).ok());
  ASSERT_TRUE(cluster.create_table("b", 2).ok());
  EXPECT_TRUE(cluster.step(DropTable{"a"}).status.ok());
  EXPECT_EQ(cluster.core.state().find_table("a"), nullptr);
  EXPECT_EQ(cluster.core.state().shards.size(), 2u);
}

TEST(DropTable, UnknownTableNamesTheOthers) {
  TestCluster cluster;
  ASSERT_TRUE(cluster.register_node(test_node(1)).ok());
  ASSERT_TRUE(cluster.create_table("orders", 1).ok());
  const absl::Status status = cluster.step(DropTable{"order"}).status;
  EXPECT_EQ(status.code(), StatusCode::kNotFound);
  EXPECT_THAT(message_of(status), HasSubstr("here are: orders"));
}

TEST(CreateTable, WithMoreReplicasThanNodesSaysWhatToDo) {
  TestCluster cluster;
  ASSERT_TRUE(cluster.register_node(test_node(1)).ok());
  ASSERT_TRUE(cluster.register_node(test_node(2)).ok());
  const absl::Status status = cluster.step(CreateTable{"t", 1, false, 3}).status;
  EXPECT_EQ(status.code(), StatusCode::kFailedPrecondition);
  EXPECT_THAT(message_of(status), HasSubstr("Start 1 more skuad"));
  EXPECT_THAT(message_of(status), HasSubstr("with 2 replicas"));
  EXPECT_EQ(cluster.step(CreateTable{"t", 1, false, 6}).status.code(), StatusCode::kInvalidArgument);
  EXPECT_EQ(cluster.step(CreateTable{"t", 1, false, 2, 3}).status.code(), StatusCode::kInvalidArgument);
  EXPECT_TRUE(cluster.step(CreateTable{"t", 1, false, 2}).status.ok());
  EXPECT_EQ(cluster.step(CreateTable{"t", 1, true, 1}).status.code(), StatusCode::kAlreadyExists);
  EXPECT_TRUE(cluster.step(CreateTable{"t", 1, true}).status.ok());
}

TEST(NoSuchTable, OffersTheNearestName) {
  EXPECT_EQ(message_of(no_such_table("usertabel", " in cluster skua", {"orders", "usertable"})),
            "no table \"usertabel\" in cluster skua; did you mean usertable? There are: orders, usertable");
  EXPECT_THAT(message_of(no_such_table("UserTable", "", {"usertable"})), HasSubstr("did you mean usertable?"));
  EXPECT_EQ(message_of(no_such_table("t", "", {"orders"})), "no table \"t\"; there are: orders");
  EXPECT_EQ(message_of(no_such_table("t", "", {})), "no table \"t\"; there are: none");
  EXPECT_THAT(message_of(no_such_table("x\n", "", {"1", "2", "3", "4", "5", "6", "7", "8", "9"})),
              AllOf(HasSubstr("\"x\\x0a\""), HasSubstr("8, ...")));
}

TEST(NoSuchTable, IsSaidOfEveryOperation) {
  TestCluster cluster;
  ASSERT_TRUE(cluster.register_node(test_node(1)).ok());
  ASSERT_TRUE(cluster.create_table("orders", 1).ok());
  const std::vector<Event> events = {DropTable{"oders"}, MoveShard{"oders", 0, test_uuid(1), test_uuid(2)},
                                     TransferPrimary{"oders", 0, test_uuid(1)}, ForceRecover{"oders", 0, test_uuid(1)}};
  for (const Event& event : events) {
    EXPECT_THAT(message_of(cluster.step(event).status), HasSubstr("did you mean orders?"));
  }
}

TEST(Refusals, OfATableWhereAllNodesAreDrainedSaySo) {
  TestCluster cluster;
  ASSERT_TRUE(cluster.register_node(test_node(1)).ok());
  ASSERT_TRUE(cluster.step(DrainNode{test_uuid(1)}).status.ok());
  EXPECT_THAT(message_of(cluster.create_table("t", 1)),
              AllOf(HasSubstr("1 of 1 node is drained. "), HasSubstr("skuactl node undrain")));
  ASSERT_TRUE(cluster.register_node(test_node(2)).ok());
  cluster.advance(10 * kSecond);
  ASSERT_TRUE(cluster.heartbeat(test_node(1)).ok());
  EXPECT_THAT(message_of(cluster.create_table("t", 1)),
              HasSubstr("1 of 2 nodes is drained, the others are not alive. "));
}

}  // namespace
}  // namespace skua::control
