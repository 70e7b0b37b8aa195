#include "kvstore/engine/read_cache.h"

#include <bit>
#include <new>
#include <thread>

#include "kvstore/codec/key_hash.h"
#include "rpc/base/check.h"
#include "rpc/base/rng.h"

#if defined(__x86_64__)
#include <immintrin.h>
#endif

namespace skua::kv {
namespace {

/// What an entry is expected to take; the table is sized for it.
constexpr size_t kTypicalEntryBytes = 128;
/// Attempts before try_lookup calls a held lock busy, and others yield.
constexpr int kLookupSpins = 64;
/// Buckets that one insertion may sweep for room.
constexpr int kSweepBuckets = 16;

void relax() {
#if defined(__x86_64__)
  _mm_pause();
#endif
}

/// Bits that do not choose the bucket, so that keys of one bucket differ in them.
uint8_t tag_of(uint64_t hash) {
  return static_cast<uint8_t>(hash >> 48);
}

}  // namespace

/// One allocation: this header, then the key, then the value.
struct ReadCache::Entry {
  std::atomic<uint32_t> refs;
  uint32_t store;
  uint64_t version;
  uint32_t value_bytes;
  uint16_t key_bytes;

  [[nodiscard]] std::byte* bytes() { return reinterpret_cast<std::byte*>(this + 1); }
  [[nodiscard]] std::string_view key() { return as_string_view({bytes(), key_bytes}); }
  [[nodiscard]] ByteSpan value() { return {bytes() + key_bytes, value_bytes}; }
  [[nodiscard]] size_t size() const { return sizeof(Entry) + key_bytes + value_bytes; }
};

/// Holds a bucket's lock bit. Whoever must have it spins and then yields; try_lookup gives up.
class ReadCache::Lock {
 public:
  explicit Lock(Bucket& bucket) : bucket_(bucket) {
    for (int spins = 0; !try_acquire(); ++spins) {
      if (spins < kLookupSpins) {
        relax();
      } else {
        std::this_thread::yield();
      }
    }
  }
  Lock(Bucket& bucket, int spins_max) : bucket_(bucket) {
    for (int spins = 0; !try_acquire() && spins < spins_max; ++spins) relax();
  }
  ~Lock() {
    if (held_) bucket_.locked.store(false, std::memory_order_release);
  }
  Lock(const Lock&) = delete;
  Lock& operator=(const Lock&) = delete;

  [[nodiscard]] bool held() const { return held_; }

 private:
  bool try_acquire() {
    held_ = !bucket_.locked.exchange(true, std::memory_order_acquire);
    return held_;
  }

