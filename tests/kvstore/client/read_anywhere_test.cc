// Reads of tables that are read anywhere: spread over the replicas, and the primary's when a backup does not answer.
#include <gtest/gtest.h>

#include <algorithm>
#include <map>
#include <string>
#include <string_view>
#include <vector>

#include "absl/strings/str_cat.h"
#include "kvstore/client/client_core.h"
#include "kvstore/client/client_limits.h"
#include "kvstore/client/read_spread.h"
#include "tests/kvstore/client/client_world.h"

namespace skua::kv {
namespace {

/// Node 0 leads the only shard; nodes 1 and 2 hold the same data.
class ReadAnywhereTest : public ::testing::Test {
 protected:
  void start(bool read_anywhere) {
    std::vector<FakeNode*> nodes = {&world_.node(0), &world_.node(1), &world_.node(2)};
    control::ShardMap map = make_map(world_.control.revision() + 1, nodes, {0}, 1);
    map.tables[0].read_anywhere = read_anywhere;
    map.tables[0].shards[0].backups = {{1, 0}, {2, 0}};
    for (FakeNode* node : nodes) {
      node->owned = {{0, 1}};
      node->map_revision = map.revision;
    }
    for (uint32_t i = 0; i < 3; ++i) world_.store(i).entries["k"] = {"value", 7};
    world_.control.publish(map);
    world_.start_client();
    ASSERT_TRUE(world_.run_until([&] { return client().counters().map_updates > 0; }));
    get("k");  // opens sessions
    world_.run_until([] { return false; }, 100 * kMillisecond);
    for (FakeNode* node : nodes) node->requests = 0;
  }
  ClientCore& client() { return *world_.client; }
  GetResult get(std::string_view key, const ReadOptions& options = {}) {
    Got<GetResult> got;
    EXPECT_TRUE(client().get("t", key, options, got.callback()).ok());
    EXPECT_TRUE(world_.run_until([&] { return got.here(); }));
    return std::move(got.result);
  }
  void script(uint32_t node, KvStatus status) {
    world_.node(node).script = [status](rpc::IncomingCall& call) {
      FakeNode::reply_error(call, status, "not now");
      return true;
    };
  }
  uint64_t requests(uint32_t node) { return world_.node(node).requests; }

