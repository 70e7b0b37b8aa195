#include "kvstore/node/shard_manager.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <atomic>
#include <chrono>
#include <fstream>
#include <thread>

#include "kvstore/peers/peer_identity.h"
#include "kvstore/storage/shard_files.h"
#include "tests/kvstore/node/map_testing.h"
#include "tests/kvstore/shard/engine_testing.h"

namespace skua::kv {
namespace {

using ::testing::ElementsAre;
using ::testing::IsEmpty;
using testing::kCluster;
using testing::kThem;
using testing::kUs;
using testing::MapMaker;

/// A worker that does at once what it is told, but for remove(), whose shards stay busy until let_go().
class FakeHost final : public ShardHost {
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

class ShardManagerTest : public ::testing::Test {
 protected:
  ShardManagerTest() {
    std::filesystem::create_directories(dir_);
    start();
  }

  void start() {
    unsynced_ = UnsyncedShards::read(files_, boot_).value();
    manager_ = std::make_unique<ShardManager>(
        ShardManager::Options{.lifecycle = {.node_uuid = kUs,
                                            .cluster_id = kCluster,
                                            .shards_dir = dir_,
                                            .files = &files_,
                                            .state = read_state(files_).value(),
                                            .views = read_views(files_).value(),
                                            .unsynced = &*unsynced_,
                                            .log = nullptr},
                              .on_applied = [this](uint64_t r) { applied(r); },
                              .ingest = [this](ShardId id, const std::string& path) { return ingest(id, path); },
                              .reopen_pause_ns = 10 * kMillisecond},
        *engine_, std::vector<ShardHost*>{&hosts_[0], &hosts_[1]});
    manager_->start();
  }
  /// As a new process would see it.
  void restart() {
    manager_.reset();
    applied_ = 0;
    for (FakeHost& host : hosts_) host.forget();
    start();
  }

  void set_map_and_wait(const MapMaker& map) {
    manager_->set_map(map.share());
    wait_applied(map.map().revision);
  }
  void wait_applied(uint64_t revision) {
    std::unique_lock lock(mutex_);
    EXPECT_TRUE(changed_.wait_for(lock, std::chrono::minutes(1), [&] { return applied_ >= revision; }));
  }
  void wait_unserved(size_t count) {
    const auto give_up = std::chrono::steady_clock::now() + std::chrono::minutes(1);
    while (manager_->unserved().size() != count && std::chrono::steady_clock::now() < give_up)
      std::this_thread::yield();
    EXPECT_EQ(manager_->unserved().size(), count);
  }
  void wait_on_disk(const std::vector<ShardId>& shards) {
    const auto give_up = std::chrono::steady_clock::now() + std::chrono::minutes(1);
    while (on_disk() != shards && std::chrono::steady_clock::now() < give_up) std::this_thread::yield();
    EXPECT_EQ(on_disk(), shards);
  }
  std::vector<ShardId> on_disk() { return engine_->list_shards(dir_).value(); }
  void write(ShardDb& db, std::string_view key) {
    const AppliedEffect put{key, as_byte_span("v"), db.applied_index() + 1};
    ASSERT_TRUE(db.apply(std::span(&put, 1), put.version).ok());
  }

  /// A copy: a database with one row more than none.
  absl::Status ingest(ShardId id, const std::string& path) {
    ++ingests_;
    if (!ingest_result_.ok()) return ingest_result_;
    EXPECT_TRUE(std::filesystem::exists(path));
    EXPECT_TRUE(on_disk().empty());
    const auto db = engine_->open_db(dir_, id);
    if (db.ok()) write(**db, "copied");
    return db.ok() ? (*db)->flush().status() : db.status();
  }

