// memory_tier_bench [ITEMS] [ROUNDS]: gets and puts per second of the memory tier, one thread, 100-byte values.
//
//    get x1, get x16    all items in memory, uniform keys, hits pinned and released
//    put x1, x16        overwrites of uniform keys, clean soon after; eviction runs all the time
//    get, 10x           ten times more items than fit, read with a skew; a miss is filled from where it would have been
//                       read, which costs nothing here
#include <unistd.h>

#include <array>
#include <cstdlib>
#include <fstream>
#include <memory>
#include <string>
#include <vector>

#include "kvstore/memory/memory_tier.h"
#include "rpc/base/check.h"
#include "tests/perf/memory_bench_keys.h"

namespace skua::kv {
namespace {

constexpr size_t kValueBytes = 100;
constexpr size_t kOperations = 1'000'000;
/// Bytes of an item with its share of the index, and a little.
constexpr size_t kItemBudgetBytes = 200;

class Bench {
 public:
  explicit Bench(size_t budget_bytes) {
    auto tier = MemoryTier::create({.budget_bytes = budget_bytes, .try_huge_pages = false});
    SKUA_CHECK(tier.ok(), "no memory");
    tier_ = *std::move(tier);
    tier_->bind_to_this_thread();
    shard_ = tier_->add_shard(0);
  }

  void put(const BenchKey& key) {
    const auto outcome = tier_->put(ItemKey(shard_, key.view()), as_byte_span(value_), {.index = ++last_index_});
    SKUA_CHECK(outcome == MemoryTier::Put::kDone, "a put was refused");
    if (last_index_ % 64 == 0) tier_->mark_clean(shard_, last_index_ - 32);
  }
  void get(const BenchKey& key) { hits_ += tier_->get(ItemKey(shard_, key.view()), 0).value.bytes().size(); }
  void get_or_fill(const BenchKey& key_text) {
    const ItemKey key(shard_, key_text.view());
    const auto lookup = tier_->get(key, 0);
    if (lookup.found == MemoryTier::Found::kMiss) {
      tier_->fill_from_disk(key, as_byte_span(value_), {.index = 1}, lookup.ticket);
    }
  }
  void get_all(const std::vector<BenchKey>& keys) {
    std::array<ItemKey, 16> batch;
    std::array<MemoryTier::Lookup, 16> found;
    for (size_t at = 0; at + batch.size() <= keys.size(); at += batch.size()) {
      for (size_t i = 0; i < batch.size(); ++i) batch[i] = ItemKey(shard_, keys[at + i].view());
      tier_->get_batch(batch, 0, found);
      for (const auto& lookup : found) hits_ += lookup.value.bytes().size();
    }
  }

  [[nodiscard]] MemoryTier::Counters counters() const { return tier_->counters(); }

 private:
  std::unique_ptr<MemoryTier> tier_;
  uint32_t shard_ = 0;
  uint64_t last_index_ = 0;
  uint64_t hits_ = 0;
  const std::string value_ = std::string(kValueBytes, 'v');
};

/// Numbers below `bound` of which a tenth gets eight of ten lookups, in no order.
void make_skewed_keys(std::vector<BenchKey>& keys, uint64_t bound, uint64_t seed) {
  Rng rng(seed);
  for (BenchKey& key : keys) key = BenchKey::of(rng.below(rng.below(10) < 8 ? bound / 10 : bound));
}

void report(const char* what, double ns) {
  std::printf("  %-28s %8.1f ns  %8.2f M/s\n", what, ns, 1e3 / ns);
}

void bench_in_memory(size_t items, int rounds) {
  Bench bench(items * kItemBudgetBytes);
  for (size_t i = 0; i < items; ++i) bench.put(BenchKey::of(i));
  std::printf("%zu items in %zu MiB\n", items, items * kItemBudgetBytes >> 20);
  for (int round = 0; round < rounds; ++round) {
    const auto seed = static_cast<uint64_t>(round) * 2;
    const auto single = random_keys(kOperations, items, seed);
    const auto batched = random_keys(kOperations, items, seed + 1);
    report("get x1", ns_each(kOperations, [&] {
             for (const BenchKey& key : single) bench.get(key);
           }));
    report("get x16", ns_each(kOperations, [&] { bench.get_all(batched); }));
  }
  std::printf("  misses: %.2f %%\n", 100 * static_cast<double>(bench.counters().misses) /
                                         static_cast<double>(2 * kOperations * static_cast<size_t>(rounds)));
  for (int round = 0; round < rounds; ++round) {
    const auto single = random_keys(kOperations, items, static_cast<uint64_t>(round) * 2);
    report("put x1", ns_each(kOperations, [&] {
             for (const BenchKey& key : single) bench.put(key);
           }));
  }
}

/// Of this process.
double resident_mib() {
  std::ifstream statm("/proc/self/statm");
  double total = 0;
  double resident = 0;
  statm >> total >> resident;
  return resident * static_cast<double>(::sysconf(_SC_PAGESIZE)) / (1 << 20);
}

void bench_beyond_memory(size_t items, int rounds) {
  std::vector<BenchKey> keys(kOperations, BenchKey::of(0));
  const double resident_before = resident_mib();
  Bench bench(items * kItemBudgetBytes / 10);
  std::printf("%zu items, memory for a tenth of them, skewed gets with fills\n", items);
  MemoryTier::Counters before;
  for (int round = 0; round < rounds + 2; ++round) {
    make_skewed_keys(keys, items, static_cast<uint64_t>(round));
    report("get or fill", ns_each(kOperations, [&] {
             for (const BenchKey& key : keys) bench.get_or_fill(key);
           }));
    const MemoryTier::Counters after = bench.counters();
    std::printf("    hits %.1f %%, forwarded per evicted item %.2f\n",
                100 * static_cast<double>(after.hits - before.hits) / static_cast<double>(kOperations),
                static_cast<double>(after.forwarded_items - before.forwarded_items) /
                    static_cast<double>(1 + after.evicted_items - before.evicted_items));
    before = after;
  }
  const double budget_mib = static_cast<double>(items * kItemBudgetBytes) / 10 / (1 << 20);
  std::printf("  resident / budget: %.3f as counted, %.3f of the process\n",
              static_cast<double>(before.resident_bytes) / (1 << 20) / budget_mib,
              (resident_mib() - resident_before) / budget_mib);
}

}  // namespace
}  // namespace skua::kv

int main(int argc, char** argv) {
  const size_t items = argc > 1 ? std::strtoull(argv[1], nullptr, 10) : 8'000'000;
  const int rounds = argc > 2 ? static_cast<int>(std::strtol(argv[2], nullptr, 10)) : 3;
  skua::kv::bench_in_memory(items, rounds);
  skua::kv::bench_beyond_memory(items, rounds);
  return 0;
}
