// The memory tier of one worker: the newest versions of keys that were written or read lately, in memory that replies
// are sent from. It is two things at once:
//
//    a write-back overlay    holds all committed writes that are not yet in the durable tier (RocksDB): "dirty" items
//    a cache                 of versions that the durable tier has, too: "clean" items; evicted when room is needed
//
//    put, erase (dirty)  --->  +-----------+  <--- fill_from_disk (clean, after a miss)
//                              | index     |
//    get  <--- hit (pinned) ---| arena     |---> mark_clean(shard, index): the durable tier has all up to it
//         <--- absent (tombstone or expired)
//         <--- miss + ticket: ask the durable tier
//
// What a caller may rely on:
//   - A get returns the newest version that was put, or a miss. While the newest version is dirty, a get never returns
//     a miss. So after a miss the durable tier has the newest version. A deletion stays as a tombstone until it is
//     clean.
//   - A value is copied once, into the arena, by put or fill_from_disk (`value_bytes_copied`). A hit points to that
//     copy, which stays unchanged until the PinnedValue is released, on any thread.
//   - A fill never replaces a version that is here. It is also refused if a newer version was written and evicted again
//     since the miss; the ticket shows that.
//   - When all memory is dirty or pinned, a put returns kBackPressure and does nothing. Repeat it after a mark_clean or
//     a release. Puts of one shard must stay in order, so the shard's later puts wait, too.
//   - Work per call is bounded, also that of eviction (memory_room.h). The index grows by at most two buckets.
//
// Dirty items are not tracked one by one. Each region counts its dirty segments (dirty_list.h): one for each series of
// writes of a shard. A segment is clean when its last version is clean.
//
// The budget is divided once: `expected_item_bytes` determines how much the index gets (16 bytes per such item). If
// items are smaller than expected, the index fills up first, and eviction makes room in it, too.
//
// add_shard gives each shard a number (memory_shards.h). drop_shard forgets a shard at once: no get finds its items any
// more. The items disappear when their regions are evicted.
#ifndef SKUA_KVSTORE_MEMORY_MEMORY_TIER_H_
#define SKUA_KVSTORE_MEMORY_MEMORY_TIER_H_

#include <cstddef>
#include <cstdint>
#include <memory>
#include <optional>
#include <span>
#include <string_view>

#include "absl/status/statusor.h"
#include "kvstore/memory/arena.h"
#include "kvstore/memory/index.h"
#include "kvstore/memory/item.h"
#include "kvstore/memory/memory_room.h"
#include "kvstore/memory/memory_shards.h"
#include "kvstore/memory/region.h"
#include "kvstore/types/pinned_value.h"
#include "rpc/base/bytes.h"
#include "rpc/memory/arena.h"

namespace skua::kv {

/// Thread: one, except that PinnedValues may be released on any thread. The tier has no clock: `now` and expiry times
/// may be in any unit, but all in the same one. In a steady state nothing is allocated.
class MemoryTier {
 public:
  struct Options {
    /// Bytes of index and arena together.
    size_t budget_bytes = 0;
    /// Bytes that an item takes on average, with its header (32 bytes) and key.
    size_t expected_item_bytes = 128;
    size_t region_bytes = size_t{2} << 20;
    /// fill_from_disk refuses larger values.
    size_t fill_value_bytes_max = size_t{256} << 10;
    bool try_huge_pages = true;
    /// Called once each for the arena's memory, so that the transports can register it. See rpc/memory/arena.h.
    rpc::Arena::OnMap on_map = nullptr;
    rpc::Arena::OnUnmap on_unmap = nullptr;
  };

  /// The version that a write makes.
  struct Version {
    uint64_t index = 0;   ///< the log index; rises within a shard; writes of one batch may share it
    uint64_t expiry = 0;  ///< the key is absent from this time on; 0: it does not expire
    bool dirty = true;    ///< the durable tier does not have it yet. Ignored if mark_clean has covered `index`
    RecordMark mark{};    ///< of the record
  };

  enum class Put : uint8_t {
    kDone,
    kStale,         ///< a newer version is here; nothing was done
    kBackPressure,  ///< all memory is dirty or pinned; nothing was done
    kTooLarge,      ///< larger than item_bytes_max(); nothing was done
  };

  /// Number of values that get_batch prefetches.
  static constexpr size_t kValuesAhead = 4;

  enum class Found : uint8_t { kHit, kAbsent, kMiss };

  /// Comes with a miss and is passed to fill_from_disk. The durable tier must be read after the miss. A miss may use
  /// the read that an earlier miss of the same key began only if both tickets are equal.
  struct Ticket {
    uint32_t write_count = 0;

