#include "kvstore/node/node_copies.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <filesystem>
#include <fstream>
#include <map>
#include <memory>
#include <string>

#include "kvstore/storage/rocksdb_engine.h"
#include "kvstore/storage/shard_files.h"
#include "tests/kvstore/shard/engine_testing.h"

namespace skua::kv {
namespace {

namespace fs = std::filesystem;
using testing::TemporaryDirectory;

constexpr ShardId kInstalling = {7, 1};
constexpr ShardId kInstalled = {7, 2};
constexpr ShardId kBroken = {7, 3};
constexpr char kClusterOfCopies[] = "11111111-1111-4111-8111-111111111111";

/// A node's data directory, as a process left it.
class NodeCopiesTest : public ::testing::Test {
 protected:
  NodeCopiesTest() {
    options_.data_dir = directory_.path();
    options_.node_uuid = "01020304-0506-4708-890a-0b0c0d0e0f10";
    fs::create_directories(shards());
    fs::create_directories(copies());
  }

  [[nodiscard]] std::string shards() const { return files::shards_dir(options_.data_dir); }
  [[nodiscard]] std::string copies() const { return options_.data_dir + "/copies"; }
  /// A database with one key.
  void make_db(const std::string& parent, ShardId id, std::string_view key) {
    const auto db = engine_->open_db(parent, id).value();
    const AppliedEffect effect{.key = key, .value = as_byte_span("value"), .version = 1};
    ASSERT_TRUE(db->apply({&effect, 1}, 1).ok());
    ASSERT_TRUE(db->flush().ok());
  }
  [[nodiscard]] bool has_key(ShardId id, std::string_view key) {
    const auto db = engine_->open_db(shards(), id);
    if (!db.ok()) return false;
    bool found = false;
    EXPECT_TRUE((*db)->scan({}, [&](const ScanRow& row) { return !(found = found || row.key == key); }).ok());
    return found;
  }

  TemporaryDirectory directory_;
  NodeOptions options_;
  std::unique_ptr<RocksdbEngine> engine_ = make_rocksdb_engine(
      RocksdbOptions{.cache_bytes = 8 << 20, .write_buffer_bytes = 8 << 20, .background_threads = 1});
  SteadyClock clock_;
  NodeCopies node_copies_{options_, *engine_, clock_, [](ShardId, const std::string&) {
                            return absl::UnimplementedError("nobody copies from here");
                          }};
  std::map<ShardId, absl::Status> refused_;
};

TEST_F(NodeCopiesTest, Start_FinishesWhatTheLastProcessLeft) {
  make_db(copies(), kInstalling, "copied");
  make_db(copies(), kInstalled, "copied");
  make_db(shards(), kInstalled, "own");
  fs::create_directories(copies() + "/something-else");
  ASSERT_TRUE(node_copies_.start(kClusterOfCopies, NodeState{}, refused_).ok());
  EXPECT_TRUE(refused_.empty());
  EXPECT_TRUE(fs::is_empty(copies())) << "copies that are not needed any more go";
  EXPECT_TRUE(has_key(kInstalling, "copied")) << "a copy whose shard has no data was being installed";
  EXPECT_TRUE(has_key(kInstalled, "own"));
  EXPECT_FALSE(has_key(kInstalled, "copied")) << "the data that is there stays";
}

TEST_F(NodeCopiesTest, Start_RefusesAShardWhoseCopyCannotBeUsed) {
  const std::string copy = copies() + "/" + files::shard_name(kBroken);
  fs::create_directories(copy);
  std::ofstream(copy + "/" + kSnapshotManifestName) << "not a manifest";
  ASSERT_TRUE(node_copies_.start(kClusterOfCopies, NodeState{}, refused_).ok());
  EXPECT_TRUE(refused_.contains(kBroken));
  EXPECT_TRUE(fs::exists(copy)) << "somebody may want to look at the copy";
}

TEST_F(NodeCopiesTest, Start_MayComeAgain) {
  ASSERT_TRUE(node_copies_.start(kClusterOfCopies, NodeState{}, refused_).ok());
  make_db(copies(), kInstalling, "copied");
  ASSERT_TRUE(node_copies_.start(kClusterOfCopies, NodeState{}, refused_).ok());
  EXPECT_TRUE(has_key(kInstalling, "copied"));
  EXPECT_NE(node_copies_.resources().source, nullptr);
  node_copies_.stop_threads();
}

TEST_F(NodeCopiesTest, Report_HasTheCopiesOfAllWorkers) {
  CopyProgress copy;
  copy.shard = kInstalling;
  copy.doing = "fetching";
  copy.bytes = 3 << 20;
  copy.bytes_total = 5 << 20;
  EXPECT_EQ(node_copies_.report(0, {copy}).size(), 1U);
  copy.shard = kInstalled;
  copy.trouble = "no answer";
  const auto both = node_copies_.report(1, {copy});
  ASSERT_EQ(both.size(), 2U);
  EXPECT_THAT(both[0].text, ::testing::HasSubstr("fetching, 3 of 5 MiB"));
  EXPECT_THAT(both[1].text, ::testing::HasSubstr("the last request failed: no answer"));
  EXPECT_EQ(node_copies_.report(0, {}).size(), 1U) << "worker 0 has none any more";
}

}  // namespace
}  // namespace skua::kv
