#include "kvstore/node/shard_manager.h"

#include <gtest/gtest.h>

#include <array>
#include <filesystem>
#include <fstream>
#include <future>

#include "kvstore/storage/shard_files.h"
#include "tests/kvstore/node/fake_worker.h"
#include "tests/kvstore/node/map_testing.h"
#include "tests/kvstore/shard/engine_testing.h"

namespace skua::kv {
namespace {

using testing::FakeWorker;
using testing::kCluster;
using testing::kUs;
using testing::MapMaker;

/// What the thread adds to the lifecycle (shard_lifecycle_test.cc has the rules).
class ShardManagerTest : public ::testing::Test {
 protected:
  ShardManagerTest() {
    std::filesystem::create_directories(dir_);
    unsynced_ = UnsyncedShards::read(files_, 1).value();
    ShardManager::Options options;
    options.lifecycle = {.node_uuid = kUs,
                         .cluster_id = kCluster,
                         .shards_dir = dir_,
                         .files = &files_,
                         .state = {},
                         .unsynced = &*unsynced_};
    options.on_applied = [this](uint64_t revision) { applied(revision); };
    options.reopen_pause_ns = 10 * kMillisecond;
    manager_ = std::make_unique<ShardManager>(std::move(options), *engine_,
                                              std::vector<WorkerCommands*>{&hosts_[0], &hosts_[1]});
    manager_->start();
  }

  void wait_applied(uint64_t revision) {
    std::unique_lock lock(mutex_);
    EXPECT_TRUE(changed_.wait_for(lock, std::chrono::minutes(1), [&] { return applied_ >= revision; }));
  }

  testing::TemporaryDirectory directory_;
  const DirectoryFiles files_{directory_.path()};
  const std::string dir_ = files::shards_dir(directory_.path());
  std::unique_ptr<RocksdbEngine> engine_ = make_rocksdb_engine({.cache_bytes = 8 << 20, .write_buffer_bytes = 8 << 20});
  std::array<FakeWorker, 2> hosts_;
  std::optional<UnsyncedShards> unsynced_;
  std::unique_ptr<ShardManager> manager_;

 private:
  void applied(uint64_t revision) {
    const std::lock_guard lock(mutex_);
    applied_ = revision;
    changed_.notify_all();
  }

  std::mutex mutex_;
  std::condition_variable changed_;
  uint64_t applied_ = 0;
};

TEST_F(ShardManagerTest, SetMap_OlderAndEmptyMapsAreIgnored) {
  manager_->set_map(MapMaker(3).table(1, {{0, 0, 1}}).share());
  wait_applied(3);
  manager_->set_map(MapMaker(2).share());
  manager_->set_map(std::make_shared<const control::ShardMap>());
  manager_->set_map(MapMaker(4).table(1, {{0, 0, 1}}).table(2, {{0, 0, 1}}).share());
  wait_applied(4);
  EXPECT_EQ(hosts_[0].shards().size(), 2u);
}

TEST_F(ShardManagerTest, WhatCannotBeDoneIsTriedAgain) {
  // A file stands where the directory belongs.
  std::ofstream(dir_ + "/1-0") << "in the way";
  manager_->set_map(MapMaker(3).table(1, {{0, 0, 1}}).share());
  hosts_[0].wait_for([](const auto& shards) { return shards.contains({1, 0}) && !shards.at({1, 0}).failure.empty(); });
  EXPECT_EQ(manager_->unserved().count({1, 0}), 1u);
  std::filesystem::remove(dir_ + "/1-0");
  wait_applied(3);
  EXPECT_TRUE(manager_->unserved().empty());
}

TEST_F(ShardManagerTest, WithDb_ADatabaseStaysOpenWhileSomebodyUsesIt) {
  EXPECT_TRUE(absl::IsNotFound(manager_->with_db({1, 0}, [](ShardDb&, uint32_t) { return absl::OkStatus(); })));
  manager_->set_map(MapMaker(3).table(1, {{0, 0, 1}}).share());
  wait_applied(3);
  std::promise<void> used;
  std::promise<void> go_on;
  auto user = std::async(std::launch::async, [&] {
    return manager_->with_db({1, 0}, [&](ShardDb& db, uint32_t worker) {
      EXPECT_EQ(worker, 0U);
      used.set_value();
      go_on.get_future().wait();
      const AppliedEffect put{"key", as_byte_span("v"), 1};
      return db.apply(std::span(&put, 1), 1);
    });
  });
  used.get_future().wait();
  // The worker lets go; the user does not.
  manager_->set_map(MapMaker(4).table(1, {{0, 1, 2}}).table(2, {{0, 0, 1}}).share());
  hosts_[0].let_go({1, 0});
  hosts_[0].wait_for([](const auto& shards) { return shards.contains({2, 0}) && shards.at({2, 0}).db != nullptr; });
  EXPECT_FALSE(hosts_[1].shards().contains({1, 0}));
  go_on.set_value();
  EXPECT_TRUE(user.get().ok());
  wait_applied(4);
  PinnedValue value;
  EXPECT_TRUE(hosts_[1].shards().at({1, 0}).db->get("key", value).ok());
}

}  // namespace
}  // namespace skua::kv
