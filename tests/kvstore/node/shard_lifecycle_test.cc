#include "kvstore/node/shard_lifecycle.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <array>
#include <filesystem>
#include <fstream>

#include "kvstore/peers/peer_identity.h"
#include "kvstore/storage/shard_files.h"
#include "tests/kvstore/node/fake_worker.h"
#include "tests/kvstore/node/map_testing.h"
#include "tests/kvstore/shard/engine_testing.h"

namespace skua::kv {
namespace {

using ::testing::ElementsAre;
using testing::FakeWorker;
using ::testing::HasSubstr;
using ::testing::IsEmpty;
using testing::kCluster;
using testing::kThem;
using testing::kUs;
using testing::MapMaker;

std::shared_ptr<const control::ShardMap> share(control::ShardMap map) {
  return std::make_shared<const control::ShardMap>(std::move(map));
}

/// A node with two workers. Databases are released as soon as their worker lets go.
class ShardLifecycleTest : public ::testing::Test, private ShardLifecycleHost {
 protected:
  ShardLifecycleTest() {
    std::filesystem::create_directories(dir_);
    start();
  }
  ~ShardLifecycleTest() override { stop(); }

  void start() {
    unsynced_ = UnsyncedShards::read(files_, boot_).value();
    ShardLifecycle::Options options{.node_uuid = kUs,
                                    .cluster_id = kCluster,
                                    .shards_dir = dir_,
                                    .files = &files_,
                                    .state = read_state(files_).value(),
                                    .views = read_views(files_).value(),
                                    .unsynced = &*unsynced_,
                                    .shards_per_worker_max = 2};
    ShardLifecycleHost& node = *this;
    lifecycle_ = std::make_unique<ShardLifecycle>(std::move(options), *engine_,
                                                  std::vector<WorkerCommands*>{&hosts_[0], &hosts_[1]}, node);
  }
  void stop() {
    lifecycle_.reset();
    news_ = {};
    unserved_.clear();
    applied_ = 0;
    for (FakeWorker& host : hosts_) host.forget();
  }
  /// As a new process would see it.
  void restart() {
    stop();
    start();
  }

  /// Steps until nothing is left to do, or a step can do no more.
  void run() {
    bool has_news = true;
    while (has_news) {
      static_cast<void>(lifecycle_->step(std::exchange(news_, {})));
      has_news = !news_.empty();
    }
  }
  void set_map(std::shared_ptr<const control::ShardMap> map) {
    news_.map = std::move(map);
    run();
  }
  void persist_view(ShardId id, const View& view) {
    news_.adopted[id] = view;
    run();
  }
  void allow_unsynced(ShardId id) {
    news_.unsynced.allowed.insert(id);
    run();
  }
  void restored(ShardId id) {
    news_.unsynced.restored.insert(id);
    run();
  }
  void replace(ShardId id, const std::string& path) {
    news_.copies[id] = path;
    run();
  }
  void let_go(FakeWorker& host, ShardId id) {
    host.let_go(id);
    run();
  }

  std::vector<ShardId> on_disk() { return engine_->list_shards(dir_).value(); }
  void write(ShardDb& db, std::string_view key) {
    const AppliedEffect put{key, as_byte_span("v"), db.applied_index() + 1};
    ASSERT_TRUE(db.apply(std::span(&put, 1), put.version).ok());
  }

  absl::Status ingest_result_;
  int ingests_ = 0;
  testing::TemporaryDirectory directory_;
  const DirectoryFiles files_{directory_.path()};
  const std::string dir_ = files::shards_dir(directory_.path());
  std::unique_ptr<RocksdbEngine> engine_ = make_rocksdb_engine({.cache_bytes = 8 << 20, .write_buffer_bytes = 8 << 20});
  std::array<FakeWorker, 2> hosts_;
  uint64_t boot_ = 1;
  uint64_t applied_ = 0;
  std::map<ShardId, UnservedShard> unserved_;

