#include <gtest/gtest.h>
#include <rocksdb/env.h>

#include <atomic>
#include <filesystem>
#include <fstream>
#include <functional>
#include <future>
#include <iterator>
#include <string>
#include <thread>
#include <vector>

#include "kvstore/codec/limits.h"
#include "kvstore/engine/rocksdb_internal.h"
#include "tests/kvstore/engine/engine_testing.h"

namespace skua::kv {
namespace {

using testing::MutationMaker;
using testing::TemporaryDirectory;
using testing::TwinShard;

constexpr ShardId kId = {1, 0};

RocksdbOptions small_options() {
  return {.block_cache_bytes = 8 << 20,
          .write_buffer_bytes = 8 << 20,
          .read_cache_bytes = 64 << 10,
          .background_threads = 1,
          .sync_writes = true};
}

/// Fails writes and syncs of the write-ahead log when told to, and counts syncs.
class FaultyEnv final : public rocksdb::EnvWrapper {
 public:
  FaultyEnv() : rocksdb::EnvWrapper(rocksdb::Env::Default()) {}
  [[nodiscard]] const char* Name() const override { return "FaultyEnv"; }

  std::atomic<bool> fail_sync{false};
  std::atomic<bool> fail_append{false};
  std::atomic<int> syncs{0};

  rocksdb::Status NewWritableFile(const std::string& name, std::unique_ptr<rocksdb::WritableFile>* file,
                                  const rocksdb::EnvOptions& options) override {
    rocksdb::Status status = EnvWrapper::NewWritableFile(name, file, options);
    if (status.ok() && name.ends_with(".log")) {
      *file = std::make_unique<FaultyFile>(std::move(*file), *this);
    }
    return status;
  }

 private:
  class FaultyFile final : public rocksdb::WritableFileWrapper {
   public:
    FaultyFile(std::unique_ptr<rocksdb::WritableFile> file, FaultyEnv& env)
        : WritableFileWrapper(file.get()), file_(std::move(file)), env_(env) {}
    rocksdb::Status Append(const rocksdb::Slice& data) override {
      if (env_.fail_append) return rocksdb::Status::NoSpace("injected");
      return WritableFileWrapper::Append(data);
    }
    rocksdb::Status Append(const rocksdb::Slice& data, const rocksdb::DataVerificationInfo& info) override {
      if (env_.fail_append) return rocksdb::Status::NoSpace("injected");
      return WritableFileWrapper::Append(data, info);
    }
    rocksdb::Status Sync() override {
      ++env_.syncs;
      if (env_.fail_sync) return rocksdb::Status::IOError("injected");
      return WritableFileWrapper::Sync();
    }
    rocksdb::Status Fsync() override { return Sync(); }

   private:
    const std::unique_ptr<rocksdb::WritableFile> file_;
    FaultyEnv& env_;
  };
};

class RocksdbShardStoreTest : public ::testing::Test {
 protected:
  void open(const RocksdbOptions& options = small_options()) {
    store_.reset();
    engine_.reset();
    engine_ = internal::make_rocksdb_engine_on(options, &env_, between_writes_);
    auto store = engine_->open_shard(dir_.path(), kId);
    ASSERT_TRUE(store.ok()) << store.status();
    store_ = std::move(*store);
  }

  void TearDown() override {
    store_.reset();
    engine_.reset();
  }

  MutationResult apply(const Mutation& mutation) {
    MutationResult result;
    (void)store_->apply({&mutation, 1}, {&result, 1});
    return result;
  }
  MutationResult put(std::string_view key, std::string_view value, Condition condition = {}) {
    return apply(Mutation::put(key, as_byte_span(value), condition));
  }

  /// The value wherever it is, "(absent)" if nowhere.
  std::string get(std::string_view key) {
    PinnedValue value;
    const absl::Status status = store_->get(key, value);
    if (absl::IsNotFound(status)) return "(absent)";
    EXPECT_TRUE(status.ok()) << status;
    return std::string(as_string_view(value.bytes()));
  }

  std::vector<std::string> scan_keys(const ScanRange& range, size_t rows_max = SIZE_MAX) {
    std::vector<std::string> keys;
    const auto ended = store_->scan(range, [&](const ScanRow& row) {
      if (keys.size() == rows_max) return false;
      keys.emplace_back(row.key);
      return true;
    });
    EXPECT_TRUE(ended.ok()) << ended.status();
    return keys;
  }