  std::vector<rpc::ReplyToken> unanswered_;
  ClientWorld world_{3};
};

TEST_F(ReadAnywhereTest, Get_EveryReplicaAnswersItsShare) {
  start(true);
  for (int i = 0; i < 300; ++i) ASSERT_EQ(get("k").value.bytes(), "value");
  for (uint32_t node = 0; node < 3; ++node) EXPECT_GT(requests(node), 60U) << node;
  EXPECT_EQ(client().counters().backup_reads_refused, 0U);
  EXPECT_GE(client().counters().backup_reads, requests(1) + requests(2));
  EXPECT_EQ(client().counters().retries, 0U);
}

TEST_F(ReadAnywhereTest, Get_OfFields_OfWhatIsNoRowIsAnAnswer) {
  start(true);
  const std::vector<std::string_view> names = {"field"};
  for (int i = 0; i < 60; ++i) {
    ASSERT_EQ(get("k", {.fields = names}).status.code(), absl::StatusCode::kFailedPrecondition);
  }
  for (uint32_t node = 0; node < 3; ++node) EXPECT_GT(requests(node), 5U) << node;
  EXPECT_EQ(requests(0) + requests(1) + requests(2), 60U) << "nobody is asked twice";
  EXPECT_EQ(client().counters().backup_reads_refused, 0U);
}

TEST_F(ReadAnywhereTest, Get_WhatABackupIsTooOldForIsReadElsewhere) {
  world_.node(1).features = 0;
  start(true);
  for (int i = 0; i < 60; ++i) {
    const GetResult marked = get("k", {.with_mark = true});
    ASSERT_EQ(marked.value.bytes(), "value") << marked.status;
  }
  EXPECT_EQ(requests(1), 0U);
  EXPECT_GT(requests(2), 10U);
  for (int i = 0; i < 60; ++i) ASSERT_TRUE(get("k").ok());
  EXPECT_GT(requests(1), 5U) << "it is not too old for all reads";
}

TEST_F(ReadAnywhereTest, Get_OnlyOfThePrimaryWithoutTheOption) {
  start(false);
  for (int i = 0; i < 50; ++i) ASSERT_TRUE(get("k").ok());
  EXPECT_EQ(requests(0), 50U);
  EXPECT_EQ(requests(1) + requests(2), 0U);
  EXPECT_EQ(client().counters().sessions_opened, 1U);
}

TEST_F(ReadAnywhereTest, Put_OnlyToThePrimary) {
  start(true);
  for (int i = 0; i < 20; ++i) {
    Got<WriteResult> got;
    ASSERT_TRUE(client().put("t", absl::StrCat("key", i), "v", {}, got.callback()).ok());
    ASSERT_TRUE(world_.run_until([&] { return got.here(); }));
    EXPECT_TRUE(got.result.ok());
  }
  EXPECT_EQ(requests(1) + requests(2), 0U);
}

TEST_F(ReadAnywhereTest, Get_ABackupThatCannotAnswerIsLeftAloneForAWhile) {
  start(true);
  script(1, KvStatus::kWrongShard);
  const uint64_t hurries = world_.control.hurries;
  for (int i = 0; i < 100; ++i) ASSERT_EQ(get("k").value.bytes(), "value");
  EXPECT_GE(requests(1), 1U);
  EXPECT_LT(requests(1), 10U);
  EXPECT_EQ(world_.control.hurries, hurries) << "no newer map helps";
  world_.node(1).script = nullptr;
  world_.run_until([] { return false; }, 2 * kReplicaPauseMaxNs);
  for (int i = 0; i < 100; ++i) ASSERT_TRUE(get("k").ok());
  EXPECT_GT(requests(1), 20U);
}

TEST_F(ReadAnywhereTest, Get_AKeyWithAWriteUnderWayIsReadOfThePrimary) {
  start(true);
  for (const uint32_t node : {1U, 2U}) script(node, KvStatus::kUnavailable);
  for (int i = 0; i < 60; ++i) ASSERT_EQ(get("k").value.bytes(), "value");
  EXPECT_EQ(requests(0), 60U);
  EXPECT_GT(requests(1), 10U) << "it is not at fault";
  EXPECT_EQ(client().counters().backup_reads_refused, requests(1) + requests(2));
}

TEST_F(ReadAnywhereTest, Get_WithoutTheRightEndsAtOnceAndBackupsAreNotAtFault) {
  start(true);
  for (const uint32_t node : {0U, 1U, 2U}) script(node, KvStatus::kPermissionDenied);
  for (int i = 0; i < 60; ++i) EXPECT_EQ(get("k").status.code(), absl::StatusCode::kPermissionDenied);
  EXPECT_EQ(requests(0), 60U) << "the primary is asked once for each";
  EXPECT_GT(requests(1), 10U) << "the client lacks the right, not the backup";
}

TEST_F(ReadAnywhereTest, Get_ABackupThatIsSilentCostsItsPatienceOnly) {
  start(true);
  for (const uint32_t node : {1U, 2U}) {
    world_.node(node).script = [this](rpc::IncomingCall& call) {
      unanswered_.push_back(std::move(call.reply));
      return true;
    };
  }
  for (int i = 0; i < 20; ++i) {
    const TimeNs began = world_.network.now_ns();
    ASSERT_EQ(get("k").value.bytes(), "value");
    EXPECT_LT(world_.network.now_ns() - began, 2 * kReadPatienceNs);
  }
}

/// Reads that a backup holds become the primary's, and what the primary says of them counts as of any read.
TEST_F(ReadAnywhereTest, Get_OfAShardThatLosesItsBackupsMeanwhile) {
  start(true);
  for (const uint32_t node : {1U, 2U}) {
    world_.node(node).script = [this](rpc::IncomingCall& call) {
      unanswered_.push_back(std::move(call.reply));
      return true;
    };
  }
  std::vector<Got<GetResult>> reads(40);
  for (Got<GetResult>& read : reads) ASSERT_TRUE(client().get("t", "k", {}, read.callback()).ok());
  ASSERT_TRUE(world_.run_until([&] { return unanswered_.size() + requests(0) == reads.size(); }));
  const size_t held = unanswered_.size();
  ASSERT_GT(held, 5U);
  control::ShardMap map = make_map(world_.control.revision() + 1, {&world_.node(0)}, {0}, 2);
  map.tables[0].read_anywhere = true;
  world_.node(0).owned = {{0, 2}};
  world_.node(0).map_revision = map.revision;
  world_.control.publish(map);
  script(0, KvStatus::kPermissionDenied);
  const uint64_t before = requests(0);
  ASSERT_TRUE(
      world_.run_until([&] { return std::ranges::all_of(reads, [](const auto& read) { return read.here(); }); }));
  EXPECT_EQ(requests(0), before + held) << "the primary is asked once for each";
  size_t denied = 0;
  for (const Got<GetResult>& read : reads) denied += absl::IsPermissionDenied(read.result.status) ? 1 : 0;
  EXPECT_EQ(denied, held);
}

TEST_F(ReadAnywhereTest, Get_GoesOnWithoutThePrimary) {
  start(true);
  world_.stop_node(0);
  for (int i = 0; i < 20; ++i) {
    const GetResult result = get("k");
    ASSERT_EQ(result.value.bytes(), "value") << result.status;
  }
  EXPECT_GE(requests(1) + requests(2), 20U);
}

TEST_F(ReadAnywhereTest, MultiGetAndScan_AreSpreadToo) {
  start(true);
  for (int i = 0; i < 40; ++i) {
    Got<MultiGetResult> many;
    const std::string_view keys[] = {"k", "nobody"};
    ASSERT_TRUE(client().multi_get("t", keys, {}, many.callback()).ok());
    ASSERT_TRUE(world_.run_until([&] { return many.here(); }));
    EXPECT_EQ(many.result.entries[1].status.code(), absl::StatusCode::kNotFound);
    Got<ScanResult> rows;
    ASSERT_TRUE(client().scan("t", {}, {}, rows.callback()).ok());
    ASSERT_TRUE(world_.run_until([&] { return rows.here(); }));
    EXPECT_TRUE(rows.result.ok());
  }
  for (uint32_t node = 0; node < 3; ++node) EXPECT_GT(requests(node), 10U) << node;
}

TEST(ReadSpread, ChoosesAmongThoseWithASession) {
  ReadSpread spread;
  Rng rng(3);
  const TargetId backups[] = {5, 6};
  std::map<TargetId, int> chosen;
  for (int i = 0; i < 1000; ++i) {
    ++chosen[spread.choose(4, backups, 0, rng, [](TargetId target) { return target != 6; })];
  }
  EXPECT_GT(chosen[4], 200);
  EXPECT_GT(chosen[5], 200);
  EXPECT_EQ(chosen[6], 0);
  EXPECT_EQ(spread.choose(4, backups, 0, rng, [](TargetId) { return false; }), 4U) << "which waits for its session";
}

TEST(ReadSpread, PausesGrowAndEndWithAnAnswer) {
  ReadSpread spread;
  Rng rng(3);
  const TargetId backups[] = {5};
  const auto asked = [&](TimeNs now) {
    return spread.choose(4, backups, now, rng, [](TargetId target) { return target == 5; }) == 5;
  };
  TimeNs now = kSecond;
  DurationNs pause = kReplicaPauseMinNs;
  for (int i = 0; i < 12; ++i) {
    spread.failed(5, now);
    spread.failed(5, now);  // of another read that was under way
    EXPECT_FALSE(asked(now + pause - 1));
    EXPECT_TRUE(asked(now + pause));
    now += pause;
    pause = std::min(2 * pause, kReplicaPauseMaxNs);
  }
  spread.answered(5);
  spread.failed(5, now);
  EXPECT_TRUE(asked(now + kReplicaPauseMinNs));
}

}  // namespace
}  // namespace skua::kv
