#include "kvstore/service/admission.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <string>
#include <utility>

#include "tests/kvstore/node/server_testing.h"
#include "tests/kvstore/service/shard_server_fixture.h"
#include "tests/kvstore/shard/engine_testing.h"

namespace skua::kv {
namespace {

using testing::Answer;
using testing::encoded_delete;
using testing::encoded_get;
using testing::encoded_multi_get;
using testing::encoded_put;
using testing::encoded_scan;
using ::testing::HasSubstr;
using testing::kEpoch;
using testing::kRevision;
using testing::kRoute;
using testing::kShard;
using testing::ShardServerTest;

TEST_F(ShardServerTest, Admit_UnknownShardIsWrongShard) {
  server_.set_map_revision(kRevision);
  const Answer answer = world_.ask(Method::kGet, encoded_get(kRoute, "k"));
  EXPECT_EQ(answer.status(), KvStatus::kWrongShard);
  EXPECT_EQ(answer.head().epoch, 0u);
  EXPECT_EQ(answer.head().map_revision, kRevision);
}

TEST_F(ShardServerTest, Admit_AnotherEpochIsWrongShardForEveryMethod) {
  server_.set_map_revision(kRevision);
  server_.shards().expect(kShard, kEpoch + 1);
  server_.shards().serve(kShard, *db_);
  const std::pair<Method, std::string> requests[] = {
      {Method::kGet, encoded_get(kRoute, "k")},
      {Method::kPut, encoded_put(kRoute, "k", "v")},
      {Method::kDelete, encoded_delete(kRoute, "k")},
      {Method::kMultiGet, encoded_multi_get(kRoute, {"k"})},
      {Method::kScan, encoded_scan({.route = kRoute, .rows_max = 1, .bytes_max = 1})},
  };
  for (const auto& [method, request] : requests) {
    const Answer answer = world_.ask(method, request);
    EXPECT_EQ(answer.status(), KvStatus::kWrongShard) << method_name(method);
    EXPECT_EQ(answer.head().epoch, kEpoch + 1);
  }
  EXPECT_EQ(server_.stats().storage.log.records, 0u);
}

TEST_F(ShardServerTest, Admit_ServedShardTakesItsNewestEpochAlone) {
  server_.shards().expect(kShard, kEpoch);
  server_.shards().serve(kShard, *db_);
  ASSERT_EQ(world_.ask(Method::kPut, encoded_put(kRoute, "k", "v")).status(), KvStatus::kOk);
  server_.shards().expect(kShard, kEpoch + 1);
  EXPECT_EQ(world_.ask(Method::kGet, encoded_get(kRoute, "k")).status(), KvStatus::kWrongShard);
  EXPECT_EQ(world_.ask(Method::kPut, encoded_put(kRoute, "k", "w")).status(), KvStatus::kWrongShard);
  Route newer = kRoute;
  newer.epoch = kEpoch + 1;
  EXPECT_EQ(world_.ask(Method::kGet, encoded_get(newer, "k")).status(), KvStatus::kOk);
}

TEST_F(ShardServerTest, Admit_NewerMapThanOursIsReportedNowAndThen) {
  int hints = 0;
  server_.on_newer_map([&] { ++hints; });
  server_.set_map_revision(kRevision - 1);
  Route forged = kRoute;
  forged.map_revision = UINT64_MAX;
  for (const Route& route : {forged, kRoute, kRoute}) {
    EXPECT_EQ(world_.ask(Method::kGet, encoded_get(route, "k")).status(), KvStatus::kWrongShard);
  }
  EXPECT_EQ(hints, 1) << "many clients, one question";
  world_.pass(kMapHintPauseNs);
  EXPECT_EQ(world_.ask(Method::kGet, encoded_get(kRoute, "k")).status(), KvStatus::kWrongShard);
  EXPECT_EQ(hints, 2) << "whatever has been named before";
}

TEST_F(ShardServerTest, Admit_OpeningShardIsRefusedAndThenServed) {
  server_.shards().expect(kShard, kEpoch);
  const Answer opening = world_.ask(Method::kPut, encoded_put(kRoute, "k", "v"));
  EXPECT_EQ(opening.status(), KvStatus::kWrongShard);
  EXPECT_THAT(std::string(opening.head().text), HasSubstr("being opened"));
  server_.shards().serve(kShard, *db_);
  EXPECT_EQ(world_.ask(Method::kPut, encoded_put(kRoute, "k", "v")).status(), KvStatus::kOk);
}

TEST_F(ShardServerTest, Admit_FailedShardSaysWhy) {
  server_.shards().expect(kShard, kEpoch);
  server_.shards().set_failed(kShard, "the disk is on fire");
  const Answer answer = world_.ask(Method::kGet, encoded_get(kRoute, "k"));
  EXPECT_EQ(answer.status(), KvStatus::kWrongShard);
  EXPECT_EQ(answer.head().text, "the disk is on fire");
}

TEST_F(ShardServerTest, Admit_DrainingServesNothing) {
  serve();
  server_.drain();
  EXPECT_EQ(world_.ask(Method::kPut, encoded_put(kRoute, "k", "v")).status(), KvStatus::kWrongShard);
}

TEST_F(ShardServerTest, Admit_MalformedRequestsAreInvalid) {
  serve();
  EXPECT_EQ(world_.ask(Method::kGet, "").status(), KvStatus::kInvalidArgument);
  EXPECT_EQ(world_.ask(Method::kGet, "too short for a header").status(), KvStatus::kInvalidArgument);
  const std::string get = encoded_get(kRoute, "key");
  for (const Method method :
       {Method::kGet, Method::kPut, Method::kDelete, Method::kMultiGet, Method::kPatch, Method::kScan}) {
    EXPECT_EQ(world_.ask(method, get + "and more").status(), KvStatus::kInvalidArgument);
  }
}

}  // namespace
}  // namespace skua::kv
