#include "ycsb/bindings/rocksdb.h"

#include <gtest/gtest.h>

#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <sstream>
#include <thread>

#include "tests/ycsb/bindings/collected.h"
#include "ycsb/core/text.h"

namespace skua::ycsb {
namespace {

class RocksdbTest : public testing::Test {
 protected:
  RocksdbTest() {
    std::string directory = (std::filesystem::temp_directory_path() / "skua-ycsb-rocksdb-XXXXXX").string();
    EXPECT_NE(mkdtemp(directory.data()), nullptr);
    directory_ = directory;
    properties_.set("rocksdb.dir", directory_ + "/db");
  }
  ~RocksdbTest() override {
    binding_.reset();
    std::error_code ignored;
    std::filesystem::remove_all(directory_, ignored);
  }

  std::unique_ptr<BindingSession> open(std::string_view properties = "") {
    EXPECT_TRUE(properties_.parse(properties).ok());
    binding_.reset();
    auto binding = rocksdb_binding().make({properties_, schema_, sink_});
    EXPECT_TRUE(binding.ok()) << binding.status();
    binding_ = *std::move(binding);
    return open_session();
  }
  std::unique_ptr<BindingSession> open_session() {
    auto session = binding_->open_session({.return_fields = true});
    EXPECT_TRUE(session.ok()) << session.status();
    return *std::move(session);
  }
  absl::Status refused(std::string_view properties) {
    EXPECT_TRUE(properties_.parse(properties).ok());
    return rocksdb_binding().make({properties_, schema_, sink_}).status();
  }

  static void insert(BindingSession& session, Operation& op, const std::string& key) {
    op.kind = OpKind::kInsert;
    op.key = key;
    set_values(op, {"a", "b"});
    ASSERT_EQ(execute(session, op).status, Status::kOk);
  }

