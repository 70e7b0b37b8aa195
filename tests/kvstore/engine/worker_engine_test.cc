#include "kvstore/engine/worker_engine.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <deque>
#include <span>

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
  std::deque<std::string> bytes;
  std::vector<Mutation> batch;
  bool done = false;

  Mutation keep(Mutation mutation) {
    mutation.key = bytes.emplace_back(mutation.key);
    mutation.value = as_byte_span(bytes.emplace_back(as_string_view(mutation.value)));
    return mutation;
  }
};

/// What the engine has answered so far, applied in the order of the answers to dumb twins; writes in doubt aside.
struct Answered {
  TwinShard twin;
  std::map<uint64_t, TwinShard> history = {{0, TwinShard()}};  // by index
  uint64_t sure = 0;                                           // up to here no crash takes anything
  std::vector<std::unique_ptr<TestWrite>> in_doubt;
};

/// A client with a window, and the answers that it may ask for again.
struct TestClient {
  struct Told {
    std::unique_ptr<TestWrite> write;
    MutationResult result;
    std::vector<MutationResult> results;
  };
  uint64_t next_seq = 1;
  std::map<uint64_t, size_t> under_way;  // attempts
  std::map<uint64_t, Told> told;         // what took effect

  [[nodiscard]] uint64_t first_incomplete() const {
    uint64_t first = next_seq;
    if (!under_way.empty()) first = std::min(first, under_way.begin()->first);
    if (!told.empty()) first = std::min(first, told.begin()->first);
    return first;
  }
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

