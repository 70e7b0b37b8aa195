#include "kvstore/service/pending_request.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <memory>
#include <string>
#include <vector>

#include "kvstore/codec/size_limits.h"
#include "tests/kvstore/shard/engine_world.h"

namespace skua::kv {
namespace {

constexpr ShardId kShard{3, 1};

class MultiGetPageTest : public ::testing::Test {
 protected:
  void put(std::string_view key, std::string_view value) {
    const AppliedEffect effect{key, as_byte_span(value), ++index_};
    ASSERT_TRUE(db_->apply({&effect, 1}, index_).ok());
  }
  /// What a page says of keys that memory lacks. Keys have one letter each.
  std::vector<KvStatus> read(std::string_view keys) {
    std::string encoded;
    for (const char key : keys) encoded.append({1, 0, key});
    page_.in_memory.clear();
    page_.in_memory.resize(keys.size());
    EXPECT_TRUE(page_.read_missing(*db_, StringList(as_byte_span(encoded), keys.size())).ok());
    page_.build(0);
    std::vector<KvStatus> statuses;
    for (const MultiGetEntry& entry : page_.entries) statuses.push_back(entry.status);
    return statuses;
  }
  [[nodiscard]] size_t pinned_bytes() const {
    size_t bytes = 0;
    for (const PinnedValue& value : page_.from_disk) bytes += value.bytes().size();
    return bytes;
  }

  testing::FakeDbEngine databases_;
  std::unique_ptr<ShardDb> db_ = databases_.open_db("", kShard, RocksdbEngine::IfMissing::kCreate).value();
  uint64_t index_ = 0;
  MultiGetPage page_;
};

constexpr KvStatus kOk = KvStatus::kOk;
constexpr KvStatus kAbsent = KvStatus::kNotFound;
constexpr KvStatus kLeftOut = KvStatus::kResourceExhausted;

TEST_F(MultiGetPageTest, ReadsNoFurtherThanAReplyHolds) {
  const std::string half(kBatchBytesMax / 2, 'h');
  for (const char* key : {"a", "b", "c"}) put(key, half);
  put("s", "small");
  EXPECT_THAT(read("naasnab"), ::testing::ElementsAre(kAbsent, kOk, kOk, kLeftOut, kLeftOut, kLeftOut, kLeftOut));
  EXPECT_EQ(databases_.disk(kShard).reads(), 3U) << "two halves are all that a reply holds";
  EXPECT_EQ(pinned_bytes(), kBatchBytesMax);
  EXPECT_THAT(read("sabcn"), ::testing::ElementsAre(kOk, kOk, kLeftOut, kLeftOut, kLeftOut));
  EXPECT_EQ(databases_.disk(kShard).reads(), 3U + 3U) << "the value that does not fit ends it";
  EXPECT_EQ(pinned_bytes(), half.size() + 5);
  EXPECT_THAT(read("sn"), ::testing::ElementsAre(kOk, kAbsent)) << "the page is used again";
}

TEST_F(MultiGetPageTest, TheFirstKeyIsReadHoweverLargeItsValueIs) {
  put("l", std::string(kValueBytesMax, 'l'));
  put("s", "small");
  EXPECT_THAT(read("ls"), ::testing::ElementsAre(kOk, kLeftOut));
  EXPECT_THAT(read("sl"), ::testing::ElementsAre(kOk, kLeftOut));
}

TEST_F(MultiGetPageTest, WhatMemoryHasCounts) {
  put("s", "small");
  const std::string large(kBatchBytesMax, 'l');
  std::string key("\1\0s", 3);
  for (const char second : {'s', 'n'}) key.append({1, 0, second});
  page_.in_memory.resize(3);
  page_.in_memory[1].found = MemoryTier::Found::kHit;
  page_.in_memory[1].value = PinnedValue(as_byte_span(large), 1, nullptr, nullptr);
  ASSERT_TRUE(page_.read_missing(*db_, StringList(as_byte_span(key), 3)).ok());
  EXPECT_EQ(databases_.disk(kShard).reads(), 0U);
  page_.build(0);
  EXPECT_EQ(page_.entries[0].status, kLeftOut);
  EXPECT_EQ(page_.entries[1].status, kOk);
  EXPECT_EQ(page_.entries[2].status, kLeftOut);
}

}  // namespace
}  // namespace skua::kv
