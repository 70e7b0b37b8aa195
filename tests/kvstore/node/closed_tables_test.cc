#include "kvstore/node/closed_tables.h"

#include <gtest/gtest.h>

#include <string>

namespace skua::kv {
namespace {

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
