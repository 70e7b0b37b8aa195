#include "control/core/grants.h"

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

/// Two tables, "notes" and "ledger".
class GrantsTest : public testing::Test {
 protected:
  GrantsTest() {
    EXPECT_TRUE(cluster_.register_node(test_node(1)).ok());
    EXPECT_TRUE(cluster_.create_table("notes", 2).ok());
    EXPECT_TRUE(cluster_.create_table("ledger", 1).ok());
  }

  absl::Status add(const std::string& principal, const std::string& table, Rights rights) {
    return cluster_.step(AddGrant{principal, table, rights}).status;
  }
  absl::Status take(const std::string& principal, const std::string& table, Rights rights, bool open_to_all = false) {
    return cluster_.step(RemoveGrant{principal, table, rights, open_to_all}).status;
  }
  std::vector<MapGrant> in_map(const std::string& table) {
    const ShardMap map = build_shard_map(cluster_.core.state());
    EXPECT_TRUE(map.valid());
    return map.find_table(table)->grants;
  }

  TestCluster cluster_;
};

TEST_F(GrantsTest, AreInTheNextMapUntilTheyAreTaken) {
  const uint64_t before = cluster_.revision();
  ASSERT_TRUE(add("client/b", "notes", kRightRead).ok());
  ASSERT_TRUE(add("client/a", "notes", kRightsAll).ok());
  ASSERT_TRUE(add("client/b", "notes", kRightScan).ok());
  EXPECT_EQ(cluster_.revision(), before + 3);
  EXPECT_THAT(in_map("notes"),
              ElementsAre(MapGrant{"client/a", kRightsAll}, MapGrant{"client/b", kRightRead | kRightScan}));
  EXPECT_THAT(in_map("ledger"), IsEmpty());
  ASSERT_TRUE(take("client/a", "notes", kRightWrite | kRightScan).ok());
  ASSERT_TRUE(take("client/b", "notes", kRightsAll).ok());
  EXPECT_THAT(in_map("notes"), ElementsAre(MapGrant{"client/a", kRightRead}));
}

TEST_F(GrantsTest, AgainChangesNothing) {
  ASSERT_TRUE(add("client/a", "notes", kRightsAll).ok());
  const uint64_t revision = cluster_.revision();
  EXPECT_TRUE(add("client/a", "notes", kRightWrite).ok());
  EXPECT_EQ(cluster_.revision(), revision);
}

TEST_F(GrantsTest, WhoTakesTheLastOneMustSayThatAllMayUseTheTable) {
  ASSERT_TRUE(add("client/a", "notes", kRightRead | kRightWrite).ok());
  const absl::Status refused = take("client/a", "notes", kRightsAll);
  EXPECT_EQ(refused.code(), StatusCode::kFailedPrecondition);
  EXPECT_THAT(std::string(refused.message()), HasSubstr("--open-to-all"));
  EXPECT_THAT(in_map("notes"), ElementsAre(MapGrant{"client/a", kRightRead | kRightWrite}));
  EXPECT_TRUE(take("client/a", "notes", kRightWrite).ok()) << "one right is left";
  EXPECT_TRUE(take("client/a", "notes", kRightsAll, true).ok());
  EXPECT_THAT(in_map("notes"), IsEmpty());
  EXPECT_THAT(cluster_.core.state().grants, IsEmpty());
}

TEST_F(GrantsTest, ThatAreNotThereCannotBeTaken) {
  ASSERT_TRUE(add("client/a", "notes", kRightRead).ok());
  for (const absl::Status& status :
       {take("client/b", "notes", kRightsAll), take("client/a", "notes", kRightWrite | kRightScan),
        take("client/a", "ledger", kRightRead)}) {
    EXPECT_EQ(status.code(), StatusCode::kNotFound);
    EXPECT_THAT(std::string(status.message()), HasSubstr("skuactl grant list"));
  }
}

TEST_F(GrantsTest, GoWithTheirTable) {
  ASSERT_TRUE(add("client/a", "notes", kRightRead).ok());
  ASSERT_TRUE(add("client/a", "ledger", kRightRead).ok());
  const Decision dropped = cluster_.step(DropTable{"notes"});
  ASSERT_TRUE(dropped.status.ok());
  EXPECT_EQ(dropped.changes.put_grants, (std::map<TableId, TableGrants>{{dropped.table->id, {}}}))
      << "in the store, too";
  EXPECT_EQ(grant_count(cluster_.core.state()), 1u);
  ASSERT_TRUE(cluster_.create_table("notes", 1).ok());
  EXPECT_THAT(in_map("notes"), IsEmpty()) << "a new table";
}

