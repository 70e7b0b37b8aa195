// Bounds of ShardServer, full disks, and the end of shards.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <map>
#include <set>

#include "kvstore/replication/epoch_history.h"
#include "kvstore/service/shard_server.h"
#include "kvstore/storage/rocksdb_engine.h"
#include "kvstore/storage/shard_life.h"
#include "tests/kvstore/node/server_testing.h"
#include "tests/kvstore/service/shard_server_fixture.h"
#include "tests/kvstore/shard/engine_testing.h"

namespace skua::kv {
namespace {

using testing::Answer;
using testing::encoded_get;
using testing::encoded_multi_get;
using testing::encoded_put;
using testing::encoded_scan;
using testing::FakeDisk;
using ::testing::HasSubstr;
using testing::kEpoch;
using testing::kRoute;
using testing::kShard;
using testing::RocksdbServerTest;
using testing::ShardServerTest;

TEST_F(ShardServerTest, Write_FailureOfTheStorageIsToldAndEndsWrites) {
  serve();
  world_.device()->crash_after(0);
  EXPECT_EQ(world_.ask(Method::kPut, encoded_put(kRoute, "k", "v")).status(), KvStatus::kStorageFailed);
  EXPECT_EQ(world_.ask(Method::kPut, encoded_put(kRoute, "k", "v")).status(), KvStatus::kShardReadOnly);
}

/// The log has room (a file of a fixed size), the database has not.
TEST_F(ShardServerTest, FullDisk_WritesAreAppliedWhenThereIsRoom) {
  serve();
  FakeDisk& disk = databases_.disk(kShard);
  disk.set_full(true);
  for (int i = 0; i < 3; ++i) {
    const std::string number = std::to_string(i);
    EXPECT_EQ(world_.ask(Method::kPut, encoded_put(kRoute, "k" + number, number)).status(), KvStatus::kOk);
    ScanRequest scan{kRoute};
    scan.rows_max = scan.bytes_max = 100;
    const Answer answer = world_.ask(Method::kScan, encoded_scan(scan));
    EXPECT_EQ(answer.status(), KvStatus::kResourceExhausted);
    EXPECT_THAT(std::string(answer.head().text), HasSubstr("full"));
  }
  EXPECT_EQ(disk.state().index, 0u);
  disk.set_full(false);
  world_.wait_for([&] {
    world_.set_time(testing::g_unix_ms + 1000);
    return disk.state().index == 3;
  });
  EXPECT_EQ(disk.state().rows.at("k2").value, "2");
  EXPECT_EQ(world_.ask(Method::kPut, encoded_put(kRoute, "k3", "3")).status(), KvStatus::kOk);
}

TEST_F(ShardServerTest, FullDisk_AShardIsClosedWhenThereIsRoom) {
  // Full before, or after, the last write was applied.
  for (const bool early : {true, false}) {
    serve();
    FakeDisk& disk = databases_.disk(kShard);
    if (early) disk.set_full(true);
    EXPECT_EQ(world_.ask(Method::kPut, encoded_put(kRoute, "key", early ? "1" : "2")).status(), KvStatus::kOk);
    const uint64_t index = early ? 1 : 2;
    ScanRequest scan{kRoute};
    scan.rows_max = scan.bytes_max = 100;
    if (!early) {
      EXPECT_EQ(world_.ask(Method::kScan, encoded_scan(scan)).status(), KvStatus::kOk) << "it is applied then";
    }
    disk.set_full(true);
    bool idle = false;
    server_.shards().remove(kShard, [&] { idle = true; });
    for (int i = 0; i < 5; ++i) {
      world_.set_time(testing::g_unix_ms + 1000);
      world_.pump();
    }
    EXPECT_FALSE(idle) << "what it was given is not in the database";
    world_.wait_for([&] { return !server_.stats().leaving.empty(); });
    world_.wait_for([&] { return server_.stats().leaving[0].waits_for.find("no room") != std::string::npos; });
    EXPECT_EQ(server_.stats().leaving[0].id, kShard);
    disk.set_full(false);
    world_.wait_for([&] {
      world_.set_time(testing::g_unix_ms + 1000);
      return idle;
    });
    EXPECT_EQ(disk.state().index, index);
    EXPECT_TRUE(server_.stats().leaving.empty());
  }
}

TEST_F(ShardServerTest, Remove_ThatFailsForGoodIsTold) {
  serve();
  EXPECT_EQ(world_.ask(Method::kPut, encoded_put(kRoute, "key", "1")).status(), KvStatus::kOk);
  databases_.disk(kShard).fail();
  bool idle = false;
  server_.shards().remove(kShard, [&] { idle = true; });
  world_.wait_for([&] {
    const auto leaving = server_.stats().leaving;
    return !leaving.empty() && leaving[0].waits_for.find("start it again") != std::string::npos;
  });
  EXPECT_FALSE(idle) << "nobody may open what lacks a write";
}

class FewWritesServerTest : public ShardServerTest {
 protected:
  static ShardServer::Options few() {
    ShardServer::Options options;
    options.engine.unfinished_max = 8;
    return options;
  }
  FewWritesServerTest() : ShardServerTest(few()) {}
};

TEST_F(FewWritesServerTest, Write_MoreThanMayWaitAreRefusedAndTheRestIsKept) {
  serve();
  world_.gate().close();
  std::vector<std::shared_ptr<Answer>> answers;
  for (int i = 0; i < 40; ++i) {
    answers.push_back(world_.send(Method::kPut, encoded_put(kRoute, "key" + std::to_string(i), "v")));
  }
  world_.wait_for([&] { return server_.stats().storage.writes_refused > 0; });
  world_.gate().open();
  world_.wait_for_answers();
  std::map<KvStatus, size_t> count;
  for (const auto& answer : answers) ++count[answer->status()];
  EXPECT_EQ(count[KvStatus::kOk] + count[KvStatus::kResourceExhausted], answers.size());
  EXPECT_GE(count[KvStatus::kOk], 8u);
  EXPECT_GE(count[KvStatus::kResourceExhausted], 1u);
}

class FewRequestsServerTest : public ShardServerTest {
 protected:
  static ShardServer::Options few() {
    ShardServer::Options options;
    options.pending_max = 4;
    return options;
  }
  FewRequestsServerTest() : ShardServerTest(few()) {}
};

TEST_F(FewRequestsServerTest, Begin_RefusesAboveTheBoundOfOperations) {
  serve();
  world_.gate().close();
  for (int i = 0; i < 6; ++i) world_.send(Method::kPut, encoded_put(kRoute, "key", "v"));
  world_.wait_for(
      [&] { return server_.stats().requests.answers[2][static_cast<size_t>(KvStatus::kResourceExhausted)] == 2; });
  EXPECT_EQ(server_.waiting_count(), 4u);
  world_.gate().open();
  world_.wait_for_answers();
  EXPECT_EQ(server_.stats().requests.answers[2][static_cast<size_t>(KvStatus::kOk)], 4u);
}

TEST_F(ShardServerTest, Remove_WaitsForOperationsInFlight) {
  serve();
  world_.gate().close();
  const auto answer = world_.send(Method::kPut, encoded_put(kRoute, "key", "v"));
  world_.wait_for([&] { return server_.waiting_count() == 1; });
  world_.gate().wait_until_waiting();
  bool idle = false;
  server_.shards().remove(kShard, [&] { idle = true; });
  const auto late = world_.send(Method::kGet, encoded_get({3, 1, kEpoch, 0}, "key"));
  world_.wait_for([&] { return late->rpc.ok(); });
  EXPECT_EQ(late->status(), KvStatus::kWrongShard);
  EXPECT_FALSE(idle);
  world_.gate().open();
  world_.wait_for([&] { return idle; });
  world_.wait_for_answers();
  EXPECT_EQ(answer->status(), KvStatus::kOk);
  EXPECT_EQ(databases_.disk(kShard).state().index, 1u) << "the database has everything";
}

TEST_F(RocksdbServerTest, Remove_DoesNotWaitForCallersThatKeepTheirReplies) {
  const std::vector<size_t> sizes = {10, 1000, 5000,
                                     1 << 20};  // around what is inline, and what callers say that they have
  const auto key_of = [](size_t size) { return "key" + std::to_string(size); };
  for (const size_t size : sizes) ASSERT_EQ(put(key_of(size), std::string(size, 'v')).status(), KvStatus::kOk);
  // Not one of these calls has its reply released by a later one: each has a slot of its own.
  for (const size_t size : sizes) {
    const std::string key = key_of(size);
    ScanRequest request{kRoute, key};
    request.rows_max = 1;
    request.bytes_max = kScanBytesMax;
    serve_again();
    EXPECT_EQ(get(key).value(), std::string(size, 'v')) << "from the disk";
    serve_again();
    EXPECT_EQ(world_->ask(Method::kMultiGet, encoded_multi_get(kRoute, {key})).status(), KvStatus::kOk);
    EXPECT_EQ(world_->ask(Method::kMultiGet, encoded_multi_get(kRoute, {key})).status(), KvStatus::kOk)
        << "from memory";
    EXPECT_EQ(world_->ask(Method::kScan, encoded_scan(request)).status(), KvStatus::kOk);
    EXPECT_EQ(world_->server().stats().pending_requests, 0u) << "idle callers must not use up the bound";
  }
  serve_again();
}

/// A caller that is idle keeps its last replies, and with them the memory that their values lie in.
TEST_F(RocksdbServerTest, Write_DoesNotWaitForCallersThatKeepTheirReplies) {
  const std::string value(1000, 'v');
  constexpr size_t kKeys = 4000;
  // More rounds than the memory has room for, and in each another caller reads what was written last and keeps it.
  for (int round = 0; round < 12; ++round) {
    const auto key_of = [&](size_t i) { return std::to_string(round) + "key" + std::to_string(i); };
    world_->use_another_session();
    for (size_t i = 0; i < kKeys; i += 100) {
      std::vector<std::shared_ptr<Answer>> answers;
      for (size_t k = i; k < i + 100; ++k) {
        answers.push_back(world_->send(Method::kPut, encoded_put(kRoute, key_of(k), value)));
      }
      world_->wait_for_answers();
      for (const auto& answer : answers) ASSERT_EQ(answer->status(), KvStatus::kOk) << round;
    }
    world_->use_another_session();
    std::vector<std::shared_ptr<Answer>> answers;
    for (size_t i = 0; i < 200; ++i) {
      answers.push_back(world_->send(Method::kGet, encoded_get(kRoute, key_of(i * kKeys / 200))));
    }
    world_->wait_for_answers();
    for (const auto& answer : answers) ASSERT_EQ(answer->value(), value);
  }
}

/// A caller that asks for much and takes nothing gets no more than its share of memory.
TEST_F(RocksdbServerTest, Read_OfACallerThatTakesNothingIsRefusedInTheEnd) {
  const std::string value(1 << 20, 'v');
  ASSERT_EQ(put("large", value).status(), KvStatus::kOk);
  serve_again();  // from the disk: copies
  ScanRequest scan{kRoute, "large"};
  scan.rows_max = 1;
  scan.bytes_max = kScanBytesMax;
  std::vector<std::shared_ptr<Answer>> answers;
  for (int i = 0; i < 20; ++i) {
    answers.push_back(world_->send(Method::kGet, encoded_get(kRoute, "large")));
    answers.push_back(world_->send(Method::kScan, encoded_scan(scan)));
    answers.push_back(world_->send(Method::kMultiGet, encoded_multi_get(kRoute, {"large"})));
  }
  world_->pump();
  world_->stop_client(true);
  world_->wait_for([&] {
    const auto& counts = world_->server().stats().requests.answers;
    uint64_t all = 0;
    for (const Method method : {Method::kGet, Method::kScan, Method::kMultiGet}) {
      for (const uint64_t count : counts[static_cast<size_t>(method)]) all += count;
    }
    return all == answers.size();
  });
  world_->stop_client(false);
  world_->wait_for_answers();
  size_t served = 0;
  for (const auto& answer : answers) {
    const bool ok = answer->status() == KvStatus::kOk;
    EXPECT_TRUE(ok || answer->status() == KvStatus::kResourceExhausted);
    served += ok ? 1 : 0;
  }
  EXPECT_GE(served, 5u);
  EXPECT_LE(served, 8u) << "an eighth of what answers may take";
  EXPECT_EQ(get("large").value(), value) << "what was taken makes room";
}

/// The caller is gone, and nobody has noticed: what it was sent is still on its way.
TEST_F(RocksdbServerTest, Remove_DoesNotWaitForAValueOnItsWay) {
  ASSERT_EQ(put("large", std::string(1 << 20, 'v')).status(), KvStatus::kOk);
  serve_again();
  const auto answer = world_->send(Method::kGet, encoded_get(kRoute, "large"));
  // The read may be over between two looks at the server: the answer is counted, the pending request may never be seen.
  world_->wait_for([&] {
    const RequestStats stats = world_->server().stats().requests;
    return stats.answers[static_cast<size_t>(Method::kGet)][static_cast<size_t>(KvStatus::kOk)] == 1;
  });
  EXPECT_EQ(world_->server().stats().pending_requests, 0u);
  EXPECT_TRUE(answer->bytes.empty()) << "it has a million bytes to go";
  world_->server().shards().remove(kShard, [&] { db_.reset(); });
  world_->wait_for([&] { return db_ == nullptr; });
  world_->wait_for_answers();
  EXPECT_EQ(answer->value(), std::string(1 << 20, 'v'));
}

TEST_F(ShardServerTest, Remove_AtOnceIfNeverServed) {
  server_.shards().expect(kShard, kEpoch);
  bool idle = false;
  server_.shards().remove(kShard, [&] { idle = true; });
  EXPECT_TRUE(idle);
}

TEST_F(ShardServerTest, Remove_SoonWhenIdle) {
  serve();
  bool idle = false;
  server_.shards().remove(kShard, [&] { idle = true; });
  world_.wait_for([&] { return idle; });
  EXPECT_EQ(server_.stats().shards, 0u);
}

TEST_F(RocksdbServerTest, Stats_CountByMethodAndStatusAndBytes) {
  put("small", "12345");
  put("cached", std::string(1000, 'c'));
  get("small");
  get("cached");
  get("none");
  const RequestStats stats = world_->server().stats().requests;
  const auto at = [&](Method method, KvStatus status) {
    return stats.answers[static_cast<size_t>(method)][static_cast<size_t>(status)];
  };
  EXPECT_EQ(at(Method::kPut, KvStatus::kOk), 2u);
  EXPECT_EQ(at(Method::kGet, KvStatus::kOk), 2u);
  EXPECT_EQ(at(Method::kGet, KvStatus::kNotFound), 1u);
  EXPECT_EQ(stats.value_copied_bytes, 5u);
  EXPECT_EQ(stats.value_zero_copy_bytes, 1000u);
  WorkerStats worker = world_->server().stats();
  const std::string text = format_metrics(std::span(&worker, 1));
  EXPECT_THAT(text, HasSubstr("skua_requests_total{worker=\"0\",method=\"GET\",status=\"OK\"} 2\n"));
  EXPECT_THAT(text, HasSubstr("skua_commit_group_mutations_count{worker=\"0\"} 2\n"));
}

TEST_F(ShardServerTest, AShardThatHasUsedUpItsIndicesTakesNoWritesButReads) {
  const std::string key = "key";
  const AppliedEffect row{key, as_byte_span(std::string_view("value")), 7, 0};
  ASSERT_TRUE(db_->apply(std::span(&row, 1), EpochHistory::kIndexMax - 1).ok());
  serve();
  EXPECT_EQ(world_.ask(Method::kPut, encoded_put(kRoute, "a", "1")).status(), KvStatus::kOk);
  const Answer refused = world_.ask(Method::kPut, encoded_put(kRoute, "b", "2"));
  EXPECT_EQ(refused.status(), KvStatus::kResourceExhausted);
  EXPECT_EQ(world_.ask(Method::kGet, encoded_get(kRoute, "key")).value(), "value");
}

}  // namespace
}  // namespace skua::kv