  Bucket& bucket_;
  bool held_ = false;
};

ReadCache::Key::Key(uint32_t store_number, std::string_view key)
    : store(store_number), text(key), hash(mix64(key_hash(key) ^ store_number)) {}

ReadCache::ReadCache(size_t capacity_bytes) : capacity_bytes_(capacity_bytes) {
  static_assert(sizeof(Bucket) == 64);
  if (capacity_bytes_ == 0) return;
  const size_t bucket_count = std::bit_ceil(capacity_bytes_ / (kWays * kTypicalEntryBytes) + 1);
  bucket_mask_ = bucket_count - 1;
  buckets_ = std::make_unique<Bucket[]>(bucket_count);
}

ReadCache::~ReadCache() {
  if (buckets_ == nullptr) return;
  for (size_t i = 0; i <= bucket_mask_; ++i) {
    for (Entry* entry : buckets_[i].entries) {
      if (entry != nullptr) unref(entry);
    }
  }
}

void ReadCache::unref(void* opaque) {
  auto* entry = static_cast<Entry*>(opaque);
  if (entry->refs.fetch_sub(1, std::memory_order_acq_rel) == 1) {
    entry->~Entry();
    ::operator delete(opaque);
  }
}

void ReadCache::pin(Entry* entry, PinnedValue& out) {
  out = PinnedValue(entry->value(), entry->version, entry, &ReadCache::unref);
}

size_t ReadCache::find(const Bucket& bucket, const Key& key) {
  const uint8_t tag = tag_of(key.hash);
  for (size_t way = 0; way < kWays; ++way) {
    Entry* entry = bucket.entries[way];
    if (bucket.tags[way] == tag && entry != nullptr && entry->store == key.store && entry->key() == key.text) {
      return way;
    }
  }
  return kWays;
}

ReadCache::Entry* ReadCache::make_entry(const Key& key, uint64_t version, ByteSpan value) {
  void* memory = ::operator new(sizeof(Entry) + key.text.size() + value.size());
  auto* entry = new (memory) Entry{.refs = 1,
                                   .store = key.store,
                                   .version = version,
                                   .value_bytes = static_cast<uint32_t>(value.size()),
                                   .key_bytes = static_cast<uint16_t>(key.text.size())};
  copy_bytes(entry->bytes(), as_byte_span(key.text));
  copy_bytes(entry->bytes() + key.text.size(), value);
  return entry;
}

/// Empties a way of a locked bucket; the caller unrefs the entry (which may be null), best after unlocking.
ReadCache::Entry* ReadCache::take(Bucket& bucket, size_t way) {
  Entry* entry = bucket.entries[way];
  bucket.entries[way] = nullptr;
  if (entry != nullptr) used_bytes_.fetch_sub(entry->size(), std::memory_order_relaxed);
  return entry;
}

/// Fills an empty way of a locked bucket with a reference that the caller gives up.
void ReadCache::place(Bucket& bucket, size_t way, const Key& key, Entry* entry) {
  bucket.entries[way] = entry;
  bucket.tags[way] = tag_of(key.hash);
  used_bytes_.fetch_add(entry->size(), std::memory_order_relaxed);
}

/// An empty way, else by second chance one that was not used since the hand last passed.
size_t ReadCache::choose_victim(Bucket& bucket) {
  for (size_t way = 0; way < kWays; ++way) {
    if (bucket.entries[way] == nullptr) return way;
  }
  for (;;) {
    const size_t way = bucket.hand;
    bucket.hand = static_cast<uint8_t>((way + 1) % kWays);
    const auto bit = static_cast<uint8_t>(1U << way);
    if ((bucket.clock & bit) == 0) return way;
    bucket.clock = static_cast<uint8_t>(bucket.clock & ~bit);
  }
}

/// Sweeps a few buckets for entries that were not used since the last sweep until `bytes` fit. False: not enough was
/// found.
bool ReadCache::make_room(size_t bytes) {
  for (int i = 0; i < kSweepBuckets; ++i) {
    if (used_bytes() + bytes <= capacity_bytes_) return true;
    Bucket& bucket = buckets_[sweep_.fetch_add(1, std::memory_order_relaxed) & bucket_mask_];
    std::array<Entry*, kWays> evicted{};
    {
      const Lock lock(bucket);
      for (size_t way = 0; way < kWays; ++way) {
        if ((bucket.clock & (1U << way)) == 0) evicted[way] = take(bucket, way);
      }
      bucket.clock = 0;
    }
    for (Entry* entry : evicted) {
      if (entry != nullptr) unref(entry);
    }
  }
  return used_bytes() + bytes <= capacity_bytes_;
}

/// References the key's entry in a locked bucket, or fills the ticket.
bool ReadCache::lookup_locked(Bucket& bucket, const Key& key, Entry*& entry, Ticket& ticket) {
  const size_t way = find(bucket, key);
  if (way == kWays) {
    ticket = {.valid = bucket.pending == 0, .write_count = bucket.write_count};
    return false;
  }
  bucket.clock = static_cast<uint8_t>(bucket.clock | (1U << way));
  entry = bucket.entries[way];
  entry->refs.fetch_add(1, std::memory_order_relaxed);
  return true;
}

ReadCache::Found ReadCache::try_lookup(const Key& key, PinnedValue& out, Ticket& ticket) {
  ticket = {};
  if (capacity_bytes_ == 0) return Found::kMiss;
  Bucket& bucket = bucket_of(key);
  Entry* entry = nullptr;
  {
    const Lock lock(bucket, kLookupSpins);
    if (!lock.held()) return Found::kBusy;
    if (!lookup_locked(bucket, key, entry, ticket)) return Found::kMiss;
  }
  pin(entry, out);  // outside of the lock: it may release what `out` held
  return Found::kHit;
}

bool ReadCache::lookup(const Key& key, PinnedValue& out, Ticket& ticket) {
  ticket = {};
  if (capacity_bytes_ == 0) return false;
  Bucket& bucket = bucket_of(key);
  Entry* entry = nullptr;
  {
    const Lock lock(bucket);
    if (!lookup_locked(bucket, key, entry, ticket)) return false;
  }
  pin(entry, out);
  return true;
}

void ReadCache::insert(const Key& key, uint64_t version, ByteSpan value, const Ticket& ticket, PinnedValue& out) {
  SKUA_CHECK(value.size() <= kReadCacheValueBytesMax, "the value is too large for the read cache");
  Entry* entry = make_entry(key, version, value);
  if (ticket.valid && make_room(entry->size())) {
    Entry* evicted = nullptr;
    Bucket& bucket = bucket_of(key);
    {
      const Lock lock(bucket);
      if (bucket.pending == 0 && bucket.write_count == ticket.write_count && find(bucket, key) == kWays) {
        const size_t way = choose_victim(bucket);
        evicted = take(bucket, way);
        entry->refs.fetch_add(1, std::memory_order_relaxed);
        place(bucket, way, key, entry);
      }
    }
    if (evicted != nullptr) unref(evicted);
  }
  pin(entry, out);
}

void ReadCache::begin_write(const Key& key) {
  if (capacity_bytes_ == 0) return;
  Bucket& bucket = bucket_of(key);
  const Lock lock(bucket);
  ++bucket.pending;
  SKUA_CHECK(bucket.pending != 0, "more writes of one bucket under way than can be counted");
}

void ReadCache::end_write(const Key& key, uint64_t version, std::optional<ByteSpan> value) {
  if (capacity_bytes_ == 0) return;
  Entry* entry = nullptr;
  if (value && value->size() <= kReadCacheValueBytesMax) entry = make_entry(key, version, *value);
  Entry* evicted = nullptr;
  Bucket& bucket = bucket_of(key);
  {
    const Lock lock(bucket);
    SKUA_CHECK(bucket.pending != 0, "end_write without begin_write");
    --bucket.pending;
    ++bucket.write_count;
    size_t way = find(bucket, key);
    if (way != kWays) {
      evicted = take(bucket, way);
    } else if (entry != nullptr && used_bytes() + entry->size() <= capacity_bytes_) {
      for (way = 0; way < kWays && bucket.entries[way] != nullptr; ++way) {
      }
    }
    if (way != kWays && entry != nullptr) {
      place(bucket, way, key, entry);
      entry = nullptr;
    }
  }
  if (evicted != nullptr) unref(evicted);
  if (entry != nullptr) unref(entry);
}

}  // namespace skua::kv
