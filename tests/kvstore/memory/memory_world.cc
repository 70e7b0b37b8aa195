#include "tests/kvstore/memory/memory_world.h"

#include <algorithm>

#include "rpc/base/check.h"

namespace skua::kv {

namespace {

/// Reads of the durable tier under way.
constexpr size_t kFillsMax = 30;

}  // namespace

MemoryWorld::MemoryWorld(uint64_t seed) : rng_(seed) {
  options_.region_bytes = size_t{1} << rng_.between(11, 13);
  options_.budget_bytes = options_.region_bytes * rng_.between(12, 40);
  options_.expected_item_bytes = rng_.between(48, 512);
  options_.fill_value_bytes_max = options_.region_bytes / 4;
  options_.try_huge_pages = false;
  value_bytes_max_ = rng_.between(16, options_.region_bytes / 8);
  const uint64_t typical_item = 64 + value_bytes_max_ / 2;
  key_count_ = 1 + options_.budget_bytes * rng_.between(1, 20) / (2 * typical_item);
  lag_max_ = rng_.between(1, options_.budget_bytes / typical_item);
  write_share_ = 0.1 + 0.7 * rng_.uniform();
  auto tier = MemoryTier::create(options_);
  SKUA_CHECK(tier.ok(), "the world's budget is too small");
  tier_ = *std::move(tier);
  if (rng_.chance(0.5)) tier_->bind_to_this_thread();
  shards_.resize(rng_.between(1, 4));
  for (ShardState& shard : shards_) shard.number = tier_->add_shard(0);
}

void MemoryWorld::fail(const std::string& what) {
  if (failure_.empty()) failure_ = what;
}

std::string MemoryWorld::run(int steps) {
  for (int i = 0; i < steps && failure_.empty(); ++i) step();
  settle();
  for (const ShardState& shard : shards_) {
    for (const auto& [key, record] : shard.disk) data_bytes_ += key.size() + record.value.size() + sizeof(Item);
    for (const auto& [key, record] : shard.newest) {
      const auto on_disk = shard.disk.find(key);
      const bool same = on_disk != shard.disk.end() ? on_disk->second.version == record.version : !record.present;
      if (!same) fail("the world itself lost " + key);
    }
  }
  if (failure_.empty()) {
    counters_ = tier_->counters();
    if (counters_.dirty_bytes != 0) fail("bytes are dirty though everything was applied");
    if (counters_.pinned_regions != 0) fail("regions are pinned though everything was released");
    if (counters_.resident_bytes > options_.budget_bytes + options_.budget_bytes / 10) fail("over the budget");
  }
  return failure_;
}

void MemoryWorld::step() {
  const size_t which = rng_.below(shards_.size());
  ShardState& shard = shards_[which];
  if (rng_.chance(write_share_)) {
    write(shard);
  } else {
    get_some(which);
  }
  if (shard.unapplied.size() > lag_max_ || rng_.chance(0.02)) apply_some(shard, rng_.below(shard.unapplied.size() + 1));
  if (rng_.chance(0.05)) tier_->mark_clean(shard.number, shard.disk_index);
  for (size_t i = fills_.size(); i > 0 && rng_.chance(0.6); --i) finish_fill();
  if (rng_.chance(0.01)) check_pins();
  if (rng_.chance(0.01)) ++now_;
  if (rng_.chance(0.0005)) drop(shard);
}

// Half of the traffic is for an eighth of the keys.
std::string MemoryWorld::random_key() {
  const uint64_t range = rng_.chance(0.5) ? key_count_ / 8 + 1 : key_count_;
  const uint64_t number = rng_.below(range);
  return "k" + std::to_string(number) + std::string(number % 17, '.');
}

std::string MemoryWorld::random_value() {
  size_t bytes = rng_.below(value_bytes_max_);
  if (rng_.chance(0.005)) bytes = rng_.below(3 * options_.region_bytes);
  std::string value(bytes, static_cast<char>('a' + rng_.below(26)));
  for (size_t i = 0; i < std::min<size_t>(bytes, 8); ++i) value[i] = static_cast<char>(rng_.next());
  return value;
}

void MemoryWorld::write(ShardState& shard) {
  const std::string key = random_key();
  if (rng_.chance(0.2)) {
    erase(shard, key);
  } else {
    put(shard, key);
  }
}

void MemoryWorld::put(ShardState& shard, const std::string& key) {
  Record record = {.version = shard.last_index + 1, .expiry = 0, .present = true, .value = random_value()};
  if (rng_.chance(0.1)) record.expiry = now_ + rng_.below(20);
  const ItemKey item_key(shard.number, key);
  const MemoryTier::Version version = {.index = record.version, .expiry = record.expiry};
  auto outcome = tier_->put(item_key, as_byte_span(record.value), version);
  if (outcome == MemoryTier::Put::kTooLarge) {
    if (record.value.size() + 200 < tier_->item_bytes_max()) fail("said to be too large, and is not");
    return;
  }
  if (outcome == MemoryTier::Put::kBackPressure) {
    settle();
    outcome = tier_->put(item_key, as_byte_span(record.value), version);
    if (outcome != MemoryTier::Put::kDone) return fail("no room though nothing is dirty or pinned: " + key);
  }
  if (outcome != MemoryTier::Put::kDone) return fail("a new version is said to be stale: " + key);
  ++shard.last_index;
  shard.newest[key] = record;
  shard.unapplied.push_back({key, std::move(record)});
}

void MemoryWorld::erase(ShardState& shard, const std::string& key) {
  const ItemKey item_key(shard.number, key);
  const Record record = {.version = shard.last_index + 1, .expiry = 0, .present = false, .value = {}};
  auto outcome = tier_->erase(item_key, {.index = record.version});
  if (outcome == MemoryTier::Put::kBackPressure) {
    settle();
    outcome = tier_->erase(item_key, {.index = record.version});
  }
  if (outcome != MemoryTier::Put::kDone) return fail("a deletion was refused: " + key);
  ++shard.last_index;
  shard.newest[key] = record;
  shard.unapplied.push_back({key, record});
}

void MemoryWorld::get_some(size_t which) {
  const uint32_t number = shards_[which].number;
  if (rng_.chance(0.7)) {
    const std::string key = random_key();
    return check(which, key, tier_->get(ItemKey(number, key), now_));
  }
  std::vector<std::string> names(rng_.below(40));
  std::vector<ItemKey> keys;
  keys.reserve(names.size());
  for (std::string& name : names) name = random_key();
  for (const std::string& name : names) keys.emplace_back(number, name);
  std::vector<MemoryTier::Lookup> found(keys.size());
  tier_->get_batch(keys, now_, found);
  for (size_t i = 0; i < names.size(); ++i) check(which, names[i], std::move(found[i]));
}

void MemoryWorld::check(size_t which, const std::string& key, MemoryTier::Lookup lookup) {
  ShardState& shard = shards_[which];
  const auto known = shard.newest.find(key);
  const bool there = known != shard.newest.end() && visible(known->second);
  if (lookup.found == MemoryTier::Found::kHit) {
    if (!there) return fail("a hit for an absent key: " + key);
    const Record& record = known->second;
    if (lookup.value.version() != record.version || as_string_view(lookup.value.bytes()) != record.value ||
        lookup.expiry != record.expiry) {
      return fail("a hit with another version than the newest: " + key);
    }
    if (rng_.chance(0.1)) pins_.push_back({std::move(lookup.value), record.value});
    return;
  }
  if (lookup.found == MemoryTier::Found::kAbsent) {
    if (there) fail("a key that exists is said to be absent: " + key);
    return;
  }
  const auto stored = shard.disk.find(key);
  const uint64_t disk_version = stored != shard.disk.end() ? stored->second.version : 0;
  const bool disk_right =
      known != shard.newest.end() ? disk_version == known->second.version : stored == shard.disk.end();
  if (!disk_right) return fail("a miss though the durable tier has another version: " + key);
  if (stored == shard.disk.end() || !visible(stored->second)) return;
  if (fills_.size() < kFillsMax) fills_.push_back({which, shard.number, key, stored->second, lookup.ticket});
}

void MemoryWorld::finish_fill() {
  const size_t which = rng_.below(fills_.size());
  std::swap(fills_[which], fills_.back());
  const Fill fill = std::move(fills_.back());
  fills_.pop_back();
  const ItemKey key(fill.number, fill.key);
  const MemoryTier::Version version = {.index = fill.record.version, .expiry = fill.record.expiry};
  tier_->fill_from_disk(key, as_byte_span(fill.record.value), version, fill.ticket);
  check(fill.shard, fill.key, tier_->get(ItemKey(shards_[fill.shard].number, fill.key), now_));
}

void MemoryWorld::apply_some(ShardState& shard, size_t count) {
  for (; count > 0; --count) {
    Write& write = shard.unapplied.front();
    shard.disk_index = write.record.version;
    shard.disk[write.key] = std::move(write.record);
    shard.unapplied.pop_front();
  }
  if (rng_.chance(0.5)) tier_->mark_clean(shard.number, shard.disk_index);
}

/// The shard leaves this worker, and another comes whose contents are those of its durable tier.
void MemoryWorld::drop(ShardState& shard) {
  tier_->drop_shard(shard.number);
  const bool same_data = rng_.chance(0.5);
  if (same_data) {
    apply_without_tier(shard);
  } else {
    shard = {};
  }
  shard.number = tier_->add_shard(shard.disk_index);
  std::erase_if(fills_, [this](const Fill& fill) { return fill.number == shards_[fill.shard].number; });
}

void MemoryWorld::apply_without_tier(ShardState& shard) {
  for (Write& write : shard.unapplied) shard.disk[write.key] = std::move(write.record);
  shard.unapplied.clear();
  shard.disk_index = shard.last_index;
}

void MemoryWorld::check_pins() {
  for (const Pin& pin : pins_) {
    if (as_string_view(pin.value.bytes()) != pin.bytes) return fail("a pinned value changed");
  }
  const size_t kept = rng_.below(pins_.size() + 1);
  while (pins_.size() > kept) {
    std::swap(pins_[rng_.below(pins_.size())], pins_.back());
    pins_.pop_back();
  }
}

/// Everything durable, nothing pinned.
void MemoryWorld::settle() {
  for (ShardState& shard : shards_) {
    apply_some(shard, shard.unapplied.size());
    tier_->mark_clean(shard.number, shard.disk_index);
  }
  check_pins();
  pins_.clear();
}

}  // namespace skua::kv
