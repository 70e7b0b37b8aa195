#include "kvstore/storage/rocksdb_engine.h"

#include <gtest/gtest.h>

#include <filesystem>
#include <fstream>
#include <string>
#include <vector>

#include "kvstore/storage/rocksdb_internal.h"
#include "tests/kvstore/shard/engine_testing.h"

namespace skua::kv {
namespace {

using testing::TemporaryDirectory;

const RocksdbOptions kSmall = {.cache_bytes = 8 << 20, .write_buffer_bytes = 8 << 20, .background_threads = 1};

void put(ShardDb& db, std::string_view key, std::string_view value) {
  const uint64_t index = db.applied_index() + 1;
  const AppliedEffect effect{key, as_byte_span(value), index};
  ASSERT_TRUE(db.apply({&effect, 1}, index).ok());
}

TEST(MetaTest, EncodeMeta_GoldenAndRefusals) {
  const std::string bytes = internal::encode_meta({{7, 3}, 0x1122});
  EXPECT_EQ(bytes, std::string("\x05\0\0\0\x07\0\0\0\x03\0\0\0\0\0\0\0\x22\x11\0\0\0\0\0\0", 24));
  EXPECT_EQ(internal::decode_meta(bytes)->last_index, 0x1122U);
  EXPECT_FALSE(internal::decode_meta(bytes)->expiring_blobs);
  const std::string with_blobs = internal::encode_meta({.id = {7, 3}, .last_index = 0x1122, .expiring_blobs = true});
  EXPECT_EQ(with_blobs, bytes.substr(0, 12) + '\x01' + bytes.substr(13));
  EXPECT_TRUE(internal::decode_meta(with_blobs)->expiring_blobs);
  EXPECT_EQ(internal::decode_meta("\x01" + bytes.substr(1))->format, 1U);
  EXPECT_EQ(internal::decode_meta("\x04" + bytes.substr(1))->format, 4U);
  EXPECT_EQ(internal::decode_meta("\x06" + bytes.substr(1))->format, internal::kMetaFormatWithMarks);
  EXPECT_EQ(internal::decode_meta("\x07" + bytes.substr(1)).status().code(), absl::StatusCode::kFailedPrecondition);
  EXPECT_EQ(internal::decode_meta(bytes.substr(0, 23)).status().code(), absl::StatusCode::kDataLoss);
  EXPECT_EQ(internal::decode_meta(bytes + "x").status().code(), absl::StatusCode::kDataLoss);
}

TEST(RocksdbEngineTest, OpenDb_CreatesThenOpens) {
  const TemporaryDirectory dir;
  auto engine = make_rocksdb_engine(kSmall);
  EXPECT_EQ(engine->open_db(dir.path(), {7, 3}, RocksdbEngine::IfMissing::kFail).status().code(),
            absl::StatusCode::kNotFound);
  {
    auto store = engine->open_db(dir.path(), {7, 3});
    ASSERT_TRUE(store.ok()) << store.status();
    EXPECT_EQ((*store)->id(), (ShardId{7, 3}));
    EXPECT_EQ((*store)->applied_index(), 0U);
    put(**store, "a", "1");
  }
  EXPECT_TRUE(std::filesystem::is_directory(dir.path() + "/7-3"));
  auto store = engine->open_db(dir.path(), {7, 3}, RocksdbEngine::IfMissing::kFail);
  ASSERT_TRUE(store.ok()) << store.status();
  EXPECT_EQ((*store)->applied_index(), 1U);
}

TEST(RocksdbEngineTest, OpenDb_LeftoverOfAnInterruptedCreationIsReplaced) {
  const TemporaryDirectory dir;
  std::filesystem::create_directory(dir.path() + "/.new-7-3");
  std::ofstream(dir.path() + "/.new-7-3/CURRENT") << "half";
  auto engine = make_rocksdb_engine(kSmall);
  auto store = engine->open_db(dir.path(), {7, 3});
  ASSERT_TRUE(store.ok()) << store.status();
  EXPECT_FALSE(std::filesystem::exists(dir.path() + "/.new-7-3"));
}

TEST(RocksdbEngineTest, OpenDb_RefusesASecondOpening) {
  const TemporaryDirectory dir;
  auto engine = make_rocksdb_engine(kSmall);
  auto store = engine->open_db(dir.path(), {7, 3});
  ASSERT_TRUE(store.ok());
  const absl::Status again = engine->open_db(dir.path(), {7, 3}).status();
  EXPECT_EQ(again.code(), absl::StatusCode::kFailedPrecondition);
  EXPECT_NE(again.message().find("is open already"), absl::string_view::npos) << again;
}

TEST(RocksdbEngineTest, OpenDb_RefusesAnotherShardsDirectory) {
  const TemporaryDirectory dir;
  auto engine = make_rocksdb_engine(kSmall);
  ASSERT_TRUE(engine->open_db(dir.path(), {7, 3}).ok());
  std::filesystem::rename(dir.path() + "/7-3", dir.path() + "/7-4");
  const absl::Status status = engine->open_db(dir.path(), {7, 4}).status();
  EXPECT_EQ(status.code(), absl::StatusCode::kFailedPrecondition);
  EXPECT_NE(status.message().find("holds shard 7-3, not 7-4"), absl::string_view::npos) << status;
}

TEST(RocksdbEngineTest, OpenDb_NamesTheMissingDirectory) {
  auto engine = make_rocksdb_engine(kSmall);
  const absl::Status status = engine->open_db("/nonexistent/skua", {1, 1}).status();
  EXPECT_FALSE(status.ok());
  EXPECT_NE(status.message().find("/nonexistent/skua"), absl::string_view::npos) << status;
}

TEST(RocksdbEngineTest, DestroyShard_RemovesItsDataOnly) {
  const TemporaryDirectory dir;
  auto engine = make_rocksdb_engine(kSmall);
  for (uint32_t shard = 0; shard < 3; ++shard) {
    auto store = engine->open_db(dir.path(), {1, shard});
    ASSERT_TRUE(store.ok());
    put(**store, "a", "1");
  }
  EXPECT_TRUE(engine->destroy_shard(dir.path(), {1, 1}).ok());
  EXPECT_TRUE(engine->destroy_shard(dir.path(), {1, 1}).ok()) << "nothing left to do";
  EXPECT_EQ(engine->list_shards(dir.path()).value(), (std::vector<ShardId>{{1, 0}, {1, 2}}));
  auto store = engine->open_db(dir.path(), {1, 1});
  ASSERT_TRUE(store.ok());
  EXPECT_EQ((*store)->applied_index(), 0U);
}

TEST(RocksdbEngineTest, ListShards_IgnoresForeignNames) {
  const TemporaryDirectory dir;
  for (const char* name : {"10-2", "2-10", "2-9", "01-2", "x", "1-", "-1", ".new-1-1", "1-2-3", "5000000000-1"}) {
    std::filesystem::create_directory(dir.path() + "/" + name);
  }
  auto engine = make_rocksdb_engine(kSmall);
  EXPECT_EQ(engine->list_shards(dir.path()).value(), (std::vector<ShardId>{{2, 9}, {2, 10}, {10, 2}}));
  EXPECT_FALSE(engine->list_shards(dir.path() + "/missing").ok());
}

TEST(RocksdbEngineTest, Shards_AreSeparate) {
  const TemporaryDirectory dir;
  auto engine = make_rocksdb_engine(kSmall);
  auto one = engine->open_db(dir.path(), {1, 1}).value();
  auto two = engine->open_db(dir.path(), {1, 2}).value();
  put(*one, "key", "one");
  put(*two, "key", "two");
  PinnedValue value;
  ASSERT_TRUE(one->get("key", value).ok());
  EXPECT_EQ(as_string_view(value.bytes()), "one");
  ASSERT_TRUE(two->get("key", value).ok());
  EXPECT_EQ(as_string_view(value.bytes()), "two");
}

}  // namespace
}  // namespace skua::kv