 private:
  // ShardLifecycleHost
  void database_opened(ShardId /*id*/, ShardDb& /*db*/, uint32_t /*worker*/) override {}
  void released_by_worker(ShardId id) override { news_.released.push_back(id); }
  ShardViews take_adopted() override { return std::exchange(news_.adopted, {}); }
  /// A copy: a database with one row more than none.
  absl::Status ingest_copy(ShardId id, const std::string& path) override {
    ++ingests_;
    if (!ingest_result_.ok()) return ingest_result_;
    EXPECT_TRUE(std::filesystem::exists(path));
    EXPECT_TRUE(on_disk().empty());
    const auto db = engine_->open_db(dir_, id);
    if (db.ok()) write(**db, "copied");
    return db.ok() ? (*db)->flush().status() : db.status();
  }
  absl::Status discard_copy(const std::string& path) override { return files::remove_tree(path); }
  void map_applied(uint64_t revision) override { applied_ = revision; }
  void unserved_changed(const std::map<ShardId, UnservedShard>& unserved) override { unserved_ = unserved; }

  std::optional<UnsyncedShards> unsynced_;
  std::unique_ptr<ShardLifecycle> lifecycle_;
  ShardNews news_;
};

TEST_F(ShardLifecycleTest, SetMap_OpensWhatWeOwnOnTheRightWorker) {
  set_map(MapMaker(3).table(1, {{0, 0, 1}, {1, 0, 1}, {0, 1, 4}}).share());
  const auto first = hosts_[0].shards();
  const auto second = hosts_[1].shards();
  ASSERT_EQ(first.size(), 1u);
  ASSERT_EQ(second.size(), 1u);
  EXPECT_NE(first.at({1, 0}).db, nullptr);
  EXPECT_EQ(second.at({1, 2}).epoch, 4u);
  EXPECT_THAT(on_disk(), ElementsAre(ShardId{1, 0}, ShardId{1, 2}));
  EXPECT_EQ(read_state(files_)->map_revision, 3u);
}

/// A table of one shard with two members, led by `primary` (index of the node).
control::ShardMap replicated_map(uint64_t revision, uint64_t epoch, uint32_t primary) {
  control::ShardMap map = MapMaker(revision).table(1, {{primary, 0, epoch}}).map();
  control::MapTable& table = map.tables.front();
  table.replicas = 2;
  table.min_insync = 2;
  table.shards.front().change = epoch;
  table.shards.front().primary->storage_incarnation = 1;
  table.shards.front().backups.push_back({1 - primary, 1, 1});
  return map;
}

/// What follows replicated_map(3, 1, 1): the control plane goes on without this replica, and then has it learn.
control::ShardMap with_us_as_learner(control::ShardMap map) {
  control::MapShard& shard = map.tables.front().shards.front();
  shard.epoch = shard.change = 2;
  shard.learners.push_back({shard.backups.front(), 0});
  shard.backups.clear();
  map.revision = 4;
  return map;
}

TEST_F(ShardLifecycleTest, SetMap_AReplicaIsOpenedWithItsViewAlsoWhereItDoesNotLead) {
  set_map(share(replicated_map(3, 1, 1)));
  EXPECT_EQ(applied_, 3U);
  const FakeWorker::Shard shard = hosts_[1].shards().at({1, 0});
  EXPECT_NE(shard.db, nullptr);
  EXPECT_EQ(shard.notes.view, View{});
  EXPECT_EQ(shard.view.epoch, 1u);
  EXPECT_EQ(shard.view.primary, node_id_of(std::string(kThem)));
  EXPECT_EQ(shard.view.members.size(), 2u);
  EXPECT_EQ(shard.view.min_insync, 2u);
  EXPECT_EQ(shard.places,
            (ReplicaPlaces{{node_id_of(std::string(kUs)), {1, 1}}, {node_id_of(std::string(kThem)), {0, 1}}}));
  ASSERT_EQ(hosts_[1].peers().size(), 1u);
  EXPECT_EQ(hosts_[1].peers()[0].uuid, kThem);
}

TEST_F(ShardLifecycleTest, SetMap_TellsWhatPeersAreTooOldFor) {
  control::ShardMap map = replicated_map(3, 1, 1);
  for (const uint32_t version : {2U, 3U, 4U}) {
    ++map.revision;
    for (control::MapNode& node : map.nodes) node.replication_version = version;
    set_map(share(map));
    ASSERT_EQ(hosts_[1].peers().size(), 1u);
    EXPECT_EQ(hosts_[1].peers()[0].vouches, version >= 3) << version;
    EXPECT_EQ(hosts_[1].peers()[0].takes_marks, version >= 4) << version;
  }
}

TEST_F(ShardLifecycleTest, SetMap_ARevokedNodeIsNoPeer) {
  control::ShardMap map = replicated_map(3, 1, 1);
  map.denied = {std::string("node/") + std::string(kThem)};
  set_map(share(map));
  EXPECT_TRUE(hosts_[1].peers().empty());
  map.revision = 4;
  map.denied.clear();
  set_map(share(map));
  EXPECT_EQ(hosts_[1].peers().size(), 1u);
}

TEST_F(ShardLifecycleTest, PersistView_IsDurableBeforeTheReplicaHearsOfIt) {
  set_map(share(replicated_map(3, 1, 1)));
  EXPECT_EQ(applied_, 3U);
  const View view = hosts_[1].shards().at({1, 0}).view;
  persist_view({1, 0}, view);
  EXPECT_TRUE(hosts_[1].shards().at({1, 0}).persisted_epoch == 1);
  EXPECT_EQ(read_views(files_)->at({1, 0}), view);
  restart();
  set_map(share(replicated_map(4, 2, 0)));
  EXPECT_EQ(applied_, 4U);
  EXPECT_EQ(hosts_[0].shards().at({1, 0}).notes.view, view);
  EXPECT_EQ(hosts_[0].shards().at({1, 0}).view.epoch, 2u);
}

TEST_F(ShardLifecycleTest, AllowUnsynced_IsDurableBeforeTheReplicaHearsOfItAndADoubtInTheNextBoot) {
  set_map(share(replicated_map(3, 1, 1)));
  EXPECT_EQ(applied_, 3U);
  EXPECT_EQ(hosts_[1].shards().at({1, 0}).notes, ReplicaNotes{});
  allow_unsynced({1, 0});
  EXPECT_TRUE(hosts_[1].shards().at({1, 0}).unsynced_allowed);
  EXPECT_TRUE(UnsyncedShards::read(files_, boot_)->is_allowed({1, 0}));
  restart();
  set_map(share(replicated_map(3, 1, 1)));
  EXPECT_EQ(applied_, 3U);
  EXPECT_EQ(hosts_[1].shards().at({1, 0}).notes, (ReplicaNotes{{}, 0, true})) << "the machine has what was written";
  const uint64_t doubt = std::exchange(boot_, 2);
  restart();
  set_map(share(replicated_map(3, 1, 1)));
  EXPECT_EQ(applied_, 3U);
  EXPECT_EQ(hosts_[1].shards().at({1, 0}).notes, (ReplicaNotes{{}, doubt, false}));
  restored({1, 0});
  allow_unsynced({1, 0});
  EXPECT_TRUE(hosts_[1].shards().at({1, 0}).unsynced_allowed);
  EXPECT_TRUE(UnsyncedShards::read(files_, boot_)->is_allowed({1, 0}));
}

TEST_F(ShardLifecycleTest, SetMap_DataOfAnotherForkAreRemovedUnlessItGoesOnWithThem) {
  control::ShardMap map = replicated_map(3, 1, 1);
  set_map(share(map));
  EXPECT_EQ(applied_, 3U);
  write(*hosts_[1].shards().at({1, 0}).db, "given up");
  persist_view({1, 0}, hosts_[1].shards().at({1, 0}).view);
  EXPECT_TRUE(hosts_[1].shards().at({1, 0}).persisted_epoch == 1);
  // The other node went on alone; this one is to learn.
  control::MapShard& shard = map.tables.front().shards.front();
  shard.epoch = shard.change = 2;
  shard.fork = 1;
  shard.learners.push_back({shard.backups.front(), 0});
  shard.backups.clear();
  map.revision = 4;
  set_map(share(map));
  let_go(hosts_[1], {1, 0});
  EXPECT_EQ(applied_, 4U);
  EXPECT_EQ(hosts_[1].shards().at({1, 0}).db->applied_index(), 0u);
  EXPECT_EQ(hosts_[1].shards().at({1, 0}).notes.view.epoch, 0u);
  // As a member it keeps what it has.
  write(*hosts_[1].shards().at({1, 0}).db, "kept");
  shard.epoch = shard.change = 3;
  shard.fork = 2;
  shard.backups.push_back(shard.learners.front().replica);
  shard.learners.clear();
  map.revision = 5;
  set_map(share(map));
  EXPECT_EQ(applied_, 5U);
  EXPECT_EQ(hosts_[1].shards().at({1, 0}).db->applied_index(), 1u);
  EXPECT_EQ(read_views(files_)->at({1, 0}).fork, 2u);
}

/// The replica acknowledges writes that it has not synced, before the fork and after it.
TEST_F(ShardLifecycleTest, SetMap_AForkKeepsTheNoteOfUnsyncedWritesAndEndsADoubt) {
  control::ShardMap map = replicated_map(3, 1, 0);
  set_map(share(map));
  allow_unsynced({1, 0});
  control::MapShard& shard = map.tables.front().shards.front();
  shard.epoch = shard.change = 2;
  shard.fork = 1;
  shard.backups.clear();
  map.revision = 4;
  set_map(share(map));
  EXPECT_EQ(read_views(files_)->at({1, 0}).fork, 1U);
  EXPECT_TRUE(UnsyncedShards::read(files_, boot_)->is_allowed({1, 0}));
  boot_ = 2;
  restart();
  shard.epoch = shard.change = 3;
  shard.fork = 2;
  map.revision = 5;
  set_map(share(map));
  EXPECT_EQ(UnsyncedShards::read(files_, boot_)->doubt({1, 0}), 0U);
}

TEST_F(ShardLifecycleTest, SetMap_AForkThatCannotBeWrittenDownIsTriedAgain) {
  control::ShardMap map = replicated_map(3, 1, 1);
  set_map(share(map));
  EXPECT_EQ(applied_, 3U);
  std::filesystem::create_symlink("/dev/full", directory_.path() + "/views.new");
  control::MapShard& shard = map.tables.front().shards.front();
  shard.epoch = shard.change = 2;
  shard.fork = 1;
  map.revision = 4;
  set_map(share(map));
  EXPECT_EQ(applied_, 3U);
  EXPECT_EQ(hosts_[1].shards().at({1, 0}).view.epoch, 1U);
  ASSERT_TRUE(unserved_.contains({1, 0})) << "the node's status says why the shard waits";
  EXPECT_TRUE(unserved_.at({1, 0}).tried_again);
  std::filesystem::remove(directory_.path() + "/views.new");
  run();
  EXPECT_EQ(applied_, 4U);
  EXPECT_EQ(hosts_[1].shards().at({1, 0}).view.epoch, 2U);
  EXPECT_EQ(read_views(files_)->at({1, 0}).fork, 1u);
  EXPECT_TRUE(unserved_.empty());
}

TEST_F(ShardLifecycleTest, Unserved_IsAReplicaWhoseViewCannotBeMadeDurable) {
  set_map(share(replicated_map(3, 1, 1)));
  std::filesystem::create_symlink("/dev/full", directory_.path() + "/views.new");
  persist_view({1, 0}, hosts_[1].shards().at({1, 0}).view);
  EXPECT_EQ(hosts_[1].shards().at({1, 0}).persisted_epoch, 0U);
  ASSERT_TRUE(unserved_.contains({1, 0}));
  EXPECT_TRUE(absl::IsResourceExhausted(unserved_.at({1, 0}).why)) << unserved_.at({1, 0}).why;
  std::filesystem::remove(directory_.path() + "/views.new");
  run();
  EXPECT_EQ(hosts_[1].shards().at({1, 0}).persisted_epoch, 1U);
  EXPECT_TRUE(unserved_.empty());
}

TEST_F(ShardLifecycleTest, Unserved_IsWhatCannotBeOpenedUntilItCan) {
  std::filesystem::create_directories(dir_ + "/1-0");
  std::ofstream(dir_ + "/1-0/CURRENT") << "nonsense";
  set_map(MapMaker(3).table(1, {{0, 0, 1}, {0, 1, 1}}).share());
  EXPECT_TRUE(hosts_[0].shards().contains({1, 0}) && !hosts_[0].shards().at({1, 0}).failure.empty());
  EXPECT_TRUE(hosts_[1].shards().contains({1, 1}) && hosts_[1].shards().at({1, 1}).db != nullptr);
  EXPECT_EQ(unserved_.size(), 1U);
  const UnservedShard shard = unserved_.at({1, 0});
  EXPECT_TRUE(shard.tried_again);
  EXPECT_NE(shard.why.ToString().find("1-0"), std::string::npos) << shard.why;
  std::filesystem::remove_all(dir_ + "/1-0");  // as if restored
  run();
  EXPECT_EQ(applied_, 3U);
  EXPECT_EQ(unserved_.size(), 0U);
}

TEST_F(ShardLifecycleTest, Unserved_IsEverythingWhileAMapCannotBeWrittenDown) {
  set_map(MapMaker(3).table(1, {{0, 0, 1}}).share());
  std::filesystem::create_symlink("/dev/full", directory_.path() + "/state.new");
  set_map(MapMaker(4).table(1, {{0, 0, 1}, {0, 1, 1}}).share());
  EXPECT_EQ(unserved_.size(), 1U);
  const UnservedShard shard = unserved_.at({1, 1});
  EXPECT_EQ(shard.why.code(), absl::StatusCode::kResourceExhausted) << shard.why;
  EXPECT_TRUE(shard.tried_again);
  std::filesystem::remove(directory_.path() + "/state.new");
  run();
  EXPECT_EQ(applied_, 4U);
  EXPECT_EQ(unserved_.size(), 0U);
}

TEST_F(ShardLifecycleTest, SetMap_ADamagedReplicaIsLearntAgainOnceItIsNoMember) {
  control::ShardMap map = replicated_map(3, 1, 1);
  set_map(share(map));
  EXPECT_EQ(applied_, 3U);
  persist_view({1, 0}, hosts_[1].shards().at({1, 0}).view);
  EXPECT_TRUE(hosts_[1].shards().at({1, 0}).persisted_epoch == 1);
  stop();
  for (const auto& file : std::filesystem::directory_iterator(dir_ + "/1-0")) {
    if (file.path().filename().string().starts_with("MANIFEST")) std::ofstream(file.path()) << "nonsense";
  }
  restart();
  set_map(share(map));
  EXPECT_TRUE(hosts_[1].shards().contains({1, 0}) && !hosts_[1].shards().at({1, 0}).failure.empty());
  set_map(share(with_us_as_learner(map)));
  EXPECT_EQ(applied_, 4U);
  EXPECT_NE(hosts_[1].shards().at({1, 0}).db, nullptr);
  EXPECT_TRUE(unserved_.empty());
}

TEST_F(ShardLifecycleTest, SetMap_ANewEpochKeepsTheDatabase) {
  set_map(MapMaker(3).table(1, {{0, 0, 1}}).share());
  ShardDb* const db = hosts_[0].shards().at({1, 0}).db;
  set_map(MapMaker(4).table(1, {{0, 0, 2}}).share());
  EXPECT_EQ(hosts_[0].shards().at({1, 0}), (FakeWorker::Shard{2, db, ""}));
}

TEST_F(ShardLifecycleTest, SetMap_ADroppedTableIsDeletedWhenNothingUsesIt) {
  set_map(MapMaker(3).table(1, {{0, 0, 1}}).table(2, {{0, 0, 1}}).share());
  ShardDb* const db = hosts_[0].shards().at({1, 0}).db;
  set_map(MapMaker(4).table(2, {{0, 0, 1}}).share());
  write(*db, "still in flight");
  EXPECT_THAT(on_disk(), ElementsAre(ShardId{1, 0}, ShardId{2, 0}));
  let_go(hosts_[0], {1, 0});
  EXPECT_THAT(on_disk(), ElementsAre(ShardId{2, 0}));
}

TEST_F(ShardLifecycleTest, SetMap_AShardThatIsMovedAwayIsKeptOnDisk) {
  set_map(MapMaker(3).table(1, {{0, 0, 1}}).share());
  set_map(MapMaker(4).table(1, {{1, 0, 2}}).share());
  let_go(hosts_[0], {1, 0});
  set_map(MapMaker(5).table(1, {{1, 0, 2}}).table(2, {{0, 0, 1}}).share());
  EXPECT_THAT(on_disk(), ElementsAre(ShardId{1, 0}, ShardId{2, 0}));
}

TEST_F(ShardLifecycleTest, SetMap_AShardMovesBetweenWorkersWithItsData) {
  set_map(MapMaker(3).table(1, {{0, 0, 1}}).share());
  write(*hosts_[0].shards().at({1, 0}).db, "key");
  set_map(MapMaker(4).table(1, {{0, 1, 2}}).share());
  let_go(hosts_[0], {1, 0});
  EXPECT_EQ(applied_, 4U);
  EXPECT_THAT(hosts_[0].shards(), IsEmpty());
  const auto moved = hosts_[1].shards().at({1, 0});
  EXPECT_EQ(moved.epoch, 2u);
  PinnedValue value;
  EXPECT_TRUE(moved.db->get("key", value).ok());
}

TEST_F(ShardLifecycleTest, Unserved_IsAShardBeyondTheLimitOfItsWorkerUntilThereIsAPlace) {
  set_map(MapMaker(3).table(1, {{0, 0, 1}, {0, 0, 1}, {0, 0, 1}}).share());
  ASSERT_EQ(unserved_.size(), 1U);
  EXPECT_TRUE(absl::IsResourceExhausted(unserved_.at({1, 2}).why)) << unserved_.at({1, 2}).why;
  EXPECT_FALSE(hosts_[0].shards().at({1, 2}).failure.empty());
  set_map(MapMaker(4).table(1, {{1, 0, 2}, {0, 0, 1}, {0, 0, 1}}).share());
  let_go(hosts_[0], {1, 0});
  EXPECT_EQ(applied_, 4U);
  EXPECT_NE(hosts_[0].shards().at({1, 2}).db, nullptr);
}

TEST_F(ShardLifecycleTest, SetMap_AShardThatCannotBeOpenedIsTriedAgain) {
  // A file stands where the directory belongs.
  std::ofstream(dir_ + "/1-0") << "in the way";
  set_map(MapMaker(3).table(1, {{0, 0, 1}}).share());
  EXPECT_TRUE(hosts_[0].shards().contains({1, 0}) && !hosts_[0].shards().at({1, 0}).failure.empty());
  std::filesystem::remove(dir_ + "/1-0");
  run();
  EXPECT_EQ(applied_, 3U);
  EXPECT_NE(hosts_[0].shards().at({1, 0}).db, nullptr);
}

TEST_F(ShardLifecycleTest, Restart_FindsItsDataAgain) {
  set_map(MapMaker(3).table(1, {{0, 0, 1}}).share());
  write(*hosts_[0].shards().at({1, 0}).db, "key");
  restart();
  set_map(MapMaker(3).table(1, {{0, 0, 1}}).share());
  PinnedValue value;
  EXPECT_TRUE(hosts_[0].shards().at({1, 0}).db->get("key", value).ok());
}

TEST_F(ShardLifecycleTest, Restart_ADatabaseThatIsGoneIsNotMadeAnew) {
  const auto map = MapMaker(3).table(1, {{0, 0, 1}, {0, 1, 1}}).share();
  set_map(map);
  write(*hosts_[0].shards().at({1, 0}).db, "key");
  stop();
  std::filesystem::rename(dir_ + "/1-0", directory_.path() + "/aside");
  start();
  set_map(map);
  EXPECT_FALSE(hosts_[0].shards().at({1, 0}).failure.empty());
  EXPECT_NE(hosts_[1].shards().at({1, 1}).db, nullptr);
  ASSERT_TRUE(unserved_.contains({1, 0}));
  EXPECT_TRUE(absl::IsDataLoss(unserved_.at({1, 0}).why)) << unserved_.at({1, 0}).why;
  EXPECT_THAT(unserved_.at({1, 0}).why.ToString(), HasSubstr(dir_ + "/1-0"));
  EXPECT_THAT(on_disk(), ElementsAre(ShardId{1, 1}));
  restart();
  set_map(map);
  EXPECT_TRUE(unserved_.contains({1, 0})) << "at each start";
  stop();
  std::filesystem::rename(directory_.path() + "/aside", dir_ + "/1-0");
  start();
  set_map(map);
  EXPECT_TRUE(unserved_.empty());
  PinnedValue value;
  EXPECT_TRUE(hosts_[0].shards().at({1, 0}).db->get("key", value).ok());
}

TEST_F(ShardLifecycleTest, Restart_AMemberWhoseDatabaseIsGoneIsRefusedUntilItLearns) {
  control::ShardMap map = replicated_map(3, 1, 1);
  set_map(share(map));
  persist_view({1, 0}, hosts_[1].shards().at({1, 0}).view);
  stop();
  std::filesystem::remove_all(dir_ + "/1-0");
  start();
  set_map(share(map));
  ASSERT_TRUE(unserved_.contains({1, 0}));
  EXPECT_TRUE(absl::IsDataLoss(unserved_.at({1, 0}).why)) << unserved_.at({1, 0}).why;
  EXPECT_THAT(on_disk(), IsEmpty());
  set_map(share(with_us_as_learner(map)));
  EXPECT_EQ(applied_, 4U);
  EXPECT_TRUE(unserved_.empty());
  EXPECT_NE(hosts_[1].shards().at({1, 0}).db, nullptr);
}

TEST_F(ShardLifecycleTest, SetMap_ADatabaseThatCannotBeNotedIsServedAndNotedLater) {
  std::filesystem::create_symlink("/dev/full", directory_.path() + "/views.new");
  set_map(MapMaker(3).table(1, {{0, 0, 1}}).share());
  EXPECT_EQ(applied_, 3U);
  EXPECT_NE(hosts_[0].shards().at({1, 0}).db, nullptr);
  std::filesystem::remove(directory_.path() + "/views.new");
  EXPECT_THAT(read_views(files_).value(), IsEmpty());
  set_map(MapMaker(4).table(1, {{0, 0, 1}}).share());
  EXPECT_THAT(read_views(files_).value(), ElementsAre(std::pair(ShardId{1, 0}, View{})));
}

TEST_F(ShardLifecycleTest, SetMap_ViewsOfDroppedTablesLeaveTheFile) {
  control::ShardMap map = replicated_map(3, 1, 1);
  set_map(share(map));
  persist_view({1, 0}, hosts_[1].shards().at({1, 0}).view);
  map.tables = MapMaker(4).table(2, {{0, 0, 1}}).map().tables;
  map.revision = 4;
  set_map(share(map));
  EXPECT_EQ(read_views(files_)->size(), 2U) << "the replica is still in use";
  let_go(hosts_[1], {1, 0});
  EXPECT_THAT(on_disk(), ElementsAre(ShardId{2, 0}));
  EXPECT_THAT(read_views(files_).value(), ElementsAre(std::pair(ShardId{2, 0}, kMadeUnreplicated)));
}

TEST_F(ShardLifecycleTest, Restart_DeletesWhatWasDroppedMeanwhile) {
  set_map(MapMaker(3).table(1, {{0, 0, 1}}).share());
  restart();
  set_map(MapMaker(4).share());
  EXPECT_THAT(on_disk(), IsEmpty());
}

TEST_F(ShardLifecycleTest, Restart_AnOlderMapDeletesNothingAndIsServed) {
  set_map(MapMaker(30).table(1, {{0, 0, 1}}).table(2, {{0, 0, 1}}).share());
  restart();
  set_map(MapMaker(7).table(2, {{0, 0, 1}}).share());
  EXPECT_EQ(hosts_[0].shards().size(), 1u);
  set_map(MapMaker(8).table(2, {{0, 0, 1}}).share());
  EXPECT_THAT(on_disk(), ElementsAre(ShardId{1, 0}, ShardId{2, 0}));
  EXPECT_EQ(read_state(files_)->map_revision, 30u);
}

TEST_F(ShardLifecycleTest, Replace_TheCopyTakesThePlaceOfTheData) {
  set_map(share(replicated_map(3, 1, 1)));
  EXPECT_EQ(applied_, 3U);
  FakeWorker& host = hosts_[1];
  write(*host.shards().at({1, 0}).db, "old");
  const std::string path = directory_.path() + "/copy";
  std::filesystem::create_directory(path);

  replace({1, 0}, path);
  EXPECT_TRUE(host.shards().empty());
  let_go(host, {1, 0});
  EXPECT_TRUE(host.shards().contains({1, 0}) && host.shards().at({1, 0}).view.epoch == 1);
  ShardDb& db = *host.shards().at({1, 0}).db;
  PinnedValue value;
  EXPECT_TRUE(db.get("copied", value).ok());
  EXPECT_TRUE(absl::IsNotFound(db.get("old", value)));
  EXPECT_FALSE(std::filesystem::exists(path));
}

TEST_F(ShardLifecycleTest, Replace_FailureIsTriedAgainAndNoEmptyDatabaseIsOpened) {
  set_map(share(replicated_map(3, 1, 1)));
  EXPECT_EQ(applied_, 3U);
  FakeWorker& host = hosts_[1];
  const std::string path = directory_.path() + "/copy";
  std::filesystem::create_directory(path);
  ingest_result_ = absl::ResourceExhaustedError("the disk is full");
  replace({1, 0}, path);
  let_go(host, {1, 0});
  EXPECT_TRUE(host.shards().contains({1, 0}) && !host.shards().at({1, 0}).failure.empty());
  EXPECT_EQ(host.shards().at({1, 0}).db, nullptr);
  const int before = ingests_;
  run();
  run();
  EXPECT_GE(ingests_, before + 2);
  EXPECT_EQ(host.shards().at({1, 0}).db, nullptr);
  EXPECT_TRUE(std::filesystem::exists(path));
}

TEST_F(ShardLifecycleTest, Replace_ACopyOfAnotherForkIsNotTaken) {
  control::ShardMap map = replicated_map(3, 1, 1);
  set_map(share(map));
  EXPECT_EQ(applied_, 3U);
  persist_view({1, 0}, hosts_[1].shards().at({1, 0}).view);
  EXPECT_TRUE(hosts_[1].shards().at({1, 0}).persisted_epoch == 1);
  const std::string path = directory_.path() + "/copy";
  std::filesystem::create_directory(path);
  replace({1, 0}, path);
  EXPECT_TRUE(hosts_[1].shards().empty());
  // While the shard is closed an operator goes on with the other node's data; this one is to learn.
  control::MapShard& shard = map.tables.front().shards.front();
  shard.epoch = shard.change = 2;
  shard.fork = 1;
  shard.learners.push_back({shard.backups.front(), 0});
  shard.backups.clear();
  map.revision = 4;
  set_map(share(map));
  let_go(hosts_[1], {1, 0});
  EXPECT_EQ(applied_, 4U);
  EXPECT_EQ(ingests_, 0);
  EXPECT_EQ(hosts_[1].shards().at({1, 0}).db->applied_index(), 0u);
  EXPECT_FALSE(std::filesystem::exists(path));
}

TEST_F(ShardLifecycleTest, Replace_OfAShardThatIsNotHereRemovesTheCopy) {
  set_map(MapMaker(3).table(1, {{1, 0, 1}}).share());
  const std::string path = directory_.path() + "/copy";
  std::filesystem::create_directory(path);
  replace({1, 0}, path);
  EXPECT_FALSE(std::filesystem::exists(path));
}

}  // namespace
}  // namespace skua::kv
