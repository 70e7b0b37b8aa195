// A disk that runs full in the midst of whatever RocksDB does: nothing of it may stay broken when there is room again.
#include <gtest/gtest.h>

#include <algorithm>
#include <chrono>
#include <filesystem>
#include <memory>
#include <string>
#include <string_view>
#include <thread>
#include <utility>
#include <vector>

#include "absl/status/status.h"
#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "kvstore/storage/rocksdb_internal.h"
#include "tests/kvstore/shard/engine_testing.h"
#include "tests/kvstore/storage/full_disk_env.h"

namespace skua::kv {
namespace {

using testing::FullDiskEnv;
using testing::TemporaryDirectory;

constexpr ShardId kFullDisk = {1, 0};
constexpr auto kLimit = std::chrono::seconds(60);

bool is_passing(const absl::Status& status) {
  return absl::IsResourceExhausted(status) || absl::IsUnavailable(status);
}

/// What a worker does to a database, and goes on doing while the disk is full.
class FullDiskRound {
 public:
  explicit FullDiskRound(uint64_t calls, FullDiskEnv::Error error = FullDiskEnv::Error::kNoSpace)
      : calls_(calls), error_(error), engine_(internal::make_rocksdb_engine_on(options(), disk_.env())) {}

  /// False: the disk never was full.
  bool run() {
    open();
    disk_.fill_after(calls_, error_);
    for (int i = 0; i < 4; ++i) work(i);
    if (calls_ % 3 == 0) open();
    for (int i = 4; i < 6; ++i) work(i);
    const bool was_full = disk_.refusals() > 0;
    disk_.free_space();
    if (db_ == nullptr) open();
    EXPECT_NE(db_, nullptr);
    if (db_ == nullptr) return was_full;
    work_with_room(6);
    EXPECT_EQ(db_->applied_index(), wanted_);
    check("after there is room");
    for (int i = 7; i < 9; ++i) work_with_room(i);
    expect_one_manifest();
    open();
    if (db_ != nullptr) check("after a restart");
    return was_full;
  }

 private:
  static RocksdbOptions options() {
    return {.cache_bytes = 8 << 20, .write_buffer_bytes = 4 << 20, .background_threads = 1};
  }

  void open() {
    db_.reset();
    auto opened = engine_->open_db(dir_.path(), kFullDisk);
    if (opened.ok()) {
      db_ = *std::move(opened);
    } else {
      EXPECT_TRUE(absl::IsResourceExhausted(opened.status())) << opened.status();
    }
  }

  /// As an applier: what is refused is kept, and given again together with what came meanwhile.
  void work(int round) {
    if (db_ == nullptr) return;
    first_ = absl::OkStatus();
    ++wanted_;
    values_.resize(wanted_ + 1);
    values_[wanted_] = std::string(round % 2 == 0 ? 20'000 : 100'000, static_cast<char>('a' + round));
    std::vector<std::pair<std::string, uint64_t>> keys;
    for (uint64_t index = 1; index <= wanted_; ++index) keys.emplace_back(absl::StrCat("key", index), index);
    std::vector<AppliedEffect> effects;
    for (const auto& [key, index] : keys) {
      if (index > db_->applied_index()) effects.push_back({key, as_byte_span(values_[index]), index});
    }
    expect_passing(db_->apply(effects, wanted_));
    expect_passing(db_->flush().status());
    if (round != 3) return;
    const std::string checkpoint = absl::StrCat(dir_.path(), "/checkpoint", round);
    expect_passing(db_->checkpoint(checkpoint));
  }

  /// A compaction that met the end of the disk may tell late.
  void work_with_room(int round) {
    const auto deadline = std::chrono::steady_clock::now() + kLimit;
    do {
      work(round);
    } while (!first_.ok() && std::chrono::steady_clock::now() < deadline);
    EXPECT_TRUE(first_.ok()) << first_;
  }

