// What the client makes of sessions that open, break and end.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <string>
#include <vector>

#include "absl/strings/str_cat.h"
#include "kvstore/client/client_core.h"
#include "kvstore/client/client_limits.h"
#include "tests/kvstore/client/client_calls_testing.h"
#include "tests/kvstore/client/client_world.h"

namespace skua::kv {
namespace {

using std::chrono::milliseconds;
using ::testing::AllOf;
using testing::get;
using ::testing::HasSubstr;
using testing::put;
using testing::text;

TEST(Sessions, OpeningIsTriedAgainUntilTheDeadline) {
  ClientWorld world(1);
  world.publish(1);
  world.control.set_bootstrap_error(absl::UnavailableError("node at node0:7401: connection refused"));
  world.start_client();
  const GetResult failed = get(world, "k", {.timeout = milliseconds(500)});
  EXPECT_EQ(failed.status.code(), absl::StatusCode::kDeadlineExceeded);
  EXPECT_THAT(text(failed.status),
              AllOf(HasSubstr("node0"), HasSubstr("connection refused"), HasSubstr("skuactl status")));
  EXPECT_GE(failed.detail->attempt_count, 3u);
  Got<GetResult> got;
  ASSERT_TRUE(world.client->get("t", "k", {}, got.callback()).ok());
  world.turn();
  world.control.set_bootstrap_error(absl::OkStatus());
  ASSERT_TRUE(world.run_until([&] { return got.here(); }));
  EXPECT_EQ(got.result.status.code(), absl::StatusCode::kNotFound);
  EXPECT_EQ(world.client->counters().sessions_opened, 1u);
}

TEST(Sessions, AnotherTransportIsNamedFirst) {
  ClientWorld world(1);
  world.publish(1);
  world.control.set_transport_kind("dpdk");
  world.start_client();
  const GetResult failed = get(world, "k", {.timeout = milliseconds(500)});
  EXPECT_EQ(failed.status.code(), absl::StatusCode::kDeadlineExceeded);
  EXPECT_THAT(text(failed.status),
              HasSubstr("could be opened: the worker speaks dpdk, this client sim: start both with "
                        "the same --transport"));
  world.control.set_transport_kind("");
  EXPECT_EQ(get(world, "k").status.code(), absl::StatusCode::kNotFound);
}

TEST(Sessions, OneOpeningServesAllThatWait) {
  ClientWorld world(1);
  world.publish(4);
  world.start_client();
  Got<GetResult> got;
  for (int i = 0; i < 50; ++i) ASSERT_TRUE(world.client->get("t", absl::StrCat(i), {}, got.callback()).ok());
  ASSERT_TRUE(world.run_until([&] { return got.count == 50; }));
  EXPECT_EQ(world.control.describes, 1u);
  EXPECT_EQ(world.client->counters().sessions_opened, 1u);
}

TEST(Sessions, AReadInFlightSurvivesItsNodesRestart) {
  ClientWorld world(1);
  world.publish(1);
  world.start_client();
  ASSERT_TRUE(put(world, "k", "v").ok());
  world.node(0).script = [](rpc::IncomingCall& call) {
    call.reply = rpc::ReplyToken();  // never mind: the node dies first
    return true;
  };
  Got<GetResult> got;
  std::vector<rpc::IncomingCall> kept;
  world.node(0).script = [&](rpc::IncomingCall& call) {
    kept.push_back(std::move(call));
    return true;
  };
  ASSERT_TRUE(world.client->get("t", "k", {}, got.callback()).ok());
  ASSERT_TRUE(world.run_until([&] { return kept.size() == 1; }));
  kept.clear();
  world.restart_node(0);
  world.publish(1);
  ASSERT_TRUE(world.run_until([&] { return got.here(); }));
  ASSERT_TRUE(got.result.ok()) << got.result.status;
  EXPECT_EQ(got.result.value.bytes(), "v");
  EXPECT_EQ(world.client->counters().sessions_opened, 2u);
}

TEST(Sessions, AWriteWithoutIdentityInFlightIsNotRepeatedAfterARestart) {
  ClientWorld world(1, {.exactly_once = false});
  world.publish(1);
  world.start_client();
  ASSERT_TRUE(put(world, "k", "v").ok());
  // It is applied, and the node dies before it has answered.
  std::vector<rpc::IncomingCall> kept;
  world.node(0).script = [&](rpc::IncomingCall& call) {
    world.store(0).entries["k"] = {"w", 77};
    kept.push_back(std::move(call));
    return true;
  };
  Got<WriteResult> got;
  ASSERT_TRUE(world.client->put("t", "k", "w", {}, got.callback()).ok());
  ASSERT_TRUE(world.run_until([&] { return kept.size() == 1; }));
  const uint64_t requests = world.node(0).requests;
  kept.clear();
  world.restart_node(0);
  world.publish(1);
  ASSERT_TRUE(world.run_until([&] { return got.here(); }));
  EXPECT_FALSE(got.result.ok());
  EXPECT_TRUE(got.result.may_have_been_applied);
  EXPECT_THAT(text(got.result.status), HasSubstr("read the key before writing it again"));
  EXPECT_EQ(world.node(0).requests, 0u);
  EXPECT_EQ(requests, 2u);
  EXPECT_EQ(get(world, "k").value.bytes(), "w");
}

TEST(Sessions, WritesThatWereNotSentAreRepeatedAfterARestart) {
  ClientWorld world(1, {.session_window = 1, .exactly_once = false});
  world.publish(1);
  world.start_client();
  ASSERT_TRUE(put(world, "k", "v").ok());
  std::vector<rpc::IncomingCall> kept;
  world.node(0).script = [&](rpc::IncomingCall& call) {
    kept.push_back(std::move(call));
    return true;
  };
  Got<WriteResult> first;
  Got<WriteResult> second;
  ASSERT_TRUE(world.client->put("t", "a", "1", {}, first.callback()).ok());
  ASSERT_TRUE(world.client->put("t", "b", "2", {}, second.callback()).ok());
  ASSERT_TRUE(world.run_until([&] { return kept.size() == 1; }));
  kept.clear();
  world.restart_node(0);
  world.publish(1);
  ASSERT_TRUE(world.run_until([&] { return first.here() && second.here(); }));
  EXPECT_TRUE(first.result.may_have_been_applied);
  EXPECT_TRUE(second.result.ok()) << second.result.status;
  EXPECT_EQ(world.store(0).entries["b"].value, "2");
}

TEST(Sessions, AMapThatTellsOfARestartEndsTheSession) {
  ClientWorld world(1);
  world.publish(1);
  world.start_client();
  ASSERT_TRUE(put(world, "k", "v").ok());
  world.restart_node(0);
  world.publish(1);
  const TimeNs before = world.network.now_ns();
  EXPECT_TRUE(get(world, "k").ok());
  EXPECT_LT(world.network.now_ns() - before, 100 * kMillisecond);
}

TEST(Sessions, OverloadIsRetriedAndAnErrorOfTheHandlerIsNot) {
  ClientWorld world(1);
  world.publish(1);
  world.start_client();
  int refusals = 3;
  world.node(0).script = [&](rpc::IncomingCall& call) {
    if (refusals-- <= 0) return false;
    FakeNode::reply_error(call, KvStatus::kResourceExhausted, "too many writes queue");
    return true;
  };
  EXPECT_TRUE(put(world, "k", "v").ok());
  EXPECT_EQ(world.client->counters().retries, 3u);
  world.node(0).script = [&](rpc::IncomingCall& call) {
    FakeNode::reply_error(call, KvStatus::kStorageFailed, "disk full");
    return true;
  };
  const WriteResult failed = put(world, "k", "v");
  EXPECT_EQ(failed.status.code(), absl::StatusCode::kDataLoss);
  EXPECT_TRUE(failed.may_have_been_applied);
  EXPECT_THAT(text(failed.status), HasSubstr("disk full"));
}

TEST(Sessions, AMalformedReplyIsAnErrorNotACrash) {
  ClientWorld world(1);
  world.publish(1);
  world.start_client();
  world.node(0).script = [](rpc::IncomingCall& call) {
    call.reply.reply(rpc::MessagePtr::copy_of(as_byte_span("nonsense")));
    return true;
  };
  EXPECT_EQ(get(world, "k").status.code(), absl::StatusCode::kInternal);
  const WriteResult written = put(world, "k", "v");
  EXPECT_EQ(written.status.code(), absl::StatusCode::kInternal);
  EXPECT_TRUE(written.may_have_been_applied);
}

TEST(Close, EndsWhatIsInFlightWithCancelled) {
  ClientWorld world(1);
  world.publish(1);
  world.start_client();
  ASSERT_TRUE(put(world, "k", "v").ok());
  std::vector<rpc::IncomingCall> kept;
  world.node(0).script = [&](rpc::IncomingCall& call) {
    kept.push_back(std::move(call));
    return true;
  };
  Got<WriteResult> sent;
  Got<GetResult> parked;
  Got<ScanResult> scan;
  Got<MultiGetResult> many;
  absl::Status late;
  ASSERT_TRUE(world.client
                  ->put("t", "k", "w", {},
                        [&](WriteResult&& result) {
                          ++sent.count;
                          sent.result = std::move(result);
                          late = world.client->get("t", "k", {}, parked.callback());
                        })
                  .ok());
  ASSERT_TRUE(world.client->scan("t", {}, {}, scan.callback()).ok());
  const std::string_view keys[] = {"a", "b"};
  ASSERT_TRUE(world.client->multi_get("t", keys, {}, many.callback()).ok());
  ASSERT_TRUE(world.client->get("unknown", "k", {}, parked.callback()).ok());
  ASSERT_TRUE(world.run_until([&] { return kept.size() == 3; }));
  world.client->close();
  EXPECT_EQ(sent.count, 1);
  EXPECT_TRUE(sent.result.may_have_been_applied);
  EXPECT_EQ(parked.count, 1);
  EXPECT_EQ(parked.result.status.code(), absl::StatusCode::kCancelled);
  EXPECT_EQ(scan.count, 1);
  EXPECT_EQ(many.count, 1);
  EXPECT_FALSE(scan.result.ok());
  EXPECT_EQ(late.code(), absl::StatusCode::kCancelled);
  EXPECT_EQ(world.client->in_flight(), 0u);
  kept.clear();
}

}  // namespace
}  // namespace skua::kv
