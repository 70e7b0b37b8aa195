#include "kvstore/shard/shard_apply.h"

#include <gtest/gtest.h>

#include <string>
#include <string_view>

#include "kvstore/codec/effect.h"
#include "kvstore/replication/epoch_history.h"
#include "kvstore/shard/worker_engine.h"
#include "tests/kvstore/shard/engine_lives.h"

namespace skua::kv {
namespace {

using testing::put_of;
using testing::small_engine_options;
using testing::World;

void append_put(std::string& payload, std::string_view key, std::string_view value) {
  EffectHead buffer;
  ByteWriter head(buffer);
  encode_effect_head({.key = key, .value = as_byte_span(value)}, head);
  payload.append(as_string_view(head.written())).append(key).append(value);
}

WorkerEngine::Options little_memory() {
  WorkerEngine::Options options = small_engine_options();
  options.memory.budget_bytes = 192 << 10;
  return options;
}

TEST(ShardApplyTest, Entries_InOrderAndEachAsAWhole) {
  World world(80);
  world.start();
  world.replicate(0);
  Shard& shard = world.shard(0);
  std::string first;
  append_put(first, "key0", "one");
  append_put(first, "key1", "one");
  std::string second;
  append_put(second, "key1", "two");
  for (const std::string& payload : {first, second}) {
    const ReplicaEntry entry{shard.indices().last + 1, 1, 1, Durability::kSync, as_byte_span(payload)};
    ASSERT_TRUE(shard.entries().append(entry).ok());
  }
  EXPECT_EQ(world.read(0, "key0").value, "(none)");
  shard.commit_entries(1);
  EXPECT_EQ(world.read(0, "key0").value, "one");
  EXPECT_EQ(world.read(0, "key1").value, "one");
  EXPECT_EQ(shard.indices().committed, 1U);
  shard.commit_entries(2);
  EXPECT_EQ(world.read(0, "key0").version, 1U);
  EXPECT_EQ(world.read(0, "key1").value, "two");
  world.wait_applied(0);
  EXPECT_EQ(world.disk(0).state().rows.at("key1").value, "two");
}

TEST(ShardApplyTest, Drain_WhatFindsNoRoomIsInTheLogOnly) {
  World world(81, little_memory());
  world.start();
  world.disk(0).hold(true);
  for (int i = 0; i < 200; ++i) world.write(0, put_of("key" + std::to_string(i % 30), std::string(2000, 'x')));
  world.tasks().run_until([&] { return world.engine().counters().memory.puts_refused > 0; });
  ASSERT_GT(world.unanswered(), 0U);
  world.engine().drain();
  world.wait_for_answers();
  EXPECT_EQ(world.counts[KvStatus::kOk], 200U) << "the log has them";
  world.write(0, put_of("key0", "late"));
  world.wait_for_answers();
  EXPECT_EQ(world.counts[KvStatus::kResourceExhausted], 1U);
  world.stop();
  world.start();
  world.adopt_recovered();
  world.check_all();
}

/// A replica that led stops while a committed write waits for room. What the next primary adds comes after that write.
TEST(ShardApplyTest, Drain_NothingBehindAGapReachesTheDatabase) {
  constexpr uint64_t kWrites = 200;
  constexpr size_t kKeys = 30;
  const auto key_of = [](uint64_t write) { return "key" + std::to_string(write % kKeys); };
  World world(82, little_memory());
  world.start();
  world.replicate(0);
  world.shard(0).lead(1);
  world.disk(0).hold(true);
  for (uint64_t i = 1; i <= kWrites; ++i) world.write(0, put_of(key_of(i), std::string(2000, 'x')));
  world.tasks().run_until([&] { return world.shard(0).indices().synced == kWrites; });
  world.shard(0).commit_entries(kWrites);
  ASSERT_LT(world.shard(0).indices().committed, kWrites);
  world.shard(0).follow();
  EpochHistory history;
  history.append(1);
  history.extend_to(kWrites);
  history.append(2);
  const std::string barrier = encode_barrier(as_byte_span(encode_epoch_history(history)));
  const ReplicaEntry entry{kWrites + 1, 2, 1, Durability::kSync, as_byte_span(barrier)};
  ASSERT_TRUE(world.shard(0).entries().append(entry).ok());
  world.tasks().run_until([&] { return world.shard(0).indices().synced == kWrites + 1; });
  world.shard(0).commit_entries(kWrites + 1);
  world.engine().drain();
  world.wait_for_answers();
  world.stop();
  EXPECT_LT(world.disk(0).state().index, kWrites);
  world.start();
  world.replicate(0);
  world.shard(0).commit_entries(kWrites + 1);
  for (uint64_t i = kWrites - kKeys + 1; i <= kWrites; ++i) EXPECT_EQ(world.read(0, key_of(i)).version, i);
}

}  // namespace
}  // namespace skua::kv
