#include "kvstore/node/client_rules.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <string>
#include <vector>

#include "tests/kvstore/node/map_testing.h"

namespace skua::kv {
namespace {

using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::IsEmpty;
using testing::MapMaker;

control::ShardMap map_of_one_table(uint64_t revision) {
  return MapMaker(revision).table(1, {{}}).map();
}

TEST(ClientRules, AMapWithoutAnyChangesNothing) {
  ClientRules rules(2);
  const ClientRules::Change change = rules.follow(map_of_one_table(1));
  EXPECT_FALSE(change.denied.has_value());
  EXPECT_EQ(change.grants, nullptr);
  EXPECT_EQ(change.quotas, nullptr);
  EXPECT_THAT(change.news, IsEmpty());
}

TEST(ClientRules, OnlyWhatIsNewIsAChange) {
  ClientRules rules(2);
  control::ShardMap map = map_of_one_table(1);
  map.denied = {"client/bad"};
  map.tables[0].grants = {{"client/a", kRightRead}};
  map.quotas = {{"client/a", {.operations_per_s = 1000}}};
  const ClientRules::Change all = rules.follow(map);
  ASSERT_TRUE(all.denied.has_value());
  EXPECT_THAT(*all.denied, ElementsAre("client/bad"));
  ASSERT_NE(all.grants, nullptr);
  EXPECT_NE(all.grants->find(1), nullptr);
  EXPECT_NE(all.quotas, nullptr);
  EXPECT_THAT(all.news, ElementsAre(HasSubstr("revoked identities"), HasSubstr("grants"), HasSubstr("quotas")));

  const ClientRules::Change none = rules.follow(map);
  EXPECT_THAT(none.news, IsEmpty());
  EXPECT_EQ(none.grants, nullptr);

  map.tables[0].grants = {};
  const ClientRules::Change one = rules.follow(map);
  EXPECT_FALSE(one.denied.has_value());
  EXPECT_EQ(one.quotas, nullptr);
  ASSERT_NE(one.grants, nullptr);
  EXPECT_EQ(one.grants->find(1), nullptr) << "the table is open again";
}

TEST(ClientRules, TheLastRevocationMayBeTakenBack) {
  ClientRules rules(1);
  control::ShardMap map = map_of_one_table(1);
  map.denied = {"client/bad"};
  EXPECT_TRUE(rules.follow(map).denied.has_value());
  map.denied.clear();
  const ClientRules::Change change = rules.follow(map);
  ASSERT_TRUE(change.denied.has_value()) << "workers must hear that nobody is revoked any more";
  EXPECT_THAT(*change.denied, IsEmpty());
}

control::MapTable table(uint64_t id, std::vector<control::MapGrant> grants = {}) {
  control::MapTable out;
  out.id = id;
  out.name = "t" + std::to_string(id);
  out.grants = std::move(grants);
  return out;
}

control::ShardMap map_of(std::vector<control::MapTable> tables) {
  control::ShardMap map;
  map.tables = std::move(tables);
  return map;
}

TEST(ClosedTables, AreThoseWithGrants) {
  ClosedTables closed;
  EXPECT_FALSE(closed.follow(map_of({table(1)})));
  EXPECT_TRUE(closed.follow(map_of({table(1), table(2, {{"client/a", kRightRead}})})));
  EXPECT_FALSE(closed.follow(map_of({table(1), table(2, {{"client/a", kRightRead}})})));
  const std::vector<TableGrants> wanted = {{2, "t2", {{"client/a", kRightRead}}}};
  EXPECT_EQ(closed.tables(), wanted);
  // The last grant was taken: the table is open.
  EXPECT_TRUE(closed.follow(map_of({table(1), table(2)})));
  EXPECT_TRUE(closed.tables().empty());
}

/// Its shards may be with the workers for a while.
TEST(ClosedTables, OneThatIsDroppedIsClosedToAllClients) {
  ClosedTables closed;
  EXPECT_TRUE(closed.follow(map_of({table(2, {{"client/a", kRightRead}})})));
  EXPECT_TRUE(closed.follow(map_of({})));
  const Grants grants(closed.tables());
  ASSERT_NE(grants.find(2), nullptr);
  EXPECT_FALSE(grants.find(2)->allows(grants.row_of("client/a"), kRightRead));
  EXPECT_TRUE(grants.find(2)->allows(grants.row_of("node/x"), kRightRead));
  EXPECT_FALSE(closed.follow(map_of({table(3)})));
  // An older state of the cluster was restored: the map counts.
  EXPECT_TRUE(closed.follow(map_of({table(2)})));
  EXPECT_TRUE(closed.tables().empty());
}

TEST(ClosedTables, DroppedOnesAreBounded) {
  ClosedTables closed;
  constexpr uint64_t kTables = ClosedTables::kDroppedMax + 100;
  for (uint64_t id = 1; id <= kTables; ++id) {
    EXPECT_TRUE(closed.follow(map_of({table(id, {{"client/a", kRightRead}})})));
  }
  EXPECT_EQ(closed.tables().size(), ClosedTables::kDroppedMax + 1);
  EXPECT_EQ(closed.tables().front().table_id, 100u);
  EXPECT_EQ(closed.tables().back().table_id, kTables);
}

}  // namespace
}  // namespace skua::kv
