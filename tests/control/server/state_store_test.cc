#include "control/server/state_store.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "control/store/memory_store.h"
#include "tests/control/core/core_fixture.h"

namespace skua::control {
namespace {

using absl::StatusCode;
using testing::HasSubstr;

Changes add_node(uint64_t n, uint64_t map_revision) {
  Changes changes;
  changes.put_nodes.push_back(test_node(n));
  changes.map_revision = map_revision;
  changes.next_table_id = 1;
  return changes;
}

TEST(LoadOrCreate, CreatesOnceAndKeepsTheId) {
  MemoryStore store;
  const auto first = StateStore(store).load_or_create({}, kClusterId);
  ASSERT_TRUE(first.ok()) << first.status();
  EXPECT_EQ(first->cluster_id, kClusterId);
  EXPECT_EQ(first->cluster_name, kDefaultClusterName);
  EXPECT_EQ(first->map_revision, 1u);
  const auto second = StateStore(store).load_or_create({}, "another fresh id");
  ASSERT_TRUE(second.ok());
  EXPECT_EQ(second->cluster_id, kClusterId);
}

TEST(LoadOrCreate, TakesIdAndNameWhenCreating) {
  MemoryStore store;
  const auto state = StateStore(store).load_or_create({"wanted", "prod"}, kClusterId);
  ASSERT_TRUE(state.ok());
  EXPECT_EQ(state->cluster_id, "wanted");
  EXPECT_EQ(state->cluster_name, "prod");
  EXPECT_TRUE(StateStore(store).load_or_create({"wanted", "prod"}, kClusterId).ok());
}

TEST(LoadOrCreate, RefusesAnotherCluster) {
  MemoryStore store;
  ASSERT_TRUE(StateStore(store).load_or_create({"mine", "prod"}, "").ok());
  const auto other_id = StateStore(store).load_or_create({"other", ""}, "");
  EXPECT_EQ(other_id.status().code(), StatusCode::kFailedPrecondition);
  EXPECT_THAT(std::string(other_id.status().message()), HasSubstr("mine"));
  EXPECT_THAT(std::string(other_id.status().message()), HasSubstr("other"));
  const auto other_name = StateStore(store).load_or_create({"", "test"}, "");
  EXPECT_EQ(other_name.status().code(), StatusCode::kFailedPrecondition);
}

TEST(Commit, IsSeenByTheNextLoad) {
  MemoryStore store;
  StateStore states(store);
  ASSERT_TRUE(states.load_or_create({}, kClusterId).ok());
  EXPECT_TRUE(*states.commit(add_node(1, 2)));
  EXPECT_TRUE(*states.commit(add_node(2, 3)));
  const auto state = states.load();
  ASSERT_TRUE(state.ok());
  EXPECT_EQ(state->nodes.size(), 2u);
  EXPECT_EQ(state->map_revision, 3u);
}

TEST(Commit, FailsWhenAnotherProcessWasFaster) {
  MemoryStore store;
  StateStore one(store);
  StateStore two(store);
  ASSERT_TRUE(one.load_or_create({}, kClusterId).ok());
  ASSERT_TRUE(two.load_or_create({}, kClusterId).ok());
  EXPECT_TRUE(*one.commit(add_node(1, 2)));
  EXPECT_FALSE(*two.commit(add_node(2, 2)));
  EXPECT_EQ(two.load()->nodes.size(), 1u);
  EXPECT_TRUE(*two.commit(add_node(2, 3)));
}

TEST(LoadOrCreate, ClusterThatMustExistIsNotMade) {
  MemoryStore memory;
  StateStore store(memory);
  const ClusterIdentity wanted{.id = kClusterId, .name = "", .must_exist = true, .place = "etcd://h:1/p"};
  const auto state = store.load_or_create(wanted, test_uuid(9));
  EXPECT_EQ(state.status().code(), StatusCode::kFailedPrecondition);
  EXPECT_THAT(std::string(state.status().message()), HasSubstr("etcd://h:1/p holds no cluster"));
  EXPECT_TRUE(memory.range("")->kvs.empty());
  ASSERT_TRUE(store.load_or_create({.id = kClusterId, .name = ""}, "").ok());
  EXPECT_TRUE(store.load_or_create(wanted, "").ok());
}

}  // namespace
}  // namespace skua::control
