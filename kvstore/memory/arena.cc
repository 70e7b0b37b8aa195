#include "kvstore/memory/arena.h"

#include <algorithm>
#include <bit>
#include <utility>

#include "absl/strings/str_cat.h"
#include "kvstore/types/mutants.h"
#include "rpc/base/check.h"

namespace skua::kv {
namespace {

/// rpc::Arena rounds mappings up to multiples of this.
constexpr size_t kMappingGranule = size_t{2} << 20;

size_t mapping_bytes(size_t bytes) {
  return (bytes + kMappingGranule - 1) / kMappingGranule * kMappingGranule;
}

}  // namespace

ItemArena::ItemArena(Options options)
    : region_shift_(static_cast<unsigned>(std::countr_zero(options.region_bytes))),
      region_count_(options.bytes / options.region_bytes),
      slab_({.limit_bytes = mapping_bytes(options.bytes),
             .try_huge_pages = options.try_huge_pages,
             .on_map = std::move(options.on_map),
             .on_unmap = std::move(options.on_unmap)}),
      regions_(std::make_unique<Region[]>(region_count_)),
      free_count_(region_count_),
      touched_(region_count_) {
  for (size_t i = 0; i < region_count_; ++i) {
    regions_[i].number = static_cast<uint32_t>(i);
    regions_[i].pinned_slots = &pinned_slots_;
  }
  condemned_.reserve(region_count_);
}

absl::StatusOr<std::unique_ptr<ItemArena>> ItemArena::create(Options options) {
  SKUA_CHECK(std::has_single_bit(options.region_bytes), "region_bytes must be a power of two");
  const size_t count = options.bytes / options.region_bytes;
  if (count < kRegionsMin || count >= UINT32_MAX) {
    return absl::InvalidArgumentError(absl::StrCat("a memory tier of ", options.bytes, " bytes for items has ", count,
                                                   " regions of ", options.region_bytes, " bytes; it needs at least ",
                                                   kRegionsMin, ": raise the memory budget"));
  }
  std::unique_ptr<ItemArena> arena(new ItemArena(std::move(options)));
  absl::StatusOr<MutableByteSpan> slab = arena->slab_.map(count << arena->region_shift_);
  if (!slab.ok()) return slab.status();
  arena->base_ = slab->data();
  return arena;
}

ItemArena::~ItemArena() {
  for (size_t i = 0; i < region_count_; ++i) {
    SKUA_CHECK(regions_[i].pins() == 0, "values must be given back before the memory tier that they lie in is closed");
  }
}

void ItemArena::bind_to_this_thread() {
  for (size_t i = 0; i < region_count_; ++i) {
    SKUA_CHECK(regions_[i].pins_taken == 0, "bound to a thread after the first pin");
    regions_[i].owner_mark = this_thread_mark();
  }
}

void ItemArena::take_free(Region& region) {
  --free_count_;
  if (touched_[region.number]) return;
  touched_[region.number] = true;
  ++touched_count_;
}

Region* ItemArena::open_region() {
  if (free_count_ == 0) return nullptr;
  for (; lowest_free_hint_ < region_count_; ++lowest_free_hint_) {
    Region& region = regions_[lowest_free_hint_];
    if (region.state != State::kFree) continue;
    region.state = State::kOpen;
    take_free(region);
    return &region;
  }
  return nullptr;
}

Region* ItemArena::open_run(size_t slots) {
  if (free_count_ < slots) return nullptr;
  size_t neighbours = 0;
  for (size_t i = region_count_; i-- > 0;) {
    neighbours = regions_[i].state == State::kFree ? neighbours + 1 : 0;
    if (neighbours < slots) continue;
    claim(i, slots);
    return open_claimed_run(i, slots);
  }
  return nullptr;
}

std::optional<size_t> ItemArena::find_evictable_run(size_t slots) const {
  size_t neighbours = 0;
  for (size_t i = region_count_; i-- > 0;) {
    const Region& region = regions_[i];
    const Region& head = region.state == State::kRunTail ? regions_[region.run_head] : region;
    neighbours = region.state == State::kFree || head.is_evictable() ? neighbours + 1 : 0;
    if (neighbours == slots) return i;
  }
  return std::nullopt;
}

void ItemArena::claim(size_t first, size_t slots) {
  for (size_t i = first; i < first + slots; ++i) {
    Region& region = regions_[i];
    if (region.state != State::kFree) continue;
    take_free(region);
    region.state = State::kRunTail;
    region.run_head = region.number;  // it is its own head and not kSealed, so find_evictable_run() skips it
  }
}

Region* ItemArena::open_claimed_run(size_t first, size_t slots) {
  Region& head = regions_[first];
  for (size_t i = first; i < first + slots; ++i) {
    SKUA_CHECK(regions_[i].state == State::kRunTail && regions_[i].run_head == i, "a slot of a run was not claimed");
    regions_[i].run_head = head.number;
  }
  head.state = State::kOpen;
  head.slots = static_cast<uint32_t>(slots);
  return &head;
}

void ItemArena::make_free(Region& region) {
  for (size_t i = region.number + region.slots; i-- > region.number;) {
    regions_[i].state = State::kFree;
    ++free_count_;
  }
  lowest_free_hint_ = std::min<size_t>(lowest_free_hint_, region.number);
  region.count_returns();
  region.slots = 1;
  region.used_bytes = 0;
  region.live_items = 0;
}

void ItemArena::seal(Region& region) {
  SKUA_CHECK(region.state == State::kOpen, "sealed a region that is not open");
  region.state = State::kSealed;
  if (region.dirty_segments == 0) ++clean_count_;
}

void ItemArena::add_dirty_segment(Region& region) {
  SKUA_CHECK(region.state == State::kOpen || region.state == State::kSealed, "a region that may go has a new write");
  // The region may be sealed: a batch marks its items dirty after all of them were written.
  if (region.dirty_segments++ == 0 && region.state == State::kSealed) --clean_count_;
}

void ItemArena::remove_dirty_segment(Region& region) {
  if (--region.dirty_segments == 0 && region.state == State::kSealed) ++clean_count_;
}

Region* ItemArena::next_victim(size_t steps_max) {
  if (clean_count_ == 0 && !mutant(Mutant::kEvictDirty)) return nullptr;
  for (size_t step = 0; step < std::min(steps_max, region_count_); ++step) {
    Region& region = regions_[hand_];
    hand_ = (hand_ + 1) % region_count_;
    if (!region.is_evictable()) continue;
    begin_scan(region);
    return &region;
  }
  return nullptr;
}

void ItemArena::begin_scan(Region& region) {
  if (region.dirty_segments == 0) --clean_count_;
  region.state = State::kScanning;
}

void ItemArena::retire(Region& region) {
  SKUA_CHECK(region.state == State::kScanning && region.live_items == 0, "retired a region with items in the index");
  if (region.is_unpinned()) {
    make_free(region);
  } else {
    region.state = State::kCondemned;
    condemned_.push_back(region.number);
  }
}

void ItemArena::collect_condemned() {
  std::erase_if(condemned_, [this](uint32_t number) {
    if (!regions_[number].is_unpinned()) return false;
    make_free(regions_[number]);
    return true;
  });
}

}  // namespace skua::kv
