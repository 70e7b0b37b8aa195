#include "control/server/map_hub.h"

#include <gtest/gtest.h>

#include "control/server/controller_limits.h"

namespace skua::control {
namespace {

ShardMap map_of(uint64_t revision) {
  ShardMap map;
  map.revision = revision;
  return map;
}

class Recorder final : public MapWatcher {
 public:
  void offer(const MapMessage& map) override { revisions.push_back(map->map().revision()); }
  void close(const absl::Status&) override { closed = true; }
  std::vector<uint64_t> revisions;
  bool closed = false;
};

TEST(MapHub, NewWatcherGetsTheCurrentMapThenEachChange) {
  MapHub hub;
  hub.publish(map_of(3));
  const auto watcher = std::make_shared<Recorder>();
  ASSERT_TRUE(hub.add(watcher, 0).ok());
  hub.publish(map_of(4));
  EXPECT_EQ(watcher->revisions, (std::vector<uint64_t>{3, 4}));
  EXPECT_EQ(hub.current()->map().revision(), 4u);
}

TEST(MapHub, WatcherThatHasTheMapGetsAnEmptyMessage) {
  MapHub hub;
  hub.publish(map_of(3));
  const auto watcher = std::make_shared<Recorder>();
  ASSERT_TRUE(hub.add(watcher, 3).ok());
  EXPECT_EQ(watcher->revisions, (std::vector<uint64_t>{0}));
}

TEST(MapHub, WatcherWithANewerMapGetsOurs) {
  MapHub hub;
  hub.publish(map_of(3));
  const auto watcher = std::make_shared<Recorder>();
  ASSERT_TRUE(hub.add(watcher, 7).ok());
  EXPECT_EQ(watcher->revisions, (std::vector<uint64_t>{3}));
}

TEST(MapHub, RemovedWatcherHearsNothing) {
  MapHub hub;
  const auto watcher = std::make_shared<Recorder>();
  const auto key = hub.add(watcher, 0);
  hub.remove(*key);
  hub.publish(map_of(1));
  EXPECT_EQ(watcher->revisions, (std::vector<uint64_t>{0}));
  EXPECT_EQ(hub.watcher_count(), 0u);
}

TEST(MapHub, RefusesAtTheLimitAndAfterClose) {
  MapHub hub;
  const auto watcher = std::make_shared<Recorder>();
  for (size_t i = 0; i < kWatchersMax; ++i) ASSERT_TRUE(hub.add(watcher, 0).ok());
  EXPECT_EQ(hub.add(watcher, 0).status().code(), absl::StatusCode::kResourceExhausted);
  hub.close();
  EXPECT_TRUE(watcher->closed);
  hub.remove(1);
  EXPECT_EQ(hub.add(watcher, 0).status().code(), absl::StatusCode::kUnavailable);
}

TEST(MapHub, OneHostLeavesRoomForOthers) {
  MapHub hub;
  const auto watcher = std::make_shared<Recorder>();
  const auto first = hub.add(watcher, 0, "flood");
  for (size_t i = 1; i < kWatchersPerSourceMax; ++i) ASSERT_TRUE(hub.add(watcher, 0, "flood").ok());
  const absl::Status refused = hub.add(watcher, 0, "flood").status();
  EXPECT_EQ(refused.code(), absl::StatusCode::kResourceExhausted);
  EXPECT_NE(std::string(refused.message()).find("try again"), std::string::npos);
  EXPECT_TRUE(hub.add(watcher, 0, "another").ok());
  hub.remove(*first);
  hub.remove(*first);
  EXPECT_TRUE(hub.add(watcher, 0, "flood").ok()) << "one went, one may come";
  EXPECT_FALSE(hub.add(watcher, 0, "flood").ok());
}

TEST(MapHub, HowManyOneHostHasIsAnOption) {
  MapHub hub(2);
  const auto watcher = std::make_shared<Recorder>();
  EXPECT_TRUE(hub.add(watcher, 0, "host").ok());
  EXPECT_TRUE(hub.add(watcher, 0, "host").ok());
  const absl::Status refused = hub.add(watcher, 0, "host").status();
  EXPECT_EQ(refused.code(), absl::StatusCode::kResourceExhausted);
  EXPECT_NE(std::string(refused.message()).find("2 clients on host"), std::string::npos);
  EXPECT_NE(std::string(refused.message()).find("--watches-per-host"), std::string::npos);
}

TEST(MapHub, OthersLeaveRoomForNodes) {
  constexpr size_t kKept = 3;
  MapHub hub(kWatchersMax, kKept);
  const auto watcher = std::make_shared<Recorder>();
  const auto first = hub.add(watcher, 0, "", WatcherKind::kAnonymous);
  for (size_t i = 1; i < kWatchersMax - kKept; ++i) ASSERT_TRUE(hub.add(watcher, 0).ok());
  EXPECT_EQ(hub.add(watcher, 0).status().code(), absl::StatusCode::kResourceExhausted);
  EXPECT_FALSE(hub.add(watcher, 0, "", WatcherKind::kAnonymous).ok());
  for (size_t i = 0; i < kKept; ++i) ASSERT_TRUE(hub.add(watcher, 0, "", WatcherKind::kNode).ok());
  EXPECT_FALSE(hub.add(watcher, 0, "", WatcherKind::kNode).ok());
  hub.remove(*first);
  EXPECT_TRUE(hub.add(watcher, 0).ok()) << "one went, one may come";
}

TEST(MapHub, SuspendedUntilTheNextMap) {
  MapHub hub;
  hub.publish(map_of(3));
  const auto before = std::make_shared<Recorder>();
  ASSERT_TRUE(hub.add(before, 0).ok());
  hub.suspend(absl::UnavailableError("another leads"));
  EXPECT_TRUE(before->closed);
  EXPECT_EQ(hub.current(), nullptr);
  EXPECT_EQ(hub.refusal().message(), "another leads");
  const auto after = std::make_shared<Recorder>();
  EXPECT_EQ(hub.add(after, 0).status().message(), "another leads");
  hub.publish(map_of(4));
  ASSERT_TRUE(hub.add(after, 0).ok());
  EXPECT_EQ(after->revisions, (std::vector<uint64_t>{4}));
}

}  // namespace
}  // namespace skua::control
