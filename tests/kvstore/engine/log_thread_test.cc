#include "kvstore/engine/log_thread.h"

#include <gtest/gtest.h>

#include <condition_variable>
#include <memory>
#include <mutex>
#include <string>
#include <thread>
#include <vector>

#include "tests/kvstore/engine/engine_testing.h"

namespace skua::kv {
namespace {

using testing::FakeShardStore;

/// Collects what on_group_done tells.
class Collector {
 public:
  struct Done {
    std::string key;
    MutationResult result;
    void* context;
  };

  LogThread::GroupDone callback() {
    return [this](std::span<const LogEntry> group) {
      const std::lock_guard lock(mutex_);
      ++groups_;
      for (const LogEntry& entry : group) {
        done_.push_back({std::string(entry.mutation.key), entry.result, entry.context});
      }
      changed_.notify_all();
    };
  }
  std::vector<Done> wait_for(size_t count) {
    std::unique_lock lock(mutex_);
    changed_.wait(lock, [&] { return done_.size() >= count; });
    return done_;
  }
  size_t groups() {
    const std::lock_guard lock(mutex_);
    return groups_;
  }
  size_t size() {
    const std::lock_guard lock(mutex_);
    return done_.size();
  }

 private:
  std::mutex mutex_;
  std::condition_variable changed_;
  std::vector<Done> done_;
  size_t groups_ = 0;
};

std::vector<std::string> make_keys(size_t count) {
  std::vector<std::string> keys;
  for (size_t i = 0; i < count; ++i) keys.push_back("key" + std::to_string(i));
  return keys;
}

TEST(LogThreadTest, Submit_ResultCarriesContextAndVersion) {
  FakeShardStore store;
  Collector collector;
  LogThread log({}, collector.callback());
  int context = 0;
  ASSERT_TRUE(log.submit(store, Mutation::put("a", as_byte_span("1")), &context).ok());
  const auto done = collector.wait_for(1);
  EXPECT_EQ(done[0].key, "a");
  EXPECT_EQ(done[0].result, (MutationResult{KvStatus::kOk, 1}));
  EXPECT_EQ(done[0].context, &context);
}

TEST(LogThreadTest, Group_TakesAllThatGatheredDuringTheLastSync) {
  FakeShardStore store;
  Collector collector;
  LogThread log({}, collector.callback());
  const auto keys = make_keys(51);
  store.close();
  ASSERT_TRUE(log.submit(store, Mutation::put(keys[0], {}), nullptr).ok());
  store.wait_until_applying();
  for (size_t i = 1; i < keys.size(); ++i) {
    ASSERT_TRUE(log.submit(store, Mutation::put(keys[i], {}), nullptr).ok());
  }
  EXPECT_EQ(collector.size(), 0U) << "nothing is acknowledged before it is applied";
  store.open();
  const auto done = collector.wait_for(51);
  EXPECT_EQ(collector.groups(), 2U);
  ASSERT_EQ(store.groups().size(), 2U);
  EXPECT_EQ(store.groups()[1], std::vector<std::string>(keys.begin() + 1, keys.end()));
  for (size_t i = 0; i < keys.size(); ++i) {
    EXPECT_EQ(done[i].key, keys[i]);
    EXPECT_EQ(done[i].result.version, i + 1);
  }
  log.stop();
  EXPECT_EQ(log.counters().groups, 2U);
  EXPECT_EQ(log.counters().mutations, 51U);
}

TEST(LogThreadTest, Group_KeepsToItsLimits) {
  FakeShardStore store;
  Collector collector;
  LogThread log({.group_ops_max = 10, .group_bytes_max = 1000}, collector.callback());
  const auto keys = make_keys(26);
  const std::string large(600, 'v');
  store.close();
  ASSERT_TRUE(log.submit(store, Mutation::put(keys[0], {}), nullptr).ok());
  store.wait_until_applying();
  for (size_t i = 1; i < 21; ++i) ASSERT_TRUE(log.submit(store, Mutation::put(keys[i], {}), nullptr).ok());
  for (size_t i = 21; i < 26; ++i) {
    ASSERT_TRUE(log.submit(store, Mutation::put(keys[i], as_byte_span(large)), nullptr).ok());
  }
  store.open();
  collector.wait_for(26);
  std::vector<size_t> sizes;
  for (const auto& group : store.groups()) sizes.push_back(group.size());
  EXPECT_EQ(sizes, (std::vector<size_t>{1, 10, 10, 2, 2, 1}));
}

TEST(LogThreadTest, Shards_EachInItsOrder) {
  for (const int lanes : {1, 2, 4}) {
    constexpr size_t kShards = 7;
    std::vector<std::unique_ptr<FakeShardStore>> stores;
    for (uint32_t i = 0; i < kShards; ++i) stores.push_back(std::make_unique<FakeShardStore>(ShardId{1, i}));
    Collector collector;
    LogThread log({.lanes = lanes}, collector.callback());
    const auto keys = make_keys(2000);
    Rng rng(static_cast<uint64_t>(lanes));
    std::vector<std::vector<std::string>> expected(kShards);
    for (const std::string& key : keys) {
      const size_t shard = rng.below(kShards);
      expected[shard].push_back(key);
      ASSERT_TRUE(log.submit(*stores[shard], Mutation::put(key, {}), nullptr).ok());
    }
    collector.wait_for(keys.size());
    for (size_t i = 0; i < kShards; ++i) {
      std::vector<std::string> applied;
      for (const auto& group : stores[i]->groups()) applied.insert(applied.end(), group.begin(), group.end());
      EXPECT_EQ(applied, expected[i]) << "shard " << i << " lanes " << lanes;
    }
  }
}

TEST(LogThreadTest, Shards_AreAppliedSideBySide) {
  // The first shard's disk hangs until the second one's mutation is applied: only with two lanes does this end.
  FakeShardStore slow({1, 0});
  FakeShardStore quick({1, 1});
  FakeShardStore gate({1, 2});
  Collector collector;
  LogThread log({.lanes = 2}, collector.callback());
  gate.close();
  ASSERT_TRUE(log.submit(gate, Mutation::put("g", {}), nullptr).ok());
  gate.wait_until_applying();  // the next two go into one group
  slow.close();
  ASSERT_TRUE(log.submit(slow, Mutation::put("s", {}), nullptr).ok());
  ASSERT_TRUE(log.submit(quick, Mutation::put("q", {}), nullptr).ok());
  gate.open();
  slow.wait_until_applying();
  while (quick.groups().empty()) std::this_thread::yield();
  EXPECT_EQ(collector.size(), 1U) << "a group is done when its last shard is";
  slow.open();
  collector.wait_for(3);
  EXPECT_EQ(collector.groups(), 2U);
}

TEST(LogThreadTest, Shards_NoResultBeforeEachLaneIsDone) {
  FakeShardStore gate({1, 0});
  FakeShardStore first({1, 1});
  FakeShardStore second({1, 2});
  // Whichever of the two the log thread itself takes: it must wait for the other.
  for (auto [opened, held] : {std::pair{&first, &second}, std::pair{&second, &first}}) {
    Collector collector;
    LogThread log({.lanes = 2}, collector.callback());
    gate.close();
    ASSERT_TRUE(log.submit(gate, Mutation::put("g", {}), nullptr).ok());
    gate.wait_until_applying();  // the next two go into one group
    first.close();
    second.close();
    ASSERT_TRUE(log.submit(first, Mutation::put("f", {}), nullptr).ok());
    ASSERT_TRUE(log.submit(second, Mutation::put("s", {}), nullptr).ok());
    gate.open();
    first.wait_until_applying();
    second.wait_until_applying();
    const size_t groups_before = opened->groups().size();
    opened->open();
    while (opened->groups().size() == groups_before) std::this_thread::yield();
    for (int i = 0; i < 200; ++i) std::this_thread::yield();
    EXPECT_EQ(collector.size(), 1U);
    held->open();
    for (const auto& done : collector.wait_for(3)) EXPECT_NE(done.result.version, 0U) << done.key;
  }
}

TEST(LogThreadTest, Submit_RefusesWhenFull) {
  FakeShardStore store;
  Collector collector;
  LogThread log({.queue_ops_max = 8}, collector.callback());
  const auto keys = make_keys(20);
  store.close();
  ASSERT_TRUE(log.submit(store, Mutation::put(keys[0], {}), nullptr).ok());
  store.wait_until_applying();
  size_t accepted = 1;
  absl::Status refusal;
  for (size_t i = 1; i < keys.size(); ++i) {
    const absl::Status status = log.submit(store, Mutation::put(keys[i], {}), nullptr);
    if (status.ok()) {
      ++accepted;
    } else {
      refusal = status;
    }
  }
  EXPECT_EQ(accepted, 9U);
  EXPECT_EQ(refusal.code(), absl::StatusCode::kResourceExhausted);
  EXPECT_NE(refusal.message().find("kLogQueueOpsMax of 8"), absl::string_view::npos) << refusal;
  store.open();
  log.stop();
  EXPECT_EQ(collector.size(), accepted) << "the refused ones are not told of";
  EXPECT_EQ(log.counters().refused, keys.size() - accepted);
}

TEST(LogThreadTest, FailedWrite_FailsItsGroupAndRefusesTheNext) {
  FakeShardStore bad({1, 0});
  FakeShardStore good({1, 1});
  Collector collector;
  LogThread log({}, collector.callback());
  bad.fail_after(2);
  ASSERT_TRUE(log.submit(bad, Mutation::put("a", {}), nullptr).ok());
  EXPECT_EQ(collector.wait_for(1)[0].result.status, KvStatus::kOk);
  ASSERT_TRUE(log.submit(bad, Mutation::put("b", {}), nullptr).ok());
  EXPECT_EQ(collector.wait_for(2)[1].result.status, KvStatus::kStorageFailed);
  ASSERT_TRUE(log.submit(bad, Mutation::put("c", {}), nullptr).ok());
  EXPECT_EQ(collector.wait_for(3)[2].result.status, KvStatus::kShardReadOnly);
  ASSERT_TRUE(log.submit(good, Mutation::put("d", {}), nullptr).ok());
  EXPECT_EQ(collector.wait_for(4)[3].result.status, KvStatus::kOk) << "other shards go on";
}

TEST(LogThreadTest, Stop_AppliesWhatIsQueued) {
  FakeShardStore store;
  Collector collector;
  LogThread log({.group_ops_max = 10}, collector.callback());
  const auto keys = make_keys(100);
  store.close();
  for (const std::string& key : keys) ASSERT_TRUE(log.submit(store, Mutation::put(key, {}), nullptr).ok());
  std::thread opener([&] { store.open(); });
  log.stop();
  opener.join();
  EXPECT_EQ(collector.size(), keys.size());
  EXPECT_EQ(log.submit(store, Mutation::put("late", {}), nullptr).code(), absl::StatusCode::kUnavailable);
  log.stop();
}

TEST(LogThreadTest, Submit_FromManyThreads) {
  FakeShardStore store;
  Collector collector;
  LogThread log({}, collector.callback());
  const auto keys = make_keys(3000);
  std::vector<std::thread> submitters;
  for (size_t first = 0; first < 3; ++first) {
    submitters.emplace_back([&, first] {
      for (size_t i = first; i < keys.size(); i += 3) {
        while (!log.submit(store, Mutation::put(keys[i], {}), nullptr).ok()) std::this_thread::yield();
      }
    });
  }
  for (std::thread& thread : submitters) thread.join();
  EXPECT_EQ(collector.wait_for(keys.size()).size(), keys.size());
}

}  // namespace
}  // namespace skua::kv
