#include "kvstore/memory/index.h"

#ifdef __SSE2__
#include <emmintrin.h>
#endif

#include <algorithm>
#include <bit>

#include "kvstore/memory/prefetch.h"
#include "kvstore/types/mutants.h"
#include "rpc/base/check.h"

namespace skua::kv {
namespace {

/// A round of growth begins above this many quarters of an item per bucket: 5.25 items.
constexpr size_t kItemsPerBucketQuarters = 21;
/// Buckets that one insertion splits while a round lasts.
constexpr size_t kSplitsPerInsert = 2;
constexpr size_t kBucketsInitial = 64;

}  // namespace

/// The state of one lookup of a batch.
struct Index::Lookup {
  Bucket* bucket;
  uint32_t candidates;
  uint16_t tag;
  uint16_t key;
  Slot* found;
};

Index::Index(MutableByteSpan memory, std::byte* items) : items_base_(items) {
  SKUA_CHECK(memory.size() >= kBytesMin, "too little memory for an index");
  SKUA_CHECK(reinterpret_cast<uintptr_t>(memory.data()) % sizeof(Bucket) == 0, "the index's memory is not aligned");
  const size_t all = memory.size() / sizeof(Bucket);
  pool_buckets_ = std::min<size_t>(all / 4, UINT32_MAX - 1);
  buckets_max_ = all - all / 4;
  buckets_ = reinterpret_cast<Bucket*>(memory.data());
  pool_ = buckets_ + buckets_max_;
  bucket_count_ = round_buckets_ = kBucketsInitial;
  SKUA_CHECK(bucket_count_ <= buckets_max_, "kBytesMin is too small");
}

/// Bit i is set if slot i has the tag and is not empty.
inline uint32_t Index::candidates(const Bucket& bucket, uint16_t tag) {
#ifdef __SSE2__
  // Compares all eight words at once: their upper 16 bits are packed side by side. An empty slot would match tag 0, so
  // the loop below handles tag 0.
  if (tag != 0) [[likely]] {
    const auto* words = reinterpret_cast<const __m128i*>(&bucket);
    const auto upper_halves = [](__m128i first, __m128i second) {
      const __m128i halves =
          _mm_castps_si128(_mm_shuffle_ps(_mm_castsi128_ps(first), _mm_castsi128_ps(second), _MM_SHUFFLE(3, 1, 3, 1)));
      return _mm_srai_epi32(halves, 16);  // sign-extended, so that the signed packing below keeps all 16 bits
    };
    const __m128i tags = _mm_packs_epi32(upper_halves(_mm_load_si128(words), _mm_load_si128(words + 1)),
                                         upper_halves(_mm_load_si128(words + 2), _mm_load_si128(words + 3)));
    const __m128i equal = _mm_cmpeq_epi16(tags, _mm_set1_epi16(static_cast<int16_t>(tag)));
    const auto mask = static_cast<uint32_t>(_mm_movemask_epi8(_mm_packs_epi16(equal, _mm_setzero_si128())));
    return mask >> 1;  // the first word is not a slot
  }
#endif
  uint32_t mask = 0;
  for (size_t i = 0; i < kSlotsPerBucket; ++i) {
    const uint64_t word = bucket.slots[i].word_;
    mask |= static_cast<uint32_t>((word >> 48) == tag && word != 0) << i;
  }
  return mask;
}

inline void Index::prefetch_item(ItemPlace place) const {
  const std::byte* item = items_base_ + (place - 1) * kItemAlignment;
  __builtin_prefetch(item);
  __builtin_prefetch(item + 56);  // header and key of 24 bytes straddle two lines more often than not
}

void Index::prefetch_items(uint64_t hash) const {
  keep_prefetches();
  const Bucket& bucket = home(hash);
  for (uint32_t mask = candidates(bucket, tag_of(hash)); mask != 0; mask &= mask - 1) {
    prefetch_item(bucket.slots[static_cast<size_t>(std::countr_zero(mask))].place());
  }
}

Index::Slot* Index::find(const ItemKey& key) {
  const uint16_t tag = tag_of(key.hash);
  for (Bucket* bucket = &home(key.hash); bucket != nullptr; bucket = overflow_of(*bucket)) {
    for (uint32_t mask = candidates(*bucket, tag); mask != 0; mask &= mask - 1) {
      Slot& slot = bucket->slots[static_cast<size_t>(std::countr_zero(mask))];
      if (item_at(slot.place())->matches(key)) return &slot;
    }
  }
  return nullptr;
}

/// The bucket's cache line has been fetched. Prefetches what the lookup needs next: candidates, or the overflow bucket.
inline void Index::look_ahead(Lookup& lookup) const {
  lookup.candidates = candidates(*lookup.bucket, lookup.tag);
  for (uint32_t mask = lookup.candidates; mask != 0; mask &= mask - 1) {
    prefetch_item(lookup.bucket->slots[static_cast<size_t>(std::countr_zero(mask))].place());
  }
  if (lookup.candidates == 0 && lookup.bucket->overflow != 0) __builtin_prefetch(overflow_of(*lookup.bucket));
}

/// The candidates' cache lines have been fetched, too. True: the lookup is decided.
inline bool Index::look(Lookup& lookup, const ItemKey& key) const {
  for (uint32_t mask = lookup.candidates; mask != 0; mask &= mask - 1) {
    Slot& slot = lookup.bucket->slots[static_cast<size_t>(std::countr_zero(mask))];
    if (item_at(slot.place())->matches(key)) {
      lookup.found = &slot;
      return true;
    }
  }
  lookup.bucket = overflow_of(*lookup.bucket);
  return lookup.bucket == nullptr;
}

void Index::find_batch(std::span<const ItemKey> keys, std::span<Slot*> out) {
  SKUA_CHECK(keys.size() == out.size() && keys.size() <= kBatch, "one result per key, and a batch of them");
  std::array<Lookup, kBatch> lookups;
  size_t pending = keys.size();
  for (size_t i = 0; i < pending; ++i) {
    Bucket* bucket = &home(keys[i].hash);
    __builtin_prefetch(bucket);
    lookups[i] = {bucket, 0, tag_of(keys[i].hash), static_cast<uint16_t>(i), nullptr};
  }
  while (pending > 0) {
    for (size_t i = 0; i < pending; ++i) look_ahead(lookups[i]);
    size_t undecided = 0;
    for (size_t i = 0; i < pending; ++i) {
      if (look(lookups[i], keys[lookups[i].key])) {
        out[lookups[i].key] = lookups[i].found;
      } else {
        lookups[undecided++] = lookups[i];
      }
    }
    pending = undecided;
  }
}

Index::Slot* Index::find_place(uint64_t hash, ItemPlace place) {
  for (Bucket* bucket = &home(hash); bucket != nullptr; bucket = overflow_of(*bucket)) {
    for (Slot& slot : bucket->slots) {
      if (slot.place() == place) return &slot;
    }
  }
  return nullptr;
}

bool Index::insert(uint64_t hash, ItemPlace place) {
  Slot slot;
  slot.word_ = word_of(hash, place);
  if (!append(home(hash), slot)) return false;
  ++items_;
  grow();
  return true;
}

void Index::erase(uint64_t hash, Slot* slot) {
  Bucket* before_last = nullptr;
  Bucket* last = &home(hash);
  while (last->overflow != 0) {
    before_last = last;
    last = overflow_of(*last);
  }
  size_t filled = kSlotsPerBucket;
  while (filled > 0 && last->slots[filled - 1].word_ == 0) --filled;
  SKUA_CHECK(filled > 0, "erased a slot of an empty bucket");
  *slot = last->slots[filled - 1];
  last->slots[filled - 1].word_ = 0;
  --items_;
  if (filled == 1 && before_last != nullptr) {
    give_overflow(before_last->overflow);
    before_last->overflow = 0;
  }
}

/// Puts a slot behind the last one of a chain. False: the chain is full and the pool is used up.
bool Index::append(Bucket& home, Slot slot) {
  Bucket* last = &home;
  while (last->overflow != 0) last = overflow_of(*last);
  for (Slot& free : last->slots) {
    if (free.word_ == 0) {
      free = slot;
      return true;
    }
  }
  const uint32_t number = take_overflow();
  if (number == 0) return false;
  last->overflow = number;
  pool_[number - 1].slots[0] = slot;
  return true;
}

/// An empty overflow bucket: 1 + its number. 0: the pool is used up.
uint32_t Index::take_overflow() {
  uint32_t number = overflow_free_;
  if (number != 0) {
    overflow_free_ = pool_[number - 1].overflow;
    pool_[number - 1].overflow = 0;
  } else {
    if (overflow_fresh_ == pool_buckets_) return 0;
    number = static_cast<uint32_t>(++overflow_fresh_);
  }
  ++overflow_used_;
  return number;
}

/// Gives an overflow bucket back to the pool. Its slots must be empty.
void Index::give_overflow(uint32_t number) {
  pool_[number - 1].overflow = overflow_free_;
  overflow_free_ = number;
  --overflow_used_;
}

void Index::grow() {
  const bool in_round = bucket_count_ != round_buckets_;
  if (!in_round && 4 * items_ <= kItemsPerBucketQuarters * bucket_count_) return;
  for (size_t i = 0; i < kSplitsPerInsert && bucket_count_ < buckets_max_; ++i) {
    prefetch_split(2 * kSplitsPerInsert);
    split_next();
    if (bucket_count_ == 2 * round_buckets_) {
      round_buckets_ = bucket_count_;
      return;
    }
  }
}

/// Prefetches the bucket that is split `ahead` splits from now, and the items of the bucket that is split half as many
/// splits from now.
void Index::prefetch_split(size_t ahead) const {
  keep_prefetches();
  const size_t next = bucket_count_ - round_buckets_;
  if (next + ahead >= round_buckets_) return;
  __builtin_prefetch(&buckets_[next + ahead]);
  for (const Slot& slot : buckets_[next + ahead / 2].slots) {
    if (slot.word_ != 0) __builtin_prefetch(item_at(slot.place()));
  }
}

/// Distributes a chain over its bucket and a new one. This never takes more overflow buckets than the chain had: the
/// items of at most k + 1 buckets go into two chains, only the last bucket of each chain may be partly filled, and
/// neither chain's first bucket is from the pool. An overflow bucket goes back to the pool as soon as its slots are
/// copied, so the pool cannot run out meanwhile.
void Index::split_next() {
  const size_t old_number = bucket_count_ - round_buckets_;
  Bucket& old_bucket = buckets_[old_number];
  Bucket& new_bucket = buckets_[bucket_count_];
  ++bucket_count_;
  new_bucket.write_count = old_bucket.write_count;
  std::array<Slot, kSlotsPerBucket> slots = old_bucket.slots;
  old_bucket.slots = {};
  uint32_t overflow = old_bucket.overflow;
  old_bucket.overflow = 0;
  for (;;) {
    for (const Slot slot : slots) {
      if (slot.word_ == 0) break;
      const bool to_new = (item_at(slot.place())->hash & round_buckets_) != 0;
      SKUA_CHECK(append(to_new ? new_bucket : old_bucket, slot), "splitting took more overflow buckets than it freed");
    }
    if (overflow == 0) return;
    Bucket& link = pool_[overflow - 1];
    slots = link.slots;
    link.slots = {};
    if (mutant(Mutant::kLoseItemOnSplit)) slots[0].word_ = 0;
    const uint32_t after = link.overflow;
    give_overflow(overflow);
    overflow = after;
  }
}

}  // namespace skua::kv
