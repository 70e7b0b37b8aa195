#include "kvstore/snapshot/shard_snapshot.h"

#include <gtest/gtest.h>

#include <atomic>
#include <filesystem>
#include <fstream>
#include <map>
#include <string>
#include <thread>

#include "kvstore/storage/rocksdb_engine.h"
#include "kvstore/storage/shard_files.h"
#include "rpc/base/crc32c.h"
#include "rpc/base/rng.h"
#include "tests/kvstore/shard/engine_testing.h"

namespace skua::kv {
namespace {

namespace fs = std::filesystem;
using testing::TemporaryDirectory;

constexpr ShardId kId = {7, 3};
const RocksdbOptions kSmall = {.cache_bytes = 8 << 20, .write_buffer_bytes = 8 << 20, .background_threads = 1};
constexpr ClusterId kCluster = {std::byte{1}, std::byte{2}};

void apply(ShardDb& db, std::string_view key, std::optional<std::string_view> value) {
  const uint64_t index = db.applied_index() + 1;
  AppliedEffect effect{.key = key, .value = std::nullopt, .version = index};
  if (value) effect.value = as_byte_span(*value);
  ASSERT_TRUE(db.apply({&effect, 1}, index).ok());
}

std::map<std::string, std::string> rows_of(ShardDb& db) {
  std::map<std::string, std::string> rows;
  const auto end = db.scan({}, [&](const ScanRow& row) {
    rows[std::string(row.key)] = std::to_string(row.version) + "=" + std::string(as_string_view(row.value));
    return true;
  });
  EXPECT_TRUE(end.ok()) << end.status();
  return rows;
}

std::vector<std::string> names_in(const std::string& directory) {
  std::vector<std::string> names;
  for (const auto& entry : fs::directory_iterator(directory)) names.push_back(entry.path().filename().string());
  std::sort(names.begin(), names.end());
  return names;
}

/// A shard with some of everything, and room beside it.
class ShardSnapshotTest : public ::testing::Test {
 protected:
  ShardSnapshotTest() {
    fs::create_directory(from_);
    fs::create_directory(to_);
    db_ = engine_->open_db(from_, kId).value();
    for (int i = 0; i < 50; ++i) apply(*db_, "key" + std::to_string(i), "value" + std::to_string(i));
    apply(*db_, "large", std::string(200'000, 'l'));
    EXPECT_TRUE(db_->flush().ok());
    apply(*db_, "key7", std::nullopt);
    apply(*db_, "key8", "again");
  }

  absl::Status ingest(const ClusterId& cluster = kCluster, ShardId id = kId) {
    return ingest_shard(snapshot_, cluster, to_, id);
  }
  void expect_refused(absl::StatusCode code, std::string_view words) {
    const absl::Status status = ingest();
    EXPECT_EQ(status.code(), code) << status;
    EXPECT_NE(status.message().find(absl::string_view(words.data(), words.size())), absl::string_view::npos) << status;
    EXPECT_EQ(names_in(to_), std::vector<std::string>{}) << "something was left behind";
  }

  const TemporaryDirectory dir_;
  const std::string from_ = dir_.path() + "/from";
  const std::string to_ = dir_.path() + "/to";
  const std::string snapshot_ = dir_.path() + "/snapshot";
  const std::unique_ptr<RocksdbEngine> engine_ = make_rocksdb_engine(kSmall);
  std::unique_ptr<ShardDb> db_;
};

TEST_F(ShardSnapshotTest, Ingest_WhatWasExportedIsTheShardAsItWas) {
  const auto expected = rows_of(*db_);
  const auto manifest = export_shard(*db_, kCluster, snapshot_);
  ASSERT_TRUE(manifest.ok()) << manifest.status();
  EXPECT_EQ(manifest->index, 53u);
  EXPECT_EQ(manifest->id, kId);
  apply(*db_, "later", "not in it");
  ASSERT_TRUE(ingest().ok()) << ingest();
  EXPECT_EQ(names_in(dir_.path()), (std::vector<std::string>{"from", "snapshot", "to"}));
  EXPECT_EQ(names_in(to_), std::vector<std::string>{"7-3"});
  {
    auto other = engine_->open_db(to_, kId, RocksdbEngine::IfMissing::kFail);
    ASSERT_TRUE(other.ok()) << other.status();
    EXPECT_EQ((*other)->applied_index(), 53u);
    EXPECT_EQ(rows_of(**other), expected);
    // The two do not share what they write from here on, and the snapshot can be used again.
    apply(**other, "key1", "elsewhere");
    ASSERT_TRUE((*other)->flush().ok());
  }
  EXPECT_EQ(rows_of(*db_)["key1"], "2=value1");
  ASSERT_TRUE(engine_->destroy_shard(to_, kId).ok());
  ASSERT_TRUE(ingest().ok());
  EXPECT_EQ(rows_of(*engine_->open_db(to_, kId).value()), expected);
}

TEST_F(ShardSnapshotTest, Export_WhileItIsWrittenIsAsAtItsIndex) {
  std::atomic<bool> stop{false};
  std::thread writer([&] {
    for (int i = 0; !stop.load(); ++i) apply(*db_, "n" + std::to_string(i), "v");
  });
  for (int round = 0; round < 3; ++round) {
    const uint64_t before = db_->applied_index();
    const auto manifest = export_shard(*db_, kCluster, snapshot_);
    ASSERT_TRUE(manifest.ok()) << manifest.status();
    EXPECT_GE(manifest->index, before);
    ASSERT_TRUE(ingest().ok());
    {
      const auto opened = engine_->open_db(to_, kId);
      EXPECT_TRUE(opened.ok()) << opened.status();
      if (!opened.ok()) break;
      EXPECT_EQ((*opened)->applied_index(), manifest->index);
      EXPECT_EQ(rows_of(**opened).size(), 50 + (manifest->index - 53)) << "every write up to the index, and none above";
    }
    fs::remove_all(snapshot_);
    fs::remove_all(to_ + "/7-3");
  }
  stop.store(true);
  writer.join();
}

TEST_F(ShardSnapshotTest, Export_DoesNotReplaceWhatIsThere) {
  fs::create_directory(snapshot_);
  EXPECT_EQ(export_shard(*db_, kCluster, snapshot_).status().code(), absl::StatusCode::kAlreadyExists);
}

TEST_F(ShardSnapshotTest, Ingest_RefusesWhatIsNotThisShards) {
  EXPECT_EQ(ingest().code(), absl::StatusCode::kNotFound);
  ASSERT_TRUE(export_shard(*db_, kCluster, snapshot_).ok());
  EXPECT_EQ(ingest(ClusterId{}).code(), absl::StatusCode::kFailedPrecondition);
  EXPECT_EQ(ingest(kCluster, {7, 4}).code(), absl::StatusCode::kFailedPrecondition);
  EXPECT_EQ(names_in(to_), std::vector<std::string>{});
  ASSERT_TRUE(ingest().ok());
  const absl::Status again = ingest();
  EXPECT_EQ(again.code(), absl::StatusCode::kAlreadyExists) << again;
  EXPECT_EQ(names_in(to_), std::vector<std::string>{"7-3"});
}

TEST_F(ShardSnapshotTest, Ingest_RefusesEveryDamageAndLeavesNothing) {
  const auto manifest = export_shard(*db_, kCluster, snapshot_).value();
  ASSERT_GT(manifest.files.size(), 3u);
  for (const SnapshotFile& file : manifest.files) {
    const std::string path = snapshot_ + "/" + file.name;
    // The tables are the running shard's too: damage a copy.
    fs::copy_file(path, path + ".kept");
    fs::remove(path);
    expect_refused(absl::StatusCode::kDataLoss, file.name);
    std::ifstream in(path + ".kept", std::ios::binary);
    std::string bytes((std::istreambuf_iterator<char>(in)), {});
    bytes[bytes.size() / 2] = static_cast<char>(bytes[bytes.size() / 2] ^ 4);
    std::ofstream(path, std::ios::binary) << bytes;
    expect_refused(absl::StatusCode::kDataLoss, file.name);
    std::ofstream(path, std::ios::binary) << bytes.substr(1);
    expect_refused(absl::StatusCode::kDataLoss, file.name);
    fs::rename(path + ".kept", path);
  }
  EXPECT_TRUE(ingest().ok());
}

TEST_F(ShardSnapshotTest, Ingest_RefusesFilesOfAnotherIndex) {
  SnapshotManifest manifest = export_shard(*db_, kCluster, snapshot_).value();
  ++manifest.index;
  std::ofstream(snapshot_ + "/SNAPSHOT", std::ios::binary) << encode_manifest(manifest);
  expect_refused(absl::StatusCode::kDataLoss, "index");
}

TEST_F(ShardSnapshotTest, Leftovers_OfACrashAreRemovedWhenTheyAreMet) {
  // As a crash leaves them: in the middle of an export, of RocksDB's part of it, and of an ingest.
  for (const std::string& left :
       {dir_.path() + "/.new-snapshot", dir_.path() + "/.new-snapshot.tmp", to_ + "/.in-7-3"}) {
    fs::create_directory(left);
    std::ofstream(left + "/000001.sst") << "half";
  }
  ASSERT_TRUE(export_shard(*db_, kCluster, snapshot_).ok());
  ASSERT_TRUE(ingest().ok());
  EXPECT_EQ(names_in(dir_.path()), (std::vector<std::string>{"from", "snapshot", "to"}));
  EXPECT_EQ(names_in(to_), std::vector<std::string>{"7-3"});
  for (const char* name : {".new-1-1", ".in-1-1", ".trash-1-1"}) fs::create_directories(to_ + "/" + name + "/x");
  ASSERT_TRUE(files::remove_leftovers(to_).ok());
  EXPECT_EQ(names_in(to_), std::vector<std::string>{"7-3"});
}

// --- The manifest

SnapshotManifest sample() {
  return {.cluster_id = kCluster, .id = kId, .index = 9, .files = {{"000012.sst", 100, 7}, {"CURRENT", 16, 8}}};
}

/// With a checksum that fits.
std::string sealed(std::string bytes) {
  const uint32_t size = static_cast<uint32_t>(bytes.size());
  store_le(std::as_writable_bytes(std::span(bytes)).data() + 4, size);
  store_le(std::as_writable_bytes(std::span(bytes)).data(), crc32c(as_byte_span(bytes).subspan(4)));
  return bytes;
}

TEST(SnapshotManifest, DecodeManifest_GoldenAndRefusals) {
  const std::string bytes = encode_manifest(sample());
  EXPECT_EQ(bytes.size(), 56u + 14 + 10 + 14 + 7);
  EXPECT_EQ(bytes.substr(8, 24), std::string("SKUASNAP\x01\0\0\0\x07\0\0\0\x03\0\0\0\x02\0\0\0", 24));
  EXPECT_EQ(bytes.substr(48, 8), std::string("\x09\0\0\0\0\0\0\0", 8));
  EXPECT_EQ(decode_manifest(bytes).value(), sample());
  std::string newer = bytes;
  newer[16] = 2;
  EXPECT_EQ(decode_manifest(sealed(newer)).status().code(), absl::StatusCode::kFailedPrecondition);
  EXPECT_EQ(decode_manifest(sealed(bytes.substr(0, bytes.size() - 1))).status().code(), absl::StatusCode::kDataLoss);
  EXPECT_EQ(decode_manifest(sealed(bytes + "x")).status().code(), absl::StatusCode::kDataLoss);
  for (const char* name : {"", ".", "..", "../x", "a/b", "SNAPSHOT", "a b", "CURRENT"}) {
    SnapshotManifest hostile = sample();
    hostile.files[0].name = name;
    EXPECT_EQ(decode_manifest(encode_manifest(hostile)).status().code(), absl::StatusCode::kDataLoss) << name;
  }
}

TEST(SnapshotManifest, DecodeManifest_AnyBytesAreTakenOrRefused) {
  Rng rng(3);
  const std::string good = encode_manifest(sample());
  for (int round = 0; round < 20'000; ++round) {
    std::string bytes = good.substr(0, rng.chance(0.3) ? rng.below(good.size() + 1) : good.size());
    for (uint64_t n = rng.below(4); n > 0 && !bytes.empty(); --n) {
      bytes[rng.below(bytes.size())] = static_cast<char>(rng.below(256));
    }
    if (bytes.size() >= 8 && rng.chance(0.8)) bytes = sealed(bytes);
    const auto decoded = decode_manifest(bytes);
    if (!decoded.ok()) continue;
    EXPECT_EQ(encode_manifest(*decoded), bytes);
  }
}

}  // namespace
}  // namespace skua::kv
