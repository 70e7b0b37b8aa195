// Lives of a worker's engine over one log and its databases, which crash, and dumb twins that say what must be there.
#ifndef SKUA_TESTS_KVSTORE_SHARD_ENGINE_LIVES_H_
#define SKUA_TESTS_KVSTORE_SHARD_ENGINE_LIVES_H_

#include <gtest/gtest.h>

#include <algorithm>
#include <deque>
#include <map>
#include <memory>
#include <span>
#include <string>
#include <vector>

#include "kvstore/shard/worker_engine.h"
#include "kvstore/storage/shard_life.h"
#include "tests/kvstore/log/sim_device.h"
#include "tests/kvstore/shard/engine_testing.h"
#include "tests/kvstore/shard/engine_world.h"
#include "tests/kvstore/types/mutations.h"

namespace skua::kv::testing {

inline constexpr ShardId kIds[] = {{7, 0}, {7, 1}};

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
class World : public EntryObserver {
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
    engine_->set_time(now_ms, now_ms);
    for (size_t i = 0; i < std::size(kIds); ++i) {
      if (!refused.contains(kIds[i])) open(i);
    }
  }

  void open(size_t i) {
    dbs_[i] = databases_.open_db("", kIds[i], RocksdbEngine::IfMissing::kFail).value();
    if (begins_lives) {
      EXPECT_TRUE(begin_life(*dbs_[i]).ok());
    }
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
    engine_->set_time(now_ms, now_ms);
    shards_[w.shard]->write(w.op);
  }
  void write(size_t shard, const Mutation& mutation, Durability durability = Durability::kDefault, RequestId id = {}) {
    auto write = make_write(shard, std::span(&mutation, 1), false);
    write->op.durability = durability;
    write->op.id = id;
    submit(std::move(write));
  }
  void write_batch(size_t shard, std::span<const Mutation> batch, RequestId id = {},
                   Durability durability = Durability::kDefault) {
    auto write = make_write(shard, batch, true);
    write->op.id = id;
    write->op.durability = durability;
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
    write(shard, mutations::put(key, as_byte_span(value), condition));
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
    MemoryTier::Lookup found = shards_[shard]->get(key);
    if (found.found == MemoryTier::Found::kAbsent) return {0, "(none)"};
    if (found.found == MemoryTier::Found::kHit) {
      return {found.value.version(), std::string(as_string_view(found.value.bytes()))};
    }
    bool done = false;
    FetchOp op;
    op.key = key;
    op.context = &done;
    shards_[shard]->reads().fetch(op, found.ticket);
    tasks_.run_until([&] { return done; });
    if (!op.status.ok()) return {0, absl::IsNotFound(op.status) ? "(none)" : op.status.ToString()};
    return {op.value.version(), std::string(as_string_view(op.value.bytes()))};
  }

  void wait_applied(size_t shard) {
    bool done = false;
    AppliedWait wait{.context = &done};
    if (shards_[shard]->reads().is_applied(wait)) return;
    tasks_.run_until([&] { return done; });
    EXPECT_TRUE(wait.status.ok()) << wait.status;
  }

  /// What is there, is what was answered.
  void check_all() {
    for (size_t i = 0; i < std::size(kIds); ++i) {
      for (int k = 0; k < 30; ++k) {
        const std::string key = "key" + std::to_string(k);
        engine_->set_time(now_ms, now_ms);
        const TwinShard::Row* row = answered[i].twin.find(key, now_ms);
        const FakeDisk::Row expected =
            row == nullptr ? FakeDisk::Row{0, "(none)"} : FakeDisk::Row{row->version, row->value};
        const FakeDisk::Row is = read(i, key);
        ASSERT_EQ(is.version, expected.version) << "shard " << i << " " << key;
        ASSERT_EQ(is.value, expected.value) << "shard " << i << " " << key;
      }
    }
  }

  /// After a restart: everything that was acknowledged as synced is there, of what is above that a beginning, and of
  /// what was in doubt one behind that.
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
      for (const auto& [key, row] : shard.twin.rows())
        expected[key] = {row.version, row.value, row.expires_at, row.mark};
      ASSERT_EQ(databases_.disk(kIds[i]).state().rows, expected);
    }
  }

  WorkerEngine& engine() { return *engine_; }
  Shard& shard(size_t i) { return *shards_[i]; }
  /// Makes the shard a replicated one, whose refusals by the log are counted.
  void replicate(size_t i) {
    shard(i).replicate();
    shard(i).entries().set_observer(this);
  }
  void proposed(const ReplicaEntry& /*entry*/) override {}
  void log_moved(bool refused) override { log_refusals += refused ? 1 : 0; }
  [[nodiscard]] std::string why_no_marks() const override { return {}; }

  testing::LockedDevice device() { return {std::unique_lock(gate.device), &device_}; }
  FakeDisk& disk(size_t i) { return databases_.disk(kIds[i]); }
  TaskQueue& tasks() { return tasks_; }
  Rng& rng() { return rng_; }
  [[nodiscard]] size_t unanswered() const { return unanswered_; }

  Answered answered[std::size(kIds)];
  std::map<KvStatus, size_t> counts;
  std::map<uint64_t, TestClient> clients;
  bool begins_lives = false;  ///< shard_life.h: indices have gaps then
  size_t repeated = 0;
  uint64_t now_ms = 1'000'000;
  size_t log_refusals = 0;  // of entries
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
      case KvStatus::kWrongShard:
      case KvStatus::kShardReadOnly:    // these are certainly not executed
      case KvStatus::kAborted: return;  // of a replicated shard; the test knows what becomes of it
      case KvStatus::kStorageFailed: shard.in_doubt.push_back(take(write)); return;
      default: break;
    }
    if (last_result.status == KvStatus::kInvalidArgument && !last_why.empty()) return;  // larger than the log takes
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
      result = twin.apply(write.op.mutation, write.op.evaluated_ms);
    } else {
      const bool applied = twin.apply_batch(write.op.batch, write.op.evaluated_ms, results);
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
  Shard* shards_[std::size(kIds)] = {};
  std::vector<std::unique_ptr<TestWrite>> writes_;
  size_t unanswered_ = 0;
  std::unique_ptr<WorkerEngine> engine_;
};

inline Mutation put_of(std::string_view key, std::string_view value, Condition condition = {}) {
  return mutations::put(key, as_byte_span(value), condition);
}

}  // namespace skua::kv::testing

#endif  // SKUA_TESTS_KVSTORE_SHARD_ENGINE_LIVES_H_
