// An item of the memory tier: one version of one key, in the arena.
//
//    0        8         16      20            24          26      28         32
//    +--------+---------+-------+-------------+-----------+-------+----------+-----------+-----+-----+-------+-----+
//    | hash   | version | shard | value bytes | key bytes | flags | tag      | [expiry]  | key | pad | value | pad |
//    +--------+---------+-------+-------------+-----------+-------+----------+-----------+-----+-----+-------+-----+
//                                                                             8 bytes, only   value and end: multiples
//                                                                             if kHasExpiry   of 8
//
// A 24-byte key with a 100-byte value takes 32 + 24 + 104 = 160 bytes. Key, value, version, expiry and
// mark (types/record_mark.h: the tag and kRow) never change once the item is in the index; only the other flags do, and
// only on the owner's thread.
#ifndef SKUA_KVSTORE_MEMORY_ITEM_H_
#define SKUA_KVSTORE_MEMORY_ITEM_H_

#include <cstddef>
#include <cstdint>
#include <string_view>

#include "kvstore/codec/key_hash.h"
#include "kvstore/types/record_mark.h"
#include "rpc/base/bytes.h"
#include "rpc/base/rng.h"

namespace skua::kv {

/// A key of one shard with its hash, made once per operation. `text` refers to the caller's bytes.
struct ItemKey {
  ItemKey() = default;
  ItemKey(uint32_t shard_number, std::string_view key) : ItemKey(shard_number, key, key_hash(key)) {}
  /// `hash_of_key`: of whatever KeyHasher; always of the same one. The hash is mixed once more, because the keys of one
  /// shard may have the same upper bits in it.
  ItemKey(uint32_t shard_number, std::string_view key, uint64_t hash_of_key)
      : text(key), hash(mix64(hash_of_key ^ shard_number)), shard(shard_number) {}

  std::string_view text{};
  uint64_t hash = 0;
  uint32_t shard = 0;
};

/// Where an item begins: its offset in the arena / 8 + 1. 0 means no item.
using ItemPlace = uint64_t;

inline constexpr size_t kItemAlignment = 8;

[[nodiscard]] constexpr size_t round_up_to_item(size_t bytes) {
  return (bytes + kItemAlignment - 1) & ~(kItemAlignment - 1);
}

struct Item {
  enum Flag : uint16_t {
    kTombstone = 1,  ///< the key was deleted by this version
    kHasExpiry = 2,
    kDead = 4,  ///< the index has a newer version of the key, or none
    kRow = 8,   ///< RecordMark::row
  };

  uint64_t hash;
  uint64_t version;
  uint32_t shard;
  uint32_t value_bytes;
  uint16_t key_bytes;
  uint16_t flags;
  uint32_t tag;  ///< RecordMark::tag

  [[nodiscard]] static size_t value_offset(size_t key_bytes, bool has_expiry) {
    return round_up_to_item(sizeof(Item) + (has_expiry ? sizeof(uint64_t) : 0) + key_bytes);
  }
  [[nodiscard]] static size_t bytes_for(size_t key_bytes, size_t value_bytes, bool has_expiry) {
    return value_offset(key_bytes, has_expiry) + round_up_to_item(value_bytes);
  }

  [[nodiscard]] bool is(Flag flag) const { return (flags & flag) != 0; }
  [[nodiscard]] std::byte* start() { return reinterpret_cast<std::byte*>(this); }
  [[nodiscard]] const std::byte* start() const { return reinterpret_cast<const std::byte*>(this); }
  [[nodiscard]] std::byte* key_start() { return start() + key_offset(); }
  [[nodiscard]] std::byte* value_start() { return start() + value_offset(key_bytes, is(kHasExpiry)); }

  [[nodiscard]] std::string_view key() const { return as_string_view({start() + key_offset(), key_bytes}); }
  [[nodiscard]] ByteSpan value() const { return {start() + value_offset(key_bytes, is(kHasExpiry)), value_bytes}; }
  [[nodiscard]] size_t bytes() const { return bytes_for(key_bytes, value_bytes, is(kHasExpiry)); }

  /// The expiry time; 0: never.
  [[nodiscard]] uint64_t expiry() const { return is(kHasExpiry) ? load_le<uint64_t>(start() + sizeof(Item)) : 0; }
  void set_expiry(uint64_t expiry) { store_le(start() + sizeof(Item), expiry); }
  [[nodiscard]] RecordMark mark() const { return {tag, is(kRow)}; }
  [[nodiscard]] bool expired(uint64_t now) const { return is(kHasExpiry) && expiry() <= now; }

  /// Compares the whole hash first: another key passes this comparison with a probability of 2^-64.
  [[nodiscard]] bool matches(const ItemKey& wanted) const {
    return hash == wanted.hash && shard == wanted.shard && key() == wanted.text;
  }

 private:
  [[nodiscard]] size_t key_offset() const { return sizeof(Item) + (is(kHasExpiry) ? sizeof(uint64_t) : 0); }
};
static_assert(sizeof(Item) == 32);

}  // namespace skua::kv

#endif  // SKUA_KVSTORE_MEMORY_ITEM_H_
