// One page of one shard is of one moment (ScanResult in kvstore/client/types.h): a scan sees nothing of what is applied
// while it runs, whichever way it is applied.
#include <gtest/gtest.h>

#include <array>
#include <functional>
#include <map>
#include <memory>
#include <string>

#include "kvstore/storage/rocksdb_engine.h"
#include "kvstore/storage/shard_db.h"
#include "tests/kvstore/shard/engine_testing.h"

namespace skua::kv {
namespace {

using ScannedRows = std::map<std::string, std::string>;

constexpr uint64_t kFirstIndex = 4;

class ScanMomentTest : public ::testing::Test {
 protected:
  ScanMomentTest() {
    engine_ = make_rocksdb_engine({.cache_bytes = 8 << 20, .write_buffer_bytes = 8 << 20, .background_threads = 1});
    db_ = engine_->open_db(dir_.path(), {1, 0}).value();
    const std::array<AppliedEffect, 4> rows = {
        AppliedEffect{"a", as_byte_span("1"), 1}, AppliedEffect{"b", as_byte_span("1"), 2},
        AppliedEffect{"c", as_byte_span("1"), 3}, AppliedEffect{"d", as_byte_span("1"), kFirstIndex}};
    EXPECT_TRUE(db_->apply(rows, kFirstIndex).ok());
  }

  /// What a scan shows behind whose first row `meanwhile` runs.
  ScannedRows scan(const std::function<void()>& meanwhile) {
    ScannedRows rows;
    const auto end = db_->scan({}, [&](const ScanRow& row) {
      rows[std::string(row.key)] = std::string(as_string_view(row.value));
      if (rows.size() == 1) meanwhile();
      return true;
    });
    EXPECT_TRUE(end.ok()) << end.status();
    return rows;
  }

  testing::TemporaryDirectory dir_;
  std::unique_ptr<RocksdbEngine> engine_;
  std::unique_ptr<ShardDb> db_;
};

/// A batch that changes a row before the scan's place and one behind it, removes one and adds one.
constexpr uint64_t kSecondIndex = 5;
const std::array<AppliedEffect, 4>& batch() {
  static const std::array<AppliedEffect, 4> kBatch = {
      AppliedEffect{"a", as_byte_span("2"), kSecondIndex}, AppliedEffect{"b", as_byte_span("2"), kSecondIndex},
      AppliedEffect{"bb", as_byte_span("2"), kSecondIndex}, AppliedEffect{"c", std::nullopt, kSecondIndex}};
  return kBatch;
}

const ScannedRows& before() {
  static const ScannedRows kRows = {{"a", "1"}, {"b", "1"}, {"c", "1"}, {"d", "1"}};
  return kRows;
}

const ScannedRows& after() {
  static const ScannedRows kRows = {{"a", "2"}, {"b", "2"}, {"bb", "2"}, {"d", "1"}};
  return kRows;
}

TEST_F(ScanMomentTest, WhatIsAppliedMeanwhileIsNotSeen) {
  EXPECT_EQ(scan([&] { EXPECT_TRUE(db_->apply(batch(), kSecondIndex).ok()); }), before());
  EXPECT_EQ(scan([] {}), after());
}

TEST_F(ScanMomentTest, NorWhenItIsOnTheDiskAtOnce) {
  EXPECT_EQ(scan([&] {
              EXPECT_TRUE(db_->apply(batch(), kSecondIndex).ok());
              EXPECT_TRUE(db_->flush().ok());
            }),
            before());
  EXPECT_EQ(scan([] {}), after());
}

TEST_F(ScanMomentTest, NorWhatComesAsATableFile) {
  EXPECT_EQ(scan([&] { EXPECT_TRUE(db_->ingest(batch(), kSecondIndex).ok()); }), before());
  EXPECT_EQ(scan([] {}), after());
}

}  // namespace
}  // namespace skua::kv
