// Hash index over items in the arena: one cache line per lookup, most of the time.
//
//    bucket (64 bytes)   [ overflow : 32 | write count : 32 | slot 0 | slot 1 | ... | slot 6 ]
//    slot   (8 bytes)    [ tag : 16 | used : 1 | place : 47 ]        0: empty
//
// The place is in units of 8 bytes, so 47 bits reach 2^50 bytes. The tag is the hash's upper 16 bits. If a bucket has
// six other items, one of them has the wanted tag by chance in 1 of 10,000 lookups; only then a second item is looked
// at. The used bit is the reference bit of the eviction's CLOCK algorithm. It lies in the slot because a lookup reads
// this cache line anyway, and because reads should not write to items.
//
// The slots of a bucket are filled from the front. A full bucket continues in an overflow bucket from a bounded pool.
// With n items per bucket on average, the number of items in a bucket has the distribution Poisson(n):
//
//    items per bucket      2.6     3.5     4.4     5.25    5.75
//    items in overflow     0.3 %   1.2 %   3.1 %   6.1 %   8.3 %     (their lookups need a second line)
//    bytes per item        24      18      15      14      14        (overflow buckets included)
//
// The index grows by linear hashing, in rounds. A round begins when there are more than 5.25 items per bucket. During a
// round every insertion splits two buckets. So a round over N buckets lasts N/2 insertions, and no operation splits
// more than two. At the round's end an unsplit bucket has at most 5.75 items on average, and a split one half as many.
// Only an item's full hash tells which half the item belongs to. So the items of the buckets to be split next are
// prefetched one insertion ahead.
//
//    [ split | split | ... | split | not yet ... | new | new | ... | (untouched memory) ]
//       0       1           next-1    next         N     N+1         up to buckets_max
//
// The memory is handed in at its full size, but it is not touched before it is needed, so a small index takes little
// memory. Three quarters of it are for buckets, one quarter is for overflow buckets. When no bucket has room, insert()
// fails, and an item has to be erased.
//
// `write_count` counts the writes to a bucket's keys (not the fills of clean copies). A split copies it to the new
// bucket. A value that was fetched from elsewhere after a miss is current if the count is still the same as at the
// miss.
#ifndef SKUA_KVSTORE_MEMORY_INDEX_H_
#define SKUA_KVSTORE_MEMORY_INDEX_H_

#include <array>
#include <cstddef>
#include <cstdint>
#include <span>

#include "kvstore/memory/item.h"
#include "rpc/base/bytes.h"

namespace skua::kv {

/// Thread: one. Reads items only to compare keys and to read hashes.
class Index {
 public:
  static constexpr size_t kSlotsPerBucket = 7;
  /// The most keys that find_batch looks up at the same time.
  static constexpr size_t kBatch = 16;

  /// A key's entry. Pointers to slots are valid until the next insert or erase.
  class Slot {
   public:
    [[nodiscard]] ItemPlace place() const { return word_ & kPlaceMask; }
    void set_place(ItemPlace place) { word_ = (word_ & ~kPlaceMask) | place; }
    [[nodiscard]] bool used() const { return (word_ & kUsedBit) != 0; }
    void set_used() {
      if (!used()) word_ |= kUsedBit;  // a write would make the cache line dirty
    }
    void clear_used() { word_ &= ~kUsedBit; }

   private:
    friend class Index;
    static constexpr uint64_t kUsedBit = uint64_t{1} << 47;
    static constexpr uint64_t kPlaceMask = kUsedBit - 1;

    uint64_t word_ = 0;
  };

  /// `memory` must be zeroed, aligned to 64 bytes and at least kBytesMin large; it must outlive the index. Places count
  /// from `items`.
  Index(MutableByteSpan memory, std::byte* items);
  Index(const Index&) = delete;
  Index& operator=(const Index&) = delete;

  static constexpr size_t kBytesMin = size_t{8} << 10;

