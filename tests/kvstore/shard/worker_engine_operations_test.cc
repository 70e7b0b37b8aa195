// Expiry, exactly once, batches, durability per write.
#include "kvstore/shard/worker_engine.h"

#include <gtest/gtest.h>

#include "kvstore/completions/completion_limits.h"
#include "tests/kvstore/shard/engine_lives.h"
#include "tests/kvstore/types/mutations.h"

namespace skua::kv {
namespace {

using testing::put_of;
using testing::small_engine_options;
using testing::World;

TEST(WorkerEngine, Expire_KeysAreAbsentFromTheirTimeOn) {
  World world(14);
  world.start();
  const auto put_until = [&](std::string_view key, uint64_t ttl_ms) {
    world.write(0, mutations::put(key, as_byte_span("v"), {}, ttl_ms));
    world.wait_for_answers();
  };
  const auto advance = [&](uint64_t ms) {
    world.now_ms += ms;
    world.engine().set_time(world.now_ms, world.now_ms);
  };
  put_until("key0", 100);
  put_until("key1", 100);
  world.write(0, mutations::expire("key1", 0));
  world.write(0, mutations::append("key0", as_byte_span("w")));
  world.wait_for_answers();
  advance(99);
  EXPECT_EQ(world.read(0, "key0").value, "vw") << "APPEND keeps the expiry";
  advance(1);
  EXPECT_EQ(world.read(0, "key0").value, "(none)");
  EXPECT_EQ(world.read(0, "key1").value, "v");
  EXPECT_EQ(world.put(0, "key0", "new", Condition::if_absent()).status, KvStatus::kOk);
  put_until("key2", 50);
  world.stop();
  world.start();  // from the disk now
  world.engine().set_time(world.now_ms, world.now_ms);
  EXPECT_EQ(world.read(0, "key2").value, "v");
  advance(50);
  EXPECT_EQ(world.read(0, "key2").value, "(none)");
  EXPECT_EQ(world.read(0, "key0").value, "new");
  world.stop();
  world.start();
  world.engine().set_time(world.now_ms, world.now_ms);
  EXPECT_EQ(world.read(0, "key2").value, "(none)") << "a miss whose row has expired";
  world.write(0, mutations::remove("key2"));
  world.wait_for_answers();
  EXPECT_EQ(world.last_result.status, KvStatus::kNotFound);
}

TEST(WorkerEngine, Attempt_IsAnsweredOnceAndForAll) {
  World world(15);
  world.start();
  const RequestId id = {77, 1, 1};
  world.gate.close();
  world.write(0, mutations::add("key0", 5), {}, id);
  world.write(0, mutations::add("key0", 5), {}, id);  // under way
  world.gate.open();
  world.wait_for_answers();
  EXPECT_EQ(world.last_result, (MutationResult{KvStatus::kOk, 1, 5}));
  EXPECT_TRUE(world.last_was_record);
  const auto again = [&](const RequestId& which) {
    world.write(0, mutations::add("key0", 5), {}, which);
    world.wait_for_answers();
    return world.last_result;
  };
  EXPECT_EQ(again(id), (MutationResult{KvStatus::kOk, 1, 5}));
  EXPECT_EQ(world.last_achieved, Durability::kSync);
  world.crash();
  world.start();
  world.adopt_recovered();
  EXPECT_EQ(again(id), (MutationResult{KvStatus::kOk, 1, 5})) << "replayed from the log";
  world.wait_applied(0);
  world.close_and_open(0);
  EXPECT_EQ(again(id), (MutationResult{KvStatus::kOk, 1, 5})) << "loaded from the database";
  EXPECT_TRUE(world.last_was_record);
  EXPECT_EQ(again({77, 2, 2}), (MutationResult{KvStatus::kOk, 2, 10}));
  EXPECT_EQ(again(id).status, KvStatus::kStaleRetry);
  EXPECT_EQ(world.engine().counters().writes_repeated, 2u);
}

TEST(WorkerEngine, Attempt_BatchWithChecksIsAnsweredAgain) {
  World world(18);
  world.start();
  world.put(0, "key1", "v");
  const Mutation applied[] = {mutations::check("key1", 1), mutations::check("key5", 0), put_of("key2", "x")};
  const Mutation refused[] = {put_of("key3", "x"), mutations::check("key1", 2)};
  const Mutation idle[] = {mutations::check("key1", 1), mutations::remove("key9")};
  const auto ask = [&](std::span<const Mutation> batch, uint64_t seq) {
    world.write_batch(0, batch, {77, seq, 1});
    world.wait_for_answers();
    return world.last_results;
  };
  const auto ask_all = [&] {
    EXPECT_EQ(ask(applied, 1),
              (std::vector<MutationResult>{{KvStatus::kOk, 1}, {KvStatus::kOk, 0}, {KvStatus::kOk, 2}}));
    EXPECT_EQ(ask(refused, 2), (std::vector<MutationResult>{{KvStatus::kOk, 0}, {KvStatus::kVersionMismatch, 1}}));
    EXPECT_EQ(ask(idle, 3), (std::vector<MutationResult>{{KvStatus::kOk, 1}, {KvStatus::kNotFound, 0}}));
    EXPECT_EQ(world.last_result, (MutationResult{KvStatus::kOk, 0}));
  };
  ask_all();
  EXPECT_FALSE(world.last_was_record);
  world.put(0, "key1", "other");
  world.put(0, "key9", "v");
  ask_all();
  EXPECT_TRUE(world.last_was_record);
  EXPECT_EQ(world.read(0, "key9").value, "v");
  EXPECT_EQ(world.read(0, "key3").value, "(none)");
}

TEST(WorkerEngine, Attempt_WithoutEffectIsAnsweredAgainAndNotExecutedLate) {
  World world(16);
  world.start();
  world.put(0, "key1", "v");
  const Mutation refused[] = {put_of("key0", "x"), put_of("key1", "y", Condition::if_absent())};
  const Mutation idle[] = {mutations::remove("key0"), mutations::remove("key9")};
  const auto ask = [&] {
    world.write(0, mutations::remove("key0"), {}, {77, 1, 1});
    world.wait_for_answers();
    EXPECT_EQ(world.last_result, (MutationResult{KvStatus::kNotFound, 0}));
    world.write(0, put_of("key1", "late", Condition::if_version(2)), {}, {77, 2, 1});
    world.wait_for_answers();
    EXPECT_EQ(world.last_result, (MutationResult{KvStatus::kVersionMismatch, 1}));
    world.write_batch(0, refused, {77, 3, 1});
    world.wait_for_answers();
    EXPECT_TRUE(world.last_not_applied);
    EXPECT_EQ(world.last_results, (std::vector<MutationResult>{{KvStatus::kOk, 0}, {KvStatus::kAlreadyExists, 1}}));
    world.write_batch(0, idle, {77, 4, 1});
    world.wait_for_answers();
    EXPECT_EQ(world.last_result, (MutationResult{KvStatus::kOk, 0}));
    EXPECT_FALSE(world.last_not_applied);
    EXPECT_EQ(world.last_achieved, Durability::kSync);
    EXPECT_EQ(world.last_results, (std::vector<MutationResult>{{KvStatus::kNotFound, 0}, {KvStatus::kNotFound, 0}}));
  };
  ask();
  EXPECT_FALSE(world.last_was_record);
  world.put(0, "key1", "v");
  world.put(0, "key0", "v");
  world.put(0, "key9", "v");
  world.write(0, mutations::remove("key1"));
  world.wait_for_answers();
  ask();
  EXPECT_TRUE(world.last_was_record);
  EXPECT_EQ(world.engine().counters().writes_repeated, 4u);
  EXPECT_EQ(world.read(0, "key0").value, "v");
  world.check_all();
  world.write(0, mutations::remove("key0"), {}, {77, 5, 5});
  world.wait_for_answers();
  EXPECT_EQ(world.last_result.status, KvStatus::kOk) << "another one";
  world.write(0, mutations::remove("key9"), {}, {77, 1, 1});
  world.wait_for_answers();
  EXPECT_EQ(world.last_result.status, KvStatus::kStaleRetry);
}

TEST(WorkerEngine, Expiry_FollowsAWallClockThatWasWrong) {
  World world(34);
  world.start();
  world.write(0, mutations::put("key0", as_byte_span("v"), {}, 1000));
  world.wait_for_answers();
  const auto is_there_at = [&](uint64_t unix_ms) {
    world.engine().set_time(unix_ms, world.now_ms);
    return world.read(0, "key0").version != 0;
  };
  EXPECT_TRUE(is_there_at(world.now_ms));
  EXPECT_FALSE(is_there_at(world.now_ms + kClientSilentMsMax));
  EXPECT_TRUE(is_there_at(world.now_ms)) << "the clock was an hour ahead";
  EXPECT_FALSE(is_there_at(world.now_ms + 1000));
  EXPECT_FALSE(is_there_at(world.now_ms + 999)) << "the clock is slewed";
}

TEST(WorkerEngine, Attempt_IsAnsweredAgainWhateverTheWallClockShows) {
  constexpr uint64_t kDayMs = 24 * kClientSilentMsMax;
  World world(33);
  world.start();
  const auto add = [&](const RequestId& id) {
    world.write(0, mutations::add("key0", 1), {}, id);
    world.wait_for_answers();
    return world.last_result.value;
  };
  EXPECT_EQ(add({77, 1, 1}), 1);
  world.engine().set_time(world.now_ms + kDayMs, world.now_ms);
  EXPECT_EQ(add({77, 1, 1}), 1) << "the clock jumped";
  EXPECT_EQ(add({77, 2, 1}), 2);
  world.stop();
  world.now_ms += 2 * kDayMs;
  world.start();
  EXPECT_EQ(add({77, 2, 1}), 2) << "it jumped while the process was down";
  world.now_ms += kClientSilentMsMax + 1;
  EXPECT_EQ(add({77, 2, 1}), 3) << "that time has passed";
}

TEST(WorkerEngine, Attempt_OfAClientForgottenForOthersIsNotExecutedAgain) {
  WorkerEngine::Options options = small_engine_options();
  options.completions.clients_max = 8;
  options.completions.newcomers_max = 4;
  World world(31, options);
  world.start();
  world.engine().set_time(world.now_ms, world.now_ms);
  const auto add = [&](const RequestId& id) {
    world.write(0, mutations::add("key0", 1), {}, id);
    world.wait_for_answers();
    return world.last_result;
  };
  add({77, 1, 1});
  add({77, 2, 2});
  for (uint64_t client = 100; client < 104; ++client) EXPECT_EQ(add({client, 1, 1}).status, KvStatus::kOk);
  EXPECT_EQ(add({104, 1, 1}).status, KvStatus::kResourceExhausted);
  EXPECT_EQ(add({77, 3, 3}), (MutationResult{KvStatus::kOk, 7, 7})) << "whoever is known goes on";
  world.now_ms += kCompletionIdleMsMin;
  world.engine().set_time(world.now_ms, world.now_ms);
  EXPECT_EQ(add({104, 1, 1}), (MutationResult{KvStatus::kOk, 8, 8}));
  const MutationResult stale = {KvStatus::kStaleRetry, 1 + kCompletionSeqMargin};
  EXPECT_EQ(add({100, 1, 1}), stale);
  world.wait_applied(0);
  world.close_and_open(0);
  EXPECT_EQ(add({100, 1, 1}), stale) << "loaded from the database";
  EXPECT_EQ(add({101, 1, 1}), (MutationResult{KvStatus::kOk, 4, 4})) << "and this one is still known";
  EXPECT_EQ(add({77, 4, 4}), (MutationResult{KvStatus::kOk, 9, 9}));
}

TEST(WorkerEngine, Attempt_OfABatchWaitsForItsClientToBeTold) {
  WorkerEngine::Options options = small_engine_options();
  options.completions.client_bytes_max = 2 * kCompletionResultBytes + 3 * kBatchResultBytes;
  World world(32, options);
  world.start();
  const Mutation two[] = {put_of("key0", "x"), put_of("key1", "y")};
  const auto batch = [&](const RequestId& id) {
    world.write_batch(0, two, id);
    world.wait_for_answers();
    return world.last_result.status;
  };
  EXPECT_EQ(batch({77, 1, 1}), KvStatus::kOk);
  EXPECT_EQ(batch({77, 2, 1}), KvStatus::kTooManyIncomplete);
  EXPECT_EQ(batch({78, 1, 1}), KvStatus::kOk);
  world.write(0, put_of("key0", "z"), {}, {77, 3, 1});
  world.wait_for_answers();
  EXPECT_EQ(world.last_result.status, KvStatus::kOk);
  EXPECT_EQ(batch({77, 2, 2}), KvStatus::kOk);
  EXPECT_EQ(world.engine().counters().unfinished, 0u);
}

TEST(WorkerEngine, Attempt_ThatThereWasNoRoomForIsEvaluatedAgain) {
  WorkerEngine::Options options = small_engine_options();
  options.unfinished_max = 1;
  World world(28, options);
  world.start();
  world.gate.close();
  world.write(0, put_of("key1", "v"));
  world.write(0, put_of("key0", "v"), {}, {77, 1, 1});
  EXPECT_EQ(world.last_result.status, KvStatus::kResourceExhausted);
  world.gate.open();
  world.wait_for_answers();
  world.write(0, put_of("key0", "v"), {}, {77, 1, 1});
  world.wait_for_answers();
  EXPECT_EQ(world.last_result, (MutationResult{KvStatus::kOk, 2}));
}

TEST(WorkerEngine, Batch_AllOrNothing) {
  World world(17);
  world.start();
  world.put(0, "key0", "1");
  const Mutation good[] = {mutations::add("key0", 1), mutations::add("key0", 1), put_of("key1", "new"),
                           mutations::remove("key9")};
  world.write_batch(0, good);
  world.wait_for_answers();
  EXPECT_EQ(world.last_result, (MutationResult{KvStatus::kOk, 2}));
  const std::vector<MutationResult> results = {
      {KvStatus::kOk, 2, 2}, {KvStatus::kOk, 2, 3}, {KvStatus::kOk, 2}, {KvStatus::kNotFound, 0}};
  EXPECT_EQ(world.last_results, results);
  EXPECT_EQ(world.read(0, "key0").value, "3");
  const Mutation bad[] = {put_of("key0", "x"), put_of("key1", "y", Condition::if_absent())};
  world.write_batch(0, bad);
  world.wait_for_answers();
  EXPECT_TRUE(world.last_not_applied);
  const std::vector<MutationResult> refused = {{KvStatus::kOk, 0}, {KvStatus::kAlreadyExists, 2}};
  EXPECT_EQ(world.last_results, refused);
  EXPECT_EQ(world.read(0, "key0").value, "3");
  world.check_all();
}

TEST(WorkerEngine, Batch_ReadsWhatItNeedsAndHoldsUpWhatComesBehind) {
  World world(18);
  world.start();
  for (int i = 0; i < 6; ++i) world.put(0, "key" + std::to_string(i), "1");
  world.stop();
  world.start();
  const Mutation batch[] = {mutations::add("key0", 1), mutations::add("key1", 1), mutations::add("key2", 1)};
  world.write(0, mutations::add("key0", 10));  // parked before the batch
  world.write_batch(0, batch);
  world.write(0, put_of("key2", "5"));
  world.write_batch(0, batch);
  world.wait_for_answers();
  EXPECT_EQ(world.read(0, "key0").value, "13");
  EXPECT_EQ(world.read(0, "key2").value, "6");
  world.check_all();
}

TEST(WorkerEngine, Batch_OldValuesThatAreReadForItAreBounded) {
  WorkerEngine::Options options = small_engine_options();
  options.batch_read_bytes_max = 10'000;
  World world(26, options);
  world.start();
  for (int i = 0; i < 4; ++i) world.put(0, "key" + std::to_string(i), std::string(4000, 'x'));
  const auto run = [&](std::span<const Mutation> batch) {
    world.stop();
    world.start();  // memory is empty now
    world.write_batch(0, batch);
    world.wait_for_answers();
    return world.last_result.status;
  };
  const auto append = [](std::string_view key) { return mutations::append(key, as_byte_span("y")); };
  const Mutation two[] = {append("key0"), append("key1"), append("key0"), append("key1")};
  EXPECT_EQ(run(two), KvStatus::kOk) << "each is read once";
  const Mutation three[] = {append("key0"), append("key1"), append("key2")};
  EXPECT_EQ(run(three), KvStatus::kResourceExhausted);
  EXPECT_NE(world.last_why.find("must be read from the disk"), std::string::npos) << world.last_why;
  EXPECT_EQ(world.put(0, "key3", "v").version, 6u) << "nothing was applied, and writes behind it go on";
  const Mutation by_version[] = {mutations::remove("key0"), put_of("key1", "v", Condition::if_version(5)),
                                 mutations::remove("key2", Condition::if_version(3)), append("key3")};
  EXPECT_EQ(run(by_version), KvStatus::kOk) << "values that only their versions are asked of do not count";
  world.check_all();
}

TEST(WorkerEngine, Batch_ReadsNothingThatItDoesNotRestOn) {
  World world(27);
  world.start();
  std::vector<std::string> keys;
  for (int i = 0; i < 40; ++i) keys.push_back("key" + std::to_string(i));
  for (const std::string& key : keys) world.put(0, key, "1");
  world.stop();
  world.start();
  const size_t reads = world.disk(0).reads();
  std::vector<Mutation> batch;
  for (const std::string& key : keys) batch.push_back(put_of(key, "5"));
  for (const std::string& key : keys) batch.push_back(mutations::add(key, 1));
  world.write_batch(0, batch);
  world.wait_for_answers();
  EXPECT_EQ(world.last_result.status, KvStatus::kOk);
  EXPECT_EQ(world.disk(0).reads() - reads, 0u);
  world.stop();
  world.start();
  batch.clear();
  for (const std::string& key : keys) batch.push_back(mutations::add(key, 1));
  world.write_batch(0, batch);
  world.wait_for_answers();
  EXPECT_EQ(world.last_results.back().value, 7);
  world.check_all();
}

TEST(WorkerEngine, Write_WhatTheLogCanNeverTakeIsRefusedBeforeItIsAnswered) {
  World world(24);
  world.start();
  const std::string half(9 << 10, 'x');  // of group_bytes_max
  ASSERT_EQ(world.put(0, "key0", half).status, KvStatus::kOk);
  ASSERT_EQ(world.put(0, "key1", half).status, KvStatus::kOk);
  const Mutation puts[] = {put_of("key2", half), put_of("key3", half)};
  const Mutation appends[] = {mutations::append("key0", as_byte_span("y")),
                              mutations::append("key1", as_byte_span("y"))};
  const auto is_refused = [&] {
    world.wait_for_answers();
    EXPECT_NE(world.last_why.find("--log-segment"), std::string::npos) << world.last_why;
    EXPECT_FALSE(world.last_not_applied);
    return world.last_result == MutationResult{KvStatus::kInvalidArgument, 0};
  };
  for (const Durability durability : {Durability::kMemory, Durability::kFlush, Durability::kSync}) {
    world.write(0, put_of("key2", half + half), durability);
    EXPECT_TRUE(is_refused());
    world.write_batch(0, puts, {}, durability);
    EXPECT_TRUE(is_refused());
    world.write_batch(0, appends, {77, 1, 1}, durability);
    EXPECT_TRUE(is_refused());
  }
  // What an operation of the batch replaces does not count.
  std::vector<Mutation> growing(5, mutations::append("key0", as_byte_span(std::string_view(half).substr(0, 1024))));
  world.write_batch(0, growing, {77, 1, 1}, Durability::kMemory);
  world.wait_for_answers();
  EXPECT_EQ(world.last_result, (MutationResult{KvStatus::kOk, 3}));
  EXPECT_EQ(world.put(0, "key0", "v"), (MutationResult{KvStatus::kOk, 4}));
  world.check_all();
}

TEST(WorkerEngine, Batch_WaitsForMemoryAsAWhole) {
  WorkerEngine::Options options = small_engine_options();
  options.memory.budget_bytes = 192 << 10;
  World world(19, options);
  world.start();
  world.disk(0).hold(true);
  for (int i = 0; i < 100; ++i) {
    const std::string keys[] = {"key" + std::to_string(i % 15), "key" + std::to_string(15 + i % 15)};
    const std::string values[] = {std::string(2000, 'x'), std::string(3000, 'y')};
    const Mutation batch[] = {put_of(keys[0], values[0]), put_of(keys[1], values[1])};
    world.write_batch(0, batch);
  }
  world.tasks().run_until([&] { return world.engine().counters().memory.puts_refused > 0; });
  EXPECT_GT(world.unanswered(), 0u);
  world.disk(0).hold(false);
  world.wait_for_answers();
  EXPECT_EQ(world.counts[KvStatus::kOk], 100u);
  world.check_all();
}

TEST(WorkerEngine, Durability_MemoryIsAnsweredBeforeTheLogHasIt) {
  World world(20);
  world.start();
  world.put(0, "key0", "synced");
  world.gate.close();
  world.write(0, put_of("key0", "relaxed"), Durability::kMemory);
  EXPECT_EQ(world.unanswered(), 0u);
  EXPECT_EQ(world.last_achieved, Durability::kMemory);
  EXPECT_EQ(world.read(0, "key0").value, "relaxed");
  world.write(0, put_of("key1", "synced"), Durability::kSync);
  world.write(0, put_of("key2", "relaxed, but behind"), Durability::kMemory);
  EXPECT_EQ(world.unanswered(), 2u);
  world.gate.open();
  world.wait_for_answers();
  world.write(0, put_of("key3", "flushed"), Durability::kFlush);
  world.wait_for_answers();
  EXPECT_EQ(world.last_achieved, Durability::kFlush);
  world.check_all();
  world.crash();
  world.start();
  world.adopt_recovered();
  world.check_all();
}

TEST(WorkerEngine, Durability_WhatWasAnsweredGetsIntoAFullLogLater) {
  World world(21);
  world.start();
  world.disk(0).hold(true);
  world.device()->set_capacity(0);
  for (int i = 0; world.counts[KvStatus::kResourceExhausted] == 0 && i < 4000; ++i) {
    for (uint64_t n = 0; n < 5; ++n) {
      world.write(0, put_of("key" + std::to_string(n), std::string(200, 'x')), static_cast<Durability>(1 + n % 3));
    }
    world.tasks().run_until(
        [&] { return world.unanswered() == 0 || world.engine().counters().memory.puts_refused > 0; });
    if (world.engine().counters().memory.puts_refused > 0) world.disk(0).hold(false);
  }
  EXPECT_GT(world.counts[KvStatus::kResourceExhausted], 0u);
  world.device()->set_capacity(64 << 20);
  world.disk(0).hold(false);
  world.wait_for_answers();
  for (int i = 0; i < 100'000 && world.put(0, "key9", "room again").status != KvStatus::kOk; ++i) world.engine().tick();
  EXPECT_EQ(world.last_result.status, KvStatus::kOk);
  world.check_all();
  world.crash();
  world.start();
  world.adopt_recovered();
  world.check_all();
}

}  // namespace
}  // namespace skua::kv
