// memory_index_bench [ITEMS] [ROUNDS]: lookups in the memory tier's index against absl::flat_hash_map.
//
// Both map keys of 16 to 24 bytes to the places of the same items (key and 100-byte value) in the same memory; the
// map's keys are views of the items' keys, so that both compare the key where the item is. Both hash the key in the
// timed loop, each with its own hash. The map is measured twice: with malloc, and with its table in huge pages as the
// index and the items are. Rounds alternate between all candidates; ratios are of medians.
#include <sys/mman.h>

#include <algorithm>
#include <array>
#include <cstdlib>
#include <memory>
#include <string>
#include <vector>

#include "absl/container/flat_hash_map.h"
#include "kvstore/memory/index.h"
#include "rpc/base/check.h"
#include "rpc/memory/arena.h"
#include "tests/perf/memory_bench_keys.h"

namespace skua::kv {
namespace {

constexpr size_t kValueBytes = 100;
constexpr size_t kLookups = 1'000'000;

MutableByteSpan map_memory(rpc::Arena& arena, size_t bytes) {
  auto memory = arena.map(bytes);
  SKUA_CHECK(memory.ok(), "no memory");
  return *memory;
}

/// Tables of a MiB and more get transparent huge pages.
template <typename T>
struct HugePageAllocator {
  using value_type = T;
  HugePageAllocator() = default;
  template <typename Other>
  explicit HugePageAllocator(const HugePageAllocator<Other>&) {}
  T* allocate(size_t count) {
    const size_t bytes = (count * sizeof(T) + (size_t{2} << 20) - 1) >> 21 << 21;
    void* memory = std::aligned_alloc(size_t{2} << 20, bytes);
    SKUA_CHECK(memory != nullptr, "no memory");
    madvise(memory, bytes, MADV_HUGEPAGE);
    return static_cast<T*>(memory);
  }
  void deallocate(T* memory, size_t) { std::free(memory); }
  friend bool operator==(const HugePageAllocator&, const HugePageAllocator&) { return true; }
};

using Map = absl::flat_hash_map<std::string_view, ItemPlace>;
using Hash = Map::hasher;
using HugeMap = absl::flat_hash_map<std::string_view, ItemPlace, Hash, std::equal_to<>,
                                    HugePageAllocator<std::pair<const std::string_view, ItemPlace>>>;

struct Tables {
  explicit Tables(size_t count)
      : arena({.limit_bytes = size_t{64} << 30, .try_huge_pages = false}),
        items(map_memory(arena, count * 168)),
        index(map_memory(arena, count * 32 + Index::kBytesMin), items.data()) {
    map.reserve(count);
    huge_map.reserve(count);
    size_t used = 0;
    for (size_t i = 0; i < count; ++i) {
      const BenchKey text = BenchKey::of(i);
      const ItemKey key(1, text.view());
      auto* item = reinterpret_cast<Item*>(items.data() + used);
      *item = {key.hash, 1, 1, kValueBytes, text.size, 0, 0};
      copy_bytes(item->key_start(), as_byte_span(text.view()));
      const ItemPlace place = used / kItemAlignment + 1;
      used += item->bytes();
      SKUA_CHECK(index.insert(key.hash, place), "the index is full");
      map.emplace(item->key(), place);
      huge_map.emplace(item->key(), place);
    }
    SKUA_CHECK(map.size() == count, "two keys are equal");
  }

  rpc::Arena arena;
  MutableByteSpan items;
  Index index;
  Map map;
  HugeMap huge_map;
};

template <typename AnyMap>
uint64_t look_up_map(const AnyMap& map, const std::vector<BenchKey>& keys) {
  uint64_t sum = 0;
  for (const BenchKey& key : keys) sum += map.find(key.view())->second;
  return sum;
}

uint64_t look_up_index(Index& index, const std::vector<BenchKey>& keys) {
  uint64_t sum = 0;
  for (const BenchKey& key : keys) sum += index.find(ItemKey(1, key.view()))->place();
  return sum;
}

uint64_t look_up_index_batches(Index& index, const std::vector<BenchKey>& keys) {
  uint64_t sum = 0;
  std::array<ItemKey, Index::kBatch> batch;
  std::array<Index::Slot*, Index::kBatch> found;
  for (size_t at = 0; at + batch.size() <= keys.size(); at += batch.size()) {
    for (size_t i = 0; i < batch.size(); ++i) batch[i] = ItemKey(1, keys[at + i].view());
    index.find_batch(batch, found);
    for (const Index::Slot* slot : found) sum += slot->place();
  }
  return sum;
}

double median(std::vector<double> values) {
  std::sort(values.begin(), values.end());
  return values[values.size() / 2];
}

void run(size_t items, int rounds) {
  Tables tables(items);
  std::printf("%zu items; index %.1f bytes per item, %.2f items per bucket, %zu overflow buckets\n", items,
              static_cast<double>(tables.index.touched_bytes()) / static_cast<double>(items),
              static_cast<double>(items) / static_cast<double>(tables.index.buckets()),
              tables.index.overflow_buckets());
  std::printf("%-8s %12s %12s %12s %12s   ns per lookup\n", "round", "map", "map, huge", "index", "index x16");
  std::array<std::vector<double>, 4> times;
  for (int round = 0; round < rounds; ++round) {
    std::array<uint64_t, 4> sums;
    for (size_t which = 0; which < times.size(); ++which) {
      // Each its own keys: nobody finds what the one before brought into the cache.
      const auto keys = random_keys(kLookups, items, static_cast<uint64_t>(round) * times.size() + which);
      uint64_t& sum = sums[which];
      times[which].push_back(ns_each(kLookups, [&] {
        if (which == 0) sum = look_up_map(tables.map, keys);
        if (which == 1) sum = look_up_map(tables.huge_map, keys);
        if (which == 2) sum = look_up_index(tables.index, keys);
        if (which == 3) sum = look_up_index_batches(tables.index, keys);
      }));
      SKUA_CHECK(sum == look_up_map(tables.map, keys), "the tables disagree");
    }
    std::printf("%-8d %12.1f %12.1f %12.1f %12.1f\n", round, times[0].back(), times[1].back(), times[2].back(),
                times[3].back());
  }
  const double batch = median(times[3]);
  std::printf("median   %12.1f %12.1f %12.1f %12.1f\n", median(times[0]), median(times[1]), median(times[2]), batch);
  std::printf("index in batches of 16 / map: %.2f   / map in huge pages: %.2f\n", batch / median(times[0]),
              batch / median(times[1]));
}

}  // namespace
}  // namespace skua::kv

int main(int argc, char** argv) {
  skua::kv::run(argc > 1 ? std::strtoull(argv[1], nullptr, 10) : 8'000'000,
                argc > 2 ? static_cast<int>(std::strtol(argv[2], nullptr, 10)) : 7);
  return 0;
}