TEST_F(GrantsTest, AreForClientsAndTablesThatThereAre) {
  const std::string long_name = absl::StrCat("client/", std::string(kPrincipalMax, 'a'));
  for (const std::string& principal :
       {std::string(), std::string("app"), std::string("client/"), std::string("admin/ada"),
        absl::StrCat("node/", test_uuid(1)), std::string("clients/a"), long_name}) {
    EXPECT_EQ(add(principal, "notes", kRightRead).code(), StatusCode::kInvalidArgument) << principal;
    EXPECT_EQ(take(principal, "notes", kRightRead).code(), StatusCode::kInvalidArgument) << principal;
  }
  EXPECT_EQ(add("client/a", "notes", 0).code(), StatusCode::kInvalidArgument);
  EXPECT_EQ(add("client/a", "notes", kRightsAll + 1).code(), StatusCode::kInvalidArgument);
  for (const absl::Status& status : {add("client/a", "note", kRightRead), take("client/a", "note", kRightRead)}) {
    EXPECT_EQ(status.code(), StatusCode::kNotFound);
    EXPECT_THAT(std::string(status.message()), HasSubstr("did you mean notes?"));
  }
  EXPECT_THAT(cluster_.core.state().grants, IsEmpty());
}

TEST_F(GrantsTest, HaveABound) {
  ClusterState state = cluster_.core.state();
  const TableId ledger = state.find_table("ledger")->id;
  for (size_t i = 0; i < kGrantsMax; ++i) state.grants[ledger][absl::StrCat("client/", i)] = kRightRead;
  cluster_.core.reload(state, cluster_.now);
  EXPECT_TRUE(build_shard_map(state).valid());
  EXPECT_EQ(add("client/7", "notes", kRightRead).code(), StatusCode::kResourceExhausted);
  EXPECT_TRUE(add("client/7", "ledger", kRightWrite).ok()) << "one more right, no more grants";
  ASSERT_TRUE(take("client/7", "ledger", kRightsAll).ok());
  EXPECT_TRUE(add("client/7", "notes", kRightRead).ok());
}

TEST(Rights, AreReadAsTheyAreWritten) {
  for (Rights rights = 1; rights <= kRightsAll; ++rights) {
    const auto read = parse_rights(rights_text(rights));
    ASSERT_TRUE(read.ok()) << read.status();
    EXPECT_EQ(*read, rights);
  }
  EXPECT_EQ(rights_text(kRightsAll), "read,write,scan");
  EXPECT_EQ(*parse_rights("scan,read,scan"), kRightRead | kRightScan);
  for (const char* text : {"", ",", "read,", "reads", "READ", "read write", "admin"}) {
    EXPECT_EQ(parse_rights(text).status().code(), StatusCode::kInvalidArgument) << text;
  }
}

TEST(ShardMapOfGrants, IsCheckedBeforeUse) {
  ShardMap map = build_shard_map(empty_cluster());
  map.tables.push_back({1, "t", std::vector<MapShard>(1)});
  std::vector<MapGrant>& grants = map.tables[0].grants;
  grants = {{"client/a", kRightRead}, {"client/b", 0}};
  EXPECT_TRUE(map.valid());
  grants = {{"client/b", kRightRead}, {"client/a", kRightRead}};
  EXPECT_FALSE(map.valid()) << "not sorted";
  grants = {{"client/a", kRightRead}, {"client/a", kRightScan}};
  EXPECT_FALSE(map.valid()) << "twice";
  grants = {{"client/a", kRightsAll + 1}};
  EXPECT_FALSE(map.valid()) << "no such right";
  grants = {{std::string(kPrincipalMax + 1, 'a'), kRightRead}};
  EXPECT_FALSE(map.valid()) << "too long";
  grants.clear();
  for (size_t i = 0; i <= kGrantsMax; ++i) grants.push_back({absl::StrCat("client/", 10'000 + i), kRightRead});
  EXPECT_FALSE(map.valid()) << "too many";
  grants.pop_back();
  EXPECT_TRUE(map.valid());
}

}  // namespace
}  // namespace skua::control
