#include "kvstore/ctl/cluster_view.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <string>

namespace skua::kv::ctl {
namespace {

using control::ClusterStatus;
using control::Liveness;
using control::MapShard;
using ::testing::AllOf;
using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::IsEmpty;
using ::testing::Not;
using ::testing::Optional;

constexpr const char* kUuids[] = {"1a110000-0000-4000-8000-000000000000", "1a220000-0000-4000-8000-000000000000",
                                  "3b330000-0000-4000-8000-000000000000", "4c440000-0000-4000-8000-000000000000"};

/// Four nodes, and a table with one shard of three replicas on the first three.
class ClusterView : public ::testing::Test {
 protected:
  ClusterView() {
    for (size_t i = 0; i < std::size(kUuids); ++i) {
      const std::string address = "10.0.0." + std::to_string(i + 1) + ":7500";
      ClusterStatus::Node node;
      node.info.uuid = kUuids[i];
      node.info.grpc_address = address;
      node.liveness = Liveness::kAlive;
      status_.nodes.push_back(node);
      map_.nodes.push_back({.uuid = kUuids[i], .incarnation = 1, .grpc_address = address, .worker_count = 2});
    }
    table_.replicas = 3;
    table_.min_insync = 2;
    MapShard shard;
    shard.epoch = 7;
    shard.primary = control::MapReplica{0, 1};
    shard.backups = {{1, 0}, {2, 0}};
    table_.shards = {shard};
  }

  [[nodiscard]] ShardView view() const { return view_of(status_, map_, table_, 0); }
  MapShard& record() { return table_.shards[0]; }