  /// The key's slot, or null.
  [[nodiscard]] Slot* find(const ItemKey& key);
  /// The same for up to kBatch keys, whose cache misses overlap. `out` must be as long as `keys`.
  void find_batch(std::span<const ItemKey> keys, std::span<Slot*> out);
  /// The slot that holds this place; null if none does. The item is not looked at.
  [[nodiscard]] Slot* find_place(uint64_t hash, ItemPlace place);
  /// Prefetches the bucket for a later find_place, find or insert.
  void prefetch(uint64_t hash) const { __builtin_prefetch(&home(hash)); }
  /// Prefetches the items that find() will look at. The bucket should have been prefetched.
  void prefetch_items(uint64_t hash) const;

  /// Adds an item whose key is not in the index. False: there is no room and no overflow bucket left; nothing was done.
  [[nodiscard]] bool insert(uint64_t hash, ItemPlace place);
  /// Removes an entry that find or find_place returned for `hash`.
  void erase(uint64_t hash, Slot* slot);

  [[nodiscard]] uint32_t write_count(uint64_t hash) const { return home(hash).write_count; }
  void count_write(uint64_t hash) { ++home(hash).write_count; }

  /// More than 7/8 of the overflow buckets are used: items should be erased.
  [[nodiscard]] bool crowded() const { return overflow_used_ > pool_buckets_ - pool_buckets_ / 8; }
  [[nodiscard]] size_t items() const { return items_; }
  [[nodiscard]] size_t buckets() const { return bucket_count_; }
  [[nodiscard]] size_t buckets_max() const { return buckets_max_; }
  [[nodiscard]] size_t overflow_buckets() const { return overflow_used_; }
  /// Bytes of the memory that were written to so far.
  [[nodiscard]] size_t touched_bytes() const { return (bucket_count_ + overflow_fresh_) * sizeof(Bucket); }

 private:
  struct alignas(64) Bucket {
    uint32_t overflow = 0;  // 1 + number of the overflow bucket in the pool; 0: none
    uint32_t write_count = 0;
    std::array<Slot, kSlotsPerBucket> slots{};
  };
  static_assert(sizeof(Bucket) == 64);
  struct Lookup;

  [[nodiscard]] static uint16_t tag_of(uint64_t hash) { return static_cast<uint16_t>(hash >> 48); }
  [[nodiscard]] static uint64_t word_of(uint64_t hash, ItemPlace place) {
    return (static_cast<uint64_t>(tag_of(hash)) << 48) | place;
  }
  [[nodiscard]] static uint32_t candidates(const Bucket& bucket, uint16_t tag);

  [[nodiscard]] size_t home_number(uint64_t hash) const {
    const size_t number = hash & (2 * round_buckets_ - 1);
    return number < bucket_count_ ? number : number - round_buckets_;
  }
  [[nodiscard]] Bucket& home(uint64_t hash) const { return buckets_[home_number(hash)]; }
  [[nodiscard]] Bucket* overflow_of(const Bucket& bucket) const {
    return bucket.overflow == 0 ? nullptr : &pool_[bucket.overflow - 1];
  }
  [[nodiscard]] Item* item_at(ItemPlace place) const {
    return reinterpret_cast<Item*>(items_base_ + (place - 1) * kItemAlignment);
  }
  void prefetch_item(ItemPlace place) const;

  void look_ahead(Lookup& lookup) const;
  bool look(Lookup& lookup, const ItemKey& key) const;
  [[nodiscard]] bool append(Bucket& home, Slot slot);
  [[nodiscard]] uint32_t take_overflow();
  void give_overflow(uint32_t number);
  void grow();
  void split_next();
  void prefetch_split(size_t ahead) const;

  Bucket* buckets_ = nullptr;
  size_t bucket_count_ = 0;
  size_t round_buckets_ = 0;  // bucket_count_ when the round began; a power of two
  size_t items_ = 0;
  std::byte* const items_base_;
  Bucket* pool_ = nullptr;
  size_t buckets_max_ = 0;
  size_t pool_buckets_ = 0;
  size_t overflow_fresh_ = 0;  // pool buckets from this number on were never used
  size_t overflow_used_ = 0;
  uint32_t overflow_free_ = 0;  // head of the list of buckets that were given back, linked by `overflow`; 0: none
};

}  // namespace skua::kv

#endif  // SKUA_KVSTORE_MEMORY_INDEX_H_
