#include "kvstore/engine/worker_engine.h"

#include <gtest/gtest.h>

#include <algorithm>

#include "kvstore/log/sim/sim_device.h"
#include "tests/kvstore/engine/engine_testing.h"
#include "tests/kvstore/engine/engine_world.h"

namespace skua::kv {
namespace {

using testing::BorrowedDevice;
using testing::FakeDbEngine;
using testing::FakeDisk;
using testing::MutationMaker;
using testing::small_engine_options;
using testing::small_log_options;
using testing::TaskQueue;
using testing::TwinShard;

constexpr ShardId kIds[] = {{7, 0}, {7, 1}};

/// A write with bytes of its own.
struct TestWrite {
  WriteOp op;
  size_t shard = 0;
  std::string key;
  std::string value;
  bool done = false;
};

/// What the engine has answered so far, applied in the order of the answers to dumb twins; writes in doubt aside.
struct Answered {
  TwinShard twin;
  std::vector<std::unique_ptr<TestWrite>> in_doubt;
};

/// Lives of an engine over one log and its databases.
class World {
 public:
  explicit World(uint64_t seed, WorkerEngine::Options options = small_engine_options())
      : rng_(seed), options_(std::move(options)), device_(seed, 64 << 20) {
    for (const ShardId id : kIds) databases_.disk(id);
  }
  ~World() {
    if (engine_ != nullptr) stop();
  }

  void start() {
    auto device = std::make_unique<BorrowedDevice>(device_, gate);
    RecoveryOptions recovery{.log = small_log_options(), .shards_dir = ""};
    recovery.chunk_bytes = 1 << 10;
    auto recovered = recover_log(*device, recovery, databases_);
    ASSERT_TRUE(recovered.ok()) << recovered.status();
    refused = recovered->refused;
    replayed = recovered->records_replayed;
    WorkerEngine::Events events;
    events.post = [this](absl::AnyInvocable<void()> task) { tasks_.post(std::move(task)); };
    events.write_done = [this](WriteOp& op) { on_written(*static_cast<TestWrite*>(op.context)); };
    events.fetch_done = [](FetchOp& op) { *static_cast<bool*>(op.context) = true; };
    events.applied = [](AppliedWait& wait) { *static_cast<bool*>(wait.context) = true; };
    engine_ = WorkerEngine::create(options_, std::move(events), std::move(device), std::move(recovered->log), readers_)
                  .value();
    for (size_t i = 0; i < std::size(kIds); ++i) {
      if (!refused.contains(kIds[i])) open(i);
    }
  }

  void open(size_t i) {
    dbs_[i] = databases_.open_db("", kIds[i], RocksdbEngine::IfMissing::kFail).value();
    shards_[i] = &engine_->open_shard(*dbs_[i], 1);
  }

  /// As when a shard moves to another worker and back. Not at all if the disk fails meanwhile.
  void close_and_open(size_t i) {
    wait_for_answers();
    if (device()->crashed()) return;
    bool closed = false;
    engine_->close_shard(*shards_[i], [&] { closed = true; });
    tasks_.run_until([&] { return closed; });
    dbs_[i].reset();
    open(i);
  }

  /// Ends in order.
  void stop() {
    gate.open();
    for (const ShardId id : kIds) databases_.disk(id).hold(false);
    wait_for_answers();
    engine_->stop();
    tasks_.run();
    engine_.reset();
    for (auto& db : dbs_) db.reset();
  }

  /// The power fails, now or at the moment set before.
  void crash() {
    device()->crash_after(0);
    for (const ShardId id : kIds) databases_.disk(id).fail();
    stop();
    device_.restart();
    for (const ShardId id : kIds) databases_.disk(id).crash(rng_);
  }

