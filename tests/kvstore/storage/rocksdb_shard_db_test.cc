#include <gtest/gtest.h>
#include <rocksdb/db.h>

#include <array>
#include <atomic>
#include <chrono>
#include <filesystem>
#include <functional>
#include <map>
#include <string>
#include <system_error>
#include <thread>
#include <vector>

#include "kvstore/codec/size_limits.h"
#include "kvstore/storage/completion_rows.h"
#include "kvstore/storage/rocksdb_internal.h"
#include "kvstore/types/machine_clock.h"
#include "rpc/base/rng.h"
#include "tests/kvstore/shard/engine_testing.h"

namespace skua::kv {
namespace {

/// The wall clock moves only when told to.
class ManualMachineClock final : public MachineClock {
 public:
  explicit ManualMachineClock(uint64_t unix_ms) : unix_ms_(unix_ms) {}

  [[nodiscard]] uint64_t unix_ms() const override { return unix_ms_; }
  [[nodiscard]] TimeNs boot_ns() const override { return kSecond; }
  void set_unix_ms(uint64_t unix_ms) { unix_ms_ = unix_ms; }

 private:
  std::atomic<uint64_t> unix_ms_;
};

using testing::TemporaryDirectory;

constexpr ShardId kId = {1, 0};

RocksdbOptions small_options() {
  return {.cache_bytes = 8 << 20, .write_buffer_bytes = 8 << 20, .background_threads = 1};
}

class RocksdbShardDbTest : public ::testing::Test {
 protected:
  struct Row {
    uint64_t version = 0;
    std::string value;
    friend bool operator==(const Row&, const Row&) = default;
  };
  using Rows = std::map<std::string, Row>;

  RocksdbShardDbTest() { open(); }
  void open() {
    db_.reset();
    engine_ = make_rocksdb_engine(small_options());
    db_ = engine_->open_db(dir_.path(), kId).value();
  }
  void put(std::string_view key, std::string_view value) {
    const AppliedEffect effect{key, as_byte_span(value), db_->applied_index() + 1};
    ASSERT_TRUE(db_->apply({&effect, 1}, effect.version).ok());
  }
  void remove(std::string_view key) {
    const AppliedEffect effect{key, std::nullopt, db_->applied_index() + 1};
    ASSERT_TRUE(db_->apply({&effect, 1}, effect.version).ok());
  }
  static std::string get(ShardDb& db, std::string_view key) {
    PinnedValue value;
    const absl::Status status = db.get(key, value);
    if (!status.ok()) return absl::IsNotFound(status) ? "(none)" : status.ToString();
    return std::string(as_string_view(value.bytes())) + "@" + std::to_string(value.version());
  }
  static Rows scan(ShardDb& db, const KeyRange& range = {}) {
    Rows rows;
    const auto end = db.scan(range, [&](const ScanRow& row) {
      rows[std::string(row.key)] = {row.version, std::string(as_string_view(row.value))};
      return true;
    });
    EXPECT_TRUE(end.ok()) << end.status();
    if (end.ok()) {
      EXPECT_EQ(end->index, db.applied_index());
    }
    return rows;
  }

  /// Again if RocksDB removes an obsolete file in the middle.
  static void copy_files(const std::string& from, const std::string& to) {
    std::error_code error;
    do {
      error.clear();
      std::filesystem::remove_all(to + "/1-0");
      std::filesystem::copy(from, to, std::filesystem::copy_options::recursive, error);
    } while (error);
  }

