#include "kvstore/shard/shard_closing.h"

#include <gtest/gtest.h>

#include <vector>

#include "kvstore/shard/worker_engine.h"
#include "tests/kvstore/shard/engine_lives.h"

namespace skua::kv {
namespace {

using testing::kIds;
using testing::put_of;
using testing::World;

TEST(ShardClosingTest, State_UntilTheDatabaseHasEverything) {
  World world(70);
  world.now_ms = 1234;
  world.start();
  world.put(0, "key0", "value");
  world.disk(0).hold(true);
  ShardClosing& closing = world.shard(0).closing();
  EXPECT_FALSE(closing.state());
  bool closed = false;
  world.engine().close_shard(world.shard(0), [&] { closed = true; });
  ASSERT_TRUE(closing.state());
  EXPECT_EQ(closing.state()->id, kIds[0]);
  EXPECT_EQ(closing.state()->since_ms, 1234U);
  EXPECT_FALSE(closing.is_leaving());
  EXPECT_FALSE(closing.is_gone());
  EXPECT_EQ(world.engine().closing_shards().size(), 1U);
  world.disk(0).hold(false);
  world.tasks().run_until([&] { return closed; });
  EXPECT_TRUE(world.engine().closing_shards().empty());
  EXPECT_EQ(world.disk(0).state().rows.size(), 1U);
}

TEST(ShardClosingTest, LetGo_OfAShardWhoseDatabaseLacksAWriteSaysWhy) {
  World world(71);
  world.start();
  world.put(0, "key0", "value");
  world.disk(0).fail();
  bool closed = false;
  world.engine().close_shard(world.shard(0), [&] { closed = true; });
  const auto failed = [&] {
    const std::vector<ClosingShard> shards = world.engine().closing_shards();
    return shards.size() == 1 && !shards[0].failure.ok();
  };
  world.tasks().run_until(failed);
  EXPECT_FALSE(closed);
  EXPECT_TRUE(world.engine().troubled_shards().empty()) << "it is told once";
}

TEST(ShardClosingTest, LetGo_OfAShardWithAWriteInDoubtKeepsItUntilARestart) {
  World world(72);
  world.start();
  world.device()->crash_after(0);
  world.write(0, put_of("key0", "value"));
  world.wait_for_answers();
  ASSERT_EQ(world.counts[KvStatus::kStorageFailed], 1U);
  bool closed = false;
  bool other_closed = false;
  world.engine().close_shard(world.shard(0), [&] { closed = true; });
  world.engine().close_shard(world.shard(1), [&] { other_closed = true; });
  world.tasks().run_until([&] { return other_closed && !world.engine().closing_shards().empty(); });
  EXPECT_FALSE(closed) << "the log may hold the write";
  EXPECT_FALSE(world.engine().closing_shards()[0].failure.ok());
}

}  // namespace
}  // namespace skua::kv
