#include "kvstore/memory/memory_tier.h"

#include <algorithm>
#include <array>
#include <utility>

#include "kvstore/codec/size_limits.h"
#include "kvstore/memory/prefetch.h"
#include "kvstore/types/mutants.h"
#include "rpc/base/check.h"

namespace skua::kv {
namespace {

/// Bytes of the index per expected item: 64-byte buckets of 5.25 items, a third more for overflow buckets, rounded.
constexpr size_t kIndexBytesPerItem = 16;
size_t index_share(const MemoryTier::Options& options) {
  const size_t share = options.budget_bytes / (options.expected_item_bytes + kIndexBytesPerItem) * kIndexBytesPerItem;
  return std::max(share, Index::kBytesMin);
}

}  // namespace

absl::StatusOr<std::unique_ptr<MemoryTier>> MemoryTier::create(Options options) {
  const size_t index_bytes = index_share(options);
  const size_t arena_bytes = options.budget_bytes - std::min(index_bytes, options.budget_bytes);
  auto arena = ItemArena::create({.bytes = arena_bytes,
                                  .region_bytes = options.region_bytes,
                                  .try_huge_pages = options.try_huge_pages,
                                  .on_map = std::move(options.on_map),
                                  .on_unmap = std::move(options.on_unmap)});
  if (!arena.ok()) return arena.status();
  auto index_memory = std::make_unique<rpc::Arena>(
      rpc::Arena::Options{.limit_bytes = index_bytes + (size_t{2} << 20), .try_huge_pages = options.try_huge_pages});
  absl::StatusOr<MutableByteSpan> mapped = index_memory->map(index_bytes);
  if (!mapped.ok()) return mapped.status();
  return std::unique_ptr<MemoryTier>(
      new MemoryTier(options, std::move(index_memory), mapped->first(index_bytes), *std::move(arena)));
}

MemoryTier::MemoryTier(const Options& options, std::unique_ptr<rpc::Arena> index_memory, MutableByteSpan index_bytes,
                       std::unique_ptr<ItemArena> arena)
    : fill_value_bytes_max_(options.fill_value_bytes_max),
      index_memory_(std::move(index_memory)),
      arena_(std::move(arena)),
      index_(index_bytes, arena_->base()),
      shards_(*arena_),
      room_(*arena_, index_, shards_) {}

// ---- Writes

MemoryTier::Put MemoryTier::put(const ItemKey& key, ByteSpan value, const Version& version) {
  ++counters_.puts;
  const bool dirty = version.dirty && shards_.lacks(key.shard, version.index);
  return write(draft_of(key, value, version.index, version.expiry, version.mark), dirty);
}

MemoryTier::Put MemoryTier::erase(const ItemKey& key, const Version& version) {
  ++counters_.puts;
  const bool dirty = version.dirty && shards_.lacks(key.shard, version.index);
  if (!dirty || mutant(Mutant::kDropTombstone)) return erase_clean(key, version.index);
  return write(tombstone_of(key, version.index), true);
}

/// The durable tier has the deletion already, so no tombstone is needed.
MemoryTier::Put MemoryTier::erase_clean(const ItemKey& key, uint64_t version) {
  Index::Slot* slot = index_.find(key);
  if (slot != nullptr) {
    Item* old = arena_->item_at(slot->place());
    if (old->version > version) return Put::kStale;
    arena_->mark_dead(*old);
    index_.erase(key.hash, slot);
  }
  index_.count_write(key.hash);
  return Put::kDone;
}

MemoryTier::Put MemoryTier::write(const Draft& draft, bool dirty) {
  SKUA_CHECK(draft.key.text.size() <= kKeyBytesMax, "the key is longer than the protocol allows");
  const size_t bytes = draft.bytes();
  if (bytes > item_bytes_max() || draft.value.size() > UINT32_MAX) return Put::kTooLarge;
  room_.pace(bytes);
  for (;;) {
    Region* region = room_.open(bytes, dirty ? MemoryRoom::kWriteHead : MemoryRoom::kCleanHead);
    if (region == nullptr) break;
    Index::Slot* slot = index_.find(draft.key);  // after open(), which may change the index
    const bool stale = slot != nullptr && arena_->item_at(slot->place())->version > draft.version;
    const Item* item = stale ? nullptr : write_item(*region, draft);
    const bool entered = item != nullptr && enter(draft.key, slot, item);
    if (entered) {
      last_written_ = item;
      region->add_item(bytes);
      if (dirty) shards_.note_dirty(draft.key.shard, *region, draft.version, bytes);
      index_.count_write(draft.key.hash);
    }
    room_.close(*region);
    if (stale) return Put::kStale;
    if (entered) return Put::kDone;
    if (!room_.evict_one_region()) break;  // the index is full
  }
  ++counters_.puts_refused;
  return Put::kBackPressure;
}

/// Makes the index refer to this item for the key. `slot` is the key's present slot, or null. False: no room in the
/// index.
bool MemoryTier::enter(const ItemKey& key, Index::Slot* slot, const Item* item) {
  if (slot == nullptr) return index_.insert(key.hash, arena_->place_of(item));
  arena_->mark_dead(*arena_->item_at(slot->place()));
  slot->set_place(arena_->place_of(item));
  return true;
}

bool MemoryTier::fill_from_disk(const ItemKey& key, ByteSpan value, const Version& version, Ticket ticket) {
  const Draft draft = draft_of(key, value, version.index, version.expiry, version.mark);
  const size_t bytes = draft.bytes();
  ++counters_.fills_refused;
  if (!shards_.is_live(key.shard)) return false;
  if (value.size() > fill_value_bytes_max_ || bytes > arena_->region_bytes() / 2) return false;
  if (index_.write_count(key.hash) != ticket.write_count && !mutant(Mutant::kIgnoreTicket) &&
      !mutant(Mutant::kStaleFill)) {
    return false;
  }
  room_.pace(bytes);
  Region* region = room_.open_head(bytes, MemoryRoom::kCleanHead);
  if (region == nullptr) return false;
  Index::Slot* slot = index_.find(key);
  if (slot != nullptr && !mutant(Mutant::kStaleFill)) return false;
  if (!enter(key, slot, write_item(*region, draft))) return false;
  region->add_item(bytes);
  --counters_.fills_refused;
  ++counters_.fills;
  return true;
}

// ---- Reads

MemoryTier::Lookup MemoryTier::get(const ItemKey& key, uint64_t now) {
  Lookup out;
  finish_lookup(key, index_.find(key), now, out);
  return out;
}

void MemoryTier::get_batch(std::span<const ItemKey> keys, uint64_t now, std::span<Lookup> out) {
  SKUA_CHECK(keys.size() == out.size(), "one result per key");
  std::array<Index::Slot*, Index::kBatch> slots;
  for (size_t at = 0; at < keys.size(); at += slots.size()) {
    const size_t count = std::min(slots.size(), keys.size() - at);
    index_.find_batch(keys.subspan(at, count), std::span(slots).first(count));
    for (size_t i = 0; i < count; ++i) {
      finish_lookup(keys[at + i], slots[i], now, out[at + i]);
      // These values arrive in the cache while the other lookups are finished.
      if (at + i < kValuesAhead) prefetch_bytes(out[at + i].value.bytes());
    }
  }
}

inline void MemoryTier::finish_lookup(const ItemKey& key, Index::Slot* slot, uint64_t now, Lookup& out) {
  if (slot == nullptr) {
    ++counters_.misses;
    out.value.reset();
    out.found = Found::kMiss;
    out.ticket = {index_.write_count(key.hash)};
    return;
  }
  const Item& item = *arena_->item_at(slot->place());
  if (item.is(Item::kTombstone) || item.expired(now)) {
    ++counters_.absent_hits;
    out.value.reset();
    out.found = Found::kAbsent;
    return;
  }
  ++counters_.hits;
  slot->set_used();
  Region& region = arena_->region_of(slot->place());
  region.pin();
  out.found = Found::kHit;
  out.expiry = item.expiry();
  out.value = PinnedValue(item.value(), item.version, &region, &Region::unpin, 0, item.mark());
}

MemoryTier::Counters MemoryTier::counters() const {
  Counters now = counters_;
  static_cast<MemoryRoom::Counters&>(now) = room_.counters();
  now.items = index_.items();
  now.dirty_bytes = shards_.dirty_bytes();
  for (size_t i = 0; i < arena_->region_count(); ++i) now.pinned_regions += arena_->region(i).pins() != 0;
  now.free_regions = arena_->free_regions();
  now.resident_bytes = arena_->touched_bytes() + index_.touched_bytes();
  return now;
}

}  // namespace skua::kv
