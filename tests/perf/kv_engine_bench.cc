// What one shard costs a worker: nanoseconds per point lookup by where the value is, and group commits by size.
//
//   build/release/bin/kv_engine_bench --benchmark_filter=TryGet
//
// Arguments: keys, and for the lookups bytes of read cache per key (0: none, RocksDB answers).
#include <benchmark/benchmark.h>
#include <stdlib.h>

#include <filesystem>
#include <memory>
#include <string>
#include <vector>

#include "kvstore/engine/log_thread.h"
#include "kvstore/engine/rocksdb_engine.h"
#include "kvstore/engine/wake_up.h"
#include "rpc/base/check.h"
#include "rpc/base/rng.h"

namespace skua::kv {
namespace {

constexpr size_t kValueBytes = 100;

/// A shard of `keys` keys as YCSB names them, in a directory of its own.
class LoadedShard {
 public:
  LoadedShard(size_t keys, size_t read_cache_bytes, bool in_table_file) {
    std::string pattern = (std::filesystem::temp_directory_path() / "skua-bench-XXXXXX").string();
    SKUA_CHECK(::mkdtemp(pattern.data()) != nullptr, "no temporary directory");
    dir_ = pattern;
    options_.block_cache_bytes = size_t{1} << 30;
    options_.write_buffer_bytes = size_t{1} << 30;
    options_.read_cache_bytes = read_cache_bytes;
    options_.sync_writes = false;
    open();
    for (size_t i = 0; i < keys; ++i) keys_.push_back("user" + std::to_string(mix64(i)));
    load();
    if (in_table_file) open();  // replays the log into a table file
    for (const std::string& key : keys_) SKUA_CHECK(store_->get(key, value_).ok(), "a key is missing");
  }
  ~LoadedShard() {
    value_.reset();
    store_.reset();
    engine_.reset();
    std::error_code ignored;
    std::filesystem::remove_all(dir_, ignored);
  }

  ShardStore& store() { return *store_; }
  const std::string& random_key(Rng& rng) const { return keys_[rng.below(keys_.size())]; }

 private:
  void open() {
    store_.reset();
    engine_ = make_rocksdb_engine(options_);
    store_ = engine_->open_shard(dir_, {1, 0}).value();
  }

  void load() {
    const std::string value(kValueBytes, 'v');
    std::vector<Mutation> group;
    std::vector<MutationResult> results;
    for (size_t i = 0; i < keys_.size(); ++i) {
      group.push_back(Mutation::put(keys_[i], as_byte_span(value)));
      if (group.size() < 1000 && i + 1 < keys_.size()) continue;
      results.resize(group.size());
      SKUA_CHECK(store_->apply(group, results).ok(), "loading failed");
      group.clear();
    }
  }

  RocksdbOptions options_;
  std::string dir_;
  std::unique_ptr<RocksdbEngine> engine_;
  std::unique_ptr<ShardStore> store_;
  std::vector<std::string> keys_;
  PinnedValue value_;
};

void try_get(benchmark::State& state, bool in_table_file) {
  const auto keys = static_cast<size_t>(state.range(0));
  LoadedShard shard(keys, keys * static_cast<size_t>(state.range(1)), in_table_file);
  Rng rng(1);
  PinnedValue value;
  int64_t misses = 0;
  for (auto _ : state) {
    if (shard.store().try_get(shard.random_key(rng), value) != ReadOutcome::kHit) ++misses;
    benchmark::DoNotOptimize(value.bytes().data());
  }
  state.counters["would_block"] = static_cast<double>(misses);
  state.SetItemsProcessed(state.iterations());
}

void BM_TryGetMemtable(benchmark::State& state) {
  try_get(state, false);
}
void BM_TryGetTableFile(benchmark::State& state) {
  try_get(state, true);
}
void BM_TryGetReadCache(benchmark::State& state) {
  try_get(state, true);
}

void BM_TryGetAbsent(benchmark::State& state) {
  LoadedShard shard(static_cast<size_t>(state.range(0)), 0, true);
  Rng rng(1);
  PinnedValue value;
  for (auto _ : state) {
    const std::string key = "none" + std::to_string(rng.next());
    benchmark::DoNotOptimize(shard.store().try_get(key, value));
  }
}

BENCHMARK(BM_TryGetMemtable)->Args({100'000, 0})->Args({1'000'000, 0});
BENCHMARK(BM_TryGetTableFile)->Args({100'000, 0})->Args({1'000'000, 0});
BENCHMARK(BM_TryGetReadCache)->Args({100'000, 400})->Args({1'000'000, 400});
BENCHMARK(BM_TryGetAbsent)->Args({1'000'000});

/// Durable puts through a LogThread: `in_flight` mutations over `shards` shards, each resubmitted when it is done.
void BM_DurablePut(benchmark::State& state) {
  std::string dir = (std::filesystem::temp_directory_path() / "skua-bench-XXXXXX").string();
  SKUA_CHECK(::mkdtemp(dir.data()) != nullptr, "no temporary directory");
  const auto in_flight = static_cast<size_t>(state.range(0));
  const auto shards = static_cast<size_t>(state.range(1));
  auto engine = make_rocksdb_engine({});
  std::vector<std::unique_ptr<ShardStore>> stores;
  for (uint32_t i = 0; i < shards; ++i) stores.push_back(engine->open_shard(dir, {1, i}).value());
  {
    WakeUp done;
    std::atomic<size_t> completed{0};
    LogThread log({.lanes = static_cast<int>(state.range(2))}, [&](std::span<const LogEntry> group) {
      completed.fetch_add(group.size());
      done.signal();
    });
    std::vector<std::string> keys;
    for (size_t i = 0; i < 100'000; ++i) keys.push_back("user" + std::to_string(mix64(i)));
    const std::string value(kValueBytes, 'v');
    size_t submitted = 0;
    for (auto _ : state) {
      while (submitted - completed.load() >= in_flight) done.wait();
      const std::string& key = keys[submitted % keys.size()];
      SKUA_CHECK(log.submit(*stores[submitted % shards], Mutation::put(key, as_byte_span(value)), nullptr).ok(),
                 "refused");
      ++submitted;
    }
    log.stop();
    const LogThread::Counters counters = log.counters();
    state.counters["per_group"] = static_cast<double>(counters.mutations) / static_cast<double>(counters.groups);
  }
  state.SetItemsProcessed(state.iterations());
  stores.clear();
  engine.reset();
  std::error_code ignored;
  std::filesystem::remove_all(dir, ignored);
}
BENCHMARK(BM_DurablePut)
    ->ArgNames({"in_flight", "shards", "lanes"})
    ->Args({1, 1, 1})
    ->Args({64, 1, 1})
    ->Args({64, 8, 1})
    ->Args({64, 8, 2})
    ->Args({64, 8, 4})
    ->Args({64, 8, 8})
    ->Args({256, 16, 4})
    ->UseRealTime();

}  // namespace
}  // namespace skua::kv