  absl::Status ingest_result_;
  std::atomic<int> ingests_ = 0;
  testing::TemporaryDirectory directory_;
  const DirectoryFiles files_{directory_.path()};
  const std::string dir_ = files::shards_dir(directory_.path());
  std::unique_ptr<RocksdbEngine> engine_ = make_rocksdb_engine({.cache_bytes = 8 << 20, .write_buffer_bytes = 8 << 20});
  std::array<FakeHost, 2> hosts_;
  uint64_t boot_ = 1;
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

TEST_F(ShardManagerTest, SetMap_OpensWhatWeOwnOnTheRightWorker) {
  set_map_and_wait(MapMaker(3).table(1, {{0, 0, 1}, {1, 0, 1}, {0, 1, 4}}));
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

TEST_F(ShardManagerTest, SetMap_AReplicaIsOpenedWithItsViewAlsoWhereItDoesNotLead) {
  manager_->set_map(std::make_shared<const control::ShardMap>(replicated_map(3, 1, 1)));
  wait_applied(3);
  const FakeHost::Shard shard = hosts_[1].shards().at({1, 0});
  EXPECT_NE(shard.db, nullptr);
  EXPECT_EQ(shard.notes.view, View{});
  EXPECT_EQ(shard.view.epoch, 1u);
  EXPECT_EQ(shard.view.primary, node_id_of(std::string(kThem)));
  EXPECT_EQ(shard.view.members.size(), 2u);
  EXPECT_EQ(shard.view.min_insync, 2u);
  EXPECT_EQ(shard.places, (ReplicaPlaces{{node_id_of(std::string(kUs)), 1}, {node_id_of(std::string(kThem)), 0}}));
  ASSERT_EQ(hosts_[1].peers().size(), 1u);
  EXPECT_EQ(hosts_[1].peers()[0].uuid, kThem);
}

TEST_F(ShardManagerTest, PersistView_IsDurableBeforeTheReplicaHearsOfIt) {
  manager_->set_map(std::make_shared<const control::ShardMap>(replicated_map(3, 1, 1)));
  wait_applied(3);
  const View view = hosts_[1].shards().at({1, 0}).view;
  manager_->persist_view({1, 0}, view);
  hosts_[1].wait_for([](const auto& shards) { return shards.at({1, 0}).persisted_epoch == 1; });
  EXPECT_EQ(read_views(files_)->at({1, 0}), view);
  restart();
  manager_->set_map(std::make_shared<const control::ShardMap>(replicated_map(4, 2, 0)));
  wait_applied(4);
  EXPECT_EQ(hosts_[0].shards().at({1, 0}).notes.view, view);
  EXPECT_EQ(hosts_[0].shards().at({1, 0}).view.epoch, 2u);
}

TEST_F(ShardManagerTest, AllowUnsynced_IsDurableBeforeTheReplicaHearsOfItAndADoubtInTheNextBoot) {
  manager_->set_map(std::make_shared<const control::ShardMap>(replicated_map(3, 1, 1)));
  wait_applied(3);
  EXPECT_EQ(hosts_[1].shards().at({1, 0}).notes, ReplicaNotes{});
  manager_->allow_unsynced({1, 0});
  hosts_[1].wait_for([](const auto& shards) { return shards.at({1, 0}).unsynced_allowed; });
  EXPECT_TRUE(UnsyncedShards::read(files_, boot_)->is_allowed({1, 0}));
  restart();
  manager_->set_map(std::make_shared<const control::ShardMap>(replicated_map(3, 1, 1)));
  wait_applied(3);
  EXPECT_EQ(hosts_[1].shards().at({1, 0}).notes, (ReplicaNotes{{}, 0, true})) << "the machine has what was written";
  const uint64_t doubt = std::exchange(boot_, 2);
  restart();
  manager_->set_map(std::make_shared<const control::ShardMap>(replicated_map(3, 1, 1)));
  wait_applied(3);
  EXPECT_EQ(hosts_[1].shards().at({1, 0}).notes, (ReplicaNotes{{}, doubt, false}));
  manager_->restored({1, 0});
  manager_->allow_unsynced({1, 0});
  hosts_[1].wait_for([](const auto& shards) { return shards.at({1, 0}).unsynced_allowed; });
  EXPECT_TRUE(UnsyncedShards::read(files_, boot_)->is_allowed({1, 0}));
}

TEST_F(ShardManagerTest, SetMap_DataOfAnotherForkAreRemovedUnlessItGoesOnWithThem) {
  control::ShardMap map = replicated_map(3, 1, 1);
  manager_->set_map(std::make_shared<const control::ShardMap>(map));
  wait_applied(3);
  write(*hosts_[1].shards().at({1, 0}).db, "given up");
  manager_->persist_view({1, 0}, hosts_[1].shards().at({1, 0}).view);
  hosts_[1].wait_for([](const auto& shards) { return shards.at({1, 0}).persisted_epoch == 1; });
  // The other node went on alone; this one is to learn.
  control::MapShard& shard = map.tables.front().shards.front();
  shard.epoch = shard.change = 2;
  shard.fork = 1;
  shard.learners.push_back({shard.backups.front(), 0});
  shard.backups.clear();
  map.revision = 4;
  manager_->set_map(std::make_shared<const control::ShardMap>(map));
  hosts_[1].let_go({1, 0});
  wait_applied(4);
  EXPECT_EQ(hosts_[1].shards().at({1, 0}).db->applied_index(), 0u);
  EXPECT_EQ(hosts_[1].shards().at({1, 0}).notes.view.epoch, 0u);
  // As a member it keeps what it has.
  write(*hosts_[1].shards().at({1, 0}).db, "kept");
  shard.epoch = shard.change = 3;
  shard.fork = 2;
  shard.backups.push_back(shard.learners.front().replica);
  shard.learners.clear();
  map.revision = 5;
  manager_->set_map(std::make_shared<const control::ShardMap>(map));
  wait_applied(5);
  EXPECT_EQ(hosts_[1].shards().at({1, 0}).db->applied_index(), 1u);
  EXPECT_EQ(read_views(files_)->at({1, 0}).fork, 2u);
}

TEST_F(ShardManagerTest, Unserved_IsWhatCannotBeOpenedUntilItCan) {
  std::filesystem::create_directories(dir_ + "/1-0");
  std::ofstream(dir_ + "/1-0/CURRENT") << "nonsense";
  manager_->set_map(MapMaker(3).table(1, {{0, 0, 1}, {0, 1, 1}}).share());
  hosts_[0].wait_for([](const auto& shards) { return shards.contains({1, 0}) && !shards.at({1, 0}).failure.empty(); });
  hosts_[1].wait_for([](const auto& shards) { return shards.contains({1, 1}) && shards.at({1, 1}).db != nullptr; });
  wait_unserved(1);
  const UnservedShard shard = manager_->unserved().at({1, 0});
  EXPECT_TRUE(shard.tried_again);
  EXPECT_NE(shard.why.ToString().find("1-0"), std::string::npos) << shard.why;
  std::filesystem::remove_all(dir_ + "/1-0");  // as if restored
  wait_applied(3);
  wait_unserved(0);
}

TEST_F(ShardManagerTest, Unserved_IsEverythingWhileAMapCannotBeWrittenDown) {
  set_map_and_wait(MapMaker(3).table(1, {{0, 0, 1}}));
  std::filesystem::create_symlink("/dev/full", directory_.path() + "/state.new");
  manager_->set_map(MapMaker(4).table(1, {{0, 0, 1}, {0, 1, 1}}).share());
  wait_unserved(1);
  const UnservedShard shard = manager_->unserved().at({1, 1});
  EXPECT_EQ(shard.why.code(), absl::StatusCode::kResourceExhausted) << shard.why;
  EXPECT_TRUE(shard.tried_again);
  std::filesystem::remove(directory_.path() + "/state.new");
  wait_applied(4);
  wait_unserved(0);
}

TEST_F(ShardManagerTest, SetMap_ADamagedReplicaIsLearntAgainOnceItIsNoMember) {
  control::ShardMap map = replicated_map(3, 1, 1);
  manager_->set_map(std::make_shared<const control::ShardMap>(map));
  wait_applied(3);
  manager_->persist_view({1, 0}, hosts_[1].shards().at({1, 0}).view);
  hosts_[1].wait_for([](const auto& shards) { return shards.at({1, 0}).persisted_epoch == 1; });
  manager_.reset();
  for (const auto& file : std::filesystem::directory_iterator(dir_ + "/1-0")) {
    if (file.path().filename().string().starts_with("MANIFEST")) std::ofstream(file.path()) << "nonsense";
  }
  restart();
  manager_->set_map(std::make_shared<const control::ShardMap>(map));
  hosts_[1].wait_for([](const auto& shards) { return shards.contains({1, 0}) && !shards.at({1, 0}).failure.empty(); });
  // The control plane goes on without this replica, and then has it learn.
  control::MapShard& shard = map.tables.front().shards.front();
  shard.epoch = shard.change = 2;
  shard.learners.push_back({shard.backups.front(), 0});
  shard.backups.clear();
  map.revision = 4;
  manager_->set_map(std::make_shared<const control::ShardMap>(map));
  wait_applied(4);
  EXPECT_NE(hosts_[1].shards().at({1, 0}).db, nullptr);
  EXPECT_TRUE(manager_->unserved().empty());
}

TEST_F(ShardManagerTest, SetMap_OlderAndEmptyMapsAreIgnored) {
  set_map_and_wait(MapMaker(3).table(1, {{0, 0, 1}}));
  manager_->set_map(MapMaker(2).share());
  manager_->set_map(std::make_shared<const control::ShardMap>());
  set_map_and_wait(MapMaker(4).table(1, {{0, 0, 1}}).table(2, {{0, 0, 1}}));
  EXPECT_EQ(hosts_[0].shards().size(), 2u);
}

TEST_F(ShardManagerTest, SetMap_ANewEpochKeepsTheDatabase) {
  set_map_and_wait(MapMaker(3).table(1, {{0, 0, 1}}));
  ShardDb* const db = hosts_[0].shards().at({1, 0}).db;
  set_map_and_wait(MapMaker(4).table(1, {{0, 0, 2}}));
  EXPECT_EQ(hosts_[0].shards().at({1, 0}), (FakeHost::Shard{2, db, ""}));
}

TEST_F(ShardManagerTest, SetMap_ADroppedTableIsDeletedWhenNothingUsesIt) {
  set_map_and_wait(MapMaker(3).table(1, {{0, 0, 1}}).table(2, {{0, 0, 1}}));
  ShardDb* const db = hosts_[0].shards().at({1, 0}).db;
  set_map_and_wait(MapMaker(4).table(2, {{0, 0, 1}}));
  write(*db, "still in flight");
  EXPECT_THAT(on_disk(), ElementsAre(ShardId{1, 0}, ShardId{2, 0}));
  hosts_[0].let_go({1, 0});
  wait_on_disk({{2, 0}});
}

TEST_F(ShardManagerTest, SetMap_AShardThatIsMovedAwayIsKeptOnDisk) {
  set_map_and_wait(MapMaker(3).table(1, {{0, 0, 1}}));
  set_map_and_wait(MapMaker(4).table(1, {{1, 0, 2}}));
  hosts_[0].let_go({1, 0});
  set_map_and_wait(MapMaker(5).table(1, {{1, 0, 2}}).table(2, {{0, 0, 1}}));
  EXPECT_THAT(on_disk(), ElementsAre(ShardId{1, 0}, ShardId{2, 0}));
}

TEST_F(ShardManagerTest, SetMap_AShardMovesBetweenWorkersWithItsData) {
  set_map_and_wait(MapMaker(3).table(1, {{0, 0, 1}}));
  write(*hosts_[0].shards().at({1, 0}).db, "key");
  manager_->set_map(MapMaker(4).table(1, {{0, 1, 2}}).share());
  hosts_[0].let_go({1, 0});
  wait_applied(4);
  EXPECT_THAT(hosts_[0].shards(), IsEmpty());
  const auto moved = hosts_[1].shards().at({1, 0});
  EXPECT_EQ(moved.epoch, 2u);
  PinnedValue value;
  EXPECT_TRUE(moved.db->get("key", value).ok());
}

TEST_F(ShardManagerTest, SetMap_AShardThatCannotBeOpenedIsTriedAgain) {
  // A file stands where the directory belongs.
  std::ofstream(dir_ + "/1-0") << "in the way";
  manager_->set_map(MapMaker(3).table(1, {{0, 0, 1}}).share());
  hosts_[0].wait_for([](const auto& shards) { return shards.contains({1, 0}) && !shards.at({1, 0}).failure.empty(); });
  std::filesystem::remove(dir_ + "/1-0");
  wait_applied(3);
  EXPECT_NE(hosts_[0].shards().at({1, 0}).db, nullptr);
}

TEST_F(ShardManagerTest, Restart_FindsItsDataAgain) {
  set_map_and_wait(MapMaker(3).table(1, {{0, 0, 1}}));
  write(*hosts_[0].shards().at({1, 0}).db, "key");
  restart();
  set_map_and_wait(MapMaker(3).table(1, {{0, 0, 1}}));
  PinnedValue value;
  EXPECT_TRUE(hosts_[0].shards().at({1, 0}).db->get("key", value).ok());
}

TEST_F(ShardManagerTest, Restart_DeletesWhatWasDroppedMeanwhile) {
  set_map_and_wait(MapMaker(3).table(1, {{0, 0, 1}}));
  restart();
  set_map_and_wait(MapMaker(4));
  wait_on_disk({});
}

TEST_F(ShardManagerTest, Restart_AnOlderMapDeletesNothingAndIsServed) {
  set_map_and_wait(MapMaker(30).table(1, {{0, 0, 1}}).table(2, {{0, 0, 1}}));
  restart();
  set_map_and_wait(MapMaker(7).table(2, {{0, 0, 1}}));
  EXPECT_EQ(hosts_[0].shards().size(), 1u);
  set_map_and_wait(MapMaker(8).table(2, {{0, 0, 1}}));
  EXPECT_THAT(on_disk(), ElementsAre(ShardId{1, 0}, ShardId{2, 0}));
  EXPECT_EQ(read_state(files_)->map_revision, 30u);
}

TEST_F(ShardManagerTest, Replace_TheCopyTakesThePlaceOfTheData) {
  manager_->set_map(std::make_shared<const control::ShardMap>(replicated_map(3, 1, 1)));
  wait_applied(3);
  FakeHost& host = hosts_[1];
  write(*host.shards().at({1, 0}).db, "old");
  const std::string path = directory_.path() + "/copy";
  std::filesystem::create_directory(path);

  manager_->replace({1, 0}, path);
  host.wait_for([](const auto& shards) { return shards.empty(); });
  host.let_go({1, 0});
  host.wait_for([](const auto& shards) { return shards.contains({1, 0}) && shards.at({1, 0}).view.epoch == 1; });
  ShardDb& db = *host.shards().at({1, 0}).db;
  PinnedValue value;
  EXPECT_TRUE(db.get("copied", value).ok());
  EXPECT_TRUE(absl::IsNotFound(db.get("old", value)));
  EXPECT_FALSE(std::filesystem::exists(path));
}

TEST_F(ShardManagerTest, Replace_FailureIsTriedAgainAndNoEmptyDatabaseIsOpened) {
  manager_->set_map(std::make_shared<const control::ShardMap>(replicated_map(3, 1, 1)));
  wait_applied(3);
  FakeHost& host = hosts_[1];
  const std::string path = directory_.path() + "/copy";
  std::filesystem::create_directory(path);
  ingest_result_ = absl::ResourceExhaustedError("the disk is full");
  manager_->replace({1, 0}, path);
  host.let_go({1, 0});
  host.wait_for([](const auto& shards) { return shards.contains({1, 0}) && !shards.at({1, 0}).failure.empty(); });
  EXPECT_EQ(host.shards().at({1, 0}).db, nullptr);
  const int before = ingests_;
  const auto give_up = std::chrono::steady_clock::now() + std::chrono::minutes(1);
  while (ingests_ < before + 2 && std::chrono::steady_clock::now() < give_up) std::this_thread::yield();
  EXPECT_GE(ingests_, before + 2);
  EXPECT_EQ(host.shards().at({1, 0}).db, nullptr);
  EXPECT_TRUE(std::filesystem::exists(path));
}

TEST_F(ShardManagerTest, Replace_ACopyOfAnotherForkIsNotTaken) {
  control::ShardMap map = replicated_map(3, 1, 1);
  manager_->set_map(std::make_shared<const control::ShardMap>(map));
  wait_applied(3);
  manager_->persist_view({1, 0}, hosts_[1].shards().at({1, 0}).view);
  hosts_[1].wait_for([](const auto& shards) { return shards.at({1, 0}).persisted_epoch == 1; });
  const std::string path = directory_.path() + "/copy";
  std::filesystem::create_directory(path);
  manager_->replace({1, 0}, path);
  hosts_[1].wait_for([](const auto& shards) { return shards.empty(); });
  // While the shard is closed an operator goes on with the other node's data; this one is to learn.
  control::MapShard& shard = map.tables.front().shards.front();
  shard.epoch = shard.change = 2;
  shard.fork = 1;
  shard.learners.push_back({shard.backups.front(), 0});
  shard.backups.clear();
  map.revision = 4;
  manager_->set_map(std::make_shared<const control::ShardMap>(map));
  hosts_[1].let_go({1, 0});
  wait_applied(4);
  EXPECT_EQ(ingests_, 0);
  EXPECT_EQ(hosts_[1].shards().at({1, 0}).db->applied_index(), 0u);
  EXPECT_FALSE(std::filesystem::exists(path));
}

TEST_F(ShardManagerTest, Replace_OfAShardThatIsNotHereRemovesTheCopy) {
  set_map_and_wait(MapMaker(3).table(1, {{1, 0, 1}}));
  const std::string path = directory_.path() + "/copy";
  std::filesystem::create_directory(path);
  manager_->replace({1, 0}, path);
  const auto give_up = std::chrono::steady_clock::now() + std::chrono::minutes(1);
  while (std::filesystem::exists(path) && std::chrono::steady_clock::now() < give_up) std::this_thread::yield();
  EXPECT_FALSE(std::filesystem::exists(path));
}

TEST_F(ShardManagerTest, WithDb_KeepsTheDatabaseOpen) {
  set_map_and_wait(MapMaker(3).table(1, {{0, 1, 1}}));
  EXPECT_TRUE(absl::IsNotFound(manager_->with_db({9, 9}, [](ShardDb&, uint32_t) { return absl::OkStatus(); })));
  const absl::Status used = manager_->with_db({1, 0}, [&](ShardDb& db, uint32_t worker) {
    EXPECT_EQ(worker, 1U);
    manager_->set_map(MapMaker(4).table(1, {{0, 0, 2}}).share());  // to the other worker: closed and opened
    hosts_[1].let_go({1, 0});
    EXPECT_EQ(hosts_[0].shards().count({1, 0}), 0U);
    write(db, "still open");
    return absl::AbortedError("as it says");
  });
  EXPECT_TRUE(absl::IsAborted(used));
  wait_applied(4);
  PinnedValue value;
  EXPECT_TRUE(hosts_[0].shards().at({1, 0}).db->get("still open", value).ok());
}

}  // namespace
}  // namespace skua::kv