  std::string directory_;
  Properties properties_;
  Schema schema_{"usertable", {"field0", "field1"}};
  std::ostringstream out_;
  LineSink sink_{out_};
  std::unique_ptr<Binding> binding_;
};

using Fields = std::map<std::string, std::string>;

TEST_F(RocksdbTest, Submit_InsertReadUpdateDelete) {
  const auto session = open("rocksdb.sync=true");
  Operation op;
  op.key = "user1";
  EXPECT_EQ(execute(*session, op).status, Status::kNotFound);
  op.kind = OpKind::kUpdate;
  set_values(op, {"a", "b"});
  EXPECT_EQ(execute(*session, op).status, Status::kNotFound);

  insert(*session, op, "user1");
  op.kind = OpKind::kUpdate;
  set_values(op, {"changed"});
  EXPECT_EQ(execute(*session, op).status, Status::kOk);
  op.kind = OpKind::kRead;
  EXPECT_EQ(execute(*session, op).fields, (Fields{{"field0", "changed"}, {"field1", "b"}}));
  op.all_fields = false;
  op.fields = {1};
  EXPECT_EQ(execute(*session, op).fields, (Fields{{"field1", "b"}}));

  op.kind = OpKind::kDelete;
  EXPECT_EQ(execute(*session, op).status, Status::kOk);
  op.kind = OpKind::kRead;
  EXPECT_EQ(execute(*session, op).status, Status::kNotFound);
}

TEST_F(RocksdbTest, Submit_ScanInOrderOfKeys) {
  const auto session = open();
  Operation op;
  for (int i = 0; i < 10; ++i) insert(*session, op, concat("user", i));
  op.kind = OpKind::kScan;
  op.key = "user4";
  op.scan_length = 3;
  EXPECT_EQ(execute(*session, op).row_count, 3U);
  op.scan_length = 100;
  EXPECT_EQ(execute(*session, op).row_count, 6U);
  op.key = "userz";
  EXPECT_EQ(execute(*session, op).row_count, 0U);
}

TEST_F(RocksdbTest, Make_RecordsOutliveTheBinding) {
  Operation op;
  insert(*open(), op, "user1");
  const auto session = open("rocksdb.wal=false\nrocksdb.block_cache_bytes=0\nrocksdb.bloom_bits=0");
  op.kind = OpKind::kRead;
  EXPECT_EQ(execute(*session, op).status, Status::kOk);
}

// Two threads each replace their own field of one record, over and over: neither undoes what the other did.
TEST_F(RocksdbTest, Submit_UpdatesOfOneRecordDoNotUndoEachOther) {
  constexpr int kRounds = 2000;
  Operation op;
  insert(*open(), op, "user1");
  const auto replace = [&](uint32_t field) {
    const auto session = open_session();
    Operation update;
    update.kind = OpKind::kUpdate;
    update.key = "user1";
    Operation read;
    read.key = "user1";
    for (int i = 0; i < kRounds; ++i) {
      const std::string value = std::to_string(i);
      update.begin_writes(std::array<uint32_t, 1>{field}, std::array<uint64_t, 1>{value.size()});
      value.copy(update.value_room(0), value.size());
      ASSERT_EQ(execute(*session, update).status, Status::kOk);
      ASSERT_EQ(execute(*session, read).fields.at(schema_.field_names[field]), value);
    }
  };
  std::thread other(replace, 0);
  replace(1);
  other.join();
}

TEST_F(RocksdbTest, Make_WhatCannotBe) {
  EXPECT_EQ(refused("rocksdb.sync=true\nrocksdb.wal=false").code(), absl::StatusCode::kInvalidArgument);
  EXPECT_EQ(refused("rocksdb.sync=false\nrocksdb.compression=best").code(), absl::StatusCode::kInvalidArgument);
  EXPECT_EQ(refused("rocksdb.compression=none\nrocksdb.dir=").code(), absl::StatusCode::kInvalidArgument);
}

TEST_F(RocksdbTest, Make_OnlyInADirectoryOfItsOwn) {
  const auto complaint = [&](const std::string& directory) {
    const absl::Status status = refused("rocksdb.dir=" + directory);
    EXPECT_EQ(status.code(), absl::StatusCode::kInvalidArgument) << status;
    EXPECT_NE(std::string(status.message()).find("rocksdb.dir=" + directory), std::string::npos) << status;
    return std::string(status.message());
  };
  const auto touch = [](const std::string& path) { EXPECT_TRUE(std::ofstream(path) << "x"); };
  EXPECT_NE(complaint("/proc/nowhere").find("cannot be made: "), std::string::npos);
  std::filesystem::create_directories(directory_ + "/node/shards");
  touch(directory_ + "/node/identity.toml");
  for (const char* inside : {"/node", "/node/shards", "/node/new"})
    EXPECT_NE(complaint(directory_ + inside).find("/node is the data directory of a Skua program"), std::string::npos);
  EXPECT_FALSE(std::filesystem::exists(directory_ + "/node/new"));
  std::filesystem::create_directories(directory_ + "/home");
  touch(directory_ + "/home/letter.txt");
  EXPECT_NE(complaint(directory_ + "/home").find("holds other files (letter.txt)"), std::string::npos);
  EXPECT_NE(complaint(directory_ + "/home/letter.txt").find("is no directory"), std::string::npos);
  // Missing parents are made; what is there already is used again.
  open("rocksdb.dir=" + directory_ + "/a/b/c");
  open();
}

TEST_F(RocksdbTest, Facts_SayWhatAWriteMeans) {
  for (const auto& [properties, durability] :
       std::initializer_list<std::pair<const char*, const char*>>{{"rocksdb.sync=true", "sync"},
                                                                  {"rocksdb.sync=false", "WAL, not synced"},
                                                                  {"rocksdb.wal=false", "none (no WAL)"}}) {
    open(properties);
    Fields facts;
    for (const auto& [name, value] : binding_->facts()) facts[name] = value;
    EXPECT_EQ(facts["Durability"], durability);
  }
}

}  // namespace
}  // namespace skua::ycsb