    friend bool operator==(const Ticket&, const Ticket&) = default;
  };

  struct Lookup {
    Found found = Found::kMiss;
    Ticket ticket{};      ///< kMiss
    PinnedValue value{};  ///< kHit
    uint64_t expiry = 0;  ///< kHit; 0: never
  };

  struct Counters : MemoryRoom::Counters {
    uint64_t hits = 0;
    uint64_t absent_hits = 0;
    uint64_t misses = 0;
    uint64_t puts = 0;
    uint64_t puts_refused = 0;  ///< kBackPressure
    uint64_t fills = 0;
    uint64_t fills_refused = 0;       ///< a newer write, too large, no room, or the shard was dropped
    uint64_t value_bytes_copied = 0;  ///< by puts and fills; copying forward counts in forwarded_bytes
    // Values at the time of the call:
    uint64_t items = 0;  ///< tombstones and items of dropped shards included
    uint64_t dirty_bytes = 0;
    uint64_t pinned_regions = 0;
    uint64_t free_regions = 0;
    uint64_t resident_bytes = 0;  ///< bytes of the budget that were touched so far
  };

  /// Errors: INVALID_ARGUMENT if the budget is too small, RESOURCE_EXHAUSTED if the memory cannot be mapped, and
  /// on_map's.
  static absl::StatusOr<std::unique_ptr<MemoryTier>> create(Options options);
  MemoryTier(const MemoryTier&) = delete;
  MemoryTier& operator=(const MemoryTier&) = delete;
  ~MemoryTier() = default;

  /// Makes releases on this thread cheaper. Call it before the first hit.
  void bind_to_this_thread() { arena_->bind_to_this_thread(); }

  /// Adds a shard and returns its number. The durable tier has all of the shard's writes up to `applied_index`.
  [[nodiscard]] uint32_t add_shard(uint64_t applied_index) { return shards_.add(applied_index); }

  /// Callers that keep values for a peer must copy them now: see ItemArena::is_pinned_much().
  [[nodiscard]] bool is_pinned_much() const { return arena_->is_pinned_much(); }

  /// Forgets the shard with its dirty items. Pinned values stay valid.
  void drop_shard(uint32_t shard) { shards_.drop(shard); }

  [[nodiscard]] Put put(const ItemKey& key, ByteSpan value, const Version& version);
  /// Replaces the key's item by a tombstone if `version` is dirty; else removes the item. Expiry and mark are not used.
  [[nodiscard]] Put erase(const ItemKey& key, const Version& version);

  /// Key and value in the arena, as the last put or erase wrote them. Only after a put or erase that was dirty and
  /// returned kDone. They stay readable until that version is marked clean, even if a newer version is written.
  struct Written {
    std::string_view key{};
    ByteSpan value{};
  };
  [[nodiscard]] Written last_written() const { return {last_written_->key(), last_written_->value()}; }

  /// One write of a batch.
  struct BatchWrite {
    ItemKey key{};
    std::optional<ByteSpan> value{};  ///< nullopt: the key is erased
    uint64_t expiry = 0;              ///< 0: it does not expire; must be 0 if the key is erased
    RecordMark mark{};                ///< not used if the key is erased

    /// As last_written() says it, after kDone.
    [[nodiscard]] Written written() const { return {item->key(), item->value()}; }
    [[nodiscard]] size_t item_bytes() const {
      return Item::bytes_for(key.text.size(), value ? value->size() : 0, expiry != 0);
    }

    // Used by the tier.
    const Item* item = nullptr;
    size_t bytes = 0;
    ItemPlace before = 0;
  };
  /// Makes all writes or none; never returns kStale. All writes are dirty and have version `index`. No key may occur
  /// twice. If the sum of the writes' cost_in_batch() is at most batch_bytes_max(), there will be room for them at some
  /// time.
  [[nodiscard]] Put put_all(std::span<BatchWrite> writes, uint64_t index);
  [[nodiscard]] size_t cost_in_batch(size_t item_bytes) const;
  [[nodiscard]] size_t batch_bytes_max() const { return arena_->region_count() / 2 * arena_->region_bytes(); }

  [[nodiscard]] Lookup get(const ItemKey& key, uint64_t now);
  /// The same for many keys, whose cache misses overlap. `out` must be as long as `keys`.
  ///
  /// Also begins to fetch the first kValuesAhead values into the processor's cache. A caller that copies values should
  /// prefetch the value kValuesAhead positions further before each copy (prefetch.h). With a shorter distance values
  /// arrive too late; with a longer one the fetches keep the processor from other work.
  void get_batch(std::span<const ItemKey> keys, uint64_t now, std::span<Lookup> out);

