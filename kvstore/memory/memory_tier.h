// The memory tier of one worker: the newest version of what was written or read lately, in memory that replies are sent
// from. It is two things at once:
//
//    a write-back overlay    what is committed but not yet in the durable tier (RocksDB) is here for certain: "dirty"
//    a cache                 of what the durable tier has too: "clean"; evicted when room is needed
//
//    put, erase (dirty)  --->  +-----------+  <--- fill_from_disk (clean, after a miss)
//                              | index     |
//    get  <--- hit (pinned) ---| arena     |---> mark_clean(shard, index): the durable tier has all up to it
//         <--- absent (tombstone or expired)
//         <--- miss + ticket: ask the durable tier
//
// What a caller may rely on:
//   - A get answers with the newest version that was put, or with a miss, and never with a miss while that version is
//     dirty. So after a miss the durable tier is right. A deletion is a tombstone until it is clean.
//   - A value is copied once, into the arena, by put or fill_from_disk (`value_bytes_copied`); a hit points into it, and
//     what it points to stays as it is until the PinnedValue is released, on whatever thread.
//   - A fill wins over nothing: not over a version that is here, nor over one that was written and evicted again since
//     the miss (that is what the ticket is for).
//   - When all memory is dirty or pinned a put says kBackPressure and has done nothing. Repeat it after a mark_clean or
//     a release. Puts of one shard must stay in order, so what comes behind it waits too.
//   - Work per call is bounded: a put or fill moves eviction on by about three bytes for each byte it takes, and growth
//     of the index by two buckets. Only one that finds no free region at all evicts a whole one (2 MiB) at once, and one
//     of a large item as many as it needs.
//
// Eviction goes round the regions like the hand of a clock. It takes regions that are clean and unpinned; items that were
// read since the hand passed last are copied forward, up to half a region's bytes; the others leave the index.
//
//    hand --> [ clean ] [ dirty: passed over ] [ pinned: passed over ] [ clean ] ...
//               | read since? copy to the clean head : drop
//
// There are two regions open at a time: the write head takes dirty items, the clean head fills and what is copied
// forward. Dirty items are not tracked one by one: each region counts its dirty segments, one for each shard that wrote
// to it, and a segment is clean when its last version is. An item of more than half a region has regions of its own.
//
// The budget is divided once: `expected_item_bytes` says how much the index gets (16 bytes per such item). When items are
// smaller than expected the index fills up first, and eviction makes room in it too.
//
// Shards are named by numbers from add_shard. drop_shard forgets a shard at once: its items are unreachable, because
// their number is never given again, and leave with their regions.
#ifndef SKUA_KVSTORE_MEMORY_MEMORY_TIER_H_
#define SKUA_KVSTORE_MEMORY_MEMORY_TIER_H_

#include <array>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <optional>
#include <span>
#include <string_view>
#include <vector>

#include "absl/status/statusor.h"
#include "kvstore/memory/arena.h"
#include "kvstore/memory/dirty_list.h"
#include "kvstore/memory/index.h"
#include "kvstore/memory/item.h"
#include "kvstore/types/pinned_value.h"
#include "rpc/base/bytes.h"
#include "rpc/memory/arena.h"

namespace skua::kv {

/// Thread: one, but for the release of PinnedValues. No clock: `now` and expiry times are in any unit, as long as it is
/// one. Steady state allocates nothing.
class MemoryTier {
 public:
  struct Options {
    /// Index and arena together.
    size_t budget_bytes = 0;
    /// What an item takes on average, with its header (32 bytes) and key.
    size_t expected_item_bytes = 128;
    size_t region_bytes = size_t{2} << 20;
    /// Clean copies of larger values are not kept: fill_from_disk refuses them.
    size_t fill_value_bytes_max = size_t{256} << 10;
    bool try_huge_pages = true;
    /// For the arena's memory, once: register_region of the transports. See rpc/memory/arena.h.
    rpc::Arena::OnMap on_map = nullptr;
    rpc::Arena::OnUnmap on_unmap = nullptr;
  };

  /// What a write writes.
  struct Version {
    uint64_t index = 0;   ///< the log index; rises within a shard, writes of one batch may share it
    uint64_t expiry = 0;  ///< absent from this time on; 0: never
    bool dirty = true;    ///< the durable tier does not have it yet. No effect if mark_clean said that it has
  };

  enum class Put : uint8_t {
    kDone,
    kStale,         ///< a newer version is here; nothing was done
    kBackPressure,  ///< all memory is dirty or pinned; nothing was done
    kTooLarge,      ///< larger than item_bytes_max(); nothing was done
  };

