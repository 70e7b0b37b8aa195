// Costs of the storage engine: lookups in memory and in databases, durable writes with a real log and real databases.
#include <benchmark/benchmark.h>
#include <stdlib.h>

#include <condition_variable>
#include <deque>
#include <filesystem>
#include <memory>
#include <mutex>
#include <string>
#include <vector>

#include "kvstore/log/posix_device.h"
#include "kvstore/shard/worker_engine.h"
#include "kvstore/storage/recovery.h"
#include "kvstore/storage/rocksdb_engine.h"
#include "rpc/base/check.h"
#include "rpc/base/rng.h"
#include "tests/kvstore/types/mutations.h"

namespace skua::kv {
namespace {

constexpr size_t kValueBytes = 100;

/// A worker's engine on a directory of its own; the benchmark's thread is the worker's.
class EngineHome {
 public:
  explicit EngineHome(size_t shards) {
    dir_ = (std::filesystem::temp_directory_path() / "skua-bench-XXXXXX").string();
    SKUA_CHECK(::mkdtemp(dir_.data()) != nullptr, "no temporary directory");
    databases_ = make_rocksdb_engine({});
    auto device = open_posix_device(dir_ + "/log").value();
    RecoveryOptions recovery;
    recovery.shards_dir = dir_;
    auto log = recover_log(*device, recovery, *databases_).value();
    WorkerEngine::Events events;
    events.post = [this](absl::AnyInvocable<void()> task) {
      const std::lock_guard lock(mutex_);
      tasks_.push_back(std::move(task));
      posted_.notify_one();
    };
    events.write_done = [this](WriteOp& op) {
      SKUA_CHECK(op.result.status == KvStatus::kOk, "a write failed");
      free_.push_back(&op);
    };
    events.fetch_done = [this](FetchOp&) { ++fetched_; };
    events.applied = [](AppliedWait& wait) { *static_cast<bool*>(wait.context) = true; };
    engine_ = WorkerEngine::create({}, std::move(events), std::move(device), std::move(log.log), readers_).value();
    for (uint32_t i = 0; i < shards; ++i) {
      dbs_.push_back(databases_->open_db(dir_, {1, i}).value());
      shards_.push_back(&engine_->open_shard(*dbs_.back(), 1));
    }
    ops_.resize(1024);
    for (auto& op : ops_) free_.push_back((op = std::make_unique<WriteOp>()).get());
  }
  ~EngineHome() {
    finish();
    engine_->stop();
    run_tasks(false);
    engine_.reset();
    dbs_.clear();
    databases_.reset();
    std::error_code ignored;
    std::filesystem::remove_all(dir_, ignored);
  }

  void write(size_t shard, const Mutation& mutation, size_t in_flight) {
    while (ops_.size() - free_.size() >= in_flight) run_tasks(true);
    WriteOp& op = *free_.back();
    free_.pop_back();
    op.mutation = mutation;
    shards_[shard]->write(op);
  }
  void finish() {
    while (free_.size() < ops_.size()) run_tasks(true);
  }
  void wait_applied() {
    for (Shard* shard : shards_) {
      bool done = false;
      AppliedWait wait{.context = &done};
      if (shard->reads().is_applied(wait)) continue;
      while (!done) run_tasks(true);
    }
  }
  WorkerEngine& engine() { return *engine_; }
  Shard& shard(size_t i) { return *shards_[i]; }
  ShardDb& db(size_t i) { return *dbs_[i]; }

 private:
  void run_tasks(bool wait) {
    std::deque<absl::AnyInvocable<void()>> tasks;
    {
      std::unique_lock lock(mutex_);
      if (wait) posted_.wait(lock, [&] { return !tasks_.empty(); });
      tasks.swap(tasks_);
    }
    for (auto& task : tasks) task();
    engine_->tick();
  }

  std::string dir_;
  std::unique_ptr<RocksdbEngine> databases_;
  ReaderPool readers_{{.threads = 1}};
  std::mutex mutex_;
  std::condition_variable posted_;
  std::deque<absl::AnyInvocable<void()>> tasks_;
  std::vector<std::unique_ptr<ShardDb>> dbs_;
  std::vector<Shard*> shards_;
  std::vector<std::unique_ptr<WriteOp>> ops_;
  std::vector<WriteOp*> free_;
  size_t fetched_ = 0;
  std::unique_ptr<WorkerEngine> engine_;
};

std::vector<std::string> make_keys(size_t count) {
  std::vector<std::string> keys;
  for (size_t i = 0; i < count; ++i) keys.push_back("user" + std::to_string(mix64(i)));
  return keys;
}

void BM_GetFromMemory(benchmark::State& state) {
  const auto keys = make_keys(static_cast<size_t>(state.range(0)));
  const std::string value(kValueBytes, 'v');
  EngineHome home(1);
  for (const std::string& key : keys) home.write(0, mutations::put(key, as_byte_span(value)), 512);
  home.finish();
  Rng rng(1);
  int64_t misses = 0;
  for (auto _ : state) {
    MemoryTier::Lookup found = home.shard(0).get(keys[rng.below(keys.size())]);
    if (found.found != MemoryTier::Found::kHit) ++misses;
    benchmark::DoNotOptimize(found.value.bytes().data());
  }
  state.counters["misses"] = static_cast<double>(misses);
  state.SetItemsProcessed(state.iterations());
}
BENCHMARK(BM_GetFromMemory)->Arg(100'000)->Iterations(2'000'000);  // loads once

void BM_GetFromDatabase(benchmark::State& state) {
  const auto keys = make_keys(static_cast<size_t>(state.range(0)));
  const std::string value(kValueBytes, 'v');
  EngineHome home(1);
  for (const std::string& key : keys) home.write(0, mutations::put(key, as_byte_span(value)), 512);
  home.finish();
  home.wait_applied();
  SKUA_CHECK(home.db(0).flush().ok(), "flush failed");
  Rng rng(1);
  for (auto _ : state) {
    PinnedValue found;
    benchmark::DoNotOptimize(home.db(0).get(keys[rng.below(keys.size())], found));
  }
  state.SetItemsProcessed(state.iterations());
}
BENCHMARK(BM_GetFromDatabase)->Arg(100'000)->Iterations(100'000);

/// Durable puts: `in_flight` over `shards` shards, each followed by another when it is done.
void BM_DurablePut(benchmark::State& state) {
  const auto keys = make_keys(100'000);
  const std::string value(kValueBytes, 'v');
  const auto shards = static_cast<size_t>(state.range(1));
  EngineHome home(shards);
  size_t n = 0;
  for (auto _ : state) {
    home.write(n % shards, mutations::put(keys[n % keys.size()], as_byte_span(value)),
               static_cast<size_t>(state.range(0)));
    ++n;
  }
  home.finish();
  const LogCounters log = home.engine().counters().log;
  state.counters["per_group"] = static_cast<double>(log.records) / static_cast<double>(log.groups);
  state.SetItemsProcessed(state.iterations());
}
BENCHMARK(BM_DurablePut)
    ->ArgNames({"in_flight", "shards"})
    ->Args({1, 1})
    ->Args({32, 1})
    ->Args({64, 1})
    ->Args({64, 8})
    ->Args({256, 16})
    ->UseRealTime();

}  // namespace
}  // namespace skua::kv
