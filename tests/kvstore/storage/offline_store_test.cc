#include "kvstore/storage/offline_store.h"

#include <gtest/gtest.h>

#include <array>
#include <filesystem>
#include <fstream>
#include <map>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "kvstore/codec/effect.h"
#include "kvstore/log/log.h"
#include "kvstore/log/posix_device.h"
#include "kvstore/storage/blob_file.h"
#include "kvstore/storage/recovery.h"
#include "kvstore/storage/replica_rows.h"
#include "kvstore/storage/rocksdb_engine.h"
#include "kvstore/storage/shard_files.h"
#include "tests/kvstore/shard/engine_testing.h"

namespace skua::kv {
namespace {

using testing::TemporaryDirectory;

constexpr ShardId kShard = {7, 0};
constexpr ShardId kOther = {7, 1};
constexpr size_t kBlobBytes = size_t{64} << 10;

struct LoggedWrite {
  uint64_t index = 0;
  Effect effect;
  std::optional<EntryHead> entry{};  // of a shard with replicas
};

/// A stopped node's data directory, made with the parts that make one.
class OfflineStoreTest : public ::testing::Test {
 protected:
  OfflineStoreTest() { std::filesystem::create_directories(files::shards_dir(directory_.path())); }

  /// As an engine of small segments would, and not closed unless `closed`.
  void write_log(uint32_t worker, ShardId id, uint64_t after, const std::vector<LoggedWrite>& writes) {
    const std::string path = files::log_dir(directory_.path(), worker);
    std::filesystem::create_directories(path);
    auto device = open_posix_device(path).value();
    LogOptions options;
    options.identity.log_number = worker;
    options.segment_bytes = 1 << 20;
    options.group_bytes_max = 256 << 10;
    auto recovery = LogRecovery::scan(*device, options.identity, [](const LogProgress&) {}).value();
    auto log = Log::open(*device, options, *recovery).value();
    ASSERT_TRUE(log->start_shard(log_shard_of(id), after, 1, 0).ok());
    for (const LoggedWrite& write : writes) {
      EffectHead buffer;
      ByteWriter head(buffer);
      encode_effect_head(write.effect, head);
      std::array<std::byte, kEntryHeadBytes> entry_buffer;
      ByteWriter entry(entry_buffer);
      if (write.entry) encode_entry_head(*write.entry, entry);
      const ByteSpan payload[] = {entry.written(), head.written(), as_byte_span(write.effect.key),
                                  write.effect.value.value_or(ByteSpan{})};
      const uint64_t epoch = write.entry ? write.entry->epoch : 1;
      const RecordHeader header = {.shard = log_shard_of(id), .index = write.index, .epoch = epoch};
      ASSERT_TRUE(log->append(header, payload).ok());
    }
    ASSERT_TRUE(log->commit().ok());
    ASSERT_TRUE(log->close().ok());
  }

  void write_database(ShardId id, const std::vector<AppliedEffect>& effects) {
    const auto engine = make_rocksdb_engine({});
    auto db = engine->open_db(files::shards_dir(directory_.path()), id).value();
    ASSERT_TRUE(db->apply(effects, effects.back().version).ok());
    ASSERT_TRUE(db->flush().ok());
  }

  [[nodiscard]] std::unique_ptr<OfflineStore> open(bool has_joined = false) const {
    return OfflineStore::open({.data_dir = directory_.path(), .has_joined = has_joined}).value();
  }

  using Rows = std::map<std::string, std::string>;
  Rows dump(const OfflineStore& store, const OfflineStore::Selection& selection = {}) {
    Rows rows;
    const auto visit = [&](ShardId id, const ScanRow& row) {
      rows[files::shard_name(id) + " " + std::string(row.key)] =
          std::string(as_string_view(row.value).substr(0, 8)) + "@" + std::to_string(row.version);
      return true;
    };
    refused_.clear();
    const auto dumped =
        store.dump(selection, visit, [this](ShardId id, const absl::Status& why) { refused_.emplace_back(id, why); });
    EXPECT_TRUE(dumped.ok()) << dumped.status();
    uncommitted_ = dumped.value_or(0);
    return rows;
  }