  /// See get_batch.
  static constexpr size_t kValuesAhead = 4;

  enum class Found : uint8_t { kHit, kAbsent, kMiss };

  /// What a miss saw, for fill_from_disk. The durable tier is to be read after the miss. A miss may share the read that
  /// an earlier miss of the same key began only if their tickets are equal.
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

  struct Counters {
    uint64_t hits = 0;
    uint64_t absent_hits = 0;
    uint64_t misses = 0;
    uint64_t puts = 0;
    uint64_t puts_refused = 0;  ///< kBackPressure
    uint64_t fills = 0;
    uint64_t fills_refused = 0;       ///< lost a race, too large, or no room
    uint64_t value_bytes_copied = 0;  ///< by puts and fills; copying forward counts in forwarded_bytes
    uint64_t evicted_items = 0;
    uint64_t evicted_regions = 0;
    uint64_t forwarded_items = 0;
    uint64_t forwarded_bytes = 0;
    // As it is now:
    uint64_t items = 0;  ///< tombstones and items of dropped shards included
    uint64_t dirty_bytes = 0;
    uint64_t pinned_regions = 0;
    uint64_t free_regions = 0;
    uint64_t resident_bytes = 0;  ///< of the budget, the bytes that were touched so far
  };

  /// INVALID_ARGUMENT if the budget is too small, RESOURCE_EXHAUSTED if the memory cannot be had.
  static absl::StatusOr<std::unique_ptr<MemoryTier>> create(Options options);
  MemoryTier(const MemoryTier&) = delete;
  MemoryTier& operator=(const MemoryTier&) = delete;
  ~MemoryTier() = default;

  /// Makes releases on this thread cheaper. Before the first hit.
  void bind_to_this_thread() { arena_->bind_to_this_thread(); }

  /// A number for a shard whose durable tier has everything up to `applied_index`.
  [[nodiscard]] uint32_t add_shard(uint64_t applied_index);

  /// Who keeps values for somebody outside copies them now: see ItemArena.
  [[nodiscard]] bool is_pinned_much() const { return arena_->is_pinned_much(); }

  /// Forgets the shard, dirty items included. Values that are pinned stay.
  void drop_shard(uint32_t shard);

  [[nodiscard]] Put put(const ItemKey& key, ByteSpan value, const Version& version);
  /// Leaves a tombstone if `version` is dirty, else nothing. The expiry has no meaning.
  [[nodiscard]] Put erase(const ItemKey& key, const Version& version);

  /// Key and value where the last put or erase that was kDone, and dirty, wrote them. They stay readable until that version
  /// is marked clean, also when a newer one comes.
  struct Written {
    std::string_view key{};
    ByteSpan value{};
  };
  [[nodiscard]] Written last_written() const { return {last_written_->key(), last_written_->value()}; }

  /// One write of a batch.
  struct BatchWrite {
    ItemKey key{};
    std::optional<ByteSpan> value{};  ///< nullopt: the key is erased
    uint64_t expiry = 0;              ///< 0: never; not for an erasure

    /// As last_written() says it, after kDone.
    [[nodiscard]] Written written() const { return {item->key(), item->value()}; }
    [[nodiscard]] size_t item_bytes() const {
      return Item::bytes_for(key.text.size(), value ? value->size() : 0, expiry != 0);
    }

    // The tier's.
    const Item* item = nullptr;
    ItemPlace before = 0;
  };
  /// All of them at once, or none: never kStale. All are dirty, of version `index`; no key twice. Together they have room at
  /// some time if their cost_in_batch() adds up to no more than batch_bytes_max().
  [[nodiscard]] Put put_all(std::span<BatchWrite> writes, uint64_t index);
  [[nodiscard]] size_t cost_in_batch(size_t item_bytes) const;
  [[nodiscard]] size_t batch_bytes_max() const { return arena_->region_count() / 2 * arena_->region_bytes(); }

  [[nodiscard]] Lookup get(const ItemKey& key, uint64_t now);
  /// The same for many keys, with their cache misses overlapping; `out` is as long as `keys`.
  ///
  /// The first kValuesAhead values are on their way into the cache then. Whoever copies values fetches the one that is
  /// kValuesAhead further before each copy (prefetch.h): fewer come too late, many keep the processor from other work.
  void get_batch(std::span<const ItemKey> keys, uint64_t now, std::span<Lookup> out);

