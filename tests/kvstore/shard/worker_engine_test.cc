#include "kvstore/shard/worker_engine.h"

#include <gtest/gtest.h>

#include <span>
#include <string>

#include "kvstore/codec/effect.h"
#include "kvstore/codec/size_limits.h"
#include "tests/kvstore/shard/engine_lives.h"
#include "tests/kvstore/types/mutations.h"

namespace skua::kv {
namespace {

using testing::MutationMaker;
using testing::put_of;
using testing::small_engine_options;
using testing::World;

TEST(WorkerEngine, Write_EachKindIsAnsweredAndSeen) {
  World world(1);
  world.start();
  EXPECT_EQ(world.put(0, "key1", "a"), (MutationResult{KvStatus::kOk, 1}));
  EXPECT_EQ(world.put(0, "key1", "b", Condition::if_absent()), (MutationResult{KvStatus::kAlreadyExists, 1}));
  EXPECT_EQ(world.put(0, "key1", "b", Condition::if_version(1)), (MutationResult{KvStatus::kOk, 2}));
  EXPECT_EQ(world.put(1, "key1", "other shard"), (MutationResult{KvStatus::kOk, 1}));
  world.write(0, mutations::remove("key1"));
  world.write(0, mutations::remove("key1"));
  world.wait_for_answers();
  EXPECT_EQ(world.last_result, (MutationResult{KvStatus::kNotFound, 0}));
  world.check_all();
}

TEST(WorkerEngine, Write_LaterOnesSeePendingEffectsReadersDoNot) {
  World world(2);
  world.start();
  world.put(0, "key0", "first");
  world.gate.close();
  world.write(0, put_of("key0", "second"));
  world.write(0, put_of("key0", "third", Condition::if_version(2)));
  world.write(0, put_of("key0", "never", Condition::if_version(1)));
  world.write(0, put_of("key1", "new", Condition::if_absent()));
  world.write(0, put_of("key1", "not new", Condition::if_absent()));
  world.gate.wait_until_waiting();
  world.tasks().run();
  EXPECT_EQ(world.read(0, "key0").value, "first");
  EXPECT_EQ(world.unanswered(), 5u) << "nothing may be told that rests on what is not durable";
  world.gate.open();
  world.wait_for_answers();
  EXPECT_EQ(world.read(0, "key0").value, "third");
  EXPECT_EQ(world.read(0, "key1").value, "new");
  EXPECT_EQ(world.counts[KvStatus::kOk], 4u);
  world.check_all();
}

TEST(WorkerEngine, Write_KeysThatMustBeReadWaitAndOthersGoOn) {
  World world(3);
  world.start();
  world.put(0, "key0", "on disk");
  world.stop();
  world.start();  // memory is empty now
  world.write(0, put_of("key0", "changed", Condition::if_version(1)));
  world.write(0, put_of("key0", "last"));  // must not overtake the one before it
  world.write(0, put_of("key1", "quick"));
  world.wait_for_answers();
  EXPECT_EQ(world.read(0, "key0").value, "last");
  EXPECT_EQ(world.counts[KvStatus::kOk], 4u);
  world.check_all();
}

TEST(WorkerEngine, Fetch_MissesOfOneKeyShareARead) {
  World world(4);
  world.start();
  world.put(0, "key0", "value");
  world.stop();
  world.start();
  const size_t reads = world.disk(0).reads();
  bool done[3] = {};
  FetchOp ops[3];
  for (size_t i = 0; i < 3; ++i) {
    ops[i] = {.key = "key0", .context = &done[i]};
    MemoryTier::Lookup found = world.shard(0).get("key0");
    ASSERT_EQ(found.found, MemoryTier::Found::kMiss);
    world.shard(0).reads().fetch(ops[i], found.ticket);
  }
  world.tasks().run_until([&] { return done[0] && done[1] && done[2]; });
  for (FetchOp& op : ops) EXPECT_EQ(as_string_view(op.value.bytes()), "value");
  EXPECT_EQ(world.disk(0).reads() - reads, 1u);
  EXPECT_EQ(world.shard(0).get("key0").found, MemoryTier::Found::kHit) << "kept in memory";
}

TEST(WorkerEngine, IsApplied_WaitsForWhatIsCommittedAndHurries) {
  World world(5);
  world.start();
  world.put(0, "key0", "value");  // far below a batch
  EXPECT_EQ(world.disk(0).state().index, 0u);
  world.wait_applied(0);
  EXPECT_EQ(world.disk(0).state().index, 1u);
}

TEST(WorkerEngine, Write_MemoryFullOfUnappliedWritesWaitsAndGoesOn) {
  WorkerEngine::Options options = small_engine_options();
  options.memory.budget_bytes = 192 << 10;
  World world(6, options);
  world.start();
  world.disk(0).hold(true);
  for (int i = 0; i < 200; ++i) world.write(0, put_of("key" + std::to_string(i % 30), std::string(2000, 'x')));
  world.tasks().run_until([&] { return world.engine().counters().memory.puts_refused > 0; });
  EXPECT_GT(world.unanswered(), 0u);
  world.disk(0).hold(false);
  world.wait_for_answers();
  EXPECT_EQ(world.counts[KvStatus::kOk], 200u);
  world.check_all();
}

TEST(WorkerEngine, Write_BeyondTheBoundsIsRefused) {
  WorkerEngine::Options options = small_engine_options();
  options.unfinished_max = 4;
  World world(7, options);
  world.start();
  world.gate.close();
  for (int i = 0; i < 6; ++i) world.write(0, put_of("key0", "v"));
  EXPECT_EQ(world.counts[KvStatus::kResourceExhausted], 2u);
  world.gate.open();
  world.wait_for_answers();
  EXPECT_EQ(world.counts[KvStatus::kOk], 4u);
  EXPECT_EQ(world.engine().counters().writes_refused, 2u);
}

/// The bound is of what writes hold: a few bytes to append make a record of the whole value.
TEST(WorkerEngine, Write_SmallOnesThatMakeLargeRecordsAreBounded) {
  WorkerEngine::Options options = small_engine_options();
  options.unfinished_bytes_max = 11 << 10;
  World world(70, options);
  world.start();
  world.put(0, "key0", std::string(5 << 10, 'x'));
  world.gate.close();
  for (int i = 0; i < 10; ++i) world.write(0, mutations::append("key0", as_byte_span(std::string_view("y"))));
  EXPECT_LE(world.engine().counters().unfinished_bytes, options.unfinished_bytes_max);
  world.gate.open();
  world.wait_for_answers();
  EXPECT_EQ(world.counts[KvStatus::kOk], 1U + 2U);
  EXPECT_EQ(world.counts[KvStatus::kResourceExhausted], 8U);
  EXPECT_EQ(world.engine().counters().unfinished_bytes, 0U);
  EXPECT_EQ(world.put(0, "key1", std::string(15 << 10, 'x')).status, KvStatus::kOk) << "one alone may have any size";
  world.check_all();
}

TEST(WorkerEngine, Write_ValuesLargerThanMemoryAreRefused) {
  World world(8);
  world.start();
  EXPECT_EQ(world.put(0, "key0", std::string(300 << 10, 'x')).status, KvStatus::kResourceExhausted);
  EXPECT_NE(world.last_why.find("--memory"), std::string::npos);
  EXPECT_EQ(world.put(0, "key0", "small"), (MutationResult{KvStatus::kOk, 1}));
}

TEST(WorkerEngine, Write_FullDiskIsRefusedAndEndsWhenThereIsRoom) {
  World world(9);
  world.start();
  // The database takes nothing, so the log may not let anything go.
  world.disk(0).hold(true);
  world.device()->set_capacity(0);
  for (int i = 0; world.counts[KvStatus::kResourceExhausted] == 0 && i < 2000; ++i) {
    for (int n = 0; n < 5; ++n) world.write(0, put_of("key" + std::to_string(n), std::string(200, 'x')));
    world.tasks().run_until(
        [&] { return world.unanswered() == 0 || world.engine().counters().memory.puts_refused > 0; });
    if (world.engine().counters().memory.puts_refused > 0) world.disk(0).hold(false);
  }
  EXPECT_GT(world.counts[KvStatus::kResourceExhausted], 0u);
  world.device()->set_capacity(64 << 20);
  world.disk(0).hold(false);
  world.wait_for_answers();
  EXPECT_EQ(world.put(0, "key9", "room again").status, KvStatus::kOk);
  world.check_all();
}

TEST(WorkerEngine, Write_AFailedLogIsToldAndEndsWrites) {
  World world(10);
  world.start();
  world.put(0, "key0", "kept");
  world.device()->crash_after(0);
  EXPECT_EQ(world.put(0, "key0", "in doubt").status, KvStatus::kStorageFailed);
  EXPECT_EQ(world.put(1, "key0", "v").status, KvStatus::kShardReadOnly);
  EXPECT_NE(world.last_why.find("log failed"), std::string::npos);
  EXPECT_EQ(world.read(0, "key0").value, "kept");
  world.crash();
  world.start();
  world.adopt_recovered();
  world.check_all();
}

// A replica syncs its log from time to time. If no write follows a failure, no record tells of the failure.
TEST(WorkerEngine, LogHealth_ASyncThatFailsBetweenWritesIsSeen) {
  World world(12);
  world.start();
  world.put(0, "key0", "synced");
  world.write(0, put_of("key0", "not synced"), Durability::kFlush);
  world.wait_for_answers();
  world.device()->set_faults({.sync_error = 1});
  world.shard(0).worker().log->sync();
  world.tasks().run_until([&] { return !world.engine().log_health().ok(); });
  world.device()->set_faults({});
  EXPECT_EQ(world.put(1, "key0", "v").status, KvStatus::kShardReadOnly);
  EXPECT_NE(world.last_why.find("log failed"), std::string::npos);
}

TEST(WorkerEngine, Write_AFailedDatabaseEndsWritesOfItsShardOnly) {
  World world(11);
  world.start();
  world.put(0, "key0", "value");
  world.disk(0).fail();
  bool done = false;
  AppliedWait wait{.context = &done};
  ASSERT_FALSE(world.shard(0).reads().is_applied(wait));
  world.tasks().run_until([&] { return done; });
  EXPECT_FALSE(wait.status.ok());
  EXPECT_EQ(world.put(0, "key0", "v").status, KvStatus::kShardReadOnly);
  EXPECT_EQ(world.put(1, "key0", "v").status, KvStatus::kOk);
  EXPECT_EQ(world.read(0, "key0").value, "value");
  world.crash();
  world.start();
  world.adopt_recovered();
}

TEST(WorkerEngine, CloseShard_LeavesEverythingInTheDatabase) {
  World world(12);
  world.start();
  for (int i = 0; i < 20; ++i) world.put(0, "key" + std::to_string(i), "value");
  bool closed = false;
  world.engine().close_shard(world.shard(0), [&] { closed = true; });
  world.tasks().run_until([&] { return closed; });
  EXPECT_EQ(world.disk(0).state().index, 20u);
  world.open(0);
  EXPECT_EQ(world.put(0, "key3", "next life"), (MutationResult{KvStatus::kOk, 21}));
  world.check_all();
  world.crash();
  world.start();
  world.adopt_recovered();
  world.check_all();
}

TEST(WorkerEngine, CloseShard_OneWhoseDatabaseFailedIsNotGivenBack) {
  World world(13);
  world.start();
  world.put(0, "key0", "value");
  world.disk(0).fail();
  bool closed = false;
  world.engine().close_shard(world.shard(0), [&] { closed = true; });
  bool other_closed = false;
  world.engine().close_shard(world.shard(1), [&] { other_closed = true; });
  world.tasks().run_until([&] { return other_closed; });
  EXPECT_FALSE(closed) << "its database lacks an acknowledged write; only recovery may open it";
  world.crash();
  world.start();
  world.adopt_recovered();
  world.check_all();
}

/// Random writes, reads, closings and crashes: what was acknowledged is there, with its version, and nothing else.
void live_and_die(uint64_t seed, bool relaxed) {
  SCOPED_TRACE(::testing::Message() << "seed " << seed);
  World world(seed);
  MutationMaker maker(Rng(seed ^ 99));
  for (int life = 0; life < 4; ++life) {
    world.start();
    world.adopt_recovered();
    world.check_all();
    if (::testing::Test::HasFatalFailure()) return;
    if (world.rng().chance(0.7)) world.device()->crash_after(world.rng().below(200));
    for (int round = 0; round < 30 && !world.device()->crashed(); ++round) {
      maker.clear();
      world.now_ms += world.rng().below(10);
      for (uint64_t n = world.rng().between(1, 25); n > 0; --n) {
        const size_t shard = world.rng().below(2);
        const bool is_batch = world.rng().chance(0.15);
        std::vector<Mutation> mutations;
        for (uint64_t count = is_batch ? world.rng().between(1, 5) : 1; count > 0; --count) {
          mutations.push_back(maker.make([&](std::string_view key) {
            const auto* row = world.answered[shard].twin.find(key);
            return row == nullptr ? uint64_t{1} : row->version;
          }));
        }
        auto write = World::make_write(shard, mutations, is_batch);
        if (relaxed && world.rng().chance(0.5)) write->op.durability = static_cast<Durability>(world.rng().below(4));
        world.submit_as_anybody(std::move(write));
        if (world.rng().chance(0.2)) world.tasks().run();
      }
      if (world.rng().chance(0.5)) world.wait_for_answers();
      if (world.rng().chance(0.1) && !world.device()->crashed()) {
        world.wait_for_answers();
        if (!world.device()->crashed()) world.check_all();
      }
      if (world.rng().chance(0.1) && world.answered[0].in_doubt.empty()) world.wait_applied(0);
      if (world.rng().chance(0.1)) world.close_and_open(world.rng().below(2));
    }
    if (world.rng().chance(0.3) && !world.device()->crashed()) {
      world.device()->crash_after(~uint64_t{0} / 2);
      world.stop();
    } else {
      world.crash();
    }
  }
  world.start();
  world.adopt_recovered();
  world.check_all();
}

TEST(WorkerEngine, Any_RandomLivesAgreeWithAMap) {
  for (uint64_t seed = 1; seed <= 60; ++seed) {
    live_and_die(seed, seed % 2 == 0);
    if (::testing::Test::HasFailure()) return;
  }
}

/// Effects as they lie in an entry.
void add_put(std::string& payload, const std::string& key, const std::string& value) {
  EffectHead buffer;
  ByteWriter head(buffer);
  encode_effect_head({.key = key, .value = as_byte_span(value)}, head);
  payload += as_string_view(head.written());
  payload += key + value;
}

std::string puts_of(std::span<const std::string> keys) {
  std::string payload;
  for (const std::string& key : keys) add_put(payload, key, "v");
  return payload;
}

TEST(WorkerEngine, AppendEntry_RefusesWhatNoPrimaryMakes) {
  World world(40);
  world.start();
  Shard& shard = world.shard(0);
  shard.replicate();
  const auto append = [&](std::span<const std::string> keys) {
    const std::string payload = puts_of(keys);
    return shard.entries().append({.index = 1, .epoch = 1, .time_ms = 1, .payload = as_byte_span(payload)});
  };
  std::vector<std::string> keys;
  for (size_t i = 0; i <= kBatchOpsMax; ++i) keys.push_back(std::to_string(i));
  EXPECT_EQ(append(keys).code(), absl::StatusCode::kInvalidArgument) << "the applier might have no room for so many";
  const std::string large[] = {"a", std::string(shard.worker().log->payload_bytes_max(), 'x')};
  EXPECT_EQ(append(large).code(), absl::StatusCode::kInvalidArgument) << "the log would give it back, again and again";
  const std::string twice[] = {"a", "b", "a"};
  EXPECT_EQ(append(twice).code(), absl::StatusCode::kInvalidArgument);
  EXPECT_EQ(shard.indices().last, 0u);
  keys.pop_back();
  EXPECT_TRUE(append(keys).ok());
  EXPECT_EQ(shard.indices().last, 1u);
}

TEST(WorkerEngine, AppendEntry_RefusesWhatThisNodesMemoryCouldNeverTake) {
  WorkerEngine::Options options = small_engine_options();
  options.memory.budget_bytes = 16 << 10;  // less than the log takes at once
  options.memory.region_bytes = 1 << 10;
  World world(41, options);
  world.start();
  Shard& shard = world.shard(0);
  shard.replicate();
  const MemoryTier& memory = *shard.worker().memory;
  const std::string value(memory.item_bytes_max() / 2, 'v');
  std::string payload;
  const auto append = [&] {
    return shard.entries().append(
        {.index = shard.indices().last + 1, .epoch = 1, .time_ms = 1, .payload = as_byte_span(payload)});
  };
  for (size_t i = 0; i * value.size() <= memory.batch_bytes_max(); ++i) {
    add_put(payload, std::to_string(i), value);
    if (i == 0) {
      EXPECT_TRUE(append().ok()) << "one value alone fits";
    }
  }
  ASSERT_LT(payload.size() + kEntryHeadBytes, shard.worker().log->payload_bytes_max());
  const absl::Status refused = append();
  EXPECT_EQ(refused.code(), absl::StatusCode::kInvalidArgument) << "each value fits, all of them together do not";
  EXPECT_NE(refused.message().find("--memory"), absl::string_view::npos) << refused;
}

}  // namespace
}  // namespace skua::kv
