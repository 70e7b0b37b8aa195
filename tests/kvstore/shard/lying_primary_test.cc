// Entries and copies of a primary that lies: what it says leaves nothing that stays when another primary follows.
#include <gtest/gtest.h>

#include <memory>
#include <string>
#include <vector>

#include "kvstore/codec/effect.h"
#include "kvstore/codec/entry_check.h"
#include "kvstore/shard/worker_engine.h"
#include "kvstore/snapshot/shard_copy.h"
#include "tests/kvstore/shard/engine_lives.h"

namespace skua::kv {
namespace {

using testing::FakeDbEngine;
using testing::kIds;
using testing::World;

constexpr uint64_t kNow = uint64_t{1'000'000'000'000};
constexpr uint64_t kHour = kClientSilentMsMax;

/// A write of `key` that is to happen once.
std::string once(const RequestId& id, std::string_view key) {
  EffectHead buffer;
  ByteWriter head(buffer);
  encode_completion_head({id, 0, {}}, head);
  encode_effect_head({.key = key, .value = as_byte_span("v")}, head);
  return std::string(as_string_view(head.written())).append(key).append("v");
}

class LyingPrimaryTest : public ::testing::Test {
 protected:
  LyingPrimaryTest() {
    world_.now_ms = kNow;
    world_.start();
    world_.engine().set_time(kNow, kNow);
    world_.replicate(0);
  }
  Shard& shard() { return world_.shard(0); }

  absl::Status append(const std::string& payload, int64_t time_ms) {
    const ReplicaEntry entry{shard().indices().last + 1, 1, time_ms, Durability::kSync, as_byte_span(payload)};
    return shard().entries().append(entry);
  }
  /// An entry that is committed and applied.
  void commit(const RequestId& id, int64_t time_ms) {
    ASSERT_TRUE(append(once(id, "key0"), time_ms).ok());
    const uint64_t index = shard().indices().last;
    world_.tasks().run_until([&] {
      world_.engine().tick();
      shard().commit_entries(index);
      return shard().indices().committed == index && shard().indices().synced == index;
    });
  }
  [[nodiscard]] bool remembers(const RequestId& id) { return shard().is_repetition(id); }
  void pass(uint64_t ms) {
    world_.now_ms += ms;
    world_.engine().set_time(world_.now_ms, world_.now_ms);
  }

