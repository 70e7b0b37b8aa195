#include "kvstore/service/pending_request.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <atomic>
#include <memory>
#include <span>
#include <string>
#include <utility>
#include <vector>

#include "kvstore/codec/size_limits.h"
#include "tests/kvstore/node/server_testing.h"
#include "tests/kvstore/service/shard_server_fixture.h"
#include "tests/kvstore/shard/engine_world.h"
#include "tests/kvstore/shard/forwarding_db.h"

namespace skua::kv {
namespace {

using testing::kShard;

class MultiGetPageTest : public ::testing::Test {
 protected:
  void put(std::string_view key, std::string_view value) {
    const AppliedEffect effect{key, as_byte_span(value), ++index_};
    ASSERT_TRUE(db_->apply({&effect, 1}, index_).ok());
  }
  /// What a page says of keys that memory lacks. Keys have one letter each.
  std::vector<KvStatus> read(std::string_view keys) {
    std::string encoded;
    for (const char key : keys) encoded.append({1, 0, key});
    page_.release();
    page_.in_memory.resize(keys.size());
    EXPECT_TRUE(page_.read_missing(*db_, StringList(as_byte_span(encoded), keys.size())).ok());
    page_.build(0);
    std::vector<KvStatus> statuses;
    for (const MultiGetEntry& entry : page_.entries) statuses.push_back(entry.status);
    return statuses;
  }
  [[nodiscard]] size_t pinned_bytes() const {
    size_t bytes = 0;
    for (const PinnedValue& value : page_.from_disk) bytes += value.bytes().size();
    return bytes;
  }

  testing::FakeDbEngine databases_;
  std::unique_ptr<ShardDb> db_ = databases_.open_db("", kShard, RocksdbEngine::IfMissing::kCreate).value();
  uint64_t index_ = 0;
  MultiGetPage page_;
};

constexpr KvStatus kOk = KvStatus::kOk;
constexpr KvStatus kAbsent = KvStatus::kNotFound;
constexpr KvStatus kLeftOut = KvStatus::kResourceExhausted;

TEST_F(MultiGetPageTest, ReadsNoFurtherThanAReplyHolds) {
  const std::string half(kBatchBytesMax / 2, 'h');
  for (const char* key : {"a", "b", "c"}) put(key, half);
  put("s", "small");
  EXPECT_THAT(read("naasnab"), ::testing::ElementsAre(kAbsent, kOk, kOk, kLeftOut, kLeftOut, kLeftOut, kLeftOut));
  EXPECT_EQ(databases_.disk(kShard).reads(), 3U) << "two halves are all that a reply holds";
  EXPECT_EQ(pinned_bytes(), kBatchBytesMax);
  EXPECT_THAT(read("sabcn"), ::testing::ElementsAre(kOk, kOk, kLeftOut, kLeftOut, kLeftOut));
  EXPECT_EQ(databases_.disk(kShard).reads(), 3U + 3U) << "the value that does not fit ends it";
  EXPECT_EQ(pinned_bytes(), half.size() + 5);
  EXPECT_THAT(read("sn"), ::testing::ElementsAre(kOk, kAbsent)) << "the page is used again";
}

TEST_F(MultiGetPageTest, TheFirstKeyIsReadHoweverLargeItsValueIs) {
  put("l", std::string(kValueBytesMax, 'l'));
  put("s", "small");
  EXPECT_THAT(read("ls"), ::testing::ElementsAre(kOk, kLeftOut));
  EXPECT_THAT(read("sl"), ::testing::ElementsAre(kOk, kLeftOut));
}

TEST_F(MultiGetPageTest, WhatMemoryHasCounts) {
  put("s", "small");
  const std::string large(kBatchBytesMax, 'l');
  std::string key("\1\0s", 3);
  for (const char second : {'s', 'n'}) key.append({1, 0, second});
  page_.in_memory.resize(3);
  page_.in_memory[1].found = MemoryTier::Found::kHit;
  page_.in_memory[1].value = PinnedValue(as_byte_span(large), 1, nullptr, nullptr);
  ASSERT_TRUE(page_.read_missing(*db_, StringList(as_byte_span(key), 3)).ok());
  EXPECT_EQ(databases_.disk(kShard).reads(), 0U);
  page_.build(0);
  EXPECT_EQ(page_.entries[0].status, kLeftOut);
  EXPECT_EQ(page_.entries[1].status, kOk);
  EXPECT_EQ(page_.entries[2].status, kLeftOut);
}

/// Takes reads that are done.
struct DoneReads final : RequestService {
  void answer(PendingRequest&) override { ADD_FAILURE() << "a reader answers nothing"; }
  void read_done(PendingRequest&) override { ++count; }

