// MULTI_GET and SCAN, which go to several shards.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <string>
#include <vector>

#include "absl/strings/str_cat.h"
#include "kvstore/client/client_core.h"
#include "kvstore/client/client_limits.h"
#include "kvstore/codec/row.h"
#include "tests/kvstore/client/client_calls_testing.h"
#include "tests/kvstore/client/client_world.h"

namespace skua::kv {
namespace {

using std::chrono::milliseconds;
using ::testing::ElementsAre;
using ::testing::HasSubstr;
using testing::put;
using testing::text;

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
    const bool readable = KeyPlacement{2}.shard_of(keys[i]) == 0;
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

}  // namespace
}  // namespace skua::kv
