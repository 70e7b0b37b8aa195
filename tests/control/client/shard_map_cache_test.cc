#include "control/client/shard_map_cache.h"

#include <gmock/gmock.h>
#include <grpcpp/grpcpp.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <atomic>
#include <mutex>

#include "control/proto/control.grpc.pb.h"
#include "control/proto/convert.h"
#include "tests/control/client/control_harness.h"

namespace skua::control {
namespace {

using absl::StatusCode;
using testing::HasSubstr;

TEST(ShardMapCache, StartsEmpty) {
  const ShardMapCache cache({.control_address = "127.0.0.1:1"});
  EXPECT_EQ(cache.revision(), 0u);
  EXPECT_EQ(cache.snapshot()->find_table("t"), nullptr);
}

TEST(ShardMapCache, SeesTheMapAndItsChanges) {
  ControlHarness control;
  const auto node = start_node(control, 1);
  AdminClient admin(control.address(), kGenerous);
  std::mutex mutex;
  std::vector<uint64_t> revisions;
  ShardMapCache cache({.control_address = control.address(), .on_change = [&](std::shared_ptr<const ShardMap> map) {
                         std::lock_guard lock(mutex);
                         revisions.push_back(map->revision);
                       }});
  cache.start();
  ASSERT_TRUE(cache.wait_for_revision(2, kGenerous).ok());
  EXPECT_EQ(cache.snapshot()->cluster_id, kClusterId);

  const auto created = admin.create_table({.name = "t", .shard_count = 4});
  ASSERT_TRUE(created.ok()) << created.status();
  ASSERT_TRUE(cache.wait_for_revision(created->map_revision, kGenerous).ok());
  const auto map = cache.snapshot();
  const auto owner = map->owner(created->table.table.id, 3);
  ASSERT_TRUE(owner.has_value());
  EXPECT_EQ(owner->node->grpc_address, "host-1:7500");
  EXPECT_EQ(owner->epoch, 1u);

  const auto dropped = admin.drop_table("t");
  ASSERT_TRUE(dropped.ok());
  ASSERT_TRUE(cache.wait_for_revision(*dropped, kGenerous).ok());
  EXPECT_EQ(cache.snapshot()->find_table("t"), nullptr);
  EXPECT_NE(map->find_table("t"), nullptr) << "snapshots never change";
  cache.stop();
  EXPECT_TRUE(std::is_sorted(revisions.begin(), revisions.end()));
  EXPECT_EQ(revisions.back(), *dropped);
}

TEST(ShardMapCache, WaitUntilTakesAnyCondition) {
  ControlHarness control;
  ShardMapCache cache({.control_address = control.address()});
  cache.start();
  const auto node = start_node(control, 5);
  EXPECT_TRUE(
      cache.wait_until([](const ShardMap& map) { return map.find_node(test_uuid(5)) != nullptr; }, kGenerous).ok());
}

TEST(ShardMapCache, ForeignClusterFailsAtOnce) {
  ControlHarness control;
  ShardMapCache cache({.control_address = control.address(), .cluster_id = test_uuid(99)});
  cache.start();
  const auto status = cache.wait_for_revision(1, kGenerous);
  EXPECT_EQ(status.code(), StatusCode::kFailedPrecondition);
  EXPECT_THAT(std::string(status.message()), HasSubstr(kClusterId));
}

TEST(ShardMapCache, NobodyThereIsADeadlineWithTheReason) {
  std::atomic<int> troubles = 0;
  ShardMapCache cache({.control_address = "127.0.0.1:1", .on_trouble = [&](const absl::Status&) { ++troubles; }});
  EXPECT_EQ(cache.connection().code(), StatusCode::kUnknown);
  cache.start();
  EXPECT_TRUE(eventually([&] { return cache.connection().code() == StatusCode::kUnavailable; }));
  EXPECT_THAT(std::string(cache.connection().message()), HasSubstr("127.0.0.1:1"));
  const auto status = cache.wait_for_revision(1, 10 * kMillisecond);
  EXPECT_EQ(status.code(), StatusCode::kDeadlineExceeded);
  EXPECT_THAT(std::string(status.message()), HasSubstr("cannot be reached"));
}

/// Says nothing in a first watch, as one whose connection is gone.
class SilentMaps final : public v1::ShardMap::Service {
 public:
  grpc::Status WatchShardMap(grpc::ServerContext* context, const v1::WatchShardMapRequest* /*request*/,
                             grpc::ServerWriter<v1::WatchShardMapReply>* stream) override {
    if (++watches > 1) {
      ShardMap map;
      map.cluster_id = kClusterId;
      map.revision = kRevision;
      v1::WatchShardMapReply reply;
      *reply.mutable_map() = to_proto(map);
      stream->Write(reply);
    }
    EXPECT_TRUE(eventually([&] { return context->IsCancelled(); }));
    return grpc::Status::CANCELLED;
  }

  static constexpr uint64_t kRevision = 5;
  std::atomic<int> watches = 0;
};

TEST(ShardMapCache, AWatchThatLacksWhatThereIsIsOpenedAnew) {
  SilentMaps maps;
  int port = 0;
  const auto server = grpc::ServerBuilder()
                          .AddListeningPort("127.0.0.1:0", grpc::InsecureServerCredentials(), &port)
                          .RegisterService(&maps)
                          .BuildAndStart();
  ASSERT_NE(server, nullptr);
  ShardMapCache cache({.control_address = "127.0.0.1:" + std::to_string(port), .late_after_ns = kSecond});
  cache.start();
  ASSERT_TRUE(eventually([&] { return maps.watches == 1; }));
  EXPECT_TRUE(eventually([&] {
    cache.expect(SilentMaps::kRevision);
    return cache.revision() == SilentMaps::kRevision;
  }));
  const int opened = maps.watches;
  EXPECT_GE(opened, 2);
  cache.expect(SilentMaps::kRevision);
  cache.expect(SilentMaps::kRevision);
  cache.stop();
  EXPECT_EQ(maps.watches, opened) << "a map that is there is nothing to wait for";
}

TEST(ShardMapCache, ManyWatchersAllSeeTheLastMap) {
  ControlHarness control;
  const auto node = start_node(control, 1);
  AdminClient admin(control.address(), kGenerous);
  std::vector<std::unique_ptr<ShardMapCache>> caches;
  for (int i = 0; i < 20; ++i) {
    caches.push_back(std::make_unique<ShardMapCache>(ShardMapCacheOptions{.control_address = control.address()}));
    caches.back()->start();
  }
  uint64_t last = 0;
  for (int i = 0; i < 20; ++i) {
    const auto created = admin.create_table({.name = "t" + std::to_string(i), .shard_count = 64});
    ASSERT_TRUE(created.ok()) << created.status();
    last = created->map_revision;
  }
  for (const auto& cache : caches) {
    ASSERT_TRUE(cache->wait_for_revision(last, kGenerous).ok());
    EXPECT_EQ(cache->snapshot()->tables.size(), 20u);
  }
  EXPECT_EQ(admin.status()->watcher_count, 20u);
  caches.clear();
  EXPECT_TRUE(eventually([&] { return admin.status()->watcher_count == 0; }));
}

}  // namespace
}  // namespace skua::control
