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

}  // namespace
}  // namespace skua::kv