  /// Begins to fetch the memory that a later get_batch of this key reads first.
  void prefetch_bucket(const ItemKey& key) const { index_.prefetch(key.hash); }

  /// Keeps a clean copy of the value that the durable tier had after the miss that returned `ticket`. True: gets find
  /// it. False: the tier did not keep it, and the caller answers from its own copy.
  bool fill_from_disk(const ItemKey& key, ByteSpan value, const Version& version, Ticket ticket);

  /// The durable tier has all writes of the shard up to `index`, and every later read of that tier sees them.
  void mark_clean(uint32_t shard, uint64_t index) { shards_.mark_clean(shard, index); }

  [[nodiscard]] size_t item_bytes_max() const { return room_.item_bytes_max(); }
  [[nodiscard]] Counters counters() const;

 private:
  /// The contents of an item to be written.
  struct Draft {
    const ItemKey& key;
    ByteSpan value;
    uint64_t version;
    uint64_t expiry;
    uint16_t flags;
    uint32_t tag;
    [[nodiscard]] size_t bytes() const {
      return Item::bytes_for(key.text.size(), value.size(), (flags & Item::kHasExpiry) != 0);
    }
  };

  MemoryTier(const Options& options, std::unique_ptr<rpc::Arena> index_memory, MutableByteSpan index_bytes,
             std::unique_ptr<ItemArena> arena);

  [[nodiscard]] static Draft draft_of(const ItemKey& key, ByteSpan value, uint64_t version, uint64_t expiry,
                                      RecordMark mark) {
    const int flags = (expiry != 0 ? Item::kHasExpiry : 0) | (mark.row ? Item::kRow : 0);
    return {key, value, version, expiry, static_cast<uint16_t>(flags), mark.tag};
  }
  [[nodiscard]] static Draft tombstone_of(const ItemKey& key, uint64_t version) {
    return {key, {}, version, 0, Item::kTombstone, 0};
  }
  [[nodiscard]] Put write(const Draft& draft, bool dirty);
  [[nodiscard]] Put erase_clean(const ItemKey& key, uint64_t version);
  void finish_lookup(const ItemKey& key, Index::Slot* slot, uint64_t now, Lookup& out);
  [[nodiscard]] Item* write_item(Region& region, const Draft& draft);
  [[nodiscard]] bool enter(const ItemKey& key, Index::Slot* slot, const Item* item);

  // memory_tier_batch.cc
  [[nodiscard]] bool size_up(std::span<BatchWrite> writes, uint64_t index, size_t& bytes);
  [[nodiscard]] bool write_items(std::span<BatchWrite> writes, uint64_t index);
  void settle_items(std::span<const BatchWrite> writes, uint64_t index);
  void unpin_regions(std::span<const BatchWrite> writes);
  [[nodiscard]] Region& region_of(const BatchWrite& write) const {
    return arena_->region_of(arena_->place_of(write.item));
  }
  void abandon_items(std::span<BatchWrite> writes);
  [[nodiscard]] bool enter_all(std::span<BatchWrite> writes);
  void leave_index(std::span<BatchWrite> writes);

  const size_t fill_value_bytes_max_;
  std::unique_ptr<rpc::Arena> index_memory_;
  std::unique_ptr<ItemArena> arena_;
  Index index_;
  MemoryShards shards_;
  MemoryRoom room_;

  const Item* last_written_ = nullptr;
  Counters counters_;
};

/// Writes the item behind the region's last one. It belongs to the region when the caller calls add_item().
inline Item* MemoryTier::write_item(Region& region, const Draft& draft) {
  Item* const item = arena_->item_in(region, region.used_bytes);
  *item = {.hash = draft.key.hash,
           .version = draft.version,
           .shard = draft.key.shard,
           .value_bytes = static_cast<uint32_t>(draft.value.size()),
           .key_bytes = static_cast<uint16_t>(draft.key.text.size()),
           .flags = draft.flags,
           .tag = draft.tag};
  if (item->is(Item::kHasExpiry)) item->set_expiry(draft.expiry);
  copy_bytes(item->key_start(), as_byte_span(draft.key.text));
  copy_bytes(item->value_start(), draft.value);
  counters_.value_bytes_copied += draft.value.size();
  return item;
}

}  // namespace skua::kv

#endif  // SKUA_KVSTORE_MEMORY_MEMORY_TIER_H_