  TemporaryDirectory dir_;
  std::unique_ptr<RocksdbEngine> engine_;
  std::unique_ptr<ShardDb> db_;
};

TEST_F(RocksdbShardDbTest, Apply_IsSeenWithVersionsAndSurvivesAnOrderlyEnd) {
  put("a", "1");
  put("b", "2");
  remove("a");
  EXPECT_EQ(get(*db_, "a"), "(none)");
  EXPECT_EQ(get(*db_, "b"), "2@2");
  EXPECT_EQ(get(*db_, ""), "(none)") << "the shard's own record is nobody's";
  open();
  EXPECT_EQ(db_->applied_index(), 3u);
  EXPECT_EQ(get(*db_, "b"), "2@2");
  EXPECT_EQ(scan(*db_), (Rows{{"b", {2, "2"}}}));
}

TEST_F(RocksdbShardDbTest, Get_PinsWhatChangesMeanwhile) {
  put("key", std::string(100'000, 'a'));
  ASSERT_TRUE(db_->flush().ok());
  PinnedValue value;
  ASSERT_TRUE(db_->get("key", value).ok());
  put("key", "b");
  ASSERT_TRUE(db_->flush().ok());
  EXPECT_EQ(as_string_view(value.bytes()), std::string(100'000, 'a'));
}

TEST_F(RocksdbShardDbTest, Apply_LargestKeyAndValue) {
  const std::string key(kKeyBytesMax, 'k');
  put(key, std::string(kValueBytesMax, 'v'));
  ASSERT_TRUE(db_->flush().ok());
  PinnedValue value;
  ASSERT_TRUE(db_->get(key, value).ok());
  EXPECT_EQ(value.bytes().size(), kValueBytesMax);
}

TEST_F(RocksdbShardDbTest, CopyTakenWhileOpen_IsAsAtSomeApplyNotOlderThanTheLastFlush) {
  Rng rng(4);
  std::vector<Rows> history = {{}};
  uint64_t flushed = 0;
  for (int i = 0; i < 400; ++i) {
    Rows rows = history.back();
    const std::string key = "key" + std::to_string(rng.below(50));
    if (rng.chance(0.2)) {
      remove(key);
      rows.erase(key);
    } else {
      const std::string value(rng.below(3000), static_cast<char>('a' + i % 26));
      put(key, value);
      rows[key] = {db_->applied_index(), value};
    }
    history.push_back(rows);
    if (i % 150 == 120) flushed = db_->flush().value();  // too few files for a compaction, which would remove some
    if (i % 100 != 99) continue;
    // What a process leaves that is killed now.
    const TemporaryDirectory copy;
    copy_files(dir_.path(), copy.path());
    auto engine = make_rocksdb_engine(small_options());
    auto left = engine->open_db(copy.path(), kId, RocksdbEngine::IfMissing::kFail);
    ASSERT_TRUE(left.ok()) << left.status();
    const uint64_t index = (*left)->applied_index();
    EXPECT_GE(index, flushed);
    ASSERT_LT(index, history.size());
    EXPECT_EQ(scan(**left), history[index]);
  }
}

TEST_F(RocksdbShardDbTest, Ingest_IsAnApplyThatIsDurable) {
  put("b", "old");
  put("c", "stays");
  put("d", "goes");
  const std::string large(100'000, 'l');
  const std::vector<AppliedEffect> effects = {
      {"a", as_byte_span("new"), 5}, {"b", as_byte_span(large), 6}, {"d", std::nullopt, 4}, {"e", as_byte_span(""), 7}};
  ASSERT_TRUE(db_->ingest(effects, 7).ok());
  const Rows expected = {{"a", {5, "new"}}, {"b", {6, large}}, {"c", {2, "stays"}}, {"e", {7, ""}}};
  EXPECT_EQ(scan(*db_), expected);
  put("f", "later");
  const TemporaryDirectory copy;
  copy_files(dir_.path(), copy.path());
  auto engine = make_rocksdb_engine(small_options());
  auto left = engine->open_db(copy.path(), kId, RocksdbEngine::IfMissing::kFail);
  ASSERT_TRUE(left.ok()) << left.status();
  EXPECT_EQ((*left)->applied_index(), 7u);
  EXPECT_EQ(scan(**left), expected);
}

TEST_F(RocksdbShardDbTest, Scan_RangesAndPages) {
  for (char c = 'a'; c <= 'j'; ++c) put(std::string(1, c), "v");
  EXPECT_EQ(scan(*db_, {.start = "c", .end = "f"}).size(), 3u);
  EXPECT_EQ(scan(*db_, {.start = "c", .start_exclusive = true, .end = "f"}).size(), 2u);
  EXPECT_EQ(scan(*db_).size(), 10u);
  int taken = 0;
  const auto end = db_->scan({}, [&](const ScanRow&) { return ++taken <= 4; });
  ASSERT_TRUE(end.ok());
  EXPECT_TRUE(end->has_more);
}

TEST_F(RocksdbShardDbTest, Scan_StopsAmongRowsThatHaveExpired) {
  std::vector<std::string> keys;
  for (size_t i = 0; i < 4 * kRowsBetweenStops; ++i) keys.push_back("key" + std::to_string(i));
  std::vector<AppliedEffect> effects;
  for (const std::string& key : keys) effects.push_back({key, as_byte_span("v"), effects.size() + 1, 5});
  ASSERT_TRUE(db_->apply(effects, effects.size()).ok());
  int asked = 0;
  const auto stop = [&] { return ++asked == 2; };
  KeyRange range{.now_ms = 5, .stop = stop};
  const auto no_row = [](const ScanRow&) { return false; };
  EXPECT_TRUE(absl::IsDeadlineExceeded(db_->scan(range, no_row).status()));
  EXPECT_EQ(asked, 2);
  const auto never = [] { return false; };
  range.stop.emplace(never);
  const auto end = db_->scan(range, no_row);
  ASSERT_TRUE(end.ok()) << end.status();
  EXPECT_FALSE(end->has_more);
}

TEST(ScanRangeTest, ScanRange_RefusesForeignTokens) {
  ScanRequest request;
  request.resume_token = "made up";
  EXPECT_FALSE(key_range_of(request).ok());
}

/// Deletes are few bytes, and RocksDB compacts when there are many.
TEST_F(RocksdbShardDbTest, SetShortOfRoom_GivesBackTheSpaceOfDeletedRows) {
  const std::string value(100 << 10, 'v');
  for (int i = 0; i < 40; ++i) put("key" + std::to_string(i), value);
  put("kept", value);
  ASSERT_TRUE(db_->flush().ok());
  for (int i = 0; i < 40; ++i) remove("key" + std::to_string(i));
  ASSERT_TRUE(db_->flush().ok());
  EXPECT_GT(db_->stats().disk_bytes, 40 * value.size());
  const auto end = std::chrono::steady_clock::now() + std::chrono::seconds(60);
  while (db_->stats().disk_bytes > 3 * value.size() && std::chrono::steady_clock::now() < end) {
    db_->set_short_of_room(true);
    std::this_thread::yield();
  }
  EXPECT_LE(db_->stats().disk_bytes, 3 * value.size());
  EXPECT_EQ(get(*db_, "key7"), "(none)");
  EXPECT_EQ(get(*db_, "kept"), value + "@41");
  db_->set_short_of_room(false);
  put("more", value);
  EXPECT_TRUE(db_->flush().ok());
}

TEST_F(RocksdbShardDbTest, Stats_CountKeysAndIndex) {
  for (int i = 0; i < 10; ++i) put("key" + std::to_string(i), "v");
  EXPECT_EQ(db_->stats().last_index, 10u);
  EXPECT_GE(db_->stats().keys_estimate, 10u);
}

TEST(RocksdbFormatTest, AMarkIsKeptAndRaisesTheFormat) {
  constexpr uint64_t kLater = 4'000'000'000'000;  // a compaction drops what has expired, whenever it likes
  const TemporaryDirectory dir;
  const auto format_of = [&] {
    rocksdb::DB* raw = nullptr;
    EXPECT_TRUE(rocksdb::DB::OpenForReadOnly({}, dir.path() + "/1-0", &raw).ok());
    const std::unique_ptr<rocksdb::DB> db(raw);
    std::string meta;
    EXPECT_TRUE(db->Get({}, "", &meta).ok());
    return internal::decode_meta(meta)->format;
  };
  const auto with_db = [&](const auto& what) {
    auto engine = make_rocksdb_engine(small_options());
    auto db = engine->open_db(dir.path(), kId).value();
    what(*db);
  };
  const std::array<AppliedEffect, 2> plain = {{{"a", as_byte_span("1"), 1}, {"gone", std::nullopt, 1}}};
  with_db([&](ShardDb& db) { ASSERT_TRUE(db.apply(plain, 1).ok()); });
  EXPECT_EQ(format_of(), internal::kMetaFormat);
  const std::array<AppliedEffect, 3> marked = {{{"b", as_byte_span("2"), 2, 0, {7, false}},
                                                {"c", as_byte_span("3"), 2, kLater, {8, true}},
                                                {"d", as_byte_span("4"), 2, kLater}}};
  with_db([&](ShardDb& db) { ASSERT_TRUE(db.apply(marked, 2).ok()); });
  EXPECT_EQ(format_of(), internal::kMetaFormatWithMarks);
  const std::array<AppliedEffect, 1> ingested = {{{"e", as_byte_span("5"), 3, 0, {9, false}}}};
  with_db([&](ShardDb& db) {
    ASSERT_TRUE(db.ingest(ingested, 3).ok());
    std::string all;
    const auto end = db.scan({}, [&](const ScanRow& row) {
      all += absl::StrCat(std::string(row.key), as_string_view(row.value)[0] == 0 ? "?" : "", row.version, ":",
                          row.mark.tag, row.mark.row ? "r " : " ");
      PinnedValue value;
      EXPECT_TRUE(db.get(row.key, value).ok());
      EXPECT_EQ(value.mark(), row.mark);
      EXPECT_EQ(as_string_view(value.bytes()), as_string_view(row.value));
      EXPECT_EQ(value.expires_at(), row.key == "c" || row.key == "d" ? kLater : 0u);
      return true;
    });
    EXPECT_TRUE(end.ok());
    EXPECT_EQ(all, "a1:0 b2:7 c2:8r d2:0 e3:9 ");
  });
  EXPECT_EQ(format_of(), internal::kMetaFormatWithMarks);
}

TEST(RocksdbFormatTest, OpenDb_TakesOverDataWithALogOfItsOwn) {
  const TemporaryDirectory dir;
  {
    rocksdb::Options options;
    options.create_if_missing = true;
    rocksdb::DB* raw = nullptr;
    ASSERT_TRUE(rocksdb::DB::Open(options, dir.path() + "/1-0", &raw).ok());
    const std::unique_ptr<rocksdb::DB> db(raw);
    rocksdb::WriteOptions synced;
    synced.sync = true;
    ASSERT_TRUE(db->Put(synced, "", internal::encode_meta({kId, 7, 1})).ok());
    ASSERT_TRUE(db->Put(synced, "key", std::string("\x07\0\0\0\0\0\0\0old", 11)).ok());
  }
  for (int i = 0; i < 2; ++i) {
    auto engine = make_rocksdb_engine(small_options());
    auto db = engine->open_db(dir.path(), kId, RocksdbEngine::IfMissing::kFail);
    ASSERT_TRUE(db.ok()) << db.status();
    EXPECT_EQ((*db)->applied_index(), 7u);
    PinnedValue value;
    ASSERT_TRUE((*db)->get("key", value).ok());
    EXPECT_EQ(as_string_view(value.bytes()), "old");
    EXPECT_EQ(value.version(), 7u);
  }
  rocksdb::DB* raw = nullptr;
  ASSERT_TRUE(rocksdb::DB::Open({}, dir.path() + "/1-0", &raw).ok());
  const std::unique_ptr<rocksdb::DB> db(raw);
  std::string meta;
  ASSERT_TRUE(db->Get({}, "", &meta).ok());
  EXPECT_EQ(internal::decode_meta(meta)->format, internal::kMetaFormat);
}

TEST(RocksdbExpiryTest, RowsExpireAndCompactionsDropThem) {
  ManualMachineClock clock(1000);
  TemporaryDirectory dir;
  RocksdbOptions options = small_options();
  options.clock = &clock;
  auto engine = make_rocksdb_engine(options);
  auto db = engine->open_db(dir.path(), kId).value();
  const std::string own_key = completion_key(7);
  const std::array<AppliedEffect, 4> effects = {{{"a", as_byte_span("1"), 1, 1500},
                                                 {"b", as_byte_span("2"), 1, 2500},
                                                 {"c", as_byte_span("3"), 1},
                                                 {own_key, as_byte_span("own"), 1}}};
  ASSERT_TRUE(db->apply(effects, 1).ok());
  const auto keys_at = [&](uint64_t now) {
    std::string keys;
    KeyRange range;
    range.now_ms = now;
    EXPECT_TRUE(db->scan(range, [&](const ScanRow& row) {
                    keys += row.key;
                    return true;
                  }).ok());
    return keys;
  };
  EXPECT_EQ(keys_at(1499), "abc") << "the engine's own rows are not shown";
  EXPECT_EQ(keys_at(1500), "bc");
  PinnedValue value;
  ASSERT_TRUE(db->get("a", value).ok());
  EXPECT_EQ(value.expires_at(), 1500u);
  EXPECT_EQ(value.version(), 1u);
  EXPECT_FALSE(db->get(own_key, value).ok());
  value.reset();
  ASSERT_TRUE(db->flush().ok());
  db.reset();
  clock.set_unix_ms(2000);
  {
    rocksdb::Options raw_options;
    raw_options.compaction_filter_factory = internal::make_expiry_filter(clock);
    rocksdb::DB* raw = nullptr;
    ASSERT_TRUE(rocksdb::DB::Open(raw_options, dir.path() + "/1-0", &raw).ok());
    const std::unique_ptr<rocksdb::DB> opened(raw);
    rocksdb::CompactRangeOptions all;
    all.bottommost_level_compaction = rocksdb::BottommostLevelCompaction::kForce;
    ASSERT_TRUE(opened->CompactRange(all, nullptr, nullptr).ok());
  }
  db = engine->open_db(dir.path(), kId).value();
  EXPECT_EQ(keys_at(0), "bc");
  EXPECT_EQ(db->applied_index(), 1u);
  const auto rows = db->take_internal_rows();
  ASSERT_EQ(rows.size(), 1u);
  EXPECT_EQ(rows[0].key, own_key);
  EXPECT_EQ(rows[0].value, "own");
}

/// A database of its own, at the time that the test says.
class RocksdbExpiringBlobsTest : public ::testing::Test {
 protected:
  RocksdbExpiringBlobsTest() {
    RocksdbOptions options = small_options();
    options.clock = &clock_;
    engine_ = make_rocksdb_engine(options);
    open();
  }
  void open() {
    db_.reset();
    db_ = engine_->open_db(dir_.path(), kId).value();
  }
  void put(std::string_view key, size_t bytes, uint64_t expires_at) {
    const std::string value(bytes, 'v');
    const AppliedEffect effect{key, as_byte_span(value), db_->applied_index() + 1, expires_at};
    ASSERT_TRUE(db_->apply({&effect, 1}, effect.version).ok());
  }
  [[nodiscard]] size_t blob_files() const {
    size_t count = 0;
    for (const auto& entry : std::filesystem::directory_iterator(dir_.path() + "/1-0")) {
      count += entry.path().extension() == ".blob";
    }
    return count;
  }
  /// Flushes overlapping tables, which RocksDB compacts by its own choice, on its own threads; writes wait if it falls
  /// behind.
  void compact_until(const std::function<bool()>& done) {
    for (int i = 0; i < 1000 && !done(); ++i) {
      put("a", 10, 0);
      put("z", 10, 0);
      ASSERT_TRUE(db_->flush().ok());
    }
  }

  ManualMachineClock clock_{1000};
  TemporaryDirectory dir_;
  std::unique_ptr<RocksdbEngine> engine_;
  std::unique_ptr<ShardDb> db_;
};

TEST_F(RocksdbExpiringBlobsTest, CompactionsRemoveBlobsThatHaveExpired) {
  put("m", 100 << 10, 1500);
  put("n", 100 << 10, 1600);
  ASSERT_TRUE(db_->flush().ok());
  EXPECT_EQ(blob_files(), 1U);
  open();  // what tells that there are blobs which expire is in the database
  clock_.set_unix_ms(2000);
  compact_until([&] { return blob_files() == 0; });
  EXPECT_EQ(blob_files(), 0U);
  PinnedValue value;
  EXPECT_TRUE(absl::IsNotFound(db_->get("m", value)));
  EXPECT_TRUE(db_->get("a", value).ok());
}

TEST_F(RocksdbExpiringBlobsTest, CompactionsKeepBlobsThatHaveNotExpired) {
  put("m", 100 << 10, 9000);
  put("n", 100 << 10, 1500);
  put("o", 100 << 10, 0);
  ASSERT_TRUE(db_->flush().ok());
  clock_.set_unix_ms(2000);
  PinnedValue value;
  compact_until([&] { return absl::IsNotFound(db_->get("n", value)); });
  EXPECT_TRUE(absl::IsNotFound(db_->get("n", value)));
  EXPECT_TRUE(db_->get("m", value).ok());
  EXPECT_EQ(value.bytes().size(), size_t{100} << 10);
  EXPECT_TRUE(db_->get("o", value).ok());
}

TEST(ValuePrefixDeathTest, AVersionWhoseBitsWouldBeReadAsFlagsIsNotWritten) {
  std::array<char, internal::kValuePrefixBytesMax> buffer;
  EXPECT_FALSE(internal::encode_value_prefix(internal::kHasMarkBit - 1, 0, {}, buffer).empty());
  EXPECT_DEATH(static_cast<void>(internal::encode_value_prefix(internal::kHasMarkBit, 0, {}, buffer)), "used up");
}

}  // namespace
}  // namespace skua::kv