  ClusterStatus status_;
  control::ShardMap map_;
  control::MapTable table_;
};

TEST_F(ClusterView, Hints_AreLinesThatNameTheCommand) {
  EXPECT_EQ(hints_text(status_), "");
  status_.hints = {
      "node 4c44 has not been heard of for 3 h and holds nothing: start it again, or skuactl node remove 4c44",
      "\x1b[31mred"};
  EXPECT_EQ(hints_text(status_),
            "\nHint: node 4c44 has not been heard of for 3 h and holds nothing: start it again, or skuactl node remove "
            "4c44\n\nHint: \\x1b[31mred\n");
}

TEST_F(ClusterView, NodesNotServing_AreThoseThatLagOrAreDown) {
  constexpr uint64_t kRevision = 5;
  table_.id = 9;
  record().learners = {{.replica = {3, 0}}};
  map_.tables = {table_};
  status_.tables.resize(1);
  status_.tables[0].table.id = table_.id;
  for (ClusterStatus::Node& node : status_.nodes) node.applied_revision = kRevision;
  const auto missing = [&] { return nodes_not_serving(status_, map_, table_.id, kRevision); };
  EXPECT_THAT(missing(), Optional(IsEmpty()));
  status_.nodes[0].applied_revision = kRevision - 1;
  status_.nodes[1].liveness = Liveness::kSuspected;
  EXPECT_THAT(missing(), Optional(ElementsAre(kUuids[0], kUuids[1])));
  status_.nodes[0].applied_revision = kRevision + 1;
  status_.nodes[1].liveness = Liveness::kAlive;
  status_.nodes[2].unserved = {{.shard = {table_.id, 0}, .why = {}}};
  EXPECT_THAT(missing(), Optional(ElementsAre(kUuids[2])));
}

TEST_F(ClusterView, NodesNotServing_OfATableThatWasDroppedAreNone) {
  table_.id = 9;
  map_.tables = {table_};
  EXPECT_EQ(nodes_not_serving(status_, map_, 9, 0), std::nullopt) << "dropped between the map and the status";
  status_.tables.resize(1);
  status_.tables[0].table.id = 9;
  EXPECT_NE(nodes_not_serving(status_, map_, 9, 0), std::nullopt);
  map_.tables.clear();
  EXPECT_EQ(nodes_not_serving(status_, map_, 9, 0), std::nullopt);
}

TEST_F(ClusterView, FindNode_TakesUuidPrefixAndAddress) {
  for (const char* name : {kUuids[2], "3b330000", "3b33", "10.0.0.3:7500"}) {
    const auto found = find_node(status_, name);
    ASSERT_TRUE(found.ok()) << name << ": " << found.status();
    EXPECT_EQ(found->info.uuid, kUuids[2]) << name;
  }
}

TEST_F(ClusterView, FindNode_SaysWhatThereIs) {
  const auto none = find_node(status_, "10.0.0.9:7500");
  EXPECT_EQ(none.status().code(), absl::StatusCode::kNotFound);
  EXPECT_THAT(std::string(none.status().message()), AllOf(HasSubstr("10.0.0.9:7500"), HasSubstr(kUuids[3])));
  EXPECT_EQ(find_node(status_, "").status().code(), absl::StatusCode::kNotFound);
  EXPECT_EQ(find_node(ClusterStatus(), "x").status().code(), absl::StatusCode::kNotFound);
}

TEST_F(ClusterView, FindNode_RefusesWhatIsTooShort) {
  for (const char* name : {"3", "3b", "3b3"}) {
    const auto found = find_node(status_, name);
    EXPECT_EQ(found.status().code(), absl::StatusCode::kInvalidArgument) << name;
    EXPECT_THAT(std::string(found.status().message()), AllOf(HasSubstr("4 characters"), HasSubstr(kUuids[2])));
  }
}

TEST_F(ClusterView, FindNode_RefusesWhatMeansSeveral) {
  const auto several = find_node(status_, "1a");
  EXPECT_EQ(several.status().code(), absl::StatusCode::kInvalidArgument);
  EXPECT_THAT(std::string(several.status().message()), AllOf(HasSubstr(kUuids[0]), HasSubstr(kUuids[1])));
}

TEST_F(ClusterView, ShortUuid_IsLongEnoughToTellNodesApart) {
  EXPECT_EQ(short_uuid(status_, kUuids[0]), "1a110000");
  status_.nodes[1].info.uuid = "1a110000-1000-4000-8000-000000000000";
  EXPECT_EQ(short_uuid(status_, kUuids[0]), "1a110000-0");
  EXPECT_TRUE(find_node(status_, short_uuid(status_, kUuids[0])).ok());
}

TEST_F(ClusterView, ViewOf_SettledShardLacksNothing) {
  const ShardView shard = view();
  EXPECT_TRUE(shard.settled && shard.available && shard.writable);
  EXPECT_THAT(shard.lacks, IsEmpty());
  ASSERT_EQ(shard.replicas.size(), 3u);
  EXPECT_EQ(shard.replicas[0].role, ReplicaView::Role::kPrimary);
  EXPECT_EQ(shard.replicas[0].uuid, kUuids[0]);
  EXPECT_EQ(shard.replicas[0].worker, 1u);
  EXPECT_EQ(shard.epoch, 7u);
}

TEST_F(ClusterView, ViewOf_MissingMemberLeavesItWritable) {
  record().backups.pop_back();
  record().learners = {{{3, 0}, 0}};
  const ShardView copying = view();
  EXPECT_TRUE(copying.available && copying.writable);
  EXPECT_FALSE(copying.settled);
  EXPECT_THAT(copying.lacks, AllOf(HasSubstr("2 of 3 members"), HasSubstr("node 4c440000 is copying")));

  record().learners[0].join = 5;
  const ShardView joining = view();
  EXPECT_EQ(joining.replicas.back().role, ReplicaView::Role::kJoining);
  EXPECT_EQ(joining.replicas.back().join, 5u);
  EXPECT_THAT(joining.lacks, HasSubstr("is joining"));
  status_.nodes[3].liveness = Liveness::kStopped;
  EXPECT_THAT(view().lacks, HasSubstr("node 4c440000 is stopped"));
}

TEST_F(ClusterView, ViewOf_CopiesTellHowFarTheyAre) {
  record().backups.pop_back();
  record().learners = {{{3, 0}, 0}};
  status_.nodes[3].copies = {{{table_.id, 0}, "fetching, 120 of 512 MiB"}};
  EXPECT_THAT(view().lacks, HasSubstr("node 4c440000 is copying: fetching, 120 of 512 MiB"));
  status_.nodes[3].copies[0].shard.second = 1;
  EXPECT_THAT(view().lacks, ::testing::Not(HasSubstr("fetching")));
}

TEST_F(ClusterView, ViewOf_TooFewLiveNodesIsSaid) {
  record().backups.pop_back();
  EXPECT_EQ(view().lacks, "2 of 3 members");  // another node will copy it
  status_.nodes[2].liveness = Liveness::kSuspected;
  status_.nodes[3].liveness = Liveness::kStopped;
  EXPECT_THAT(view().lacks, AllOf(HasSubstr("node 3b330000 is suspected, node 4c440000 is stopped"),
                                  HasSubstr("start the missing nodes, or another skuad")));
}

TEST_F(ClusterView, ViewOf_TooFewMembersTakeNoWrites) {
  record().backups.clear();
  const ShardView shard = view();
  EXPECT_TRUE(shard.available);
  EXPECT_FALSE(shard.writable);
  EXPECT_THAT(shard.lacks, HasSubstr("takes no writes before it has 2 members"));
}

TEST_F(ClusterView, ViewOf_DeadPrimaryIsNamed) {
  status_.nodes[0].liveness = Liveness::kSuspected;
  const ShardView shard = view();
  EXPECT_FALSE(shard.available || shard.writable || shard.settled);
  EXPECT_THAT(shard.lacks, AllOf(HasSubstr("node 1a110000 is suspected"), HasSubstr("not served")));
}

TEST_F(ClusterView, ViewOf_LostStorageAndDrainsUnsettle) {
  map_.nodes[0].storage_incarnation = 1;
  EXPECT_FALSE(view().available);
  EXPECT_THAT(view().lacks, HasSubstr("node 1a110000 lost its storage"));
  record().primary->storage_incarnation = 1;
  EXPECT_TRUE(view().settled);
  status_.nodes[2].info.draining = true;
  EXPECT_FALSE(view().settled);
  EXPECT_THAT(view().lacks, HasSubstr("node 3b330000 is draining"));
}

TEST_F(ClusterView, ViewOf_SaysWhyNobodyCopies) {
  record().backups.pop_back();
  EXPECT_THAT(view().lacks, Not(HasSubstr("no other live node"))) << "two are there";
  status_.nodes[2].liveness = Liveness::kStopped;
  status_.nodes[3].info.draining = true;
  EXPECT_THAT(view().lacks,
              HasSubstr("no other live node can hold one more (node 3b330000 is stopped, node 4c440000 is "
                        "draining): start the missing nodes"));
  // Of many only some are named, and all are looked at.
  for (char c = 'a'; c <= 'j'; ++c) {
    ClusterStatus::Node node = status_.nodes[2];
    node.info.uuid[0] = c;
    status_.nodes.push_back(node);
  }
  EXPECT_THAT(view().lacks, HasSubstr("node fb330000 is stopped, ...)"));
  status_.nodes.back().liveness = Liveness::kAlive;
  EXPECT_THAT(view().lacks, Not(HasSubstr("no other live node")));
}

TEST_F(ClusterView, ViewOf_UnservedDataAreNotAvailable) {
  status_.nodes[0].unserved = {{{table_.id, 0}, "MANIFEST is damaged"}};
  EXPECT_FALSE(view().available || view().settled);
  EXPECT_THAT(view().lacks,
              AllOf(HasSubstr("node 1a110000 cannot open its data: MANIFEST is damaged"), HasSubstr("not served")));
  status_.nodes[0].unserved = {{{table_.id, 1}, ""}};
  EXPECT_TRUE(view().settled) << "another shard";
  status_.nodes[1].unserved = {{{table_.id, 0}, ""}};
  EXPECT_TRUE(view().available);
  EXPECT_FALSE(view().settled);
  EXPECT_THAT(view().lacks, HasSubstr("node 1a220000 cannot open its data"));
}

TEST_F(ClusterView, ViewOf_ShardWithoutOwner) {
  record() = MapShard{};
  const ShardView shard = view();
  EXPECT_FALSE(shard.available);
  EXPECT_THAT(shard.lacks, AllOf(HasSubstr("0 of 3 members"), HasSubstr("not served")));
}

}  // namespace
}  // namespace skua::kv::ctl