  static std::vector<std::string> damaged_subjects(const OfflineStore& store) {
    std::vector<std::string> subjects;
    for (const OfflineStore::Finding& finding : damages(store)) {
      subjects.push_back(finding.subject);
      EXPECT_FALSE(finding.remedy.empty()) << finding.subject;
      EXPECT_FALSE(finding.file.empty() && finding.subject.starts_with("log")) << finding.subject;
    }
    return subjects;
  }

  static std::vector<OfflineStore::Finding> damages(const OfflineStore& store) {
    std::vector<OfflineStore::Finding> found;
    store.verify([&](const OfflineStore::Finding& finding) {
      if (!finding.status.ok()) found.push_back(finding);
    });
    return found;
  }

  std::string blob_path() {
    const std::string path = files::shards_dir(directory_.path()) + "/" + files::shard_name(kShard);
    for (const StoredFile& file : OfflineDb::open(path, kShard).value()->files()) {
      if (file.level == StoredFile::kBlobLevel) return file.path;
    }
    return {};
  }

  static void flip(const std::string& path, uint64_t offset) {
    std::fstream file(path, std::ios::in | std::ios::out | std::ios::binary);
    file.seekg(static_cast<std::streamoff>(offset));
    const int byte = file.get();
    file.seekp(static_cast<std::streamoff>(offset));
    file.put(static_cast<char>(byte ^ 0x10));
  }

  static AppliedEffect put(std::string_view key, std::string_view value, uint64_t version) {
    return {.key = key, .value = as_byte_span(value), .version = version};
  }
  static LoggedWrite logged(uint64_t index, std::string_view key, std::optional<std::string_view> value) {
    LoggedWrite write{index, {.key = key, .value = std::nullopt}};
    if (value) write.effect.value = as_byte_span(*value);
    return write;
  }

  const std::string large_ = std::string(kBlobBytes, 'x');
  static LoggedWrite entry(uint64_t index, uint64_t epoch, uint64_t commit_index, std::string_view key,
                           std::string_view value) {
    LoggedWrite write = logged(index, key, value);
    write.entry = {epoch, commit_index};
    return write;
  }