  /// Begins to fetch what a get_batch of this key to come looks at first.
  void prefetch_bucket(const ItemKey& key) const { index_.prefetch(key.hash); }

  /// Brings what puts or gets of these keys will touch into the cache: for a burst of puts, before the first of them.
  void prefetch(std::span<const ItemKey> keys);

  /// Keeps a clean copy of what the durable tier had after the miss that gave `ticket`. False: not kept, and the caller
  /// answers from what it has. True: a get finds it.
  bool fill_from_disk(const ItemKey& key, ByteSpan value, const Version& version, Ticket ticket);

  /// The durable tier has all writes of the shard up to `index`, also for the next reader.
  void mark_clean(uint32_t shard, uint64_t index);

  /// Evicts ahead of need, looking at up to about `items` items. For idle times; false: there is nothing to do.
  bool maintain(size_t items);

  [[nodiscard]] size_t item_bytes_max() const { return run_slots_max_ * arena_->region_bytes(); }
  [[nodiscard]] Counters counters() const;

 private:
  enum HeadKind : uint8_t { kWriteHead, kCleanHead, kHeads };
  using Region = ItemArena::Region;

  struct Shard {
    uint32_t number = 0;
    bool live = false;
    uint64_t clean_index = 0;
    DirtyList dirty{};
  };

  /// An item to be written.
  struct Draft {
    const ItemKey& key;
    ByteSpan value;
    uint64_t version;
    uint64_t expiry;
    uint16_t flags;
    [[nodiscard]] size_t bytes() const {
      return Item::bytes_for(key.text.size(), value.size(), (flags & Item::kHasExpiry) != 0);
    }
  };

  MemoryTier(const Options& options, std::unique_ptr<rpc::Arena> index_memory, MutableByteSpan index_bytes,
             std::unique_ptr<ItemArena> arena);

  [[nodiscard]] Shard& shard(uint32_t number);
  [[nodiscard]] bool shard_is_live(uint32_t number) const;
  [[nodiscard]] Put write(const Draft& draft, bool dirty);
  [[nodiscard]] Put erase_clean(const ItemKey& key, uint64_t version);
  void finish_lookup(const ItemKey& key, Index::Slot* slot, uint64_t now, Lookup& out);
  [[nodiscard]] Item* write_item(Region& region, const Draft& draft);
  [[nodiscard]] bool enter(const ItemKey& key, Index::Slot* slot, const Item* item);
  void leave_region(Item& item);
  void note_dirty(uint32_t shard_number, Region& region, uint64_t version, size_t bytes);

  // memory_tier_batch.cc
  [[nodiscard]] bool write_items(std::span<BatchWrite> writes, uint64_t index);
  void abandon_items(std::span<BatchWrite> writes);
  [[nodiscard]] bool enter_all(std::span<BatchWrite> writes);
  void leave_index(std::span<BatchWrite> writes);

  // memory_tier_room.cc: where the next item goes, and eviction
  [[nodiscard]] Region* room_for(size_t bytes, HeadKind kind);
  [[nodiscard]] Region* room_in_head(size_t bytes, HeadKind kind);
  [[nodiscard]] Region* fresh_region(HeadKind kind);
  [[nodiscard]] Region* room_for_run(size_t bytes);
  [[nodiscard]] Region* evict_run(size_t slots);
  void finish_run(Region& region);
  void seal_head(HeadKind kind);
  [[nodiscard]] bool wants_eviction() const;
  void pace_eviction(size_t bytes);
  [[nodiscard]] bool evict_one_region();
  size_t scan_group();
  void evict_or_forward(Item& item);
  [[nodiscard]] bool forward(const Item& item, Index::Slot& slot);
  void begin_victim(Region& region);
  void retire_victim();

  const size_t fill_value_bytes_max_;
  std::unique_ptr<rpc::Arena> index_memory_;
  std::unique_ptr<ItemArena> arena_;
  Index index_;
  std::vector<Shard> shards_;  // by the lower bits of their numbers
  DirtySegments segments_;
  const size_t run_slots_max_;
  const size_t free_regions_wanted_;

  const Item* last_written_ = nullptr;
  std::array<Region*, kHeads> heads_{};
  Region* victim_ = nullptr;
  size_t victim_offset_ = 0;
  size_t victim_forwarded_bytes_ = 0;
  bool scanning_ = false;
  int64_t scan_debt_bytes_ = 0;

  Counters counters_;
};

}  // namespace skua::kv

#endif  // SKUA_KVSTORE_MEMORY_MEMORY_TIER_H_
