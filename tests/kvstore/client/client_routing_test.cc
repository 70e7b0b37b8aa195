// How the client finds the node of a key, and how it waits for one.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <string>
#include <vector>

#include "kvstore/client/client_core.h"
#include "kvstore/client/client_limits.h"
#include "tests/kvstore/client/client_calls_testing.h"
#include "tests/kvstore/client/client_world.h"

namespace skua::kv {
namespace {

using std::chrono::milliseconds;
using ::testing::AllOf;
using ::testing::ElementsAre;
using testing::get;
using ::testing::HasSubstr;
using testing::put;
using testing::text;

TEST(Routing, WrongShardWaitsForTheNewMapAndRetries) {
  ClientWorld world(2);
  world.publish_owners({0}, 1);
  world.start_client();
  ASSERT_TRUE(put(world, "k", "old").ok());
  // The shard moves; the client has not heard.
  world.node(0).owned.clear();
  world.node(1).owned = {{0, 2}};
  world.store(1).entries["k"] = {"new", 9};
  Got<GetResult> got;
  ASSERT_TRUE(world.client->get("t", "k", {}, got.callback()).ok());
  ASSERT_TRUE(world.run_until([&] { return world.client->counters().wrong_shard >= 1; }));
  EXPECT_GE(world.control.hurries, 1u);
  world.publish_owners({1}, 2);
  ASSERT_TRUE(world.run_until([&] { return got.here(); }));
  EXPECT_EQ(got.result.value.bytes(), "new");
}

/// Operations are used again, with what they know of the last one's table.
TEST(Routing, EachOperationGoesByItsTableInTheNewestMap) {
  ClientWorld world(1);
  world.publish_owners({0}, 1);
  control::ShardMap both = make_map(2, {&world.node(0)}, {0}, 1);
  const auto t_id = static_cast<uint32_t>(both.tables[0].id);
  both.tables.push_back(both.tables[0]);
  both.tables[1].id = t_id + 1;
  both.tables[1].name = "alpha";  // before "t" by name
  world.control.publish(both);
  world.start_client();
  std::vector<uint32_t> asked;
  world.node(0).script = [&](rpc::IncomingCall& call) {
    asked.push_back(decode_route(call.request.bytes()).value().table_id);
    FakeNode::reply_error(call, KvStatus::kNotFound, {});
    return true;
  };
  const auto get_of = [&](std::string_view table) {
    Got<GetResult> got;
    EXPECT_TRUE(world.client->get(table, "k", {}, got.callback()).ok());
    EXPECT_TRUE(world.run_until([&] { return got.here(); }));
    EXPECT_TRUE(absl::IsNotFound(got.result.status)) << got.result.status;
  };
  for (const std::string_view table : {"t", "alpha", "t"}) get_of(table);
  both.revision = 3;
  both.tables[1].id = t_id + 2;
  both.tables[1].name = "zeta";  // behind it
  world.control.publish(both);
  world.turn();  // the client takes it
  get_of("t");
  EXPECT_THAT(asked, ElementsAre(t_id, t_id + 1, t_id, t_id));
}

TEST(Routing, WritesToTheWrongShardAreRetriedToo) {
  ClientWorld world(2);
  world.publish_owners({0}, 1);
  world.start_client();
  ASSERT_TRUE(get(world, "warm").status.code() == absl::StatusCode::kNotFound);
  world.node(0).owned.clear();
  Got<WriteResult> got;
  ASSERT_TRUE(world.client->put("t", "k", "v", {}, got.callback()).ok());
  ASSERT_TRUE(world.run_until([&] { return world.client->counters().wrong_shard >= 3; }));
  world.publish_owners({1}, 2);
  ASSERT_TRUE(world.run_until([&] { return got.here(); }));
  EXPECT_TRUE(got.result.ok()) << got.result.status;
  EXPECT_EQ(world.store(1).entries["k"].value, "v");
}

TEST(Routing, WrongShardForEverEndsAtTheDeadlineWithATrail) {
  ClientWorld world(1);
  world.publish_owners({0}, 1);
  world.start_client();
  world.node(0).owned.clear();
  const TimeNs before = world.network.now_ns();
  const WriteResult result = put(world, "k", "v", {.timeout = milliseconds(700)});
  EXPECT_EQ(result.status.code(), absl::StatusCode::kDeadlineExceeded);
  EXPECT_LE(world.network.now_ns() - before, 710 * kMillisecond);
  EXPECT_FALSE(result.may_have_been_applied);
  ASSERT_NE(result.detail, nullptr);
  EXPECT_GT(result.detail->attempt_count, 5u);
  EXPECT_EQ(result.detail->attempts.size(), kTrailFirstMax + kTrailLatestMax);
  EXPECT_EQ(result.detail->shard, 0u);
  EXPECT_THAT(result.detail->attempts[0].whom, HasSubstr("node0"));
  EXPECT_THAT(text(result.status), AllOf(HasSubstr("PUT t/\"k\" (shard 0)"), HasSubstr("WRONG_SHARD"),
                                         HasSubstr("attempts in 0."), HasSubstr("the last: UNAVAILABLE: WRONG_SHARD")));
  EXPECT_LT(text(result.status).size(), 600U);
}

TEST(Routing, AnUnknownTableFailsSoonAndSaysHowToMakeIt) {
  ClientWorld world(1);
  world.publish(1);
  world.start_client();
  Got<GetResult> got;
  const TimeNs before = world.network.now_ns();
  ASSERT_TRUE(world.client->get("nosuch", "k", {}, got.callback()).ok());
  EXPECT_EQ(got.count, 0);
  ASSERT_TRUE(world.run_until([&] { return got.here(); }));
  EXPECT_EQ(got.result.status.code(), absl::StatusCode::kFailedPrecondition);
  EXPECT_THAT(text(got.result.status), HasSubstr("skuactl table create nosuch"));
  EXPECT_LE(world.network.now_ns() - before, kUnknownTableWaitNs + 10 * kMillisecond);
}

TEST(Routing, ATableMadeAMomentAgoIsFound) {
  ClientWorld world(1);
  control::ShardMap empty = make_map(1, {}, {}, 1);
  empty.tables.clear();
  world.control.publish(empty);
  world.start_client();
  Got<GetResult> got;
  ASSERT_TRUE(world.client->get("t", "k", {}, got.callback()).ok());
  world.turn();
  world.publish(4);
  ASSERT_TRUE(world.run_until([&] { return got.here(); }));
  EXPECT_EQ(got.result.status.code(), absl::StatusCode::kNotFound);
}

TEST(Routing, AShardWithoutOwnerWaitsForOne) {
  ClientWorld world(1);
  world.publish_owners({99}, 1);
  world.start_client();
  const GetResult none = get(world, "k", {.timeout = milliseconds(50)});
  EXPECT_EQ(none.status.code(), absl::StatusCode::kDeadlineExceeded);
  EXPECT_THAT(text(none.status), HasSubstr("no owner"));
  Got<GetResult> got;
  ASSERT_TRUE(world.client->get("t", "k", {}, got.callback()).ok());
  world.turn();
  world.publish_owners({0}, 2);
  ASSERT_TRUE(world.run_until([&] { return got.here(); }));
  EXPECT_EQ(got.result.status.code(), absl::StatusCode::kNotFound);
}

TEST(Deadline, HoldsWithoutAControlPlaneAndSaysWhatToDo) {
  ClientWorld world(1);
  world.start_client();
  const TimeNs before = world.network.now_ns();
  const GetResult read = get(world, "k", {.timeout = milliseconds(300)});
  EXPECT_EQ(read.status.code(), absl::StatusCode::kDeadlineExceeded);
  EXPECT_LE(world.network.now_ns() - before, 305 * kMillisecond);
  EXPECT_THAT(text(read.status),
              AllOf(HasSubstr("no shard map: control plane at control:7400"), HasSubstr("Check that it runs")));
}

TEST(Deadline, HoldsWhenTheNodeIsCutOff) {
  ClientWorld world(1);
  world.publish(1);
  world.start_client();
  ASSERT_TRUE(put(world, "k", "v").ok());
  world.network.block(99, 1);
  world.network.block(1, 99);
  const TimeNs before = world.network.now_ns();
  const WriteResult written = put(world, "k", "w", {.timeout = milliseconds(400)});
  EXPECT_EQ(written.status.code(), absl::StatusCode::kDeadlineExceeded);
  EXPECT_TRUE(written.may_have_been_applied);
  EXPECT_THAT(text(written.status), HasSubstr("may have been applied"));
  EXPECT_LE(world.network.now_ns() - before, 410 * kMillisecond);
  EXPECT_FALSE(get(world, "k", {.timeout = milliseconds(100)}).may_have_been_applied);
  world.network.heal();
  EXPECT_TRUE(get(world, "k").ok());
}

}  // namespace
}  // namespace skua::kv