  const TemporaryDirectory directory_;
  // Of the last dump():
  uint64_t uncommitted_ = 0;
  std::vector<std::pair<ShardId, absl::Status>> refused_;
};

TEST_F(OfflineStoreTest, Dump_ShowsWhatRecoveryWouldMake) {
  write_database(kShard, {put("a", "old", 1), put("b", "kept", 2), put("d", "old", 3)});
  write_database(kOther, {put("z", "other", 1)});
  write_log(0, kShard, 2,
            {logged(3, "d", "old"), logged(4, "a", std::nullopt), logged(5, "c", "new"), logged(6, "d", "newer"),
             logged(7, "e", "last")});
  const auto store = open();
  ASSERT_EQ(store->shards().size(), 2u);
  EXPECT_EQ(store->shards()[0].applied_index(), 3u);
  EXPECT_EQ(store->shards()[0].unapplied(), 4u);
  EXPECT_EQ(store->shards()[1].unapplied(), 0u);
  const Rows all = {
      {"7-0 b", "kept@2"}, {"7-0 c", "new@5"}, {"7-0 d", "newer@6"}, {"7-0 e", "last@7"}, {"7-1 z", "other@1"}};
  EXPECT_EQ(dump(*store), all);
  EXPECT_EQ(dump(*store, {.shard = 0, .start = "d"}), (Rows{{"7-0 d", "newer@6"}, {"7-0 e", "last@7"}}));
  EXPECT_EQ(dump(*store, {.table_id = 8}), Rows{});
  EXPECT_TRUE(damages(*store).empty());
  EXPECT_EQ(dump(*open()), all) << "looking changes nothing";
}

TEST_F(OfflineStoreTest, Dump_OfAShardInSeveralLogsGoesByTheNewest) {
  // Its end in the others was refused: they had no room.
  write_database(kShard, {put("a", "applied", 3)});
  write_log(0, kShard, 0, {logged(1, "a", "first")});
  write_log(1, kShard, 3, {logged(4, "b", "newest")});
  write_log(2, kShard, 1, {logged(2, "a", "second")});
  const auto store = open();
  EXPECT_EQ(store->shards()[0].unapplied(), 1u);
  EXPECT_EQ(dump(*store), (Rows{{"7-0 a", "applied@3"}, {"7-0 b", "newest@4"}}));
}

/// As a replica has it that got a copy: the log begins behind entries that are not applied and lie in the database.
TEST_F(OfflineStoreTest, Dump_HasEntriesThatLieInRows) {
  const auto tail_row = [](const Effect& effect) {
    EffectHead buffer;
    ByteWriter head(buffer);
    encode_effect_head(effect, head);
    ReplicaRows::Tail entry{.epoch = 1};
    entry.payload.append(as_string_view(head.written())).append(effect.key);
    if (effect.value) entry.payload.append(as_string_view(*effect.value));
    return encode_tail_row(entry);
  };
  const std::string second = tail_row({.key = "b", .value = as_byte_span("second")});
  const std::string third = tail_row({.key = "a", .value = std::nullopt});
  const std::string fourth = tail_row({.key = "c", .value = as_byte_span("replaced")});
  write_database(kShard, {put("a", "first", 1), put(replica_tail_key(2), second, 1), put(replica_tail_key(3), third, 1),
                          put(replica_tail_key(4), fourth, 1)});
  // Nobody has said that they are committed.
  EXPECT_EQ(dump(*open()), (Rows{{"7-0 a", "first@1"}}));
  EXPECT_EQ(uncommitted_, 3u);
  EXPECT_EQ(dump(*open(), {.uncommitted = true}), (Rows{{"7-0 b", "second@2"}, {"7-0 c", "replaced@4"}}));
  EXPECT_EQ(uncommitted_, 3u);
  // The log replaces the fourth, and says that the first three are committed.
  write_log(0, kShard, 3, {entry(4, 2, 3, "d", "fourth"), entry(5, 2, 3, "e", "fifth")});
  const auto store = open();
  EXPECT_TRUE(store->shards()[0].log_status.ok()) << store->shards()[0].log_status;
  EXPECT_TRUE(damages(*store).empty());
  EXPECT_EQ(dump(*store), (Rows{{"7-0 b", "second@2"}}));
  EXPECT_EQ(uncommitted_, 2u);
  EXPECT_EQ(dump(*store, {.uncommitted = true}),
            (Rows{{"7-0 b", "second@2"}, {"7-0 d", "fourth@4"}, {"7-0 e", "fifth@5"}}));
}

/// What another primary has truncated was never acknowledged.
TEST_F(OfflineStoreTest, Dump_ShowsNothingOfEntriesThatWereReplaced) {
  write_database(kShard, {put("a", "first", 1)});
  write_log(0, kShard, 1,
            {entry(2, 1, 1, "b", "replaced"), entry(3, 1, 1, "c", "replaced"), entry(4, 1, 2, "c", "replaced"),
             entry(3, 2, 2, "d", "third"), entry(4, 2, 3, "e", "fourth")});
  EXPECT_EQ(dump(*open()), (Rows{{"7-0 a", "first@1"}, {"7-0 b", "replaced@2"}, {"7-0 d", "third@3"}}));
  EXPECT_EQ(dump(*open(), {.uncommitted = true}),
            (Rows{{"7-0 a", "first@1"}, {"7-0 b", "replaced@2"}, {"7-0 d", "third@3"}, {"7-0 e", "fourth@4"}}));
}

TEST_F(OfflineStoreTest, Dump_LeavesOutAShardWhoseRecordsRecoveryWouldRefuse) {
  // The rows say that the shard has replicas, and the record in the log is no entry.
  const std::string row = encode_tail_row({.epoch = 1, .payload = "entry"});
  write_database(kShard, {put("a", "there", 1), put(replica_tail_key(2), row, 1)});
  write_database(kOther, {put("z", "other", 1)});
  write_log(0, kShard, 1, {logged(2, "b", "record")});
  const auto store = open();
  ASSERT_TRUE(store->shards()[0].is_sound());
  EXPECT_EQ(dump(*store), (Rows{{"7-1 z", "other@1"}}));
  ASSERT_EQ(refused_.size(), 1u);
  EXPECT_EQ(refused_[0].first, kShard);
  EXPECT_TRUE(absl::IsDataLoss(refused_[0].second)) << refused_[0].second;
  EXPECT_EQ(dump(*store, {.salvage = true}), (Rows{{"7-0 a", "there@1"}, {"7-1 z", "other@1"}}));
}

TEST_F(OfflineStoreTest, Dump_LeavesOutAShardThatLostRecords) {
  write_database(kShard, {put("a", "there", 1)});
  write_log(0, kShard, 5, {logged(6, "b", "v")});
  write_log(1, kOther, 0, {logged(1, "b", "v")});
  const auto store = open();
  EXPECT_TRUE(absl::IsDataLoss(store->shards()[0].log_status)) << store->shards()[0].log_status;
  EXPECT_EQ(dump(*store), Rows{});
  EXPECT_EQ(dump(*store, {.salvage = true}), (Rows{{"7-0 a", "there@1"}}));
  EXPECT_EQ(damaged_subjects(*store), (std::vector<std::string>{"shard 7-0", "shard 7-1"}));
}

/// Whether it was dropped or its directory is lost, nobody can tell.
TEST_F(OfflineStoreTest, AShardThatOnlyALogKnowsIsNamed) {
  write_database(kShard, {put("a", "there", 1)});
  write_log(0, kOther, 0, {logged(1, "b", "v"), logged(2, "c", "v")});
  const auto store = open();
  EXPECT_TRUE(absl::IsNotFound(store->shards()[1].status)) << store->shards()[1].status;
  const auto found = damages(*store);
  ASSERT_EQ(found.size(), 1u);
  EXPECT_EQ(found[0].subject, "shard 7-1");
  EXPECT_EQ(found[0].file, files::shards_dir(directory_.path()) + "/7-1");
  EXPECT_NE(found[0].status.message().find("up to 2"), std::string::npos) << found[0].status;
  for (const bool salvage : {false, true}) {
    EXPECT_EQ(dump(*store, {.salvage = salvage}), (Rows{{"7-0 a", "there@1"}}));
    ASSERT_EQ(refused_.size(), 1u);
    EXPECT_EQ(refused_[0].first, kOther);
  }
  EXPECT_EQ(dump(*store, {.shard = 0}), (Rows{{"7-0 a", "there@1"}}));
  EXPECT_TRUE(refused_.empty()) << "it was not asked for";
}

TEST_F(OfflineStoreTest, AMissingLogIsNamedAndSoAreTheShardsThatItMayHaveHad) {
  write_database(kShard, {put("a", "there", 1)});
  write_database(kOther, {put("z", "there", 1)});
  write_log(0, kShard, 1, {logged(2, "b", "v")});
  write_log(2, kShard, 0, {logged(1, "a", "there")});
  std::filesystem::create_directories(files::logs_dir(directory_.path()) + "/lost+found");
  const auto store = open(true);
  ASSERT_EQ(store->logs().size(), 3u);
  EXPECT_TRUE(store->logs()[0].status.ok()) << store->logs()[0].status;
  EXPECT_TRUE(absl::IsDataLoss(store->logs()[1].status)) << store->logs()[1].status;
  EXPECT_TRUE(store->logs()[2].status.ok()) << store->logs()[2].status;
  EXPECT_EQ(damaged_subjects(*store), (std::vector<std::string>{"log 1", "shard 7-1"}));
  EXPECT_EQ(dump(*store), (Rows{{"7-0 a", "there@1"}, {"7-0 b", "v@2"}}));
  ASSERT_EQ(refused_.size(), 1u);
  EXPECT_EQ(refused_[0].first, kOther);
  EXPECT_NE(refused_[0].second.message().find("log 1"), std::string::npos) << refused_[0].second;
  EXPECT_EQ(dump(*store, {.shard = 1, .salvage = true}), (Rows{{"7-1 z", "there@1"}}));
}

TEST_F(OfflineStoreTest, ANodeThatHasJoinedHasALog) {
  EXPECT_TRUE(open(true)->logs().empty()) << "it may have ended before it made the log";
  write_database(kShard, {put("a", "there", 1)});
  EXPECT_TRUE(open()->logs().empty());
  const auto store = open(true);
  EXPECT_EQ(damaged_subjects(*store), (std::vector<std::string>{"log 0", "shard 7-0"}));
  EXPECT_EQ(dump(*store), Rows{});
}

TEST_F(OfflineStoreTest, ALogOfAnotherNumberIsNoneOfThisNumber) {
  write_database(kShard, {put("a", "there", 1)});
  write_log(0, kShard, 1, {logged(2, "b", "v")});
  std::filesystem::rename(files::log_dir(directory_.path(), 0), files::log_dir(directory_.path(), 1));
  const auto store = open();
  EXPECT_EQ(damaged_subjects(*store), (std::vector<std::string>{"log 0", "log 1", "shard 7-0"}));
  EXPECT_EQ(dump(*store), Rows{});
}

TEST_F(OfflineStoreTest, Dump_LeavesOutWhatHasExpired) {
  AppliedEffect stored = put("a", "brief", 1);
  stored.expires_at = 1000;
  AppliedEffect replaced = put("b", "long", 2);
  replaced.expires_at = 5000;
  write_database(kShard, {stored, replaced, put("c", "ever", 3)});
  LoggedWrite brief = logged(4, "b", "brief");
  brief.effect.expires_at = 1000;
  LoggedWrite fresh = logged(5, "d", "fresh");
  fresh.effect.expires_at = 3000;
  write_log(0, kShard, 3, {brief, fresh});
  const auto store = open();
  EXPECT_EQ(dump(*store, {.now_ms = 999}),
            (Rows{{"7-0 a", "brief@1"}, {"7-0 b", "brief@4"}, {"7-0 c", "ever@3"}, {"7-0 d", "fresh@5"}}));
  EXPECT_EQ(dump(*store, {.now_ms = 1000}), (Rows{{"7-0 c", "ever@3"}, {"7-0 d", "fresh@5"}}));
  EXPECT_EQ(dump(*store, {.now_ms = 3000}), (Rows{{"7-0 c", "ever@3"}}));
}

TEST_F(OfflineStoreTest, Verify_NamesTheDamagedBlob) {
  write_database(kShard, {put("a", "small", 1), put("big", large_, 2)});
  const std::string path = blob_path();
  ASSERT_FALSE(path.empty());
  flip(path, 5000);
  const auto found = damages(*open());
  ASSERT_EQ(found.size(), 1u);
  EXPECT_EQ(found[0].file, path);
  EXPECT_EQ(found[0].offset, 30u) << "where the record begins";
}

TEST_F(OfflineStoreTest, CheckBlobFile_FindsEveryFlippedByteAndEveryCut) {
  write_database(kShard, {put("big", large_, 2)});
  const std::string path = blob_path();
  const uint64_t bytes = std::filesystem::file_size(path);
  ASSERT_TRUE(check_blob_file(path).ok());
  constexpr uint64_t kMagicBytes = 4;
  constexpr uint64_t kHeaderBytes = 30;  // what follows the magic in it has no checksum
  for (uint64_t at = 0; at < bytes; at += at < 100 || at + 100 > bytes ? 1 : 997) {
    if (at >= kMagicBytes && at < kHeaderBytes) continue;
    flip(path, at);
    EXPECT_TRUE(absl::IsDataLoss(check_blob_file(path))) << at;
    flip(path, at);
  }
  EXPECT_TRUE(check_blob_file(path).ok());
  for (const uint64_t cut : {bytes - 1, bytes - 32, bytes - 33, uint64_t{62}, uint64_t{30}, uint64_t{0}}) {
    std::filesystem::resize_file(path, cut);
    EXPECT_TRUE(absl::IsDataLoss(check_blob_file(path))) << cut;
  }
}

}  // namespace
}  // namespace skua::kv