  void expect_passing(const absl::Status& status) {
    if (status.ok()) return;
    EXPECT_TRUE(is_passing(status)) << calls_ << ": " << status;
    if (first_.ok()) first_ = status;
  }

  /// What is not needed goes, after an error in the manifest as well: a background thread removes it.
  void expect_one_manifest() {
    const auto manifests = [&] {
      const std::filesystem::directory_iterator files(db_path());
      return std::count_if(begin(files), end(files), [](const auto& file) {
        return absl::StartsWith(file.path().filename().string(), "MANIFEST-");
      });
    };
    const auto deadline = std::chrono::steady_clock::now() + kLimit;
    while (manifests() > 1 && std::chrono::steady_clock::now() < deadline) {
      std::this_thread::sleep_for(std::chrono::milliseconds(1));
    }
    EXPECT_EQ(manifests(), 1) << calls_;
  }
  [[nodiscard]] std::string db_path() const {
    return absl::StrCat(dir_.path(), "/", kFullDisk.table_id, "-", kFullDisk.shard);
  }

  void check(const char* when) {
    for (uint64_t index = 1; index <= wanted_; ++index) {
      PinnedValue value;
      EXPECT_TRUE(db_->get(absl::StrCat("key", index), value).ok()) << calls_ << " " << when << " " << index;
      EXPECT_EQ(value.bytes().size(), values_[index].size());
    }
  }