  int count = 0;
};

TEST(PendingRequest, Run_ReadsNothingOnceItsDeadlineHasPassed) {
  DoneReads done;
  std::atomic<TimeNs> time = 7;
  PendingRequest pending;  // without a shard, which is not looked at
  pending.service = &done;
  pending.deadline_ns = 7;
  pending.time = &time;
  for (const Method method : {Method::kMultiGet, Method::kScan}) {
    pending.method = method;
    pending.status = absl::OkStatus();
    pending.run();
    EXPECT_TRUE(absl::IsDeadlineExceeded(pending.status)) << pending.status;
  }
  EXPECT_EQ(done.count, 2);
}

/// A database whose reads wait until they are let go.
class HeldDb final : public testing::ForwardingDb {
 public:
  using testing::ForwardingDb::ForwardingDb;

  [[nodiscard]] int reads() const { return reads_; }
  void let_go() {
    held_ = false;
    held_.notify_all();
  }

  [[nodiscard]] absl::Status get(std::string_view key, PinnedValue& out) override {
    wait();
    return ForwardingDb::get(key, out);
  }
  [[nodiscard]] absl::StatusOr<ScanEnd> scan(const KeyRange& range, RowVisitor visit) override {
    wait();
    return ForwardingDb::scan(range, visit);
  }

 private:
  void wait() {
    ++reads_;
    held_.wait(true);
  }

  std::atomic<int> reads_ = 0;
  std::atomic<bool> held_ = true;
};

using testing::encoded_multi_get;
using testing::encoded_scan;
using testing::kRoute;
using testing::ShardServerTest;

TEST_F(ShardServerTest, Read_IsNotDoneIfItsCallerGaveUpMeanwhile) {
  auto held_db = std::make_unique<HeldDb>(std::move(db_));
  HeldDb& held = *held_db;
  db_ = std::move(held_db);
  serve();
  const std::string multi_get = encoded_multi_get(kRoute, {"k"});
  const auto busy = world_.send(Method::kMultiGet, multi_get);
  const auto busy_too = world_.send(Method::kMultiGet, multi_get);
  world_.wait_for([&] { return held.reads() == 2; });  // both readers
  constexpr DurationNs kTimeout = kSecond / 2;
  const auto late = world_.send(Method::kMultiGet, multi_get, kTimeout);
  const auto late_scan =
      world_.send(Method::kScan, encoded_scan({.route = kRoute, .rows_max = 9, .bytes_max = 999}), kTimeout);
  world_.wait_for([&] { return server_.stats().requests.reads_deferred == 4; });
  world_.pass(2 * kTimeout);
  world_.wait_for([&] { return absl::IsDeadlineExceeded(late->rpc) && absl::IsDeadlineExceeded(late_scan->rpc); });
  held.let_go();
  world_.wait_for_answers();
  world_.wait_for([&] { return server_.stats().pending_requests == 0; });
  EXPECT_EQ(held.reads(), 2);
  EXPECT_EQ(server_.stats().requests.deadline_expired, 2U);
  EXPECT_EQ(busy->status(), KvStatus::kOk);
  EXPECT_EQ(busy_too->status(), KvStatus::kOk);
}

}  // namespace
}  // namespace skua::kv