  World world_{50};
};

/// Whoever they were of is not remembered for ever.
TEST_F(LyingPrimaryTest, TimesOfTheFarFutureEnd) {
  commit({8, 1, 1}, INT64_MAX);
  EXPECT_TRUE(remembers({8, 1, 1}));
  pass(kEntryTimeMsMax - kNow + kHour + 1);
  EXPECT_FALSE(remembers({8, 1, 1}));
}

/// One below zero would be later than all others.
TEST_F(LyingPrimaryTest, TimesBeforeAllTimesAreOfThePast) {
  commit({7, 1, 1}, kNow);
  for (const int64_t time_ms : {int64_t{-1}, INT64_MIN}) commit({8, 1, 1}, time_ms);
  EXPECT_TRUE(remembers({7, 1, 1}));
  commit({9, 1, 1}, kNow);
  EXPECT_FALSE(remembers({8, 1, 1}));
}

TEST_F(LyingPrimaryTest, TimesAreTheSameInTheNextLife) {
  commit({8, 1, 1}, INT64_MAX);
  world_.stop();
  world_.start();
  world_.engine().set_time(world_.now_ms, world_.now_ms);
  EXPECT_TRUE(remembers({8, 1, 1}));
  pass(kEntryTimeMsMax - kNow + kHour + 1);
  EXPECT_FALSE(remembers({8, 1, 1}));
}

/// A database that was copied from a liar may hold versions that no entry gave. The entry counts.
TEST_F(LyingPrimaryTest, AVersionOfTheFarFutureInACopiedDatabaseGivesWay) {
  world_.stop();
  const AppliedEffect claimed{"key0", as_byte_span("claimed"), uint64_t{1} << 60, 0};
  ASSERT_TRUE(world_.disk(0).apply(std::span(&claimed, 1), 0).ok());
  world_.start();
  world_.engine().set_time(kNow, kNow);
  world_.replicate(0);
  EXPECT_EQ(world_.read(0, "key0").version, claimed.version) << "a read brings it into memory";
  commit({7, 1, 1}, kNow);
  EXPECT_EQ(world_.read(0, "key0").value, "v");
}

// --- Copies

class CopyOfALiarTest : public ::testing::Test {
 protected:
  std::unique_ptr<ShardCopy> open() { return open_shard_copy(databases_, "", kIds[0]).value(); }
  /// What a replica that goes on from the copy knows.
  [[nodiscard]] bool remembers(const RequestId& id, uint64_t now_ms) {
    const auto db = databases_.open_db("", kIds[0], RocksdbEngine::IfMissing::kFail).value();
    CompletionTable table;
    EXPECT_TRUE(load_completions(db->take_internal_rows(), table).ok());
    return table.find(id, now_ms) != nullptr;
  }
  void take(const std::vector<std::pair<RequestId, int64_t>>& writes) {
    const auto copy = open();
    std::vector<std::string> payloads;
    for (const auto& [id, time_ms] : writes) payloads.push_back(once(id, "key0"));
    for (size_t i = 0; i < writes.size(); ++i) {
      ASSERT_TRUE(copy->add(copy->index() + 1, writes[i].second, as_byte_span(payloads[i])).ok());
    }
    ASSERT_TRUE(copy->apply().ok());
    ASSERT_TRUE(copy->close().ok());
  }

  FakeDbEngine databases_;
  testing::FakeDisk& disk_ = databases_.disk(kIds[0]);
};

TEST_F(CopyOfALiarTest, TimesOfEntriesAreBounded) {
  take({{{8, 1, 1}, INT64_MAX}, {{9, 1, 1}, INT64_MAX}});
  EXPECT_TRUE(remembers({8, 1, 1}, kEntryTimeMsMax));
  EXPECT_FALSE(remembers({8, 1, 1}, kEntryTimeMsMax + kHour + 1)) << "it would stay for ever";
}

TEST_F(CopyOfALiarTest, TimesOfRowsAreBounded) {
  CompletionRows rows;
  rows.record({{8, 1, 1}, 0, {}}, 2, uint64_t{1} << 60);
  std::vector<AppliedEffect> effects;
  rows.collect(2, effects);
  ASSERT_TRUE(databases_.open_db("", kIds[0], RocksdbEngine::IfMissing::kFail).value()->apply(effects, 2).ok());
  take({});
  EXPECT_TRUE(remembers({8, 1, 1}, kEntryTimeMsMax));
  EXPECT_FALSE(remembers({8, 1, 1}, kEntryTimeMsMax + kHour + 1)) << "it would stay for ever";
}

TEST_F(CopyOfALiarTest, EntriesThatNoPrimaryMakesAreRefused) {
  const auto copy = open();
  const auto put = [](std::string_view key) {
    EffectHead buffer;
    ByteWriter head(buffer);
    encode_effect_head({.key = key, .value = as_byte_span("v")}, head);
    return std::string(as_string_view(head.written())).append(key).append("v");
  };
  std::string many;
  for (size_t i = 0; i <= kBatchOpsMax; ++i) many += put(std::to_string(i));
  const std::string payloads[] = {many, put("a") + put("b") + put("a"), "", "nonsense"};
  for (const std::string& payload : payloads) {
    EXPECT_FALSE(copy->add(1, kNow, as_byte_span(payload)).ok());
    EXPECT_EQ(copy->index(), 0u);
  }
  EXPECT_TRUE(copy->add(1, kNow, as_byte_span(put("a") + put("b"))).ok());
}

}  // namespace
}  // namespace skua::kv
