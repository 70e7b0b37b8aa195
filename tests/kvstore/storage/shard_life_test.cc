#include "kvstore/storage/shard_life.h"

#include <gtest/gtest.h>

#include "kvstore/storage/completion_rows.h"
#include "kvstore/storage/replica_rows.h"
#include "tests/kvstore/shard/engine_lives.h"

namespace skua::kv {
namespace {

using testing::put_of;
using testing::TemporaryDirectory;
using testing::World;

constexpr ShardId kShard{7, 0};

TEST(ShardLife, Begin_GoesOnBehindAGapUnlessTheLastOneWasClosed) {
  TemporaryDirectory directory;
  const auto engine = make_rocksdb_engine({});
  const auto begin = [&] {
    auto db = engine->open_db(directory.path(), kShard).value();
    EXPECT_TRUE(begin_life(*db).ok());
    return db;
  };
  auto db = begin();
  EXPECT_EQ(db->applied_index(), 0u);
  const AppliedEffect put{.key = "key", .value = as_byte_span("v"), .version = 5};
  ASSERT_TRUE(db->apply({&put, 1}, 5).ok());
  ASSERT_TRUE(db->flush().ok());
  db.reset();
  db = begin();
  EXPECT_EQ(db->applied_index(), 5 + kIndexStep);
  std::vector<InternalRow> rows = db->take_internal_rows();
  ShardLife life = read_life(rows).value();
  EXPECT_FALSE(life.closed);
  EXPECT_EQ(life.gaps, (std::vector<IndexGap>{{5, 5 + kIndexStep}}));
  EXPECT_FALSE(life.is_lost(5));
  EXPECT_TRUE(life.is_lost(6));
  EXPECT_TRUE(life.is_lost(4 + kIndexStep));
  EXPECT_FALSE(life.is_lost(5 + kIndexStep));
  CompletionTable completions;
  EXPECT_TRUE(load_completions(rows, completions).ok()) << "it is no client's";
  EXPECT_EQ(completions.clients(), 0u);

  life.closed = true;
  const std::string key = life_key();
  const std::string closed = encode_life(life);
  const AppliedEffect row{.key = key, .value = as_byte_span(closed), .version = db->applied_index()};
  ASSERT_TRUE(db->apply({&row, 1}, db->applied_index()).ok());
  ASSERT_TRUE(db->flush().ok());
  db.reset();
  db = begin();
  EXPECT_EQ(db->applied_index(), 5 + kIndexStep);
  EXPECT_EQ(read_life(db->take_internal_rows()).value().gaps.size(), 1u);
}

TEST(ShardLife, Begin_LeavesAReplicaAsItIs) {
  TemporaryDirectory directory;
  const auto engine = make_rocksdb_engine({});
  const std::string key = replica_runs_key();
  for (int life = 0; life < 3; ++life) {
    auto db = engine->open_db(directory.path(), kShard).value();
    ASSERT_TRUE(begin_life(*db).ok());
    EXPECT_EQ(db->applied_index(), life == 0 ? 0u : 5u);
    if (life > 0) {
      EXPECT_EQ(db->take_internal_rows().size(), 1u) << "only what is its own";
    }
    if (life > 0) continue;
    // As one that was opened without begin_life().
    db.reset();
    ASSERT_TRUE(engine->destroy_shard(directory.path(), kShard).ok());
    db = engine->open_db(directory.path(), kShard).value();
    const AppliedEffect row{.key = key, .value = as_byte_span("runs"), .version = 5};
    ASSERT_TRUE(db->apply({&row, 1}, 5).ok());
    ASSERT_TRUE(db->flush().ok());
  }
}

TEST(ShardLife, PassOver_TheOldestGapsBecomeOne) {
  ShardLife life;
  for (uint64_t i = 0; i <= kIndexGapsMax; ++i) life.pass_over({10 * i, 10 * i + 5});
  EXPECT_EQ(life.gaps.size(), kIndexGapsMax);
  EXPECT_EQ(life.gaps.front(), (IndexGap{0, 15}));
  EXPECT_TRUE(life.is_lost(7)) << "rather too much than too little";
  EXPECT_EQ(life.gaps.back(), (IndexGap{10 * kIndexGapsMax, 10 * kIndexGapsMax + 5}));
}

TEST(ShardLife, Read_RefusesWhatIsDamaged) {
  ShardLife life;
  life.pass_over({3, 9});
  const std::string sound = encode_life(life);
  const auto read = [](std::string value) {
    const std::vector<InternalRow> rows = {{life_key(), std::move(value)}};
    return read_life(rows).status();
  };
  EXPECT_TRUE(read(sound).ok());
  EXPECT_FALSE(read(sound.substr(0, sound.size() - 1)).ok());
  EXPECT_FALSE(read("").ok());
  EXPECT_FALSE(read("\2" + sound.substr(1)).ok());
  EXPECT_FALSE(read(sound + sound.substr(8)).ok()) << "gaps rise";
  EXPECT_TRUE(read_life({}).value().closed);
}

TEST(ShardLife, Any_NoIndexIsGivenOutTwice) {
  World world(25);
  world.begins_lives = true;
  world.start();
  world.put(0, "key0", "synced");
  world.gate.close();
  world.write(0, put_of("key0", "lost"), Durability::kMemory);
  EXPECT_EQ(world.last_result, (MutationResult{KvStatus::kOk, 2}));
  world.crash();
  world.start();
  testing::Answered& shard = world.answered[0];
  shard.twin = shard.history.at(1);
  shard.twin.pass_over(kIndexStep + 1);
  EXPECT_TRUE(world.shard(0).has_state(1));
  EXPECT_FALSE(world.shard(0).has_state(2));
  EXPECT_TRUE(world.shard(0).has_state(kIndexStep + 1));
  EXPECT_FALSE(world.shard(0).has_state(kIndexStep + 2));
  EXPECT_EQ(world.put(0, "key0", "other"), (MutationResult{KvStatus::kOk, kIndexStep + 2}));
  world.stop();
  world.start();
  EXPECT_EQ(world.put(0, "key0", "next"), (MutationResult{KvStatus::kOk, kIndexStep + 3})) << "that was in order";
  world.close_and_open(0);
  EXPECT_EQ(world.put(0, "key0", "last"), (MutationResult{KvStatus::kOk, kIndexStep + 4}));
  EXPECT_FALSE(world.shard(0).has_state(2));
  world.check_all();
}

}  // namespace
}  // namespace skua::kv
