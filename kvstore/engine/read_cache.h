// A bounded cache of hot values in front of RocksDB, shared by the shards of a node.
//
// A point lookup in RocksDB costs microseconds even when it hits memory; one here costs two cache misses. The table is
// an array of 64-byte buckets, each with its own lock bit, a CLOCK bit per slot, and six pointers to reference-counted
// entries. A reader pins an entry: one increment, no copy.
//
//    bucket   [ lock | clock | tags x 6 | write_count | pending | hand | entry* x 6 ]
//    entry    [ refs | store | version | sizes | key bytes | value bytes ]
//
// It never serves a value older than one that somebody may have seen. That needs care, because a reader fetches from
// RocksDB without a lock while the log thread writes. Per bucket, `pending` counts writes under way and `write_count`
// writes ended:
//
//    log thread   begin_write:  pending++    (the old entry stays and is served: the write is not acknowledged yet)
//                 ... RocksDB write and sync ...
//                 end_write:    put the new value or drop the key; pending--, write_count++
//
//    reader       lookup:       miss -> ticket {write_count}, void if pending > 0
//                 ... RocksDB read ...
//                 insert:       only if the ticket is valid, write_count is the same and pending == 0
//
// So while a key is being written its old value can leave the cache but not come back, and what a reader fetched before
// a write ended never enters after it. Locks are held for a few dozen instructions. A polling thread that finds one
// taken for longer (its holder was preempted) is told kBusy and must not go on to RocksDB: it might see the new value
// there, and the old one here the next time.
#ifndef SKUA_KVSTORE_ENGINE_READ_CACHE_H_
#define SKUA_KVSTORE_ENGINE_READ_CACHE_H_

#include <array>
#include <atomic>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <optional>
#include <string_view>

#include "kvstore/engine/limits.h"
#include "kvstore/engine/pinned_value.h"
#include "rpc/base/bytes.h"

namespace skua::kv {

/// Thread: any, for every function. Values that were pinned may outlive the cache.
class ReadCache {
 public:
  /// `capacity_bytes` bounds keys, values and entry headers; the bucket array adds at most an eighth. 0: caches
  /// nothing.
  explicit ReadCache(size_t capacity_bytes);
  ~ReadCache();
  ReadCache(const ReadCache&) = delete;
  ReadCache& operator=(const ReadCache&) = delete;

  /// A key's place, computed once per operation. `store` tells apart equal keys of different shards; the key is a view.
  struct Key {
    Key(uint32_t store, std::string_view text);
    uint32_t store;
    std::string_view text;
    uint64_t hash;
  };

  /// What a miss saw; a value fetched after it may be inserted with it.
  struct Ticket {
    bool valid = false;
    uint32_t write_count = 0;
  };

  enum class Found : uint8_t { kHit, kMiss, kBusy };

  /// Fills `out` on kHit and `ticket` on kMiss; kBusy: ask again on a thread that may wait.
  [[nodiscard]] Found try_lookup(const Key& key, PinnedValue& out, Ticket& ticket);
  /// The same, and waits for the lock.
  [[nodiscard]] bool lookup(const Key& key, PinnedValue& out, Ticket& ticket);

  /// Copies `value` into an entry of its own, filled into `out`, and caches it if the ticket still holds and there is
  /// or can be made room. For values up to kReadCacheValueBytesMax.
  void insert(const Key& key, uint64_t version, ByteSpan value, const Ticket& ticket, PinnedValue& out);

  /// Brackets a write of `key`; each begin_write is followed by one end_write.
  void begin_write(const Key& key);
  /// `value` is what the key has now; nullopt if it was deleted or is unknown. An entry that is there is replaced; a
  /// new one is made only if there is room without eviction, so that a bulk load does not wash out what is being read.
  void end_write(const Key& key, uint64_t version, std::optional<ByteSpan> value);

  /// Bytes of the entries in the table.
  [[nodiscard]] size_t used_bytes() const { return used_bytes_.load(std::memory_order_relaxed); }

 private:
  static constexpr size_t kWays = 6;
  struct Entry;
  struct alignas(64) Bucket {
    std::atomic<bool> locked{false};
    uint8_t clock = 0;  // a bit per way: used since the hand passed
    std::array<uint8_t, kWays> tags{};
    uint32_t write_count = 0;
    uint16_t pending = 0;
    uint8_t hand = 0;
    std::array<Entry*, kWays> entries{};
  };
  class Lock;

  static void unref(void* entry);
  static bool lookup_locked(Bucket& bucket, const Key& key, Entry*& entry, Ticket& ticket);
  static void pin(Entry* entry, PinnedValue& out);
  static size_t find(const Bucket& bucket, const Key& key);

  Bucket& bucket_of(const Key& key) { return buckets_[key.hash & bucket_mask_]; }
  Entry* make_entry(const Key& key, uint64_t version, ByteSpan value);
  Entry* take(Bucket& bucket, size_t way);
  void place(Bucket& bucket, size_t way, const Key& key, Entry* entry);
  static size_t choose_victim(Bucket& bucket);
  bool make_room(size_t bytes);

  const size_t capacity_bytes_;
  size_t bucket_mask_ = 0;
  std::unique_ptr<Bucket[]> buckets_;
  std::atomic<size_t> used_bytes_{0};
  std::atomic<size_t> sweep_{0};
};

}  // namespace skua::kv

#endif  // SKUA_KVSTORE_ENGINE_READ_CACHE_H_