  void write(size_t shard, const Mutation& mutation) {
    auto write = std::make_unique<TestWrite>();
    TestWrite& w = *write;
    w.shard = shard;
    w.key = mutation.key;
    w.value = as_string_view(mutation.value);
    w.op.context = &w;
    w.op.mutation = mutation;
    w.op.mutation.key = w.key;
    w.op.mutation.value = as_byte_span(w.value);
    writes_.push_back(std::move(write));
    ++unanswered_;
    engine_->write(*shards_[shard], w.op);
  }
  MutationResult put(size_t shard, std::string_view key, std::string_view value, Condition condition = {}) {
    write(shard, Mutation::put(key, as_byte_span(value), condition));
    wait_for_answers();
    return last_result;
  }

  void wait_for_answers() {
    tasks_.run_until([&] {
      engine_->tick();
      return unanswered_ == 0;
    });
    writes_.clear();
  }

  /// Memory first, then the disk; "(none)" if there is none.
  FakeDisk::Row read(size_t shard, std::string_view key) {
    MemoryTier::Lookup found = engine_->get(*shards_[shard], key);
    if (found.found == MemoryTier::Found::kAbsent) return {0, "(none)"};
    if (found.found == MemoryTier::Found::kHit) {
      return {found.value.version(), std::string(as_string_view(found.value.bytes()))};
    }
    bool done = false;
    FetchOp op{.key = key, .context = &done};
    engine_->fetch(*shards_[shard], op, found.ticket);
    tasks_.run_until([&] { return done; });
    if (!op.status.ok()) return {0, absl::IsNotFound(op.status) ? "(none)" : op.status.ToString()};
    return {op.value.version(), std::string(as_string_view(op.value.bytes()))};
  }

  void wait_applied(size_t shard) {
    bool done = false;
    AppliedWait wait{.context = &done};
    if (engine_->is_applied(*shards_[shard], wait)) return;
    tasks_.run_until([&] { return done; });
    EXPECT_TRUE(wait.status.ok()) << wait.status;
  }

  /// What is there, is what was answered.
  void check_all() {
    for (size_t i = 0; i < std::size(kIds); ++i) {
      for (int k = 0; k < 30; ++k) {
        const std::string key = "key" + std::to_string(k);
        const TwinShard::Row* row = answered[i].twin.find(key);
        const FakeDisk::Row expected =
            row == nullptr ? FakeDisk::Row{0, "(none)"} : FakeDisk::Row{row->version, row->value};
        const FakeDisk::Row is = read(i, key);
        ASSERT_EQ(is.version, expected.version) << "shard " << i << " " << key;
        ASSERT_EQ(is.value, expected.value) << "shard " << i << " " << key;
      }
    }
  }

  /// After a restart: everything acknowledged is there, and of what was in doubt a beginning.
  void adopt_recovered() {
    for (size_t i = 0; i < std::size(kIds); ++i) {
      const uint64_t index = databases_.disk(kIds[i]).state().index;
      ASSERT_GE(index, answered[i].twin.last_index()) << "an acknowledged write is lost";
      for (const auto& doubtful : answered[i].in_doubt) {
        if (doubtful->op.index > index) break;
        ASSERT_EQ(doubtful->op.index, answered[i].twin.last_index() + 1);
        ASSERT_EQ(answered[i].twin.apply(doubtful->op.mutation).status, KvStatus::kOk);
      }
      ASSERT_EQ(index, answered[i].twin.last_index());
      answered[i].in_doubt.clear();
      std::map<std::string, FakeDisk::Row, std::less<>> expected;
      for (const auto& [key, row] : answered[i].twin.rows()) expected[key] = {row.version, row.value};
      ASSERT_EQ(databases_.disk(kIds[i]).state().rows, expected);
    }
  }

  WorkerEngine& engine() { return *engine_; }
  EngineShard& shard(size_t i) { return *shards_[i]; }
  testing::LockedDevice device() { return {std::unique_lock(gate.device), &device_}; }
  FakeDisk& disk(size_t i) { return databases_.disk(kIds[i]); }
  TaskQueue& tasks() { return tasks_; }
  Rng& rng() { return rng_; }
  [[nodiscard]] size_t unanswered() const { return unanswered_; }

