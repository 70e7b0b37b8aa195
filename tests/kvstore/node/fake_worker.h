// A worker for tests of those who tell workers what to do with shards.
#ifndef SKUA_TESTS_KVSTORE_NODE_FAKE_WORKER_H_
#define SKUA_TESTS_KVSTORE_NODE_FAKE_WORKER_H_

#include <gtest/gtest.h>

#include <chrono>
#include <condition_variable>
#include <functional>
#include <map>
#include <mutex>
#include <string>
#include <utility>
#include <vector>

#include "kvstore/worker/worker_commands.h"

namespace skua::kv::testing {

/// Does at once what it is told, except for remove(): the shards stay busy until let_go(). Thread: any.
class FakeWorker final : public WorkerCommands {
 public:
  struct Shard {
    uint64_t epoch = 0;
    ShardDb* db = nullptr;
    std::string failure{};
    // Of a replica.
    ReplicaNotes notes{};
    bool unsynced_allowed = false;
    View view{};
    ReplicaPlaces places{};
    uint64_t persisted_epoch = 0;
    friend bool operator==(const Shard&, const Shard&) = default;
  };

  void expect(ShardId id, uint64_t epoch) override {
    const std::lock_guard lock(mutex_);
    shards_[id].epoch = epoch;
    changed_.notify_all();
  }
  void serve(ShardId id, ShardDb& db) override {
    const std::lock_guard lock(mutex_);
    shards_[id].db = &db;
    changed_.notify_all();
  }
  void serve_replica(ShardId id, ShardDb& db, const ReplicaNotes& notes) override {
    const std::lock_guard lock(mutex_);
    shards_[id].db = &db;
    shards_[id].notes = notes;
    changed_.notify_all();
  }
  void set_view(ShardId id, const View& view, const ReplicaPlaces& places) override {
    const std::lock_guard lock(mutex_);
    shards_[id].view = view;
    shards_[id].places = places;
    changed_.notify_all();
  }
  void view_persisted(ShardId id, uint64_t epoch) override {
    const std::lock_guard lock(mutex_);
    shards_[id].persisted_epoch = epoch;
    changed_.notify_all();
  }
  void unsynced_allowed(ShardId id) override {
    const std::lock_guard lock(mutex_);
    shards_[id].unsynced_allowed = true;
    changed_.notify_all();
  }
  void set_peers(std::vector<PeerInfo> peers) override {
    const std::lock_guard lock(mutex_);
    peers_ = std::move(peers);
  }
  void set_failed(ShardId id, std::string why) override {
    const std::lock_guard lock(mutex_);
    shards_[id].failure = std::move(why);
    changed_.notify_all();
  }
  void remove(ShardId id, std::function<void()> on_idle) override {
    const std::lock_guard lock(mutex_);
    shards_.erase(id);
    leaving_[id] = std::move(on_idle);
    changed_.notify_all();
  }
  void set_map_revision(uint64_t) override {}
  std::vector<PeerInfo> peers() {
    const std::lock_guard lock(mutex_);
    return peers_;
  }

  void let_go(ShardId id) {
    std::unique_lock lock(mutex_);
    ASSERT_TRUE(changed_.wait_for(lock, std::chrono::minutes(1), [&] { return leaving_.contains(id); }));
    auto on_idle = std::move(leaving_[id]);
    leaving_.erase(id);
    lock.unlock();
    on_idle();
  }
  void forget() {
    const std::lock_guard lock(mutex_);
    shards_.clear();
    leaving_.clear();
  }
  void wait_for(const std::function<bool(const std::map<ShardId, Shard>&)>& condition) {
    std::unique_lock lock(mutex_);
    EXPECT_TRUE(changed_.wait_for(lock, std::chrono::minutes(1), [&] { return condition(shards_); }));
  }
  std::map<ShardId, Shard> shards() {
    const std::lock_guard lock(mutex_);
    return shards_;
  }

 private:
  std::mutex mutex_;
  std::condition_variable changed_;
  std::map<ShardId, Shard> shards_;
  std::map<ShardId, std::function<void()>> leaving_;
  std::vector<PeerInfo> peers_;
};

}  // namespace skua::kv::testing

#endif  // SKUA_TESTS_KVSTORE_NODE_FAKE_WORKER_H_