  void expect_same_as(const TwinShard& twin) {
    ASSERT_EQ(store_->last_index(), twin.last_index());
    auto expected = twin.rows().begin();
    const auto ended = store_->scan({}, [&](const ScanRow& row) {
      EXPECT_NE(expected, twin.rows().end());
      if (expected == twin.rows().end()) return false;
      EXPECT_EQ(row.key, expected->first);
      EXPECT_EQ(row.version, expected->second.version);
      EXPECT_EQ(as_string_view(row.value), expected->second.value);
      ++expected;
      return true;
    });
    ASSERT_TRUE(ended.ok()) << ended.status();
    EXPECT_EQ(ended->index, twin.last_index());
    EXPECT_EQ(expected, twin.rows().end());
  }

  const TemporaryDirectory dir_;
  FaultyEnv env_;
  std::function<void()> between_writes_;
  std::unique_ptr<RocksdbEngine> engine_;
  std::unique_ptr<ShardStore> store_;
};

TEST_F(RocksdbShardStoreTest, TryGet_HitNotFoundAndVersion) {
  open();
  PinnedValue value;
  EXPECT_EQ(store_->try_get("a", value), ReadOutcome::kNotFound);
  EXPECT_EQ(store_->try_get("", value), ReadOutcome::kNotFound) << "the shard's own record is not a key";
  EXPECT_EQ(get(""), "(absent)");
  EXPECT_EQ(put("a", "1"), (MutationResult{KvStatus::kOk, 1}));
  EXPECT_EQ(put("a", "2"), (MutationResult{KvStatus::kOk, 2}));
  ASSERT_EQ(store_->try_get("a", value), ReadOutcome::kHit);
  EXPECT_EQ(as_string_view(value.bytes()), "2");
  EXPECT_EQ(value.version(), 2U);
}

TEST_F(RocksdbShardStoreTest, TryGet_WouldBlockUntilTheValueIsInMemory) {
  RocksdbOptions options = small_options();
  options.read_cache_bytes = 0;
  for (const size_t value_bytes : {size_t{100}, size_t{200'000}}) {
    const std::string key = "key" + std::to_string(value_bytes);
    const std::string text(value_bytes, 'v');
    open(options);
    ASSERT_EQ(put(key, text).status, KvStatus::kOk);
    for (int i = 0; i < 10; ++i) put("a filler" + std::to_string(i), std::string(4000, 'f'));
    // Opening replays the log into a table file; it reads the first block, with its own record, but not the key's.
    open(options);
    PinnedValue value;
    EXPECT_EQ(store_->try_get(key, value), ReadOutcome::kWouldBlock) << value_bytes;
    EXPECT_TRUE(value.bytes().empty());
    EXPECT_EQ(store_->try_get("absent", value), ReadOutcome::kNotFound) << "the filter knows";
    ASSERT_TRUE(store_->get(key, value).ok());
    EXPECT_EQ(as_string_view(value.bytes()), text);
    value.reset();
    ASSERT_EQ(store_->try_get(key, value), ReadOutcome::kHit) << value_bytes;
    EXPECT_EQ(as_string_view(value.bytes()), text);
  }
}

TEST_F(RocksdbShardStoreTest, PinnedValue_StaysWhileTheKeyChanges) {
  open();
  for (const size_t value_bytes : {size_t{100}, kReadCacheValueBytesMax + 1, size_t{1} << 20}) {
    const std::string old(value_bytes, 'o');
    ASSERT_EQ(put("key", old).status, KvStatus::kOk);
    PinnedValue value;
    ASSERT_TRUE(store_->get("key", value).ok());
    ASSERT_EQ(put("key", std::string(value_bytes, 'n')).status, KvStatus::kOk);
    ASSERT_EQ(apply(Mutation::remove("key")).status, KvStatus::kOk);
    std::thread([pinned = std::move(value), &old]() mutable {
      EXPECT_EQ(as_string_view(pinned.bytes()), old);
      pinned.reset();
    }).join();
  }
}

TEST_F(RocksdbShardStoreTest, Apply_Conditions) {
  open();
  EXPECT_EQ(put("a", "1", Condition::if_version(5)), (MutationResult{KvStatus::kVersionMismatch, 0}));
  EXPECT_EQ(put("a", "1", Condition::if_absent()), (MutationResult{KvStatus::kOk, 1}));
  EXPECT_EQ(put("a", "2", Condition::if_absent()), (MutationResult{KvStatus::kAlreadyExists, 1}));
  EXPECT_EQ(put("a", "2", Condition::if_version(1)), (MutationResult{KvStatus::kOk, 2}));
  EXPECT_EQ(put("a", "3", Condition::if_version(1)), (MutationResult{KvStatus::kVersionMismatch, 2}));
  EXPECT_EQ(get("a"), "2");
  EXPECT_EQ(apply(Mutation::remove("a", Condition::if_version(1))), (MutationResult{KvStatus::kVersionMismatch, 2}));
  EXPECT_EQ(apply(Mutation::remove("a", Condition::if_version(2))), (MutationResult{KvStatus::kOk, 3}));
  EXPECT_EQ(apply(Mutation::remove("a")), (MutationResult{KvStatus::kNotFound, 0}));
  EXPECT_EQ(get("a"), "(absent)");
  EXPECT_EQ(put("a", "4"), (MutationResult{KvStatus::kOk, 4})) << "a version is never used again";
}

TEST_F(RocksdbShardStoreTest, Apply_Patch) {
  open();
  std::string fields;
  append_field(fields, {"f", as_byte_span("v")});
  EXPECT_EQ(apply(Mutation::patch("row", as_byte_span(fields), false)), (MutationResult{KvStatus::kNotFound, 0}));
  EXPECT_EQ(apply(Mutation::patch("row", as_byte_span(fields), true)), (MutationResult{KvStatus::kOk, 1}));
  EXPECT_EQ(get("row"), fields);
  EXPECT_EQ(put("text", "plain").version, 2U);
  EXPECT_EQ(apply(Mutation::patch("text", as_byte_span(fields), true)), (MutationResult{KvStatus::kNotARow, 2}));
  EXPECT_EQ(apply(Mutation::patch("row", as_byte_span("plain"), true)),
            (MutationResult{KvStatus::kInvalidArgument, 1}));
}

TEST_F(RocksdbShardStoreTest, Apply_OneSyncPerGroup) {
  open();
  std::vector<std::string> keys;
  for (int i = 0; i < 100; ++i) keys.push_back("key" + std::to_string(i));
  std::vector<Mutation> group;
  for (const std::string& key : keys) group.push_back(Mutation::put(key, as_byte_span("v")));
  std::vector<MutationResult> results(group.size());
  const int before = env_.syncs;
  ASSERT_TRUE(store_->apply(group, results).ok());
  EXPECT_EQ(env_.syncs, before + 1);
  const Mutation nothing = Mutation::remove("absent");
  ASSERT_TRUE(store_->apply({&nothing, 1}, {results.data(), 1}).ok());
  EXPECT_EQ(env_.syncs, before + 1) << "what changes nothing is not written";
}

TEST_F(RocksdbShardStoreTest, LastIndex_SurvivesDeletesAndReopening) {
  open();
  for (const char* key : {"a", "b", "c"}) put(key, "1");
  for (const char* key : {"a", "b", "c"}) apply(Mutation::remove(key));
  EXPECT_EQ(store_->last_index(), 6U);
  open();
  EXPECT_EQ(store_->last_index(), 6U);
  EXPECT_TRUE(scan_keys({}).empty());
  EXPECT_EQ(put("a", "2"), (MutationResult{KvStatus::kOk, 7}));
}

TEST_F(RocksdbShardStoreTest, Limits_LargestKeyAndValue) {
  open();
  const std::string key(kKeyBytesMax, '\xff');
  const std::string value(kValueBytesMax, 'v');
  ASSERT_EQ(put(key, value).status, KvStatus::kOk);
  ASSERT_EQ(put("empty", "").status, KvStatus::kOk);
  EXPECT_EQ(get(key), value);
  open();
  EXPECT_EQ(get(key), value);
  EXPECT_EQ(get("empty"), "");
  EXPECT_EQ(put(std::string(kKeyBytesMax + 1, 'k'), "v").status, KvStatus::kInvalidArgument);
}

TEST_F(RocksdbShardStoreTest, Apply_AgreesWithTwinThroughReopening) {
  for (uint64_t seed = 1; seed <= 3; ++seed) {
    ASSERT_TRUE(!store_ || (store_.reset(), engine_->destroy_shard(dir_.path(), kId).ok()));
    open();
    MutationMaker maker{Rng(seed)};
    TwinShard twin;
    PinnedValue value;
    for (int round = 0; round < 400; ++round) {
      maker.clear();
      std::vector<Mutation> group;
      for (uint64_t n = maker.rng().between(1, 12); n > 0; --n) {
        group.push_back(maker.make([&](std::string_view key) {
          const auto* row = twin.find(key);
          return row == nullptr ? 0 : row->version;
        }));
      }
      std::vector<MutationResult> results(group.size());
      ASSERT_TRUE(store_->apply(group, results).ok());
      for (size_t i = 0; i < group.size(); ++i) {
        ASSERT_EQ(results[i], twin.apply(group[i])) << "seed " << seed << " round " << round;
      }
      const std::string key = "key" + std::to_string(maker.rng().below(30));
      const auto* row = twin.find(key);
      const ReadOutcome outcome = store_->try_get(key, value);
      if (outcome != ReadOutcome::kWouldBlock) {
        ASSERT_EQ(outcome == ReadOutcome::kHit, row != nullptr) << key;
        if (row != nullptr) {
          ASSERT_EQ(as_string_view(value.bytes()), row->value);
        }
      }
      ASSERT_EQ(get(key), row == nullptr ? "(absent)" : row->value);
      if (maker.rng().chance(0.02)) open();
    }
    expect_same_as(twin);
    open();
    expect_same_as(twin);
  }
}

TEST_F(RocksdbShardStoreTest, CopyTakenWhileOpen_HasAllThatWasAcknowledged) {
  // What is on disk at this moment is what kill -9 leaves.
  open();
  TwinShard twin;
  MutationMaker maker{Rng(9)};
  for (int i = 0; i < 200; ++i) {
    const Mutation mutation = maker.make([](std::string_view) { return uint64_t{0}; });
    ASSERT_EQ(apply(mutation), twin.apply(mutation));
  }
  const TemporaryDirectory copy;
  std::filesystem::copy(dir_.path() + "/1-0", copy.path() + "/1-0", std::filesystem::copy_options::recursive);
  store_ = engine_->open_shard(copy.path(), kId).value();
  expect_same_as(twin);
}

TEST_F(RocksdbShardStoreTest, TornLogTail_LosesOnlyTheTornGroup) {
  open();
  for (int i = 0; i < 20; ++i) put("key" + std::to_string(i), std::string(50, 'v'));
  const TemporaryDirectory copy;
  const std::string to = copy.path() + "/1-0";
  std::filesystem::copy(dir_.path() + "/1-0", to, std::filesystem::copy_options::recursive);
  std::filesystem::path log;
  for (const auto& entry : std::filesystem::directory_iterator(to)) {
    if (entry.path().extension() == ".log" && std::filesystem::file_size(entry) > 0) log = entry.path();
  }
  ASSERT_FALSE(log.empty());
  std::filesystem::resize_file(log, std::filesystem::file_size(log) - 3);
  store_ = engine_->open_shard(copy.path(), kId).value();
  EXPECT_EQ(store_->last_index(), 19U);
  EXPECT_EQ(get("key19"), "(absent)");
  EXPECT_EQ(get("key18"), std::string(50, 'v'));
}

TEST_F(RocksdbShardStoreTest, CorruptLogMiddle_IsRefusedNotSkipped) {
  open();
  for (int i = 0; i < 20; ++i) put("key" + std::to_string(i), std::string(50, 'v'));
  const TemporaryDirectory copy;
  const std::string to = copy.path() + "/1-0";
  std::filesystem::copy(dir_.path() + "/1-0", to, std::filesystem::copy_options::recursive);
  for (const auto& entry : std::filesystem::directory_iterator(to)) {
    if (entry.path().extension() != ".log" || std::filesystem::file_size(entry) == 0) continue;
    // In a value: RocksDB takes a damaged length, though, for the end of the log.
    std::fstream file(entry.path(), std::ios::in | std::ios::out | std::ios::binary);
    const std::string bytes(std::istreambuf_iterator<char>(file), {});
    file.seekp(static_cast<std::streamoff>(bytes.find("vvvvvvvv", bytes.size() / 2)));
    file << 'X';
  }
  const absl::Status status = engine_->open_shard(copy.path(), kId).status();
  EXPECT_EQ(status.code(), absl::StatusCode::kDataLoss) << status;
}

TEST_F(RocksdbShardStoreTest, Scan_RangesAndPages) {
  open();
  for (const char* key : {"b", "a", "d", "c", "e"}) put(key, key);
  using Keys = std::vector<std::string>;
  EXPECT_EQ(scan_keys({}), (Keys{"a", "b", "c", "d", "e"}));
  EXPECT_EQ(scan_keys({.start = "b", .end = "d"}), (Keys{"b", "c"}));
  EXPECT_EQ(scan_keys({.start = "b", .start_exclusive = true}), (Keys{"c", "d", "e"}));
  EXPECT_EQ(scan_keys({.start = "bb", .start_exclusive = true}), (Keys{"c", "d", "e"}));
  EXPECT_EQ(scan_keys({.end = "b"}), (Keys{"a"}));
  EXPECT_EQ(scan_keys({.start = "d", .end = "b"}), Keys{});
  EXPECT_EQ(scan_keys({.start = "x"}), Keys{});
  EXPECT_EQ(scan_keys({}, 2), (Keys{"a", "b"}));
}

TEST_F(RocksdbShardStoreTest, Scan_ResumesByToken) {
  open();
  std::vector<std::string> all;
  for (int i = 100; i < 200; ++i) {
    all.push_back("key" + std::to_string(i));
    put(all.back(), "value");
  }
  std::vector<std::string> seen;
  std::string token;
  ScanReplyBuilder page(7, 1000);
  for (int pages = 0; pages < 100; ++pages) {
    const ScanRequest request{
        .start_key = "key1", .end_key = "key2", .rows_max = 7, .bytes_max = 1000, .resume_token = token};
    page.reset(request.rows_max, request.bytes_max);
    const auto ended = store_->scan(scan_range(request).value(), [&](const ScanRow& row) { return page.add(row); });
    ASSERT_TRUE(ended.ok());
    ScanReply reply = decode_scan_reply(page.finish({}, ended->has_more)).value();
    while (auto row = reply.rows.next()) seen.emplace_back(row->key);
    token = reply.resume_token;
    if (!reply.has_more) break;
  }
  EXPECT_EQ(seen, all);
}

TEST_F(RocksdbShardStoreTest, Scan_RefusesForeignTokens) {
  EXPECT_EQ(scan_range({.resume_token = "zzz"}).status().code(), absl::StatusCode::kInvalidArgument);
  const auto before_start = scan_range({.start_key = "m",
                                        .resume_token = "\x01"
                                                        "a"});
  EXPECT_EQ(before_start->start, "m");
  EXPECT_FALSE(before_start->start_exclusive);
}

TEST_F(RocksdbShardStoreTest, FailedSync_MakesTheShardReadOnly) {
  open();
  ASSERT_EQ(put("a", "1").status, KvStatus::kOk);
  EXPECT_TRUE(store_->health().ok());
  env_.fail_sync = true;
  EXPECT_EQ(put("a", "2"), (MutationResult{KvStatus::kStorageFailed, 0}));
  const int syncs = env_.syncs;
  env_.fail_sync = false;
  EXPECT_EQ(put("a", "3"), (MutationResult{KvStatus::kShardReadOnly, 0})) << "a healthy disk comes too late";
  EXPECT_EQ(apply(Mutation::remove("a")), (MutationResult{KvStatus::kShardReadOnly, 0}));
  EXPECT_EQ(env_.syncs, syncs) << "the sync is not tried again";
  EXPECT_FALSE(store_->health().ok());
  EXPECT_NE(store_->health().message().find("refuses writes"), absl::string_view::npos) << store_->health();
  EXPECT_EQ(store_->last_index(), 1U);
  EXPECT_EQ(get("a"), "1") << "reads go on, of what was acknowledged";
  PinnedValue value;
  EXPECT_EQ(store_->try_get("a", value), ReadOutcome::kHit);
}

TEST_F(RocksdbShardStoreTest, FullDisk_IsTyped) {
  open();
  ASSERT_EQ(put("a", "1").status, KvStatus::kOk);
  env_.fail_append = true;
  EXPECT_EQ(put("a", "2").status, KvStatus::kStorageFailed);
  EXPECT_EQ(store_->health().code(), absl::StatusCode::kResourceExhausted) << store_->health();
  env_.fail_append = false;
  open();
  EXPECT_EQ(get("a"), "1");
  EXPECT_EQ(put("a", "3").status, KvStatus::kOk) << "opened again, it writes again";
}

TEST_F(RocksdbShardStoreTest, HalfVisibleGroup_IsNotShownByAScanWhileAGetShowsTheOldValue) {
  // apply() stands between RocksDB's write, which is visible, and the read cache's.
  std::promise<void> reached;
  std::promise<void> go_on;
  bool armed = false;
  between_writes_ = [&] {
    if (!armed) return;
    reached.set_value();
    go_on.get_future().wait();
  };
  open();
  put("key", "old");
  PinnedValue value;
  ASSERT_EQ(store_->try_get("key", value), ReadOutcome::kHit);
  armed = true;
  std::thread writer([&] { EXPECT_EQ(put("key", "new").version, 2U); });
  reached.get_future().wait();

  std::atomic<bool> scanned{false};
  std::thread scanner([&] {
    uint64_t version = 0;
    EXPECT_TRUE(store_
                    ->scan({},
                           [&](const ScanRow& row) {
                             version = row.version;
                             return true;
                           })
                    .ok());
    EXPECT_EQ(version, 2U);
    scanned.store(true);
    PinnedValue after;
    EXPECT_EQ(store_->try_get("key", after), ReadOutcome::kHit);
    EXPECT_EQ(after.version(), 2U) << "a GET after the scan goes back";
  });
  // Many turns for the scanner, which must not finish.
  for (int i = 0; i < 200 && !scanned.load(); ++i) {
    ASSERT_EQ(store_->try_get("key", value), ReadOutcome::kHit);
    if (!scanned.load()) {
      EXPECT_EQ(as_string_view(value.bytes()), "old");
    }
    std::this_thread::yield();
  }
  EXPECT_FALSE(scanned.load());
  EXPECT_EQ(store_->last_index(), 1U);
  go_on.set_value();
  scanner.join();
  writer.join();
  between_writes_ = {};
}

TEST_F(RocksdbShardStoreTest, Threads_NobodySeesAVersionGoBack) {
  // A writer against readers that get, try_get and scan. Versions of one key never go back within a reader, and what
  // was acknowledged before a read began is seen by it.
  RocksdbOptions options = small_options();
  options.read_cache_bytes = 2 << 10;  // so that keys come and go
  options.sync_writes = false;
  open(options);
  constexpr size_t kKeys = 16;
  std::vector<std::string> keys;
  for (size_t i = 0; i < kKeys; ++i) keys.push_back("key" + std::to_string(100 + i));
  std::atomic<bool> stop{false};
  std::array<std::atomic<uint64_t>, kKeys> acknowledged{};
  for (size_t i = 0; i < kKeys; ++i) acknowledged[i] = put(keys[i], "start").version;

  std::vector<std::thread> readers;
  std::atomic<int> went_back{0};
  for (uint64_t seed = 1; seed <= 2; ++seed) {
    readers.emplace_back([&, seed] {
      Rng rng(seed);
      std::array<uint64_t, kKeys> seen{};
      std::array<uint64_t, kKeys> floor{};
      PinnedValue value;
      while (!stop.load()) {
        for (size_t i = 0; i < kKeys; ++i) floor[i] = std::max(seen[i], acknowledged[i].load());
        const auto saw = [&](size_t i, uint64_t version) {
          if (version < floor[i]) went_back.fetch_add(1);
          seen[i] = version;
        };
        if (rng.chance(0.1)) {
          size_t i = 0;
          EXPECT_TRUE(store_
                          ->scan({},
                                 [&](const ScanRow& row) {
                                   saw(i++, row.version);
                                   return true;
                                 })
                          .ok());
          EXPECT_EQ(i, kKeys);
          continue;
        }
        const size_t i = rng.below(kKeys);
        if (store_->try_get(keys[i], value) == ReadOutcome::kHit || store_->get(keys[i], value).ok()) {
          saw(i, value.version());
        } else {
          went_back.fetch_add(1);
        }
      }
    });
  }
  Rng rng(3);
  for (int round = 0; round < 4000; ++round) {
    std::vector<Mutation> group;
    std::vector<size_t> picked;
    for (uint64_t n = rng.between(1, 4); n > 0; --n) {
      picked.push_back(rng.below(kKeys));
      group.push_back(Mutation::put(keys[picked.back()], as_byte_span("value")));
    }
    std::vector<MutationResult> results(group.size());
    EXPECT_TRUE(store_->apply(group, results).ok());
    for (size_t k = 0; k < group.size(); ++k) acknowledged[picked[k]].store(results[k].version);
  }
  stop.store(true);
  for (std::thread& reader : readers) reader.join();
  EXPECT_EQ(went_back.load(), 0);
}

TEST_F(RocksdbShardStoreTest, Stats_CountKeysAndIndex) {
  open();
  for (int i = 0; i < 10; ++i) put("key" + std::to_string(i), "v");
  EXPECT_EQ(store_->stats().last_index, 10U);
  EXPECT_GE(store_->stats().keys_estimate, 10U);
}

}  // namespace
}  // namespace skua::kv
