#include "kvstore/node/node_recovery.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <filesystem>
#include <fstream>
#include <initializer_list>
#include <memory>
#include <set>
#include <string>
#include <vector>

#include "kvstore/peers/peer_identity.h"
#include "kvstore/storage/recovery.h"
#include "kvstore/storage/rocksdb_engine.h"
#include "kvstore/storage/shard_files.h"
#include "tests/kvstore/shard/engine_testing.h"

namespace skua::kv {
namespace {

namespace fs = std::filesystem;
using ::testing::HasSubstr;
using ::testing::Not;
using testing::TemporaryDirectory;

constexpr ShardId kShard = {7, 1};
constexpr ShardId kOther = {7, 2};
constexpr char kClusterOfNode[] = "11111111-1111-4111-8111-111111111111";
constexpr char kNode[] = "01020304-0506-4708-890a-0b0c0d0e0f10";

/// A data directory, and the starts of a node with it.
class NodeRecoveryTest : public ::testing::Test {
 protected:
  NodeRecoveryTest() {
    options_.data_dir = directory_.path();
    options_.node_uuid = kNode;
    options_.log = [this](LogSeverity severity, const std::string& line) {
      lines_ += (severity == LogSeverity::kError ? "error: " : "") + line + "\n";
    };
  }

  [[nodiscard]] std::string shards() const { return files::shards_dir(options_.data_dir); }
  [[nodiscard]] std::string log_dir(uint32_t worker) const {
    return options_.data_dir + "/log/" + std::to_string(worker);
  }

  /// One start of the node, until its workers would start.
  struct Start {
    explicit Start(NodeRecoveryTest& test)
        : recovery(test.options_, test.files_, test.clock_),
          copies(test.options_, *test.engine_, test.clock_, refuse) {}
    static absl::Status refuse(ShardId, const std::string&) {
      return absl::UnimplementedError("nobody copies from here");
    }
    NodeRecovery recovery;
    NodeCopies copies;
  };
  absl::StatusOr<Recovered> recover(Start& start) {
    if (absl::Status prepared = start.recovery.prepare(); !prepared.ok()) return prepared;
    return start.recovery.recover(kClusterOfNode, *engine_, start.copies);
  }

  /// The log has a record of the shard. Then the log's bytes are as after a crash of the process.
  static void append_record(Recovered& recovered, ShardId shard) {
    Log& log = *recovered.logs.at(0).log;
    const LogShard number = log_shard_of(shard);
    ASSERT_TRUE(log.start_shard(number, 0, 1, 0).ok());
    const std::string payload = "no record that a shard would write";
    const ByteSpan piece = as_byte_span(payload);
    ASSERT_TRUE(log.append({.shard = number, .index = 1, .epoch = 1}, {&piece, 1}).ok());
    ASSERT_TRUE(log.commit().ok());
  }

  struct Placed {
    ShardId id;
    uint32_t worker = 0;
  };
  /// Each shard has a database, and a start in its worker's log, in a group of its own.
  void start_shards(std::initializer_list<Placed> placed) {
    Start start(*this);
    absl::StatusOr<Recovered> recovered = recover(start);
    ASSERT_TRUE(recovered.ok()) << recovered.status();
    for (const auto& [id, worker] : placed) {
      ASSERT_TRUE(engine_->open_db(shards(), id).ok());
      Log& log = *recovered->logs.at(worker).log;
      ASSERT_TRUE(log.start_shard(log_shard_of(id), 0, 1, 0).ok());
      ASSERT_TRUE(log.commit().ok());
    }
  }
  /// This node and another one are the members.
  void write_view_of(ShardId id) {
    View view;
    view.epoch = 1;
    view.primary = node_id_of(kNode);
    view.members = {{node_id_of(kNode), 1}, {node_id_of(kNode) + 1, 1}};
    ASSERT_TRUE(write_views(files_, {{id, view}}).ok());
  }
  /// In the first segment of worker 0's log.
  void flip_byte(uint64_t offset) const {
    std::fstream file(log_dir(0) + "/" + segment_name(1), std::ios::in | std::ios::out | std::ios::binary);
    file.seekg(static_cast<std::streamoff>(offset));
    const auto byte = static_cast<char>(file.get() ^ 1);
    file.seekp(static_cast<std::streamoff>(offset));
    ASSERT_TRUE(file.put(byte).good());
  }
  /// The shards that a start refuses.
  std::set<ShardId> refused_at_start() {
    lines_.clear();
    Start start(*this);
    const absl::StatusOr<Recovered> recovered = recover(start);
    EXPECT_TRUE(recovered.ok()) << recovered.status();
    std::set<ShardId> refused;
    if (!recovered.ok()) return refused;
    for (const auto& [id, why] : recovered->refused) {
      EXPECT_TRUE(absl::IsDataLoss(why)) << why;
      refused.insert(id);
    }
    return refused;
  }