  const uint64_t calls_;
  const FullDiskEnv::Error error_;
  TemporaryDirectory dir_;
  FullDiskEnv disk_;
  std::unique_ptr<RocksdbEngine> engine_;
  std::unique_ptr<ShardDb> db_;
  uint64_t wanted_ = 0;
  std::vector<std::string> values_;
  absl::Status first_;
};

/// A round for each third call, beginning with `first`, until the disk was large enough for all: twice in a row,
/// because a compaction does not always begin in time. How many found it full.
int rounds(uint64_t first, FullDiskEnv::Error error) {
  int full = 0;
  int enough = 0;
  for (uint64_t calls = first; enough < 2 && !::testing::Test::HasFailure(); calls += 3) {
    const bool was_full = FullDiskRound(calls, error).run();
    full += was_full ? 1 : 0;
    enough = was_full ? 0 : enough + 1;
  }
  return full;
}

TEST(RocksdbFullDiskTest, WhereverTheDiskRunsFull_AllGoesOnWhenThereIsRoom) {
  EXPECT_GT(rounds(0, FullDiskEnv::Error::kNoSpace), 10);
  EXPECT_GT(rounds(1, FullDiskEnv::Error::kNoSpace), 10);
}

TEST(RocksdbFullDiskTest, WhereverAQuotaIsUsedUp_AllGoesOnWhenThereIsRoom) {
  EXPECT_GT(rounds(2, FullDiskEnv::Error::kQuota), 10);
}

TEST(RocksdbFullDiskTest, WhereverNoMoreFilesMayBeOpen_AllGoesOnWhenTheyMay) {
  EXPECT_GT(rounds(2, FullDiskEnv::Error::kFiles), 10);
}

TEST(RocksdbFullDiskTest, AfterARecovery_AFlushThatIsDoneIsOnTheDisk) {
  const TemporaryDirectory dir;
  FullDiskEnv disk;
  auto engine = internal::make_rocksdb_engine_on({.cache_bytes = 8 << 20, .write_buffer_bytes = 4 << 20}, disk.env());
  auto db = engine->open_db(dir.path(), kFullDisk).value();
  const auto put = [&](std::string_view key) {
    const AppliedEffect effect{key, as_byte_span("v"), db->applied_index() + 1};
    return db->apply({&effect, 1}, effect.version);
  };
  ASSERT_TRUE(put("a").ok());
  disk.fill_after(0);
  EXPECT_TRUE(absl::IsResourceExhausted(db->flush().status()));
  disk.free_space();
  for (int i = 0; i < 2; ++i) {  // too few files for a compaction, which would remove some
    ASSERT_TRUE(put("b").ok());
    ASSERT_EQ(db->flush().value(), db->applied_index());
    // What a process leaves that is killed now.
    const TemporaryDirectory copy;
    std::filesystem::copy(dir.path(), copy.path(), std::filesystem::copy_options::recursive);
    auto another = make_rocksdb_engine({.cache_bytes = 8 << 20, .write_buffer_bytes = 4 << 20});
    const auto left = another->open_db(copy.path(), kFullDisk).value();
    ASSERT_EQ(left->applied_index(), db->applied_index());
  }
}

/// The databases' memory is full then, too.
TEST(RocksdbFullDiskTest, AWriterThatFindsNoRoomInMemory_IsToldWhy) {
  const TemporaryDirectory dir;
  FullDiskEnv disk;
  auto engine = internal::make_rocksdb_engine_on({.cache_bytes = 8 << 20, .write_buffer_bytes = 4 << 20}, disk.env());
  auto db = engine->open_db(dir.path(), kFullDisk).value();
  disk.fill_after(0);
  const std::string value(256 << 10, 'v');
  absl::Status status;
  for (uint64_t index = 1; status.ok() && index < 1000; ++index) {
    const std::string key = absl::StrCat("key", index);
    const AppliedEffect effect{key, as_byte_span(value), index};
    status = db->apply({&effect, 1}, index);
  }
  EXPECT_TRUE(absl::IsResourceExhausted(status)) << status;
  const uint64_t applied = db->applied_index();
  EXPECT_TRUE(absl::IsResourceExhausted(db->flush().status()));
  disk.free_space();
  EXPECT_EQ(db->flush().value(), applied);
  const AppliedEffect effect{"key", as_byte_span(value), applied + 1};
  ASSERT_TRUE(db->apply({&effect, 1}, applied + 1).ok());
  disk.fill_after(0);
  db.reset();  // what is not flushed is in the log
  disk.free_space();
  EXPECT_GE(engine->open_db(dir.path(), kFullDisk).value()->applied_index(), applied);
}

/// Each attempt leaves one more table in memory, and RocksDB has a limit for them.
TEST(RocksdbFullDiskTest, AfterManyAttempts_WhatIsInMemoryIsFlushed) {
  const TemporaryDirectory dir;
  FullDiskEnv disk;
  auto engine = internal::make_rocksdb_engine_on({.cache_bytes = 64 << 20, .write_buffer_bytes = 32 << 20}, disk.env());
  auto db = engine->open_db(dir.path(), kFullDisk).value();
  for (uint64_t index = 1; index <= 20; ++index) {
    const std::string key = absl::StrCat("key", index);
    const AppliedEffect effect{key, as_byte_span("value"), index};
    disk.free_space();
    const absl::Status applied = db->apply({&effect, 1}, index);
    ASSERT_TRUE(applied.ok()) << index << ": " << applied;
    disk.fill_after(0);
    const absl::Status flushed = db->flush().status();
    ASSERT_TRUE(absl::IsResourceExhausted(flushed)) << index << ": " << flushed;
  }
  disk.free_space();
  EXPECT_EQ(db->flush().value(), 20);
}

TEST(RocksdbFullDiskTest, AnErrorThatDoesNotPass_IsToldAsOne) {
  const TemporaryDirectory dir;
  FullDiskEnv disk;
  auto engine = internal::make_rocksdb_engine_on({.cache_bytes = 8 << 20, .write_buffer_bytes = 4 << 20}, disk.env());
  auto db = engine->open_db(dir.path(), kFullDisk).value();
  const AppliedEffect effect{"a", as_byte_span("v"), 1};
  ASSERT_TRUE(db->apply({&effect, 1}, 1).ok());
  disk.fill_after(0, FullDiskEnv::Error::kIo);
  EXPECT_TRUE(absl::IsInternal(db->flush().status()));
  disk.free_space();
  EXPECT_FALSE(db->flush().ok()) << "what the kernel could not write may be gone: only a start may try again";
}

}  // namespace
}  // namespace skua::kv