  static std::unique_ptr<TestWrite> make_write(size_t shard, std::span<const Mutation> mutations, bool is_batch) {
    auto write = std::make_unique<TestWrite>();
    write->shard = shard;
    for (const Mutation& mutation : mutations) write->batch.push_back(write->keep(mutation));
    if (is_batch) {
      write->op.batch = write->batch;
    } else {
      write->op.mutation = write->batch.front();
    }
    return write;
  }
  static std::unique_ptr<TestWrite> copy_of(const TestWrite& write) {
    auto copy = make_write(write.shard, write.batch, !write.op.batch.empty());
    copy->op.id = write.op.id;
    return copy;
  }
  void submit(std::unique_ptr<TestWrite> write) {
    TestWrite& w = *write;
    w.op.context = &w;
    if (w.op.id.client_id != 0) ++clients[w.op.id.client_id].under_way[w.op.id.seq];
    writes_.push_back(std::move(write));
    ++unanswered_;
    engine_->set_time(now_ms);
    engine_->write(*shards_[w.shard], w.op);
  }
  void write(size_t shard, const Mutation& mutation, Durability durability = Durability::kDefault, RequestId id = {}) {
    auto write = make_write(shard, std::span(&mutation, 1), false);
    write->op.durability = durability;
    write->op.id = id;
    submit(std::move(write));
  }
  void write_batch(size_t shard, std::span<const Mutation> batch, RequestId id = {}) {
    auto write = make_write(shard, batch, true);
    write->op.id = id;
    submit(std::move(write));
  }
  /// As it is, or as the next of a client's.
  void submit_as_anybody(std::unique_ptr<TestWrite> write) {
    const uint64_t client_id = rng_.below(3);
    if (client_id == 0) return submit(std::move(write));
    TestClient& client = clients[client_id];
    while (client.told.size() > 12) client.told.erase(client.told.begin());
    const uint64_t seq = client.next_seq++;
    client.under_way.try_emplace(seq);
    write->op.id = {client_id, seq, client.first_incomplete()};
    auto again = rng_.chance(0.1) ? copy_of(*write) : nullptr;
    submit(std::move(write));
    if (again != nullptr) submit(std::move(again));
    if (client.told.empty() || !rng_.chance(0.3)) return;
    auto told = client.told.begin();
    std::advance(told, static_cast<std::ptrdiff_t>(rng_.below(client.told.size())));
    again = copy_of(*told->second.write);
    again->op.id.first_incomplete = std::min(client.first_incomplete(), again->op.id.seq);
    submit(std::move(again));
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
    FetchOp op;
    op.key = key;
    op.context = &done;
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
        engine_->set_time(now_ms);
        const TwinShard::Row* row = answered[i].twin.find(key, now_ms);
        const FakeDisk::Row expected =
            row == nullptr ? FakeDisk::Row{0, "(none)"} : FakeDisk::Row{row->version, row->value};
        const FakeDisk::Row is = read(i, key);
        ASSERT_EQ(is.version, expected.version) << "shard " << i << " " << key;
        ASSERT_EQ(is.value, expected.value) << "shard " << i << " " << key;
      }
    }
  }

  /// After a restart: everything that was acknowledged as synced is there, of what is above that a beginning, and of what
  /// was in doubt one behind that.
  void adopt_recovered() {
    for (size_t i = 0; i < std::size(kIds); ++i) {
      Answered& shard = answered[i];
      const uint64_t index = databases_.disk(kIds[i]).state().index;
      ASSERT_GE(index, shard.sure) << "an acknowledged write is lost";
      if (index < shard.twin.last_index()) {
        shard.twin = shard.history.at(index);
        shard.in_doubt.clear();
      }
      for (auto& doubtful : shard.in_doubt) {
        if (doubtful->op.index > index) break;
        ASSERT_EQ(doubtful->op.index, shard.twin.last_index() + 1);
        apply_to_twin(*doubtful);
        ASSERT_EQ(doubtful->op.index, shard.twin.last_index());
      }
      ASSERT_EQ(index, shard.twin.last_index());
      shard.in_doubt.clear();
      shard.sure = index;
      shard.history = {{index, shard.twin}};
      forget_lost(i, index);
      std::map<std::string, FakeDisk::Row, std::less<>> expected;
      for (const auto& [key, row] : shard.twin.rows()) expected[key] = {row.version, row.value, row.expires_at};
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
  std::map<uint64_t, TestClient> clients;
  size_t repeated = 0;
  uint64_t now_ms = 1'000'000;
  MutationResult last_result;
  std::vector<MutationResult> last_results;
  Durability last_achieved = Durability::kDefault;
  bool last_was_record = false;
  bool last_not_applied = false;
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
    last_results = write.op.results;
    last_achieved = write.op.achieved;
    last_was_record = write.op.from_record;
    last_not_applied = write.op.not_applied;
    last_why = write.op.why;
    ++counts[last_result.status];
    end_attempt(write);
    if (write.op.from_record) return check_repeated(write);
    Answered& shard = answered[write.shard];
    switch (last_result.status) {
      case KvStatus::kResourceExhausted:
      case KvStatus::kStaleRetry:
      case KvStatus::kTooManyIncomplete:
      case KvStatus::kShardReadOnly: return;  // certainly not executed
      case KvStatus::kStorageFailed: shard.in_doubt.push_back(take(write)); return;
      default: break;
    }
    const uint64_t before = shard.twin.last_index();
    apply_to_twin(write);
    if (shard.twin.last_index() == before) return;
    EXPECT_GE(write.op.achieved, write.op.durability);
    if (write.op.achieved == Durability::kSync) shard.sure = shard.twin.last_index();
    shard.history[shard.twin.last_index()] = shard.twin;
  }

  std::unique_ptr<TestWrite> take(TestWrite& write) {
    const auto held = std::find_if(writes_.begin(), writes_.end(), [&](const auto& w) { return w.get() == &write; });
    return std::move(*held);
  }

  void end_attempt(TestWrite& write) {
    if (write.op.id.client_id == 0) return;
    auto& under_way = clients[write.op.id.client_id].under_way;
    if (--under_way[write.op.id.seq] == 0) under_way.erase(write.op.id.seq);
  }

  /// An answer that was given before.
  void check_repeated(const TestWrite& write) {
    auto& told = clients[write.op.id.client_id].told;
    const auto first = told.find(write.op.id.seq);
    if (first == told.end()) {
      // Of an attempt without effect, or of one that is not asked for any more: given to all that waited.
      return;
    }
    EXPECT_EQ(write.op.result, first->second.result);
    EXPECT_EQ(write.op.results, first->second.results);
    ++repeated;
  }

  void apply_to_twin(TestWrite& write) {
    TwinShard& twin = answered[write.shard].twin;
    const uint64_t before = twin.last_index();
    MutationResult result;
    std::vector<MutationResult> results;
    const bool was_in_doubt = write.op.result.status == KvStatus::kStorageFailed;
    if (write.op.batch.empty()) {
      result = twin.apply(write.op.mutation, write.op.time_ms);
    } else {
      const bool applied = twin.apply_batch(write.op.batch, write.op.time_ms, results);
      result = {KvStatus::kOk, twin.last_index() == before ? 0 : twin.last_index()};
      if (!was_in_doubt) {
        EXPECT_EQ(write.op.not_applied, !applied);
        EXPECT_EQ(write.op.results, results);
      }
    }
    if (!was_in_doubt) {
      EXPECT_EQ(write.op.result, result) << write.batch.front().key;
    }
    if (twin.last_index() == before || write.op.id.client_id == 0) return;
    TestClient& client = clients[write.op.id.client_id];
    if (write.op.id.seq < client.first_incomplete()) return;
    client.told[write.op.id.seq] = {copy_of(write), result, results};
  }

  /// A crash took it, so it may happen anew.
  void forget_lost(size_t shard, uint64_t index) {
    for (auto& [id, client] : clients) {
      std::erase_if(client.told, [&](const auto& told) {
        return told.second.write->shard == shard && told.second.result.version > index;
      });
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

TEST(WorkerEngine, Expire_KeysAreAbsentFromTheirTimeOn) {
  World world(14);
  world.start();
  const auto put_until = [&](std::string_view key, uint64_t ttl_ms) {
    world.write(0, Mutation::put(key, as_byte_span("v"), {}, ttl_ms));
    world.wait_for_answers();
  };
  const auto advance = [&](uint64_t ms) {
    world.now_ms += ms;
    world.engine().set_time(world.now_ms);
  };
  put_until("key0", 100);
  put_until("key1", 100);
  world.write(0, Mutation::expire("key1", 0));
  world.write(0, Mutation::append("key0", as_byte_span("w")));
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
  world.engine().set_time(world.now_ms);
  EXPECT_EQ(world.read(0, "key2").value, "v");
  advance(50);
  EXPECT_EQ(world.read(0, "key2").value, "(none)");
  EXPECT_EQ(world.read(0, "key0").value, "new");
  world.stop();
  world.start();
  world.engine().set_time(world.now_ms);
  EXPECT_EQ(world.read(0, "key2").value, "(none)") << "a miss whose row has expired";
  world.write(0, Mutation::remove("key2"));
  world.wait_for_answers();
  EXPECT_EQ(world.last_result.status, KvStatus::kNotFound);
}

TEST(WorkerEngine, Attempt_IsAnsweredOnceAndForAll) {
  World world(15);
  world.start();
  const RequestId id = {77, 1, 1};
  world.gate.close();
  world.write(0, Mutation::add("key0", 5), {}, id);
  world.write(0, Mutation::add("key0", 5), {}, id);  // under way
  world.gate.open();
  world.wait_for_answers();
  EXPECT_EQ(world.last_result, (MutationResult{KvStatus::kOk, 1, 5}));
  EXPECT_TRUE(world.last_was_record);
  const auto again = [&](const RequestId& which) {
    world.write(0, Mutation::add("key0", 5), {}, which);
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

TEST(WorkerEngine, Attempt_WithoutEffectIsEvaluatedAgain) {
  World world(16);
  world.start();
  world.write(0, Mutation::remove("key0"), {}, {77, 1, 1});
  world.wait_for_answers();
  EXPECT_EQ(world.last_result.status, KvStatus::kNotFound);
  world.put(0, "key0", "v");
  world.write(0, Mutation::remove("key0"), {}, {77, 1, 1});
  world.wait_for_answers();
  EXPECT_EQ(world.last_result, (MutationResult{KvStatus::kOk, 2}));
}

TEST(WorkerEngine, Batch_AllOrNothing) {
  World world(17);
  world.start();
  world.put(0, "key0", "1");
  const Mutation good[] = {Mutation::add("key0", 1), Mutation::add("key0", 1), put_of("key1", "new"),
                           Mutation::remove("key9")};
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
  const std::vector<MutationResult> refused = {{KvStatus::kAborted, 0}, {KvStatus::kAlreadyExists, 2}};
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
  const Mutation batch[] = {Mutation::add("key0", 1), Mutation::add("key1", 1), Mutation::add("key2", 1)};
  world.write(0, Mutation::add("key0", 10));  // parked before the batch
  world.write_batch(0, batch);
  world.write(0, put_of("key2", "5"));
  world.write_batch(0, batch);
  world.wait_for_answers();
  EXPECT_EQ(world.read(0, "key0").value, "13");
  EXPECT_EQ(world.read(0, "key2").value, "6");
  world.check_all();
}

TEST(WorkerEngine, Batch_WaitsForMemoryAsAWhole) {
  WorkerEngine::Options options = small_engine_options();
  options.memory.budget_bytes = 192 << 10;
  World world(19, options);
  world.start();
  world.disk(0).hold(true);
  for (int i = 0; i < 100; ++i) {
    const Mutation batch[] = {put_of("key" + std::to_string(i % 15), std::string(2000, 'x')),
                              put_of("key" + std::to_string(15 + i % 15), std::string(3000, 'y'))};
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

}  // namespace
}  // namespace skua::kv