  TemporaryDirectory directory_;
  NodeOptions options_;
  DirectoryFiles files_{directory_.path()};
  SteadyClock clock_;
  std::unique_ptr<RocksdbEngine> engine_ = make_rocksdb_engine(
      RocksdbOptions{.cache_bytes = 8 << 20, .write_buffer_bytes = 8 << 20, .background_threads = 1});
  std::string lines_;
};

TEST_F(NodeRecoveryTest, EachStartCountsAndRemovesLeftovers) {
  for (uint64_t number = 1; number <= 3; ++number) {
    fs::create_directories(shards() + "/" + files::kTrashPrefix + "7-1");
    Start start(*this);
    ASSERT_TRUE(start.recovery.prepare().ok());
    EXPECT_EQ(start.recovery.state().incarnation, number);
    EXPECT_EQ(read_state(files_).value(), start.recovery.state()) << "others may hear of it only when it is durable";
    EXPECT_TRUE(fs::is_empty(shards()));
    EXPECT_FALSE(start.recovery.has_recovered());
  }
}

TEST_F(NodeRecoveryTest, AnEmptyDirectoryHasALogForEachWorker) {
  options_.workers = 2;
  Start start(*this);
  const absl::StatusOr<Recovered> recovered = recover(start);
  ASSERT_TRUE(recovered.ok()) << recovered.status();
  EXPECT_EQ(recovered->logs.size(), 2u);
  EXPECT_TRUE(recovered->refused.empty());
  EXPECT_TRUE(recovered->views.empty());
  EXPECT_TRUE(start.recovery.has_recovered());
}

TEST_F(NodeRecoveryTest, LogsOfWorkersOfBeforeAreRecoveredAndClosed) {
  options_.workers = 2;
  {
    Start start(*this);
    ASSERT_TRUE(recover(start).ok());
  }
  options_.workers = 1;
  lines_.clear();
  Start start(*this);
  const absl::StatusOr<Recovered> recovered = recover(start);
  ASSERT_TRUE(recovered.ok()) << recovered.status();
  EXPECT_EQ(recovered->logs.size(), 1u);
  EXPECT_THAT(lines_, HasSubstr("log recovered worker=1"));
}

TEST_F(NodeRecoveryTest, ALogThatIsMissingIsNotMadeAnew) {
  options_.workers = 2;
  {
    Start start(*this);
    ASSERT_TRUE(recover(start).ok());
    ASSERT_TRUE(engine_->open_db(shards(), kShard).ok());
  }
  const std::string aside = directory_.path() + "/aside";
  fs::rename(log_dir(0), aside);
  const auto refused = [&] {
    Start start(*this);
    const absl::Status why = recover(start).status();
    EXPECT_TRUE(absl::IsDataLoss(why)) << why;
    EXPECT_THAT(std::string(why.message()), HasSubstr(log_dir(0)));
    EXPECT_FALSE(fs::exists(log_dir(0)));
  };
  refused();
  fs::remove_all(log_dir(1));
  refused();  // there are databases
  fs::remove_all(shards());
  fs::create_directories(log_dir(1));
  refused();  // there is a log behind it
  fs::rename(aside, log_dir(0));
  Start start(*this);
  EXPECT_TRUE(recover(start).ok());
}

TEST_F(NodeRecoveryTest, AStateThatCannotBeReadIsNoFirstStart) {
  std::ofstream(files_.path_of("state")) << "nothing that a node writes";
  Start start(*this);
  const absl::Status prepared = start.recovery.prepare();
  EXPECT_TRUE(absl::IsDataLoss(prepared)) << prepared;
  EXPECT_THAT(std::string(prepared.message()), HasSubstr(directory_.path()));
}

/// A dropped table leaves no note. So the log keeps its records for a database that may be put back.
TEST_F(NodeRecoveryTest, ALogKeepsTheRecordsOfADatabaseThatIsGone) {
  {
    Start start(*this);
    absl::StatusOr<Recovered> recovered = recover(start);
    ASSERT_TRUE(recovered.ok()) << recovered.status();
    append_record(*recovered, kShard);
    ASSERT_TRUE(engine_->open_db(shards(), kShard).ok());
  }
  ASSERT_TRUE(write_views(files_, {{kShard, kMadeUnreplicated}}).ok());
  const std::string database = shards() + "/" + files::shard_name(kShard);
  const std::string aside = directory_.path() + "/aside";
  fs::rename(database, aside);
  const auto refusal = [&] {
    Start start(*this);
    const absl::StatusOr<Recovered> recovered = recover(start);
    EXPECT_TRUE(recovered.ok()) << recovered.status();
    EXPECT_EQ(start.recovery.state().storage_incarnation, 1u);
    return recovered.ok() && recovered->refused.contains(kShard) ? recovered->refused.at(kShard) : absl::OkStatus();
  };
  for (int starts = 0; starts < 2; ++starts) {
    const absl::Status why = refusal();
    EXPECT_TRUE(absl::IsDataLoss(why)) << why;
    EXPECT_THAT(why.ToString(), HasSubstr(database));
  }
  fs::rename(aside, database);
  EXPECT_THAT(refusal().ToString(), HasSubstr("record 1 of the shard")) << "the record is there, and no shard's";
  fs::remove_all(database);
  ASSERT_TRUE(write_views(files_, {}).ok());
  EXPECT_TRUE(refusal().ok());
  EXPECT_THAT(lines_, HasSubstr("which has no data here: dropped"));
}

/// Others must not take the replica for the member that had the data.
TEST_F(NodeRecoveryTest, ADamagedReplicaIsRefusedAndTheNodeLearnsAgain) {
  {
    Start start(*this);
    absl::StatusOr<Recovered> recovered = recover(start);
    ASSERT_TRUE(recovered.ok()) << recovered.status();
    append_record(*recovered, kShard);
    ASSERT_TRUE(engine_->open_db(shards(), kShard).ok());
  }
  std::ofstream(shards() + "/" + files::shard_name(kShard) + "/CURRENT") << "no manifest";
  write_view_of(kShard);
  Start start(*this);
  const absl::StatusOr<Recovered> recovered = recover(start);
  ASSERT_TRUE(recovered.ok()) << recovered.status();
  EXPECT_TRUE(recovered->refused.contains(kShard)) << lines_;
  EXPECT_EQ(recovered->views.size(), 1u);
  EXPECT_EQ(start.recovery.state().storage_incarnation, 2u);
  EXPECT_EQ(read_state(files_)->storage_incarnation, 2u);
}

/// Each shard's start was in the log that the damage has made unreadable.
TEST_F(NodeRecoveryTest, ADamagedHeaderRefusesTheShardsThatNoLogNames) {
  start_shards({{kShard}});
  write_view_of(kShard);
  flip_byte(60);
  EXPECT_EQ(refused_at_start(), std::set<ShardId>{kShard}) << lines_;
  EXPECT_THAT(lines_, HasSubstr("error: worker=0 log damaged file="));
  EXPECT_EQ(read_state(files_)->storage_incarnation, 2u);
  EXPECT_EQ(refused_at_start(), std::set<ShardId>{kShard}) << "the damage is gone, the doubt is not";
  EXPECT_THAT(lines_, Not(HasSubstr("log damaged")));
}

TEST_F(NodeRecoveryTest, DamageToTheGroupOfItsStartRefusesAShard) {
  start_shards({{kShard}, {kOther}});
  write_view_of(kShard);
  flip_byte(kPageBytes + kGroupHeaderBytes + 8);
  EXPECT_EQ(refused_at_start(), std::set<ShardId>{kShard}) << lines_;
  EXPECT_EQ(read_state(files_)->storage_incarnation, 2u);
  EXPECT_EQ(refused_at_start(), std::set<ShardId>{kShard});
}

TEST_F(NodeRecoveryTest, DamageToALogDoesNotConcernAShardOfAnotherLog) {
  options_.workers = 2;
  start_shards({{kShard, 0}, {kOther, 1}});
  flip_byte(60);
  EXPECT_EQ(refused_at_start(), (std::set<ShardId>{kShard})) << lines_;
  EXPECT_EQ(refused_at_start(), (std::set<ShardId>{kShard})) << "no log names the other shard any more";
}

}  // namespace
}  // namespace skua::kv