  Answered answered[std::size(kIds)];
  std::map<KvStatus, size_t> counts;
  MutationResult last_result;
  std::string last_why;
  std::map<ShardId, absl::Status> refused;
  uint64_t replayed = 0;
  BorrowedDevice::Gate gate;

 private:
  void on_written(TestWrite& write) {
    EXPECT_FALSE(write.done);
    write.done = true;
    --unanswered_;
    last_result = write.op.result;
    last_why = write.op.why;
    ++counts[last_result.status];
    Answered& shard = answered[write.shard];
    switch (last_result.status) {
      case KvStatus::kResourceExhausted:
      case KvStatus::kShardReadOnly: return;  // certainly not executed
      case KvStatus::kStorageFailed: {
        const auto held =
            std::find_if(writes_.begin(), writes_.end(), [&](const auto& w) { return w.get() == &write; });
        shard.in_doubt.push_back(std::move(*held));
        return;
      }
      default: EXPECT_EQ(shard.twin.apply(write.op.mutation), last_result) << write.key;
    }
  }

  Rng rng_;
  const WorkerEngine::Options options_;
  sim::SimDevice device_;
  FakeDbEngine databases_;
  TaskQueue tasks_;
  ReaderPool readers_{{.threads = 1}};
  std::unique_ptr<ShardDb> dbs_[std::size(kIds)];
  EngineShard* shards_[std::size(kIds)] = {};
  std::vector<std::unique_ptr<TestWrite>> writes_;
  size_t unanswered_ = 0;
  std::unique_ptr<WorkerEngine> engine_;
};

Mutation put_of(std::string_view key, std::string_view value, Condition condition = {}) {
  return Mutation::put(key, as_byte_span(value), condition);
}

TEST(WorkerEngine, Write_EachKindIsAnsweredAndSeen) {
  World world(1);
  world.start();
  EXPECT_EQ(world.put(0, "key1", "a"), (MutationResult{KvStatus::kOk, 1}));
  EXPECT_EQ(world.put(0, "key1", "b", Condition::if_absent()), (MutationResult{KvStatus::kAlreadyExists, 1}));
  EXPECT_EQ(world.put(0, "key1", "b", Condition::if_version(1)), (MutationResult{KvStatus::kOk, 2}));
  EXPECT_EQ(world.put(1, "key1", "other shard"), (MutationResult{KvStatus::kOk, 1}));
  world.write(0, Mutation::remove("key1"));
  world.write(0, Mutation::remove("key1"));
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
    MemoryTier::Lookup found = world.engine().get(world.shard(0), "key0");
    ASSERT_EQ(found.found, MemoryTier::Found::kMiss);
    world.engine().fetch(world.shard(0), ops[i], found.ticket);
  }
  world.tasks().run_until([&] { return done[0] && done[1] && done[2]; });
  for (FetchOp& op : ops) EXPECT_EQ(as_string_view(op.value.bytes()), "value");
  EXPECT_EQ(world.disk(0).reads() - reads, 1u);
  EXPECT_EQ(world.engine().get(world.shard(0), "key0").found, MemoryTier::Found::kHit) << "kept in memory";
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

TEST(WorkerEngine, Write_AFailedDatabaseEndsWritesOfItsShardOnly) {
  World world(11);
  world.start();
  world.put(0, "key0", "value");
  world.disk(0).fail();
  bool done = false;
  AppliedWait wait{.context = &done};
  ASSERT_FALSE(world.engine().is_applied(world.shard(0), wait));
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
void live_and_die(uint64_t seed) {
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
      for (uint64_t n = world.rng().between(1, 25); n > 0; --n) {
        const size_t shard = world.rng().below(2);
        world.write(shard, maker.make([&](std::string_view key) {
          const auto* row = world.answered[shard].twin.find(key);
          return row == nullptr ? uint64_t{1} : row->version;
        }));
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
    live_and_die(seed);
    if (::testing::Test::HasFailure()) return;
  }
}

}  // namespace
}  // namespace skua::kv
