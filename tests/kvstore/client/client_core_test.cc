#include "kvstore/client/client_core.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <string>
#include <vector>

#include "absl/strings/str_cat.h"
#include "kvstore/client/client_limits.h"
#include "kvstore/codec/row.h"
#include "tests/kvstore/client/client_world.h"

namespace skua::kv {
namespace {

using std::chrono::milliseconds;
using ::testing::AllOf;
using ::testing::ElementsAre;
using ::testing::HasSubstr;

std::string text(const absl::Status& status) {
  return status.ToString();
}

GetResult get(ClientWorld& world, std::string_view key, ReadOptions options = {}) {
  Got<GetResult> got;
  EXPECT_TRUE(world.client->get("t", key, options, got.callback()).ok());
  EXPECT_TRUE(world.run_until([&] { return got.here(); }));
  EXPECT_EQ(got.count, 1);
  return std::move(got.result);
}

WriteResult put(ClientWorld& world, std::string_view key, PutValue value, WriteOptions options = {}) {
  Got<WriteResult> got;
  EXPECT_TRUE(world.client->put("t", key, std::move(value), options, got.callback()).ok());
  EXPECT_TRUE(world.run_until([&] { return got.here(); }));
  EXPECT_EQ(got.count, 1);
  return std::move(got.result);
}

// --- One operation

TEST(Get, ReadsWhatPutWrote) {
  ClientWorld world(2);
  world.publish(8);
  world.start_client();
  for (int i = 0; i < 50; ++i) {
    const WriteResult written = put(world, absl::StrCat("key", i), absl::StrCat("value", i));
    ASSERT_TRUE(written.ok()) << written.status;
    const GetResult read = get(world, absl::StrCat("key", i));
    ASSERT_TRUE(read.ok()) << read.status;
    EXPECT_EQ(read.value.bytes(), absl::StrCat("value", i));
    EXPECT_EQ(read.version, written.version);
  }
  EXPECT_EQ(world.client->counters().sessions_opened, 2u);
  EXPECT_EQ(world.client->counters().retries, 0u);
}

TEST(Get, OfAMissingKeyIsNotFoundWithoutDetail) {
  ClientWorld world(1);
  world.publish(1);
  world.start_client();
  const GetResult read = get(world, "nobody");
  EXPECT_EQ(read.status.code(), absl::StatusCode::kNotFound);
  EXPECT_EQ(read.detail, nullptr);
}

TEST(Get, ValueMayBeKept) {
  ClientWorld world(1);
  world.publish(1);
  world.start_client();
  ASSERT_TRUE(put(world, "k", "kept").ok());
  GetResult read = get(world, "k");
  const ValueView kept = std::move(read.value);
  for (int i = 0; i < 100; ++i) ASSERT_TRUE(put(world, "k", "other").ok());
  EXPECT_EQ(kept.bytes(), "kept");
}

TEST(Put, HonoursConditions) {
  ClientWorld world(1);
  world.publish(1);
  world.start_client();
  const WriteResult first = put(world, "k", "1", {.if_absent = true});
  ASSERT_TRUE(first.ok());
  const WriteResult again = put(world, "k", "2", {.if_absent = true});
  EXPECT_EQ(again.status.code(), absl::StatusCode::kAlreadyExists);
  EXPECT_EQ(again.version, first.version);
  EXPECT_FALSE(again.may_have_been_applied);
  EXPECT_EQ(again.detail, nullptr);
  EXPECT_EQ(put(world, "none", "2", {.if_present = true}).status.code(), absl::StatusCode::kNotFound);
  EXPECT_TRUE(put(world, "k", "1", {.if_version = first.version, .ttl = milliseconds(50'000)}).ok());
  const WriteResult third = put(world, "k", "1", {.if_present = true, .keep_ttl = true});
  ASSERT_TRUE(third.ok());
  EXPECT_EQ(world.store(0).entries.at("k").ttl_ms, 50'000u);
  const WriteResult second = put(world, "k", "2", {.if_version = third.version});
  ASSERT_TRUE(second.ok());
  const WriteResult stale = put(world, "k", "3", {.if_version = first.version});
  EXPECT_EQ(stale.status.code(), absl::StatusCode::kFailedPrecondition);
  EXPECT_THAT(text(stale.status), AllOf(HasSubstr("PUT t/\"k\""), HasSubstr("VERSION_MISMATCH")));
  EXPECT_EQ(stale.version, second.version);
}

TEST(Put, SendsBigAndOwnedAndLentValues) {
  ClientWorld world(1);
  world.publish(1);
  world.start_client();
  const std::string big(1 << 20, 'b');
  ASSERT_TRUE(put(world, "copied", big).ok());
  ASSERT_TRUE(put(world, "owned", std::string(big)).ok());
  int released = 0;
  ASSERT_TRUE(put(world, "lent",
                  PutValue::lend(
                      big, [](void* count) { ++*static_cast<int*>(count); }, &released))
                  .ok());
  world.turn();
  EXPECT_EQ(released, 1);
  for (const char* key : {"copied", "owned", "lent"}) EXPECT_EQ(get(world, key).value.bytes(), big);
}

TEST(Put, ReleasesLentMemoryOnceAlsoWhenRefused) {
  ClientWorld world(1);
  world.publish(1);
  world.start_client();
  int released = 0;
  Got<WriteResult> got;
  const auto release = [](void* count) { ++*static_cast<int*>(count); };
  EXPECT_FALSE(world.client->put("t", "", PutValue::lend("x", release, &released), {}, got.callback()).ok());
  EXPECT_EQ(released, 1);
  EXPECT_EQ(got.count, 0);
}

TEST(Remove, RemovesAKey) {
  ClientWorld world(1);
  world.publish(1);
  world.start_client();
  ASSERT_TRUE(put(world, "k", "v").ok());
  Got<WriteResult> got;
  ASSERT_TRUE(world.client->remove("t", "k", {}, got.callback()).ok());
  ASSERT_TRUE(world.run_until([&] { return got.here(); }));
  EXPECT_TRUE(got.result.ok());
  EXPECT_EQ(get(world, "k").status.code(), absl::StatusCode::kNotFound);
}

TEST(Patch, ChangesFieldsOfARow) {
  ClientWorld world(1);
  world.publish(1);
  world.start_client();
  auto patch = [&](std::vector<FieldUpdate> fields, PatchOptions options) {
    Got<WriteResult> got;
    EXPECT_TRUE(world.client->patch("t", "row", fields, options, got.callback()).ok());
    EXPECT_TRUE(world.run_until([&] { return got.here(); }));
    return std::move(got.result);
  };
  EXPECT_EQ(patch({{"a", "1"}}, {}).status.code(), absl::StatusCode::kNotFound);
  EXPECT_TRUE(patch({{"a", "1"}, {"b", "2"}}, {.create_if_missing = true}).ok());
  EXPECT_TRUE(patch({{"b", "3"}}, {}).ok());
  const GetResult read = get(world, "row");
  EXPECT_EQ(as_string_view(*find_field(as_byte_span(read.value.bytes()), "b")), "3");
  ASSERT_TRUE(put(world, "row", "not a row at all").ok());
  const WriteResult refused = patch({{"b", "3"}}, {});
  EXPECT_EQ(refused.status.code(), absl::StatusCode::kFailedPrecondition);
  EXPECT_FALSE(refused.may_have_been_applied);
}

// --- Refusals

TEST(Submit, RefusesWhatBreaksALimitAndNamesIt) {
  ClientWorld world(1);
  world.publish(1);
  ClientCore& client = world.start_client();
  Got<GetResult> read;
  Got<WriteResult> written;
  EXPECT_EQ(client.get("t", "", {}, read.callback()).code(), absl::StatusCode::kInvalidArgument);
  EXPECT_EQ(client.get("", "k", {}, read.callback()).code(), absl::StatusCode::kInvalidArgument);
  EXPECT_THAT(text(client.get("t", std::string(1025, 'k'), {}, read.callback())),
              HasSubstr("the key has 1,025 bytes; at most 1,024 are allowed"));
  EXPECT_EQ(client.get("t", "k", {.timeout = milliseconds(-1)}, read.callback()).code(),
            absl::StatusCode::kInvalidArgument);
  const std::string large(kValueBytesMax + 1, 'v');
  EXPECT_THAT(text(client.put("t", "k", large, {}, written.callback())), HasSubstr("at most 16,777,216 are allowed"));
  EXPECT_EQ(client.put("t", "k", "v", {.if_version = 1, .if_absent = true}, written.callback()).code(),
            absl::StatusCode::kInvalidArgument);
  EXPECT_EQ(client.remove("t", "k", {.if_absent = true}, written.callback()).code(),
            absl::StatusCode::kInvalidArgument);
  EXPECT_EQ(client.patch("t", "k", {}, {}, written.callback()).code(), absl::StatusCode::kInvalidArgument);
  const FieldUpdate nameless[] = {{"", "v"}};
  EXPECT_EQ(client.patch("t", "k", nameless, {}, written.callback()).code(), absl::StatusCode::kInvalidArgument);
  const FieldUpdate huge[] = {{"f", large}};
  EXPECT_EQ(client.patch("t", "k", huge, {}, written.callback()).code(), absl::StatusCode::kInvalidArgument);
  Got<MultiGetResult> many;
  EXPECT_EQ(client.multi_get("t", {}, {}, many.callback()).code(), absl::StatusCode::kInvalidArgument);
  Got<ScanResult> rows;
  EXPECT_EQ(client.scan("t", {.limit = 0}, {}, rows.callback()).code(), absl::StatusCode::kInvalidArgument);
  EXPECT_EQ(client.in_flight(), 0u);
  world.turn();
  EXPECT_EQ(read.count + written.count + many.count + rows.count, 0);
}

TEST(Submit, RefusesBeyondOperationsMaxAndAcceptsAgain) {
  ClientWorld world(1, {.operations_max = 3});
  world.publish(1);
  ClientCore& client = world.start_client();
  Got<GetResult> got;
  for (int i = 0; i < 3; ++i) ASSERT_TRUE(client.get("t", "k", {}, got.callback()).ok());
  const absl::Status refused = client.get("t", "k", {}, got.callback());
  EXPECT_EQ(refused.code(), absl::StatusCode::kResourceExhausted);
  EXPECT_THAT(text(refused), HasSubstr("operations_max (3)"));
  ASSERT_TRUE(world.run_until([&] { return got.count == 3; }));
  ASSERT_TRUE(client.get("t", "k", {}, got.callback()).ok());
  ASSERT_TRUE(world.run_until([&] { return got.count == 4; }));
  EXPECT_EQ(client.counters().operations_refused, 1u);
}

TEST(Submit, FromACallbackUsesTheFreedPlace) {
  ClientWorld world(1, {.operations_max = 1});
  world.publish(1);
  ClientCore& client = world.start_client();
  int left = 100;
  std::function<void(GetResult &&)> again = [&](GetResult&&) {
    if (--left > 0) {
      ASSERT_TRUE(client.get("t", "k", {}, [&](GetResult&& result) { again(std::move(result)); }).ok());
    }
  };
  ASSERT_TRUE(client.get("t", "k", {}, [&](GetResult&& result) { again(std::move(result)); }).ok());
  EXPECT_TRUE(world.run_until([&] { return left == 0; }));
}

// --- Routing

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

// --- Sessions

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

// --- Several shards

TEST(MultiGet, CollectsFromAllShardsInTheCallersOrder) {
  ClientWorld world(3);
  world.publish(7);
  world.start_client();
  std::vector<std::string> keys;
  for (int i = 0; i < 200; ++i) {
    keys.push_back(absl::StrCat("key", i));
    if (i % 3 == 0) continue;
    ASSERT_TRUE(put(world, keys.back(), absl::StrCat("v", i)).ok());
  }
  keys.push_back("key1");  // twice
  const std::vector<std::string_view> views(keys.begin(), keys.end());
  for (int round = 0; round < 3; ++round) {
    Got<MultiGetResult> got;
    ASSERT_TRUE(world.client->multi_get("t", views, {}, got.callback()).ok());
    ASSERT_TRUE(world.run_until([&] { return got.here(); }));
    ASSERT_TRUE(got.result.ok()) << got.result.status;
    ASSERT_EQ(got.result.entries.size(), keys.size());
    for (size_t i = 0; i < 200; ++i) {
      EXPECT_EQ(got.result.entries[i].status.code(), i % 3 == 0 ? absl::StatusCode::kNotFound : absl::StatusCode::kOk);
      EXPECT_EQ(got.result.entries[i].value, i % 3 == 0 ? "" : absl::StrCat("v", i));
    }
    EXPECT_EQ(got.result.entries[200].value, "v1");
  }
}

TEST(MultiGet, ReadsValuesThatDoNotFitOneReplyAlone) {
  ClientWorld world(1);
  world.publish(1);
  world.start_client();
  const std::string big(7 << 20, 'x');
  std::vector<std::string_view> keys = {"a", "b", "c", "d"};
  for (std::string_view key : keys) world.store(0).entries[std::string(key)] = {big + std::string(key), 1};
  Got<MultiGetResult> got;
  ASSERT_TRUE(world.client->multi_get("t", keys, {.timeout = std::chrono::minutes(5)}, got.callback()).ok());
  ASSERT_TRUE(world.run_until([&] { return got.here(); }, 300 * kSecond));
  ASSERT_TRUE(got.result.ok()) << got.result.status;
  for (size_t i = 0; i < keys.size(); ++i) EXPECT_EQ(got.result.entries[i].value, big + std::string(keys[i]));
}

TEST(MultiGet, TellsWhichKeysCouldNotBeRead) {
  ClientWorld world(2);
  world.publish(2);
  world.start_client();
  std::vector<std::string> keys;
  for (int i = 0; i < 20; ++i) keys.push_back(absl::StrCat("key", i));
  for (const std::string& key : keys) ASSERT_TRUE(put(world, key, "v").ok());
  world.node(1).owned.clear();
  const std::vector<std::string_view> views(keys.begin(), keys.end());
  Got<MultiGetResult> got;
  ASSERT_TRUE(world.client->multi_get("t", views, {.timeout = milliseconds(300)}, got.callback()).ok());
  ASSERT_TRUE(world.run_until([&] { return got.here(); }));
  EXPECT_EQ(got.result.status.code(), absl::StatusCode::kDeadlineExceeded);
  ASSERT_NE(got.result.detail, nullptr);
  for (size_t i = 0; i < keys.size(); ++i) {
    const bool readable = shard_of_key(keys[i], 2) == 0;
    EXPECT_EQ(got.result.entries[i].status.ok(), readable);
    EXPECT_EQ(got.result.entries[i].value, readable ? "v" : "");
  }
}

TEST(Scan, MergesAllShardsAndGoesOnWhereItEnded) {
  ClientWorld world(3);
  world.publish(5);
  world.start_client();
  std::map<std::string, std::string> twin;
  for (int i = 0; i < 400; ++i) {
    const std::string key = absl::StrCat("k", i * 7919 % 1000);
    ASSERT_TRUE(put(world, key, absl::StrCat("v", i)).ok());
    twin[key] = absl::StrCat("v", i);
  }
  for (uint32_t limit : {1u, 3u, 50u, 399u, 400u, 1000u}) {
    std::map<std::string, std::string> found;
    std::string start;
    for (bool more = true; more;) {
      Got<ScanResult> got;
      ASSERT_TRUE(world.client->scan("t", {.start = start, .limit = limit}, {}, got.callback()).ok());
      ASSERT_TRUE(world.run_until([&] { return got.here(); }));
      ASSERT_TRUE(got.result.ok()) << got.result.status;
      ASSERT_LE(got.result.rows.size(), limit);
      std::string previous = start;
      for (const Row& row : got.result.rows) {
        ASSERT_GE(row.key, previous);
        previous = std::string(row.key);
        found[previous] = std::string(row.value);
      }
      more = got.result.has_more;
      start = got.result.next_start;
    }
    ASSERT_EQ(found, twin) << "limit " << limit;
  }
}

TEST(Scan, KeepsWithinStartAndEnd) {
  ClientWorld world(2);
  world.publish(3);
  world.start_client();
  for (const char* key : {"a", "b", "c", "d", "e"}) ASSERT_TRUE(put(world, key, "v").ok());
  Got<ScanResult> got;
  ASSERT_TRUE(world.client->scan("t", {.start = "b", .end = "d"}, {}, got.callback()).ok());
  ASSERT_TRUE(world.run_until([&] { return got.here(); }));
  std::vector<std::string_view> keys;
  for (const Row& row : got.result.rows) keys.push_back(row.key);
  EXPECT_THAT(keys, ElementsAre("b", "c"));
  EXPECT_FALSE(got.result.has_more);
}

TEST(Scan, FailsAsAWholeWhenAShardIsOutOfReach) {
  ClientWorld world(2);
  world.publish(2);
  world.start_client();
  for (int i = 0; i < 20; ++i) ASSERT_TRUE(put(world, absl::StrCat(i), "v").ok());
  world.node(1).owned.clear();
  Got<ScanResult> got;
  ASSERT_TRUE(world.client->scan("t", {}, {.timeout = milliseconds(300)}, got.callback()).ok());
  ASSERT_TRUE(world.run_until([&] { return got.here(); }));
  EXPECT_EQ(got.result.status.code(), absl::StatusCode::kDeadlineExceeded);
  EXPECT_TRUE(got.result.rows.empty());
  EXPECT_THAT(text(got.result.status), HasSubstr("SCAN t (shard 1)"));
}

// --- Everything at once

/// A client and three nodes under loss, restarts and moving shards. Every callback runs once, every answer is a value
/// that the key can have, and when the faults end everything works.
TEST(ClientCore, AnswersRightUnderFaults) {
  for (uint64_t seed = 1; seed <= 40; ++seed) {
    SCOPED_TRACE(absl::StrCat("seed ", seed));
    Rng rng(seed);
    ClientWorld world(3, {}, seed);
    std::vector<uint32_t> owners = {0, 1, 2, 0, 1};
    uint64_t epoch = 1;
    world.publish_owners(owners, epoch);
    ClientCore& client = world.start_client();
    world.network.set_faults({.loss = 0.05, .duplicate = 0.02, .corrupt = 0.01, .reorder = 0.1});

    constexpr int kKeys = 12;
    struct KeyState {
      std::set<std::string> possible = {""};  // "" is absent
      std::set<std::string> late;             // writes of unknown fate: may still arrive
      bool busy = false;
    };
    std::vector<KeyState> keys(kKeys);
    int started = 0;
    int ended = 0;
    for (int round = 0; round < 400; ++round) {
      const auto k = static_cast<size_t>(rng.below(kKeys));
      KeyState& state = keys[k];
      if (!state.busy) {
        const std::string key = absl::StrCat("key", k);
        state.busy = true;
        ++started;
        if (rng.chance(0.5)) {
          const std::string value = absl::StrCat("v", round);
          ASSERT_TRUE(client
                          .put("t", key, value, {.timeout = milliseconds(1 + rng.below(400))},
                               [&, value](WriteResult&& result) {
                                 ++ended;
                                 state.busy = false;
                                 if (result.ok()) {
                                   state.possible = {value};
                                 } else if (result.may_have_been_applied) {
                                   state.late.insert(value);
                                 }
                               })
                          .ok());
        } else {
          ASSERT_TRUE(client
                          .get("t", key, {.timeout = milliseconds(1 + rng.below(400))},
                               [&](GetResult&& result) {
                                 ++ended;
                                 state.busy = false;
                                 const std::string found = result.ok() ? result.value.str() : "";
                                 const bool answered = result.detail == nullptr;
                                 if (answered && !state.late.contains(found)) {
                                   EXPECT_TRUE(state.possible.contains(found)) << found;
                                 }
                               })
                          .ok());
        }
      }
      if (rng.chance(0.02)) {
        world.restart_node(static_cast<uint32_t>(rng.below(3)));
        world.publish_owners(owners, epoch);
      }
      if (rng.chance(0.03)) world.publish_owners(owners, ++epoch);
      world.run_until([] { return false; }, static_cast<DurationNs>(rng.below(5 * kMillisecond)));
    }
    ASSERT_TRUE(world.run_until([&] { return ended == started; }, 30 * kSecond));
    world.network.set_faults({});
    for (int k = 0; k < kKeys; ++k) {
      EXPECT_TRUE(put(world, absl::StrCat("key", k), "end").ok());
    }
    EXPECT_EQ(client.in_flight(), 0u);
    ASSERT_TRUE(world.run_until([&] { return client.endpoint().balance().calls == 0; }));
    EXPECT_EQ(world.network.violations().tx_changed, 0u);
  }
}

}  // namespace
}  // namespace skua::kv
