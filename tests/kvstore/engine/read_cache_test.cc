#include "kvstore/engine/read_cache.h"

#include <gtest/gtest.h>

#include <atomic>
#include <map>
#include <string>
#include <thread>
#include <vector>

#include "kvstore/engine/limits.h"
#include "rpc/base/rng.h"

namespace skua::kv {
namespace {

using Key = ReadCache::Key;

/// The value, or "" on a miss.
std::string look_up(ReadCache& cache, const Key& key, ReadCache::Ticket& ticket) {
  PinnedValue value;
  if (!cache.lookup(key, value, ticket)) return "";
  return std::string(as_string_view(value.bytes()));
}

std::string look_up(ReadCache& cache, const Key& key) {
  ReadCache::Ticket ticket;
  return look_up(cache, key, ticket);
}

/// What a reader does after a miss.
void insert(ReadCache& cache, const Key& key, uint64_t version, std::string_view value,
            const ReadCache::Ticket& ticket) {
  PinnedValue out;
  cache.insert(key, version, as_byte_span(value), ticket, out);
  EXPECT_EQ(as_string_view(out.bytes()), value);
  EXPECT_EQ(out.version(), version);
}

TEST(ReadCacheTest, Lookup_HitAfterInsert) {
  ReadCache cache(1 << 20);
  const Key key(1, "key");
  ReadCache::Ticket ticket;
  EXPECT_EQ(look_up(cache, key, ticket), "");
  ASSERT_TRUE(ticket.valid);
  insert(cache, key, 7, "value", ticket);
  PinnedValue value;
  EXPECT_EQ(cache.try_lookup(key, value, ticket), ReadCache::Found::kHit);
  EXPECT_EQ(as_string_view(value.bytes()), "value");
  EXPECT_EQ(value.version(), 7U);
  EXPECT_EQ(look_up(cache, Key(2, "key")), "") << "another shard's key";
  EXPECT_EQ(look_up(cache, Key(1, "kez")), "");
}

TEST(ReadCacheTest, Lookup_NothingIsCachedAtCapacityZero) {
  ReadCache cache(0);
  const Key key(1, "key");
  ReadCache::Ticket ticket;
  EXPECT_EQ(look_up(cache, key, ticket), "");
  insert(cache, key, 1, "value", ticket);
  cache.begin_write(key);
  cache.end_write(key, 2, as_byte_span("new"));
  EXPECT_EQ(look_up(cache, key), "");
  EXPECT_EQ(cache.used_bytes(), 0U);
}

TEST(ReadCacheTest, Write_OldValueIsServedUntilTheWriteEnds) {
  ReadCache cache(1 << 20);
  const Key key(1, "key");
  ReadCache::Ticket ticket;
  look_up(cache, key, ticket);
  insert(cache, key, 1, "old", ticket);
  cache.begin_write(key);
  EXPECT_EQ(look_up(cache, key), "old");
  cache.end_write(key, 2, as_byte_span("new"));
  EXPECT_EQ(look_up(cache, key), "new");
  cache.begin_write(key);
  cache.end_write(key, 3, std::nullopt);
  EXPECT_EQ(look_up(cache, key), "");
  EXPECT_EQ(cache.used_bytes(), 0U);
}

TEST(ReadCacheTest, Insert_WhatWasReadBeforeAWriteEndedStaysOut) {
  ReadCache cache(1 << 20);
  const Key key(1, "key");
  ReadCache::Ticket before;
  look_up(cache, key, before);
  cache.begin_write(key);
  ReadCache::Ticket during;
  look_up(cache, key, during);
  EXPECT_FALSE(during.valid);
  insert(cache, key, 1, "old", before);
  EXPECT_EQ(look_up(cache, key), "") << "a write is under way";
  cache.end_write(key, 2, std::nullopt);
  insert(cache, key, 1, "old", before);
  insert(cache, key, 1, "old", during);
  EXPECT_EQ(look_up(cache, key), "") << "a write has ended";
}

TEST(ReadCacheTest, PinnedValue_OutlivesReplacementAndCache) {
  PinnedValue pinned;
  {
    ReadCache cache(1 << 20);
    const Key key(1, "key");
    ReadCache::Ticket ticket;
    look_up(cache, key, ticket);
    cache.insert(key, 1, as_byte_span("old"), ticket, pinned);
    cache.begin_write(key);
    cache.end_write(key, 2, as_byte_span("new"));
  }
  EXPECT_EQ(as_string_view(pinned.bytes()), "old");
}

TEST(ReadCacheTest, Insert_StaysWithinItsCapacity) {
  constexpr size_t kCapacity = 64 << 10;
  ReadCache cache(kCapacity);
  Rng rng(1);
  for (int i = 0; i < 20'000; ++i) {
    const std::string name = "key" + std::to_string(rng.below(5000));
    const Key key(1, name);
    ReadCache::Ticket ticket;
    if (look_up(cache, key, ticket).empty()) {
      insert(cache, key, 1, std::string(rng.between(1, 500), 'v'), ticket);
    }
    ASSERT_LE(cache.used_bytes(), kCapacity);
  }
  EXPECT_GT(cache.used_bytes(), kCapacity / 2);
}

TEST(ReadCacheTest, Insert_WhatIsReadOftenStays) {
  ReadCache cache(64 << 10);
  const Key hot(1, "hot");
  ReadCache::Ticket ticket;
  look_up(cache, hot, ticket);
  insert(cache, hot, 1, "hot value", ticket);
  int hits = 0;
  for (int i = 0; i < 10'000; ++i) {
    const std::string name = "cold" + std::to_string(i);
    const Key cold(1, name);
    look_up(cache, cold, ticket);
    insert(cache, cold, 1, std::string(100, 'c'), ticket);
    if (!look_up(cache, hot, ticket).empty()) {
      ++hits;
    } else {
      insert(cache, hot, 1, "hot value", ticket);
    }
  }
  EXPECT_GT(hits, 9'900);
}

TEST(ReadCacheTest, EndWrite_NewKeysDoNotEvict) {
  ReadCache cache(4 << 10);
  for (int i = 0; i < 1000; ++i) {
    const std::string name = "key" + std::to_string(i);
    cache.begin_write(Key(1, name));
    cache.end_write(Key(1, name), 1, as_byte_span(std::string(100, 'v')));
  }
  EXPECT_LE(cache.used_bytes(), size_t{4} << 10);
  EXPECT_NE(look_up(cache, Key(1, "key0")), "");
}

TEST(ReadCacheTest, EndWrite_LargeValueDropsTheOldOne) {
  ReadCache cache(1 << 20);
  const Key key(1, "key");
  ReadCache::Ticket ticket;
  look_up(cache, key, ticket);
  insert(cache, key, 1, "old", ticket);
  cache.begin_write(key);
  cache.end_write(key, 2, as_byte_span(std::string(kReadCacheValueBytesMax + 1, 'v')));
  EXPECT_EQ(look_up(cache, key), "");
}

TEST(ReadCacheTest, Threads_NobodySeesAVersionGoBack) {
  // One writer and two readers over few keys and a small cache. `stored` stands for RocksDB: it shows a new version
  // before the write ends. A reader that saw a version must not see an older one of that key later, whichever way it
  // reads.
  constexpr size_t kKeys = 16;
  constexpr uint64_t kWrites = 60'000;
  ReadCache cache(2 << 10);
  std::array<std::atomic<uint64_t>, kKeys> stored{};
  std::array<std::atomic<uint64_t>, kKeys> acknowledged{};
  std::vector<std::string> names;
  for (size_t i = 0; i < kKeys; ++i) {
    names.push_back("key" + std::to_string(i));
    stored[i] = 1;
  }
  std::atomic<bool> stop{false};

  std::thread writer([&] {
    Rng rng(1);
    for (uint64_t version = 2; version < kWrites; ++version) {
      const size_t i = rng.below(kKeys);
      const Key key(1, names[i]);
      cache.begin_write(key);
      stored[i].store(version);
      const std::string text = std::to_string(version);
      cache.end_write(key, version, rng.chance(0.3) ? std::nullopt : std::optional(as_byte_span(text)));
      acknowledged[i].store(version);
    }
    stop.store(true);
  });
  std::vector<std::thread> readers;
  std::atomic<uint64_t> hits{0};
  std::atomic<uint64_t> went_back{0};
  for (uint64_t seed = 2; seed < 4; ++seed) {
    readers.emplace_back([&, seed] {
      Rng rng(seed);
      std::array<uint64_t, kKeys> seen{};
      while (!stop.load()) {
        const size_t i = rng.below(kKeys);
        const Key key(1, names[i]);
        const uint64_t at_least = std::max(seen[i], acknowledged[i].load());
        PinnedValue value;
        ReadCache::Ticket ticket;
        switch (cache.try_lookup(key, value, ticket)) {
          case ReadCache::Found::kBusy: continue;
          case ReadCache::Found::kHit: hits.fetch_add(1); break;
          case ReadCache::Found::kMiss: {
            const uint64_t version = stored[i].load();
            const std::string text = std::to_string(version);
            cache.insert(key, version, as_byte_span(text), ticket, value);
            break;
          }
        }
        seen[i] = value.version();
        if (seen[i] < at_least || std::to_string(seen[i]) != as_string_view(value.bytes())) {
          went_back.fetch_add(1);
        }
      }
    });
  }
  writer.join();
  for (std::thread& reader : readers) reader.join();
  EXPECT_EQ(went_back.load(), 0U);
  EXPECT_GT(hits.load(), 0U);
}

}  // namespace
}  // namespace skua::kv
